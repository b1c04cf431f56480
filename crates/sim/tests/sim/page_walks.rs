//! Tests the requests of page walks to memory.

use std::cell::RefCell;
use std::rc::Rc;

use ebbtide_core::{FullMemory, PAGE_BYTES, PageId, Span, Time};
use ebbtide_sim::designs::{Parts, resolve};
use ebbtide_sim::memory_side::{Answer, Counters, Event, MemorySide, Observe, Request, Warm};
use ebbtide_sim::{CoreSide, Machine, Offered, Plan, simulate};
use ebbtide_workloads::{Corrupt, Kind, Workload};

/// Pages of the data.
const PAGES: u64 = 1 << 20;

/// Job `n` loads a word of one page, far from the pages of other jobs.
#[derive(Clone)]
struct FarApart;

impl Workload for FarApart {
    fn size_bytes(&self) -> u64 {
        PAGES * PAGE_BYTES as u64
    }

    fn image(&self, _page: PageId, out: &mut [u8; PAGE_BYTES]) {
        out.fill(0);
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        memory.load::<u64>(PageId(job * 40_009 % PAGES).start());
        Ok(())
    }

    fn writes(&self) -> bool {
        false
    }
}

/// Memory that has every page, and records the requested pages of the flat partition.
struct Recorder(Rc<RefCell<Vec<PageId>>>);

impl MemorySide for Recorder {
    fn access(&mut self, now: Time, _request: Request) -> Answer {
        Answer::Hit(now + Span::from_ns(50))
    }

    fn flat(&mut self, now: Time, page: PageId) -> Time {
        self.0.borrow_mut().push(page);
        now + Span::from_ns(50)
    }

    fn write_back(&mut self, _now: Time, _request: Request) {}

    fn next_event(&self) -> Option<Time> {
        None
    }

    fn advance(&mut self, _now: Time, _events: &mut Vec<Event>) {}
}

impl Warm for Recorder {
    fn warm(&mut self, _request: Request) {}

    fn warm_back(&mut self, _request: Request) {}
}

impl Observe for Recorder {
    fn take_counters(&mut self) -> Counters {
        Counters::default()
    }
}

/// Pages of page tables that `jobs` cold jobs request from memory, with a walk of `levels`.
fn walked(levels: &str, jobs: u64) -> Vec<PageId> {
    let config = resolve("dram-only", &[("cores.count", "1"), ("llc.size", "1MiB")]);
    let mut config = config.expect("a design and its keys");
    config.tlb.walk_levels = levels.parse().expect("a number");
    let asked = Rc::new(RefCell::new(Vec::new()));
    let memory_side = Box::new(Recorder(asked.clone()));
    let parts = Parts { core_side: CoreSide::Block, memory_side };
    let mut machine = Machine::new(&config, parts, FarApart).expect("a machine");
    machine.run(jobs).expect("jobs end");
    asked.take()
}

#[test]
fn each_level_of_a_walk_asks_for_a_line_of_its_own() {
    // A cold machine's first job: from the highest level down to the leaf.
    let level = |start: u64, nodes: u64| PageId(start)..PageId(start + nodes);
    let [leaves, middle, root] =
        [level(PAGES, 2_048), level(PAGES + 2_048, 4), level(PAGES + 2_052, 1)];
    let asked = walked("3", 1);
    for (page, level) in asked.iter().zip([root, middle, leaves.clone()]) {
        assert!(level.contains(page), "{page:?} is not in {level:?}");
    }
    assert!(leaves.contains(&walked("1", 1)[0]));
}

#[test]
fn the_root_stays_in_the_last_level_cache() {
    // A hundred distant pages share one line of the root, and no leaf.
    let asked = walked("3", 100);
    let root = asked.iter().filter(|page| page.0 == PAGES + 2_052).count();
    let leaves = asked.iter().filter(|page| page.0 < PAGES + 2_048).count();
    assert!(root == 1 && leaves >= 100, "{root}, {leaves}");
}

/// The page tables lie in the cache. Each set has one frame, so two tables of a walk, or a table
/// and the page, evict each other.
#[test]
fn pages_of_one_access_that_share_a_frame_do_not_evict_each_other_for_ever() {
    for design in ["os-swap", "astriflash", "flash-sync"] {
        let config = resolve(
            design,
            &[
                ("cores.count", "3"),
                ("llc.size", "384KiB"),
                ("switch.threads", "9"),
                ("os.threads", "9"),
                ("tlb.walk_levels", "3"),
                ("tlb.page_tables", "cached"),
                ("dram_cache.size", "128KiB"),
                ("dram_cache.ways", "1"),
                ("flash.preset", "flat"),
                ("dataset.size", "16MiB"),
            ],
        );
        let (jobs, arrivals) = (300, Offered::Saturating);
        let config = config.expect("a machine that can be built");
        let plan = Plan { config, workload: Kind::ArraySwap, jobs, seed: 1, arrivals };
        assert_eq!(simulate(&plan).expect("jobs end").jobs, jobs, "{design}");
    }
}
