//! Both graph programs over shards against plain implementations of what they compute, and their
//! accesses against GraphChi's. The graph is read from the image, without the program's code.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use ebbtide_core::FullMemory;
use ebbtide_testbed::{Plain, Raced, Shared, catch_fault, race};
use ebbtide_workloads::{ConnectedComponentsShards, PageRankShards, Program, Scatter, Workload};

use crate::common::{Noting, image, plain, program};

/// Passes after which ranks are within [`TOLERANCE`] of the fixpoint.
const PASSES: u64 = 60;

const TOLERANCE: f64 = 1e-6;

/// Pages of the graphs: with one shard, and with several.
const SIZES: [u64; 2] = [16, 500];

fn pagerank(pages: u64) -> PageRankShards {
    match program("pagerank-shards", pages, Scatter::Keys) {
        Program::PageRankShards(pagerank) => pagerank,
        _ => unreachable!(),
    }
}

fn components(pages: u64) -> ConnectedComponentsShards {
    match program("connected-components-shards", pages, Scatter::Keys) {
        Program::ConnectedComponentsShards(components) => components,
        _ => unreachable!(),
    }
}

/// Pages of the targets of one shard, and as many of its values.
fn shard_pages(edges: u64, shards: u64) -> u64 {
    (edges / shards).div_ceil(512)
}

/// The edges of the graph of `pages` pages, from source to target. A target is the low 40 bits of
/// its word. In the image of the components, a value is the source.
fn edges(pages: u64) -> Vec<[usize; 2]> {
    let components = components(pages);
    let numbers: Vec<_> = image(&components).iter().map(|word| word & ((1 << 40) - 1)).collect();
    let (edges, shards) = (components.edges(), components.shards());
    let words = (shard_pages(edges, shards) * 512) as usize;
    let of_shard = |shard: usize| {
        let edge = move |place: usize| shard * words + place;
        (0..(edges / shards) as usize).map(edge).collect::<Vec<_>>()
    };
    let all = (0..shards as usize).flat_map(of_shard);
    all.map(|at| [numbers[at + shards as usize * words] as usize, numbers[at] as usize]).collect()
}

/// PageRank as it is defined: all ranks at once, from those of the pass before.
fn plain_ranks(edges: &[[usize; 2]], vertices: usize) -> Vec<f64> {
    let mut out_degrees = vec![0u32; vertices];
    edges.iter().for_each(|&[from, _]| out_degrees[from] += 1);
    let mut ranks = vec![1.0; vertices];
    for _ in 0..250 {
        let mut sums = vec![0.0; vertices];
        edges.iter().for_each(|&[from, to]| sums[to] += ranks[from] / f64::from(out_degrees[from]));
        ranks = sums.into_iter().map(|sum| 0.15 + 0.85 * sum).collect();
    }
    ranks
}

/// The least vertex of each vertex's component: the least label spreads until nothing changes.
fn plain_labels(edges: &[[usize; 2]], vertices: usize) -> Vec<usize> {
    let mut labels: Vec<usize> = (0..vertices).collect();
    loop {
        let before = labels.clone();
        for &[from, to] in edges {
            let least = labels[from].min(labels[to]);
            (labels[from], labels[to]) = (least, least);
        }
        if labels == before {
            return labels;
        }
    }
}

fn check_ranks(pages: u64, memory: &mut impl FullMemory) {
    let pagerank = pagerank(pages);
    let expected = plain_ranks(&edges(pages), pagerank.vertices() as usize);
    for (vertex, expected) in (0..).zip(expected) {
        let found = pagerank.rank(memory, vertex).unwrap();
        assert!((found / expected - 1.0).abs() < TOLERANCE, "{vertex}: {found}, not {expected}");
    }
}

fn check_labels(pages: u64, memory: &mut impl FullMemory) {
    let components = components(pages);
    let expected = plain_labels(&edges(pages), components.vertices() as usize);
    for (vertex, expected) in (0..).zip(expected) {
        assert_eq!(components.label(memory, vertex), Ok(expected as u64), "vertex {vertex}");
    }
}

#[test]
fn ranks_are_those_of_the_plain_implementation() {
    for pages in SIZES {
        let pagerank = pagerank(pages);
        let mut memory = plain(&pagerank);
        let jobs = PASSES * pagerank.jobs_per_pass();
        (0..jobs).for_each(|job| pagerank.run(job, &mut memory).unwrap());
        check_ranks(pages, &mut memory);
    }
}

#[test]
fn labels_are_those_of_the_plain_implementation() {
    for pages in SIZES {
        let components = components(pages);
        let mut memory = plain(&components);
        let jobs = 20 * components.jobs_per_pass();
        (0..jobs).for_each(|job| components.run(job, &mut memory).unwrap());
        check_labels(pages, &mut memory);
    }
}

/// Two threads race through jobs `0..jobs`, each taking the next one.
fn race_jobs(program: &impl Workload, jobs: u64) -> Plain {
    let words = Shared::new(&image(program));
    let next = AtomicU64::new(0);
    race(&words, |_, memory: &mut Raced<'_>| {
        let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&job| job < jobs);
        std::iter::from_fn(take).for_each(|job| program.run(job, memory).unwrap());
    });
    words.into_plain()
}

#[test]
fn raced_passes_reach_the_same_ranks_and_labels() {
    let pages = SIZES[0];
    let pagerank = pagerank(pages);
    let mut memory = race_jobs(&pagerank, PASSES * pagerank.jobs_per_pass());
    // The system may stop a thread within a job for a long time, which then stores old values last
    // of all. So some passes follow without a race.
    let jobs = 60 * pagerank.jobs_per_pass();
    (0..jobs).for_each(|job| pagerank.run(job, &mut memory).unwrap());
    check_ranks(pages, &mut memory);

    let components = components(pages);
    let mut memory = race_jobs(&components, 30 * components.jobs_per_pass());
    check_labels(pages, &mut memory);
}

#[test]
fn a_fault_anywhere_leaves_whole_values_that_later_passes_mend() {
    let pages = SIZES[0];
    let pagerank = pagerank(pages);
    // The greatest block of an interval is its last but one. The first pass only writes.
    let update = 2 * pagerank.jobs_per_pass() - 2;
    for faulty in (0..).step_by(7) {
        let mut memory = plain(&pagerank);
        memory.failing = faulty..u64::MAX;
        if catch_fault(|| pagerank.run(update, &mut memory).unwrap()).is_ok() {
            assert!(faulty > 100, "the job made {faulty} accesses");
            return;
        }
        memory.failing = 0..0;
        let jobs = 2 * pagerank.jobs_per_pass();
        (0..jobs).for_each(|job| pagerank.run(job, &mut memory).unwrap());
    }
}

/// The pages that jobs of `program` read, in order, and those that they write.
fn pages_of(
    program: &impl Workload,
    jobs: std::ops::Range<u64>,
    memory: &mut Plain,
) -> (Vec<u64>, BTreeSet<u64>) {
    let mut noting = Noting { memory, noted: Vec::new() };
    jobs.for_each(|job| program.run(job, &mut noting).unwrap());
    let pages = |write: bool| {
        let of_kind = noting.noted.iter().filter(move |touched| touched.write == write);
        of_kind.map(|touched| touched.at.0 / 4096)
    };
    (pages(false).collect(), pages(true).collect())
}

#[test]
fn an_interval_loads_its_shard_in_order_and_slides_a_window_over_the_others() {
    let pagerank = pagerank(SIZES[1]);
    let (edges, shards) = (pagerank.edges(), pagerank.shards());
    assert!(shards > 3, "{shards}");
    let per_shard = shard_pages(edges, shards);
    let values = shards * per_shard;
    let loads = (edges / shards).div_ceil(384);
    let mut memory = plain(&pagerank);
    // The last page of the windows so far, the same in every shard.
    let mut window = 0;
    let second_pass = pagerank.jobs_per_pass();
    let mut first_job = second_pass;
    for interval in 0..shards {
        let (read, written) = pages_of(&pagerank, first_job..first_job + loads, &mut memory);
        assert!(written.is_empty(), "loading writes nothing");
        for run in [interval * per_shard, values + interval * per_shard] {
            let of_run = read.iter().filter(|page| (run..run + per_shard).contains(page));
            let mut pages: Vec<u64> = of_run.copied().collect();
            assert!(pages.is_sorted(), "a shard is read in order");
            pages.dedup();
            assert_eq!(pages, (run..run + per_shard).collect::<Vec<_>>(), "all of it");
        }
        first_job += loads;
        let mut updated = BTreeSet::new();
        // The jobs of the interval read no other shard's values; the next interval's jobs load.
        loop {
            let (read, written) = pages_of(&pagerank, first_job..first_job + 1, &mut memory);
            if written.is_empty() {
                break;
            }
            let own = values + interval * per_shard..values + (interval + 1) * per_shard;
            let values = values..2 * values;
            let foreign = read.iter().find(|page| values.contains(page) && !own.contains(page));
            assert_eq!(foreign, None, "values of edges are read in the own shard");
            updated.extend(written);
            first_job += 1;
        }
        // Every shard's window begins on the page where the one before it ended.
        let ends: BTreeSet<u64> = (0..shards)
            .map(|shard| {
                let run = values + shard * per_shard;
                let pages: Vec<u64> = updated.range(run..run + per_shard).copied().collect();
                assert!(pages[0] - run <= window + 1, "{pages:?} after {window}");
                assert_eq!(pages.len() as u64, pages[pages.len() - 1] - pages[0] + 1, "one run");
                pages[pages.len() - 1] - run
            })
            .collect();
        assert!(ends.len() <= 2, "{ends:?}");
        window = *ends.last().unwrap();
    }
    assert_eq!(first_job - second_pass, pagerank.jobs_per_pass());
    assert_eq!(window, per_shard - 1);
}

#[test]
fn the_first_pass_writes_first_values_and_computes_them_without_those_of_edges() {
    let pages = SIZES[1];
    let pagerank = pagerank(pages);
    let first = image(&pagerank);
    let values = pagerank.shards() * shard_pages(pagerank.edges(), pagerank.shards());
    let mut memory = plain(&pagerank);
    for job in 0..pagerank.jobs_per_pass() {
        let (read, written) = pages_of(&pagerank, job..job + 1, &mut memory);
        let is_load = written.is_empty();
        assert!(is_load || read.iter().all(|page| !(values..2 * values).contains(page)));
    }
    assert!(memory.words == first, "the image has the first values");

    let components = components(pages);
    let mut memory = plain(&components);
    (0..components.jobs_per_pass()).for_each(|job| components.run(job, &mut memory).unwrap());
    let mut least: Vec<u64> = (0..components.vertices()).collect();
    for [from, to] in edges(pages) {
        least[from] = least[from].min(to as u64);
        least[to] = least[to].min(from as u64);
    }
    for (vertex, least) in (0..).zip(least) {
        assert_eq!(components.label(&mut memory, vertex), Ok(least), "vertex {vertex}");
    }
}

#[test]
fn ranks_write_every_edge_in_each_pass_and_labels_only_until_they_have_settled() {
    let (pagerank, components) = (pagerank(SIZES[1]), components(SIZES[1]));
    let value_pages = pagerank.shards() * shard_pages(pagerank.edges(), pagerank.shards());
    let mut memory = plain(&pagerank);
    for pass in 0..2 {
        let jobs = pagerank.jobs_per_pass();
        let (_, written) = pages_of(&pagerank, pass * jobs..(pass + 1) * jobs, &mut memory);
        let written = written.range(value_pages..2 * value_pages).count() as u64;
        assert_eq!(written, value_pages, "pass {pass}");
    }
    let mut memory = plain(&components);
    let jobs = components.jobs_per_pass();
    let mut written = |pass: u64| {
        pages_of(&components, pass * jobs..(pass + 1) * jobs, &mut memory).1.len() as u64
    };
    assert!(written(0) > value_pages * 9 / 10);
    let settled: Vec<u64> = (1..20).map(written).collect();
    assert!(settled.is_sorted_by(|a, b| a >= b) && settled[18] == 0, "{settled:?}");
}
