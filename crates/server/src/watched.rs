//! [`Watched`]: the keys that clients of all cores watch for `EXEC`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::client_id::ClientId;

/// A client that watches a key, and the flag that is set when the key changes.
type Watcher = (ClientId, Arc<AtomicBool>);

/// Watchers by database and key.
type Watchers = BTreeMap<(usize, Vec<u8>), Vec<Watcher>>;

/// The keys that clients watch.
#[derive(Debug, Default)]
pub struct Watched {
    watchers: Mutex<Watchers>,
    /// Number of watched keys. While it is 0, changes take no lock.
    keys: AtomicUsize,
}

impl Watched {
    fn change(&self, change: impl FnOnce(&mut Watchers)) {
        let mut watchers = self.watchers.lock();
        change(&mut watchers);
        self.keys.store(watchers.len(), Ordering::SeqCst);
    }

    /// Watches a key: `broken` is set when it changes.
    pub fn watch(&self, client: ClientId, database: usize, key: &[u8], broken: &Arc<AtomicBool>) {
        self.change(|watchers| {
            watchers.entry((database, key.to_vec())).or_default().push((client, broken.clone()));
        });
    }

    /// Ends a client's watching of keys.
    pub fn unwatch(&self, client: ClientId, keys: impl IntoIterator<Item = (usize, Vec<u8>)>) {
        let mut keys = keys.into_iter().peekable();
        if keys.peek().is_none() {
            return;
        }
        self.change(|watchers| {
            for key in keys {
                if let Some(list) = watchers.get_mut(&key) {
                    list.retain(|(watcher, _)| *watcher != client);
                    if list.is_empty() {
                        watchers.remove(&key);
                    }
                }
            }
        });
    }

    /// Reports that a key changes. The caller holds its stripe.
    pub fn changed(&self, database: usize, key: &[u8]) {
        if self.keys.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(list) = self.watchers.lock().get(&(database, key.to_vec())) {
            list.iter().for_each(|(_, broken)| broken.store(true, Ordering::SeqCst));
        }
    }

    /// Returns the watched keys of a database.
    pub fn keys(&self, database: usize) -> BTreeSet<Vec<u8>> {
        let watchers = self.watchers.lock();
        let keys = watchers.keys().filter(|(of, _)| *of == database);
        keys.map(|(_, key)| key.clone()).collect()
    }

    /// Reports that all keys of a database change, except these.
    pub fn changed_all(&self, database: usize, but: &BTreeSet<Vec<u8>>) {
        let watchers = self.watchers.lock();
        let watched =
            watchers.iter().filter(|((of, key), _)| *of == database && !but.contains(key));
        watched
            .flat_map(|(_, list)| list)
            .for_each(|(_, broken)| broken.store(true, Ordering::SeqCst));
    }
}
