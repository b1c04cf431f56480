//! [`Table`]: a hash table whose buckets lie within a page and replace their oldest record.

use std::marker::PhantomData;
use std::ops::Range;

use ebbtide_core::{Addr, FullMemory, LINE_BYTES, PAGE_BYTES, PageId};
use ebbtide_structures::latch;

use crate::commit::commit;

use super::key::Key;
use super::names::Names;
use super::record::{self, Record, first_line, not_as_expected, told};
use super::spread::Spread;
use super::tags::{TAGS, Tags};
use crate::keys::Scatter;
use crate::kind::Kind;
use crate::{ALL_LINES, Corrupt, PageBytes};
use ebbtide_structures::checksum::Checksums;
use ebbtide_structures::hash::mix;
use ebbtide_structures::image::Line;

const LINES_PER_PAGE: u64 = (PAGE_BYTES / LINE_BYTES) as u64;

/// A hash table of records in buckets: a key hashes to a bucket and may be in any of its slots.
///
/// A page holds up to seven buckets. Its *head* is a line with a latch and, for every bucket, a
/// word of tags: seven bits of each record's name. A look-up reads one word of tags and the record
/// with a matching tag. It checks the record's name and all its other bytes ([`Record`]). It misses
/// at most once. The head lies before, between or behind the records, depending on the page. So the
/// heads of different pages use different sets of a CPU cache.
///
/// Buckets are always full. An inserted record replaces its bucket's oldest record, the one with
/// the lowest item number. A record that is older than all of them is not stored. So inserts can go
/// on for ever, and the final contents of a bucket do not depend on their order. Keys hash to
/// buckets in turn, so a table of `n` records holds the newest `n` items, except for inserts under
/// way.
///
/// # Hash
/// Items `i` and `i + n` have the same hash. A bijection of item numbers spreads the first `n`
/// items over the buckets. An image needs the keys that hash to a page, and the client's FNV cannot
/// be inverted. A table that hashed names would have the same memory accesses.
///
/// # Concurrency
/// Writers hold the page's latch. Readers take no latch: a whole record was present, since all of
/// it follows from key and version. If a record is not whole or not found, the reader looks again
/// and validates the latch.
#[derive(Debug, Clone)]
pub struct Table<R> {
    first_page: PageId,
    pages: u64,
    names: Names,
    spread: Spread,
    salt: u64,
    record: PhantomData<R>,
}

/// The result of an insert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    /// It replaced this item.
    InPlaceOf(u64),
    /// The item was present already, and nothing changed.
    WasThere,
    /// All items of its bucket are newer, and nothing changed.
    TooOld,
}

/// The place of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bucket {
    page: PageId,
    /// The number of the bucket in the page.
    number: u64,
    /// The head of the page: its latch, then a word of tags a bucket.
    head: Addr,
}

impl Bucket {
    /// The address of its tags.
    #[inline]
    fn tags(self) -> Addr {
        self.head + 8 * (1 + self.number)
    }
}

impl<R: Record> Table<R> {
    const PER_BUCKET: u64 = R::PER_BUCKET as u64;
    /// Records in a page.
    pub(super) const PER_PAGE: u64 = R::BUCKETS * Self::PER_BUCKET;

    /// The table of `pages` pages that `seed` selects. With [`Scatter::Pages`] items of
    /// consecutive numbers share a page.
    ///
    /// # Panics
    /// When `pages` is 0 or above 2⁵⁶.
    pub fn new(pages: u64, scatter: Scatter, seed: u64) -> Table<R> {
        Table::with_names(PageId(0), pages, scatter, seed, Names::Hashed)
    }

    /// As [`new`](Table::new), from `first_page` on and with other names.
    pub(super) fn with_names(
        first_page: PageId,
        pages: u64,
        scatter: Scatter,
        seed: u64,
        names: Names,
    ) -> Table<R> {
        const {
            assert!(R::BUCKETS < LINE_BYTES as u64 / 8 && R::PER_BUCKET <= TAGS);
            assert!(Self::PER_PAGE * R::LINES < LINES_PER_PAGE);
        }
        // Programs that differ in their operations share their data.
        let checksums = Checksums::new(Kind::YcsbA as u64, pages ^ R::LINES.rotate_right(8), seed);
        Table {
            first_page,
            pages,
            names,
            spread: Spread::new(pages, Self::PER_PAGE, scatter, mix(seed)),
            salt: checksums.of(Addr(0), &[]),
            record: PhantomData,
        }
    }

    /// The number of records. The initial items are `0..records()`.
    pub fn records(&self) -> u64 {
        self.pages * Self::PER_PAGE
    }

    /// The pages it lies in.
    pub fn pages(&self) -> Range<PageId> {
        self.first_page..PageId(self.first_page.0 + self.pages)
    }

    /// Writes the initial contents of `page` into `out`.
    ///
    /// # Panics
    /// When `page` lies beyond the table.
    pub fn image(&self, page: PageId, out: &mut PageBytes) {
        self.image_lines(page, ALL_LINES, out);
    }

    /// Writes at least the lines `lines` of the initial contents of `page` to their places in
    /// `out`. Writes whole records, and returns the lines that it wrote.
    ///
    /// # Panics
    /// As [`image`](Table::image).
    pub fn image_lines(
        &self,
        page: PageId,
        lines: Range<usize>,
        out: &mut PageBytes,
    ) -> Range<usize> {
        assert!(self.pages().contains(&page), "{page:?} of {:?}", self.pages());
        let all: &mut [Line] = bytemuck::cast_slice_mut(out);
        let in_record = R::LINES as usize;
        let head = Self::records_before_head(page) as usize * in_record;
        let (mut first, mut line) = (lines.start, lines.start);
        while line < lines.end {
            let heads = usize::from(line > head);
            let record = (line - heads) / in_record;
            if line == head || record as u64 >= Self::PER_PAGE {
                let is_head = line == head;
                all[line] = if is_head { self.image_of_head(page) } else { [0; LINE_BYTES / 8] };
                line += 1;
                continue;
            }
            let from = record * in_record + heads;
            let key = self.names.key(self.initial_item(page, record as u64));
            line = from + in_record;
            all[from..line].copy_from_slice(R::lines(self.salt, &key, 0).as_ref());
            first = first.min(from);
        }
        first..line
    }

    /// The initial head of `page`: a free latch, and the tags of every bucket.
    fn image_of_head(&self, page: PageId) -> Line {
        let mut head = [0; LINE_BYTES / 8];
        for (number, word) in (0..R::BUCKETS).zip(&mut head[1..]) {
            let mut tags = Tags::default();
            for slot in 0..R::PER_BUCKET {
                let record = number * Self::PER_BUCKET + slot as u64;
                tags.set(slot, self.names.number(self.initial_item(page, record)));
            }
            *word = tags.0;
        }
        head
    }

    /// The initial item of record `record` of `page`.
    fn initial_item(&self, page: PageId, record: u64) -> u64 {
        self.spread.invert((page.0 - self.first_page.0) * Self::PER_PAGE + record)
    }

    /// The number of the bucket to which `key` hashes. Keys of one bucket replace each other.
    pub fn bucket(&self, key: &Key) -> u64 {
        let bucket = self.bucket_at(key.item);
        bucket.page.0 * R::BUCKETS + bucket.number
    }

    /// The latch of the page that `key` hashes to, at the start of its head.
    #[inline]
    pub fn latch(&self, key: &Key) -> Addr {
        self.bucket_at(key.item).head
    }

    /// Copies the record of `key` into `lines` atomically, also while other jobs write. Returns
    /// whether it is present. Compares its name only; [`version_of`](Table::version_of) checks the
    /// rest.
    #[inline]
    pub fn read<M: FullMemory>(&self, memory: &mut M, key: &Key, lines: &mut R::Lines) -> bool {
        let bucket = self.bucket_at(key.item);
        latch::read(memory, bucket.head, |memory| {
            let tags = Tags(memory.load(bucket.tags()));
            let mut slots = tags.matches(key.number, R::PER_BUCKET);
            slots.any(|slot| record::copy::<R, M>(memory, Self::record(bucket, slot), key, lines))
        })
    }

    /// The version of `lines`, if every byte of them matches `key` and that version.
    pub fn version_of(&self, key: &Key, lines: &R::Lines) -> Option<u64> {
        let (_, version) = told(lines.as_ref().first()?);
        (lines.as_ref() == R::lines(self.salt, key, version).as_ref()).then_some(version)
    }

    /// Checks the whole record of `key`, also while other jobs write. Returns its version, or
    /// `None` if it is not present, not yet or no longer.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads invalid data.
    #[inline]
    pub fn get<M: FullMemory>(&self, memory: &mut M, key: &Key) -> Result<Option<u64>, Corrupt> {
        let bucket = self.bucket_at(key.item);
        if let Some((at, version)) = self.find(memory, bucket, key)
            && record::rest_is_whole::<R, M>(memory, at, self.salt, key, version)
        {
            return Ok(Some(version));
        }
        latch::read(memory, bucket.head, |memory| self.get_settled(memory, bucket, key))
    }

    /// As [`get`](Table::get), while no job writes.
    #[cold]
    fn get_settled<M: FullMemory>(
        &self,
        memory: &mut M,
        bucket: Bucket,
        key: &Key,
    ) -> Result<Option<u64>, Corrupt> {
        let Some((at, version)) = self.find(memory, bucket, key) else {
            return self.check_absence(memory, bucket, key).map(|()| None);
        };
        match record::rest_is_whole::<R, M>(memory, at, self.salt, key, version) {
            true => Ok(Some(version)),
            false => Err(not_as_expected(at)),
        }
    }

    /// Writes one field of `key`'s record. Returns its new version, or `None` if it is not present.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads invalid data. Nothing is then stored.
    pub fn update<M: FullMemory>(&self, memory: &mut M, key: &Key) -> Result<Option<u64>, Corrupt> {
        commit(memory, |memory| {
            latch::write(memory, self.latch(key), |memory| self.apply_update(memory, key))
        })
    }

    /// The update itself. The caller holds the latch.
    pub fn apply_update<M: FullMemory>(
        &self,
        memory: &mut M,
        key: &Key,
    ) -> Result<Option<u64>, Corrupt> {
        let bucket = self.bucket_at(key.item);
        let Some((at, version)) = self.find(memory, bucket, key) else {
            return self.check_absence(memory, bucket, key).map(|()| None);
        };
        record::update::<R, M>(memory, at, self.salt, key, version).map(Some)
    }

    /// Adds the record of `key`.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads invalid data. Nothing is then stored.
    pub fn insert<M: FullMemory>(&self, memory: &mut M, key: &Key) -> Result<Inserted, Corrupt> {
        commit(memory, |memory| {
            latch::write(memory, self.latch(key), |memory| self.apply_insert(memory, key))
        })
    }

    /// The insert itself. The caller holds the latch.
    pub fn apply_insert<M: FullMemory>(
        &self,
        memory: &mut M,
        key: &Key,
    ) -> Result<Inserted, Corrupt> {
        let bucket = self.bucket_at(key.item);
        let (mut tags, items) = self.items(memory, bucket)?;
        let (oldest, slot) = items.into_iter().zip(0..).fold((u64::MAX, 0), Ord::min);
        if items.contains(&key.item) {
            return Ok(Inserted::WasThere);
        }
        if key.item < oldest {
            return Ok(Inserted::TooOld);
        }
        tags.set(slot, key.number);
        memory.store(bucket.tags(), tags.0);
        record::store::<R, M>(memory, Self::record(bucket, slot), self.salt, key);
        Ok(Inserted::InPlaceOf(oldest))
    }

    /// The address of `key`'s record, if it is present, and the version in its first line.
    #[inline]
    fn find<M: FullMemory>(
        &self,
        memory: &mut M,
        bucket: Bucket,
        key: &Key,
    ) -> Option<(Addr, u64)> {
        let tags = Tags(memory.load(bucket.tags()));
        tags.matches(key.number, R::PER_BUCKET).find_map(|slot| {
            let at = Self::record(bucket, slot);
            record::version(memory, at, self.salt, key).map(|version| (at, version))
        })
    }

    /// Checks that `key`, which was not found, is not present and may be absent.
    #[cold]
    fn check_absence<M: FullMemory>(
        &self,
        memory: &mut M,
        bucket: Bucket,
        key: &Key,
    ) -> Result<(), Corrupt> {
        let (_, items) = self.items(memory, bucket)?;
        if let Some(slot) = items.iter().position(|&item| item == key.item) {
            return Err(not_as_expected(Self::record(bucket, slot)));
        }
        let outlived = items.iter().all(|&item| item > key.item);
        if outlived || key.item >= self.records() {
            return Ok(());
        }
        Err(Corrupt(format!("{} is lost from the bucket at {:?}", key.text(), bucket.tags())))
    }

    /// The tags and the items of a bucket. Checks the first line of each record. Slots that a small
    /// bucket does not have hold no item.
    fn items<M: FullMemory>(
        &self,
        memory: &mut M,
        bucket: Bucket,
    ) -> Result<(Tags, [u64; TAGS]), Corrupt> {
        let mut tags = Tags::default();
        let mut items = [u64::MAX; TAGS];
        for (slot, item) in items.iter_mut().enumerate().take(R::PER_BUCKET) {
            let at = Self::record(bucket, slot);
            let line = memory.line(at);
            let (told, version) = told(&line);
            let key = self.names.key(told);
            if line != first_line(self.salt, &key, version) || self.bucket_at(told) != bucket {
                return Err(not_as_expected(at));
            }
            tags.set(slot, key.number);
            *item = told;
        }
        if memory.load::<u64>(bucket.tags()) != tags.0 {
            return Err(Corrupt(format!("the tags at {:?} are not their records'", bucket.tags())));
        }
        Ok((tags, items))
    }

    /// Returns the bucket of `item`'s hash.
    #[inline]
    fn bucket_at(&self, item: u64) -> Bucket {
        let residue = if item < self.records() { item } else { item % self.records() };
        let bucket = self.spread.apply(residue) / Self::PER_BUCKET;
        let page = PageId(self.first_page.0 + bucket / R::BUCKETS);
        Self::bucket_of(page, bucket % R::BUCKETS)
    }

    #[inline]
    fn bucket_of(page: PageId, number: u64) -> Bucket {
        let head = page.start() + Self::records_before_head(page) * R::LINES * LINE_BYTES as u64;
        Bucket { page, number, head }
    }

    /// Returns the address of record `slot` of `bucket`.
    #[inline]
    fn record(bucket: Bucket, slot: usize) -> Addr {
        let record = bucket.number * Self::PER_BUCKET + slot as u64;
        let heads = u64::from(record >= Self::records_before_head(bucket.page));
        bucket.page.start() + (record * R::LINES + heads) * LINE_BYTES as u64
    }

    #[inline]
    fn records_before_head(page: PageId) -> u64 {
        page.0 % (Self::PER_PAGE + 1)
    }
}
