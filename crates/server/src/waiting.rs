//! [`Waiting`]: the queues of clients that wait for an element of a key.
//!
//! A client enters the queues of its keys while it holds their stripes and has found nothing. A
//! change of a key wakes the first client of its queue. That client runs its command again, and
//! then leaves its queues or keeps its place. A client that leaves wakes those behind it, because
//! there may be more elements.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::client_id::ClientId;

/// A client and its core.
pub type Waiter = (ClientId, usize);

/// Waiters by database and key.
type Queues = BTreeMap<(usize, Vec<u8>), VecDeque<Waiter>>;

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
    pub fn enter(&self, waiter: Waiter, database: usize, keys: &[Vec<u8>]) {
        self.change(|queues| {
            for key in keys {
                let queue = queues.entry((database, key.clone())).or_default();
                if !queue.contains(&waiter) {
                    queue.push_back(waiter);
                }
            }
        });
    }

    /// Removes a client from the queues of these keys. Returns the clients that are now the first.
    pub fn leave(&self, client: ClientId, database: usize, keys: &[Vec<u8>]) -> Vec<Waiter> {
        self.change(|queues| {
            let mut firsts = Vec::new();
            for key in keys {
                let place = (database, key.clone());
                let Some(queue) = queues.get_mut(&place) else { continue };
                queue.retain(|(waiter, _)| *waiter != client);
                match queue.front() {
                    Some(first) => firsts.push(*first),
                    None => drop(queues.remove(&place)),
                }
            }
            firsts
        })
    }

    /// Returns the client that has waited longest for a key.
    pub fn first(&self, database: usize, key: &[u8]) -> Option<Waiter> {
        if self.keys.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.queues.lock().get(&(database, key.to_vec()))?.front().copied()
    }

    /// Returns the core of a client, if it waits.
    pub fn core_of(&self, client: ClientId) -> Option<usize> {
        let queues = self.queues.lock();
        let found = queues.values().flatten().find(|(waiter, _)| *waiter == client);
        found.map(|(_, core)| *core)
    }

    /// Number of clients that wait.
    pub fn clients(&self) -> usize {
        let queues = self.queues.lock();
        let clients: BTreeSet<&Waiter> = queues.values().flatten().collect();
        clients.len()
    }

    /// Returns the clients that have waited longest for the keys of a database.
    pub fn firsts(&self, database: usize) -> Vec<Waiter> {
        let queues = self.queues.lock();
        let of = queues.iter().filter(|((of, _), _)| *of == database);
        of.filter_map(|(_, queue)| queue.front().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_first_in_the_order_in_which_they_began_to_wait() {
        let waiting = Waiting::default();
        let keys = [b"a".to_vec(), b"b".to_vec()];
        waiting.enter((1, 0), 0, &keys);
        waiting.enter((2, 1), 0, &keys[..1]);
        waiting.enter((1, 0), 0, &keys);
        assert_eq!(waiting.first(0, b"a"), Some((1, 0)));
        assert_eq!(waiting.first(1, b"a"), None, "another database");
        assert_eq!(waiting.firsts(0), [(1, 0), (1, 0)]);
        assert_eq!(waiting.clients(), 2);
        assert_eq!((waiting.core_of(2), waiting.core_of(3)), (Some(1), None));
        assert_eq!(waiting.leave(1, 0, &keys), [(2, 1)]);
        assert_eq!(waiting.first(0, b"a"), Some((2, 1)));
        assert_eq!(waiting.first(0, b"b"), None);
        assert_eq!(waiting.leave(2, 0, &keys), []);
        assert_eq!(waiting.keys.load(Ordering::SeqCst), 0);
    }
}
