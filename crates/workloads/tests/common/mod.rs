//! Memories to run programs on: plain, sparse, interleaved by a seeded scheduler, and raced.
#![allow(dead_code, unreachable_pub, reason = "each test file uses some of it")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

use ebbtide_core::{Addr, Memory, PAGE_BYTES, PageId, Value, check_access};
use ebbtide_workloads::{Kind, Program, Scatter, Shape, Workload};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const WORDS_PER_PAGE: usize = PAGE_BYTES / 8;

/// A program of `pages` pages at most, or as few as it needs, with the rest of the shape as usual.
pub fn program(name: &str, pages: u64, scatter: Scatter) -> Program {
    let least_bytes = name.parse::<Kind>().unwrap().min_bytes();
    let dataset_bytes = least_bytes.max(pages * PAGE_BYTES as u64);
    Program::new(name, &Shape { dataset_bytes, scatter, ..Shape::default() }).unwrap()
}

/// The page of a workload's image as words.
pub fn page(workload: &impl Workload, page: PageId) -> Vec<u64> {
    // Garbage first: the image must overwrite all of it.
    let mut bytes = [0xa5; PAGE_BYTES];
    workload.image(page, &mut bytes);
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

/// A workload's whole image as words.
pub fn image(workload: &impl Workload) -> Vec<u64> {
    let pages = workload.size_bytes() / PAGE_BYTES as u64;
    (0..pages).flat_map(|p| page(workload, PageId(p))).collect()
}

fn load<T: Value>(at: Addr, mut word: impl FnMut(usize) -> u64) -> T {
    check_access::<T>(at);
    let mut value = T::zeroed();
    for (i, bytes) in
        bytemuck::bytes_of_mut(&mut value).as_chunks_mut::<8>().0.iter_mut().enumerate()
    {
        *bytes = word(at.0 as usize / 8 + i).to_ne_bytes();
    }
    value
}

fn store<T: Value>(at: Addr, value: T, mut word: impl FnMut(usize, u64)) {
    check_access::<T>(at);
    for (i, bytes) in bytemuck::bytes_of(&value).as_chunks::<8>().0.iter().enumerate() {
        word(at.0 as usize / 8 + i, u64::from_ne_bytes(*bytes));
    }
}

/// Words in order; one job at a time. Counts what jobs do.
pub struct Plain {
    pub words: Vec<u64>,
    pub worked: u64,
    pub accesses: u64,
}

impl Plain {
    pub fn new(workload: &impl Workload) -> Plain {
        Plain { words: image(workload), worked: 0, accesses: 0 }
    }
}

impl Memory for Plain {
    fn size_bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }
    fn load<T: Value>(&mut self, at: Addr) -> T {
        self.accesses += 1;
        load(at, |i| self.words[i])
    }
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        self.accesses += 1;
        store(at, value, |i, word| self.words[i] = word);
    }
    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.accesses += 1;
        check_access::<u64>(at);
        let word = &mut self.words[at.0 as usize / 8];
        if *word == current { Ok(std::mem::replace(word, new)) } else { Err(*word) }
    }
    fn work(&mut self, instructions: u64) {
        self.worked += instructions;
    }
    fn wait(&mut self, at: Addr, _seen: u64) {
        panic!("the only job waits for the latch at {at:?}");
    }
    fn wake(&mut self, _at: Addr) {}
}

/// Pages made from the image when they are touched: any size, one job at a time.
pub struct Sparse<'a, W> {
    workload: &'a W,
    pub pages: HashMap<u64, Vec<u64>>,
}

impl<'a, W: Workload> Sparse<'a, W> {
    pub fn new(workload: &'a W) -> Sparse<'a, W> {
        Sparse { workload, pages: HashMap::new() }
    }

    fn page(&mut self, at: Addr) -> &mut Vec<u64> {
        self.pages.entry(at.page().0).or_insert_with(|| page(self.workload, at.page()))
    }
}

impl<W: Workload> Memory for Sparse<'_, W> {
    fn size_bytes(&self) -> u64 {
        self.workload.size_bytes()
    }
    fn load<T: Value>(&mut self, at: Addr) -> T {
        let page = self.page(at);
        load(at, |i| page[i % WORDS_PER_PAGE])
    }
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        let page = self.page(at);
        store(at, value, |i, word| page[i % WORDS_PER_PAGE] = word);
    }
    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let word = &mut self.page(at)[at.page_offset() / 8];
        if *word == current { Ok(std::mem::replace(word, new)) } else { Err(*word) }
    }
    fn work(&mut self, _instructions: u64) {}
    fn wait(&mut self, at: Addr, _seen: u64) {
        panic!("the only job waits for the latch at {at:?}");
    }
    fn wake(&mut self, _at: Addr) {}
}

/// Words that several threads share.
pub struct Shared {
    words: Vec<AtomicU64>,
}

impl Shared {
    pub fn new(words: &[u64]) -> Shared {
        Shared { words: words.iter().map(|&word| AtomicU64::new(word)).collect() }
    }

    pub fn into_plain(self) -> Plain {
        let words = self.words.into_iter().map(AtomicU64::into_inner).collect();
        Plain { words, worked: 0, accesses: 0 }
    }
}

/// Threads race over shared words as the machine lets them.
#[derive(Clone, Copy)]
pub struct Raced<'a>(pub &'a Shared);

impl Memory for Raced<'_> {
    fn size_bytes(&self) -> u64 {
        self.0.words.len() as u64 * 8
    }
    fn load<T: Value>(&mut self, at: Addr) -> T {
        load(at, |i| self.0.words[i].load(Ordering::Acquire))
    }
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        store(at, value, |i, word| self.0.words[i].store(word, Ordering::Release));
    }
    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        check_access::<u64>(at);
        let word = &self.0.words[at.0 as usize / 8];
        word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
    }
    fn work(&mut self, _instructions: u64) {}
    fn wait(&mut self, _at: Addr, _seen: u64) {
        std::thread::yield_now();
    }
    fn wake(&mut self, _at: Addr) {}
}

/// One token that threads pass at every access; a seeded generator says to whom. The same seed
/// gives the same interleaving.
pub struct Turns {
    state: Mutex<TurnState>,
    passed: Vec<Condvar>,
}

struct TurnState {
    rng: Pcg64Mcg,
    current: usize,
    threads: Vec<Thread>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Thread {
    Runnable,
    Waiting(Addr),
    Done,
}

impl Turns {
    pub fn new(threads: usize, seed: u64) -> Turns {
        let threads = vec![Thread::Runnable; threads];
        let passed = threads.iter().map(|_| Condvar::new()).collect();
        let rng = Pcg64Mcg::seed_from_u64(seed);
        Turns { state: Mutex::new(TurnState { rng, current: 0, threads }), passed }
    }

    /// Gives the token to some runnable thread; returns when it is back at `me`.
    fn pass(&self, me: usize, becomes: Thread) {
        let mut state = self.state.lock().unwrap();
        assert_eq!(state.current, me, "only the holder of the token passes it on");
        state.threads[me] = becomes;
        let runnable: Vec<usize> =
            (0..state.threads.len()).filter(|&t| state.threads[t] == Thread::Runnable).collect();
        if runnable.is_empty() {
            let stuck = state.threads.iter().any(|&thread| thread != Thread::Done);
            assert!(!stuck, "deadlock: {:?}", state.threads);
            return;
        }
        let next = state.rng.random_range(0..runnable.len());
        state.current = runnable[next];
        self.passed[state.current].notify_one();
        if becomes != Thread::Done {
            self.start(state, me);
        }
    }

    fn start(&self, state: std::sync::MutexGuard<'_, TurnState>, me: usize) {
        let _state = self.passed[me].wait_while(state, |state| state.current != me).unwrap();
    }
}

/// Shared words, touched in the order that [`Turns`] gives.
pub struct Interleaved<'a> {
    words: Raced<'a>,
    turns: &'a Turns,
    me: usize,
}

impl<'a> Interleaved<'a> {
    /// Blocks until it is this thread's turn. Its turns end when it is dropped.
    pub fn new(words: &'a Shared, turns: &'a Turns, me: usize) -> Interleaved<'a> {
        turns.start(turns.state.lock().unwrap(), me);
        Interleaved { words: Raced(words), turns, me }
    }

    fn turn(&self) {
        self.turns.pass(self.me, Thread::Runnable);
    }
}

impl Drop for Interleaved<'_> {
    fn drop(&mut self) {
        self.turns.pass(self.me, Thread::Done);
    }
}

impl Memory for Interleaved<'_> {
    fn size_bytes(&self) -> u64 {
        self.words.size_bytes()
    }
    /// A turn before every word: a line may be torn.
    fn load<T: Value>(&mut self, at: Addr) -> T {
        load(at, |i| {
            self.turn();
            self.words.load(Addr(i as u64 * 8))
        })
    }
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        store(at, value, |i, word| {
            self.turn();
            self.words.store(Addr(i as u64 * 8), word);
        });
    }
    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.turn();
        self.words.compare_exchange(at, current, new)
    }
    fn work(&mut self, _instructions: u64) {
        self.turn();
    }
    fn wait(&mut self, at: Addr, seen: u64) {
        self.turn();
        // Nobody runs between this look and the wait: the token is ours.
        if self.words.load::<u64>(at) == seen {
            self.turns.pass(self.me, Thread::Waiting(at));
        }
    }
    fn wake(&mut self, at: Addr) {
        self.turn();
        for thread in &mut self.turns.state.lock().unwrap().threads {
            if *thread == Thread::Waiting(at) {
                *thread = Thread::Runnable;
            }
        }
    }
}

/// Runs `body(thread, memory)` on `threads` threads whose accesses are interleaved by `seed`.
pub fn interleave<R: Send>(
    words: &Shared,
    threads: usize,
    seed: u64,
    body: impl Fn(usize, &mut Interleaved<'_>) -> R + Sync,
) -> Vec<R> {
    let turns = Turns::new(threads, seed);
    let run = |me| {
        let mut memory = Interleaved::new(words, &turns, me);
        body(me, &mut memory)
    };
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|me| scope.spawn(move || run(me))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    })
}

/// Runs `body(thread, memory)` on two threads that race.
pub fn race<R: Send>(words: &Shared, body: impl Fn(usize, &mut Raced<'_>) -> R + Sync) -> Vec<R> {
    let body = &body;
    std::thread::scope(|scope| {
        let handles: Vec<_> =
            (0..2).map(|me| scope.spawn(move || body(me, &mut Raced(words)))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    })
}
