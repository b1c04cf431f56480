//! A leaf: entries of any size in one page, found by their hash.
//!
//! Slots follow the header, one word an entry: 48 bits of hash and the entry's place. Entries grow down
//! from the end of the page. Slots are in no order, so that one more costs one word.

use ebbtide_core::{Addr, Memory, PAGE_BYTES};

use super::entry::{EntryHeader, EntryWords, has_key};
use super::key::Key;
use super::layout::{HEADER_WORDS, PAGE_HEADER_BYTES, PAGE_WORDS, PageHeader};

/// The most entries that are looked at: what was torn by a writer may claim any number.
const ENTRIES_MAX: u16 = (PAGE_WORDS - HEADER_WORDS) as u16 / 2;

/// A slot that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) index: u16,
    /// Where the entry lies.
    pub(super) at: Addr,
}

/// Where the entries of a page end.
pub(super) fn end(page: Addr) -> Addr {
    page + PAGE_BYTES as u64
}

fn slot_at(page: Addr, index: u16) -> Addr {
    page + PAGE_HEADER_BYTES + u64::from(index) * 8
}

fn entry_at(page: Addr, slot: u64) -> Addr {
    page + (slot & 0xffff) % PAGE_WORDS * 8
}

/// Calls `each` with every slot, its hash and where its entry lies, until it gives something.
pub(super) fn each_slot<M: Memory, R>(
    memory: &mut M,
    page: Addr,
    header: &PageHeader,
    mut each: impl FnMut(&mut M, u16, u64, Addr) -> Option<R>,
) -> Option<R> {
    let count = header.count.min(ENTRIES_MAX);
    for first in (0..count).step_by(8) {
        let line: [u64; 8] = memory.line(slot_at(page, first));
        for (index, slot) in (first..count).zip(line) {
            if let Some(found) = each(memory, index, slot >> 16, entry_at(page, slot)) {
                return Some(found);
            }
        }
    }
    None
}

/// Finds the entry of `key`.
pub(super) fn find<M: Memory>(
    memory: &mut M,
    page: Addr,
    header: &PageHeader,
    key: &Key<'_>,
) -> Option<Found> {
    each_slot(memory, page, header, |memory, index, hash, at| {
        let is_it = hash == key.hash && has_key(memory, at, end(page), key.bytes);
        is_it.then_some(Found { index, at })
    })
}

/// Words of slots and entries.
const WORDS: usize = PAGE_WORDS as usize - HEADER_WORDS as usize;

/// The leaf has too little room for an entry.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

/// Adds an entry of `hash`. The page's latch is held.
pub(super) fn insert<M: Memory>(
    memory: &mut M,
    page: Addr,
    header: &mut PageHeader,
    hash: u64,
    words: &[u64],
) -> Result<(), NoRoom> {
    let room = |header: &PageHeader| {
        u64::from(header.heap).saturating_sub(HEADER_WORDS + u64::from(header.count)) as usize
    };
    let needed = words.len() + 1;
    if room(header) < needed {
        if room(header) + usize::from(header.garbage) < needed {
            return Err(NoRoom);
        }
        let entries = read(memory, page, header);
        write(memory, page, header, &entries);
    }
    header.heap -= words.len() as u16;
    store_words(memory, page + u64::from(header.heap) * 8, words);
    memory.store(slot_at(page, header.count), hash << 16 | u64::from(header.heap));
    header.count += 1;
    header.store(memory, page);
    Ok(())
}

/// Removes an entry that was found. The page's latch is held.
pub(super) fn remove<M: Memory>(memory: &mut M, page: Addr, header: &mut PageHeader, found: Found) {
    let words = EntryHeader::decode(memory.load(found.at)).words() as u16;
    header.count -= 1;
    if found.index != header.count {
        let last: u64 = memory.load(slot_at(page, header.count));
        memory.store(slot_at(page, found.index), last);
    }
    if found.at == page + u64::from(header.heap) * 8 {
        header.heap += words;
    } else {
        header.garbage += words;
    }
    header.store(memory, page);
}

/// Replaces an entry that was found by one of the same hash.
pub(super) fn replace<M: Memory>(
    memory: &mut M,
    page: Addr,
    header: &mut PageHeader,
    found: Found,
    hash: u64,
    words: &[u64],
) -> Result<(), NoRoom> {
    let old_words = EntryHeader::decode(memory.load(found.at)).words();
    if old_words == words.len() {
        store_words(memory, found.at, words);
        return Ok(());
    }
    let free = free_words(header) + old_words;
    if free < words.len() {
        return Err(NoRoom);
    }
    remove(memory, page, header, found);
    insert(memory, page, header, hash, words)
}

/// Words that no slot and no entry takes.
pub(super) fn free_words(header: &PageHeader) -> usize {
    let heap = PAGE_WORDS as usize - usize::from(header.heap) - usize::from(header.garbage);
    WORDS - usize::from(header.count) - heap
}

fn store_words<M: Memory>(memory: &mut M, at: Addr, words: &[u64]) {
    super::layout::copy_in(memory, at, bytemuck::cast_slice(words));
}

/// An entry taken out of its page.
pub(super) type Taken = (u64, EntryWords);

/// All entries of a leaf.
pub(super) fn read<M: Memory>(memory: &mut M, page: Addr, header: &PageHeader) -> Vec<Taken> {
    let mut entries = Vec::with_capacity(header.count.into());
    each_slot(memory, page, header, |memory, _, hash, at| {
        let words = EntryHeader::decode(memory.load(at)).words();
        let words = words.min(((end(page).0 - at.0) / 8) as usize);
        let mut bytes = Vec::new();
        super::layout::copy_out(memory, at, words * 8, &mut bytes);
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        entries.push((hash, words.collect()));
        None::<()>
    });
    entries
}

/// Writes a leaf of these entries, and its header with their place. They fit.
pub(super) fn write<M: Memory>(
    memory: &mut M,
    page: Addr,
    header: &mut PageHeader,
    entries: &[Taken],
) {
    header.count = entries.len() as u16;
    header.garbage = 0;
    header.heap = PAGE_WORDS as u16;
    for (index, (hash, words)) in entries.iter().enumerate() {
        header.heap -= words.len() as u16;
        store_words(memory, page + u64::from(header.heap) * 8, words);
        memory.store(slot_at(page, index as u16), hash << 16 | u64::from(header.heap));
    }
    header.store(memory, page);
}

/// Where to divide `entries`, which are sorted by hash: the index of the first of the right half, so
/// that both halves have about as many words. `None` if all have the same hash.
pub(super) fn middle(entries: &[Taken]) -> Option<usize> {
    let total: usize = entries.iter().map(|(_, words)| words.len() + 1).sum();
    let mut best = None;
    let mut left = 0;
    for (index, pair) in entries.windows(2).enumerate() {
        left += pair[0].1.len() + 1;
        let off = left.abs_diff(total - left);
        if pair[0].0 != pair[1].0 && best.is_none_or(|(least, _)| off < least) {
            best = Some((off, index + 1));
        }
    }
    best.map(|(_, index)| index)
}

/// From which of `entries`, which are sorted by hash, to move them to a leaf with so many words free, so that both
/// have about as many words. `None` if moving any would not make them more alike.
pub(super) fn balance(entries: &[Taken], free: usize) -> Option<usize> {
    let left: usize = entries.iter().map(|(_, words)| words.len() + 1).sum();
    let mut best = (left.abs_diff(WORDS - free), None);
    let mut moved = 0;
    for (index, pair) in entries.windows(2).enumerate().rev() {
        moved += pair[1].1.len() + 1;
        if moved > free {
            break;
        }
        let off = (left - moved).abs_diff(WORDS - free + moved);
        if pair[0].0 != pair[1].0 && off < best.0 {
            best = (off, Some(index + 1));
        }
    }
    best.1
}
