//! Fibers that wait on a word in memory ([`Memory::wait`](ebbtide_core::Memory::wait)).

use std::collections::HashMap;

use ebbtide_core::Addr;
use parking_lot::Mutex;

use crate::sync::mailbox::Waiter;

const SHARDS: u64 = 64;

/// The fibers that wait on each word.
pub(crate) struct WaitQueues {
    shards: Box<[Mutex<Waiting>]>,
}

type Waiting = HashMap<Addr, Vec<Waiter>>;

impl WaitQueues {
    pub(crate) fn new() -> WaitQueues {
        WaitQueues { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }

    fn shard(&self, at: Addr) -> &Mutex<Waiting> {
        &self.shards[(at.0 / 8 % SHARDS) as usize]
    }

    /// Adds `waiter` if `still` returns true. No [`take`](WaitQueues::take) for this word can come
    /// between the check and the addition. Returns true if it was added.
    pub(crate) fn add(&self, at: Addr, waiter: Waiter, still: impl FnOnce() -> bool) -> bool {
        let mut shard = self.shard(at).lock();
        if !still() {
            return false;
        }
        shard.entry(at).or_default().push(waiter);
        true
    }

    /// Until dropped, keeps other jobs from waiting on the word at `at`, and from waking its
    /// waiters.
    #[cfg(test)]
    pub(crate) fn hold(&self, at: Addr) -> impl Drop {
        self.shard(at).lock()
    }

    /// The words that fibers wait on, with the fibers. Shards that are locked now are left out.
    pub(crate) fn waited_on(&self) -> Vec<(Addr, Vec<Waiter>)> {
        let shards = self.shards.iter().filter_map(|shard| shard.try_lock());
        shards
            .flat_map(|shard| {
                shard.iter().map(|(&at, fibers)| (at, fibers.clone())).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Takes one fiber of `core` off the queue of the word it waits on.
    pub(crate) fn take_one_of(&self, core: u32) -> Option<Waiter> {
        self.shards.iter().find_map(|shard| {
            let mut shard = shard.lock();
            let (&at, queue) = shard
                .iter_mut()
                .find(|(_, queue)| queue.iter().any(|waiter| waiter.core == core))?;
            let position = queue.iter().position(|waiter| waiter.core == core)?;
            let waiter = queue.remove(position);
            if queue.is_empty() {
                shard.remove(&at);
            }
            Some(waiter)
        })
    }

    /// Takes all fibers that wait on the word at `at` off its queue.
    pub(crate) fn take(&self, at: Addr) -> Vec<Waiter> {
        self.shard(at).lock().remove(&at).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fiber(fiber: u32) -> Waiter {
        Waiter { core: 0, fiber }
    }

    #[test]
    fn a_wake_takes_all_who_wait_on_that_word_and_nobody_else_once() {
        let wait_queues = WaitQueues::new();
        // The third shares the first one's shard.
        let words = [Addr(0), Addr(8), Addr(8 * SHARDS)];
        for (number, word) in words.into_iter().enumerate() {
            assert!(wait_queues.add(word, fiber(number as u32), || true));
            assert!(wait_queues.add(word, fiber(number as u32 + 10), || true));
        }
        for (number, word) in words.into_iter().enumerate() {
            let number = number as u32;
            assert_eq!(wait_queues.take(word), [fiber(number), fiber(number + 10)]);
            assert_eq!(wait_queues.take(word), []);
        }
    }

    #[test]
    fn one_fiber_of_a_core_is_taken_at_a_time() {
        let queues = WaitQueues::new();
        let other = Waiter { core: 1, fiber: 9 };
        for (at, waiter) in [(0, fiber(1)), (0, other), (800, fiber(2))] {
            assert!(queues.add(Addr(at), waiter, || true));
        }
        let mut taken = [queues.take_one_of(0), queues.take_one_of(0)].map(Option::unwrap);
        taken.sort_by_key(|waiter| waiter.fiber);
        assert_eq!(taken, [fiber(1), fiber(2)]);
        assert_eq!(queues.take_one_of(0), None);
        assert_eq!(queues.take(Addr(0)), [other]);
        assert_eq!(queues.take(Addr(800)), []);
    }

    #[test]
    fn who_no_longer_has_to_wait_is_not_added() {
        let wait_queues = WaitQueues::new();
        assert!(!wait_queues.add(Addr(8), fiber(1), || false));
        assert_eq!(wait_queues.take(Addr(8)), []);
    }
}
