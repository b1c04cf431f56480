//! Both graph programs against plain implementations of what they compute, on generated and on
//! given graphs, in order, interleaved and raced.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use ebbtide_core::{Addr, FullMemory, Hint, Memory, Value};
use ebbtide_testbed::{Interleaved, Raced, Shared, catch_fault, interleave, race};
use ebbtide_workloads::graph::EdgeList;
use ebbtide_workloads::{ConnectedComponents, PageRank, Program, Scatter, Shape, Workload};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::common::{image, plain, program};

const SCATTERS: [Scatter; 2] = [Scatter::Pages, Scatter::Keys];

/// How far from the fixpoint a rank may be, as a share of it.
const TOLERANCE: f64 = 1e-6;

/// Passes after which ranks are that near: 0.85^100 is below 10^-7.
const PASSES: u64 = 100;

fn pagerank(pages: u64, scatter: Scatter) -> PageRank {
    match program("pagerank", pages, scatter) {
        Program::PageRank(pagerank) => pagerank,
        _ => unreachable!(),
    }
}

fn components(pages: u64, scatter: Scatter) -> ConnectedComponents {
    match program("connected-components", pages, scatter) {
        Program::ConnectedComponents(components) => components,
        _ => unreachable!(),
    }
}

/// Some graph with loops, double edges, vertices that no edge leaves, and several components.
fn some_graph(vertices: u32, edges: usize, seed: u64) -> EdgeList {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut end = |from: u32| rng.random_range(from..vertices);
    EdgeList::new(vertices, (0..edges).map(|_| [end(0), end(vertices / 8)]).collect())
}

/// The edges that an image tells of, found without the program's code: for each vertex the vertices
/// in its list. A number is the low 40 bits of its word.
fn lists(words: &[u64], vertices: u64, address: impl Fn(u64) -> Addr) -> Vec<Vec<usize>> {
    let values = (0..vertices).map(|vertex| address(vertex).0).min().unwrap();
    let mut vertex_at = vec![usize::MAX; vertices as usize];
    (0..vertices).for_each(|v| vertex_at[(address(v).0 - values) as usize / 8] = v as usize);
    let numbers: Vec<usize> = words.iter().map(|word| (word & ((1 << 40) - 1)) as usize).collect();
    let rows = (vertices as usize + 1) * 2;
    let entries = &numbers[rows.next_multiple_of(512)..];
    let list = |row: usize| entries[numbers[row]..numbers[row + 2]].iter();
    (0..rows - 2).step_by(2).map(|row| list(row).map(|&place| vertex_at[place]).collect()).collect()
}

fn lists_of(graph: &EdgeList) -> Vec<Vec<usize>> {
    let mut lists = vec![Vec::new(); graph.vertices() as usize];
    graph.edges().iter().for_each(|&[from, to]| lists[to as usize].push(from as usize));
    lists
}

/// PageRank as it is defined: all ranks at once, from those of the pass before.
fn plain_ranks(lists: &[Vec<usize>]) -> Vec<f64> {
    let mut out_degrees = vec![0u32; lists.len()];
    lists.iter().flatten().for_each(|&from| out_degrees[from] += 1);
    let mut ranks = vec![1.0; lists.len()];
    for _ in 0..250 {
        let rank = |list: &Vec<usize>| -> f64 {
            list.iter().map(|&from| ranks[from] / f64::from(out_degrees[from])).sum()
        };
        ranks = lists.iter().map(|list| 0.15 + 0.85 * rank(list)).collect();
    }
    ranks
}

/// The representative of each vertex's component, by merging sets.
fn plain_components(lists: &[Vec<usize>]) -> Vec<usize> {
    fn root(parents: &mut [usize], vertex: usize) -> usize {
        let mut at = vertex;
        while parents[at] != at {
            parents[at] = parents[parents[at]];
            at = parents[at];
        }
        at
    }
    let mut parents: Vec<usize> = (0..lists.len()).collect();
    for (vertex, list) in lists.iter().enumerate() {
        for &neighbour in list {
            let (a, b) = (root(&mut parents, vertex), root(&mut parents, neighbour));
            parents[a.max(b)] = a.min(b);
        }
    }
    (0..lists.len()).map(|vertex| root(&mut parents, vertex)).collect()
}

/// Whether every rank in `memory` is near that of the plain implementation.
fn check_ranks(
    pagerank: &PageRank,
    memory: &mut impl FullMemory,
    lists: &[Vec<usize>],
) -> Result<(), String> {
    for (vertex, expected) in (0..).zip(plain_ranks(lists)) {
        let found = pagerank.rank(memory, vertex).map_err(|wrong| wrong.to_string())?;
        if (found / expected - 1.0).abs() > TOLERANCE {
            return Err(format!("vertex {vertex} has rank {found}, not {expected}"));
        }
    }
    Ok(())
}

/// Whether two vertices in `memory` have the same label if and only if one component holds both.
fn check_labels(
    components: &ConnectedComponents,
    memory: &mut impl FullMemory,
    lists: &[Vec<usize>],
) -> Result<(), String> {
    let roots = plain_components(lists);
    let label = |vertex| components.label(memory, vertex).map_err(|wrong| wrong.to_string());
    let labels: Vec<u64> = (0..components.vertices()).map(label).collect::<Result<_, _>>()?;
    let mut of_root = vec![None; lists.len()];
    for (&label, &root) in labels.iter().zip(&roots) {
        if *of_root[root].get_or_insert(label) != label {
            return Err(format!("a component has labels {label} and {:?}", of_root[root]));
        }
    }
    let mut used: Vec<u64> = of_root.into_iter().flatten().collect();
    let components = used.len();
    used.dedup();
    used.sort_unstable();
    used.dedup();
    if used.len() == components { Ok(()) } else { Err("components share a label".into()) }
}

/// Runs `passes` passes of any of the two.
fn run_passes(
    program: &impl Workload,
    jobs_per_pass: u64,
    memory: &mut impl FullMemory,
    passes: Range<u64>,
) {
    let jobs = passes.start * jobs_per_pass..passes.end * jobs_per_pass;
    jobs.for_each(|job| program.run(job, memory).unwrap());
}

#[test]
fn ranks_of_generated_graphs_are_those_of_the_plain_implementation() {
    for (pages, scatter) in [8, 40, 500].into_iter().zip(SCATTERS.into_iter().cycle()) {
        let pagerank = pagerank(pages, scatter);
        let mut memory = plain(&pagerank);
        let lists = lists(&memory.words, pagerank.vertices(), |v| pagerank.address(v));
        assert_eq!(lists.iter().map(Vec::len).sum::<usize>() as u64, pagerank.edges());
        run_passes(&pagerank, pagerank.jobs_per_pass(), &mut memory, 0..PASSES);
        check_ranks(&pagerank, &mut memory, &lists).unwrap();
    }
}

#[test]
fn labels_of_generated_graphs_are_those_of_the_plain_implementation() {
    for (pages, scatter) in [8, 40, 500].into_iter().zip(SCATTERS.into_iter().cycle()) {
        let components = components(pages, scatter);
        let mut memory = plain(&components);
        let lists = lists(&memory.words, components.vertices(), |v| components.address(v));
        let entries = lists.iter().map(Vec::len).sum::<usize>() as u64;
        assert_eq!(entries, 2 * components.edges());
        assert!(check_labels(&components, &mut memory, &lists).is_err());
        run_passes(&components, components.jobs_per_pass(), &mut memory, 0..20);
        check_labels(&components, &mut memory, &lists).unwrap();
    }
}

#[test]
fn given_graphs_have_the_ranks_and_labels_of_the_plain_implementations() {
    for (vertices, edges) in [(1, 0), (1, 3), (16, 5), (17, 40), (300, 250), (1000, 9000)] {
        let graph = some_graph(vertices, edges, u64::from(vertices));
        let lists = lists_of(&graph);
        let (pagerank, _) = PageRank::of(&graph, &Shape::default());
        let mut memory = plain(&pagerank);
        run_passes(&pagerank, pagerank.jobs_per_pass(), &mut memory, 0..PASSES);
        check_ranks(&pagerank, &mut memory, &lists).unwrap();

        let (components, _) = ConnectedComponents::of(&graph, &Shape::default());
        let mut memory = plain(&components);
        run_passes(&components, components.jobs_per_pass(), &mut memory, 0..300);
        check_labels(&components, &mut memory, &lists).unwrap();
        // A given graph's label is the least vertex itself.
        for (vertex, root) in (0..).zip(plain_components(&lists)) {
            assert_eq!(components.label(&mut memory, vertex), Ok(root as u64));
        }
    }
}

#[test]
fn the_checkers_catch_another_graph_and_too_few_passes() {
    let graph = some_graph(100, 300, 1);
    let mut edges = graph.edges().to_vec();
    edges.pop();
    let without_one = lists_of(&EdgeList::new(100, edges));
    let (pagerank, _) = PageRank::of(&graph, &Shape::default());
    let mut memory = plain(&pagerank);
    run_passes(&pagerank, pagerank.jobs_per_pass(), &mut memory, 0..8);
    assert!(check_ranks(&pagerank, &mut memory, &lists_of(&graph)).is_err());
    run_passes(&pagerank, pagerank.jobs_per_pass(), &mut memory, 8..PASSES);
    assert!(check_ranks(&pagerank, &mut memory, &without_one).is_err());
    check_ranks(&pagerank, &mut memory, &lists_of(&graph)).unwrap();

    let path = EdgeList::new(40, (1..40).map(|to| [to - 1, to]).collect());
    let cut =
        EdgeList::new(40, path.edges().iter().copied().filter(|edge| edge[0] != 20).collect());
    let (components, _) = ConnectedComponents::of(&path, &Shape::default());
    let mut memory = plain(&components);
    run_passes(&components, components.jobs_per_pass(), &mut memory, 0..40);
    check_labels(&components, &mut memory, &lists_of(&path)).unwrap();
    assert!(check_labels(&components, &mut memory, &lists_of(&cut)).is_err());
}

#[test]
fn interleaved_passes_reach_the_same_ranks() {
    let graph = some_graph(40, 90, 5);
    for seed in 0..4 {
        let (pagerank, _) = PageRank::of(&graph, &Shape::default());
        let words = Shared::new(&image(&pagerank));
        // Three jobs a pass on four threads: each job meets those of the pass before and after.
        interleave(&words, 4, seed, |thread, memory| {
            let jobs = PASSES * pagerank.jobs_per_pass();
            let mine = (thread as u64..jobs).step_by(4);
            mine.for_each(|job| pagerank.run(job, memory).unwrap());
        });
        check_ranks(&pagerank, &mut words.into_plain(), &lists_of(&graph)).unwrap();
    }
}

#[test]
fn interleaved_passes_reach_the_same_labels() {
    let graph = some_graph(40, 30, 6);
    for seed in 0..20 {
        let (components, _) = ConnectedComponents::of(&graph, &Shape::default());
        let words = Shared::new(&image(&components));
        interleave(&words, 4, seed, |thread, memory| {
            let jobs = 20 * components.jobs_per_pass();
            let mine = (thread as u64..jobs).step_by(4);
            mine.for_each(|job| components.run(job, memory).unwrap());
        });
        check_labels(&components, &mut words.into_plain(), &lists_of(&graph)).unwrap();
    }
}

/// Two threads race through jobs `0..jobs`, each taking the next one.
fn race_jobs(program: &impl Workload, jobs: u64, words: &Shared) {
    let next = AtomicU64::new(0);
    race(words, |_, memory: &mut Raced<'_>| {
        let take = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&job| job < jobs);
        std::iter::from_fn(take).for_each(|job| program.run(job, memory).unwrap());
    });
}

#[test]
fn raced_passes_reach_the_same_ranks_and_labels() {
    for scatter in SCATTERS {
        let pagerank = pagerank(100, scatter);
        let words = Shared::new(&image(&pagerank));
        race_jobs(&pagerank, PASSES * pagerank.jobs_per_pass(), &words);
        let mut memory = words.into_plain();
        // The system may stop a thread within a job for a long time, which then stores old ranks
        // last of all. These passes alone are not enough: the race must have come near.
        run_passes(&pagerank, pagerank.jobs_per_pass(), &mut memory, 0..60);
        let ranked = lists(&memory.words, pagerank.vertices(), |v| pagerank.address(v));
        check_ranks(&pagerank, &mut memory, &ranked).unwrap();

        let components = components(100, scatter);
        let words = Shared::new(&image(&components));
        race_jobs(&components, 30 * components.jobs_per_pass(), &words);
        let mut memory = words.into_plain();
        let lists = lists(&memory.words, components.vertices(), |v| components.address(v));
        check_labels(&components, &mut memory, &lists).unwrap();
    }
}

/// A memory whose compare-exchange is two steps, this many turns apart.
struct TwoSteps<'a, M>(&'a mut M, u64);

impl<M: FullMemory> Memory for TwoSteps<'_, M> {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }
    fn load<T: Value>(&mut self, at: Addr) -> T {
        self.0.load(at)
    }
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        self.0.store(at, value);
    }
    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let found: u64 = self.0.load(at);
        if found != current {
            return Err(found);
        }
        (0..self.1).for_each(|_| self.0.work(1));
        self.0.store(at, new);
        Ok(found)
    }
    fn wait(&mut self, at: Addr, seen: u64) {
        self.0.wait(at, seen);
    }
    fn wake(&mut self, at: Addr) {
        self.0.wake(at);
    }
    fn hint(&mut self, hint: Hint) {
        self.0.hint(hint);
    }
}

impl<M: FullMemory> FullMemory for TwoSteps<'_, M> {
    fn work(&mut self, instructions: u64) {
        self.0.work(instructions);
    }
}

/// Whether a label was seen to rise while others were lowering it.
fn label_rises(
    seed: u64,
    update: for<'a, 'b, 'c> fn(&'a ConnectedComponents, &'b mut Interleaved<'c>, usize, u64),
) -> bool {
    // The label of 3 falls to 2, 1 and 0 while one thread watches.
    let path = EdgeList::new(4, vec![[0, 1], [1, 2], [2, 3]]);
    let (components, _) = ConnectedComponents::of(&path, &Shape::default());
    let words = Shared::new(&image(&components));
    let rose = interleave(&words, 4, seed, |thread, memory| {
        if thread > 0 {
            [3, 2, 3, 1, 2, 3, 2, 3].into_iter().for_each(|vertex| {
                update(&components, memory, thread, vertex);
            });
            return false;
        }
        let seen: Vec<u64> = (0..300).map(|_| components.label(memory, 3).unwrap()).collect();
        seen.windows(2).any(|two| two[0] < two[1])
    });
    rose.contains(&true)
}

#[test]
fn a_label_never_rises() {
    let rises = |seed| label_rises(seed, |c, memory, _, vertex| c.update(memory, vertex).unwrap());
    assert!((0..40).all(|seed| !rises(seed)));
}

#[test]
fn a_label_rises_if_an_exchange_is_not_one_step() {
    let rises = |seed| {
        label_rises(seed, |c, memory, thread, vertex| {
            let slow = if thread == 1 { 100 } else { 1 };
            c.update(&mut TwoSteps(memory, slow), vertex).unwrap();
        })
    };
    assert!((0..40).any(rises));
}

#[test]
fn a_program_that_knows_only_the_summary_does_the_same() {
    let graph = some_graph(200, 700, 3);
    let shape = Shape { seed: 9, ..Shape::default() };
    let (pagerank, summary) = PageRank::of(&graph, &shape);
    let elsewhere = PageRank::elsewhere(summary, &shape);
    assert_eq!(pagerank.size_bytes(), elsewhere.size_bytes());
    let (mut one, mut other) = (plain(&pagerank), plain(&pagerank));
    for job in 0..500 {
        pagerank.run(job, &mut one).unwrap();
        elsewhere.run(job, &mut other).unwrap();
    }
    assert_eq!(one.words, other.words);

    let (components, summary) = ConnectedComponents::of(&graph, &shape);
    let elsewhere = ConnectedComponents::elsewhere(summary, &shape);
    let (mut one, mut other) = (plain(&components), plain(&components));
    for job in 0..100 {
        components.run(job, &mut one).unwrap();
        elsewhere.run(job, &mut other).unwrap();
    }
    assert_eq!(one.words, other.words);
}

#[test]
fn memory_that_holds_another_graph_is_noticed() {
    let (pagerank, _) = PageRank::of(&some_graph(200, 700, 3), &Shape::default());
    let (_, other) = PageRank::of(&some_graph(200, 700, 4), &Shape::default());
    let mut memory = plain(&pagerank);
    let wrong = PageRank::elsewhere(other, &Shape::default()).run(0, &mut memory).unwrap_err();
    assert!(wrong.to_string().contains("checksum"), "{wrong}");
}

#[test]
#[should_panic(expected = "not loaded here")]
fn a_graph_elsewhere_has_no_image() {
    let (_, summary) = PageRank::of(&some_graph(200, 700, 3), &Shape::default());
    crate::common::page(&PageRank::elsewhere(summary, &Shape::default()), ebbtide_core::PageId(0));
}

#[test]
fn a_fault_anywhere_leaves_whole_values_that_later_passes_mend() {
    let graph = some_graph(24, 60, 2);
    let (pagerank, _) = PageRank::of(&graph, &Shape::default());
    for faulty in 0.. {
        let mut memory = plain(&pagerank);
        memory.failing = faulty..u64::MAX;
        if catch_fault(|| pagerank.run(0, &mut memory).unwrap()).is_ok() {
            assert!(faulty > 50, "the job made {faulty} accesses");
            return;
        }
        memory.failing = 0..0;
        run_passes(&pagerank, pagerank.jobs_per_pass(), &mut memory, 0..PASSES);
        check_ranks(&pagerank, &mut memory, &lists_of(&graph)).unwrap();
    }
}

#[test]
fn a_hub_is_met_about_as_often_as_its_degree_says() {
    // Of a page's worth of lists, the share of entries that name the greatest hundredth.
    let pagerank = pagerank(4000, Scatter::Keys);
    let lists = lists(&image(&pagerank), pagerank.vertices(), |v| pagerank.address(v));
    let hubs = lists.len() / 100;
    let entries: usize = lists.iter().map(Vec::len).sum();
    let named = lists.iter().flatten().filter(|&&vertex| vertex < hubs).count();
    let owned: usize = lists[..hubs].iter().map(Vec::len).sum();
    assert_eq!(named, owned);
    assert!(named * 5 > entries, "{named} of {entries}");
}
