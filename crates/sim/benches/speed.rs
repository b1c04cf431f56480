//! Measures how many accesses a second one host core simulates. The inputs are:
//!
//! * a machine whose program mostly hits in its caches
//! * a machine that runs each of AstriFlash's programs
//! * a native trace
//! * traces into the DRAM cache: of hits, of misses, and for datasets of 1 GiB to 1 TiB
//! * traces into the device of CXL-flash, with each prefetcher
//!
//! The datasets are shown as a chart. Its bars have equal length if the cost does not depend on
//! capacity.
//!
//! Time is the thread's own processor time, so a busy host does not count. Each line is the median
//! of several rounds with their range. Targets, in millions a second, are 10 for the machine, 20
//! for hits and 3 for misses of traces. All datasets have the same target.
//!
//!     cargo bench -p ebbtide-sim --bench speed [-- PART OF A LINE'S NAME]

use std::sync::Mutex;
use std::time::Duration;

use ebbtide_core::{Addr, FullMemory, PAGE_BYTES, PageId, Stop, Time, Watch};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Machine, Offered, Plan, Simulation, designs, replay};
use ebbtide_trace::{Access, Folded, Op, Source, TraceError};
use ebbtide_workloads::{Corrupt, Kind, Workload};
use rustix::time::{ClockId, clock_gettime};

const ROUNDS: usize = 5;

fn main() {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let is_wanted = |name: &str| wanted.as_ref().is_none_or(|part| name.contains(part));
    let report = |name: &str, rates: &dyn Fn() -> Vec<f64>| {
        if is_wanted(name) {
            report_rates(name, rates());
        }
    };
    println!("{:<44} {:>8}  range, M accesses/s", "", "median");
    report("machine: 95% in L1, 4.9% in LLC, 0.1% beyond", &machine);
    for (design, workload) in Kind::ASTRIFLASH
        .map(|workload| ("astriflash", workload))
        .into_iter()
        .chain([("flash-sync", Kind::HashTable)])
    {
        let name = workload.name();
        let names = [
            format!("{name} on {design}, 1/256"),
            format!("{name}, with what comes before: {design}"),
        ];
        if names.iter().any(|name| is_wanted(name)) {
            // Both lines are of the same runs.
            let (measured, whole) = program(design, workload);
            for (name, rates) in names.iter().zip([measured, whole]) {
                if is_wanted(name) {
                    report_rates(name, rates);
                }
            }
        }
    }
    if is_wanted("stages") {
        [256, 16].into_iter().for_each(stages);
    }
    for design in ["astriflash", "cxl-flash"] {
        report(&format!("native trace: sqlite on {design}"), &|| native(design));
    }
    let paper = config(&[]);
    report("trace: pages in DRAM", &|| trace(&paper, HITS));
    report("trace: pages on flash", &|| trace(&paper, MISSES));
    let small = MadeUp { within: MISSES.within / 64, ..MISSES };
    report("trace: pages on flash, 1/64 of the size", &|| {
        trace(&paper.clone().scaled(1, 64), small)
    });
    for (name, prefetcher) in PREFETCHERS {
        let device = resolve("cxl-flash", &[("prefetch.policy", prefetcher)]).expect("a design");
        report(&format!("cxl-flash{name}: pages in its DRAM"), &|| trace(&device, DEVICE_HITS));
        report(&format!("cxl-flash{name}: pages on flash"), &|| trace(&device, DEVICE_MISSES));
    }
    if wanted.is_some() {
        return;
    }
    println!("\ntrace: pages of 1 GiB in DRAM or not, of a dataset of");
    let sizes = ["1GiB", "4GiB", "16GiB", "64GiB", "256GiB", "1TiB"];
    chart(&sizes.map(|size| {
        let config = config(&[("dataset.size", size), ("dram_cache.size", "64MiB")]);
        (size, median(trace(&config, MIXED)))
    }));
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// A bar a size. All have equal length if cost does not depend on capacity.
fn chart(rates: &[(&str, f64)]) {
    const WIDTH: f64 = 40.0;
    let longest = rates.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    for (name, rate) in rates {
        let bar = "#".repeat((rate / longest * WIDTH).round() as usize);
        println!("{name:>8} {rate:>8.2}  {bar}");
    }
}

fn report_rates(name: &str, mut rates: Vec<f64>) {
    rates.sort_by(f64::total_cmp);
    let (low, median, high) = (rates[0], rates[rates.len() / 2], rates[rates.len() - 1]);
    println!("{name:<44} {median:>8.2}  {low:.2} to {high:.2}");
}

fn config(overrides: &[(&str, &str)]) -> Config {
    resolve("astriflash", overrides).expect("a design and its keys")
}

/// Processor time of this thread.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A generator of random numbers (xorshift) at nearly no cost.
#[derive(Clone, Copy)]
struct Random(u64);

impl Random {
    #[inline]
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((u128::from(self.0) * u128::from(bound)) >> 64) as u64
    }
}

/// Jobs that load words, mostly from a small set.
#[derive(Clone)]
struct Loads;

const LOADS_A_JOB: u64 = 1_000;

impl Workload for Loads {
    fn size_bytes(&self) -> u64 {
        1 << 30
    }

    fn image(&self, _page: PageId, out: &mut [u8; PAGE_BYTES]) {
        out.fill(0);
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        let mut random = Random((job + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut sum = 0;
        for _ in 0..LOADS_A_JOB {
            let bytes = match random.below(1_000) {
                0 => 1 << 30,
                1..50 => 4 << 20,
                _ => 32 << 10,
            };
            sum += memory.load::<u64>(Addr(random.below(bytes / 8) * 8));
        }
        if sum == 0 { Ok(()) } else { Err(Corrupt("zeros add up to something".to_string())) }
    }

    fn writes(&self) -> bool {
        false
    }
}

fn machine() -> Vec<f64> {
    let config = config(&[("dataset.size", "1GiB"), ("dram_cache.size", "32MiB")]);
    let parts = designs::compose(&config).expect("a valid configuration");
    let mut machine = Machine::new(&config, parts, Loads).expect("a machine");
    let mut round = || {
        let start = now();
        machine.run(10_000).expect("jobs end");
        let seconds = (now() - start).as_secs_f64();
        machine.take_measured().accesses as f64 / seconds / 1e6
    };
    round();
    (0..ROUNDS).map(|_| round()).collect()
}

/// A run of a program. Returns the rate of the measured part, and the rate since its calibration
/// began.
fn program(design: &str, workload: Kind) -> (Vec<f64>, Vec<f64>) {
    let config = resolve(design, &[]).expect("a design").scaled(1, 256);
    let plan = Plan { config, workload, jobs: 20_000, seed: 1, arrivals: Offered::Saturating };
    let round = || {
        let first = now();
        let watch = Watch::unattended();
        let mut simulation = Simulation::warmed(&plan, watch).expect("a machine");
        let start = now();
        let accesses = simulation.measure(watch).expect("jobs end").accesses as f64;
        [start, first].map(|since| accesses / (now() - since).as_secs_f64() / 1e6)
    };
    (0..ROUNDS).map(|_| round()).map(|[measured, whole]| (measured, whole)).unzip()
}

/// Prints the times of the stages of a run of the hash table on AstriFlash, at one `denominator`th
/// of the paper's size.
fn stages(denominator: u64) {
    let config = resolve("astriflash", &[]).expect("a design").scaled(1, denominator);
    let (workload, arrivals) = (Kind::HashTable, Offered::Saturating);
    let plan = Plan { config, workload, jobs: 20_000, seed: 1, arrivals };
    let seen = Mutex::new(Vec::<(String, Duration)>::new());
    let (show, stop) = (
        |stage: &str, _: f64| {
            let mut seen = seen.lock().expect("nothing panics");
            if seen.last().is_none_or(|(last, _)| last != stage) {
                seen.push((stage.to_string(), now()));
            }
        },
        Stop::new(),
    );
    let watch = Watch::new(&show, &stop);
    let first = now();
    let mut simulation = Simulation::warmed(&plan, watch).expect("a machine");
    simulation.measure(watch).expect("jobs end");
    let end = now();
    let seen = seen.lock().expect("nothing panics");
    let ends = seen.iter().skip(1).map(|(_, at)| *at).chain([end]);
    print!(
        "stages of a run at 1/{denominator}, seconds: {:.3} in all",
        (end - first).as_secs_f64()
    );
    for ((stage, from), to) in seen.iter().zip(ends) {
        print!(", {stage} {:.3}", (to - *from).as_secs_f64());
    }
    println!();
}

/// A shipped trace, from its file.
fn native(design: &str) -> Vec<f64> {
    const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../papers/traces/sqlite.ebt");
    let config = resolve(design, &[]).expect("a design");
    let pages = config.dataset.size.0 / PAGE_BYTES as u64;
    let round = || {
        let start = now();
        let trace = ebbtide_trace::open(TRACE.as_ref()).expect("a trace");
        let replayed = replay(&config, &mut Folded::new(trace, pages)).expect("a whole trace");
        let seconds = (now() - start).as_secs_f64();
        replayed.accesses as f64 / seconds / 1e6
    };
    (0..ROUNDS).map(|_| round()).collect()
}

/// A trace that is generated while it is read.
#[derive(Clone, Copy)]
struct MadeUp {
    random: Random,
    /// Accesses that remain, and accesses generated already.
    left: u64,
    made: u64,
    /// Time between two accesses.
    gap_ns: u64,
    /// Size of the region of most accesses.
    within: u64,
    /// One access of this many goes anywhere in `beyond` bytes instead.
    one_in: u64,
    beyond: u64,
}

const HITS: MadeUp = MadeUp {
    random: Random(1),
    left: 10_000_000,
    made: 0,
    gap_ns: 20,
    within: 64 << 20,
    one_in: u64::MAX,
    beyond: 1,
};

const MISSES: MadeUp = MadeUp { left: 2_000_000, gap_ns: 200, within: 256 << 30, ..HITS };

/// Rates of the device's DRAM for lines, and of its flash for pages.
const DEVICE_HITS: MadeUp = MadeUp { gap_ns: 50, within: 32 << 20, ..HITS };
const DEVICE_MISSES: MadeUp = MadeUp { gap_ns: 500, within: 8 << 30, ..MISSES };

const PREFETCHERS: [(&str, &str); 5] = [
    ("", "none"),
    (", next-n-line", "next-n-line"),
    (", feedback-directed", "feedback-directed"),
    (", best-offset", "best-offset"),
    (", leap", "leap"),
];

const MIXED: MadeUp = MadeUp { gap_ns: 50, within: 32 << 20, one_in: 50, beyond: 1 << 30, ..HITS };

impl Source for MadeUp {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        batch.clear();
        let count = self.left.min(2_048);
        batch.extend((0..count).map(|i| {
            let far = self.random.below(self.one_in) == 0 && self.one_in < u64::MAX;
            let line = self.random.below(if far { self.beyond } else { self.within } / 64);
            Access::new(Time::from_ns((self.made + i) * self.gap_ns), Addr(line * 64), 64, Op::Read)
        }));
        self.left -= count;
        self.made += count;
        Ok(count > 0)
    }
}

fn trace(config: &Config, made_up: MadeUp) -> Vec<f64> {
    let round = || {
        let mut source = made_up;
        let start = now();
        let replayed = replay(config, &mut source).expect("a whole trace");
        let seconds = (now() - start).as_secs_f64();
        replayed.accesses as f64 / seconds / 1e6
    };
    (0..ROUNDS).map(|_| round()).collect()
}
