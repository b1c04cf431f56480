//! [`Waiting`]: the queues of clients that wait for an element of a key.
//!
//! A client enters the queues of its keys while it holds their stripes and has found nothing. A
//! change of a key wakes the first client of its queue. That client runs its command again, and
//! then leaves its queues or keeps its place. A client that leaves wakes those behind it, because
//! there may be more elements. A client that only reads has no place among the others: a change
//! wakes all of these. Clients that wait in a consumer group of a stream have a queue for each
//! group, because each group gets every entry.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::client_id::ClientId;

/// A client and its core.
pub type Waiter = (ClientId, usize);

/// Waiters by database and key.
type Queues = BTreeMap<(usize, Vec<u8>), Queue>;

/// The use of the elements that a client waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Use {
    /// It takes them away: in the consumer group of this name, or from all others.
    Takes(Option<Vec<u8>>),
    /// It leaves them where they are.
    Reads,
}

/// The clients that wait for a key.
#[derive(Debug, Default)]
struct Queue {
    /// Clients that take elements away, by consumer group. The first one of each came first.
    takers: BTreeMap<Option<Vec<u8>>, VecDeque<Waiter>>,
    /// Clients that leave them where they are.
    readers: Vec<Waiter>,
}

impl Queue {
    /// The clients that a change wakes.
    fn served(&self) -> impl Iterator<Item = Waiter> {
        let firsts = self.takers.values().filter_map(VecDeque::front);
        firsts.chain(&self.readers).copied()
    }

    fn all(&self) -> impl Iterator<Item = &Waiter> {
        self.takers.values().flatten().chain(&self.readers)
    }

    /// Removes a client. Returns the client that is first in its place.
    fn remove(&mut self, client: ClientId) -> Option<Waiter> {
        let mut first = None;
        self.takers.retain(|_, takers| {
            let before = takers.len();
            takers.retain(|(waiter, _)| *waiter != client);
            if takers.len() < before {
                first = takers.front().copied();
            }
            !takers.is_empty()
        });
        self.readers.retain(|(waiter, _)| *waiter != client);
        first
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
    /// place. The caller holds the stripes of the keys.
    pub fn enter(&self, waiter: Waiter, database: usize, keys: &[Vec<u8>], of: &Use) {
        self.change(|queues| {
            for key in keys {
                let queue = queues.entry((database, key.clone())).or_default();
                let is_there = queue.all().any(|there| *there == waiter);
                match of {
                    _ if is_there => {}
                    Use::Reads => queue.readers.push(waiter),
                    Use::Takes(group) => {
                        queue.takers.entry(group.clone()).or_default().push_back(waiter);
                    }
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
                firsts.extend(queue.remove(client));
                if queue.all().next().is_none() {
                    queues.remove(&place);
                }
            }
            firsts
        })
    }

    /// Returns the clients that a change of a key serves. These are all that only read, and the one
    /// that has waited longest, also in each consumer group.
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

    const TAKES: Use = Use::Takes(None);

    #[test]
    fn clients_are_first_in_the_order_in_which_they_began_to_wait() {
        let waiting = Waiting::default();
        let keys = [b"a".to_vec(), b"b".to_vec()];
        waiting.enter((1, 0), 0, &keys, &TAKES);
        waiting.enter((2, 1), 0, &keys[..1], &TAKES);
        waiting.enter((1, 0), 0, &keys, &TAKES);
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
        waiting.enter((1, 0), 0, &keys, &TAKES);
        waiting.enter((2, 0), 0, &keys, &TAKES);
        waiting.enter((3, 1), 0, &keys, &Use::Reads);
        waiting.enter((4, 0), 0, &keys, &Use::Reads);
        assert_eq!(waiting.served(0, b"a"), [(1, 0), (3, 1), (4, 0)]);
        assert_eq!(waiting.clients(), 4);
        assert_eq!(waiting.leave(3, 0, &keys), [], "it has taken nothing");
        assert_eq!(waiting.leave(1, 0, &keys), [(2, 0)]);
        assert_eq!(waiting.served(0, b"a"), [(2, 0), (4, 0)]);
        assert_eq!(waiting.leave(2, 0, &keys), []);
        assert_eq!(waiting.leave(4, 0, &keys), []);
        assert_eq!(waiting.keys.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_change_serves_the_first_client_of_each_group() {
        let waiting = Waiting::default();
        let keys = [b"a".to_vec()];
        let of = |group: &[u8]| Use::Takes(Some(group.to_vec()));
        waiting.enter((1, 0), 0, &keys, &of(b"one"));
        waiting.enter((2, 0), 0, &keys, &of(b"one"));
        waiting.enter((3, 1), 0, &keys, &of(b"other"));
        assert_eq!(waiting.served(0, b"a"), [(1, 0), (3, 1)]);
        assert_eq!(waiting.clients(), 3);
        assert_eq!(waiting.leave(1, 0, &keys), [(2, 0)]);
        assert_eq!(waiting.leave(3, 0, &keys), []);
        assert_eq!(waiting.served(0, b"a"), [(2, 0)]);
        assert_eq!(waiting.leave(2, 0, &keys), []);
        assert_eq!(waiting.keys.load(Ordering::SeqCst), 0);
    }
}
