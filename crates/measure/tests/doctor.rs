//! The doctor answers on any machine. If it cannot examine something, it reports a finding and does
//! not fail.

use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ebbtide_core::{Stop, Watch};
use ebbtide_measure::doctor::{DoctorError, DoctorOptions, Status, examine};

fn brief(data: Option<PathBuf>) -> DoctorOptions {
    DoctorOptions {
        data,
        seconds_per_depth: 0.01,
        queue_depths: vec![1, 8],
        test_file_bytes: 1 << 20,
    }
}

#[test]
fn a_folder_is_examined_and_left_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let shares = Mutex::new(Vec::new());
    let (stop, show) = (Stop::new(), |_: &str, share: f64| shares.lock().unwrap().push(share));
    let options = brief(Some(folder.path().to_path_buf()));
    let report = examine(&options, Watch::new(&show, &stop)).expect("a report");
    let shares = shares.into_inner().unwrap();
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    assert!(shares.is_sorted() && shares.iter().all(|share| (0.0..=1.0).contains(share)));
    for subject in [
        "kernel",
        "io_uring",
        "direct I/O",
        "memory cgroup",
        "huge pages",
        "memlock",
        "durable commits",
    ] {
        assert!(report.findings.iter().any(|found| found.subject == subject), "{subject}");
    }
    for found in &report.findings {
        let silent = found.status == Status::Missing && found.cost.is_none();
        assert!(!silent, "{} is missing, and what that costs is not said", found.subject);
    }
    let json = serde_json::to_value(&report).expect("JSON");
    assert_eq!(json["machine"]["reads"][1]["queue_depth"], 8);
    assert!(report.to_string().lines().count() > report.findings.len());
}

#[test]
fn a_data_file_is_only_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("data");
    fs::write(&file, vec![42; 1 << 16]).expect("a file");
    let report = examine(&brief(Some(file.clone())), Watch::unattended()).expect("a report");
    assert_eq!(report.machine.reads.len(), 2);
    assert_eq!(fs::read(&file).expect("a file"), vec![42; 1 << 16]);
}

#[test]
fn a_file_that_cannot_be_measured_is_a_finding() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("data");
    fs::write(&file, b"short").expect("a file");
    let report = examine(&brief(Some(file)), Watch::unattended()).expect("a report");
    let speed = report.findings.iter().find(|found| found.subject == "flash speed");
    assert!(speed.expect("a finding").found.contains("5 bytes"), "{speed:?}");
}

#[test]
fn senseless_requests_are_refused_in_one_line() {
    let missing =
        examine(&brief(Some(PathBuf::from("no/such/path"))), Watch::unattended()).unwrap_err();
    assert!(missing.to_string().contains("no/such/path"), "{missing}");
    for seconds in [f64::NAN, -1.0, f64::INFINITY] {
        let options = DoctorOptions { seconds_per_depth: seconds, ..brief(None) };
        assert!(matches!(examine(&options, Watch::unattended()), Err(DoctorError::Option { .. })));
    }
    let options = DoctorOptions { queue_depths: vec![0], ..brief(None) };
    let error = examine(&options, Watch::unattended()).unwrap_err();
    assert_eq!(error.to_string(), "queue depth: 0, expected 1 to 4096");
}

#[test]
fn an_examination_can_be_broken_off_at_every_step() {
    let folder = tempfile::tempdir().expect("a folder");
    for stop_at in 0..5 {
        let (stop, heard) = (Stop::new(), AtomicUsize::new(0));
        let show = |_: &str, _: f64| {
            if heard.fetch_add(1, Ordering::Relaxed) >= stop_at {
                stop.stop();
            }
        };
        let options = brief(Some(folder.path().to_path_buf()));
        let outcome = examine(&options, Watch::new(&show, &stop));
        assert!(matches!(outcome, Err(DoctorError::Stopped(_))), "step {stop_at}");
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
}
