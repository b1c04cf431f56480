//! [`Table`]: a hash table whose groups lie within a page and give up their oldest record.

use std::marker::PhantomData;

use ebbtide_core::{Addr, LINE_BYTES, Memory, PAGE_BYTES, PageId, latch};

use super::key::Key;
use super::record::{self, Record, broken, first_line, told};
use crate::Wrong;
use crate::keys::{Places, Scatter};
use crate::line::{Line, Seals};
use crate::permutation::mix;
use crate::program::Kind;

const LINES_PER_PAGE: u64 = (PAGE_BYTES / LINE_BYTES) as u64;

/// A hash table of records in groups: a key hashes to a group, and is any of its records.
///
/// A group is a line of tags and a few records, all on one page, so that a look-up is at most one
/// miss. The tags are a latch and, for every record, the number in its name; a look-up compares
/// the tags, then the name and everything else in the record ([`Record`]).
///
/// Groups are full from the start and stay so. What is inserted takes the place of its group's
/// oldest record, the one with the lowest item number; what is older than all of them is not
/// stored. So inserts can go on for ever, and what a group ends up with does not depend on their
/// order. As keys hash to groups in turn, a table of `n` records holds the newest `n` items, but
/// for inserts under way.
///
/// # Hash
/// Item `i` and item `i + n` hash alike; the first `n` are spread over the groups by a permutation,
/// because an image must tell which keys hash to a page and the client's FNV cannot be run
/// backwards. A table that hashed names would touch memory just as this one does.
///
/// # Concurrency
/// Writers hold the group's latch. Readers take none: a record that is whole is one that was there,
/// since all of it follows from key and version. One that is not, or is not found, is looked at
/// again between two looks at the latch.
#[derive(Debug, Clone)]
pub struct Table<R> {
    pages: u64,
    places: Places,
    salt: u64,
    record: PhantomData<R>,
}

impl<R: Record> Table<R> {
    const GROUPS_PER_PAGE: u64 = LINES_PER_PAGE / R::GROUP_LINES;
    const PER_PAGE: u64 = Self::GROUPS_PER_PAGE * R::PER_GROUP;

    /// The table of `pages` pages that `seed` selects. With [`Scatter::Pages`] items of
    /// consecutive numbers share a page.
    ///
    /// # Panics
    /// When `pages` is 0 or above 2⁵⁶.
    pub fn new(pages: u64, scatter: Scatter, seed: u64) -> Table<R> {
        const { assert!(R::PER_GROUP * R::LINES < R::GROUP_LINES && R::PER_GROUP < 8) };
        // Programs that differ in what they do share their data.
        let seals = Seals::new(Kind::YcsbA, pages ^ R::LINES.rotate_right(8), seed);
        Table {
            pages,
            places: Places::new(pages, Self::PER_PAGE, scatter, mix(seed)),
            salt: seals.seal(Addr(0), &[]),
            record: PhantomData,
        }
    }

    /// How many records there are, and so which items at first: `0..records()`.
    pub fn records(&self) -> u64 {
        self.pages * Self::PER_PAGE
    }

    /// Size of the table in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.pages * PAGE_BYTES as u64
    }

    /// Writes the initial contents of `page` into `out`.
    ///
    /// # Panics
    /// When `page` lies beyond the table.
    pub fn image(&self, page: PageId, out: &mut [u8; PAGE_BYTES]) {
        assert!(page.0 < self.pages, "{page:?} of {}", self.pages);
        let lines: &mut [Line] = bytemuck::cast_slice_mut(out);
        let first_group = page.0 * Self::GROUPS_PER_PAGE;
        for (group, lines) in (first_group..).zip(lines.chunks_mut(R::GROUP_LINES as usize)) {
            lines.fill([0; 8]);
            let (tags, records) = lines.split_at_mut(1);
            for slot in 0..R::PER_GROUP as usize {
                let item = self.places.rank(group * R::PER_GROUP + slot as u64);
                let key = Key::hashed(item);
                tags[0][1 + slot] = key.number;
                records[slot * R::LINES as usize..][..R::LINES as usize]
                    .copy_from_slice(R::lines(self.salt, &key, 0).as_ref());
            }
        }
    }

    /// The latch of the group that `key` hashes to, at the start of the group.
    #[inline]
    pub fn latch(&self, key: &Key) -> Addr {
        self.group(key.item)
    }

    /// Reads the whole record of `key`, also while others write: its version, or `None` if it is
    /// not there, be it not yet or no longer.
    ///
    /// # Errors
    /// [`Wrong`] when what it reads is not the table.
    #[inline]
    pub fn get<M: Memory>(&self, memory: &mut M, key: &Key) -> Result<Option<u64>, Wrong> {
        let group = self.group(key.item);
        if let Some(at) = self.find(memory, group, key)
            && let Some(version) = record::read::<R, M>(memory, at, self.salt, key)
        {
            return Ok(Some(version));
        }
        latch::read(memory, group, |memory| match self.find(memory, group, key) {
            Some(at) => match record::read::<R, M>(memory, at, self.salt, key) {
                None => Err(broken(at)),
                found => Ok(found),
            },
            None => self.check_absence(memory, group, key).map(|()| None),
        })
    }

    /// Writes one field of `key`'s record: its new version, or `None` if it is not there.
    ///
    /// # Errors
    /// [`Wrong`] when what it reads is not the table; then nothing is stored.
    pub fn update<M: Memory>(&self, memory: &mut M, key: &Key) -> Result<Option<u64>, Wrong> {
        latch::write(memory, self.latch(key), |memory| self.apply_update(memory, key))
    }

    /// The update itself. Not atomic: the caller holds the latch.
    pub fn apply_update<M: Memory>(&self, memory: &mut M, key: &Key) -> Result<Option<u64>, Wrong> {
        let group = self.group(key.item);
        match self.find(memory, group, key) {
            Some(at) => record::update::<R, M>(memory, at, self.salt, key).map(Some),
            None => self.check_absence(memory, group, key).map(|()| None),
        }
    }

    /// Adds the record of `key`: the item it takes the place of, or `None` if nothing changed,
    /// because it is there already or is older than its whole group.
    ///
    /// # Errors
    /// [`Wrong`] when what it reads is not the table; then nothing is stored.
    pub fn insert<M: Memory>(&self, memory: &mut M, key: &Key) -> Result<Option<u64>, Wrong> {
        latch::write(memory, self.latch(key), |memory| self.apply_insert(memory, key))
    }

    /// The insert itself. Not atomic: the caller holds the latch.
    pub fn apply_insert<M: Memory>(&self, memory: &mut M, key: &Key) -> Result<Option<u64>, Wrong> {
        let group = self.group(key.item);
        let items = self.items(memory, group)?;
        let slots = (0..R::PER_GROUP).map(|slot| (items[slot as usize], slot));
        let (oldest, slot) = slots.fold((u64::MAX, 0), Ord::min);
        if key.item < oldest || items.contains(&key.item) {
            return Ok(None);
        }
        memory.store(group + 8 * (1 + slot), key.number);
        record::store::<R, M>(memory, self.slot(group, slot), self.salt, key);
        Ok(Some(oldest))
    }

    /// Where the record tagged as `key`'s lies.
    #[inline]
    fn find<M: Memory>(&self, memory: &mut M, group: Addr, key: &Key) -> Option<Addr> {
        let tags = &memory.line(group)[1..=R::PER_GROUP as usize];
        let slot = tags.iter().position(|&tag| tag == key.number)?;
        Some(self.slot(group, slot as u64))
    }

    /// Checks that `key`, which is not there, may be absent.
    #[cold]
    fn check_absence<M: Memory>(
        &self,
        memory: &mut M,
        group: Addr,
        key: &Key,
    ) -> Result<(), Wrong> {
        let items = self.items(memory, group)?;
        let outlived = items[..R::PER_GROUP as usize].iter().all(|&item| item > key.item);
        if outlived || key.item >= self.records() {
            return Ok(());
        }
        Err(Wrong(format!("{} is lost from the group at {group:?}", key.text())))
    }

    /// The items of a group, each checked to be whole as far as its first line and its tag go.
    fn items<M: Memory>(&self, memory: &mut M, group: Addr) -> Result<[u64; 7], Wrong> {
        let tags = memory.line(group);
        let mut items = [u64::MAX; 7];
        for (slot, item) in (0..R::PER_GROUP).zip(&mut items) {
            let at = self.slot(group, slot);
            let line = memory.line(at);
            let (told, version) = told(&line);
            let key = Key::hashed(told);
            let fits = line == first_line(self.salt, &key, version)
                && tags[1 + slot as usize] == key.number
                && self.group(told) == group;
            if !fits {
                return Err(broken(at));
            }
            *item = told;
        }
        Ok(items)
    }

    /// The group that `item` hashes to.
    #[inline]
    fn group(&self, item: u64) -> Addr {
        let residue = if item < self.records() { item } else { item % self.records() };
        let group = self.places.place(residue) / R::PER_GROUP;
        Addr(group * R::GROUP_LINES * LINE_BYTES as u64)
    }

    /// Record `slot` of the group at `group`.
    #[inline]
    fn slot(&self, group: Addr, slot: u64) -> Addr {
        group + (1 + slot * R::LINES) * LINE_BYTES as u64
    }
}
