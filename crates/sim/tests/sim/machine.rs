//! Tests the whole machine: queues agree with theory, designs with their papers, and results repeat
//! exactly.

use std::collections::BTreeSet;
use std::sync::Mutex;

use ebbtide_core::{FullMemory, PAGE_BYTES, PageId, Span, Stop, Watch};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{
    Coherence, Load, Machine, Offered, Outcome, Plan, SimError, Simulation, WORK_UNITS, designs,
    simulate,
};
use ebbtide_workloads::{Corrupt, Kind, Workload};

/// Jobs that only compute, for exponentially distributed times with a mean of one unit.
#[derive(Clone)]
struct Exponential;

impl Workload for Exponential {
    fn size_bytes(&self) -> u64 {
        PAGE_BYTES as u64
    }

    fn image(&self, _page: PageId, out: &mut [u8; PAGE_BYTES]) {
        out.fill(0);
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        let mut bits = job.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let uniform = ((bits >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        memory.work((-uniform.ln() * WORK_UNITS as f64) as u64);
        Ok(())
    }

    fn writes(&self) -> bool {
        false
    }
}

#[test]
fn a_core_under_poisson_arrivals_is_the_queue_m_m_1() {
    let config = resolve("dram-only", &[("cores.count", "1"), ("llc.size", "1MiB")]).unwrap();
    for (load, jobs) in [(0.5, 200_000), (0.8, 400_000)] {
        let parts = designs::compose(&config).unwrap();
        let mut machine = Machine::new(&config, parts, Exponential).unwrap();
        machine.set_work(Span::from_us(10));
        machine.set_load(Load::Poisson { jobs_per_s: load * 1e5, seed: 3 });
        machine.run(jobs / 10).unwrap();
        machine.take_measured();
        let time = machine.run(jobs).unwrap();
        let measured = machine.take_measured();
        let waited = measured.waited.as_ps() as f64 / time.as_ps() as f64;
        assert!((waited - (1.0 - load)).abs() < 0.02, "at {load} a core waits for {waited}");
        let response = measured.response;
        // The mean response of M/M/1 is 1 / (mu - lambda), its 99th percentile ln(100) times that.
        let exact_ns = 10_000.0 / (1.0 - load);
        assert!((response.mean / exact_ns - 1.0).abs() < 0.06, "{load}: {}", response.mean);
        let p99 = response.p99 as f64 / (100f64.ln() * exact_ns);
        assert!((p99 - 1.0).abs() < 0.08, "{load}: p99 {p99} of the exact one");
    }
}

/// The chance that a new job finds all of `servers` busy (Erlang C). `offered` is the mean number
/// of jobs in service.
fn all_busy(servers: u32, offered: f64) -> f64 {
    let term = |n: u32| (1..=n).fold(1.0, |term, i| term * offered / f64::from(i));
    let waiting = term(servers) / (1.0 - offered / f64::from(servers));
    waiting / ((0..servers).map(term).sum::<f64>() + waiting)
}

#[test]
fn cores_that_share_a_queue_are_the_queue_m_m_k() {
    for (cores, load, jobs) in [(2, 0.5, 200_000), (4, 0.8, 400_000)] {
        let count = cores.to_string();
        let keys = [("cores.count", count.as_str()), ("llc.size", "1MiB")];
        let config = resolve("dram-only", &keys).unwrap();
        let parts = designs::compose(&config).unwrap();
        let mut machine = Machine::new(&config, parts, Exponential).unwrap();
        machine.set_work(Span::from_us(10));
        let servers = f64::from(cores);
        machine.set_load(Load::PoissonShared { jobs_per_s: load * servers * 1e5, seed: 3 });
        machine.run(jobs / 10).unwrap();
        machine.take_measured();
        machine.run(jobs).unwrap();
        let response = machine.take_measured().response;
        let exact_ns = 10_000.0 * (1.0 + all_busy(cores, load * servers) / servers / (1.0 - load));
        assert!((response.mean / exact_ns - 1.0).abs() < 0.04, "{cores}: {}", response.mean);
    }
}

fn small(design: &str, overrides: &[(&str, &str)]) -> Config {
    let size = [
        ("cores.count", "2"),
        ("llc.size", "256KiB"),
        ("dataset.size", "64MiB"),
        ("dram_cache.size", "2MiB"),
    ];
    resolve(design, &[&size, overrides].concat()).unwrap()
}

fn run(design: &str, workload: Kind, overrides: &[(&str, &str)]) -> Outcome {
    run_jobs(4_000, design, workload, overrides)
}

fn run_jobs(jobs: u64, design: &str, workload: Kind, overrides: &[(&str, &str)]) -> Outcome {
    let config = small(design, overrides);
    let plan = Plan { config, workload, jobs, seed: 1, arrivals: Offered::Saturating };
    simulate(&plan).unwrap()
}

#[test]
fn without_priorities_a_halted_job_waits_for_a_later_miss_also_under_light_load() {
    let service = |looks: &str| {
        let config = small("astriflash-nops", &[("switch.looks_after_jobs", looks)]);
        let (workload, arrivals) = (Kind::HashTable, Offered::PoissonShare(0.2));
        simulate(&Plan { config, workload, jobs: 4_000, seed: 1, arrivals }).unwrap().service_ns
    };
    let (patient, eager) = (service("false"), service("true"));
    assert!(patient.mean > 1.5 * eager.mean, "{} and {}", patient.mean, eager.mean);
}

#[test]
fn a_drive_that_takes_writes_slowly_slows_the_program() {
    let jobs_per_s = |buffer: &str| {
        let keys = [("flash.preset", "tlc-pcie4"), ("flash.write_buffer_pages", buffer)];
        run("astriflash", Kind::ArraySwap, &keys).jobs_per_s
    };
    let (small, large) = (jobs_per_s("16"), jobs_per_s("1000000"));
    assert!(small < 0.8 * large, "{small} and {large} jobs a second");
}

#[test]
fn the_same_plan_gives_the_same_result() {
    for workload in [Kind::HashTable, Kind::ArraySwap] {
        let [one, other] = [(); 2].map(|()| {
            let outcome = run("astriflash", workload, &[]);
            serde_json::to_value(Outcome { wall_s: 0.0, accesses_per_wall_s: 0.0, ..outcome })
        });
        assert_eq!(one.unwrap(), other.unwrap());
    }
}

#[test]
fn a_run_can_be_broken_off_at_every_stage() {
    // One pass counts the misses of the hash table and warms the caches. Masstree takes two.
    for (workload, stages) in [(Kind::HashTable, 4), (Kind::Masstree, 5)] {
        is_broken_off_at_every_stage(workload, stages);
    }
}

fn is_broken_off_at_every_stage(workload: Kind, count: usize) {
    let config = small("astriflash", &[]);
    let plan = Plan { config, workload, jobs: 4_000, seed: 1, arrivals: Offered::Saturating };
    let told = Mutex::new(Vec::new());
    // Each run has its own seed, because a run with the same seed would reuse the calibration.
    let run = |seed: u64, last: Option<&str>| {
        let plan = Plan { seed, ..plan.clone() };
        let stop = Stop::new();
        let show = |stage: &str, share: f64| {
            told.lock().unwrap().push((stage.to_string(), share));
            if last == Some(stage) {
                stop.stop();
            }
        };
        let watch = Watch::new(&show, &stop);
        Simulation::warmed(&plan, watch).and_then(|mut run| run.measure(watch))
    };
    run(1, None).unwrap();
    let whole = std::mem::take(&mut *told.lock().unwrap());
    assert!(whole.iter().all(|(_, share)| (0.0..=1.0).contains(share)));
    let stages: BTreeSet<&str> = whole.iter().map(|(stage, _)| stage.as_str()).collect();
    assert_eq!(stages.len(), count, "{stages:?}");
    for (seed, stage) in (2..).zip(stages) {
        assert!(matches!(run(seed, Some(stage)), Err(SimError::Stopped(_))), "{stage}");
        let until = std::mem::take(&mut *told.lock().unwrap());
        assert_eq!(until.last().map(|(stage, _)| stage.as_str()), Some(stage));
        let of_stage = until.iter().filter(|(told, _)| told == stage).count();
        assert_eq!(of_stage, 1, "{stage}");
    }
}

#[test]
fn designs_rank_as_in_their_paper() {
    let ratio = |design| run(design, Kind::RedBlackTree, &[]).ratio_to_dram;
    let [ideal, astriflash, os_swap, flash_sync] =
        ["astriflash-ideal", "astriflash", "os-swap", "flash-sync"].map(ratio);
    assert!(ideal > astriflash && astriflash > os_swap && os_swap > flash_sync);
    assert!(astriflash > 0.9 && flash_sync < 0.3, "{astriflash} {flash_sync}");
}

#[test]
fn hints_of_a_program_reach_a_device_that_listens() {
    let [deaf, listening] =
        ["false", "true"].map(|hints| run("cxl-flash", Kind::Gups, &[("prefetch.hints", hints)]));
    // A blocked core reads one page at a time; hints have the flash read many.
    let awaited =
        |outcome: &Outcome| outcome.memory.cache.misses - outcome.memory.cache.write_back_misses;
    assert!(awaited(&listening) * 2 < awaited(&deaf), "{:?}", listening.memory);
    assert!(
        listening.jobs_per_s > 1.5 * deaf.jobs_per_s,
        "{} {}",
        listening.jobs_per_s,
        deaf.jobs_per_s
    );
}

#[test]
#[ignore = "slow"]
fn values_of_a_vertexs_neighbours_arrive_together() {
    for program in [Kind::PageRank, Kind::ConnectedComponents] {
        let [one, many] = ["1", "32"].map(|registers| {
            let keys = [("cores.miss_registers", registers), ("dram_cache.size", "512KiB")];
            // A job has hundreds of neighbours.
            run_jobs(500, "flash-sync", program, &keys).jobs_per_s
        });
        assert!(many > 1.5 * one, "{program}: {many} jobs/s against {one}");
    }
}

#[test]
fn jobs_end_however_few_frames_there_are() {
    // Sixteen frames under 64 threads: pages are evicted again before their threads run.
    let tiny = [("dram_cache.size", "64KiB")];
    for design in ["astriflash", "astriflash-nops", "astriflash-nodp", "os-swap", "flash-sync"] {
        for workload in [Kind::ArraySwap, Kind::HashTable] {
            let outcome = run(design, workload, &tiny);
            assert_eq!(outcome.jobs, 4_000, "{design}");
            assert!(outcome.memory.cache.misses > 4_000, "{design}");
        }
    }
}

#[test]
fn without_the_partition_a_cold_page_costs_two_serial_reads() {
    let [with, without] = ["astriflash", "astriflash-nodp"].map(|design| {
        let few = [("switch.threads", "1"), ("dataset.size", "1GiB"), ("workload.theta", "0")];
        run(design, Kind::ArraySwap, &few)
    });
    let mean = |outcome: &Outcome| outcome.latency_ns.max as f64 / 1e3;
    assert!(mean(&with) < 60.0 && mean(&without) > 100.0, "{} {}", mean(&with), mean(&without));
}

#[test]
fn free_switches_cost_less_and_first_in_first_out_waits_longer() {
    let [plain, ideal, no_ps] = ["astriflash", "astriflash-ideal", "astriflash-nops"]
        .map(|design| run(design, Kind::Tatp, &[]));
    assert!(ideal.jobs_per_s > plain.jobs_per_s);
    assert!(no_ps.service_ns.p99 > 3 * plain.service_ns.p99);
}

#[test]
fn what_moves_is_counted_where_it_moves_and_who_waits_is_not_busy() {
    for design in ["astriflash", "os-swap", "flash-sync"] {
        let outcome = run(design, Kind::ArraySwap, &[]);
        let counters = &outcome.memory;
        // Pages in flight when the count begins or ends.
        let moving = counters.cache.in_flight_peak;
        assert!(
            counters.traffic.dram_pages_in.abs_diff(counters.cache.misses) <= moving,
            "{counters:?}"
        );
        let out = counters.traffic.dram_pages_out.abs_diff(counters.cache.evictions_dirty);
        assert!(out <= moving && counters.traffic.dram_pages_out > 0, "{counters:?}");
        let pages = counters.traffic.dram_pages_in + counters.traffic.dram_pages_out;
        assert_eq!(counters.traffic.link_bytes, pages * PAGE_BYTES as u64);
        assert_eq!(counters.traffic.device_dram_bytes, 2 * counters.traffic.link_bytes);
        assert!(
            counters.traffic.dram_lines >= counters.cache.hits && outcome.lines_written_back > 0
        );
        let flash = &outcome.flash;
        assert_eq!((flash.array_reads, flash.reads > 0), (flash.reads, true), "{flash:?}");
    }
    let busy = |design| run(design, Kind::RedBlackTree, &[]).busy_share;
    let [waiting, switching] = ["flash-sync", "astriflash"].map(busy);
    assert!(waiting < 0.5 && switching > 0.9, "{waiting} {switching}");
}

#[test]
fn where_a_job_s_time_goes_adds_up_to_its_service() {
    for (design, workload) in [("astriflash", Kind::Tpcc), ("flash-sync", Kind::ArraySwap)] {
        let outcome = run(design, workload, &[]);
        let (parts, service) = (outcome.service_parts, outcome.service_ns);
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.01;
        assert!(near(parts.mean.total_ns(), service.mean), "{design}: {parts:?}, {service:?}");
        assert!(parts.slowest.total_ns() >= 0.99 * service.p99 as f64, "{design}: {parts:?}");
        // Each miss that started a read has a waiter, for about 50 us.
        let cache = &outcome.memory.cache;
        let a_miss = parts.mean.memory_ns * outcome.jobs as f64
            / (cache.misses - cache.write_back_misses) as f64;
        assert!((40e3..120e3).contains(&a_miss), "{design}: {a_miss} ns a miss");
        let waits_for_others = parts.mean.core_ns + parts.mean.latch_ns;
        assert_eq!(waits_for_others > 0.0, design == "astriflash", "{design}: {parts:?}");
    }
}

/// Jobs that load two words in a row and store a third one later, each in a page of its own.
#[derive(Clone)]
struct PairAndStore;

impl Workload for PairAndStore {
    fn size_bytes(&self) -> u64 {
        64 << 20
    }

    fn image(&self, _page: PageId, out: &mut [u8; PAGE_BYTES]) {
        out.fill(0);
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        let page = |number: u64| PageId(3 * job + number).start();
        memory.work(WORK_UNITS / 2);
        memory.load::<u64>(page(0));
        memory.load::<u64>(page(1));
        memory.work(WORK_UNITS / 2);
        memory.store(page(2), 1u64);
        Ok(())
    }

    fn writes(&self) -> bool {
        true
    }
}

#[test]
fn a_core_that_blocks_tells_what_it_could_have_overlapped() {
    let config = small("flash-sync", &[("cores.count", "1")]);
    let mut machine =
        Machine::new(&config, designs::compose(&config).unwrap(), PairAndStore).unwrap();
    machine.set_work(Span::from_us(20));
    machine.run(1_000).unwrap();
    let missed = machine.take_measured().missed;
    assert_eq!((missed.loads, missed.loads_close, missed.stores), (2_000, 1_000, 1_000));
}

/// The operation of each job on a word of its own page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Once {
    Load,
    Store,
    Exchange,
}

impl Workload for Once {
    fn size_bytes(&self) -> u64 {
        64 << 20
    }

    fn image(&self, _page: PageId, out: &mut [u8; PAGE_BYTES]) {
        out.fill(0);
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        let at = PageId(job).start();
        let found = match self {
            Once::Load => memory.load(at),
            Once::Store => {
                memory.store(at, 1u64);
                0
            }
            Once::Exchange => memory.compare_exchange(at, 0, 1).unwrap_or_else(|found| found),
        };
        if found == 0 { Ok(()) } else { Err(Corrupt(format!("{found} in a page of zeros"))) }
    }

    fn writes(&self) -> bool {
        *self != Once::Load
    }
}

#[test]
fn an_exchange_is_waited_for_as_a_load_is_and_a_store_is_not() {
    let config = small("dram-only", &[("cores.count", "1")]);
    let [load, store, exchange] = [Once::Load, Once::Store, Once::Exchange].map(|once| {
        let parts = designs::compose(&config).unwrap();
        Machine::new(&config, parts, once).unwrap().run(1_000).unwrap()
    });
    assert_eq!(load, exchange);
    assert!(store < load, "{store:?} {load:?}");
}

#[test]
fn cores_take_lines_from_each_other_and_one_alone_has_nobody_to_take_them_from() {
    let coherence = |cores| run("astriflash", Kind::Tpcc, &[("cores.count", cores)]).coherence;
    let two = coherence("2");
    assert!(two.forwards > 0 && two.invalidations > 0 && two.upgrades > 0, "{two:?}");
    assert_eq!(coherence("1"), Coherence::default());
}
