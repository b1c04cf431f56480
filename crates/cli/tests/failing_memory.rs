//! A memory that fails does not lose the results of the others. They are printed, and the failed
//! one is named with advice. The exit status reports the failure.

mod common;

use std::os::unix::process::CommandExt;

use common::{children, folder, has_open, small_bench, wait_for};
use ebbtide_measure::bench::CHILD_VERB;
use rustix::process::{Pid, Signal, kill_process};

/// Runs a bench of three memories and kills its child number `number` once it has started. Returns
/// the status, the results and the standard error.
fn with_killed(number: usize) -> (Option<i32>, serde_json::Value, String) {
    let folder = folder();
    let arguments = ["hash-table", "--mode=sync,ebbtide", "--seconds=0.3", "--rounds=2", "--json"];
    let mut command = small_bench(folder.path(), &arguments);
    let process = command.process_group(0).spawn().expect("the program runs");
    let child = wait_for("the child", || {
        let child = children(process.id()).get(number).copied()?;
        let is_one = std::fs::read_to_string(format!("/proc/{child}/cmdline")).ok()?;
        let data = folder.path().join("data");
        (is_one.contains(CHILD_VERB) && has_open(child, &data)).then_some(child)
    });
    let pid = Pid::from_raw(child as i32).expect("a process");
    kill_process(pid, Signal::KILL).expect("it runs");
    let output = process.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let results = serde_json::from_slice(&output.stdout).expect("JSON");
    (output.status.code(), results, said)
}

#[test]
fn one_memorys_failure_does_not_lose_the_others() {
    for (number, failed, left) in
        [(1, "sync", ["dram", "ebbtide"]), (2, "ebbtide", ["dram", "sync"])]
    {
        let (status, found, said) = with_killed(number);
        let modes: Vec<_> = found["results"].as_array().expect("a list").iter().collect();
        let modes: Vec<_> = modes.iter().filter_map(|entry| entry["mode"].as_str()).collect();
        assert_eq!(modes, left, "{found}");
        let failure = &found["failures"][0];
        assert_eq!(
            (&failure["mode"], &failure["workload"]),
            (&failed.into(), &"hash-table".into())
        );
        assert_eq!(status, Some(1), "{said}");
        let expected = format!("hash-table: {failed} failed: ");
        assert!(said.contains(&expected) && said.contains("--mode"), "{said}");
    }
}
