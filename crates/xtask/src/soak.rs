//! `cargo xtask soak`: tests that take minutes.

use crate::faults;
use crate::steps::{cargo, run};

/// Runs the ignored tests that take a minute in a debug build. They are built already.
pub(crate) fn tests() -> anyhow::Result<()> {
    run(&mut cargo("test --locked -p ebbtide-workloads --test tpcc_locality -- --ignored"))?;
    run(&mut cargo("test --locked -p ebbtide-cli --test size -- --ignored"))
}

/// Runs all that takes long. The long run of mapped regions takes hours.
pub(crate) fn all() -> anyhow::Result<()> {
    tests()?;
    // The comparison with other stores is a workspace of its own, with their sources.
    run(&mut cargo("check --locked --manifest-path peers/Cargo.toml"))?;
    run(cargo("test --locked -p ebbtide-server --test server").env("EBBTIDE_DEVICE_PATH", "aio"))?;
    run(&mut cargo("test --release --locked -p ebbtide-study --test size -- --include-ignored"))?;
    run(cargo("test --release --locked -p ebbtide-study --test physics")
        .env("EBBTIDE_PHYSICS", "long"))?;
    faults::run_all()?;
    run(&mut cargo(
        "test --release --locked -p ebbtide-engine --test mapped -- --ignored in_a_long_run",
    ))
}
