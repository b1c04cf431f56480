//! How panics end: jobs that fail, and transactions that run again, unwind.

#[cfg(panic = "abort")]
compile_error!(
    "ebbtide needs panic = \"unwind\", which is Cargo's default: a job that fails, and a transaction that \
     meets another and runs again, unwind. With panic = \"abort\" each of them would end the process. \
     Remove panic = \"abort\" from the profile in Cargo.toml."
);
