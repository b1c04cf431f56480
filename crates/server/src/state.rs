//! [`State`]: what the commands of one core see beside memory.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ebbtide_core::Memory;
use ebbtide_core::durability::{Lsn, TransactionError};
use ebbtide_structures::keyspace::Keyspace;
use parking_lot::MutexGuard;

use crate::channels::{Message, Subscriber};
use crate::client_id::ClientId;
use crate::log::Journal;
use crate::shared::{ClientInfo, Note, Settings, Shared};
use crate::slow::Slow;
use crate::sparse;
use crate::statistics::Statistics;

/// What the commands of one core see.
pub struct State {
    /// What all cores share.
    pub shared: Arc<Shared>,
    /// The number of the core.
    pub core: usize,
    /// Milliseconds since the Unix epoch, as of the command under way.
    pub now_ms: Cell<u64>,
    /// An empty buffer for the value of the command under way; one without room while another command has it.
    pub spare: Cell<Vec<u8>>,
    /// Bytes of DRAM that lists of keys take which commands under way have written.
    pub listed_bytes: Cell<usize>,
    /// The number of random choices so far.
    choices: Cell<u64>,
}

impl State {
    /// The state of a core that starts now.
    pub fn new(shared: Arc<Shared>, core: usize, now_ms: u64) -> State {
        let choices = Cell::new(now_ms ^ (core as u64) << 48);
        let (now_ms, listed_bytes) = (Cell::new(now_ms), Cell::default());
        State { shared, core, now_ms, spare: Cell::default(), listed_bytes, choices }
    }

    /// The keys, once the store is open.
    pub fn keys(&self) -> Option<Keyspace> {
        self.shared.keys.get().copied()
    }

    /// What the server was set up with.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// What the operator is told.
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// What this core counts.
    pub fn statistics(&self) -> &Statistics {
        &self.shared.cores[self.core].statistics
    }

    /// How long commands took on this core.
    pub fn slow(&self) -> MutexGuard<'_, Slow> {
        self.shared.slow.of(self.core)
    }

    /// Changes what others may know of a connection of this core.
    pub fn tell_of(&self, client: ClientId, change: impl FnOnce(&mut ClientInfo)) {
        if let Some(client) = self.shared.cores[self.core].clients.lock().get_mut(&client) {
            change(client);
        }
    }

    /// A random number.
    pub fn random(&self) -> u64 {
        self.choices.set(self.choices.get().wrapping_add(1));
        ebbtide_structures::hash::mix(self.choices.get())
    }

    /// Runs `body`, which changes keys of these hashes and of no others, as one transaction that nobody sees
    /// half done; all keys if there are none. Whoever sees what it has changed finds in
    /// [`Shared::last_written`] how far the log must be.
    ///
    /// # Errors
    /// As [`Memory::transaction`].
    pub fn exclusive<M: Memory, R>(
        &self,
        memory: &mut M,
        keyspace: &Keyspace,
        hashes: &[u64],
        body: impl FnMut(&mut M) -> R,
    ) -> Result<(R, Lsn), TransactionError> {
        let ran = self.shared.reserved.of(keyspace, hashes).alone(memory, |memory| {
            let ran = memory.transaction(body);
            if let Ok((_, lsn)) = &ran {
                self.shared.wrote(hashes, *lsn);
            }
            ran
        })?;
        hashes.iter().for_each(|hash| sparse::join_sparse(memory, keyspace, *hash));
        Ok(ran)
    }

    /// A client wants to know when a key changes.
    pub fn watch(&self, client: ClientId, database: usize, key: &[u8], broken: &Arc<AtomicBool>) {
        self.shared.watched.watch(client, database, key, broken);
    }

    /// A client no longer wants to know.
    pub fn unwatch(&self, client: ClientId, keys: impl IntoIterator<Item = (usize, Vec<u8>)>) {
        self.shared.watched.unwatch(client, keys);
    }

    /// A key changes. Its stripe is held.
    pub fn changed(&self, database: usize, key: &[u8]) {
        self.statistics().changes.add(1);
        self.shared.watched.changed(database, key);
    }

    /// All keys of a database change but these.
    pub fn changed_all(&self, database: usize, but: &BTreeSet<Vec<u8>>) {
        self.statistics().changes.add(1);
        self.shared.watched.changed_all(database, but);
    }

    /// Sends a message to a client that subscribes.
    pub fn send(&self, (client, core): Subscriber, message: Message) {
        self.shared.tell(core, Note::Message(client, message), self.core);
    }
}
