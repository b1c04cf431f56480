//! [`Interleaved`] and [`Raced`]: words that several threads access.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};

use ebbtide_core::{Addr, Memory, Value, check_access};
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
    fn work(&mut self, _instructions: u64) {}
    fn wait(&mut self, _at: Addr, _seen: u64) {
        std::thread::yield_now();
    }
    fn wake(&mut self, _at: Addr) {}
}

/// Whose turn it is: one thread runs at a time, and before every word it may pass the turn on.
#[derive(Debug)]
struct Turns {
    state: Mutex<State>,
    passed: Vec<Condvar>,
    /// The probability that a thread keeps its turn.
    stay: f64,
}

#[derive(Debug)]
struct State {
    random: Pcg64Mcg,
    current: usize,
    threads: Vec<Thread>,
    /// A thread panicked; the others then panic too.
    broken: bool,
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
        let state =
            State { random, current: 0, threads: vec![Thread::Runnable; threads], broken: false };
        let passed = (0..threads).map(|_| Condvar::new()).collect();
        Turns { state: Mutex::new(state), passed, stay }
    }

    /// Gives the turn to a runnable thread that the generator chooses. Returns when it is back at
    /// `me`, or at once when `me` is done.
    fn pass(&self, me: usize, becomes: Thread) {
        // At once, unless another thread has panicked: the turn is ours.
        let mut state = self.await_turn(self.state.lock().unwrap(), me);
        let may_stay = self.stay > 0.0 && becomes == Thread::Runnable;
        if may_stay && state.random.random_bool(self.stay) {
            return;
        }
        state.threads[me] = becomes;
        let runnable: Vec<usize> =
            (0..state.threads.len()).filter(|&t| state.threads[t] == Thread::Runnable).collect();
        if runnable.is_empty() {
            let stuck = state.threads.iter().any(|&thread| thread != Thread::Done);
            let threads = state.threads.clone();
            drop(state);
            assert!(!stuck, "deadlock: {threads:?}");
            return;
        }
        let next = state.random.random_range(0..runnable.len());
        state.current = runnable[next];
        self.passed[state.current].notify_one();
        if becomes != Thread::Done {
            drop(self.await_turn(state, me));
        }
    }

    fn await_turn<'a>(&self, state: MutexGuard<'a, State>, me: usize) -> MutexGuard<'a, State> {
        let others = |state: &mut State| state.current != me && !state.broken;
        let state = self.passed[me].wait_while(state, others).unwrap();
        let broken = state.broken;
        if broken {
            drop(state);
            panic!("another thread panicked");
        }
        state
    }
}

/// One thread's view of shared words, whose accesses wait for their turn; see [`interleave()`].
#[derive(Debug)]
pub struct Interleaved<'a> {
    words: Raced<'a>,
    turns: &'a Turns,
    me: usize,
}

impl Interleaved<'_> {
    fn turn(&self) {
        self.turns.pass(self.me, Thread::Runnable);
    }
}

impl Drop for Interleaved<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.turns.state.lock().unwrap().broken = true;
            self.turns.passed.iter().for_each(Condvar::notify_all);
        } else {
            self.turns.pass(self.me, Thread::Done);
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
    fn work(&mut self, _instructions: u64) {
        self.turn();
    }
    fn wait(&mut self, at: Addr, seen: u64) {
        self.turn();
        // No other thread runs between this look and the wait: the turn is ours.
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

/// Runs `body(thread, memory)` on `threads` threads over `words` and returns each one's result.
///
/// The turn passes before every word that a thread accesses, to a thread that a generator with
/// this `seed` chooses. The same seed gives the same interleaving.
///
/// # Panics
/// When a thread panics, and when all threads wait.
pub fn interleave<R: Send>(
    words: &Shared,
    threads: usize,
    seed: u64,
    body: impl Fn(usize, &mut Interleaved<'_>) -> R + Sync,
) -> Vec<R> {
    take_turns(words, threads, Turns::new(threads, seed, 0.0), body)
}

/// As [`interleave()`], but a turn lasts for `words_a_turn` words on average, so that long
/// operations interleave in reasonable time.
///
/// # Panics
/// As [`interleave()`].
pub fn interleave_bursts<R: Send>(
    words: &Shared,
    threads: usize,
    seed: u64,
    words_a_turn: f64,
    body: impl Fn(usize, &mut Interleaved<'_>) -> R + Sync,
) -> Vec<R> {
    take_turns(words, threads, Turns::new(threads, seed, 1.0 - 1.0 / words_a_turn), body)
}

fn take_turns<R: Send>(
    words: &Shared,
    threads: usize,
    turns: Turns,
    body: impl Fn(usize, &mut Interleaved<'_>) -> R + Sync,
) -> Vec<R> {
    let run = |me| {
        drop(turns.await_turn(turns.state.lock().unwrap(), me));
        body(me, &mut Interleaved { words: Raced(words), turns: &turns, me })
    };
    let run = &run;
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|me| scope.spawn(move || run(me))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
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
