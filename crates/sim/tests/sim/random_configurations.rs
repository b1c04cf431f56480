//! Tests small machines of random shape: every job ends, and no data is invented or lost on its way
//! to flash.

use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Offered, Outcome, Plan, designs, simulate};
use ebbtide_workloads::Kind;
use proptest::prelude::*;

const JOBS: u64 = 300;

/// A machine. Its numbers are possible for any design, with powers of two where necessary.
#[derive(Debug, Clone)]
struct Shape {
    cores: usize,
    threads: usize,
    walk_levels: usize,
    /// 4 KiB pages of DRAM, as a power of two.
    frames_log: u32,
    ways_log: u32,
    mshr_sets: usize,
    mshr_ways: usize,
    queue: usize,
    evict_buffer: usize,
    controllers: usize,
    policy: &'static str,
    scheduler: &'static str,
    page_tables: &'static str,
    preset: &'static str,
}

fn shapes() -> impl Strategy<Value = Shape> {
    let cores = (1..4usize, 1..10usize, 1..4usize);
    let cache = (5..10u32, 0..4u32);
    let queues = (1..5usize, 1..5usize, 1..5usize, 1..3usize, 1..4usize);
    let policy = prop::sample::select(vec!["lru", "fifo", "clock", "cflru", "random", "s3-fifo"]);
    let scheduler = prop::sample::select(vec!["priority", "fifo"]);
    let page_tables = prop::sample::select(vec!["flat", "cached"]);
    let preset = prop::sample::select(vec!["flat", "ull", "tlc"]);
    (cores, cache, queues, policy, scheduler, page_tables, preset).prop_map(
        |(cores, cache, queues, policy, scheduler, page_tables, preset)| Shape {
            cores: cores.0,
            threads: cores.1,
            walk_levels: cores.2,
            frames_log: cache.0,
            ways_log: cache.1,
            mshr_sets: queues.0,
            mshr_ways: queues.1,
            queue: queues.2,
            evict_buffer: queues.3,
            controllers: queues.4,
            policy,
            scheduler,
            page_tables,
            preset,
        },
    )
}

fn config(design: &str, shape: &Shape) -> Config {
    let mshr = shape.mshr_sets * shape.mshr_ways;
    let keys = [
        ("cores.count", shape.cores.to_string()),
        ("llc.size", (shape.cores << 17).to_string()),
        ("switch.threads", shape.threads.to_string()),
        ("switch.scheduler", shape.scheduler.to_string()),
        ("os.threads", shape.threads.to_string()),
        ("tlb.walk_levels", shape.walk_levels.to_string()),
        ("tlb.page_tables", shape.page_tables.to_string()),
        ("dram.controllers", shape.controllers.to_string()),
        ("dram_cache.size", (4096u64 << shape.frames_log).to_string()),
        ("dram_cache.ways", (1 << shape.ways_log).to_string()),
        ("dram_cache.policy", shape.policy.to_string()),
        ("dram_cache.mshr", mshr.to_string()),
        ("dram_cache.mshr_ways", shape.mshr_ways.to_string()),
        ("dram_cache.backside_queue", shape.queue.to_string()),
        ("dram_cache.evict_buffer", shape.evict_buffer.to_string()),
        ("flash.preset", shape.preset.to_string()),
        ("dataset.size", "16MiB".to_string()),
    ];
    let keys: Vec<(&str, &str)> = keys.iter().map(|(key, value)| (*key, value.as_str())).collect();
    resolve(design, &keys).expect("a machine that can be built")
}

fn run(config: Config, workload: Kind) -> Outcome {
    let plan = Plan { config, workload, jobs: JOBS, seed: 1, arrivals: Offered::Saturating };
    simulate(&plan).expect("jobs end")
}

/// Whether two counts agree except for requests in flight at the two ends of a run.
fn about(one: u64, other: u64, under_way: u64) -> bool {
    one.abs_diff(other) <= under_way
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn a_hardware_cache_or_paging_of_any_shape_asks_flash_for_what_was_missed(
        shape in shapes(),
        design in prop::sample::select(vec!["astriflash", "flash-sync", "os-swap"]),
        workload in prop::sample::select(vec![Kind::ArraySwap, Kind::HashTable, Kind::Tatp]),
    ) {
        let outcome = run(config(design, &shape), workload);
        let (cache, flash) = (&outcome.memory, &outcome.flash);
        prop_assert_eq!(outcome.jobs, JOBS);
        let pending = (shape.mshr_sets * shape.mshr_ways) as u64;
        prop_assert!(cache.cache.in_flight_peak <= pending);
        // A miss that was merged into another one in flight starts no read.
        prop_assert!(about(flash.reads, cache.cache.misses, pending), "{flash:?} {cache:?}");
        // A new page takes the frame of an evicted page, or one that was never used.
        let evictions = cache.cache.evictions_clean + cache.cache.evictions_dirty;
        let frames = 1 << shape.frames_log;
        prop_assert!(evictions <= cache.cache.misses + pending, "{cache:?}");
        prop_assert!(evictions + pending + frames >= cache.cache.misses, "{cache:?}");
        let buffers = (shape.controllers * shape.evict_buffer) as u64 + pending;
        // An SSD counts a write when it leaves its own buffer, of thousands of pages.
        let written = about(flash.writes, cache.cache.evictions_dirty, buffers);
        prop_assert!(written || shape.preset != "flat", "{flash:?} {cache:?}");
        let (service, response) = (&outcome.service_ns, &outcome.response_ns);
        prop_assert!(service.p50 <= service.p99 && service.p99 <= service.max);
        prop_assert!(service.max <= response.max && outcome.ratio_to_dram <= 1.05);
    }
}

#[test]
fn every_design_ends_its_jobs_on_a_small_machine() {
    for design in designs::ALL {
        let keys = [
            ("cores.count", "2"),
            ("llc.size", "256KiB"),
            ("dataset.size", "64MiB"),
            ("switch.threads", "4"),
        ];
        let own = resolve(design.name, &[]).expect("a design");
        let keys: Vec<_> = if own.promotion.is_some() {
            // 20 ways and a power of two of sets.
            [&keys[..], &[("dram_cache.size", "640KiB"), ("promotion.size", "2MiB")]].concat()
        } else {
            [&keys[..], &[("dram_cache.size", "4MiB")]].concat()
        };
        let config = resolve(design.name, &keys).expect("a machine that can be built");
        let outcome = run(config, Kind::ArraySwap);
        assert_eq!(outcome.jobs, JOBS, "{}", design.name);
        assert!(outcome.simulated_ns > 0 && outcome.accesses > JOBS, "{}", design.name);
    }
}
