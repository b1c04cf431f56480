//! How much of TPC-C a small DRAM cache holds.

use std::collections::HashMap;

use ebbtide_core::replacement::{Frames, Geometry, PolicyKind, Replacement};
use ebbtide_core::{FrameId, PageId};
use ebbtide_workloads::{Observed, Program, Scatter, Shape, Work, Workload};

use crate::common::sparse;

/// LRU asks nothing of its frames.
struct NoMarks;

impl Frames for NoMarks {
    fn take_touches(&mut self, _frame: FrameId) -> u8 {
        0
    }
    fn is_dirty(&self, _frame: FrameId) -> bool {
        false
    }
    fn is_pinned(&self, _frame: FrameId) -> bool {
        false
    }
}

/// A cache of pages under LRU.
struct Cache {
    lru: Box<dyn Replacement>,
    frames: usize,
    resident: HashMap<PageId, FrameId>,
    holds: Vec<PageId>,
    misses: u64,
}

impl Cache {
    fn new(pages: u64, frames: usize) -> Cache {
        let lru = PolicyKind::Lru.build(Geometry::fully_associative(frames), pages, 0);
        Cache { lru, frames, resident: HashMap::new(), holds: Vec::new(), misses: 0 }
    }

    fn access(&mut self, page: PageId) {
        if let Some(&frame) = self.resident.get(&page) {
            return self.lru.touch(frame);
        }
        self.misses += 1;
        let frame = if self.holds.len() < self.frames {
            self.holds.push(page);
            FrameId(self.holds.len() as u32 - 1)
        } else {
            let victim = self.lru.victim(0, &mut NoMarks).expect("no frame is pinned");
            self.resident.remove(&self.holds[victim.index()]);
            self.holds[victim.index()] = page;
            victim
        };
        self.resident.insert(page, frame);
        self.lru.insert(frame, page);
    }
}

/// Misses a job with 3% of the dataset in DRAM: of `jobs` jobs the second half counts.
fn misses(name: &str, shape: Shape, jobs: u64) -> f64 {
    let program = Program::new(name, &shape).unwrap();
    let pages = program.size_bytes() / 4096;
    let mut cache = Cache::new(pages, (pages * 3 / 100) as usize);
    let mut memory = sparse(&program);
    let mut before = 0;
    for job in 0..jobs {
        if job == jobs / 2 {
            before = cache.misses;
        }
        let mut observed = Observed::new(&mut memory, Work::Skipped, |page, _| cache.access(page));
        program.run(job, &mut observed).unwrap();
    }
    (cache.misses - before) as f64 / (jobs - jobs / 2) as f64
}

#[test]
fn popular_rows_share_pages_unless_scattered() {
    let misses = |scatter| {
        let shape = Shape { dataset_bytes: 400 << 20, scatter, ..Shape::default() };
        misses("tpcc", shape, 6_000)
    };
    let (pages, keys) = (misses(Scatter::Pages), misses(Scatter::Keys));
    assert!(pages < 0.9 * keys, "{pages} and {keys} misses");
}

#[test]
#[ignore = "takes a minute"]
fn two_gibibytes_miss_as_often_as_documented() {
    let shape = Shape { dataset_bytes: 2 << 30, ..Shape::default() };
    for (name, shape, documented) in [
        ("tpcc", shape, 7.8),
        ("tpcc", Shape { scatter: Scatter::Keys, ..shape }, 10.1),
        ("tpcc", Shape { theta: 0.0, ..shape }, 9.2),
        ("tpcc-mix", shape, 8.6),
    ] {
        let found = misses(name, shape, 80_000);
        println!("{name}, {:?}, theta {}: {found:.2}", shape.scatter, shape.theta);
        assert!((found - documented).abs() < 0.2, "{name}: {found}, not {documented}");
    }
}
