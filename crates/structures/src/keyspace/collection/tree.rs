//! [`Tree`]: elements in order, in a B+-tree of pages that counts them.
//!
//! A leaf's record is a key and a payload. An inner page's record is a child, the number of
//! elements below it, and a separator. So an element is found by its key or by its rank. Trees of a
//! list have no keys.
//!
//! The root keeps its page: a root that is divided moves its records to two new pages. So the entry
//! of the collection changes only when the form changes. The pages that a change takes are taken
//! before it begins, so a change on a full store has no effect.

use std::cmp::Ordering;

use ebbtide_core::{Addr, FullMemory};

use super::super::entry::{Place, VALUE_BYTES_MAX, WHOLE_BYTES_MAX};
use super::super::layout::{Numbers, PageNumber};
use super::super::pages::Full;
use super::super::values::{self, Listed, pages_of};
use super::super::varint::{number_bytes, take_number};
use super::super::{Keyspace, Large, detached};
use super::page::{self, CAPACITY, Page, RECORD_BYTES_MAX, TOTAL};

/// The longest key of an element.
pub(super) const KEY_BYTES_MAX: usize = RECORD_BYTES_MAX - CHILD_BYTES - 4;

/// Bytes of a child and its count in front of the separator.
const CHILD_BYTES: usize = 10;

/// The most levels of a tree. A page that a writer has torn may claim any number.
const LEVELS_MAX: usize = 16;

/// A page with fewer bytes of records is joined with a neighbour if both then fill at most
/// [`JOINED_BYTES_MAX`].
const FEW_BYTES: usize = CAPACITY / 4;
const JOINED_BYTES_MAX: usize = CAPACITY / 4 * 3;

/// Children or elements that one step of a removal frees.
const FREED_AT_ONCE: usize = 32;

/// A key and its payload.
pub(super) type Element = (Vec<u8>, Vec<u8>);

/// How an element is found.
#[derive(Clone, Copy)]
pub(super) enum Seek<'a> {
    Key(&'a [u8]),
    Rank(u64),
}

/// A page on the way to an element, and the index of the record there.
struct Step {
    number: PageNumber,
    page: Page,
    index: usize,
}

/// The way to a place in a leaf.
struct Path {
    steps: Vec<Step>,
    /// True if the element is there.
    found: bool,
}

/// A tree of elements, by its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tree {
    pub(super) root: PageNumber,
}

/// The payload of an element.
#[derive(Clone, Copy)]
pub(super) enum Payload<'a> {
    /// In DRAM.
    Bytes(&'a [u8]),
    /// In a value without a key, which becomes part of the element.
    Large(&'a Large),
}

/// Access to the pages of a tree.
pub(super) struct Access<'a, M> {
    pub(super) keyspace: Keyspace,
    pub(super) memory: &'a mut M,
}

impl<M: FullMemory> Access<'_, M> {
    fn address(&self, number: PageNumber) -> Addr {
        self.keyspace.pages.address_of_any(number)
    }

    fn load(&mut self, number: PageNumber) -> Page {
        let at = self.address(number);
        Page::load(self.memory, at)
    }

    fn store(&mut self, number: PageNumber, page: &Page, before: Option<&Page>) {
        let at = self.address(number);
        page.store(self.memory, at, before);
    }

    fn give(&mut self, numbers: &[PageNumber]) {
        numbers.iter().for_each(|number| self.keyspace.pages.give(self.memory, *number));
    }

    /// Frees the pages of an element's payload. No job reads them without the stripe of the key.
    fn give_payload(&mut self, pages: &Place) {
        match pages {
            Place::Listed(_) | Place::Tailed(_) => self.give(pages.numbers()),
            Place::Chained(lists) => {
                if let Some(first) = lists.first() {
                    detached::give(&self.keyspace.pages, self.memory, *first);
                }
            }
            Place::Inline | Place::Collection { .. } => {}
        }
    }
}

impl Tree {
    /// Makes a tree without elements.
    pub(super) fn create<M: FullMemory>(access: &mut Access<'_, M>) -> Result<Tree, Full> {
        let root = access.keyspace.pages.take_for_data(access.memory)?;
        access.store(root, &Page::empty(0), None);
        Ok(Tree { root })
    }

    /// Number of elements.
    pub(super) fn total<M: FullMemory>(&self, access: &mut Access<'_, M>) -> u64 {
        access.memory.load(access.address(self.root) + TOTAL as u64)
    }

    /// The bytes of records, if the root is a leaf without elements in pages of their own.
    pub(super) fn leaf_bytes<M: FullMemory>(&self, access: &mut Access<'_, M>) -> Option<usize> {
        let page = access.load(self.root);
        (page.level() == 0 && !page.has_pages()).then(|| page.used())
    }

    /// Bytes of pages, estimated from the first leaf.
    pub(super) fn estimated_bytes<M: FullMemory>(&self, access: &mut Access<'_, M>) -> u64 {
        let Some(path) = self.path(access, Seek::Rank(0)) else { return 0 };
        let leaf = path.steps.last().map_or(1, |step| step.page.count().max(1));
        (self.total(access) / leaf as u64 + path.steps.len() as u64) * 4096
    }

    /// The way to an element, or to the place where it belongs. `None` if a writer has torn a page.
    fn path<M: FullMemory>(&self, access: &mut Access<'_, M>, seek: Seek<'_>) -> Option<Path> {
        let (mut steps, mut number, mut seek) = (Vec::with_capacity(4), self.root, seek);
        let mut level = None;
        loop {
            let page = access.load(number);
            if level.is_some_and(|level| page.level() != level) || steps.len() > LEVELS_MAX {
                return None;
            }
            if page.level() == 0 {
                let (index, found) = in_leaf(&page, seek)?;
                steps.push(Step { number, page, index });
                return Some(Path { steps, found });
            }
            level = page.level().checked_sub(1);
            let index = match &mut seek {
                Seek::Key(key) => child_of_key(&page, key)?,
                Seek::Rank(rank) => child_of_rank(&page, rank)?,
            };
            let (child, ..) = child(page.record(index))?;
            steps.push(Step { number, page, index });
            number = child;
        }
    }

    /// Finds the element of a key: its rank and its payload.
    pub(super) fn find<M: FullMemory>(
        &self,
        access: &mut Access<'_, M>,
        key: &[u8],
    ) -> Option<(u64, Vec<u8>)> {
        let path = self.path(access, Seek::Key(key))?;
        let step = path.steps.last().filter(|_| path.found)?;
        let (_, payload) = element(access, step.page.record(step.index))?;
        Some((path.rank(), payload))
    }

    /// Number of elements whose keys are less than `key`.
    pub(super) fn lower_bound<M: FullMemory>(&self, access: &mut Access<'_, M>, key: &[u8]) -> u64 {
        self.path(access, Seek::Key(key)).map_or(0, |path| path.rank())
    }

    /// Appends the elements from `rank` on, of one leaf, to `into`; at most `most`. Returns false
    /// if there is none.
    pub(super) fn read<M: FullMemory>(
        &self,
        access: &mut Access<'_, M>,
        rank: u64,
        most: usize,
        into: &mut Vec<Element>,
    ) -> bool {
        let Some(path) = self.path(access, Seek::Rank(rank)) else { return false };
        let Some(Step { page, index, .. }) = path.steps.last() else { return false };
        let before = into.len();
        for at in (*index..page.count()).take(most) {
            match element(access, page.record(at)) {
                Some(element) => into.push(element),
                None => break,
            }
        }
        into.len() > before
    }

    /// Sets the payload of a key, or inserts an element at a rank. Returns true if the element is
    /// new.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub(super) fn put<M: FullMemory>(
        &self,
        access: &mut Access<'_, M>,
        seek: Seek<'_>,
        payload: Payload<'_>,
    ) -> Result<bool, Full> {
        let key = if let Seek::Key(key) = seek { key } else { &[] };
        let path = self.path(access, seek).expect("the stripe is held");
        let replaced = path.found && matches!(seek, Seek::Key(_));
        self.write(access, path, replaced, key, payload)?;
        Ok(!replaced)
    }

    /// Replaces the payload of the element at `rank`, which is there.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub(super) fn replace<M: FullMemory>(
        &self,
        access: &mut Access<'_, M>,
        rank: u64,
        payload: Payload<'_>,
    ) -> Result<(), Full> {
        let path = self.path(access, Seek::Rank(rank)).expect("the stripe is held");
        let step = path.steps.last().expect("a leaf");
        let key = key_of(step.page.record(step.index)).to_vec();
        self.write(access, path, true, &key, payload)
    }

    fn write<M: FullMemory>(
        &self,
        access: &mut Access<'_, M>,
        path: Path,
        replaced: bool,
        key: &[u8],
        payload: Payload<'_>,
    ) -> Result<(), Full> {
        let step = path.steps.last().expect("a leaf");
        let old = if replaced { pages_in(step.page.record(step.index)) } else { None };
        let (record, taken) = encode(access, key, payload)?;
        let needed = path.pages_needed(replaced, record.len()) as u64;
        let spare = match access.keyspace.pages.take_all_for_data(access.memory, needed) {
            Ok(spare) => spare,
            Err(full) => {
                access.give(&taken);
                return Err(full);
            }
        };
        let in_pages = pages_in(&record).is_some();
        self.apply(access, path, replaced, record, spare);
        if in_pages {
            self.mark_pages(access);
        }
        if let Some(old) = old {
            access.give_payload(&old);
        }
        if let Payload::Large(large) = payload {
            detached::remove(&access.keyspace, access.memory, large.id());
        }
        Ok(())
    }

    /// Notes that elements may have pages of their own.
    fn mark_pages<M: FullMemory>(&self, access: &mut Access<'_, M>) {
        let before = access.load(self.root);
        if !before.has_pages() {
            let mut page = before.clone();
            page.set_has_pages();
            access.store(self.root, &page, Some(&before));
        }
    }

    /// Inserts or replaces a record at the end of `path`, and divides pages that are full. `spare`
    /// pages suffice.
    #[expect(clippy::too_many_lines, reason = "one walk up the path, whose steps share its state")]
    fn apply<M: FullMemory>(
        &self,
        access: &mut Access<'_, M>,
        mut path: Path,
        replaced: bool,
        record: Vec<u8>,
        mut spare: Numbers,
    ) {
        let more = u64::from(!replaced);
        let mut write = Some((record, replaced));
        let mut divided = None;
        while let Some(Step { number, mut page, index }) = path.steps.pop() {
            let before = page.clone();
            page.set_total(page.total() + more);
            let mut at = index;
            if page.level() > 0 {
                let moved = divided.take().map_or(0, |(total, record): (u64, Vec<u8>)| {
                    write = Some((record, false));
                    at = index + 1;
                    total
                });
                add_to_child(&mut page, index, more as i64 - moved as i64);
            }
            let Some((record, replaces)) = write.take() else {
                access.store(number, &page, Some(&before));
                continue;
            };
            let fits = if replaces {
                page.fits_instead(at, record.len())
            } else {
                page.fits(record.len())
            };
            if fits {
                if replaces {
                    page.replace(at, &record);
                } else {
                    page.insert(at, &record);
                }
                access.store(number, &page, Some(&before));
                continue;
            }
            let mut records = page.records();
            if replaces {
                records[at] = record;
            } else {
                records.insert(at, record);
            }
            let middle = middle(&records, (!replaces).then_some(at));
            let right = records.split_off(middle);
            let separator = separator(page.level(), &records, &right);
            let new = spare.pop().expect("it was taken");
            let total = self.fill_new(access, new, page.level(), &right);
            if number == self.root {
                let other = spare.pop().expect("it was taken");
                let left = self.fill_new(access, other, page.level(), &records);
                let mut root = Page::empty(page.level() + 1);
                if page.has_pages() {
                    root.set_has_pages();
                }
                root.fill(&[encode_child(other, left, &[]), encode_child(new, total, &separator)]);
                root.set_total(left + total);
                // The root may be in a list of values without a key, which its header names.
                root.keep_neighbours(&before);
                access.store(number, &root, Some(&before));
            } else {
                page.fill(&records);
                page.set_total(page.total() - total);
                access.store(number, &page, Some(&before));
                divided = Some((total, encode_child(new, total, &separator)));
            }
        }
        access.give(&spare);
    }

    /// Writes a new page. Returns the number of its elements.
    fn fill_new<M: FullMemory>(
        &self,
        access: &mut Access<'_, M>,
        number: PageNumber,
        level: u8,
        records: &[Vec<u8>],
    ) -> u64 {
        let mut page = Page::empty(level);
        page.fill(records);
        page.set_total(total_of(level, records));
        access.store(number, &page, None);
        page.total()
    }

    /// Removes an element. Returns its key and payload; `None` if it is not there.
    pub(super) fn remove<M: FullMemory>(
        &self,
        access: &mut Access<'_, M>,
        seek: Seek<'_>,
    ) -> Option<Element> {
        let mut path = self.path(access, seek)?;
        let step = path.steps.last().filter(|_| path.found)?;
        let gone = element(access, step.page.record(step.index))?;
        if let Some(pages) = pages_in(step.page.record(step.index)) {
            access.give_payload(&pages);
        }
        let mut below: Option<Page> = None;
        while let Some(Step { number, mut page, index }) = path.steps.pop() {
            let before = page.clone();
            page.set_total(page.total() - 1);
            match below {
                None => page.remove(index),
                Some(below) => {
                    add_to_child(&mut page, index, -1);
                    self.shrink(access, &mut page, index, &below);
                }
            }
            let is_root = number == self.root;
            if is_root && page.level() > 0 && page.count() <= 1 {
                self.lower(access, &before, &mut page);
            }
            access.store(number, &page, Some(&before));
            below = Some(page);
        }
        Some(gone)
    }

    /// Frees the child at `index` of `page` if it is empty, or joins it with a neighbour if both
    /// are small. `below` is the child.
    fn shrink<M: FullMemory>(
        &self,
        access: &mut Access<'_, M>,
        page: &mut Page,
        index: usize,
        below: &Page,
    ) {
        let Some((number, ..)) = child(page.record(index)) else { return };
        if below.count() == 0 {
            page.remove(index);
            access.give(&[number]);
            return;
        }
        if below.used() >= FEW_BYTES || page.count() < 2 {
            return;
        }
        let left = if index + 1 < page.count() { index } else { index - 1 };
        let (one, total, _) = child(page.record(left)).unwrap_or_default();
        let (other, more, separator) = child(page.record(left + 1)).unwrap_or_default();
        let separator = separator.to_vec();
        let (before, from) = (access.load(one), access.load(other));
        if before.used() + from.used() > JOINED_BYTES_MAX {
            return;
        }
        let mut records = before.records();
        let first = records.len();
        records.append(&mut from.records());
        if from.level() > 0 {
            // Keys below the first child may be less than its own separator.
            records[first].truncate(CHILD_BYTES);
            records[first].extend_from_slice(&separator);
        }
        let mut joined = before.clone();
        joined.fill(&records);
        joined.set_total(total + more);
        access.store(one, &joined, Some(&before));
        add_to_child(page, left, more as i64);
        page.remove(left + 1);
        access.give(&[other]);
    }

    /// Moves the records of the root's only child to the root.
    fn lower<M: FullMemory>(&self, access: &mut Access<'_, M>, before: &Page, root: &mut Page) {
        while root.level() > 0 && root.count() <= 1 {
            let mut lower = Page::empty(0);
            if let Some((number, ..)) = child(root.record(0)) {
                let below = access.load(number);
                lower = Page::empty(below.level());
                lower.fill(&below.records());
                lower.set_total(below.total());
                access.give(&[number]);
            }
            if before.has_pages() {
                lower.set_has_pages();
            }
            lower.keep_neighbours(before);
            *root = lower;
        }
    }

    /// Frees some pages of a tree that no key has. Returns false once only the root is left.
    pub(super) fn reduce<M: FullMemory>(&self, access: &mut Access<'_, M>) -> bool {
        let (mut way, mut number) = (Vec::new(), self.root);
        let has_pages = access.load(self.root).has_pages();
        let deepest = if has_pages { 0 } else { 1 };
        loop {
            let page = access.load(number);
            let last = page.count().checked_sub(1).and_then(|last| child(page.record(last)));
            let below = last.map(|(child, ..)| child).filter(|_| page.level() > deepest);
            way.push((number, page));
            match below {
                Some(child) => number = child,
                None => break,
            }
        }
        while let Some((number, mut page)) = way.pop() {
            let before = page.clone();
            let level = page.level();
            if level <= deepest {
                for _ in 0..FREED_AT_ONCE.min(page.count()) {
                    let last = page.count() - 1;
                    let record = page.record(last);
                    match level {
                        0 => pages_in(record).iter().for_each(|pages| access.give_payload(pages)),
                        _ => {
                            child(record).into_iter().for_each(|(child, ..)| access.give(&[child]))
                        }
                    }
                    page.remove(last);
                }
            } else if let Some(last) = page.count().checked_sub(1) {
                // The child below was freed.
                page.remove(last);
            }
            if number == self.root || page.count() > 0 {
                access.store(number, &page, Some(&before));
                return page.count() > 0;
            }
            access.give(&[number]);
        }
        false
    }
}

impl Path {
    /// Number of elements before the place.
    fn rank(&self) -> u64 {
        let before = |step: &Step| match step.page.level() {
            0 => step.index as u64,
            _ => (0..step.index)
                .filter_map(|index| child(step.page.record(index)))
                .map(|(_, total, _)| total)
                .sum(),
        };
        self.steps.iter().map(before).sum()
    }

    /// Pages that a record of this many bytes may need at the end of the path.
    fn pages_needed(&self, replaced: bool, bytes: usize) -> usize {
        let mut needed = 0;
        for (depth, step) in self.steps.iter().enumerate().rev() {
            let fits = match step.page.level() {
                0 if replaced => step.page.fits_instead(step.index, bytes),
                0 => step.page.fits(bytes),
                _ => step.page.fits(RECORD_BYTES_MAX),
            };
            if fits {
                break;
            }
            needed += 1 + usize::from(depth == 0);
        }
        needed
    }
}

/// The index of an element in a leaf, and whether it is there.
fn in_leaf(page: &Page, seek: Seek<'_>) -> Option<(usize, bool)> {
    match seek {
        Seek::Rank(rank) => {
            let rank = usize::try_from(rank).ok().filter(|rank| *rank <= page.count())?;
            Some((rank, rank < page.count()))
        }
        Seek::Key(key) => {
            let (mut from, mut to) = (0, page.count());
            while from < to {
                let middle = from + (to - from) / 2;
                match key_of(page.record(middle)).cmp(key) {
                    Ordering::Less => from = middle + 1,
                    Ordering::Greater => to = middle,
                    Ordering::Equal => return Some((middle, true)),
                }
            }
            Some((from, false))
        }
    }
}

fn child_of_key(page: &Page, key: &[u8]) -> Option<usize> {
    // The first child has everything before the second's separator.
    let (mut from, mut to) = (1, page.count());
    while from < to {
        let middle = from + (to - from) / 2;
        if child(page.record(middle))?.2 <= key {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    Some(from - 1)
}

/// The child that has the element at `rank`, which becomes the rank below that child.
fn child_of_rank(page: &Page, rank: &mut u64) -> Option<usize> {
    let last = page.count().checked_sub(1)?;
    for index in 0..last {
        let (_, total, _) = child(page.record(index))?;
        if *rank < total {
            return Some(index);
        }
        *rank -= total;
    }
    Some(last)
}

/// The child, the number of elements below it, and the separator of a record.
fn child(record: &[u8]) -> Option<(PageNumber, u64, &[u8])> {
    let (number, rest) = record.split_first_chunk::<4>()?;
    let (total, separator) = rest.split_first_chunk::<6>()?;
    let mut wide = [0; 8];
    wide[..6].copy_from_slice(total);
    Some((u32::from_le_bytes(*number), u64::from_le_bytes(wide), separator))
}

fn encode_child(number: PageNumber, total: u64, separator: &[u8]) -> Vec<u8> {
    let mut record = number.to_le_bytes().to_vec();
    record.extend_from_slice(&total.to_le_bytes()[..6]);
    record.extend_from_slice(separator);
    record
}

/// Adds to the number of elements below the child at `index`.
fn add_to_child(page: &mut Page, index: usize, more: i64) {
    let Some((_, total, _)) = child(page.record(index)) else { return };
    let total = total.wrapping_add_signed(more).to_le_bytes();
    page.record_mut(index)[4..CHILD_BYTES].copy_from_slice(&total[..6]);
}

fn total_of(level: u8, records: &[Vec<u8>]) -> u64 {
    match level {
        0 => records.len() as u64,
        _ => records.iter().filter_map(|record| child(record)).map(|(_, total, _)| total).sum(),
    }
}

/// The key of a leaf's record.
fn key_of(record: &[u8]) -> &[u8] {
    let mut rest = record;
    let head = take_number(&mut rest).unwrap_or(0);
    rest.get(..(head >> 1) as usize).unwrap_or_default()
}

/// The key of a leaf's record, whether its payload has pages of its own, and the bytes after the
/// key.
fn parts(record: &[u8]) -> Option<(&[u8], bool, &[u8])> {
    let mut rest = record;
    let head = take_number(&mut rest)?;
    let (key, payload) = rest.split_at_checked((head >> 1) as usize)?;
    Some((key, head & 1 == 1, payload))
}

/// The pages of the payload of a leaf's record, if it has some.
fn pages_in(record: &[u8]) -> Option<Place> {
    let (_, in_pages, mut rest) = parts(record)?;
    if !in_pages {
        return None;
    }
    let length = take_number(&mut rest)?;
    let numbers = rest.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number));
    Some(match length <= WHOLE_BYTES_MAX as u64 {
        true => Place::Listed(numbers.collect()),
        false => Place::Chained(numbers.collect()),
    })
}

/// Reads the key and the payload of a leaf's record. `None` if a writer has torn it.
fn element<M: FullMemory>(access: &mut Access<'_, M>, record: &[u8]) -> Option<Element> {
    let (key, in_pages, mut rest) = parts(record)?;
    if !in_pages {
        return Some((key.to_vec(), rest.to_vec()));
    }
    let length = take_number(&mut rest).filter(|length| *length <= VALUE_BYTES_MAX)? as usize;
    let (place, mut payload) = (pages_in(record)?, Vec::new());
    values::read(&access.keyspace.pages, access.memory, &place, (0, length), &mut payload);
    Some((key.to_vec(), payload))
}

/// A leaf's record, and the pages that were taken for it. A long payload is written to pages of its
/// own.
fn encode<M: FullMemory>(
    access: &mut Access<'_, M>,
    key: &[u8],
    payload: Payload<'_>,
) -> Result<(Vec<u8>, Numbers), Full> {
    let payload = match payload {
        Payload::Bytes(payload) => payload,
        Payload::Large(large) => return Ok((encode_large(key, large), Numbers::new())),
    };
    let in_pages = 4 + key.len() + payload.len() > RECORD_BYTES_MAX;
    let mut record = Vec::with_capacity(4 + key.len() + payload.len());
    record.extend_from_slice(&number_bytes((key.len() as u64) << 1 | u64::from(in_pages)));
    record.extend_from_slice(key);
    if !in_pages {
        record.extend_from_slice(payload);
        return Ok((record, Numbers::new()));
    }
    let mut listed = Listed(Numbers::new());
    let wanted = pages_of(payload.len() as u64) as usize;
    let pages = access.keyspace.pages;
    listed.resize(&pages, access.memory, wanted)?;
    let place = Place::Listed(listed.0.clone());
    values::write(&pages, access.memory, &place, 0, payload);
    record.extend_from_slice(&number_bytes(payload.len() as u64));
    listed.0.iter().for_each(|number| record.extend_from_slice(&number.to_le_bytes()));
    Ok((record, listed.0))
}

/// A leaf's record whose payload is a large value.
fn encode_large(key: &[u8], large: &Large) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend_from_slice(&number_bytes((key.len() as u64) << 1 | 1));
    record.extend_from_slice(key);
    record.extend_from_slice(&number_bytes(large.bytes));
    large.lists().iter().for_each(|list| record.extend_from_slice(&list.to_le_bytes()));
    record
}

/// The index at which records are divided. If the one at `new` was added at an end, the other page
/// stays as full as it was.
fn middle(records: &[Vec<u8>], new: Option<usize>) -> usize {
    let last = records.len() - 1;
    match new {
        Some(at) if at == last => return last,
        Some(0) => return 1,
        _ => {}
    }
    let all: usize = records.iter().map(|record| page::bytes_of(record)).sum();
    let (mut left, mut index) = (0, 0);
    while index < last && left + page::bytes_of(&records[index]) / 2 < all / 2 {
        left += page::bytes_of(&records[index]);
        index += 1;
    }
    index.max(1)
}

/// The shortest separator between two pages. Both have records.
fn separator(level: u8, left: &[Vec<u8>], right: &[Vec<u8>]) -> Vec<u8> {
    if level > 0 {
        return child(&right[0]).map_or(Vec::new(), |(.., separator)| separator.to_vec());
    }
    let (before, after) = (key_of(&left[left.len() - 1]), key_of(&right[0]));
    let common = before.iter().zip(after).take_while(|(one, other)| one == other).count();
    after[..after.len().min(common + 1)].to_vec()
}
