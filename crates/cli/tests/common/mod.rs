//! Running the binary on a small bench in a folder of its own.

#![allow(dead_code, reason = "every test file uses its own part of this")]

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ebbtide_engine::affinity;
use tempfile::TempDir;

/// A folder on the disk that cargo builds on, where O_DIRECT is more likely than in /tmp.
pub fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// The binary, with `arguments`, in `folder`.
pub fn ebbtide(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ebbtide"));
    command.current_dir(folder).args(arguments).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // A cache that cannot be written: tests do not decide what each other finds.
    command.env("XDG_CACHE_HOME", "/dev/null");
    command
}

/// A bench, on a CPU that no other test of this process has.
pub fn bench(folder: &Path) -> Command {
    thread_local! {
        static OWN: OnceCell<OwnCpu> = const { OnceCell::new() };
    }
    OWN.with(|own| _ = own.get_or_init(OwnCpu::take));
    ebbtide(folder, &["bench"])
}

/// A CPU that confines this thread and its children.
///
/// A bench takes the last CPU that it may run on. Two benches at once would take the same one. Each
/// would take twice as long, and repeat measurements that the other disturbed.
struct OwnCpu {
    cpu: Option<usize>,
}

/// The CPUs that tests have.
static TAKEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

impl OwnCpu {
    fn take() -> OwnCpu {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut allowed = affinity::allowed().unwrap_or_default();
        allowed.retain(|cpu| !taken.contains(cpu));
        // With more tests at once than CPUs, the others share them.
        let cpu = allowed.last().copied().filter(|&cpu| affinity::pin(cpu).is_ok());
        taken.extend(cpu);
        OwnCpu { cpu }
    }
}

impl Drop for OwnCpu {
    fn drop(&mut self) {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        taken.retain(|&cpu| Some(cpu) != self.cpu);
    }
}

/// A bench that takes moments, over 64 MiB in `data` unless `arguments` say otherwise.
pub fn small_bench(folder: &Path, arguments: &[&str]) -> Command {
    const SMALL: [&str; 5] =
        ["--dataset=64MiB", "--dram=16MiB", "--rounds=1", "--seconds=0.1", "--data=data"];
    let option = |argument: &str| argument.split('=').next().map(str::to_string);
    let given: Vec<_> = arguments.iter().map(|argument| option(argument)).collect();
    let mut command = bench(folder);
    command.args(SMALL.iter().filter(|small| !given.contains(&option(small))));
    command.args(arguments);
    command
}

/// Returns the output of a command that must succeed.
pub fn printed(command: &mut Command) -> String {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// As [`printed`], of the binary with `arguments`, in a folder of its own.
pub fn printed_by(arguments: &[&str]) -> String {
    printed(&mut ebbtide(folder().path(), arguments))
}

/// Returns the line that the command prints on standard error. It must end with `status` and print
/// nothing on standard output.
pub fn complaint(command: &mut Command, status: i32) -> String {
    let output = command.output().expect("the program runs");
    complaint_of(&output, status)
}

pub fn complaint_of(output: &Output, status: i32) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(status), "{text}");
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(text.starts_with("ebbtide: ") && text.ends_with('\n'), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    text
}

/// Pause between two looks of [`wait_for`]. Without a pause it would take the CPU from the process
/// that it waits for.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Waits until `found` returns a value. `what` names it in the message.
pub fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(since.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The running children of a process.
pub fn children(pid: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

/// Returns whether a process still exists. A process that only waits to be collected does not.
pub fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

/// Whether a process has `file` open.
pub fn has_open(pid: u32, file: &Path) -> bool {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    descriptors
        .filter_map(|descriptor| std::fs::read_link(descriptor.path()).ok())
        .any(|path| path == file)
}

/// Ticks of processor time that a process has used.
pub fn cpu_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    // Fields 14 and 15 of proc_pid_stat(5); the first here is field 3.
    fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// Returns the names in `folder`.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The memory cgroups that the process `pid` has made and not removed.
pub fn cgroups_of(pid: u32) -> Vec<PathBuf> {
    let prefix = format!("ebbtide-{pid}-");
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("/sys/fs/cgroup")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if entry.file_name().to_string_lossy().starts_with(&prefix) {
                    found.push(entry.path());
                }
                folders.push(entry.path());
            }
        }
    }
    found
}
