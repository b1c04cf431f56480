//! `cargo xtask soak`: tests that take minutes.

use crate::faults;
use crate::steps::{cargo, run};

/// Runs the ignored tests that take a minute in a debug build. They are built already, as tests of
/// the whole workspace.
pub(crate) fn tests() -> anyhow::Result<()> {
    run(cargo("test --workspace --locked --test workloads --test size -- --ignored").args([
        "two_gibibytes_miss_as_often_as_documented",
        "how_far_off_a_sample_is_was_measured",
    ]))
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
