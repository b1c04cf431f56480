//! Changes of keys: sets, writes into, renames, removes and counts entries and their values.

use ebbtide_core::{Memory, PAGE_BYTES};

use super::entry::{Entry, LargeId, Place, VALUE_BYTES_MAX, WHOLE_BYTES_MAX, encode, fits_inline};
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
    pub fn set<M: Memory>(
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
        // Pages that the key has already are overwritten.
        let old = self.find(memory, database, key, &mut Vec::new());
        let had = match old.as_ref().map(|old| &old.place) {
            Some(Place::Listed(numbers)) => numbers.clone(),
            _ => Numbers::new(),
        };
        let wanted = pages_of(value_bytes) as usize;
        let (before, kept) = (had.len(), had.len().min(wanted));
        let listed = self.list(memory, Numbers::from_slice(&had[..kept]), value_bytes)?;
        let place = Place::Listed(listed.0);
        let entry = Entry { value_bytes, expires_at_ms, place: place.clone() };
        let old = self.put_listed(memory, database, key, &entry, kept)?;
        for number in &had[..kept] {
            memory.forget(self.pages.address(*number).page());
        }
        values::write(&self.pages, memory, &place, 0, value);
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
    /// [inline](Entry::is_inline).
    ///
    /// # Errors
    /// [`Full`] when there is no room for it; the value then is as before.
    ///
    /// # Panics
    /// When a value that is not [large](Entry::large) would become longer than [`WHOLE_BYTES_MAX`].
    pub fn write_range<M: Memory>(
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
        let gap = (entry.value_bytes..offset).step_by(ZEROS.len());
        let gap = gap.map(|at| (at, (offset - at).min(ZEROS.len() as u64) as usize));
        if let Some(mut large) = self.open_large(memory, entry) {
            for (at, count) in gap {
                self.write_large(memory, &mut large, at, &ZEROS[..count])?;
            }
            self.write_large(memory, &mut large, offset, bytes)?;
            return if end == entry.value_bytes {
                Ok(())
            } else {
                self.extend_large(memory, database, key, &large, entry.expires_at_ms)
            };
        }
        let Place::Listed(numbers) = &entry.place else { unreachable!("it is in pages") };
        let before = numbers.len();
        let listed = self.list(memory, numbers.clone(), end)?;
        let place = Place::Listed(listed.0.clone());
        for (at, count) in gap {
            values::write(&self.pages, memory, &place, at, &ZEROS[..count]);
        }
        values::write(&self.pages, memory, &place, offset, bytes);
        if end > entry.value_bytes {
            let entry = Entry { value_bytes: end, place, ..*entry };
            self.put_listed(memory, database, key, &entry, before)?;
        }
        Ok(())
    }

    /// Adds pages to `numbers` until they hold this many bytes.
    fn list<M: Memory>(
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
    pub fn remove<M: Memory>(&self, memory: &mut M, database: usize, key: &Key<'_>) -> bool {
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
    pub fn set_expiry<M: Memory>(
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
    pub fn rename<M: Memory>(
        &self,
        memory: &mut M,
        (database, from): (usize, &Key<'_>),
        (to_database, to): (usize, &Key<'_>),
    ) -> Result<(), Full> {
        let mut value = Vec::new();
        let Some(entry) = self.find(memory, database, from, &mut value) else { return Ok(()) };
        let fits = !entry.is_inline() || fits_inline(to.bytes, value.len());
        if let Some(packed) = self.open_collection(to, &entry, &value).filter(|_| !fits) {
            self.store_unpacked(memory, to_database, to, packed)?;
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
    pub(super) fn put<M: Memory>(
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
    fn put_listed<M: Memory>(
        &self,
        memory: &mut M,
        database: usize,
        key: &Key<'_>,
        entry: &Entry,
        before: usize,
    ) -> Result<Option<Entry>, Full> {
        let put = self.put(memory, database, key, entry, &[]);
        if let (Err(Full), Place::Listed(numbers)) = (&put, &entry.place) {
            Listed(numbers.clone()).give_from(&self.pages, memory, before);
        }
        put
    }

    /// Removes an entry, but not its pages.
    fn take<M: Memory>(&self, memory: &mut M, database: usize, key: &Key<'_>) -> Option<Entry> {
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
    pub(super) fn give_replaced<M: Memory>(&self, memory: &mut M, old: Option<Entry>) -> bool {
        old.is_some_and(|old| {
            self.give_pages(memory, &old);
            true
        })
    }

    /// Frees the pages of an entry's value. A large one, or a collection in trees, waits for
    /// [`reclaim_large`](Keyspace::reclaim_large).
    pub(super) fn give_pages<M: Memory>(&self, memory: &mut M, entry: &Entry) {
        match (&entry.place, entry.large()) {
            (Place::Listed(numbers), _) => {
                Listed(numbers.clone()).give_from(&self.pages, memory, 0);
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
    pub fn check_room<M: Memory>(&self, memory: &mut M, pages: u64) -> Result<(), Full> {
        if self.pages.free(memory) < pages + RESERVE_PAGES { Err(Full) } else { Ok(()) }
    }

    /// Counts a change of a key whose stripe is held.
    pub(super) fn count<M: Memory>(
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
