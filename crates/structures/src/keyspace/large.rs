//! Values of more than [`WHOLE_BYTES_MAX`](super::WHOLE_BYTES_MAX), written piece by piece.
//!
//! A piece is a transaction of its own. Until the last piece, a new value is
//! [detached](super::detached), and an appended part lies beyond the end that its entry names. So
//! no job sees it, and a crash leaves the value before.

use ebbtide_core::FullMemory;

use super::entry::{Entry, LargeId, Place, WHOLE_BYTES_MAX};
use super::key::Key;
use super::layout::{Numbers, PageNumber};
use super::pages::{Full, HELD_MAX};
use super::values::{self, pages_of};
use super::{Keyspace, VALUE_BYTES_MAX, detached};

/// A value that is written piece by piece.
#[derive(Clone, Debug)]
pub struct Large {
    lists: Numbers,
    /// Page numbers in the last list.
    held: u64,
    /// Bytes written so far.
    pub bytes: u64,
}

impl Large {
    /// Returns its identity.
    pub fn id(&self) -> LargeId {
        LargeId(self.lists[0])
    }

    /// The pages that list its pages.
    pub(super) fn lists(&self) -> &[PageNumber] {
        &self.lists
    }

    fn place(&self) -> Place {
        Place::Chained(self.lists.clone())
    }
}

impl Keyspace {
    /// Begins a value without a key. Calls `hold` before any other job can find the value, and free
    /// its pages. Returns the result of `hold` too.
    ///
    /// # Errors
    /// [`Full`] when there is no room.
    pub fn begin_large<M: FullMemory, H>(
        &self,
        memory: &mut M,
        hold: impl FnOnce(LargeId) -> H,
    ) -> Result<(Large, H), Full> {
        let first = self.pages.take_for_data(memory)?;
        self.pages.set_list_header(memory, first, (0, 0));
        let large = Large { lists: Numbers::from_slice(&[first]), held: 0, bytes: 0 };
        let held = hold(large.id());
        detached::add(self, memory, large.id());
        Ok((large, held))
    }

    /// Opens the value of an entry that was found, to append to it. `None` if it is not a large
    /// one.
    pub fn open_large<M: FullMemory>(&self, memory: &mut M, entry: &Entry) -> Option<Large> {
        let Place::Chained(lists) = &entry.place else { return None };
        let mut large = Large { lists: lists.clone(), held: 0, bytes: entry.value_bytes };
        let mut last = *lists.last()?;
        loop {
            let following;
            (following, large.held) = self.pages.list_header(memory, last);
            if following == 0 {
                return Some(large);
            }
            // It was written beyond the end, and was never visible.
            large.lists.push(following);
            last = following;
        }
    }

    /// Writes at most [`WHOLE_BYTES_MAX`] bytes into a value from byte `offset` on. `offset` is at
    /// most the length.
    ///
    /// # Errors
    /// [`Full`] when there is no room; the value then is as before.
    pub fn write_large<M: FullMemory>(
        &self,
        memory: &mut M,
        large: &mut Large,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Full> {
        let end = offset + bytes.len() as u64;
        assert!(offset <= large.bytes && bytes.len() <= WHOLE_BYTES_MAX && end <= VALUE_BYTES_MAX);
        self.grow(memory, large, pages_of(end))?;
        values::write(&self.pages, memory, &large.place(), offset, bytes);
        large.bytes = large.bytes.max(end);
        Ok(())
    }

    /// Makes sure that a value has this many pages. Some may be there from a time before a crash.
    fn grow<M: FullMemory>(
        &self,
        memory: &mut M,
        large: &mut Large,
        wanted: u64,
    ) -> Result<(), Full> {
        let lists = large.lists.len() as u64;
        let count = (lists - 1) * HELD_MAX + large.held;
        if count >= wanted {
            return Ok(());
        }
        let lists = wanted.div_ceil(HELD_MAX) - lists;
        let taken = self.pages.take_all_for_data(memory, wanted - count + lists)?;
        for number in taken {
            let last = large.lists[large.lists.len() - 1];
            if large.held == HELD_MAX {
                self.pages.set_list_header(memory, number, (0, 0));
                self.pages.set_list_header(memory, last, (number, HELD_MAX));
                large.lists.push(number);
                large.held = 0;
                continue;
            }
            self.pages.set_listed(memory, last, large.held, number);
            large.held += 1;
            self.pages.set_list_header(memory, last, (0, large.held));
        }
        Ok(())
    }

    /// Appends `length` bytes, from byte `offset` on, of a value without a key to `into`.
    pub fn read_large<M: FullMemory>(
        &self,
        memory: &mut M,
        large: &Large,
        offset: u64,
        length: usize,
        into: &mut Vec<u8>,
    ) {
        values::read(&self.pages, memory, &large.place(), (offset, length), into);
    }

    /// Attaches a value to a key, with a time of expiry. Returns true if the key was there before.
    ///
    /// # Errors
    /// [`Full`] when there is no room for the entry; nothing has changed then.
    pub fn attach_large<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        key: &Key<'_>,
        large: &Large,
        expires_at_ms: Option<u64>,
    ) -> Result<bool, Full> {
        let old = self.put_large(memory, database, key, large, expires_at_ms)?;
        detached::remove(self, memory, large.id());
        Ok(self.give_replaced(memory, old))
    }

    /// Extends the value of a key by the bytes that were appended. The value was
    /// [opened](Keyspace::open_large).
    ///
    /// # Errors
    /// [`Full`] when there is no room for the entry.
    pub fn extend_large<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        key: &Key<'_>,
        large: &Large,
        expires_at_ms: Option<u64>,
    ) -> Result<(), Full> {
        self.put_large(memory, database, key, large, expires_at_ms).map(drop)
    }

    fn put_large<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        key: &Key<'_>,
        large: &Large,
        expires_at_ms: Option<u64>,
    ) -> Result<Option<Entry>, Full> {
        assert!(large.bytes > 0, "a value without bytes is no large one");
        let lists = pages_of(large.bytes).div_ceil(HELD_MAX) as usize;
        let place = Place::Chained(Numbers::from_slice(&large.lists[..lists]));
        let entry = Entry { value_bytes: large.bytes, expires_at_ms, place };
        self.put(memory, database, key, &entry, &[])
    }
}
