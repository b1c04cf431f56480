//! Streams: entries in the order of their ids.
//!
//! An element is the id, then each field and each value behind its length. In the tree, the id is
//! the key. The [state](StreamState) of the stream lies in the entry of its key. So a stream
//! without entries remains.

use ebbtide_core::FullMemory;

use super::super::kind::Kind;
use super::super::varint::number_bytes;
use super::packed::{self, bytes_of};
use super::tree::Seek;
use super::{Body, Collection, Full};

/// Bytes of an id.
const ID_BYTES: usize = 16;

/// Bytes of the state of a stream.
const STATE_BYTES: usize = 2 * ID_BYTES + 8;

/// The id of an entry of a stream: a time in milliseconds, and a number within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryId {
    /// Milliseconds since the Unix epoch, or another number.
    pub ms: u64,
    /// Number of the entry among those of the same time.
    pub sequence: u64,
}

impl EntryId {
    /// The greatest id.
    pub const MAX: EntryId = EntryId { ms: u64::MAX, sequence: u64::MAX };

    /// Returns the id as bytes that sort as ids do.
    pub fn to_bytes(self) -> [u8; ID_BYTES] {
        self.number().to_be_bytes()
    }

    /// Returns the id of an element of a stream, or of the bytes of an id.
    pub fn of(element: &[u8]) -> EntryId {
        let bytes = element.first_chunk::<ID_BYTES>().copied().unwrap_or_default();
        EntryId::numbered(u128::from_be_bytes(bytes))
    }

    /// Returns the next greater id, if there is one.
    pub fn next(self) -> Option<EntryId> {
        self.number().checked_add(1).map(EntryId::numbered)
    }

    /// Returns the next smaller id, if there is one.
    pub fn before(self) -> Option<EntryId> {
        self.number().checked_sub(1).map(EntryId::numbered)
    }

    /// Returns the element of an entry. `fields` alternates fields and values.
    pub fn with(self, fields: &[&[u8]]) -> Vec<u8> {
        let mut element = self.to_bytes().to_vec();
        for text in fields {
            element.extend_from_slice(&number_bytes(text.len() as u64));
            element.extend_from_slice(text);
        }
        element
    }

    fn number(self) -> u128 {
        u128::from(self.ms) << 64 | u128::from(self.sequence)
    }

    fn numbered(number: u128) -> EntryId {
        EntryId { ms: (number >> 64) as u64, sequence: number as u64 }
    }
}

/// Returns the fields of an element of a stream, each followed by its value.
pub fn fields_of(element: &[u8]) -> impl Iterator<Item = &[u8]> {
    packed::elements(parts(element).1)
}

/// The bytes of the id of an element, and its fields.
pub(super) fn parts(element: &[u8]) -> (&[u8], &[u8]) {
    element.split_at(element.len().min(ID_BYTES))
}

/// Bytes of the state in the entry of a collection of this kind.
pub(super) fn state_bytes(kind: Kind) -> usize {
    if kind == Kind::Stream { STATE_BYTES } else { 0 }
}

/// The state of a stream next to its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamState {
    /// The greatest id that was added.
    pub last: EntryId,
    /// The greatest id that was removed by its id.
    pub deleted: EntryId,
    /// Number of entries that were added.
    pub added: u64,
}

impl StreamState {
    /// Decodes a state. It is the default if a writer has torn it.
    pub(super) fn decode(bytes: &[u8]) -> StreamState {
        let Some(bytes) = bytes.first_chunk::<STATE_BYTES>() else { return StreamState::default() };
        let (last, rest) = bytes.split_at(ID_BYTES);
        let (deleted, added) = rest.split_at(ID_BYTES);
        let added = added.first_chunk().copied().unwrap_or_default();
        StreamState {
            last: EntryId::of(last),
            deleted: EntryId::of(deleted),
            added: u64::from_le_bytes(added),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let (last, deleted) = (self.last.to_bytes(), self.deleted.to_bytes());
        [&last[..], &deleted, &self.added.to_le_bytes()].concat()
    }
}

impl Collection {
    /// The state as its entry has it; empty unless it is a stream.
    pub(super) fn state_bytes(&self) -> Vec<u8> {
        if self.kind == Kind::Stream { self.stream.encode() } else { Vec::new() }
    }

    /// Returns the state of a stream.
    pub fn stream_state(&self) -> StreamState {
        self.stream
    }

    /// Changes the state of a stream.
    pub fn set_stream_state(&mut self, state: StreamState) {
        self.stream = state;
        (self.is_changed, self.was_changed) = (true, true);
    }

    /// Puts an element after all others. The state stays as it is.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub(super) fn put_entry<M: FullMemory>(
        &mut self,
        memory: &mut M,
        element: &[u8],
    ) -> Result<(), Full> {
        self.make_room(memory, bytes_of(element))?;
        self.was_changed = true;
        match &mut self.body {
            Body::Packed(packed) => {
                packed.insert(usize::MAX, element);
                self.is_changed = true;
                Ok(())
            }
            Body::Trees(roots) => {
                let roots = roots.clone();
                self.put_in_trees(&mut self.access(memory), &roots, 0, element).map(drop)
            }
        }
    }

    /// Finds an entry of a stream.
    pub fn find_entry<M: FullMemory>(&self, memory: &mut M, id: EntryId) -> Option<Vec<u8>> {
        match &self.body {
            Body::Packed(packed) => {
                packed.elements().find(|element| EntryId::of(element) == id).map(<[u8]>::to_vec)
            }
            Body::Trees(_) => {
                let (_, fields) = self.tree(0)?.find(&mut self.access(memory), &id.to_bytes())?;
                Some([&id.to_bytes()[..], &fields].concat())
            }
        }
    }

    /// Removes an entry of a stream. Returns true if it was there. The state stays as it is.
    pub fn remove_entry<M: FullMemory>(&mut self, memory: &mut M, id: EntryId) -> bool {
        let is_gone = match &mut self.body {
            Body::Packed(packed) => {
                let at = packed.elements().position(|element| EntryId::of(element) == id);
                let is_gone = at.and_then(|at| packed.remove(at)).is_some();
                self.is_changed |= is_gone;
                is_gone
            }
            Body::Trees(_) => {
                let tree = self.tree(0).expect("it has trees");
                tree.remove(&mut self.access(memory), Seek::Key(&id.to_bytes())).is_some()
            }
        };
        self.was_changed |= is_gone;
        is_gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_as_bytes_and_come_back() {
        let ids = [(0, 0), (0, 1), (0, u64::MAX), (1, 0), (256, 3), (u64::MAX, u64::MAX)];
        let ids = ids.map(|(ms, sequence)| EntryId { ms, sequence });
        assert!(ids.windows(2).all(|two| two[0].to_bytes() < two[1].to_bytes()));
        assert!(ids.iter().all(|id| EntryId::of(&id.to_bytes()) == *id));
        assert_eq!(ids[2].next(), Some(ids[3]));
        assert_eq!(ids[3].before(), Some(ids[2]));
        assert_eq!((ids[5].next(), ids[0].before()), (None, None));
    }

    #[test]
    fn a_state_is_decoded_as_it_was_encoded() {
        let (last, deleted) =
            (EntryId { ms: 5, sequence: 6 }, EntryId { ms: 4, sequence: 1 << 60 });
        let state = StreamState { last, deleted, added: 77 };
        assert_eq!(StreamState::decode(&state.encode()), state);
        assert_eq!(StreamState::decode(&state.encode()[1..]), StreamState::default(), "torn");
    }
}
