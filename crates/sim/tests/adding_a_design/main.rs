//! Tests the promises of `docs/ADDING_A_DESIGN.md`. A new design is one short file and one TOML
//! file. A policy or a prefetcher is one file. A mixture of designs is a TOML file alone.
//!
//! The guide's files are under `sim` and `core` here, and are compiled as the guide shows them. So
//! this crate has modules with the names that they use in those crates.

/// Stands for `ebbtide_core::addr`.
mod addr {
    pub use ebbtide_core::{FrameId, PageId};
}
/// Stands for `ebbtide_core::archive`.
mod archive {
    pub use ebbtide_core::Archive;
}
/// Stands for `ebbtide_sim::core_side`.
mod core_side {
    pub use ebbtide_sim::CoreSide;
}
#[path = "sim/src/designs/mod.rs"]
mod designs;
mod guide;
/// Stands for `ebbtide_sim::memory_side`.
mod memory_side {
    pub use ebbtide_sim::memory_side::DramCache;
}
#[path = "core/src/prefetch/mod.rs"]
mod prefetch;
#[path = "core/src/replacement/mod.rs"]
mod replacement;

use std::fs;

use addr::PageId;
use core_side::CoreSide;
use ebbtide_core::{Time, Watch};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::{Design, Overrides, Parts, compose, resolve};
use ebbtide_sim::memory_side::{Answer, DeviceCache, MemorySide, Observe, Request, Waiter};
use ebbtide_sim::{Offered, Outcome, Plan, Simulation};
use ebbtide_workloads::Kind;
use memory_side::DramCache;

/// A machine whose runs are short.
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

/// The guide's design.
const MINE: &Design = designs::ALL[0];

#[test]
fn the_guide_shows_the_files_that_are_compiled_here() {
    let blocks = guide::blocks();
    let files = blocks.iter().filter(|block| block.path.starts_with("crates/"));
    let files = files.filter(|block| block.language != "diff");
    let own = guide::workspace().join("crates/sim/tests/adding_a_design");
    let mut compared = Vec::new();
    for block in files {
        let name = block.path.strip_prefix("crates/").expect("it starts so");
        let compiled = fs::read_to_string(own.join(name)).unwrap_or_default();
        assert_eq!(block.text, compiled, "{}", block.path);
        assert!(!guide::workspace().join(&block.path).exists(), "{} is taken", block.path);
        compared.push(name);
    }
    assert_eq!(
        compared,
        [
            "sim/configs/mine.toml",
            "sim/src/designs/mine.rs",
            "core/src/replacement/last_in_first_out.rs",
            "core/src/prefetch/page_before.rs",
        ]
    );
}

#[test]
fn the_changes_that_the_guide_shows_can_be_made() {
    let blocks = guide::blocks();
    let diffs: Vec<_> = blocks.iter().filter(|block| block.language == "diff").collect();
    assert!(diffs.len() >= 3, "a design, a policy and a prefetcher are each listed somewhere");
    for block in diffs {
        let text = fs::read_to_string(guide::workspace().join(&block.path)).expect("a file");
        let hunks: Vec<_> = block.text.split("@@\n").filter(|hunk| !hunk.is_empty()).collect();
        for hunk in &hunks {
            assert!(guide::applies(hunk, &text), "{} does not have\n{hunk}", block.path);
        }
    }
    assert!(guide::applies(" a\n+b\n c\n", "a\nc\n"));
    assert!(!guide::applies(" a\n+b\n c\n", "a\nd\nc\n"));
    assert!(!guide::applies(" a\n+b\n", "a\na\n"), "a place is found once");
}

#[test]
fn a_design_of_ones_own_runs_like_the_shipped_ones() {
    let config = MINE.resolve(SMALL).unwrap();
    assert_eq!((config.switch.threads, config.dram_cache.ways), (8, 4));
    let mine = run(config.clone(), MINE.compose(&config).unwrap());
    assert_eq!((mine.design.as_str(), mine.jobs), ("mine", 2_000));
    let same = [("switch.threads", "8"), ("switch.cost_ns", "40")];
    let same = resolve("astriflash", &[SMALL, &same].concat()).unwrap();
    let same = run(same.clone(), compose(&same).unwrap());
    assert_eq!(mine.simulated_ns, same.simulated_ns);
}

#[test]
fn a_policy_of_ones_own_decides_what_a_design_misses() {
    let of_mine = MINE.resolve(SMALL).unwrap();
    let lru = run(of_mine.clone(), MINE.compose(&of_mine).unwrap());
    let cache = DramCache::with_policy(&of_mine, |geometry| {
        let (policy, bytes) = replacement::build(geometry);
        assert!(bytes >= geometry.frames() * size_of::<addr::FrameId>(), "{bytes}");
        policy
    });
    let parts = Parts { memory_side: Box::new(cache.unwrap()), ..MINE.compose(&of_mine).unwrap() };
    let own = run(of_mine, parts);
    assert!(own.flash.reads > 0);
    assert_ne!(own.memory.cache.misses, lru.memory.cache.misses, "the policy decides");
}

/// Misses of a memory on a scan of its pages from the last to the first. Each request waits for the
/// pages before it.
fn backwards(memory: &mut dyn MemorySide, pages: u64) -> u64 {
    let (mut now, mut events) = (Time::ZERO, Vec::new());
    for page in (0..pages).rev() {
        let waiter = Waiter { core: 0, thread: 0, slot: 0 };
        let answer = memory.access(now, Request::new(PageId(page).start(), false, waiter));
        assert!(matches!(answer, Answer::Hit(_) | Answer::Miss(_)), "{answer:?}");
        while let Some(due) = memory.next_event() {
            now = now.max(due);
            memory.advance(now, &mut events);
        }
    }
    memory.take_counters().cache.misses
}

#[test]
fn a_prefetcher_of_ones_own_runs_like_the_shipped_ones() {
    let keys = [("dataset.size", "64MiB"), ("dram_cache.size", "2MiB")];
    let config = resolve("cxl-flash", &keys).unwrap();
    let mut own = DeviceCache::with_prefetcher(&config, prefetch::build()).unwrap();
    assert_eq!(backwards(&mut own, 100), 1, "all but the first were fetched ahead");
    let metrics = own.prefetched().unwrap();
    assert_eq!((metrics.issued, metrics.used, metrics.late), (99, 99, 0));
    let mut none = DeviceCache::new(&config).unwrap();
    assert_eq!(backwards(&mut none, 100), 100);
    let merges_nothing = resolve("cxl-flash", &[("dram_cache.mshr", "0")]).unwrap();
    let refused = DeviceCache::with_prefetcher(&merges_nothing, prefetch::build());
    assert!(refused.err().unwrap().to_string().contains("dram_cache.mshr"));
}

#[test]
fn a_toml_file_alone_puts_sides_of_different_designs_together() {
    let blocks = guide::blocks();
    let shown = blocks.iter().find(|block| block.path == "mine.toml").expect("the first block");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    fs::write(&path, &shown.text).unwrap();
    let mixed = resolve(path.to_str().unwrap(), SMALL).unwrap();
    let threads = mixed.switch.threads;
    let parts = compose(&mixed).unwrap();
    assert!(
        matches!(&parts.core_side, CoreSide::Switch(switching) if switching.threads == threads),
        "{:?}",
        parts.core_side
    );
    assert_eq!(parts.memory_side.name(), "DeviceCache");
    let mixed = run(mixed, parts);
    assert!(mixed.flash.reads > 0);
    let blocking = resolve("cxl-flash", SMALL).unwrap();
    let blocking = run(blocking.clone(), compose(&blocking).unwrap());
    assert!(mixed.simulated_ns < blocking.simulated_ns, "switching hides what blocking waits for");
}

#[test]
fn a_side_of_another_design_runs_as_that_design_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("blocking.toml");
    let text = "base = \"astriflash\"\n[parts]\ncore_side = \"flash-sync\"\n";
    fs::write(&path, text).unwrap();
    let mixed = resolve(path.to_str().unwrap(), SMALL).unwrap();
    let parts = compose(&mixed).unwrap();
    assert_eq!(parts.core_side, CoreSide::Block);
    let mixed = run(mixed, parts);
    let flash_sync = resolve("flash-sync", SMALL).unwrap();
    let flash_sync = run(flash_sync.clone(), compose(&flash_sync).unwrap());
    assert_eq!(mixed.simulated_ns, flash_sync.simulated_ns);
}
