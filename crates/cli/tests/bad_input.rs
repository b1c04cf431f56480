//! Bad input ends with status 2, a failed run with 1. One line states what was wrong, where, and
//! what was expected. Errors are found before anything is written, and no partial file stays.

mod common;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use common::{
    complaint, complaint_of, ebbtide, folder, has_open, names, printed, small_bench, wait_for,
};
use ebbtide_engine::store::{NewStore, Store};

/// Asserts that `arguments` are refused with all of `expected`, and that nothing is written.
fn assert_refused(arguments: &[&str], expected: &[&str]) {
    let folder = folder();
    let text = complaint(&mut small_bench(folder.path(), arguments), 2);
    for part in expected {
        assert!(text.contains(part), "{arguments:?}: {text}");
    }
    assert!(names(folder.path()).is_empty(), "{arguments:?}: {:?}", names(folder.path()));
}

#[test]
fn an_unknown_name_is_met_with_the_nearest() {
    for (arguments, expected) in [
        (["hashtable", "--list"].as_slice(), ["'hashtable'", "did you mean 'hash-table'?"]),
        (&["--mode=dram,ebbtid"], ["unknown mode 'ebbtid'", "did you mean 'ebbtide'?"]),
        (&["--replacement=clok"], ["policy 'clok'", "did you mean 'clock'?"]),
        (&["--admission=adaptiv"], ["'adaptiv'", "did you mean 'adaptive'?"]),
        (&["--prefetch=lepa"], ["prefetcher 'lepa'", "did you mean 'leap'?"]),
        (&["--hints=onn"], ["'onn'", "did you mean 'on'?"]),
        (&["--scheduler=fif"], ["'fif'", "did you mean 'fifo'?"]),
        (&["--arrivals=poison"], ["arrivals 'poison'", "did you mean 'poisson'?"]),
        (&["--scatter=page"], ["'page'", "did you mean 'pages'?"]),
        (&["--datset=1GiB"], ["'--datset'", "a similar argument exists: '--dataset'"]),
    ] {
        assert_refused(arguments, &expected);
    }
    let folder = folder();
    let text = complaint(&mut ebbtide(folder.path(), &["benhc"]), 2);
    assert!(text.contains("'benhc'") && text.contains("'bench'"), "{text}");
}

#[test]
fn what_was_meant_is_said_where_the_words_stand_in_the_wrong_place() {
    let folder = folder();
    for (arguments, expected, never) in [
        (&["compare", "astriflash"][..], "it is a design, expected a program", "known"),
        (&["compare", "astriflash", "flatflash"], "chosen with --design astriflash", "known"),
        (&["compare", "tatp", "flatflash"], "chosen with --design flatflash", "known"),
        (&["trace", "sort", "numbers"], "ebbtide trace -o FILE -- COMMAND", "tip"),
        (&["trace", "-o", "t.ebt", "sort"], "ebbtide trace -o FILE -- COMMAND", "tip"),
        (&["bench", "--quiet"], "'--quiet'", "-- --quiet"),
        (&["designs", "nope"], "unknown design 'nope'; known: ", "did you mean"),
    ] {
        let said = complaint(&mut ebbtide(folder.path(), arguments), 2);
        assert!(said.contains(expected) && !said.contains(never), "{said}");
    }
}

#[test]
fn sizes_times_and_numbers_that_do_not_parse_are_shown_how() {
    for (argument, expected) in [
        ("--dataset=2bananas", "'2bananas' is not a size; expected something like 2GiB"),
        ("--dram=150%", "'150%' is not a share; expected something like 3%"),
        ("--miss-interval=10", "'10' is not a time; expected something like 10us"),
        ("--cores=two", "'two' is not a whole number; expected something like 4"),
        ("--seconds=nan", "'nan' is not a number; expected something like 0.5"),
        ("--theta=x", "'x' is not a number"),
    ] {
        let option = argument.split('=').next().unwrap_or_default();
        assert_refused(&[argument], &[option, expected]);
    }
}

#[test]
fn numbers_out_of_range_are_met_with_the_range() {
    assert_refused(&["--cores=100000"], &["--cores 100000", "offers 1 to "]);
    assert_refused(&["--cores=0"], &["--cores 0", "offers 1 to "]);
    assert_refused(&["--rounds=0"], &["--rounds 0", "at least 1"]);
    assert_refused(&["--seconds=0"], &["--seconds 0", "more than 0"]);
    assert_refused(&["--threads=0"], &["--threads 0", "1 to 65536"]);
    assert_refused(&["--batch=5000"], &["--batch 5000", "1 to 4096"]);
    assert_refused(&["--policy-parts=0"], &["--policy-parts 0", "1 to 1024"]);
    assert_refused(&["--theta=-1"], &["theta", "from 0 to 10, not -1"]);
    assert_refused(&["--theta=1e308"], &["theta", "from 0 to 10, not 1e308"]);
    assert_refused(&["tatp", "tatp"], &["'tatp' is named twice"]);
}

#[test]
fn a_budget_that_cannot_work_is_refused_with_what_can() {
    assert_refused(&["--dram=65MiB"], &["--dram", "68157440 bytes", "dataset of 67108864 bytes"]);
    assert_refused(&["--dram=512KiB"], &["--dram", "524288 bytes", "need at least", "(1 MiB)"]);
    assert_refused(&["tatp", "--dataset=1KiB", "--dram=1KiB"], &["'tatp'", "dataset of 8192 to"]);
    assert_refused(&["--dataset=1024TiB", "--dram=1GiB"], &["1125899906842624"]);
    assert_refused(&["--dataset=60TiB", "--dram=1TiB"], &["--dataset", "are available"]);
}

#[test]
fn a_policy_that_only_a_simulator_can_have_is_refused_with_the_reason() {
    for policy in ["lru", "cflru"] {
        assert_refused(&["--replacement", policy], &[policy, "must see every hit"]);
    }
    for policy in ["srrip-hp", "drrip"] {
        assert_refused(&["--replacement", policy], &[policy, "looks at every frame"]);
    }
}

#[test]
fn a_report_that_cannot_be_written_is_noticed_before_the_bench() {
    let folder = folder();
    fs::write(folder.path().join("file"), "").expect("written");
    fs::create_dir_all(folder.path().join("taken/report.html")).expect("made");
    for (report, expected) in [
        ("file", "Not a directory"),
        ("file/below", "Not a directory"),
        ("taken", "taken/report.html"),
        ("/proc/report", "/proc/report"),
    ] {
        let mut bench = small_bench(folder.path(), &["--report", report]);
        let text = complaint(&mut bench, 2);
        assert!(text.contains("cannot write") && text.contains(expected), "{text}");
    }
    assert_eq!(names(folder.path()), ["file", "taken"]);
}

#[test]
fn a_path_that_can_hold_no_data_is_refused() {
    assert_refused(&["--data=."], &[".: neither a file nor a block device"]);
    assert_refused(&["--data=/dev/null"], &["neither a file nor a block device"]);
    assert_refused(&["--data=missing/data"], &["missing/data: the folder", "does not exist"]);
}

/// What force would do to a file of another kind.
const OVERWRITES: &str = "--force would overwrite 97 MiB of it";

/// Asserts that a bench over the file that `prepare` makes in `data` is refused with `expected`,
/// and that no byte of it changes.
fn assert_data_refused(file: &str, prepare: impl Fn(&Path), expected: &[&str]) {
    let folder = folder();
    let path = folder.path().join(file);
    prepare(&path);
    let before = fs::read(&path).expect("a file");
    let text = complaint(&mut small_bench(folder.path(), &["array-swap"]), 2);
    for part in [file].iter().chain(expected) {
        assert!(text.contains(part), "{text}");
    }
    assert!(fs::read(&path).expect("a file") == before, "not a byte is touched");
    assert_eq!(names(folder.path()), [file]);
}

/// Copies `whole` with `bytes` written at `at`.
fn data_file(whole: &Path, path: &Path, bytes: &[u8], at: u64, length: u64) {
    fs::copy(whole, path).expect("copied");
    let file = OpenOptions::new().write(true).open(path).expect("the data");
    file.write_all_at(bytes, at).expect("written");
    file.set_len(length).expect("cut");
}

#[test]
fn what_is_not_ours_is_kept_beside_the_data_file_too() {
    for file in ["data", "data.sync", "data.paging"] {
        let letter = |path: &Path| fs::write(path, "Dear Sir or Madam").expect("written");
        assert_data_refused(
            file,
            letter,
            &["something that is not an Ebbtide data file", OVERWRITES],
        );
    }
}

#[test]
fn a_data_file_that_is_short_damaged_or_newer_is_kept() {
    let folder = folder();
    let mut bench = small_bench(folder.path(), &["hash-table", "--mode=ebbtide"]);
    assert!(bench.output().expect("the program runs").status.success());
    let whole = folder.path().join("data");
    let length = 60 << 20;
    let short = |path: &Path| data_file(&whole, path, b"", 0, 5000);
    assert_data_refused("data", short, &["truncated: has 5000 bytes, needs"]);
    let damaged = |path: &Path| data_file(&whole, path, b"rot", 2000, length);
    assert_data_refused("data", damaged, &["header is damaged", OVERWRITES]);
    let newer = |path: &Path| data_file(&whole, path, &9u32.to_le_bytes(), 8, length);
    assert_data_refused("data", newer, &["version 9, expected 2", OVERWRITES]);
}

#[test]
fn a_data_file_in_use_is_left_alone() {
    let folder = folder();
    let long = ["array-swap", "--mode=ebbtide", "--seconds=60"];
    let mut user = small_bench(folder.path(), &long).spawn().expect("the program runs");
    let data = folder.path().join("data");
    wait_for("a child that uses the data", || {
        common::children(user.id()).into_iter().find(|&child| has_open(child, &data))
    });
    let text = complaint(&mut small_bench(folder.path(), &["array-swap", "--mode=ebbtide"]), 2);
    assert!(text.contains("data: in use by another process"), "{text}");
    user.kill().expect("it runs still");
    user.wait().expect("it has ended");
}

/// A store with a log at `path`, as a server or a program has made it.
fn durable_store(path: &Path) -> Vec<u8> {
    let (path, tag) = (path.to_path_buf(), "keys".into());
    let new = NewStore { path, offset: 0, pages: 64, spare_pages: 64, tag, force: false };
    Store::create_persistent(&new, 1 << 20).expect("a store");
    fs::read(&new.path).expect("a file")
}

#[test]
fn a_bench_leaves_a_store_with_a_log_alone_unless_it_is_its_own() {
    let folder = folder();
    let base = ["tpcb", "--mode=ebbtide", "--durability=always"];
    for name in ["data", "data.durable"] {
        let path = folder.path().join(name);
        let before = durable_store(&path);
        let text = complaint(&mut small_bench(folder.path(), &base), 2);
        let holds = format!("{name}: holds a store that survives crashes, 'keys'; --force would");
        assert!(text.contains(&holds), "{text}");
        assert!(fs::read(&path).expect("a file") == before, "not a byte is touched");
        fs::remove_file(&path).expect("removed");
    }
    for _ in 0..2 {
        printed(&mut small_bench(folder.path(), &base));
    }
}

#[test]
fn a_result_does_not_replace_a_data_file() {
    let folder = folder();
    let path = folder.path().join("keys");
    let before = durable_store(&path);
    for arguments in [
        &["trace", "-o", "keys", "--", "true"][..],
        &["trace", "convert", "keys", "keys"],
        &["bench", "--markdown=keys"],
        &["doctor", "--write=keys"],
    ] {
        let text = complaint(&mut ebbtide(folder.path(), arguments), 2);
        assert!(text.contains("keys: holds an Ebbtide data file"), "{arguments:?}: {text}");
    }
    assert!(fs::read(&path).expect("a file") == before, "not a byte is touched");
}

#[test]
fn a_server_on_a_cpu_that_there_is_not_leaves_no_file() {
    let folder = folder();
    let arguments = ["serve", "--data=keys", "--port=0", "--cpu=9999"];
    let text = complaint(&mut ebbtide(folder.path(), &arguments), 2);
    assert!(text.contains("CPU 9999 is not among those"), "{text}");
    assert!(!folder.path().join("keys").exists());
}

/// A shell in mount and user namespaces of its own, with `/mnt` mounted by `mount`; `None` where
/// namespaces are not permitted.
fn with_mount(folder: &Path, mount: &str, bench: &[&str]) -> Option<(Command, String)> {
    let permitted = Command::new("unshare")
        .args(["-rm", "sh", "-c", &format!("mount {mount} /mnt")])
        .output()
        .is_ok_and(|output| output.status.success());
    if !permitted {
        eprintln!("not tested: this machine does not permit `mount {mount}` in a namespace");
        return None;
    }
    let listing = folder.join("listing").display().to_string();
    let script = format!(
        "mount {mount} /mnt && {{ \"$0\" \"$@\"; status=$?; ls -A /mnt > {listing}; exit $status; }}"
    );
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", &script, env!("CARGO_BIN_EXE_ebbtide"), "bench"]);
    command.args(["--dataset=64MiB", "--dram=16MiB"]).args(bench).current_dir(folder);
    Some((command, listing))
}

#[test]
fn a_file_system_that_is_full_slow_or_read_only_is_refused_and_left_empty() {
    for (mount, bench, expected) in [
        (
            "-t tmpfs -o size=32m none",
            ["hash-table", "--data=/mnt/data"].as_slice(),
            "no space left: 64 MiB are needed, 32 MiB are free",
        ),
        ("-t ramfs none", &["hash-table", "--data=/mnt/data"], "does not support O_DIRECT"),
        ("-t tmpfs -o ro none", &["--data=/mnt/data"], "Read-only file system"),
        ("-t tmpfs -o ro none", &["--report=/mnt/report"], "Read-only file system"),
    ] {
        let folder = folder();
        let Some((mut command, listing)) = with_mount(folder.path(), mount, bench) else {
            continue;
        };
        let text = complaint(&mut command, 2);
        assert!(text.contains(expected) && text.contains("/mnt/"), "{text}");
        assert_eq!(fs::read_to_string(listing).expect("a listing"), "", "{mount}");
    }
}

#[test]
fn a_limit_on_the_size_of_files_is_refused_not_run_into() {
    let folder = folder();
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 1024 && exec \"$0\" bench tatp --dataset=64MiB --dram=16MiB"]);
    shell.arg(env!("CARGO_BIN_EXE_ebbtide")).current_dir(folder.path());
    let text = complaint(&mut shell, 2);
    assert!(text.contains("97 MiB are needed") && text.contains("ulimit -f"), "{text}");
    assert!(names(folder.path()).is_empty());
}

/// A loop device over a file; given back when dropped.
struct Loop(String);

impl Loop {
    /// None where it is not permitted.
    fn over(file: &Path) -> Option<Loop> {
        let output = Command::new("losetup").args(["-f", "--show"]).arg(file).output().ok()?;
        let name = String::from_utf8_lossy(&output.stdout).trim().to_string();
        (output.status.success() && !name.is_empty()).then_some(Loop(name))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).output();
    }
}

#[test]
fn a_block_device_that_holds_something_is_kept_and_an_empty_one_used() {
    let folder = folder();
    let backing = folder.path().join("backing");
    let file = File::create(&backing).expect("a file");
    file.set_len(128 << 20).expect("grown");
    let Some(device) = Loop::over(&backing) else {
        eprintln!("not tested: this machine does not permit loop devices");
        return;
    };
    let data = format!("--data={}", device.0);
    let bench = |dataset: &str, more: &str| {
        let small = ["array-swap", "--dram=4MiB", "--mode=sync", &data, dataset, more];
        small_bench(folder.path(), &small)
    };
    // What btrfs leaves on a device, whose first page is empty.
    file.write_all_at(b"_BHRfS_M", (64 << 10) + 64).expect("written");
    let text = complaint(&mut bench("--dataset=16MiB", "--json"), 2);
    assert!(text.contains(&device.0) && text.contains("--force would overwrite"), "{text}");
    let text = complaint(&mut bench("--dataset=32MiB", "--force"), 2);
    assert!(text.contains("no space left: 241 MiB are needed"), "{text}");
    file.write_all_at(&[0; 8], (64 << 10) + 64).expect("written");
    let output = bench("--dataset=16MiB", "--json").output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_device_that_fails_in_the_middle_of_a_run_fails_the_run() {
    let folder = folder();
    let long = ["hash-table", "--mode=ebbtide", "--seconds=60"];
    let bench = small_bench(folder.path(), &long).spawn().expect("the program runs");
    let data = folder.path().join("data");
    wait_for("a child that uses the data", || {
        common::children(bench.id()).into_iter().find(|&child| has_open(child, &data))
    });
    // Reads beyond the end of a file come back short, as from a device that went away.
    let file = OpenOptions::new().write(true).open(&data).expect("the data");
    file.set_len(4096).expect("cut");
    let output = bench.wait_with_output().expect("it ends");
    let text = complaint_of(&output, 1);
    assert!(text.contains("the ebbtide run of hash-table failed: "), "{text}");
}
