//! [`Plain`]: the words of one job.

use std::ops::Range;

use ebbtide_core::{
    Addr, FullMemory, Hint, Memory, MemoryFault, PAGE_BYTES, PageId, Value, check_access,
};

use crate::{exchange, index, load, store};

/// Words in order, for one job at a time. Waiting panics, since no other job could end the wait.
#[derive(Debug, Clone, Default)]
pub struct Plain {
    /// The words; word `i` lies at address `8 * i`.
    pub words: Vec<u64>,
    /// Accesses so far.
    pub accesses: u64,
    /// The accesses that fail, by number from 0.
    pub failing: Range<u64>,
    /// Instructions computed so far.
    pub worked: u64,
    /// The addresses that were woken.
    pub woken: Vec<Addr>,
    /// The hints that were given.
    pub hints: Vec<Hint>,
}

impl Plain {
    /// A memory that holds `words`.
    pub fn new(words: Vec<u64>) -> Plain {
        Plain { words, ..Plain::default() }
    }

    /// A memory of `bytes` bytes, all zeros.
    pub fn zeroed(bytes: u64) -> Plain {
        Plain::new(vec![0; bytes as usize / 8])
    }

    fn access(&mut self, at: Addr) {
        self.accesses += 1;
        if self.failing.contains(&(self.accesses - 1)) {
            let (page, reason) = (at.page(), "injected".into());
            MemoryFault { page, reason, writes_fail: false }.unwind();
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
        check_access::<u64>(at);
        exchange(&mut self.words[index(at)], current, new)
    }
    fn wait(&mut self, at: Addr, _seen: u64) {
        panic!("the only job waits for the word at {at:?}");
    }
    fn wake(&mut self, at: Addr) {
        self.woken.push(at);
    }
    fn hint(&mut self, hint: Hint) {
        self.hints.push(hint);
    }
}

impl FullMemory for Plain {
    fn work(&mut self, instructions: u64) {
        self.worked += instructions;
    }
    fn forget(&mut self, page: PageId) {
        let first = index(page.start());
        self.words[first..first + PAGE_BYTES / 8].fill(0);
    }
}
