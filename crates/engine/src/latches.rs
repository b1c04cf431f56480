//! Fibers that wait on a word in memory ([`Memory::wait`](ebbtide_core::Memory::wait)).

use std::collections::HashMap;

use ebbtide_core::Addr;
use parking_lot::Mutex;

use crate::hub::Waiter;

const SHARDS: u64 = 64;

/// Who waits on which word.
pub(crate) struct Latches {
    shards: Box<[Mutex<Waiting>]>,
}

type Waiting = HashMap<Addr, Vec<Waiter>>;

impl Latches {
    pub(crate) fn new() -> Latches {
        Latches { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    fn shard(&self, at: Addr) -> &Mutex<Waiting> {
        &self.shards[(at.0 / 8 % SHARDS) as usize]
    }

    /// Adds `waiter` if `still` holds, looked at while no [`take`](Latches::take) for this word can
    /// come between. Says whether it was added.
    pub(crate) fn add(&self, at: Addr, waiter: Waiter, still: impl FnOnce() -> bool) -> bool {
        let mut shard = self.shard(at).lock();
        if !still() {
            return false;
        }
        shard.entry(at).or_default().push(waiter);
        true
    }

    /// Everyone who waits on the word at `at`; they wait no more.
    pub(crate) fn take(&self, at: Addr) -> Vec<Waiter> {
        self.shard(at).lock().remove(&at).unwrap_or_default()
    }
}
