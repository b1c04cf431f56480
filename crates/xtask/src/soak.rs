//! `cargo xtask soak`: tests that take minutes.

use crate::faults;
use crate::steps::{cargo, run};

/// The tests that `#[ignore = "slow"]` leaves out of `cargo test`: each takes 20 s or more in a
/// debug build on two CPUs.
const SLOW: [&str; 19] = [
    "eviction::the_hit_rate_is_that_of_an_exact_cache_with_as_many_keys",
    "following::a_redis_under_writes_is_followed_through_cuts_until_the_server_takes_over",
    "following::a_server_that_follows_can_be_stopped_and_killed_and_copies_again",
    "migrate::other_commands_run_while_keys_move",
    "space::a_full_store_takes_as_much_again_once_its_keys_are_deleted_or_flushed",
    "a_comparison_of_collections_tells_what_reads_allow",
    "faults::a_device_that_takes_no_write_costs_frames_but_no_word",
    "faults::writes_that_come_to_work_again_free_the_frames",
    "the_budget_is_kept_by_a_recovery_from_a_log_of_many_more_pages",
    "flatflash::tests::a_claim_alone_finds_the_runs_that_it_needs",
    "kept::tests::a_machine_warmed_by_a_state_does_what_one_does_that_was_warmed_by_jobs",
    "calibration::jobs_of_16_cores_miss_at_the_wanted_interval",
    "machine::values_of_a_vertexs_neighbours_arrive_together",
    "tpcc_locality::two_gibibytes_miss_as_often_as_documented",
    "a_lifetime_that_must_be_kept_takes_more_dram",
    "curves_are_printed_where_no_size_meets_the_objective",
    "how_far_off_a_sample_is_was_measured",
    "the_same_arguments_give_the_same_answer",
    "without_a_machine_a_drive_of_today_is_sized_and_this_one_if_it_was_measured",
];

/// Runs the slow tests. They are built already, as tests of the whole workspace.
pub(crate) fn tests() -> anyhow::Result<()> {
    run(cargo("test --workspace --locked --tests -- --ignored").args(SLOW))
}

/// Runs all that takes long. The long run of mapped regions takes hours.
pub(crate) fn all() -> anyhow::Result<()> {
    tests()?;
    run(cargo("test --locked -p ebbtide-server --test server").env("EBBTIDE_DEVICE_PATH", "aio"))?;
    run(&mut cargo("test --release --locked -p ebbtide-study --test size -- --include-ignored"))?;
    run(cargo("test --release --locked -p ebbtide-study --test physics")
        .env("EBBTIDE_PHYSICS", "long"))?;
    faults::run_all()?;
    run(&mut cargo(
        "test --release --locked -p ebbtide-engine --test mapped -- --ignored in_a_long_run",
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use walkdir::WalkDir;

    use super::*;

    /// The functions behind `#[ignore = "slow"]` in the crates.
    fn marked() -> Vec<String> {
        let files = WalkDir::new(crate::workspace().join("crates")).into_iter();
        let paths = files.map(|entry| entry.expect("a folder that can be read").into_path());
        let sources = paths.filter(|path| path.extension().is_some_and(|ending| ending == "rs"));
        let mark = "#[ignore = \"slow\"]\n";
        let names = |text: String| -> Vec<String> {
            let name = |rest: &str| rest.split_once("fn ")?.1.split_once('(').map(|of| of.0.into());
            text.split(mark).skip(1).filter_map(name).collect()
        };
        sources.flat_map(|path| names(fs::read_to_string(path).expect("text"))).collect()
    }

    #[test]
    fn every_test_that_is_marked_as_slow_is_run() {
        let mut named = SLOW.map(|name| name.rsplit("::").next().unwrap_or(name)).to_vec();
        let mut marked = marked();
        named.sort_unstable();
        marked.sort_unstable();
        assert_eq!(named, marked);
    }
}
