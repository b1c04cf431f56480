//! What `docs/ADDING_A_DESIGN.md` promises: a design of one's own is one short file and one TOML, a
//! policy or a prefetcher one file, and a mixture of designs a TOML alone.

mod toy;

use ebbtide_core::{PageId, Time, Watch};
use ebbtide_sim::config::{Config, Overrides, resolve};
use ebbtide_sim::designs::{self, Parts};
use ebbtide_sim::memory_side::{Answer, DeviceCache, MemorySide, Request, Waiter};
use ebbtide_sim::{CoreSide, Offered, Outcome, Plan, Simulation};
use ebbtide_workloads::Kind;
use std::fs;
use toy::{PageBefore, TOY};

/// A machine whose runs take moments.
const SMALL: Overrides<'_> = &[
    ("cores.count", "2"),
    ("llc.size", "256KiB"),
    ("dataset.size", "64MiB"),
    ("dram_cache.size", "2MiB"),
];

fn run(config: Config, parts: Parts) -> Outcome {
    let workload = Kind::ArraySwap;
    let plan = Plan { config, workload, jobs: 2_000, seed: 1, arrivals: Offered::Saturating };
    let watch = Watch::unattended();
    Simulation::warmed_of(&plan, parts, watch).unwrap().measure(watch).unwrap()
}

#[test]
fn a_design_and_a_policy_of_ones_own_run_like_the_shipped_ones() {
    let config = TOY.resolve(SMALL).unwrap();
    assert_eq!((config.switch.threads, config.dram_cache.ways), (8, 4));
    let toy = run(config.clone(), TOY.compose(&config).unwrap());
    assert_eq!((toy.design.as_str(), toy.jobs), ("toy", 2_000));
    let lru = resolve("astriflash", &[SMALL, &[("switch.threads", "8")]].concat()).unwrap();
    let lru = run(lru.clone(), designs::compose(&lru).unwrap());
    assert!(toy.flash.reads > 0);
    assert_ne!(toy.dram_cache.misses, lru.dram_cache.misses, "the policy decides");
}

/// Misses of a memory whose pages are asked for from the last to the first, each when all before
/// are there.
fn backwards(memory: &mut dyn MemorySide, pages: u64) -> u64 {
    let (mut now, mut events) = (Time::ZERO, Vec::new());
    for page in (0..pages).rev() {
        let waiter = Waiter { core: 0, thread: 0 };
        let answer = memory.access(now, Request::new(PageId(page).start(), false, waiter));
        assert!(matches!(answer, Answer::Hit(_) | Answer::Miss(_)), "{answer:?}");
        while let Some(due) = memory.next_event() {
            now = now.max(due);
            memory.advance(now, &mut events);
        }
    }
    memory.take_counters().misses
}

#[test]
fn a_prefetcher_of_ones_own_runs_like_the_shipped_ones() {
    let keys = [("dataset.size", "64MiB"), ("dram_cache.size", "2MiB")];
    let config = resolve("cxl-flash", &keys).unwrap();
    let mut own = DeviceCache::with_prefetcher(&config, Box::new(PageBefore)).unwrap();
    assert_eq!(backwards(&mut own, 100), 1, "all but the first were fetched ahead");
    let metrics = own.prefetched().unwrap();
    assert_eq!((metrics.issued, metrics.used, metrics.late), (99, 99, 0));
    let mut none = DeviceCache::new(&config).unwrap();
    assert_eq!(backwards(&mut none, 100), 100);
    let merges_nothing = resolve("cxl-flash", &[("dram_cache.mshr", "0")]).unwrap();
    let refused = DeviceCache::with_prefetcher(&merges_nothing, Box::new(PageBefore));
    assert!(refused.err().unwrap().to_string().contains("dram_cache.mshr"));
}

#[test]
fn a_toml_file_alone_puts_sides_of_different_designs_together() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blocking.toml");
    let text = "base = \"astriflash\"\n[parts]\ncore_side = \"flash-sync\"\n";
    fs::write(&path, text).unwrap();
    let mixed = resolve(path.to_str().unwrap(), SMALL).unwrap();
    let parts = designs::compose(&mixed).unwrap();
    assert_eq!(parts.core_side, CoreSide::Block);
    let mixed = run(mixed, parts);
    let flash_sync = resolve("flash-sync", SMALL).unwrap();
    let flash_sync = run(flash_sync.clone(), designs::compose(&flash_sync).unwrap());
    assert_eq!(mixed.simulated_ns, flash_sync.simulated_ns);
}
