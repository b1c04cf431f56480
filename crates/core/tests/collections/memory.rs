//! Memories to test structures on: plain words that may fail, and words whose every access waits
//! for its turn in a seeded interleaving.

use std::sync::{Condvar, Mutex};

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
/// same seed gives the same interleaving.
pub struct Turns {
    state: Mutex<State>,
    passed: Vec<Condvar>,
}

struct State {
    words: Vec<u64>,
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

/// One thread's view of the words.
pub struct Interleaved<'a> {
    turns: &'a Turns,
    me: usize,
}

impl Interleaved<'_> {
    /// Lets somebody run, this thread only if it is still runnable; then does `step`.
    fn turn<R>(&self, becomes: Thread, step: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.turns.state.lock().unwrap();
        assert_eq!(state.current, self.me, "only who has the turn passes it on");
        state.threads[self.me] = becomes;
        let runnable: Vec<usize> =
            (0..state.threads.len()).filter(|&t| state.threads[t] == Thread::Runnable).collect();
        if !runnable.is_empty() {
            let next = state.random.random_range(0..runnable.len());
            state.current = runnable[next];
            self.turns.passed[state.current].notify_one();
        }
        if becomes != Thread::Done {
            assert!(!runnable.is_empty(), "deadlock: {:?}", state.threads);
            let mine = |state: &mut State| state.current != self.me;
            state = self.turns.passed[self.me].wait_while(state, mine).unwrap();
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
        if !std::thread::panicking() {
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
        current: 0,
        threads: vec![Thread::Runnable; threads],
    };
    let passed = (0..threads).map(|_| Condvar::new()).collect();
    let turns = Turns { state: Mutex::new(state), passed };
    let run = |me| {
        let mine = |state: &mut State| state.current != me;
        drop(turns.passed[me].wait_while(turns.state.lock().unwrap(), mine).unwrap());
        body(me, &mut Interleaved { turns: &turns, me })
    };
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|me| scope.spawn(move || run(me))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    memory.words = turns.state.into_inner().unwrap().words;
    results
}
