//! [`Page`]: a page of a tree of elements, as bytes in DRAM.
//!
//! ```text
//! 0–7    latch, never data
//! 8–15   level, a flag, garbage bytes, count of records, first byte of the records (never 0)
//! 16–23  neighbours of a root without a key, as in a large value
//! 24–31  elements in this page and below it
//! 32 …   a slot for each record, in order: its place and its length
//!        … records, which grow downwards from the end
//! ```
//!
//! A job that changes a collection holds the stripe of its key. So the pages need no latches. A
//! reader without the stripe may see any bytes: every access stays within the page, and the result
//! is read again.

use ebbtide_core::{Addr, FullMemory, LINE_BYTES, PAGE_BYTES};

/// Offset of the word with the level and the counts.
const WORD: usize = 8;

/// Offset of the neighbours of a root without a key.
const NEIGHBOURS: usize = 16;

/// Offset of the number of elements.
pub(super) const TOTAL: usize = 24;

const SLOTS: usize = 32;
const SLOT_BYTES: usize = 4;

/// Bytes of slots and records.
pub(super) const CAPACITY: usize = PAGE_BYTES - SLOTS;

/// The longest record. A page holds four, so a full page can always be divided.
pub(super) const RECORD_BYTES_MAX: usize = CAPACITY / 4 - SLOT_BYTES;

/// The bit of byte 9 of a root that is set once an element has pages of its own.
const HAS_PAGES: u8 = 1;

/// The contents of a page.
#[derive(Clone)]
pub(super) struct Page {
    bytes: Vec<u8>,
}

impl Page {
    /// A page without records.
    pub(super) fn empty(level: u8) -> Page {
        let mut page = Page { bytes: vec![0; PAGE_BYTES] };
        page.bytes[WORD] = level;
        page.set_half(WORD + 6, PAGE_BYTES);
        page
    }

    /// Loads the page at `at`.
    pub(super) fn load<M: FullMemory>(memory: &mut M, at: Addr) -> Page {
        let mut bytes = vec![0; PAGE_BYTES];
        memory.read_bytes(at, &mut bytes);
        Page { bytes }
    }

    /// Stores the words that differ from `before`, or all words that matter if there is no
    /// `before`. Lines that `before` does not use are stored whole. Their words may differ from
    /// those that were read, if the page was [forgotten](FullMemory::forget).
    pub(super) fn store<M: FullMemory>(&self, memory: &mut M, at: Addr, before: Option<&Page>) {
        let is_used = self.used_lines();
        let before = before.map(|before| (before, before.used_lines()));
        for start in (0..PAGE_BYTES).step_by(LINE_BYTES) {
            let line = &self.bytes[start..start + LINE_BYTES];
            let old = before.as_ref().filter(|(_, was_used)| start == 0 || was_used(start));
            let old = old.map(|(before, _)| &before.bytes[start..start + LINE_BYTES]);
            if old == Some(line) {
                continue;
            }
            let differs = |word: usize| {
                let word = word * 8..word * 8 + 8;
                old.is_none_or(|old| old[word.clone()] != line[word])
            };
            let first = usize::from(start == 0);
            let changed = (first..LINE_BYTES / 8).filter(|word| differs(*word)).count();
            if changed == 0 || old.is_none() && start > 0 && !is_used(start) {
                continue;
            }
            if changed > 2 && start > 0 {
                let mut words = [0u64; LINE_BYTES / 8];
                bytemuck::bytes_of_mut(&mut words).copy_from_slice(line);
                memory.store(at + start as u64, words);
                continue;
            }
            for word in (first..LINE_BYTES / 8).filter(|word| differs(*word)) {
                let bytes: [u8; 8] = line[word * 8..word * 8 + 8].try_into().unwrap_or_default();
                memory.store(at + (start + word * 8) as u64, u64::from_ne_bytes(bytes));
            }
        }
    }

    /// Returns whether a line holds slots or records.
    fn used_lines(&self) -> impl Fn(usize) -> bool + use<> {
        let (slots, heap) = (SLOTS + self.count() * SLOT_BYTES, self.heap());
        move |line| line < slots || line + LINE_BYTES > heap
    }

    fn half(&self, at: usize) -> usize {
        usize::from(self.bytes[at]) | usize::from(self.bytes[at + 1]) << 8
    }

    fn set_half(&mut self, at: usize, value: usize) {
        self.bytes[at..at + 2].copy_from_slice(&(value as u16).to_le_bytes());
    }

    /// 0 for leaves.
    pub(super) fn level(&self) -> u8 {
        self.bytes[WORD]
    }

    /// True if this is a page of a tree. In a large value, the last two bytes of the word are zero.
    pub(super) fn is_tree(&self) -> bool {
        self.half(WORD + 6) != 0
    }

    /// True if elements of the tree of this root may have pages of their own.
    pub(super) fn has_pages(&self) -> bool {
        self.bytes[WORD + 1] & HAS_PAGES != 0
    }

    pub(super) fn set_has_pages(&mut self) {
        self.bytes[WORD + 1] |= HAS_PAGES;
    }

    /// Takes over the neighbours of a root without a key.
    pub(super) fn keep_neighbours(&mut self, from: &Page) {
        self.bytes[NEIGHBOURS..TOTAL].copy_from_slice(&from.bytes[NEIGHBOURS..TOTAL]);
    }

    fn garbage(&self) -> usize {
        self.half(WORD + 2)
    }

    /// Number of records.
    pub(super) fn count(&self) -> usize {
        self.half(WORD + 4).min(CAPACITY / SLOT_BYTES)
    }

    fn heap(&self) -> usize {
        self.half(WORD + 6).min(PAGE_BYTES)
    }

    /// Number of elements in this page and below it.
    pub(super) fn total(&self) -> u64 {
        let bytes = self.bytes[TOTAL..TOTAL + 8].try_into().unwrap_or_default();
        u64::from_le_bytes(bytes)
    }

    pub(super) fn set_total(&mut self, total: u64) {
        self.bytes[TOTAL..TOTAL + 8].copy_from_slice(&total.to_le_bytes());
    }

    fn slot(&self, index: usize) -> (usize, usize) {
        let at = SLOTS + index * SLOT_BYTES;
        (self.half(at), self.half(at + 2))
    }

    /// The record at `index`; empty if a writer has torn the page.
    pub(super) fn record(&self, index: usize) -> &[u8] {
        if index >= self.count() {
            return &[];
        }
        let (at, length) = self.slot(index);
        self.bytes.get(at..at + length).unwrap_or_default()
    }

    /// The bytes of the record at `index`, to change them in place.
    pub(super) fn record_mut(&mut self, index: usize) -> &mut [u8] {
        let (at, length) = self.slot(index);
        self.bytes.get_mut(at..at + length).unwrap_or_default()
    }

    /// All records.
    pub(super) fn records(&self) -> Vec<Vec<u8>> {
        (0..self.count()).map(|index| self.record(index).to_vec()).collect()
    }

    /// Bytes that no slot and no record takes.
    pub(super) fn free(&self) -> usize {
        let taken = PAGE_BYTES - self.heap() - self.garbage().min(PAGE_BYTES - self.heap());
        CAPACITY.saturating_sub(self.count() * SLOT_BYTES + taken)
    }

    /// Bytes of slots and records.
    pub(super) fn used(&self) -> usize {
        CAPACITY - self.free()
    }

    /// True if a record of this many bytes fits.
    pub(super) fn fits(&self, bytes: usize) -> bool {
        bytes + SLOT_BYTES <= self.free()
    }

    /// True if the record at `index` may become one of this many bytes.
    pub(super) fn fits_instead(&self, index: usize, bytes: usize) -> bool {
        bytes <= self.free() + self.slot(index).1
    }

    /// Inserts a record, which fits, before the one at `index`.
    pub(super) fn insert(&mut self, index: usize, record: &[u8]) {
        let count = self.count();
        let slots = SLOTS + (count + 1) * SLOT_BYTES;
        if self.heap() < slots + record.len() {
            self.compact();
        }
        let heap = self.heap() - record.len();
        self.bytes[heap..heap + record.len()].copy_from_slice(record);
        let at = SLOTS + index * SLOT_BYTES;
        self.bytes.copy_within(at..SLOTS + count * SLOT_BYTES, at + SLOT_BYTES);
        self.set_half(at, heap);
        self.set_half(at + 2, record.len());
        self.set_half(WORD + 4, count + 1);
        self.set_half(WORD + 6, heap);
    }

    /// Removes the record at `index`.
    pub(super) fn remove(&mut self, index: usize) {
        let ((at, length), count) = (self.slot(index), self.count());
        if at == self.heap() {
            self.set_half(WORD + 6, at + length);
        } else {
            self.set_half(WORD + 2, self.garbage() + length);
        }
        let slot = SLOTS + index * SLOT_BYTES;
        self.bytes.copy_within(slot + SLOT_BYTES..SLOTS + count * SLOT_BYTES, slot);
        self.set_half(WORD + 4, count - 1);
    }

    /// Replaces the record at `index` by one that fits instead.
    pub(super) fn replace(&mut self, index: usize, record: &[u8]) {
        let (at, length) = self.slot(index);
        if length == record.len() {
            self.bytes[at..at + length].copy_from_slice(record);
        } else {
            self.remove(index);
            self.insert(index, record);
        }
    }

    /// Moves the records together, so that the gaps between them are free.
    fn compact(&mut self) {
        let records = self.records();
        self.fill(&records);
    }

    /// Makes these, which fit, the records of the page.
    pub(super) fn fill(&mut self, records: &[Vec<u8>]) {
        let mut heap = PAGE_BYTES;
        for (index, record) in records.iter().enumerate() {
            heap -= record.len();
            self.bytes[heap..heap + record.len()].copy_from_slice(record);
            self.set_half(SLOTS + index * SLOT_BYTES, heap);
            self.set_half(SLOTS + index * SLOT_BYTES + 2, record.len());
        }
        self.set_half(WORD + 2, 0);
        self.set_half(WORD + 4, records.len());
        self.set_half(WORD + 6, heap);
    }
}

/// Bytes that a record takes with its slot.
pub(super) fn bytes_of(record: &[u8]) -> usize {
    record.len() + SLOT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_core::Memory;
    use ebbtide_testbed::Plain;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn a_page_holds_the_records_of_a_list_and_is_loaded_as_it_was_stored() {
        let mut memory = Plain::zeroed(2 * PAGE_BYTES as u64);
        let at = Addr(PAGE_BYTES as u64);
        let mut rng = Pcg64Mcg::seed_from_u64(5);
        let (mut page, mut model) = (Page::empty(0), Vec::<Vec<u8>>::new());
        page.store(&mut memory, at, None);
        for step in 0..20_000 {
            let before = Page::load(&mut memory, at);
            let record = vec![step as u8; rng.random_range(0..300)];
            let index = rng.random_range(0..=model.len());
            match rng.random_range(0..4) {
                0 if index < model.len() => {
                    page.remove(index);
                    model.remove(index);
                }
                1 if index < model.len() && page.fits_instead(index, record.len()) => {
                    page.replace(index, &record);
                    model[index] = record;
                }
                _ if page.fits(record.len()) => {
                    page.insert(index, &record);
                    model.insert(index, record);
                }
                _ => {}
            }
            page.store(&mut memory, at, Some(&before));
            page = Page::load(&mut memory, at);
            assert_eq!(page.records(), model, "step {step}");
            let used: usize = model.iter().map(|record| bytes_of(record)).sum();
            assert_eq!(page.used(), used, "step {step}");
        }
    }

    /// A transaction that forgets a page reads zeros from it. Afterwards its other words may be as
    /// before it was forgotten.
    #[test]
    fn a_record_of_zeros_is_stored_over_what_a_forgotten_page_held() {
        let mut memory = Plain::zeroed(PAGE_BYTES as u64);
        let all = [0xeeee_eeee_eeee_eeee_u64; PAGE_BYTES / 8];
        (0..).zip(all).for_each(|(word, value)| memory.store(Addr(word * 8), value));
        let mut page = Page::empty(0);
        page.store(&mut memory, Addr(0), None);
        for length in [200, 2, 64, 1, 300] {
            let before = page.clone();
            page.insert(page.count(), &vec![0; length]);
            page.store(&mut memory, Addr(0), Some(&before));
        }
        assert_eq!(Page::load(&mut memory, Addr(0)).records(), page.records());
    }

    #[test]
    fn torn_bytes_never_lead_out_of_the_page() {
        let mut rng = Pcg64Mcg::seed_from_u64(6);
        for _ in 0..2_000 {
            let bytes = (0..PAGE_BYTES).map(|_| rng.random_range(0..=255)).collect();
            let page = Page { bytes };
            assert!(page.free() <= CAPACITY);
            (0..page.count()).for_each(|index| drop(page.record(index).to_vec()));
        }
    }
}
