//! Operations that interleave at every access, or race, must be linearizable. Each must look as if
//! done in one moment between its start and its end. So for every key, some order of them must be
//! possible in an ordinary map.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use ebbtide_core::{Addr, FullMemory, LINE_BYTES, Memory, Value};
use ebbtide_structures::Corrupt;
use ebbtide_testbed::{Interleaved, Raced, Shared, interleave, race};
use ebbtide_workloads::masstree::Tree;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The effect of an operation on one key.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Did {
    Get { found: Option<u64> },
    Put { value: u64, previous: Option<u64> },
    Insert { value: u64, found: Option<u64> },
    Remove { previous: Option<u64> },
}

/// An operation, between two ticks of the clock.
#[derive(Debug, Clone, Copy)]
struct Op {
    key: usize,
    start: u64,
    end: u64,
    did: Did,
}

impl Did {
    /// Returns the state of the key afterwards, if the operation is possible in `state`.
    fn after(self, state: Option<u64>) -> Option<Option<u64>> {
        let (seen, after) = match self {
            Did::Get { found } => (found, found),
            Did::Put { value, previous } => (previous, Some(value)),
            Did::Insert { value, found } => (found, found.or(Some(value))),
            Did::Remove { previous } => (previous, None),
        };
        (seen == state).then_some(after)
    }
}

/// True if the operations of the threads on one key have an order that fits their times and results
/// and ends with `last`. This is the search of Wing and Gong, "Testing and Verifying Concurrent
/// Objects", JPDC'93.
fn is_linearizable(first: Option<u64>, threads: &[Vec<Op>], last: Option<u64>) -> bool {
    // How many operations of each thread are done, and what the key has then.
    let mut to_try = vec![(vec![0; threads.len()], first)];
    let mut tried = HashSet::new();
    while let Some((done, state)) = to_try.pop() {
        let next: Vec<(usize, Op)> = (0..threads.len())
            .filter_map(|thread| threads[thread].get(done[thread]).map(|&op| (thread, op)))
            .collect();
        let Some(earliest_end) = next.iter().map(|(_, op)| op.end).min() else {
            if state == last {
                return true;
            }
            continue;
        };
        for (thread, op) in next.into_iter().filter(|(_, op)| op.start < earliest_end) {
            if let Some(after) = op.did.after(state) {
                let mut done = done.clone();
                done[thread] += 1;
                if tried.insert((done.clone(), after)) {
                    to_try.push((done, after));
                }
            }
        }
    }
    false
}

/// Keys next to each other, keys that share a slice, and a few that share more.
fn key(number: usize) -> Vec<u8> {
    match number {
        0..40 => (1000 + number as u64).to_be_bytes().to_vec(),
        40..46 => format!("prefix 8{}", "x".repeat(number - 40)).into_bytes(),
        _ => format!("prefix 8, and behind it {} more", "y".repeat(number - 45)).into_bytes(),
    }
}

const KEYS: usize = 48;

/// The mix of operations: of 10, this many insert and this many remove. The rest read.
#[derive(Clone, Copy)]
struct Mix {
    puts: u32,
    removes: u32,
}

/// Does one random operation on the tree.
fn operate<M: FullMemory>(
    tree: &Tree,
    m: &mut M,
    rng: &mut Pcg64Mcg,
    clock: &AtomicU64,
    mix: Mix,
    history: &mut Vec<Op>,
) -> Result<(), Corrupt> {
    let number = rng.random_range(0..KEYS);
    let bytes = key(number);
    let value = rng.random();
    let dice = rng.random_range(0..10);
    let start = clock.fetch_add(1, Ordering::SeqCst);
    let mut scanned = None;
    let did = if dice < mix.puts / 2 {
        Did::Insert { value, found: tree.insert_seen(m, &bytes, value, |_| ())? }
    } else if dice < mix.puts {
        Did::Put { value, previous: tree.put(m, &bytes, value)? }
    } else if dice < mix.puts + mix.removes {
        Did::Remove { previous: tree.remove(m, &bytes)? }
    } else if dice < 9 {
        Did::Get { found: tree.get(m, &bytes)? }
    } else {
        let mut found = [None; KEYS];
        let mut last = Vec::new();
        tree.scan(m, &bytes, |key_found, value| {
            assert!(last.is_empty() || last[..] < *key_found, "a scan goes on in order");
            last = key_found.to_vec();
            let number = (0..KEYS).find(|&number| key(number) == key_found);
            found[number.expect("only keys that were put in are found")] = Some(value);
            ControlFlow::Continue(())
        })?;
        scanned = Some(found);
        Did::Get { found: None }
    };
    let end = clock.fetch_add(1, Ordering::SeqCst);
    match scanned {
        None => history.push(Op { key: number, start, end, did }),
        Some(found) => {
            let wanted = (0..KEYS).filter(|&number| key(number) >= bytes);
            history.extend(wanted.map(|key| {
                let did = Did::Get { found: found[key] };
                Op { key, start, end, did }
            }));
        }
    }
    Ok(())
}

/// A tree without keys that has room for `nodes` nodes, and the memory it lies in.
fn empty(nodes: u64) -> (Tree, Shared) {
    let no_keys = |_| unreachable!("it has no keys at first");
    let (tree, memory) = super::tree(Addr(0), 0, nodes, no_keys);
    (tree, Shared::new(&memory.words))
}

/// A tree with some of the keys, its memory, and the value of every key.
fn tree(seed: u64) -> (Tree, Shared, Vec<Option<u64>>) {
    let (tree, words) = empty(100);
    let mut memory = words.into_plain();
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut state = vec![None; KEYS];
    for number in 0..KEYS {
        tree.put(&mut memory, &key(number), 1).unwrap();
    }
    let share = rng.random_range(1..10);
    for (number, state) in state.iter_mut().enumerate() {
        if rng.random_range(0..10) < share {
            *state = Some(1);
        } else {
            tree.remove(&mut memory, &key(number)).unwrap();
        }
    }
    (tree, Shared::new(&memory.words), state)
}

/// Checks every key's history, and that the tree holds the final values.
fn check(
    tree: &Tree,
    words: Shared,
    first: &[Option<u64>],
    histories: Vec<Result<Vec<Op>, Corrupt>>,
) -> Result<(), String> {
    let histories: Result<Vec<Vec<Op>>, Corrupt> = histories.into_iter().collect();
    let histories = histories.map_err(|wrong| wrong.to_string())?;
    let mut memory = words.into_plain();
    for (number, &first) in first.iter().enumerate() {
        let last = tree.get(&mut memory, &key(number)).map_err(|wrong| wrong.to_string())?;
        let of_key = |ops: &Vec<Op>| ops.iter().filter(|op| op.key == number).copied().collect();
        let threads: Vec<Vec<Op>> = histories.iter().map(of_key).collect();
        if !is_linearizable(first, &threads, last) {
            return Err(format!("key {number} from {first:?} to {last:?}: {threads:?}"));
        }
    }
    tree.census(&mut memory).map(|_| ()).map_err(|wrong| wrong.to_string())
}

fn mix(seed: u64) -> Mix {
    [Mix { puts: 4, removes: 3 }, Mix { puts: 8, removes: 0 }, Mix { puts: 1, removes: 7 }]
        [seed as usize % 3]
}

fn interleaved(
    seed: u64,
    does: impl Fn(usize, &mut Interleaved<'_>, &mut dyn FnMut(&mut Access<'_, '_>)) + Sync,
) -> Result<(), String> {
    let (tree, words, first) = tree(seed);
    let clock = AtomicU64::new(0);
    let histories = interleave(&words, 4, seed, |thread, memory| {
        let mut rng = Pcg64Mcg::seed_from_u64(seed * 4 + thread as u64);
        let mut history = Vec::new();
        let mut result = Ok(());
        does(thread, memory, &mut |access| {
            for _ in 0..12 {
                let done = operate(&tree, access, &mut rng, &clock, mix(seed), &mut history);
                if done.is_err() {
                    result = done;
                    break;
                }
            }
        });
        result.map(|()| history)
    });
    check(&tree, words, &first, histories)
}

#[test]
fn interleaved_operations_are_linearizable() {
    for seed in 0..90 {
        interleaved(seed, |_, memory, run| run(&mut Access::Honest(memory)))
            .unwrap_or_else(|violation| panic!("interleaving {seed}: {violation}"));
    }
}

#[test]
fn raced_operations_are_linearizable() {
    for seed in 0..6 {
        let (tree, words, first) = tree(seed);
        let clock = AtomicU64::new(0);
        let histories = race(&words, |thread, memory: &mut Raced<'_>| {
            let mut rng = Pcg64Mcg::seed_from_u64(seed * 2 + thread as u64);
            let mut history = Vec::new();
            for op in 0..6000 {
                let mix = mix(op / 50);
                operate(&tree, memory, &mut rng, &clock, mix, &mut history)?;
            }
            Ok(history)
        });
        check(&tree, words, &first, histories).unwrap_or_else(|violation| panic!("{violation}"));
    }
}

/// The keys of two jobs alternate. Both insert theirs and remove them again, so nodes are split,
/// joined and reused while the other works. No other job has a job's keys, so it knows what it must
/// find.
fn come_and_go<M: FullMemory>(tree: &Tree, m: &mut M, job: u64, keys: u64, rounds: u64) {
    let key = |i: u64| (2 * i + job).to_be_bytes();
    for round in 0..rounds {
        for i in 0..keys {
            assert_eq!(tree.put(m, &key(i), round), Ok(None));
        }
        for i in 0..keys {
            assert_eq!(tree.get(m, &key(i)), Ok(Some(round)));
            assert_eq!(tree.remove(m, &key(i)), Ok(Some(round)));
            assert_eq!(tree.get(m, &key(i)), Ok(None));
        }
    }
}

#[test]
fn nodes_are_joined_and_used_again_beside_others() {
    // Room for all keys at once, but not for many rounds if nodes were not given back.
    let keys = 150;
    for seed in 0..4 {
        let (tree, words) = empty(40);
        interleave(&words, 2, seed, |job, memory| come_and_go(&tree, memory, job as u64, keys, 4));
        let census = tree.census(&mut words.into_plain()).unwrap();
        assert_eq!(census.keys, 0);
        assert!(census.border_nodes <= 10, "{census:?}");
    }
    for _ in 0..5 {
        let (tree, words) = empty(40);
        race(&words, |job, memory| come_and_go(&tree, memory, job as u64, keys, 40));
        assert_eq!(tree.census(&mut words.into_plain()).unwrap().keys, 0);
    }
}

/// Memory for a job, either as it is or such that the job skips a part of the protocol.
enum Access<'a, 'b> {
    Honest(&'a mut Interleaved<'b>),
    /// Locks exclude no job.
    Lockless(&'a mut Interleaved<'b>),
    /// Versions stay as they were when the node was first read.
    Unchecked(&'a mut Interleaved<'b>, Vec<(Addr, u64)>),
}

impl<'b> Access<'_, 'b> {
    fn memory(&mut self) -> &mut Interleaved<'b> {
        match self {
            Access::Honest(memory) | Access::Lockless(memory) | Access::Unchecked(memory, _) => {
                memory
            }
        }
    }
}

impl Memory for Access<'_, '_> {
    fn size_bytes(&self) -> u64 {
        match self {
            Access::Honest(memory) | Access::Lockless(memory) | Access::Unchecked(memory, _) => {
                memory.size_bytes()
            }
        }
    }
    fn load<T: Value>(&mut self, at: Addr) -> T {
        let value = self.memory().load::<T>(at);
        let Access::Unchecked(_, seen) = self else { return value };
        if size_of::<T>() == LINE_BYTES {
            let word: u64 = bytemuck::pod_read_unaligned(&bytemuck::bytes_of(&value)[..8]);
            seen.retain(|(line, _)| *line != at);
            // Bits 2 and 3 say that the node is changing: no job reads it then.
            if word & 0b1100 == 0 {
                seen.push((at, word));
            }
        } else if let Some((_, word)) = seen.iter().find(|(line, _)| *line == at) {
            return bytemuck::pod_read_unaligned(bytemuck::bytes_of(word));
        }
        value
    }
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        self.memory().store(at, value);
    }
    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let result = self.memory().compare_exchange(at, current, new);
        match (&self, result) {
            // The lowest bit is the lock, the next says that a job waits for it.
            (Access::Lockless(_), Err(found)) if new == current | 1 && found & !3 == current => {
                Ok(current)
            }
            (_, result) => result,
        }
    }
    fn wait(&mut self, at: Addr, seen: u64) {
        self.memory().wait(at, seen);
    }
    fn wake(&mut self, at: Addr) {
        self.memory().wake(at);
    }
}

impl FullMemory for Access<'_, '_> {
    fn work(&mut self, instructions: u64) {
        self.memory().work(instructions);
    }
}

#[test]
fn the_checker_catches_writers_without_locks() {
    let caught = (0..20).filter(|&seed| {
        interleaved(seed, |_, memory, run| run(&mut Access::Lockless(memory))).is_err()
    });
    assert!(caught.count() >= 15);
}

#[test]
fn the_checker_catches_readers_that_do_not_look_at_versions_again() {
    let unchecked = |seed| {
        interleaved(seed, |thread, memory, run| match thread {
            // Only a reader: a writer would find out when it locks.
            0 => run(&mut Access::Unchecked(memory, Vec::new())),
            _ => run(&mut Access::Honest(memory)),
        })
    };
    assert!((0..60).filter(|&seed| unchecked(seed).is_err()).count() >= 2);
}

#[test]
fn the_checker_tells_possible_histories_from_impossible_ones() {
    let op = |start, end, did| Op { key: 0, start, end, did };
    let put = |value, previous| Did::Put { value, previous };
    let get = |found| Did::Get { found };
    let history = |threads: &[&[Op]], last| {
        let threads: Vec<Vec<Op>> = threads.iter().map(|ops| ops.to_vec()).collect();
        is_linearizable(None, &threads, last)
    };
    // Two puts at once, in the order that they saw.
    let puts = [&[op(0, 3, put(1, Some(2)))][..], &[op(1, 2, put(2, None))]];
    assert!(history(&puts, Some(1)) && !history(&puts, Some(2)));
    // A lost update: both saw nothing.
    assert!(!history(&[&[op(0, 3, put(1, None))], &[op(1, 2, put(2, None))]], Some(1)));
    // A read of what was overwritten before it began, or not.
    let one = [op(0, 1, put(1, None)), op(2, 3, put(2, Some(1)))];
    assert!(!history(&[&one, &[op(4, 5, get(Some(1)))]], Some(2)));
    assert!(history(&[&one, &[op(2, 5, get(Some(1)))]], Some(2)));
}
