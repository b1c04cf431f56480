//! Compares the misses of the shipped traces with the counts of libCacheSim (PyPI, version 0.3.5).
//! `compare_libcachesim.py` in this folder counted them, and compares any other trace. Only S3-FIFO
//! has a tolerance: with so few pages, the rounding of queue shares matters.

use std::path::Path;

use ebbtide_core::replacement::PolicyKind;
use ebbtide_trace::curve::{PolicyCaches, Sample};
use ebbtide_trace::{Access, open};

/// The policies, and how far each may be from libCacheSim's count, as a share of it.
const POLICIES: [(PolicyKind, f64); 4] = [
    (PolicyKind::Lru, 0.0),
    (PolicyKind::Fifo, 0.0),
    (PolicyKind::Clock, 0.0),
    (PolicyKind::S3Fifo, 0.05),
];

/// A trace, the pages of a cache, and libCacheSim's misses under each of [`POLICIES`].
const MISSES: [(&str, u64, [u64; 4]); 12] = [
    ("perl", 64, [344351, 364259, 343346, 314364]),
    ("perl", 256, [127069, 146640, 126311, 118475]),
    ("perl", 1024, [1522, 1625, 1545, 1541]),
    ("sort", 64, [28933, 32049, 28967, 31330]),
    ("sort", 256, [1864, 2068, 1828, 2167]),
    ("sort", 1024, [778, 778, 778, 778]),
    ("sqlite", 64, [91948, 98283, 91543, 87229]),
    ("sqlite", 256, [21699, 29248, 21019, 19786]),
    ("sqlite", 1024, [1124, 1154, 1143, 1141]),
    ("xz", 64, [268234, 274768, 264335, 232552]),
    ("xz", 256, [90128, 114192, 86835, 79355]),
    ("xz", 1024, [830, 830, 830, 830]),
];

fn accesses(name: &str) -> Vec<Access> {
    let path = format!("{}/../../traces/{name}.ebt", env!("CARGO_MANIFEST_DIR"));
    let mut trace = open(Path::new(&path)).expect("a shipped trace");
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while trace.fill(&mut batch).expect("it is whole") {
        all.append(&mut batch);
    }
    all
}

#[test]
fn misses_are_those_that_libcachesim_counts() {
    let names = ["perl", "sort", "sqlite", "xz"];
    for name in names {
        let accesses = accesses(name);
        for (number, (kind, bound)) in POLICIES.into_iter().enumerate() {
            let rows = || MISSES.iter().filter(|(trace, ..)| *trace == name);
            let sizes: Vec<u64> = rows().map(|(_, pages, _)| *pages).collect();
            let mut caches = PolicyCaches::new(kind, &sizes, Sample::all(1 << 20), 1);
            caches.read(&accesses);
            let curve = caches.curve();
            for (_, pages, misses) in rows() {
                let (ours, theirs) = (curve.miss_ratio(*pages), misses[number] as f64);
                let ours = (ours * curve.accesses() as f64).round();
                let apart = (ours - theirs).abs() / theirs;
                assert!(apart <= bound, "{name}, {pages} pages, {kind}: {ours} against {theirs}");
            }
        }
    }
}
