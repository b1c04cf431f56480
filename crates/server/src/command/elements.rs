//! Elements on their way into a collection. Long ones lie in values without a key, and never take
//! one transaction.

use ebbtide_core::FullMemory;
use ebbtide_engine::Hold;
use ebbtide_structures::keyspace::{
    Collection, ELEMENT_BYTES_MAX, EntryId, Field, Full, Kind, Large,
};

use super::writer::TOO_LARGE;
use super::{Call, Stop};
use crate::large::{PIECE_BYTES, begin, write};

/// An element, or a value of a list.
pub(super) enum Element {
    /// In DRAM.
    Bytes(Vec<u8>),
    /// In a value without a key. A field of a hash has its name here, too, and its expiry.
    Large { name: Vec<u8>, expires_at_ms: Option<u64>, value: Large, _hold: Hold },
}

impl Element {
    /// Puts it in a hash or a set. Returns true if its name is new.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub(super) fn put<M: FullMemory>(
        &self,
        memory: &mut M,
        collection: &mut Collection,
    ) -> Result<bool, Full> {
        match self {
            Element::Bytes(bytes) => collection.put(memory, bytes),
            Element::Large { name, expires_at_ms, value, .. } => {
                collection.put_large(memory, (name, *expires_at_ms), value)
            }
        }
    }

    /// Inserts it in a list before the value at `rank`.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub(super) fn insert<M: FullMemory>(
        &self,
        memory: &mut M,
        list: &mut Collection,
        rank: u64,
    ) -> Result<(), Full> {
        match self {
            Element::Bytes(bytes) => list.insert_at(memory, rank, bytes),
            Element::Large { value, .. } => list.insert_large_at(memory, rank, value),
        }
    }

    /// Replaces the value of a list at `rank`.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub(super) fn replace<M: FullMemory>(
        &self,
        memory: &mut M,
        list: &mut Collection,
        rank: u64,
    ) -> Result<(), Full> {
        match self {
            Element::Bytes(bytes) => list.replace_at(memory, rank, bytes),
            Element::Large { value, .. } => list.replace_large_at(memory, rank, value),
        }
    }

    /// Adds it to a collection, at `rank` if that is a list.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub(super) fn add<M: FullMemory>(
        &self,
        memory: &mut M,
        collection: &mut Collection,
        rank: u64,
    ) -> Result<(), Full> {
        match (collection.kind, self) {
            (Kind::List, _) => self.insert(memory, collection, rank),
            (_, Element::Bytes(bytes)) => collection.add(memory, rank, bytes),
            (_, Element::Large { .. }) => self.put(memory, collection).map(drop),
        }
    }
}

impl<M: FullMemory> Call<'_, M> {
    /// Returns an element of this name that can be put. A long one is written to flash, in
    /// transactions of its own.
    ///
    /// # Errors
    /// Returns an error for a long element if the command does not run in steps, or if there is no
    /// room.
    pub(super) fn element(&mut self, name: &[u8], bytes: Vec<u8>) -> Result<Element, Stop> {
        if bytes.len() <= ELEMENT_BYTES_MAX {
            return Ok(Element::Bytes(bytes));
        }
        self.writer.require_steps(TOO_LARGE)?;
        let keyspace = self.keyspace();
        let (mut value, hold) = begin(self.memory, &keyspace, self.state)?;
        for piece in bytes.chunks(PIECE_BYTES) {
            let end = value.bytes;
            write(self.memory, &keyspace, self.state, &mut value, (end, piece))?;
            self.memory.let_others_run();
        }
        Ok(Element::Large { name: name.to_vec(), expires_at_ms: None, value, _hold: hold })
    }

    /// As [`element`](Call::element), of an entry of a stream.
    ///
    /// # Errors
    /// As [`element`](Call::element).
    pub(super) fn entry(&mut self, element: &[u8]) -> Result<Element, Stop> {
        let id = EntryId::of(element).to_bytes();
        match self.element(&id, element.get(id.len()..).unwrap_or_default().to_vec())? {
            Element::Bytes(_) => Ok(Element::Bytes(element.to_vec())),
            large @ Element::Large { .. } => Ok(large),
        }
    }

    /// As [`element`](Call::element), of a field of a hash.
    ///
    /// # Errors
    /// As [`element`](Call::element).
    pub(super) fn field(&mut self, field: &Field<'_>) -> Result<Element, Stop> {
        let mut element = self.element(field.name, field.encode())?;
        if let Element::Large { expires_at_ms, .. } = &mut element {
            *expires_at_ms = field.expires_at_ms;
        }
        Ok(element)
    }
}
