//! Memories to test structures on: plain words that may fail, and words whose every access waits
//! for its turn in a seeded interleaving.

use std::sync::{Condvar, Mutex, MutexGuard};

use ebbtide_core::{Addr, Memory, MemoryFault, Value, check_access};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

fn load<T: Value>(at: Addr, mut word: impl FnMut(usize) -> u64) -> T {
    check_access::<T>(at);
    let mut value = T::zeroed();
    let words = bytemuck::bytes_of_mut(&mut value).as_chunks_mut::<8>().0;
    for (i, bytes) in words.iter_mut().enumerate() {
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

fn exchange(word: &mut u64, current: u64, new: u64) -> Result<u64, u64> {
    if *word == current { Ok(std::mem::replace(word, new)) } else { Err(*word) }
}

/// Words of one job, which fail when it is said so.
pub struct Plain {
    pub words: Vec<u64>,
    /// Accesses so far.
    pub accesses: usize,
    /// The accesses, by number, that fail.
    pub failing: std::ops::Range<usize>,
    /// Who was woken.
    pub woken: Vec<Addr>,
}

impl Plain {
    pub fn zeroed(bytes: u64) -> Plain {
        let words = vec![0; bytes as usize / 8];
        Plain { words, accesses: 0, failing: 0..0, woken: Vec::new() }
    }

    fn access(&mut self, at: Addr) {
        self.accesses += 1;
        if self.failing.contains(&(self.accesses - 1)) {
            MemoryFault { page: at.page(), reason: "injected".into() }.unwind();
        }
    }
}

impl Memory for Plain {
    fn size_bytes(&self) -> u64 {
        self.words.len() as u64 * 8
    }
    fn load<T: Value>(&mut self, at: Addr) -> T {
        self.access(at);
        load(at, |i| self.words[i])
    }
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        self.access(at);
        store(at, value, |i, word| self.words[i] = word);
    }
    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.access(at);
        exchange(&mut self.words[at.0 as usize / 8], current, new)
    }
    fn work(&mut self, _instructions: u64) {}
    fn wait(&mut self, at: Addr, _seen: u64) {
        panic!("the only job waits for the word at {at:?}");
    }
    fn wake(&mut self, at: Addr) {
        self.woken.push(at);
    }
}

/// Words that several threads take turns at: whose turn is next is drawn before every word. The
/// same seed gives the same interleaving; with odd ones, turns last for some ten words.
pub struct Turns {
    state: Mutex<State>,
    passed: Vec<Condvar>,
}

struct State {
    words: Vec<u64>,
    random: Pcg64Mcg,
    stay: f64,
    current: usize,
    threads: Vec<Thread>,
    /// A thread panicked: all others do.
    broken: bool,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Thread {
    Runnable,
    Waiting(Addr),
    Done,
}

/// One thread's view of the words.
pub struct Interleaved<'a> {
    turns: &'a Turns,
    me: usize,
}

impl Turns {
    /// Returns when it is the turn of thread `me`.
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

impl Interleaved<'_> {
    /// Lets somebody run, this thread only if it is still runnable; then does `step`.
    fn turn<R>(&self, becomes: Thread, step: impl FnOnce(&mut State) -> R) -> R {
        // At once, unless another thread has panicked: the turn is ours.
        let state = self.turns.state.lock().unwrap();
        let mut state = self.turns.await_turn(state, self.me);
        let stay = state.stay;
        if becomes == Thread::Runnable && state.random.random_bool(stay) {
            return step(&mut state);
        }
        state.threads[self.me] = becomes;
        let runnable: Vec<usize> =
            (0..state.threads.len()).filter(|&t| state.threads[t] == Thread::Runnable).collect();
        if !runnable.is_empty() {
            let next = state.random.random_range(0..runnable.len());
            state.current = runnable[next];
            self.turns.passed[state.current].notify_one();
        } else if state.threads.iter().any(|&thread| thread != Thread::Done) {
            let threads = state.threads.clone();
            drop(state);
            panic!("deadlock: {threads:?}");
        }
        if becomes != Thread::Done {
            state = self.turns.await_turn(state, self.me);
        }
        step(&mut state)
    }
}

impl Memory for Interleaved<'_> {
    fn size_bytes(&self) -> u64 {
        self.turns.state.lock().unwrap().words.len() as u64 * 8
    }
    /// A turn before every word: values tear.
    fn load<T: Value>(&mut self, at: Addr) -> T {
        load(at, |i| self.turn(Thread::Runnable, |state| state.words[i]))
    }
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        store(at, value, |i, word| self.turn(Thread::Runnable, |state| state.words[i] = word));
    }
    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let word = at.0 as usize / 8;
        self.turn(Thread::Runnable, |state| exchange(&mut state.words[word], current, new))
    }
    fn work(&mut self, _instructions: u64) {}
    fn wait(&mut self, at: Addr, seen: u64) {
        let still = self.turns.state.lock().unwrap().words[at.0 as usize / 8] == seen;
        // Nobody runs between this look and the wait: the turn is ours.
        self.turn(if still { Thread::Waiting(at) } else { Thread::Runnable }, |_| {});
    }
    fn wake(&mut self, at: Addr) {
        self.turn(Thread::Runnable, |state| {
            for thread in state.threads.iter_mut().filter(|it| **it == Thread::Waiting(at)) {
                *thread = Thread::Runnable;
            }
        });
    }
}

impl Drop for Interleaved<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.turns.state.lock().unwrap().broken = true;
            self.turns.passed.iter().for_each(Condvar::notify_all);
        } else {
            self.turn(Thread::Done, |_| {});
        }
    }
}

/// Runs `body(thread, memory)` on `threads` threads interleaved by `seed` over the words of
/// `memory`, which then holds what they left; gives what each gave.
pub fn interleave<R: Send>(
    memory: &mut Plain,
    threads: usize,
    seed: u64,
    body: impl Fn(usize, &mut Interleaved<'_>) -> R + Sync,
) -> Vec<R> {
    let state = State {
        words: std::mem::take(&mut memory.words),
        random: Pcg64Mcg::seed_from_u64(seed),
        stay: if seed.is_multiple_of(2) { 0.0 } else { 0.9 },
        current: 0,
        threads: vec![Thread::Runnable; threads],
        broken: false,
    };
    let passed = (0..threads).map(|_| Condvar::new()).collect();
    let turns = Turns { state: Mutex::new(state), passed };
    let run = |me| {
        drop(turns.await_turn(turns.state.lock().unwrap(), me));
        body(me, &mut Interleaved { turns: &turns, me })
    };
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|me| scope.spawn(move || run(me))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    memory.words = turns.state.into_inner().unwrap().words;
    results
}
