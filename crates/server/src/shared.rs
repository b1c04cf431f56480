//! [`Shared`]: state of the server that all cores share. It does not grow with the keys.
//!
//! Each core has a [`Core`] for values that commands change often. Readers add them up.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crossbeam_queue::SegQueue;
use crossbeam_utils::CachePadded;
use ebbtide_core::durability::Lsn;
use ebbtide_engine::Holds;
use ebbtide_structures::keyspace::{self, DATABASES, HASHES, Keyspace};
use parking_lot::Mutex;

use crate::acl::{Account, Acl};
use crate::channels::{Channels, Message};
use crate::client_id::ClientId;
use crate::cluster::Cluster;
use crate::events::Classes;
use crate::eviction::{Eviction, EvictionPolicy};
use crate::following::Following;
use crate::log::Journal;
use crate::pause::Pause;
use crate::protocol::Protocol;
use crate::reserved::Reserved;
use crate::script::{SlowScripts, Sources};
use crate::slow::SlowOfCores;
use crate::statistics::{Counter, Statistics};
use crate::storage::Storage;
use crate::waiting::Waiting;
use crate::watched::Watched;

/// Stripes of keys. A reply waits for the last change of its keys' stripes.
const STRIPES: usize = keyspace::STRIPES as usize;

/// Maximum bytes of commands queued for `EXEC`.
pub(crate) const QUEUED_BYTES_MAX: usize = 4 << 20;

/// Settings of the server.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Number of cores.
    pub cores: usize,
    /// The file of the users.
    pub acl_file: Option<PathBuf>,
    /// The most connections at once.
    pub clients_max: usize,
    /// The longest argument in bytes.
    pub argument_bytes_max: usize,
    /// The DRAM budget in bytes.
    pub dram_bytes: u64,
    /// The bytes of flash for keys and values.
    pub capacity_bytes: u64,
    /// The policy of eviction at the start.
    pub policy: EvictionPolicy,
    /// DRAM bytes for the uses of keys.
    pub uses_bytes: u64,
    /// The TCP port; 0 if there is none.
    pub port: u16,
    /// The durability policy as text.
    pub durability: String,
    /// Path of the store.
    pub data: String,
    /// Seconds after which a silent client is closed; 0 for never.
    pub timeout_s: u64,
    /// Seconds after which the kernel probes a silent client; 0 for never.
    pub keepalive_s: u64,
    /// The classes of events that are published at the start.
    pub events: Classes,
    /// True if the TCP port speaks TLS.
    pub has_tls: bool,
    /// The cluster that the server is a node of.
    pub cluster: Option<Arc<Cluster>>,
}

impl Settings {
    /// Maximum bytes of commands queued for `EXEC`.
    pub fn queued_bytes_max(&self) -> usize {
        self.argument_bytes_max.min(QUEUED_BYTES_MAX)
    }

    /// Maximum bytes of what one `EXEC` or script announces: messages and events, and lines for
    /// clients that monitor.
    pub fn announced_bytes_max(&self) -> usize {
        self.argument_bytes_max / 2
    }

    /// Maximum bytes of the texts of scripts.
    pub fn scripts_bytes_max(&self) -> usize {
        self.argument_bytes_max / 2
    }
}

/// Facts about a connection that `CLIENT LIST` shows.
#[derive(Debug, Clone, Default)]
pub struct ClientInfo {
    /// Address of the client, and the server's address that it connected to.
    pub addresses: [String; 2],
    /// File descriptor of its socket.
    pub descriptor: i32,
    /// The client's name for itself.
    pub name: Vec<u8>,
    /// Its user; `None` before it has logged in.
    pub user: Option<Arc<Account>>,
    /// When it connected, in milliseconds since the Unix epoch.
    pub since_ms: u64,
    /// When its last command began, in milliseconds since the Unix epoch.
    pub last_ms: u64,
    /// Its database.
    pub database: usize,
    /// Number of subscribed channels.
    pub channels: usize,
    /// Number of subscribed patterns.
    pub patterns: usize,
    /// Number of subscribed channels of one slot.
    pub shard_channels: usize,
    /// True if it monitors all commands.
    pub monitors: bool,
    /// Number and bytes of commands queued for `EXEC`.
    pub queued: Option<(usize, usize)>,
    /// Protocol of its replies.
    pub protocol: Protocol,
    /// Name of its last command.
    pub command: &'static str,
    /// Bytes received and not run, bytes that wait to be sent, and bytes of all its buffers.
    pub buffers: Arc<[Counter; 3]>,
}

impl ClientInfo {
    /// True if it has a subscription.
    pub fn is_subscribed(&self) -> bool {
        self.channels + self.patterns + self.shard_channels > 0
    }
}

/// A note to a core.
#[derive(Debug)]
pub enum Note {
    /// A new connection.
    Connection {
        /// Number of its listener on the first core.
        listener: u32,
        /// The socket.
        socket: OwnedFd,
        /// Number of the connection.
        id: ClientId,
        /// True if there are too many connections.
        refused: bool,
    },
    /// A socket of the follower, whose commands may change keys.
    Follower(OwnedFd),
    /// A message for a client.
    Message(ClientId, Message),
    /// A client that waits for an element of a key must look again.
    Wake(ClientId),
    /// Ends the waiting of a client for an element, as if its time were over or with an error.
    Unblock {
        /// The client.
        id: ClientId,
        /// True for an error.
        fails: bool,
    },
    /// The user of a client has lost channels.
    Channels(ClientId),
    /// Closes a connection, as a client asked.
    Kill(ClientId),
}

/// State of one core that other cores may read.
#[derive(Debug, Default)]
pub struct Core {
    /// Counters.
    pub statistics: Statistics,
    /// Its connections.
    pub clients: Mutex<BTreeMap<ClientId, ClientInfo>>,
    /// Notes to the core.
    notes: SegQueue<Note>,
}

/// State that all cores share.
pub struct Shared {
    /// When the server started.
    pub started: Instant,
    /// 40 hexadecimal digits that are unique to this run of the server.
    pub run_id: String,
    /// Commands in the last second.
    pub commands_a_second: Counter,
    /// When commands were last counted, and how many had run.
    counted: Mutex<(Instant, u64)>,
    /// Settings at the start.
    pub settings: Settings,
    /// Users with their rules.
    pub acl: Acl,
    /// Held while the file of the users is written.
    pub saving_users: Mutex<()>,
    /// Storage under the memory.
    pub storage: Storage,
    /// The cores.
    pub cores: Box<[CachePadded<Core>]>,
    /// Times of commands.
    pub slow: SlowOfCores,
    /// The keys, once the store is open.
    pub keys: OnceLock<Keyspace>,
    /// Reason why the store could not be opened.
    pub failure: OnceLock<String>,
    /// Large values that a connection reads or writes.
    pub holds: Arc<Holds>,
    /// Which keys a full store gives up.
    pub eviction: Eviction,
    /// Stripes whose keys do not change while a long command uses them.
    pub reserved: Reserved,
    /// The keys that clients watch.
    pub watched: Watched,
    /// The clients that wait for an element of a key.
    pub waiting: Waiting,
    /// The time in which commands of clients wait.
    pub pause: Pause,
    /// Bits of the [classes](crate::events::Classes) of events that are published.
    pub events: AtomicU32,
    /// Subscriptions.
    pub channels: Channels,
    /// The scripts that clients have sent.
    pub(crate) sources: Sources,
    /// The scripts that have run longer than the limit.
    pub(crate) slow_scripts: SlowScripts,
    /// The Redis that the server follows.
    pub following: Following,
    /// Reason why changes can no longer be saved.
    pub unsaved: Mutex<Option<String>>,
    /// Events for the operator.
    pub journal: Journal,
    /// Current value of [`Settings::timeout_s`].
    pub timeout_s: AtomicU64,
    /// [`Settings::keepalive_s`] for new connections.
    pub keepalive_s: AtomicU64,
    /// When the last save was complete, in milliseconds since the Unix epoch. Before the first
    /// save, the start.
    pub saved_ms: AtomicU64,
    /// Place in the log that the last save waits for; 0 if it is complete.
    saving: AtomicU64,
    /// Changes before that save, and before the last complete save.
    saving_changes: AtomicU64,
    saved_changes: AtomicU64,
    /// True if a client has sent `SHUTDOWN`.
    shutdown: AtomicBool,
    /// Where joining of leaves continues: the database in the bits above the hash, and the hash.
    join_from: AtomicU64,
    /// For each stripe, the place in the log of its last change.
    written: [AtomicU64; STRIPES],
}

impl Shared {
    /// Returns the state of a server that starts now.
    pub fn new(
        settings: Settings,
        acl: Acl,
        storage: Storage,
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
            following: Following::default(),
            unsaved: Mutex::default(),
            journal,
            timeout_s: AtomicU64::new(settings.timeout_s),
            keepalive_s: AtomicU64::new(settings.keepalive_s),
            eviction: Eviction::new(settings.policy, settings.uses_bytes, now_ms),
            acl,
            saving_users: Mutex::default(),
            storage,
            keys: OnceLock::new(),
            failure: OnceLock::new(),
            holds: Arc::default(),
            reserved: Reserved::default(),
            watched: Watched::default(),
            waiting: Waiting::default(),
            pause: Pause::default(),
            events: AtomicU32::new(settings.events.bits()),
            channels: Channels::default(),
            sources: Sources::default(),
            slow_scripts: SlowScripts::default(),
            saved_ms: AtomicU64::new(now_ms),
            saving: AtomicU64::new(0),
            saving_changes: AtomicU64::new(0),
            saved_changes: AtomicU64::new(0),
            shutdown: AtomicBool::new(false),
            join_from: AtomicU64::new(0),
            written: [const { AtomicU64::new(0) }; STRIPES],
            settings,
        }
    }

    /// Sums a counter over all cores.
    pub fn total(&self, of: impl Fn(&Statistics) -> &Counter) -> u64 {
        // A core that counts during the sum may be missed.
        self.cores.iter().fold(0, |sum, core| sum.wrapping_add(of(&core.statistics).get()))
    }

    /// Updates the commands per second. Returns the commands run so far.
    pub fn count_commands(&self) -> u64 {
        let (now, commands) = (Instant::now(), self.total(|core| &core.commands));
        let (since, before) = std::mem::replace(&mut *self.counted.lock(), (now, commands));
        let seconds = now.duration_since(since).as_secs_f64().max(1e-3);
        // CONFIG RESETSTAT resets the counter.
        self.commands_a_second.set((commands.saturating_sub(before) as f64 / seconds) as u64);
        commands
    }

    /// Returns all connections by number, with their cores.
    pub fn clients(&self) -> BTreeMap<ClientId, (usize, ClientInfo)> {
        let of = |(core, clients): (usize, &CachePadded<Core>)| {
            let clients = clients.clients.lock().clone();
            clients.into_iter().map(move |(id, client)| (id, (core, client)))
        };
        self.cores.iter().enumerate().flat_map(of).collect()
    }

    /// Sends core `core` a note. Wakes it unless it is the sender, core `by`.
    pub fn tell(&self, core: usize, note: Note, by: usize) {
        self.cores[core].notes.push(note);
        if core != by {
            self.storage.rouse(core);
        }
    }

    /// Takes the next note to a core.
    pub fn told(&self, core: usize) -> Option<Note> {
        self.cores[core].notes.pop()
    }

    /// True if a core has notes.
    pub fn was_told(&self, core: usize) -> bool {
        !self.cores[core].notes.is_empty()
    }

    fn rouse_all(&self) {
        (0..self.cores.len()).for_each(|core| self.storage.rouse(core));
    }

    /// Publishes the keyspace, once the store is open.
    pub fn open(&self, keys: Keyspace) {
        // Only the first core sets it, once.
        let _ = self.keys.set(keys);
        self.rouse_all();
    }

    /// Records that the store cannot be opened.
    pub fn fail(&self, reason: String) {
        // The first reason stays.
        let _ = self.failure.set(reason);
        self.rouse_all();
    }

    /// Records that a client has sent `SHUTDOWN`.
    pub fn shut_down(&self) {
        self.shutdown.store(true, Ordering::SeqCst);
        self.rouse_all();
    }

    /// True if a client has sent `SHUTDOWN`.
    pub fn is_shut_down(&self) -> bool {
        self.shutdown.load(Ordering::Relaxed)
    }

    /// Returns the place in the log that an incomplete save waits for.
    pub fn saving(&self) -> Option<Lsn> {
        Some(Lsn(self.saving.load(Ordering::SeqCst))).filter(|lsn| *lsn != Lsn::ZERO)
    }

    /// Begins a save that is complete once `lsn` is durable.
    pub fn save(&self, lsn: Lsn) {
        let changes = self.total(|core| &core.changes);
        self.saving_changes.store(changes, Ordering::SeqCst);
        self.saving.store(lsn.0, Ordering::SeqCst);
    }

    /// Completes the save if `durable` has reached its place in the log.
    pub fn saved(&self, durable: Lsn, now_ms: u64) {
        if let Some(lsn) = self.saving().filter(|lsn| *lsn <= durable)
            && self.saving.compare_exchange(lsn.0, 0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        {
            self.saved_ms.store(now_ms, Ordering::SeqCst);
            let changes = self.saving_changes.load(Ordering::SeqCst);
            self.saved_changes.store(changes, Ordering::SeqCst);
        }
    }

    /// Changes since the last complete save began, or since the start.
    pub fn changes_since_save(&self) -> u64 {
        let saved = self.saved_changes.load(Ordering::SeqCst);
        self.total(|core| &core.changes).saturating_sub(saved)
    }

    /// Records a change of keys of these hashes at place `lsn` of the log. An empty list means all
    /// keys. The caller still holds the stripes, so a reader of the change finds this record.
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

    /// Returns the place in the log of the last change of these hashes' stripes. An empty list
    /// means all keys.
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

    /// Returns the database and the hash where joining of leaves continues.
    pub fn join_from(&self) -> (usize, u64) {
        let place = self.join_from.load(Ordering::Relaxed);
        ((place / HASHES) as usize % DATABASES, place % HASHES)
    }

    /// Records that leaves were joined up to here. Concurrent jobs may examine the same leaves.
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
