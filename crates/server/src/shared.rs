//! [`Shared`]: what all cores of a server share beside memory. None of it grows with the keys.
//!
//! What commands change again and again is apart for every core, in a [`Core`], and added up when somebody asks.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;
use ebbtide_core::durability::Lsn;
use ebbtide_structures::keyspace::{self, DATABASES, HASHES, Keyspace};
use parking_lot::Mutex;

use crate::channels::{Channels, Message};
use crate::client_id::ClientId;
use crate::holds::Holds;
use crate::log::Journal;
use crate::protocol::Protocol;
use crate::reserved::Reserved;
use crate::slow::SlowOfCores;
use crate::statistics::{Counter, Statistics};
use crate::storage::Storage;
use crate::watched::Watched;

/// Stripes of keys by whose last change an answer waits.
const STRIPES: usize = keyspace::STRIPES as usize;

/// The most bytes of commands that wait for `EXEC`.
pub(crate) const QUEUED_BYTES_MAX: usize = 4 << 20;

/// What the server was set up with, and what it may tell of itself.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Its cores.
    pub cores: usize,
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
    /// Seconds after which a silent client is closed; never if 0.
    pub timeout_s: u64,
    /// Seconds after which the kernel asks a silent client whether it is there; never if 0.
    pub keepalive_s: u64,
}

impl Settings {
    /// The most bytes of commands that wait for `EXEC`.
    pub fn queued_bytes_max(&self) -> usize {
        self.argument_bytes_max.min(QUEUED_BYTES_MAX)
    }
}

/// What others may know of a connection.
#[derive(Debug, Clone, Default)]
pub struct ClientInfo {
    /// The address of the client, and that of the server at which it has called.
    pub addresses: [String; 2],
    /// The number of its socket in the process.
    pub descriptor: i32,
    /// The name that the client gave itself.
    pub name: Vec<u8>,
    /// When it connected.
    pub since_ms: u64,
    /// When its last command began.
    pub last_ms: u64,
    /// Its database.
    pub database: usize,
    /// Channels that it is subscribed to.
    pub channels: usize,
    /// Patterns of channels that it is subscribed to.
    pub patterns: usize,
    /// Commands that wait for `EXEC`, and their bytes.
    pub queued: Option<(usize, usize)>,
    /// The protocol in which it is answered.
    pub protocol: Protocol,
    /// Its last command.
    pub command: &'static str,
    /// Bytes that came and are not done, those that wait to be sent, and those of all its buffers.
    pub buffers: Arc<[Counter; 3]>,
}

impl ClientInfo {
    /// Whether it is subscribed to a channel or a pattern.
    pub fn is_subscribed(&self) -> bool {
        self.channels + self.patterns > 0
    }
}

/// What a core is told by others, or by itself.
#[derive(Debug)]
pub enum Note {
    /// A connection for it.
    Connection {
        /// The number that its listener has on the first core.
        listener: u32,
        /// The socket.
        socket: OwnedFd,
        /// Its number.
        id: ClientId,
        /// There are too many.
        refused: bool,
    },
    /// A message for a client.
    Message(ClientId, Message),
    /// A client wants a connection closed.
    Kill(ClientId),
}

/// What is a core's own, but others may look at.
#[derive(Debug, Default)]
pub struct Core {
    /// What it counts.
    pub statistics: Statistics,
    /// Its connections.
    pub clients: Mutex<BTreeMap<ClientId, ClientInfo>>,
    /// What it was told.
    notes: SegQueue<Note>,
}

/// What all cores share.
pub struct Shared {
    /// When the server started.
    pub started: Instant,
    /// 40 hexadecimal digits that no other run of a server has.
    pub run_id: String,
    /// Commands a second, as of the last second.
    pub commands_a_second: Counter,
    /// When they were last counted, and how many had run then.
    counted: Mutex<(Instant, u64)>,
    /// What it was set up with.
    pub settings: Settings,
    /// What lies under the memory.
    pub storage: Box<dyn Storage>,
    /// The cores.
    pub cores: Box<[CachePadded<Core>]>,
    /// How long commands took.
    pub slow: SlowOfCores,
    /// The keys, once the store is open.
    pub keys: OnceLock<Keyspace>,
    /// Why the store could not be opened, if so.
    pub failure: OnceLock<String>,
    /// Large values that are being written or read.
    pub holds: Arc<Holds>,
    /// Stripes whose keys stay as they are for others to read.
    pub reserved: Reserved,
    /// The keys that clients watch.
    pub watched: Watched,
    /// Who subscribes to what.
    pub channels: Channels,
    /// Why changes can no longer be saved, if so.
    pub unsaved: Mutex<Option<String>>,
    /// What the operator is told.
    pub journal: Journal,
    /// [`Settings::timeout_s`] as of now.
    pub timeout_s: AtomicU64,
    /// [`Settings::keepalive_s`] for the connections to come.
    pub keepalive_s: AtomicU64,
    /// When the last save was complete, in milliseconds since the Unix epoch; the start before that.
    pub saved_ms: AtomicU64,
    /// What the last save waits for; zero if it is complete.
    saving: AtomicU64,
    /// Changes before that save, and before the last one that is complete.
    saving_changes: AtomicU64,
    saved_changes: AtomicU64,
    /// Whether a client has asked the server to stop.
    shutdown: AtomicBool,
    /// The database, above the bits of a hash, and the hash from which to go on joining leaves.
    join_from: AtomicU64,
    /// The last change of a key of each stripe.
    written: [AtomicU64; STRIPES],
}

impl Shared {
    /// The state of a server that starts now.
    pub fn new(
        settings: Settings,
        storage: Box<dyn Storage>,
        journal: Journal,
        now_ms: u64,
    ) -> Shared {
        let cores: Box<[CachePadded<Core>]> =
            (0..settings.cores).map(|_| CachePadded::default()).collect();
        Shared {
            started: Instant::now(),
            run_id: run_id(),
            commands_a_second: Counter::default(),
            counted: Mutex::new((Instant::now(), 0)),
            slow: SlowOfCores::new(settings.cores),
            cores,
            unsaved: Mutex::default(),
            journal,
            timeout_s: AtomicU64::new(settings.timeout_s),
            keepalive_s: AtomicU64::new(settings.keepalive_s),
            settings,
            storage,
            keys: OnceLock::new(),
            failure: OnceLock::new(),
            holds: Arc::default(),
            reserved: Reserved::default(),
            watched: Watched::default(),
            channels: Channels::default(),
            saved_ms: AtomicU64::new(now_ms),
            saving: AtomicU64::new(0),
            saving_changes: AtomicU64::new(0),
            saved_changes: AtomicU64::new(0),
            shutdown: AtomicBool::new(false),
            join_from: AtomicU64::new(0),
            written: [const { AtomicU64::new(0) }; STRIPES],
        }
    }

    /// What all cores have counted.
    pub fn total(&self, of: impl Fn(&Statistics) -> &Counter) -> u64 {
        // Commands that run meanwhile may be counted on one core and not yet on another.
        self.cores.iter().fold(0, |sum, core| sum.wrapping_add(of(&core.statistics).get()))
    }

    /// Counts commands a second anew. Returns how many have run.
    pub fn count_commands(&self) -> u64 {
        let (now, commands) = (Instant::now(), self.total(|core| &core.commands));
        let (since, before) = std::mem::replace(&mut *self.counted.lock(), (now, commands));
        let seconds = now.duration_since(since).as_secs_f64().max(1e-3);
        // CONFIG RESETSTAT begins at zero again.
        self.commands_a_second.set((commands.saturating_sub(before) as f64 / seconds) as u64);
        commands
    }

    /// All connections, by their numbers, with the cores they are on.
    pub fn clients(&self) -> BTreeMap<ClientId, (usize, ClientInfo)> {
        let of = |(core, clients): (usize, &CachePadded<Core>)| {
            let clients = clients.clients.lock().clone();
            clients.into_iter().map(move |(id, client)| (id, (core, client)))
        };
        self.cores.iter().enumerate().flat_map(of).collect()
    }

    /// Tells a core something, and wakes it unless it is the one that does so.
    pub fn tell(&self, core: usize, note: Note, by: usize) {
        self.cores[core].notes.push(note);
        if core != by {
            self.storage.rouse(core);
        }
    }

    /// What a core was told, one at a time.
    pub fn told(&self, core: usize) -> Option<Note> {
        self.cores[core].notes.pop()
    }

    /// Whether a core was told anything.
    pub fn was_told(&self, core: usize) -> bool {
        !self.cores[core].notes.is_empty()
    }

    fn rouse_all(&self) {
        (0..self.cores.len()).for_each(|core| self.storage.rouse(core));
    }

    /// The keys are there.
    pub fn open(&self, keys: Keyspace) {
        // The first core does so once.
        let _ = self.keys.set(keys);
        self.rouse_all();
    }

    /// The store cannot be opened.
    pub fn fail(&self, reason: String) {
        // The first reason counts.
        let _ = self.failure.set(reason);
        self.rouse_all();
    }

    /// A client has asked the server to stop.
    pub fn shut_down(&self) {
        self.shutdown.store(true, Ordering::SeqCst);
        self.rouse_all();
    }

    /// Whether a client has asked the server to stop.
    pub fn is_shut_down(&self) -> bool {
        self.shutdown.load(Ordering::Relaxed)
    }

    /// What the last save waits for, if it is not complete.
    pub fn saving(&self) -> Option<Lsn> {
        Some(Lsn(self.saving.load(Ordering::SeqCst))).filter(|lsn| *lsn != Lsn::ZERO)
    }

    /// A save waits for this.
    pub fn save(&self, lsn: Lsn) {
        let changes = self.total(|core| &core.changes);
        self.saving_changes.store(changes, Ordering::SeqCst);
        self.saving.store(lsn.0, Ordering::SeqCst);
    }

    /// All up to here survives a crash: a save that waits for no more is complete.
    pub fn saved(&self, durable: Lsn, now_ms: u64) {
        if let Some(lsn) = self.saving().filter(|lsn| *lsn <= durable)
            && self.saving.compare_exchange(lsn.0, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        {
            self.saved_ms.store(now_ms, Ordering::SeqCst);
            let changes = self.saving_changes.load(Ordering::SeqCst);
            self.saved_changes.store(changes, Ordering::SeqCst);
        }
    }

    /// Changes since the last save that is complete began, or since the start.
    pub fn changes_since_save(&self) -> u64 {
        let saved = self.saved_changes.load(Ordering::SeqCst);
        self.total(|core| &core.changes).saturating_sub(saved)
    }

    /// Keys of these hashes were changed up to this place in the log; all keys if there are none. Their stripes
    /// are still held, so whoever sees the change finds this.
    pub fn wrote(&self, hashes: &[u64], lsn: Lsn) {
        let raise = |stripe: &AtomicU64| stripe.fetch_max(lsn.0, Ordering::SeqCst);
        match hashes {
            [] => self.written.iter().for_each(|stripe| {
                raise(stripe);
            }),
            hashes => hashes.iter().for_each(|hash| {
                raise(&self.written[*hash as usize % STRIPES]);
            }),
        }
    }

    /// The last change that a reader of keys of these hashes may have seen; of all keys if there are none.
    pub fn last_written(&self, hashes: &[u64]) -> Lsn {
        let all = self.written.iter();
        let last = match hashes {
            [] => all.map(|stripe| stripe.load(Ordering::SeqCst)).max(),
            hashes => hashes
                .iter()
                .map(|hash| self.written[*hash as usize % STRIPES].load(Ordering::SeqCst))
                .max(),
        };
        Lsn(last.unwrap_or(0))
    }

    /// The database and the hash from which to go on joining leaves.
    pub fn join_from(&self) -> (usize, u64) {
        let place = self.join_from.load(Ordering::Relaxed);
        ((place / HASHES) as usize % DATABASES, place % HASHES)
    }

    /// Leaves were joined up to here. Jobs that join at the same time may join the same.
    pub fn joined_to(&self, database: usize, hash: u64) {
        self.join_from.store(database as u64 * HASHES + hash, Ordering::Relaxed);
    }
}

/// 40 random hexadecimal digits.
fn run_id() -> String {
    let random = RandomState::new();
    let words: [u64; 3] = std::array::from_fn(|word| random.hash_one(word));
    let mut digits: String = words.iter().map(|word| format!("{word:016x}")).collect();
    digits.truncate(40);
    digits
}
