//! How much of TPC-C a small DRAM cache holds.

use ebbtide_core::replacement::PolicyKind;
use ebbtide_trace::curve::{PolicyCaches, Sample};
use ebbtide_workloads::{Observed, Program, Scatter, Shape, Work, Workload};

use crate::common::sparse;

/// Misses a job with 3% of the dataset in DRAM: of `jobs` jobs the second half counts.
fn misses(name: &str, shape: Shape, jobs: u64) -> f64 {
    let program = Program::new(name, &shape).unwrap();
    let pages = program.size_bytes() / 4096;
    let mut lru = PolicyCaches::new(PolicyKind::Lru, &[pages * 3 / 100], Sample::all(pages), 0);
    let mut memory = sparse(&program);
    let mut before = 0.0;
    for job in 0..jobs {
        if job == jobs / 2 {
            before = lru.curve().steps()[0].misses;
        }
        let mut observed = Observed::new(&mut memory, Work::Skipped, |page, store| {
            lru.touch(page, store);
        });
        program.run(job, &mut observed).unwrap();
    }
    (lru.curve().steps()[0].misses - before) / (jobs - jobs / 2) as f64
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
#[ignore = "slow"]
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
