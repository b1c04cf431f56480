//! A bench that is stopped leaves nothing: no process, no cgroup, and no data file that would be
//! trusted wrongly. Its children hold gigabytes and would run on for minutes. A stopped replay has
//! no result.

mod common;

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use common::{
    cgroups_of, children, complaint_of, cpu_ticks, ebbtide, folder, has_open, is_alive,
    small_bench, wait_for,
};
use ebbtide_measure::bench::CHILD_VERB;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tempfile::TempDir;

/// A bench that would run for minutes, in a process group of its own.
struct Bench {
    folder: TempDir,
    process: Child,
}

impl Bench {
    fn start(arguments: &[&str]) -> Bench {
        use std::os::unix::process::CommandExt;
        let folder = folder();
        let mut command = small_bench(folder.path(), arguments);
        let process = command.process_group(0).spawn().expect("the program runs");
        Bench { folder, process }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.process)
    }

    /// Waits until its child number `number` runs.
    fn child(&self, number: usize) -> u32 {
        wait_for("a child", || {
            let child = children(self.process.id()).get(number).copied()?;
            let command = fs::read_to_string(format!("/proc/{child}/cmdline")).ok()?;
            command.contains(CHILD_VERB).then_some(child)
        })
    }

    /// Interrupts it. It must end quickly, report that, and leave nothing.
    fn interrupt(self, whole_group: bool) -> TempDir {
        let started = children(self.process.id());
        let (parent, since) = (self.process.id(), Instant::now());
        let sent = if whole_group {
            kill_process_group(self.pid(), Signal::INT)
        } else {
            kill_process(self.pid(), Signal::INT)
        };
        sent.expect("it runs still");
        let output = self.process.wait_with_output().expect("it ends");
        // A second, and room for a busy machine; without the signal it would be a minute.
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
        assert_eq!(complaint_of(&output, 130), "ebbtide: cancelled\n");
        assert!(started.iter().all(|&child| !is_alive(child)), "{started:?}");
        assert_eq!(cgroups_of(parent), Vec::<PathBuf>::new());
        self.folder
    }
}

/// Returns whether the data file is clean; `None` without a whole header. The state is a word at
/// byte 12, and 1 is clean.
fn is_clean(data: &Path) -> Option<bool> {
    use std::os::unix::fs::FileExt;
    let mut start = [0; 16];
    fs::File::open(data).ok()?.read_exact_at(&mut start, 0).ok()?;
    start.starts_with(b"EBBTIDE\0").then_some(start[12] == 1)
}

const LONG: [&str; 3] = ["hash-table", "--mode=dram,ebbtide", "--seconds=60"];

#[test]
fn interrupted_while_it_writes_the_data_it_leaves_a_dirty_file() {
    for whole_group in [false, true] {
        let bench = Bench::start(&["hash-table", "--dataset=512MiB", "--dram=32MiB"]);
        let data = bench.data();
        wait_for("a header", || is_clean(&data));
        let folder = bench.interrupt(whole_group);
        assert_eq!(is_clean(&folder.path().join("data")), Some(false));
    }
}

#[test]
fn interrupted_while_it_loads_dram_it_stops() {
    let bench = Bench::start(&LONG);
    bench.child(0);
    bench.interrupt(false);
}

#[test]
fn interrupted_while_paging_is_tuned_it_leaves_no_cgroup() {
    let bench = Bench::start(&["hash-table", "--mode=paging", "--dram=32MiB", "--seconds=60"]);
    // Where cgroups are not permitted paging is left out, and DRAM-only runs its rounds alone.
    bench.child(0);
    let started = Instant::now();
    wait_for("a cgroup, or none to come", || {
        let alone = started.elapsed() > Duration::from_secs(10);
        (alone || !cgroups_of(bench.process.id()).is_empty()).then_some(())
    });
    bench.interrupt(true);
}

/// Waits until the rounds, which DRAM-only begins, are under way.
fn wait_for_rounds(bench: &Bench) -> [u32; 2] {
    let running = [bench.child(0), bench.child(1)];
    wait_for("an engine over the data", || has_open(running[1], &bench.data()).then_some(()));
    // Its warm-up is 0.2 s, or 20 ticks.
    let before = cpu_ticks(running[0]);
    wait_for("a round", || (cpu_ticks(running[0]) > before + 40).then_some(()));
    running
}

fn interrupt_in_a_round(whole_group: bool) {
    let bench = Bench::start(&LONG);
    wait_for_rounds(&bench);
    let folder = bench.interrupt(whole_group);
    assert_eq!(is_clean(&folder.path().join("data")), Some(true), "no job has changed it");
}

#[test]
fn interrupted_in_a_round_it_stops() {
    interrupt_in_a_round(false);
}

#[test]
fn interrupted_in_a_round_with_its_children_it_stops() {
    interrupt_in_a_round(true);
}

#[test]
fn killed_it_takes_its_children_along() {
    let mut bench = Bench::start(&LONG);
    let running = wait_for_rounds(&bench);
    bench.process.kill().expect("it runs still");
    bench.process.wait().expect("it has ended");
    let since = Instant::now();
    wait_for("the children's end", || running.iter().all(|&child| !is_alive(child)).then_some(()));
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
}

#[test]
fn interrupted_while_it_replays_a_trace_it_says_so_and_prints_no_result() {
    let folder = folder();
    let trace = folder.path().join("trace");
    mknodat(CWD, &trace, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe with a name");
    let process = ebbtide(folder.path(), &["sim", "--trace=trace", "--format=text"])
        .spawn()
        .expect("it runs");
    let mut pipe = File::options().write(true).open(&trace).expect("it opens the trace");
    // A trace without end; the pipe takes only what is read, and breaks when nobody does.
    let mut time_ns = 0u64;
    let mut write = || {
        let lines: String = (0..4_096u64)
            .map(|i| format!("{} 0 {} 8 1\n", time_ns + 100 * i, i % 512 * 4096))
            .collect();
        time_ns += 409_600;
        pipe.write_all(lines.as_bytes())
    };
    (0..64).for_each(|_| write().expect("it reads on"));
    kill_process(Pid::from_child(&process), Signal::INT).expect("it runs still");
    while write().is_ok() {}
    let output = process.wait_with_output().expect("it ends");
    assert_eq!(complaint_of(&output, 130), "ebbtide: cancelled\n");
}
