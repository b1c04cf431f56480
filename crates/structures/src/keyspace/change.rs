//! Changes of keys: sets, writes into, renames, removes and counts entries and their values.

use ebbtide_core::{FullMemory, PAGE_BYTES};

use super::entry::{
    Entry, LargeId, Place, VALUE_BYTES_MAX, WHOLE_BYTES_MAX, encode, fits_inline, tail_bytes,
};
use super::key::{KEY_BYTES_MAX, Key};
use super::layout::Numbers;
use super::pages::{Full, RESERVE_PAGES};
use super::tree::Step;
use super::values::{self, Listed, pages_of};
use super::{HASHES, Keyspace, detached, due, leaf, stripe};

impl Keyspace {
    /// Sets the value and the time of expiry of a key. Returns true if the key was there before.
    ///
    /// # Errors
    /// [`Full`] when there is no room for it; the key then is as before.
    ///
    /// # Panics
    /// When the key or the value is longer than [`KEY_BYTES_MAX`] or [`WHOLE_BYTES_MAX`].
    pub fn set<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        key: &Key<'_>,
        value: &[u8],
        expires_at_ms: Option<u64>,
    ) -> Result<bool, Full> {
        assert!(key.bytes.len() <= KEY_BYTES_MAX && value.len() <= WHOLE_BYTES_MAX);
        let value_bytes = value.len() as u64;
        if fits_inline(key.bytes, value.len()) {
            let entry = Entry { value_bytes, expires_at_ms, place: Place::Inline };
            let old = self.put(memory, database, key, &entry, value)?;
            return Ok(self.give_replaced(memory, old));
        }
        let tail_bytes = tail_bytes(key.bytes, value.len());
        match self.set_listed(memory, (database, key), value, expires_at_ms, tail_bytes) {
            // The pages of the old value may have room that the leaf does not have.
            Err(Full) if tail_bytes > 0 => {
                self.set_listed(memory, (database, key), value, expires_at_ms, 0)
            }
            set => set,
        }
    }

    /// As [`set`](Keyspace::set), for a value in pages with a tail of this many bytes.
    fn set_listed<M: FullMemory>(
        &self,
        memory: &mut M,
        (database, key): (usize, &Key<'_>),
        value: &[u8],
        expires_at_ms: Option<u64>,
        tail_bytes: usize,
    ) -> Result<bool, Full> {
        let value_bytes = value.len() as u64;
        let (in_pages, tail) = value.split_at(value.len() - tail_bytes);
        // Pages that the key has already are overwritten.
        let old = self.find(memory, database, key, &mut Vec::new());
        let had = old.as_ref().map_or(&[][..], |old| old.place.numbers());
        let had = Numbers::from_slice(had);
        let bytes = in_pages.len() as u64;
        let (before, kept) = (had.len(), had.len().min(pages_of(bytes) as usize));
        let listed = self.list(memory, Numbers::from_slice(&had[..kept]), bytes)?;
        let place = Place::listed(listed.0, tail);
        let entry = Entry { value_bytes, expires_at_ms, place: place.clone() };
        let old = self.put_listed(memory, database, key, &entry, kept)?;
        for number in &had[..kept] {
            memory.forget(self.pages.address(*number).page());
        }
        values::write(&self.pages, memory, &place, 0, in_pages);
        Ok(match old {
            Some(_) if before > 0 => {
                Listed(had).give_from(&self.pages, memory, kept);
                true
            }
            old => self.give_replaced(memory, old),
        })
    }

    /// Writes at most [`WHOLE_BYTES_MAX`] bytes into the value of an entry that was found, from
    /// byte `offset` on. Bytes between its end and `offset` become zeros. The value is not
    /// [inline](Entry::is_inline). A tail that changes moves to a page, as more changes may follow.
    /// It stays next to the key if no page is free.
    ///
    /// # Errors
    /// [`Full`] when there is no room for it; the value then is as before.
    ///
    /// # Panics
    /// When a value that is not [large](Entry::large) would become longer than [`WHOLE_BYTES_MAX`].
    pub fn write_range<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        key: &Key<'_>,
        entry: &Entry,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), Full> {
        const ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];
        assert!(!entry.is_inline() && offset + bytes.len() as u64 <= VALUE_BYTES_MAX);
        let end = (offset + bytes.len() as u64).max(entry.value_bytes);
        if let Some(mut large) = self.open_large(memory, entry) {
            for at in (entry.value_bytes..offset).step_by(ZEROS.len()) {
                let count = (offset - at).min(ZEROS.len() as u64) as usize;
                self.write_large(memory, &mut large, at, &ZEROS[..count])?;
            }
            self.write_large(memory, &mut large, offset, bytes)?;
            return if end == entry.value_bytes {
                Ok(())
            } else {
                self.extend_large(memory, database, key, &large, entry.expires_at_ms)
            };
        }
        let tail = entry.place.tail();
        let in_pages = entry.value_bytes - tail.len() as u64;
        let early = in_pages.saturating_sub(offset).min(bytes.len() as u64) as usize;
        let (early, late) = bytes.split_at(early);
        if !late.is_empty() || end > entry.value_bytes {
            let mut rest = tail.to_vec();
            rest.resize((end - in_pages) as usize, 0);
            let at = (offset.max(in_pages) - in_pages) as usize;
            rest[at..at + late.len()].copy_from_slice(late);
            if self.put_rest(memory, (database, key), entry, &rest, 0).is_err() {
                let tail_bytes = tail_bytes(key.bytes, end as usize);
                self.put_rest(memory, (database, key), entry, &rest, tail_bytes)?;
            }
        }
        values::write(&self.pages, memory, &entry.place, offset, early);
        Ok(())
    }

    /// Writes the `rest` of an entry's value, from the end of its bytes in pages on. The last
    /// `tail_bytes` of them become the value's tail, and the others lie in pages. The key has the
    /// entry then. Returns its old one.
    fn put_rest<M: FullMemory>(
        &self,
        memory: &mut M,
        (database, key): (usize, &Key<'_>),
        entry: &Entry,
        rest: &[u8],
        tail_bytes: usize,
    ) -> Result<Option<Entry>, Full> {
        let numbers = entry.place.numbers();
        let begins = entry.value_bytes - entry.place.tail().len() as u64;
        let paged = rest.len().checked_sub(tail_bytes).ok_or(Full)?;
        let (paged, tail) = rest.split_at(paged);
        let listed =
            self.list(memory, Numbers::from_slice(numbers), begins + paged.len() as u64)?;
        let place = Place::listed(listed.0, tail);
        let value_bytes = begins + rest.len() as u64;
        let new = Entry { value_bytes, place, expires_at_ms: entry.expires_at_ms };
        let old = self.put_listed(memory, database, key, &new, numbers.len())?;
        values::write(&self.pages, memory, &new.place, begins, paged);
        Ok(old)
    }

    /// Adds pages to `numbers` until they hold this many bytes.
    fn list<M: FullMemory>(
        &self,
        memory: &mut M,
        numbers: Numbers,
        value_bytes: u64,
    ) -> Result<Listed, Full> {
        let wanted = pages_of(value_bytes);
        self.check_room(memory, wanted.saturating_sub(numbers.len() as u64))?;
        let mut listed = Listed(numbers);
        listed.resize(&self.pages, memory, wanted as usize)?;
        Ok(listed)
    }

    /// Removes a key. Returns true if it was there.
    pub fn remove<M: FullMemory>(&self, memory: &mut M, database: usize, key: &Key<'_>) -> bool {
        let old = self.take(memory, database, key);
        old.is_some_and(|old| {
            self.give_pages(memory, &old);
            true
        })
    }

    /// Changes or removes the time of expiry of a key. Returns true if the key is there.
    ///
    /// # Errors
    /// [`Full`] when there is no room for it; the key then is as before.
    pub fn set_expiry<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        key: &Key<'_>,
        expires_at_ms: Option<u64>,
    ) -> Result<bool, Full> {
        let mut value = Vec::new();
        let Some(entry) = self.find(memory, database, key, &mut value) else { return Ok(false) };
        if entry.expires_at_ms != expires_at_ms {
            let entry = Entry { expires_at_ms, ..entry };
            self.put(memory, database, key, &entry, &value)?;
        }
        Ok(true)
    }

    /// Moves the value and the expiry of `from`, which is there, to `to`, and removes `from`. The
    /// bytes of a large value stay where they are.
    ///
    /// # Errors
    /// [`Full`] when there is no room for it; both keys then are as before.
    pub fn rename<M: FullMemory>(
        &self,
        memory: &mut M,
        (database, from): (usize, &Key<'_>),
        (to_database, to): (usize, &Key<'_>),
    ) -> Result<(), Full> {
        let mut value = Vec::new();
        let Some(entry) = self.find(memory, database, from, &mut value) else { return Ok(()) };
        let fits = entry.fits_beside(to.bytes);
        if let Some(packed) = self.open_collection(to, &entry, &value).filter(|_| !fits) {
            self.store_unpacked(memory, to_database, to, packed)?;
        } else if !fits && !entry.is_inline() {
            let old = self.put_rest(memory, (to_database, to), &entry, entry.place.tail(), 0)?;
            self.give_replaced(memory, old);
        } else if !fits {
            self.set(memory, to_database, to, &value, entry.expires_at_ms)?;
        } else {
            let old = self.put(memory, to_database, to, &entry, &value)?;
            self.give_replaced(memory, old);
        }
        // Its pages belong to the new name now.
        self.take(memory, database, from);
        Ok(())
    }

    /// Replaces an entry by another. Returns the old one.
    pub(super) fn put<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        key: &Key<'_>,
        entry: &Entry,
        value: &[u8],
    ) -> Result<Option<Entry>, Full> {
        let bytes = encode(key.bytes, entry, value);
        let due_at = due::due_in(&bytes);
        let tree = self.tree(database);
        // Expired keys may be dropped from two leaves: its own, and the next one, which may share
        // its entries.
        let mut droppable = if self.keeps_expired { 0 } else { 2 };
        let old = loop {
            let written = tree.write(memory, key.hash, |memory, page, header| {
                let put = match leaf::find(memory, page, header, key) {
                    Some(found) => {
                        let old = Entry::load_without_value(memory, found.at, leaf::end(page));
                        leaf::replace(memory, page, header, found, key.hash, &bytes).map(|()| old)
                    }
                    None => leaf::insert(memory, page, header, key.hash, &bytes).map(|()| None),
                };
                match put {
                    Ok(old) => {
                        if let Some(at) = due_at {
                            tree.note_due(memory, page, header, at);
                        }
                        Step::Done(Some(old))
                    }
                    Err(_) if droppable == 2 && due::is_due(header.due, self.now_ms) => {
                        Step::Done(None)
                    }
                    Err(more) => Step::MakeRoom(more),
                }
            });
            match written {
                Ok(Some(old)) => break old,
                Ok(None) => {
                    droppable = 1;
                    self.drop_expired(memory, database, key.hash);
                }
                Err(Full) if droppable > 0 => {
                    droppable = 0;
                    let next = tree.read(memory, key.hash, |_, _, header| header.high);
                    if let Some(next) = next.filter(|next| *next < HASHES) {
                        self.drop_expired(memory, database, next);
                    }
                }
                Err(full) => return Err(full),
            }
        };
        self.count(memory, database, key.hash, old.as_ref(), Some(entry));
        Ok(old)
    }

    /// As [`put`](Keyspace::put), for a value in pages. If there is no room, frees the pages from
    /// `before` on.
    fn put_listed<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        key: &Key<'_>,
        entry: &Entry,
        before: usize,
    ) -> Result<Option<Entry>, Full> {
        let put = self.put(memory, database, key, entry, &[]);
        if put.is_err() {
            let numbers = Numbers::from_slice(entry.place.numbers());
            Listed(numbers).give_from(&self.pages, memory, before);
        }
        put
    }

    /// Removes an entry, but not its pages.
    fn take<M: FullMemory>(&self, memory: &mut M, database: usize, key: &Key<'_>) -> Option<Entry> {
        let tree = self.tree(database);
        tree.root(memory)?;
        let taken = tree.write(memory, key.hash, |memory, page, header| {
            Step::Done(leaf::find(memory, page, header, key).and_then(|found| {
                let old = Entry::load_without_value(memory, found.at, leaf::end(page));
                leaf::remove(memory, page, header, found);
                old
            }))
        });
        let old = taken.expect("a removal needs no room")?;
        self.count(memory, database, key.hash, Some(&old), None);
        Some(old)
    }

    /// Frees the pages of a replaced entry. Returns true if there was one.
    pub(super) fn give_replaced<M: FullMemory>(&self, memory: &mut M, old: Option<Entry>) -> bool {
        old.is_some_and(|old| {
            self.give_pages(memory, &old);
            true
        })
    }

    /// Frees the pages of an entry's value. A large one, or a collection in trees, waits for
    /// [`reclaim_large`](Keyspace::reclaim_large).
    pub(super) fn give_pages<M: FullMemory>(&self, memory: &mut M, entry: &Entry) {
        match (&entry.place, entry.large()) {
            (Place::Listed(_) | Place::Tailed(_), _) => {
                let numbers = Numbers::from_slice(entry.place.numbers());
                Listed(numbers).give_from(&self.pages, memory, 0);
            }
            (Place::Collection { roots, .. }, _) => {
                roots.iter().for_each(|root| detached::add(self, memory, LargeId(*root)));
            }
            (_, Some(large)) => detached::add(self, memory, large),
            _ => {}
        }
    }

    /// Checks beforehand that this many pages for data may be taken, so that less must be undone.
    ///
    /// # Errors
    /// [`Full`] if there are fewer.
    pub fn check_room<M: FullMemory>(&self, memory: &mut M, pages: u64) -> Result<(), Full> {
        if self.pages.free(memory) < pages + RESERVE_PAGES { Err(Full) } else { Ok(()) }
    }

    /// Counts a change of a key whose stripe is held.
    pub(super) fn count<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        hash: u64,
        old: Option<&Entry>,
        new: Option<&Entry>,
    ) {
        let weight = |entry: Option<&Entry>| {
            entry.map_or(0, |entry| 1 + (u64::from(entry.expires_at_ms.is_some()) << 32))
        };
        let (before, after) = (weight(old), weight(new));
        if before != after {
            let at = self.count_at(database, stripe(hash));
            let count: u64 = memory.load(at);
            memory.store(at, count.wrapping_add(after).wrapping_sub(before));
        }
    }
}
