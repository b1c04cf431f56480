//! [`Watched`]: the keys that clients of all cores watch for `EXEC`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::client_id::ClientId;

/// A client that watches a key: its number, and what is set when the key changes.
type Watcher = (ClientId, Arc<AtomicBool>);

/// Who watches which key of which database.
type Watchers = BTreeMap<(usize, Vec<u8>), Vec<Watcher>>;

/// The keys that clients watch.
#[derive(Debug, Default)]
pub struct Watched {
    watchers: Mutex<Watchers>,
    /// How many keys they are, so that most changes take no lock.
    keys: AtomicUsize,
}

impl Watched {
    fn change(&self, change: impl FnOnce(&mut Watchers)) {
        let mut watchers = self.watchers.lock();
        change(&mut watchers);
        self.keys.store(watchers.len(), Ordering::SeqCst);
    }

    /// A client wants to know when a key changes.
    pub fn watch(&self, client: ClientId, database: usize, key: &[u8], broken: &Arc<AtomicBool>) {
        self.change(|watchers| {
            watchers.entry((database, key.to_vec())).or_default().push((client, broken.clone()));
        });
    }

    /// A client no longer wants to know.
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

    /// A key changes. Its stripe is held.
    pub fn changed(&self, database: usize, key: &[u8]) {
        if self.keys.load(Ordering::SeqCst) == 0 {
            return;
        }
        if let Some(list) = self.watchers.lock().get(&(database, key.to_vec())) {
            list.iter().for_each(|(_, broken)| broken.store(true, Ordering::SeqCst));
        }
    }

    /// The keys of a database that somebody watches.
    pub fn keys(&self, database: usize) -> BTreeSet<Vec<u8>> {
        let watchers = self.watchers.lock();
        let keys = watchers.keys().filter(|(of, _)| *of == database);
        keys.map(|(_, key)| key.clone()).collect()
    }

    /// All keys of a database change but these.
    pub fn changed_all(&self, database: usize, but: &BTreeSet<Vec<u8>>) {
        let watchers = self.watchers.lock();
        let watched =
            watchers.iter().filter(|((of, key), _)| *of == database && !but.contains(key));
        watched
            .flat_map(|(_, list)| list)
            .for_each(|(_, broken)| broken.store(true, Ordering::SeqCst));
    }
}
