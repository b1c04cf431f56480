//! [`Building`]: a new collection that no key has until it is complete.
//!
//! Its elements come in steps. Trees that no key has are in the list of values without a key, and
//! held. So a crash loses no pages, and other commands see the old value of the key until the new
//! one takes its place.

use ebbtide_core::FullMemory;
use ebbtide_engine::Hold;
use ebbtide_structures::keyspace::{Collection, Field, Full, Key, Kind, StreamState};

use super::elements::Element;
use super::writer::CHANGED_AT_ONCE;
use super::{Call, Outcome, Stop, check_key};
use crate::events::Classes;

/// A new collection for a key.
pub(super) struct Building {
    collection: Collection,
    /// Elements that were not added yet.
    pending: Vec<Element>,
    /// Number of elements that were added.
    added: u64,
    holds: Vec<Hold>,
}

impl Building {
    /// A collection without elements, for `key`.
    pub(super) fn new<M: FullMemory>(call: &Call<'_, M>, key: &Key<'_>, kind: Kind) -> Building {
        let collection = call.keyspace().new_collection(key, kind);
        Building { collection, pending: Vec::new(), added: 0, holds: Vec::new() }
    }

    /// Adds an element that is in no other place of the collection.
    ///
    /// # Errors
    /// Returns an error if there is no room.
    pub(super) fn add<M: FullMemory>(
        &mut self,
        call: &mut Call<'_, M>,
        key: &Key<'_>,
        element: &[u8],
    ) -> Outcome {
        let element = match self.collection.kind {
            Kind::Hash => call.field(&Field::decode(element))?,
            Kind::Stream => call.entry(element)?,
            _ => call.element(element, element.to_vec())?,
        };
        self.pending.push(element);
        match self.pending.len() {
            ..CHANGED_AT_ONCE => Ok(()),
            _ => self.flush(call, key),
        }
    }

    /// Copies the state of a stream to the new one.
    pub(super) fn keep_state(&mut self, of: &Collection) {
        if of.kind == Kind::Stream {
            self.collection.set_stream_state(of.stream_state());
        }
    }

    /// Sets the state of a stream.
    pub(super) fn set_stream_state(&mut self, state: StreamState) {
        self.collection.set_stream_state(state);
    }

    /// Returns the stream as far as it was made.
    pub(super) fn stream(&self) -> &Collection {
        &self.collection
    }

    /// Copies the consumer groups of a stream to the new one.
    ///
    /// # Errors
    /// Returns an error if there is no room.
    pub(super) fn copy_groups<M: FullMemory>(
        &mut self,
        call: &mut Call<'_, M>,
        key: &Key<'_>,
        of: &Collection,
    ) -> Outcome {
        let mut rank = 0;
        loop {
            let records = of.group_records(call.memory, rank, CHANGED_AT_ONCE);
            if records.is_empty() {
                return Ok(());
            }
            rank += records.len() as u64;
            self.change(call, key, |call, collection| {
                let mut records = records.iter();
                records.try_for_each(|record| collection.put_group_record(call.memory, record))
            })?;
        }
    }

    fn flush<M: FullMemory>(&mut self, call: &mut Call<'_, M>, key: &Key<'_>) -> Outcome {
        let (pending, added) = (std::mem::take(&mut self.pending), self.added);
        self.change(call, key, |call, collection| put_all(call, collection, added, &pending))?;
        self.added += pending.len() as u64;
        Ok(())
    }

    /// Makes a change in a step of its own. `change` may run more than once, also on a collection
    /// that it has changed in part.
    ///
    /// # Errors
    /// Returns an error if there is no room.
    pub(super) fn change<M: FullMemory, R>(
        &mut self,
        call: &mut Call<'_, M>,
        key: &Key<'_>,
        mut change: impl FnMut(&mut Call<'_, M>, &mut Collection) -> Result<R, Full>,
    ) -> Result<R, Stop> {
        let before = &self.collection;
        let (collection, mut holds, result) = call.step(&[key.hash], |call| {
            let mut collection = before.clone();
            let changed = change(call, &mut collection);
            let holds = collection.list(call.memory, |id| call.state.shared.holds.hold(id));
            changed.map(|result| (collection, holds, result))
        })?;
        self.collection = collection;
        self.holds.append(&mut holds);
        call.let_others_run();
        Ok(result)
    }

    /// Makes it the value of a key, in place of the old one. Without elements, removes the key,
    /// unless it is a stream.
    /// Returns the number of elements.
    ///
    /// # Errors
    /// Returns an error if there is no room.
    pub(super) fn finish<M: FullMemory>(
        mut self,
        call: &mut Call<'_, M>,
        (database, key): (usize, &Key<'_>),
        expires_at_ms: Option<u64>,
    ) -> Result<u64, Stop> {
        check_key(key)?;
        self.flush(call, key)?;
        let (keyspace, before) = (call.keyspace(), call.before(database, key));
        let existed = call.find_in(database, key, &mut Vec::new()).is_some();
        call.step(&[key.hash], |call| {
            let mut collection = self.collection.clone();
            collection.expires_at_ms = expires_at_ms;
            keyspace.store_collection(call.memory, database, key, &mut collection)
        })?;
        if self.added > 0 || self.collection.kind == Kind::Stream {
            call.changed((database, key), before);
        } else if existed {
            call.state.changed(database, key.bytes);
            call.event((database, key.bytes), Classes::GENERIC, "del");
        }
        Ok(self.added)
    }
}

/// Adds elements from rank `added` on.
fn put_all<M: FullMemory>(
    call: &mut Call<'_, M>,
    collection: &mut Collection,
    added: u64,
    elements: &[Element],
) -> Result<(), Full> {
    for (rank, element) in (added..).zip(elements) {
        // A step that found no room, and runs again, has added some already.
        let is_in_order = matches!(collection.kind, Kind::List | Kind::Stream);
        if !is_in_order || collection.len(call.memory) <= rank {
            element.add(call.memory, collection, rank)?;
        }
    }
    Ok(())
}
