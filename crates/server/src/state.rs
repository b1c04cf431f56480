//! [`State`]: what the commands of one core can reach, apart from memory.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ebbtide_core::durability::{Aborted, Lsn, TransactionError};
use ebbtide_core::{FullMemory, GaveUp};
use ebbtide_structures::keyspace::Keyspace;
use parking_lot::MutexGuard;

use crate::channels::{Message, Subscriber, Topic};
use crate::client_id::ClientId;
use crate::events::{Classes, Event};
use crate::eviction::Order;
use crate::failure::Failure;
use crate::log::Journal;
use crate::patience::{BUSY, limit_patience};
use crate::script::Pool;
use crate::shared::{ClientInfo, Note, Settings, Shared};
use crate::slow::Slow;
use crate::sparse;
use crate::statistics::Statistics;
use crate::waiting::Waiter;

/// State that the commands of one core can reach.
pub struct State {
    /// State that all cores share.
    pub shared: Arc<Shared>,
    /// The number of the core.
    pub core: usize,
    /// Milliseconds since the Unix epoch when the current command began.
    pub now_ms: Cell<u64>,
    /// A reusable buffer for the current command's value. Empty and unallocated while a command
    /// uses it.
    pub spare: Cell<Vec<u8>>,
    /// DRAM bytes of lists of keys that running commands have written.
    pub listed_bytes: Cell<usize>,
    /// Interpreters of scripts.
    pub(crate) scripts: Pool,
    /// Counter that seeds random choices.
    choices: Cell<u64>,
}

impl State {
    /// Returns the state of a core that starts now.
    pub fn new(shared: Arc<Shared>, core: usize, now_ms: u64) -> State {
        let choices = Cell::new(now_ms ^ (core as u64) << 48);
        let (now_ms, listed_bytes) = (Cell::new(now_ms), Cell::default());
        let scripts = Pool::new(shared.settings.argument_bytes_max, core);
        State { shared, core, now_ms, spare: Cell::default(), listed_bytes, scripts, choices }
    }

    /// The keys, once the store is open.
    pub fn keys(&self) -> Option<Keyspace> {
        self.shared.keys.get().copied()
    }

    /// Settings of the server.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// Events for the operator.
    pub fn journal(&self) -> &Journal {
        &self.shared.journal
    }

    /// Counters of this core.
    pub fn statistics(&self) -> &Statistics {
        &self.shared.cores[self.core].statistics
    }

    /// Times of commands on this core.
    pub fn slow(&self) -> MutexGuard<'_, Slow> {
        self.shared.slow.of(self.core)
    }

    /// Changes the public facts about a connection of this core.
    pub fn tell_of(&self, client: ClientId, change: impl FnOnce(&mut ClientInfo)) {
        if let Some(client) = self.shared.cores[self.core].clients.lock().get_mut(&client) {
            change(client);
        }
    }

    /// Returns a random number.
    pub fn random(&self) -> u64 {
        self.choices.set(self.choices.get().wrapping_add(1));
        ebbtide_structures::hash::mix(self.choices.get())
    }

    /// Runs `body` as one transaction that changes keys of these hashes only. An empty list means
    /// all keys. Other commands see all of its changes or none. A reader of the changes finds in
    /// [`Shared::last_written`] how far the log must be durable.
    ///
    /// # Errors
    /// As [`Memory::transaction`](ebbtide_core::Memory::transaction).
    pub fn exclusive<M: FullMemory, R>(
        &self,
        memory: &mut M,
        keyspace: &Keyspace,
        hashes: &[u64],
        body: impl FnMut(&mut M) -> R,
    ) -> Result<(R, Lsn), TransactionError> {
        self.alone(memory, keyspace, hashes, |memory| memory.transaction(body))
    }

    /// As [`exclusive`](State::exclusive), of a `body` that may give up. If it does, nothing
    /// changes, unless the memory has no log.
    ///
    /// # Errors
    /// As [`Memory::try_transaction`](ebbtide_core::Memory::try_transaction).
    pub fn exclusive_unless<M: FullMemory, R, E>(
        &self,
        memory: &mut M,
        keyspace: &Keyspace,
        hashes: &[u64],
        body: impl FnMut(&mut M) -> Result<R, E>,
    ) -> Result<(R, Lsn), Aborted<E>> {
        self.alone(memory, keyspace, hashes, |memory| memory.try_transaction(body))
    }

    /// Runs `transaction` while no other command changes the keys of `hashes`.
    fn alone<M: FullMemory, R, E>(
        &self,
        memory: &mut M,
        keyspace: &Keyspace,
        hashes: &[u64],
        transaction: impl FnOnce(&mut M) -> Result<(R, Lsn), E>,
    ) -> Result<(R, Lsn), E> {
        let ran = self.shared.reserved.of(keyspace, hashes).alone(memory, |memory| {
            let ran = transaction(memory);
            if let Ok((_, lsn)) = &ran {
                self.shared.wrote(hashes, *lsn);
            }
            ran
        })?;
        self.join_sparse(memory, keyspace, hashes);
        Ok(ran)
    }

    /// Joins leaves after a change, unless a slow script may hold them.
    fn join_sparse<M: FullMemory>(&self, memory: &mut M, keyspace: &Keyspace, hashes: &[u64]) {
        // The change has taken effect, so the command does not give up any more.
        limit_patience(memory, false);
        if !self.shared.slow_scripts.is_busy() {
            hashes.iter().for_each(|hash| sparse::join_sparse(memory, keyspace, *hash));
        }
    }

    /// Runs `body`, which must change nothing outside of one transaction. Where it waits for
    /// others, it gives up while a script runs longer than the limit.
    ///
    /// # Errors
    /// Returns `BUSY` if it has given up. Nothing has changed then.
    pub fn unless_busy<M: FullMemory, R>(
        &self,
        memory: &mut M,
        body: impl FnOnce(&mut M) -> R,
    ) -> Result<R, Failure> {
        limit_patience(memory, true);
        let ran = catch_unwind(AssertUnwindSafe(|| body(memory)));
        limit_patience(memory, false);
        ran.map_err(|payload| match payload.is::<GaveUp>() {
            true => BUSY.into(),
            false => resume_unwind(payload),
        })
    }

    /// Watches a key: `broken` is set when it changes.
    pub fn watch(&self, client: ClientId, database: usize, key: &[u8], broken: &Arc<AtomicBool>) {
        self.shared.watched.watch(client, database, key, broken);
    }

    /// Ends the watching of keys.
    pub fn unwatch(&self, client: ClientId, keys: impl IntoIterator<Item = (usize, Vec<u8>)>) {
        self.shared.watched.unwatch(client, keys);
    }

    /// Reports that a client changes a key. The caller holds its stripe.
    pub fn changed(&self, database: usize, key: &[u8]) {
        if let (Some(_), Some(keys)) = (self.shared.eviction.uses(), self.keys()) {
            self.used(database, keys.key(key).hash);
        }
        self.removed(database, key);
    }

    /// Reports that a key is used, for the policy of eviction.
    pub fn used(&self, database: usize, hash: u64) {
        let Some((uses, order)) = self.shared.eviction.uses() else { return };
        let place = uses.place(database, hash);
        match order {
            Order::Frequency => uses.count(place, self.random()),
            _ => uses.use_now(place, self.now_ms.get()),
        }
    }

    /// Reports that the server removes a key. The caller holds its stripe.
    pub fn removed(&self, database: usize, key: &[u8]) {
        self.statistics().changes.add(1);
        self.shared.watched.changed(database, key);
        self.serve(database, key);
    }

    /// Makes the clients that wait for a key look again.
    pub fn serve(&self, database: usize, key: &[u8]) {
        self.shared.waiting.served(database, key).into_iter().for_each(|waiter| self.wake(waiter));
    }

    /// Makes a client that waits for an element of a key look again.
    pub fn wake(&self, (client, core): Waiter) {
        self.shared.tell(core, Note::Wake(client), self.core);
    }

    /// Reports that all keys of a database change, except these.
    pub fn changed_all(&self, database: usize, but: &BTreeSet<Vec<u8>>) {
        self.statistics().changes.add(1);
        self.shared.watched.changed_all(database, but);
        self.shared.waiting.served_in(database).into_iter().for_each(|waiter| self.wake(waiter));
    }

    /// The classes of events that are published.
    pub fn events(&self) -> Classes {
        Classes::of_bits(self.shared.events.load(Ordering::Relaxed))
    }

    /// Publishes events that have taken effect. Their classes are wanted.
    pub fn publish(&self, events: impl IntoIterator<Item = Event>) {
        let wanted = self.events();
        let send = |channel: &[u8], text: &[u8]| {
            let to = (channel, Topic::Channel);
            self.shared.channels.publish(to, text, |to, message| self.send(to, message));
        };
        for Event { name, database, key } in events {
            if wanted.has(Classes::KEYSPACE) {
                let channel = [format!("__keyspace@{database}__:").as_bytes(), &key].concat();
                send(&channel, name.as_bytes());
            }
            if wanted.has(Classes::KEYEVENT) {
                send(format!("__keyevent@{database}__:{name}").as_bytes(), &key);
            }
        }
    }

    /// Publishes an event of several keys of a database, if its class is wanted.
    pub fn publish_all<'a>(
        &self,
        class: Classes,
        name: &'static str,
        database: usize,
        keys: impl IntoIterator<Item = &'a Vec<u8>>,
    ) {
        if self.events().has(class) {
            let keys = keys.into_iter();
            self.publish(keys.map(|key| Event { name, database, key: key.clone() }));
        }
    }

    /// Sends a message to a subscriber.
    pub fn send(&self, (client, core): Subscriber, message: Message) {
        self.shared.tell(core, Note::Message(client, message), self.core);
    }
}
