//! `cargo xtask soak`: tests that take minutes.

use crate::steps::{cargo, run};

/// Runs the tests that `cargo test` leaves out because they take long: those that are marked as ignored. They
/// are built already.
pub(crate) fn tests() -> anyhow::Result<()> {
    run(&mut cargo("test --workspace --locked --tests -- --ignored"))
}

/// Runs all that takes long. The physics of the simulator alone takes most of an hour.
pub(crate) fn all() -> anyhow::Result<()> {
    tests()?;
    run(cargo("test --release --locked -p ebbtide-study --test physics")
        .env("EBBTIDE_PHYSICS", "long"))
}
