//! [`Waiting`]: the queues of clients that wait for an element of a key.
//!
//! A client enters the queues of its keys while it holds their stripes and has found nothing. A
//! change of a key wakes the first client of its queue. That client runs its command again, and
//! then leaves its queues or keeps its place. A client that leaves wakes those behind it, because
//! there may be more elements. A client that only reads has no place among the others: a change
//! wakes all of these.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::client_id::ClientId;

/// A client and its core.
pub type Waiter = (ClientId, usize);

/// Waiters by database and key.
type Queues = BTreeMap<(usize, Vec<u8>), Queue>;

/// The clients that wait for a key.
#[derive(Debug, Default)]
struct Queue {
    /// Clients that take elements away. The first one came first.
    takers: VecDeque<Waiter>,
    /// Clients that leave them where they are.
    readers: Vec<Waiter>,
}

impl Queue {
    /// The clients that a change wakes.
    fn served(&self) -> impl Iterator<Item = Waiter> {
        self.takers.front().into_iter().chain(&self.readers).copied()
    }

    fn all(&self) -> impl Iterator<Item = &Waiter> {
        self.takers.iter().chain(&self.readers)
    }
}

/// The clients that wait for an element of a key.
#[derive(Debug, Default)]
pub struct Waiting {
    queues: Mutex<Queues>,
    /// Number of keys with waiters. While it is 0, changes take no lock.
    keys: AtomicUsize,
}

impl Waiting {
    fn change<R>(&self, change: impl FnOnce(&mut Queues) -> R) -> R {
        let mut queues = self.queues.lock();
        let result = change(&mut queues);
        self.keys.store(queues.len(), Ordering::SeqCst);
        result
    }

    /// Adds a client to the end of the queues of these keys. Where it waits already it keeps its
    /// place. `only_reads` is true if it takes no elements away. The caller holds the stripes of
    /// the keys.
    pub fn enter(&self, waiter: Waiter, database: usize, keys: &[Vec<u8>], only_reads: bool) {
        self.change(|queues| {
            for key in keys {
                let queue = queues.entry((database, key.clone())).or_default();
                let is_there = queue.all().any(|there| *there == waiter);
                match is_there {
                    true => {}
                    false if only_reads => queue.readers.push(waiter),
                    false => queue.takers.push_back(waiter),
                }
            }
        });
    }

    /// Removes a client from the queues of these keys. Returns the clients that are now the first
    /// of those that take elements, unless it only reads.
    pub fn leave(&self, client: ClientId, database: usize, keys: &[Vec<u8>]) -> Vec<Waiter> {
        self.change(|queues| {
            let mut firsts = Vec::new();
            for key in keys {
                let place = (database, key.clone());
                let Some(queue) = queues.get_mut(&place) else { continue };
                let takers = queue.takers.len();
                queue.takers.retain(|(waiter, _)| *waiter != client);
                queue.readers.retain(|(waiter, _)| *waiter != client);
                if queue.takers.len() < takers {
                    firsts.extend(queue.takers.front());
                }
                if queue.all().next().is_none() {
                    queues.remove(&place);
                }
            }
            firsts
        })
    }

    /// Returns the clients that a change of a key serves: the one that has waited longest, and all
    /// that only read.
    pub fn served(&self, database: usize, key: &[u8]) -> Vec<Waiter> {
        if self.keys.load(Ordering::SeqCst) == 0 {
            return Vec::new();
        }
        let queues = self.queues.lock();
        let queue = queues.get(&(database, key.to_vec()));
        queue.map_or(Vec::new(), |queue| queue.served().collect())
    }

    /// Returns the core of a client, if it waits.
    pub fn core_of(&self, client: ClientId) -> Option<usize> {
        let queues = self.queues.lock();
        let found = queues.values().flat_map(Queue::all).find(|(waiter, _)| *waiter == client);
        found.map(|(_, core)| *core)
    }

    /// Number of clients that wait.
    pub fn clients(&self) -> usize {
        let queues = self.queues.lock();
        let clients: BTreeSet<&Waiter> = queues.values().flat_map(Queue::all).collect();
        clients.len()
    }

    /// As [`served`](Waiting::served), for all keys of a database.
    pub fn served_in(&self, database: usize) -> Vec<Waiter> {
        let queues = self.queues.lock();
        let of = queues.iter().filter(|((of, _), _)| *of == database);
        of.flat_map(|(_, queue)| queue.served()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_first_in_the_order_in_which_they_began_to_wait() {
        let waiting = Waiting::default();
        let keys = [b"a".to_vec(), b"b".to_vec()];
        waiting.enter((1, 0), 0, &keys, false);
        waiting.enter((2, 1), 0, &keys[..1], false);
        waiting.enter((1, 0), 0, &keys, false);
        assert_eq!(waiting.served(0, b"a"), [(1, 0)]);
        assert_eq!(waiting.served(1, b"a"), [], "another database");
        assert_eq!(waiting.served_in(0), [(1, 0), (1, 0)]);
        assert_eq!(waiting.clients(), 2);
        assert_eq!((waiting.core_of(2), waiting.core_of(3)), (Some(1), None));
        assert_eq!(waiting.leave(1, 0, &keys), [(2, 1)]);
        assert_eq!(waiting.served(0, b"a"), [(2, 1)]);
        assert_eq!(waiting.served(0, b"b"), []);
        assert_eq!(waiting.leave(2, 0, &keys), []);
        assert_eq!(waiting.keys.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_change_serves_all_that_only_read() {
        let waiting = Waiting::default();
        let keys = [b"a".to_vec()];
        waiting.enter((1, 0), 0, &keys, false);
        waiting.enter((2, 0), 0, &keys, false);
        waiting.enter((3, 1), 0, &keys, true);
        waiting.enter((4, 0), 0, &keys, true);
        assert_eq!(waiting.served(0, b"a"), [(1, 0), (3, 1), (4, 0)]);
        assert_eq!(waiting.clients(), 4);
        assert_eq!(waiting.leave(3, 0, &keys), [], "it has taken nothing");
        assert_eq!(waiting.leave(1, 0, &keys), [(2, 0)]);
        assert_eq!(waiting.served(0, b"a"), [(2, 0), (4, 0)]);
        assert_eq!(waiting.leave(2, 0, &keys), []);
        assert_eq!(waiting.leave(4, 0, &keys), []);
        assert_eq!(waiting.keys.load(Ordering::SeqCst), 0);
    }
}
