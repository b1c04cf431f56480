//! [`State`]: what the commands of one core share beside memory. None of it grows with the keys.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ebbtide_core::durability::Lsn;
use ebbtide_structures::keyspace::Keyspace;

use crate::large::Holds;
use crate::session::ClientId;
use crate::slow::Slow;

/// What the server counts.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Commands run.
    pub commands: Cell<u64>,
    /// Connections accepted.
    pub connections: Cell<u64>,
    /// Connections refused because there were too many.
    pub rejected: Cell<u64>,
    /// Look-ups of keys that were there.
    pub hits: Cell<u64>,
    /// Look-ups of keys that were not.
    pub misses: Cell<u64>,
    /// Keys removed because they had expired.
    pub expired: Cell<u64>,
    /// Error replies.
    pub errors: Cell<u64>,
    /// Bytes received.
    pub input_bytes: Cell<u64>,
    /// Bytes sent.
    pub output_bytes: Cell<u64>,
    /// Changes of keys.
    pub changes: Cell<u64>,
    /// Messages published.
    pub messages: Cell<u64>,
    /// Connections open now.
    pub clients: Cell<u64>,
    /// Bytes of the buffers of all connections.
    pub buffers: Cell<u64>,
}

/// What commands may ask of what lies under the memory.
pub trait Storage {
    /// The section of `INFO` on it.
    fn section(&self, statistics: &Statistics) -> String;

    /// Asks for a flush of all changes. Gives the place in the log from which on they survive a crash;
    /// `None` if nothing does.
    fn save(&self) -> Option<Lsn>;

    /// Begins a copy of all that is there to a new file.
    ///
    /// # Errors
    /// When one is under way, or the file is there.
    fn copy(&self, path: &Path) -> Result<(), String>;

    /// How the last copy went.
    fn copied(&self) -> Copied;

    /// Looks at what commands and misses cost, about once a second.
    fn sample(&self, statistics: &Statistics);
}

/// How a copy of the store went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Copied {
    /// There was none.
    Never,
    /// It is under way.
    UnderWay,
    /// It is complete, and here.
    Done(PathBuf),
    /// There is none, for this reason.
    Failed(String),
}

/// Memory with nothing under it that could be told of.
struct NoStorage;

impl Storage for NoStorage {
    fn section(&self, _: &Statistics) -> String {
        String::new()
    }

    fn save(&self) -> Option<Lsn> {
        None
    }

    fn copy(&self, _: &Path) -> Result<(), String> {
        Err("there is no store".into())
    }

    fn copied(&self) -> Copied {
        Copied::Never
    }

    fn sample(&self, _: &Statistics) {}
}

/// Stripes of keys by whose last change an answer waits.
const STRIPES: usize = 256;

/// Adds to a counter.
pub fn add(counter: &Cell<u64>, count: u64) {
    counter.set(counter.get().wrapping_add(count));
}

/// What the server was set up with, and what it may tell of itself.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The password clients must give.
    pub password: Option<Vec<u8>>,
    /// The most connections at once.
    pub clients_max: usize,
    /// The longest argument in bytes.
    pub argument_bytes_max: usize,
    /// The DRAM budget in bytes.
    pub dram_bytes: u64,
    /// The bytes of flash for keys and values.
    pub capacity_bytes: u64,
    /// The port of TCP; 0 without.
    pub port: u16,
    /// The word for how durable changes are.
    pub durability: String,
    /// Where the data are.
    pub data: String,
}

/// A client that watches a key: its number, and what is set when the key changes.
type Watcher = (ClientId, Rc<Cell<bool>>);

/// Who watches which key of which database.
type Watchers = BTreeMap<(usize, Vec<u8>), Vec<Watcher>>;

/// What the commands of one core share.
pub struct State {
    /// The keys, once the store is open.
    pub keys: Cell<Option<Keyspace>>,
    /// Milliseconds since the Unix epoch, as of the command under way.
    pub now_ms: Cell<u64>,
    /// When the server started.
    pub started_ms: u64,
    /// What it counts.
    pub statistics: Statistics,
    /// What it was set up with.
    pub settings: RefCell<Settings>,
    /// What lies under the memory.
    pub storage: RefCell<Box<dyn Storage>>,
    /// How long commands took.
    pub slow: RefCell<Slow>,
    /// When the last save was complete, in milliseconds since the Unix epoch; the start before that.
    pub saved_ms: Cell<u64>,
    /// What the last save waits for, if it is not complete.
    pub saving: Cell<Option<Lsn>>,
    /// Whether a client has asked the server to stop.
    pub shutdown: Cell<bool>,
    /// How often databases were cleared.
    pub clears: Cell<u64>,
    /// The number of random choices so far.
    pub choices: Cell<u64>,
    /// Which clients are named how, for `CLIENT LIST`.
    pub clients: RefCell<BTreeMap<ClientId, ClientInfo>>,
    /// Large values that are being written or read.
    pub holds: Rc<Holds>,
    /// Connections that a client wants closed.
    pub kills: RefCell<Vec<ClientId>>,
    /// The last change of a key of each stripe.
    written: [Cell<Lsn>; STRIPES],
    watchers: RefCell<Watchers>,
    channels: RefCell<BTreeMap<Vec<u8>, Vec<ClientId>>>,
    patterns: RefCell<BTreeMap<Vec<u8>, Vec<ClientId>>>,
    /// Messages on their way to subscribers: channel, pattern and text.
    pub messages: RefCell<Vec<(ClientId, Message)>>,
}

/// What others may know of a connection.
#[derive(Debug, Clone, Default)]
pub struct ClientInfo {
    /// The name that the client gave itself.
    pub name: Vec<u8>,
    /// When it connected.
    pub since_ms: u64,
    /// Its database.
    pub database: usize,
    /// Whether it is subscribed to a channel or a pattern.
    pub subscribed: bool,
    /// Its last command.
    pub command: &'static str,
}

/// A message that was published.
#[derive(Debug, Clone)]
pub struct Message {
    /// The pattern by which the client gets it.
    pub pattern: Option<Rc<[u8]>>,
    /// The channel.
    pub channel: Rc<[u8]>,
    /// The text.
    pub text: Rc<[u8]>,
}

impl State {
    /// The state of a core that starts now.
    pub fn new(settings: Settings, now_ms: u64) -> State {
        State {
            keys: Cell::new(None),
            now_ms: Cell::new(now_ms),
            started_ms: now_ms,
            statistics: Statistics::default(),
            settings: RefCell::new(settings),
            storage: RefCell::new(Box::new(NoStorage)),
            slow: RefCell::default(),
            saved_ms: Cell::new(now_ms),
            saving: Cell::new(None),
            shutdown: Cell::new(false),
            clears: Cell::new(0),
            choices: Cell::new(now_ms),
            clients: RefCell::default(),
            holds: Rc::default(),
            kills: RefCell::default(),
            written: [const { Cell::new(Lsn::ZERO) }; STRIPES],
            watchers: RefCell::default(),
            channels: RefCell::default(),
            patterns: RefCell::default(),
            messages: RefCell::default(),
        }
    }

    /// Keys of these hashes were changed up to this place in the log; all keys if there are none.
    pub fn wrote(&self, hashes: &[u64], lsn: Lsn) {
        let stripe = |hash: &u64| &self.written[*hash as usize % STRIPES];
        match hashes {
            [] => self.written.iter().for_each(|stripe| stripe.set(lsn)),
            hashes => hashes.iter().for_each(|hash| stripe(hash).set(lsn)),
        }
    }

    /// The last change that a reader of keys of these hashes may have seen; of all keys if there are none.
    pub fn last_written(&self, hashes: &[u64]) -> Lsn {
        let all = self.written.iter().map(Cell::get);
        let named = hashes.iter().map(|hash| self.written[*hash as usize % STRIPES].get());
        let last = if hashes.is_empty() { all.max() } else { named.max() };
        last.unwrap_or(Lsn::ZERO)
    }

    /// A random number.
    pub fn random(&self) -> u64 {
        add(&self.choices, 1);
        ebbtide_structures::hash::mix(self.choices.get())
    }

    /// A client wants to know when a key changes.
    pub fn watch(&self, client: ClientId, database: usize, key: &[u8], broken: &Rc<Cell<bool>>) {
        let mut watchers = self.watchers.borrow_mut();
        watchers.entry((database, key.to_vec())).or_default().push((client, broken.clone()));
    }

    /// A client no longer wants to know.
    pub fn unwatch(&self, client: ClientId, keys: impl IntoIterator<Item = (usize, Vec<u8>)>) {
        let mut watchers = self.watchers.borrow_mut();
        for key in keys {
            if let Some(list) = watchers.get_mut(&key) {
                list.retain(|(watcher, _)| *watcher != client);
                if list.is_empty() {
                    watchers.remove(&key);
                }
            }
        }
    }

    /// A key has changed.
    pub fn changed(&self, database: usize, key: &[u8]) {
        add(&self.statistics.changes, 1);
        let watchers = self.watchers.borrow();
        if watchers.is_empty() {
            return;
        }
        if let Some(list) = watchers.get(&(database, key.to_vec())) {
            list.iter().for_each(|(_, broken)| broken.set(true));
        }
    }

    /// The keys of a database that somebody watches.
    pub fn watched(&self, database: usize) -> BTreeSet<Vec<u8>> {
        let watchers = self.watchers.borrow();
        let keys = watchers.keys().filter(|(of, _)| *of == database);
        keys.map(|(_, key)| key.clone()).collect()
    }

    /// All keys of a database have changed but these.
    pub fn changed_all(&self, database: usize, but: &BTreeSet<Vec<u8>>) {
        add(&self.statistics.changes, 1);
        let watchers = self.watchers.borrow();
        let watched =
            watchers.iter().filter(|((of, key), _)| *of == database && !but.contains(key));
        watched.flat_map(|(_, list)| list).for_each(|(_, broken)| broken.set(true));
    }

    /// A client subscribes to a channel or, with `pattern`, to all channels that match.
    pub fn subscribe(&self, client: ClientId, channel: &[u8], pattern: bool) {
        let map = if pattern { &self.patterns } else { &self.channels };
        map.borrow_mut().entry(channel.to_vec()).or_default().push(client);
    }

    /// A client no longer subscribes.
    pub fn unsubscribe(&self, client: ClientId, channel: &[u8], pattern: bool) {
        let mut map = if pattern { &self.patterns } else { &self.channels }.borrow_mut();
        if let Some(list) = map.get_mut(channel) {
            list.retain(|subscriber| *subscriber != client);
            if list.is_empty() {
                map.remove(channel);
            }
        }
    }

    /// Sends a message to all who subscribe to its channel. Gives how many they are.
    pub fn publish(&self, channel: &[u8], text: &[u8]) -> usize {
        add(&self.statistics.messages, 1);
        let (name, text): (Rc<[u8]>, Rc<[u8]>) = (channel.into(), text.into());
        let mut messages = self.messages.borrow_mut();
        let before = messages.len();
        let message = |pattern| Message { pattern, channel: name.clone(), text: text.clone() };
        for client in self.channels.borrow().get(channel).into_iter().flatten() {
            messages.push((*client, message(None)));
        }
        for (pattern, clients) in self.patterns.borrow().iter() {
            if crate::glob::matches(pattern, channel) {
                let pattern: Rc<[u8]> = pattern.as_slice().into();
                messages.extend(clients.iter().map(|c| (*c, message(Some(pattern.clone())))));
            }
        }
        messages.len() - before
    }

    /// The channels that somebody subscribes to, and by how many.
    pub fn channels(&self) -> Vec<(Vec<u8>, usize)> {
        let channels = self.channels.borrow();
        channels.iter().map(|(name, clients)| (name.clone(), clients.len())).collect()
    }

    /// Patterns that somebody subscribes to.
    pub fn pattern_count(&self) -> usize {
        self.patterns.borrow().len()
    }
}
