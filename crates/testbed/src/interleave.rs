//! [`Interleaved`] and [`Raced`]: words that several threads access.

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use corosensei::stack::DefaultStack;
use corosensei::{CoroutineResult, ScopedCoroutine, ScopedCoroutineRef, Yielder};
use ebbtide_core::{Addr, FullMemory, Memory, Value, check_access};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::{Plain, index, load, store};

/// Words that several threads share.
#[derive(Debug)]
pub struct Shared {
    words: Vec<AtomicU64>,
}

impl Shared {
    /// Words that begin as `words`.
    pub fn new(words: &[u64]) -> Shared {
        Shared { words: words.iter().map(|&word| AtomicU64::new(word)).collect() }
    }

    /// The words as one job's memory.
    pub fn into_plain(self) -> Plain {
        Plain::new(self.words.into_iter().map(AtomicU64::into_inner).collect())
    }
}

/// One thread's view of shared words. Threads race as the machine lets them.
#[derive(Debug, Clone, Copy)]
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
        let word = &self.0.words[index(at)];
        word.compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
    }
    fn wait(&mut self, _at: Addr, _seen: u64) {
        std::thread::yield_now();
    }
    fn wake(&mut self, _at: Addr) {}
}

impl FullMemory for Raced<'_> {
    fn work(&mut self, _instructions: u64) {}
}

/// The turn: one thread runs at a time, and may pass the turn on before every word.
#[derive(Debug)]
struct Turns {
    state: RefCell<State>,
    /// The probability that a thread keeps its turn.
    stay: f64,
}

#[derive(Debug)]
struct State {
    random: Pcg64Mcg,
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
    fn new(threads: usize, seed: u64, stay: f64) -> Turns {
        let random = Pcg64Mcg::seed_from_u64(seed);
        let state = State { random, current: 0, threads: vec![Thread::Runnable; threads] };
        Turns { state: RefCell::new(state), stay }
    }

    /// Passes the turn of `me` to a runnable thread that the generator chooses, which may be `me`.
    ///
    /// # Panics
    /// When threads wait and none is runnable.
    fn pass(&self, me: usize, becomes: Thread) {
        let mut state = self.state.borrow_mut();
        let State { random, current, threads } = &mut *state;
        let may_stay = self.stay > 0.0 && becomes == Thread::Runnable;
        if may_stay && random.random_bool(self.stay) {
            return;
        }
        threads[me] = becomes;
        let mut runnable =
            threads.iter().enumerate().filter(|(_, thread)| **thread == Thread::Runnable);
        let count = runnable.clone().count();
        if count == 0 {
            let stuck = threads.iter().any(|&thread| thread != Thread::Done);
            assert!(!stuck, "deadlock: {threads:?}");
            return;
        }
        let (next, _) = runnable.nth(random.random_range(0..count)).expect("below their count");
        *current = next;
    }

    fn current(&self) -> usize {
        self.state.borrow().current
    }

    fn are_done(&self) -> bool {
        self.state.borrow().threads.iter().all(|&thread| thread == Thread::Done)
    }
}

/// One thread's view of shared words, whose accesses wait for their turn; see [`interleave()`].
pub struct Interleaved<'a> {
    words: Raced<'a>,
    turns: &'a Turns,
    me: usize,
    yielder: &'a Yielder<(), ()>,
}

impl fmt::Debug for Interleaved<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interleaved").field("me", &self.me).field("turns", self.turns).finish()
    }
}

impl Interleaved<'_> {
    fn turn(&self) {
        self.pass(Thread::Runnable);
    }

    /// Passes the turn on, and returns when it is back.
    fn pass(&self, becomes: Thread) {
        // The machine counts panics by thread, and all of these run on one.
        assert!(!std::thread::panicking(), "a thread accesses memory while it unwinds");
        self.turns.pass(self.me, becomes);
        if self.turns.current() != self.me {
            self.yielder.suspend(());
        }
    }
}

impl Memory for Interleaved<'_> {
    fn size_bytes(&self) -> u64 {
        self.words.size_bytes()
    }
    /// The turn may pass before every word, so a value of several words may be torn.
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
    fn wait(&mut self, at: Addr, seen: u64) {
        self.turn();
        // No other thread runs between this look and the wait: the turn is ours.
        if self.words.load::<u64>(at) == seen {
            self.pass(Thread::Waiting(at));
        }
    }
    fn wake(&mut self, at: Addr) {
        self.turn();
        for thread in &mut self.turns.state.borrow_mut().threads {
            if *thread == Thread::Waiting(at) {
                *thread = Thread::Runnable;
            }
        }
    }
}

impl FullMemory for Interleaved<'_> {
    fn work(&mut self, _instructions: u64) {
        self.turn();
    }
}

/// Runs `body(thread, memory)` on `threads` threads over `words` and returns each one's result.
///
/// The turn passes before every word that a thread accesses, to a thread that a generator with
/// this `seed` chooses. The same seed gives the same interleaving.
///
/// The threads are coroutines on the caller's own thread, because a word costs a switch.
///
/// # Panics
/// When a thread panics, with the same payload, and when all threads wait.
pub fn interleave<R>(
    words: &Shared,
    threads: usize,
    seed: u64,
    body: impl Fn(usize, &mut Interleaved<'_>) -> R,
) -> Vec<R> {
    take_turns(words, threads, &Turns::new(threads, seed, 0.0), body)
}

/// As [`interleave()`], but a turn lasts for `words_a_turn` words on average, so that long
/// operations interleave in reasonable time.
///
/// # Panics
/// As [`interleave()`].
pub fn interleave_bursts<R>(
    words: &Shared,
    threads: usize,
    seed: u64,
    words_a_turn: f64,
    body: impl Fn(usize, &mut Interleaved<'_>) -> R,
) -> Vec<R> {
    take_turns(words, threads, &Turns::new(threads, seed, 1.0 - 1.0 / words_a_turn), body)
}

/// A thread that takes turns.
type Taking<'a, R> = ScopedCoroutineRef<'a, (), (), R, DefaultStack>;

/// The default size of a Rust thread's stack.
const STACK_BYTES: usize = 2 << 20;

fn take_turns<R>(
    words: &Shared,
    threads: usize,
    turns: &Turns,
    body: impl Fn(usize, &mut Interleaved<'_>) -> R,
) -> Vec<R> {
    let run = |me, yielder: &Yielder<(), ()>| {
        body(me, &mut Interleaved { words: Raced(words), turns, me, yielder })
    };
    start(Vec::new(), threads, &run, |mut taking| {
        let mut results: Vec<Option<R>> = taking.iter().map(|_| None).collect();
        while !turns.are_done() {
            let me = turns.current();
            // The others are unwound once nothing else unwinds.
            match catch_unwind(AssertUnwindSafe(|| taking[me].resume(()))) {
                Ok(CoroutineResult::Yield(())) => {}
                Ok(CoroutineResult::Return(result)) => {
                    results[me] = Some(result);
                    turns.pass(me, Thread::Done);
                }
                Err(panic) => {
                    taking.iter_mut().for_each(Taking::force_unwind);
                    resume_unwind(panic);
                }
            }
        }
        results.into_iter().map(|result| result.expect("it is done")).collect()
    })
}

/// Passes `threads` coroutines to `drive`. Each of them runs `run`.
fn start<R, T>(
    started: Vec<Taking<'_, R>>,
    threads: usize,
    run: &impl Fn(usize, &Yielder<(), ()>) -> R,
    drive: impl FnOnce(Vec<Taking<'_, R>>) -> T,
) -> T {
    let me = started.len();
    if me == threads {
        return drive(started);
    }
    let stack = DefaultStack::new(STACK_BYTES).expect("room for a stack");
    let body = |yielder: &Yielder<(), ()>, ()| run(me, yielder);
    ScopedCoroutine::with_stack(stack, body).scope(|this| {
        let mut started = started;
        started.push(this);
        start(started, threads, run, drive)
    })
}

/// Runs `body(thread, memory)` on two threads that race over `words` and returns each one's result.
///
/// # Panics
/// When a thread panics.
pub fn race<R: Send>(words: &Shared, body: impl Fn(usize, &mut Raced<'_>) -> R + Sync) -> Vec<R> {
    let body = &body;
    std::thread::scope(|scope| {
        let handles: Vec<_> =
            (0..2).map(|me| scope.spawn(move || body(me, &mut Raced(words)))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    })
}
