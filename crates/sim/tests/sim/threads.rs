//! Threads of a trace run on cores, in closed form.

use ebbtide_core::{Addr, PAGE_BYTES, Time};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Replay, ReplayError, replay_by_thread};
use ebbtide_trace::{Access, Op, Source, TraceError};

/// Time between an entry and the one before it.
const WORK_NS: f64 = 100.0;

/// A line from idle DRAM: 81 cycles at 2 GHz (AstriFlash §IV-B1).
const LINE_NS: f64 = 40.5;

/// A trace in batches of a few entries.
struct Made(Vec<Access>);

impl Source for Made {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        let rest = self.0.split_off(self.0.len().min(7));
        *batch = std::mem::replace(&mut self.0, rest);
        Ok(!batch.is_empty())
    }
}

/// Reads by these threads, in this order. Each thread reads lines of a page of its own, and the
/// pages lie behind different memory controllers.
fn reads(threads: &[u32]) -> Vec<Access> {
    let mut begun = Vec::new();
    let mut now = 0.0;
    let read = |&thread: &u32| {
        // Threads begin at once.
        now += if begun.contains(&thread) { WORK_NS } else { 0.0 };
        begun.push(thread);
        Access {
            thread,
            ..Access::new(
                Time::from_ps((now * 1e3) as u64),
                Addr(u64::from(thread) * PAGE_BYTES as u64),
                64,
                Op::Read,
            )
        }
    };
    threads.iter().map(read).collect()
}

/// A machine with all data in DRAM.
fn machine(cores: &str) -> Config {
    let keys = [("dataset.size", "64MiB"), ("dram_cache.size", "1MiB"), ("cores.count", cores)];
    resolve("dram-only", &keys).expect("a machine")
}

fn replayed(trace: Vec<Access>, cores: &str) -> Replay {
    replay_by_thread(&machine(cores), &mut Made(trace)).expect("a whole trace")
}

/// Time of `reads` reads one after another, of which the first `begin` have no work before them.
fn in_turn_ns(reads: usize, begin: usize) -> u64 {
    (reads as f64 * LINE_NS + (reads - begin) as f64 * WORK_NS) as u64
}

#[test]
fn two_threads_take_as_long_as_one_on_two_cores_and_twice_as_long_on_one() {
    let (alone, both) = ([0; 1_000], [0, 1].repeat(1_000));
    let one = replayed(reads(&alone), "1");
    assert_eq!(one.simulated_ns, in_turn_ns(1_000, 1));
    let apart = replayed(reads(&both), "2");
    assert_eq!(apart.simulated_ns, one.simulated_ns);
    assert_eq!((apart.accesses, apart.cores), (2_000, Some(2)));
    let together = replayed(reads(&both), "1");
    assert_eq!(together.simulated_ns, 2 * one.simulated_ns);
}

#[test]
fn a_thread_runs_on_the_core_of_its_number_modulo_the_cores() {
    // Threads 0 and 2 share a core, and thread 1 has the other one.
    let three = replayed(reads(&[0, 1, 2].repeat(500)), "2");
    assert_eq!(three.simulated_ns, in_turn_ns(1_000, 2));
}

#[test]
fn a_thread_begins_when_the_entry_before_its_first_one_has_run() {
    // Ten reads of the first thread, then ten of a second one that it starts.
    let trace = reads(&[[0; 10], [1; 10]].concat());
    let apart = replayed(trace.clone(), "2");
    // The second one begins while the tenth read is on its way.
    assert_eq!(apart.simulated_ns, in_turn_ns(19, 1));
    assert_eq!(replayed(trace, "1").simulated_ns, in_turn_ns(20, 2));
}

#[test]
fn a_core_does_not_wait_for_what_it_writes() {
    let mut trace = reads(&[0; 100]);
    trace.iter_mut().for_each(|access| access.op = Op::Write);
    let replay = replayed(trace, "1");
    // The last write is in memory a line's time after its core went on.
    assert_eq!(replay.simulated_ns, (99.0 * WORK_NS + LINE_NS) as u64);
}

#[test]
fn misses_of_threads_overlap_on_cores_of_their_own() {
    let keys = [
        ("dataset.size", "64MiB"),
        ("dram_cache.size", "1MiB"),
        ("llc.size", "256KiB"),
        ("flash.preset", "flat"),
    ];
    let time = |cores: &str, threads: u64| {
        let config = resolve("flash-sync", &[&keys[..], &[("cores.count", cores)]].concat());
        let read = |number: u64| Access {
            thread: (number % threads) as u32,
            ..Access::new(
                Time::from_ns(number * 100),
                Addr((number * 37 % 16_384) * PAGE_BYTES as u64),
                64,
                Op::Read,
            )
        };
        let trace = (0..200 * threads).map(read).collect();
        replay_by_thread(&config.expect("a machine"), &mut Made(trace)).expect("a trace")
    };
    let (one, apart, together) = (time("1", 1), time("2", 2), time("1", 2));
    assert_eq!([one.memory.cache.misses, together.memory.cache.misses], [200, 400]);
    let ratio = |replay: &Replay| replay.simulated_ns as f64 / one.simulated_ns as f64;
    assert!((ratio(&apart) - 1.0).abs() < 0.02, "{}", ratio(&apart));
    assert!((ratio(&together) - 2.0).abs() < 0.02, "{}", ratio(&together));
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let config = machine("2");
    let empty = replay_by_thread(&config, &mut Made(Vec::new()));
    assert!(matches!(empty, Err(ReplayError::Empty)));
    let mut beyond = reads(&[0]);
    beyond[0].address = Addr(64 << 20);
    let beyond = replay_by_thread(&config, &mut Made(beyond));
    assert!(matches!(beyond, Err(ReplayError::Beyond { address: 0x400_0000, .. })));
}
