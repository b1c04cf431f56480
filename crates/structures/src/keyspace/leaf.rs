//! A leaf: entries of any size in one page, found by their hash.
//!
//! Slots follow the header, half a word for each entry: 20 bits of its hash, and its place in the
//! page. Entries grow down from the end of the page. Slots are in no order, so a new slot costs one
//! word.

use ebbtide_core::{Addr, FullMemory, PAGE_BYTES};
use smallvec::SmallVec;

use super::entry::{ENTRY_BYTES_MIN, EntryBytes, entry_bytes, has_key, key_in};
use super::key::Key;
use super::layout::{LEAF_BYTES, PAGE_HEADER_BYTES, PageHeader, SLOT_BYTES, copy_in, copy_out};
use super::order::Order;

/// The most entries that are read. A header that a writer has torn may claim any number.
const ENTRIES_MAX: u16 = (LEAF_BYTES / (SLOT_BYTES + ENTRY_BYTES_MIN)) as u16;

/// Slots in a line.
const LINE_SLOTS: usize = 64 / SLOT_BYTES;

/// Bits of a slot for the place of the entry.
const PLACE_BITS: u32 = 12;

/// A leaf with more bytes of entries is not joined.
const SPARSE_BYTES_MAX: usize = LEAF_BYTES / 16 * 11;

/// In a leaf with more entries no gap is looked for. To move them together costs less, as it is
/// done once for many entries that come.
const GAP_ENTRIES_MAX: u16 = 16;

/// A slot that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    index: u16,
    /// Where the entry lies.
    pub(super) at: Addr,
}

/// The extra bytes of an entry that a leaf has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom {
    pub(super) hash: u64,
    pub(super) bytes: usize,
}

/// Returns the end of the entries of a page.
pub(super) fn end(page: Addr) -> Addr {
    page + PAGE_BYTES as u64
}

fn slot_of(hash: u64, place: u16) -> u32 {
    (hash << PLACE_BITS) as u32 | u32::from(place)
}

/// Returns the bits of a hash that a slot has.
fn tag(hash: u64) -> u32 {
    slot_of(hash, 0)
}

fn entry_at(page: Addr, slot: u32) -> Addr {
    page + u64::from(slot) % (1 << PLACE_BITS)
}

/// Returns the address of the slots of an even index and the next.
fn slots_at(page: Addr, index: u16) -> Addr {
    page + PAGE_HEADER_BYTES + u64::from(index / 2) * 8
}

fn load_slot<M: FullMemory>(memory: &mut M, page: Addr, index: u16) -> u32 {
    memory.load::<[u32; 2]>(slots_at(page, index))[usize::from(index) % 2]
}

fn store_slot<M: FullMemory>(memory: &mut M, page: Addr, index: u16, slot: u32) {
    let mut slots: [u32; 2] = memory.load(slots_at(page, index));
    slots[usize::from(index) % 2] = slot;
    memory.store(slots_at(page, index), slots);
}

/// Calls `each` with every slot, its index and the address of its entry, until it returns `Some`.
fn each_slot<M: FullMemory, R>(
    memory: &mut M,
    page: Addr,
    header: &PageHeader,
    mut each: impl FnMut(&mut M, u16, u32, Addr) -> Option<R>,
) -> Option<R> {
    let count = header.count.min(ENTRIES_MAX);
    for first in (0..count).step_by(LINE_SLOTS) {
        let line: [u32; LINE_SLOTS] = memory.load(slots_at(page, first));
        for (index, slot) in (first..count).zip(line) {
            if let Some(found) = each(memory, index, slot, entry_at(page, slot)) {
                return Some(found);
            }
        }
    }
    None
}

/// Calls `each` with the address of every entry.
pub(super) fn each_entry<M: FullMemory>(
    memory: &mut M,
    page: Addr,
    header: &PageHeader,
    mut each: impl FnMut(&mut M, Addr),
) {
    each_slot(memory, page, header, |memory, _, _, at| {
        each(memory, at);
        None::<()>
    });
}

/// Calls `each` with the place of every entry, in the order of their slots.
pub(super) fn each_found<M: FullMemory>(
    memory: &mut M,
    page: Addr,
    header: &PageHeader,
    mut each: impl FnMut(&mut M, Found),
) {
    each_slot(memory, page, header, |memory, index, _, at| {
        each(memory, Found { index, at });
        None::<()>
    });
}

/// Finds the entry of `key`.
pub(super) fn find<M: FullMemory>(
    memory: &mut M,
    page: Addr,
    header: &PageHeader,
    key: &Key<'_>,
) -> Option<Found> {
    let wanted = tag(key.hash);
    each_slot(memory, page, header, |memory, index, slot, at| {
        let may_be = (slot ^ wanted) >> PLACE_BITS == 0;
        (may_be && has_key(memory, at, end(page), key.bytes)).then_some(Found { index, at })
    })
}

/// Adds an entry of `hash`. The page's latch is held.
pub(super) fn insert<M: FullMemory>(
    memory: &mut M,
    page: Addr,
    header: &mut PageHeader,
    hash: u64,
    bytes: &[u8],
) -> Result<(), NoRoom> {
    let needed = bytes.len() + SLOT_BYTES;
    if free_bytes(header) < needed {
        return Err(NoRoom { hash, bytes: needed });
    }
    let before_heap = free_bytes(header) - usize::from(header.garbage);
    let looks =
        before_heap < needed && before_heap >= SLOT_BYTES && header.count <= GAP_ENTRIES_MAX;
    let gap = if looks { find_gap(memory, page, header, bytes.len()) } else { None };
    let place = match gap {
        Some(place) => {
            header.garbage -= bytes.len() as u16;
            place
        }
        None => {
            if before_heap < needed {
                compact(memory, page, header);
            }
            header.heap -= bytes.len() as u16;
            header.heap
        }
    };
    copy_in(memory, page + u64::from(place), bytes);
    store_slot(memory, page, header.count, slot_of(hash, place));
    header.count += 1;
    header.store(memory, page);
    Ok(())
}

/// Returns the place of the smallest gap between entries that holds this many bytes.
fn find_gap<M: FullMemory>(
    memory: &mut M,
    page: Addr,
    header: &PageHeader,
    bytes: usize,
) -> Option<u16> {
    // Places and lengths of a page, as small as they can be: jobs have small stacks.
    let mut taken: SmallVec<[(u16, u16); 64]> = SmallVec::new();
    each_entry(memory, page, header, |memory, at| {
        taken.push(((at.0 - page.0) as u16, entry_bytes(memory, at, end(page)) as u16));
    });
    taken.push((PAGE_BYTES as u16, 0));
    taken.sort_unstable();
    let mut from = header.heap;
    let gaps = taken.iter().map(|&(place, length)| {
        let gap = (place.saturating_sub(from), from);
        from = place + length;
        gap
    });
    gaps.filter(|(gap, _)| usize::from(*gap) >= bytes).min().map(|(_, place)| place)
}

/// Removes an entry that was found. The page's latch is held.
pub(super) fn remove<M: FullMemory>(
    memory: &mut M,
    page: Addr,
    header: &mut PageHeader,
    found: Found,
) {
    let bytes = entry_bytes(memory, found.at, end(page)) as u16;
    header.count -= 1;
    if found.index != header.count {
        let last = load_slot(memory, page, header.count);
        store_slot(memory, page, found.index, last);
    }
    if found.at == page + u64::from(header.heap) {
        header.heap += bytes;
    } else {
        header.garbage += bytes;
    }
    let after = used_bytes(header);
    header.sparse |= is_worth_joining(after + usize::from(bytes) + SLOT_BYTES, after);
    header.store(memory, page);
}

/// Removes entries that were found, in the order of their slots, and stores the header. The page's
/// latch is held. The other entries stay where they are.
pub(super) fn remove_all<M: FullMemory>(
    memory: &mut M,
    page: Addr,
    header: &mut PageHeader,
    found: &[Found],
) {
    let mut left = found.iter().peekable();
    let mut slots: Vec<u32> = Vec::new();
    each_slot(memory, page, header, |_, index, slot, _| {
        if left.next_if(|found| found.index == index).is_none() {
            slots.push(slot);
        }
        None::<()>
    });
    if let Some(first) = found.first().map(|found| usize::from(found.index)) {
        let bytes: usize = found.iter().map(|found| entry_bytes(memory, found.at, end(page))).sum();
        let moved = page + PAGE_HEADER_BYTES + (first * SLOT_BYTES) as u64;
        copy_in(memory, moved, bytemuck::cast_slice(&slots[first..]));
        header.count = slots.len() as u16;
        header.garbage += bytes as u16;
        if slots.is_empty() {
            (header.heap, header.garbage) = (PAGE_BYTES as u16, 0);
        }
        header.sparse |= used_bytes(header) <= SPARSE_BYTES_MAX;
    }
    header.store(memory, page);
}

/// True if a leaf that had `before` bytes of entries and has `after` now must be compared with its
/// neighbours. It must have lost another eighth, because the comparison may read their pages.
fn is_worth_joining(before: usize, after: usize) -> bool {
    const STEP: usize = LEAF_BYTES / 8;
    after <= SPARSE_BYTES_MAX && (after == 0 || after / STEP < before / STEP)
}

/// Replaces an entry that was found by one of the same hash.
pub(super) fn replace<M: FullMemory>(
    memory: &mut M,
    page: Addr,
    header: &mut PageHeader,
    found: Found,
    hash: u64,
    bytes: &[u8],
) -> Result<(), NoRoom> {
    let old_bytes = entry_bytes(memory, found.at, end(page));
    if old_bytes == bytes.len() {
        copy_in(memory, found.at, bytes);
        return Ok(());
    }
    if free_bytes(header) + old_bytes < bytes.len() {
        return Err(NoRoom { hash, bytes: bytes.len() - old_bytes });
    }
    let (sparse, before) = (header.sparse, used_bytes(header));
    remove(memory, page, header, found);
    header.sparse = sparse || is_worth_joining(before, before - old_bytes + bytes.len());
    insert(memory, page, header, hash, bytes)
}

/// Bytes of slots and entries.
pub(super) fn used_bytes(header: &PageHeader) -> usize {
    LEAF_BYTES - free_bytes(header)
}

/// Bytes that no slot and no entry takes.
fn free_bytes(header: &PageHeader) -> usize {
    let heap = PAGE_BYTES - usize::from(header.heap) - usize::from(header.garbage);
    LEAF_BYTES.saturating_sub(usize::from(header.count) * SLOT_BYTES + heap)
}

/// An entry read from its page.
#[derive(Clone, Debug)]
pub(super) struct Taken {
    pub(super) hash: u64,
    pub(super) bytes: EntryBytes,
    /// The page that it was read from, and the index of its slot there.
    page: Addr,
    index: u16,
}

/// All entries of a leaf, in the order of their hashes.
pub(super) fn read<M: FullMemory>(
    memory: &mut M,
    page: Addr,
    header: &PageHeader,
    order: &Order,
) -> Vec<Taken> {
    let mut entries = Vec::with_capacity(header.count.into());
    each_found(memory, page, header, |memory, Found { index, at }| {
        let bytes = take(memory, page, at);
        entries.push(Taken { hash: order.of(key_in(&bytes)), bytes, page, index });
    });
    entries.sort_by_key(|taken| taken.hash);
    entries
}

fn take<M: FullMemory>(memory: &mut M, page: Addr, at: Addr) -> EntryBytes {
    let mut bytes = Vec::new();
    let length = entry_bytes(memory, at, end(page));
    copy_out(memory, at, length, &mut bytes);
    bytes.into()
}

/// Makes these the entries of a leaf, which must fit, and stores its header. Entries that were read
/// from this page, and not changed since, stay where they are: every byte that is stored is logged.
pub(super) fn set_entries<M: FullMemory>(
    memory: &mut M,
    page: Addr,
    header: &mut PageHeader,
    entries: &[Taken],
) {
    let own = entries.iter().filter(|taken| taken.page == page);
    let mut kept: SmallVec<[u16; 64]> = own.map(|taken| taken.index).collect();
    if kept.is_empty() {
        let slots = entries.iter().map(|taken| (tag(taken.hash), &taken.bytes[..]));
        fill(memory, page, header, slots);
        return;
    }
    kept.sort_unstable();
    let mut gone: SmallVec<[Found; 64]> = SmallVec::new();
    each_found(memory, page, header, |_, found| {
        if kept.binary_search(&found.index).is_err() {
            gone.push(found);
        }
    });
    remove_all(memory, page, header, &gone);
    for taken in entries.iter().filter(|taken| taken.page != page) {
        let inserted = insert(memory, page, header, taken.hash, &taken.bytes);
        assert_eq!(inserted, Ok(()), "the entries fit");
    }
    header.sparse = false;
    header.store(memory, page);
}

/// Moves the entries of a leaf together, so that the gaps between them are free.
fn compact<M: FullMemory>(memory: &mut M, page: Addr, header: &mut PageHeader) {
    let mut entries = Vec::with_capacity(header.count.into());
    each_slot(memory, page, header, |memory, _, slot, at| {
        entries.push((slot, take(memory, page, at)));
        None::<()>
    });
    fill(memory, page, header, entries.iter().map(|(slot, bytes)| (*slot, &bytes[..])));
}

/// Writes entries, each with a slot that has its tag.
fn fill<'a, M: FullMemory>(
    memory: &mut M,
    page: Addr,
    header: &mut PageHeader,
    entries: impl ExactSizeIterator<Item = (u32, &'a [u8])>,
) {
    header.count = entries.len() as u16;
    header.garbage = 0;
    header.heap = PAGE_BYTES as u16;
    // Whole lines are stored, as a store costs much more than its bytes inside a transaction.
    let mut image = vec![0; PAGE_BYTES];
    let slots = PAGE_HEADER_BYTES as usize..PAGE_HEADER_BYTES as usize + entries.len() * SLOT_BYTES;
    for (at, (slot, bytes)) in slots.clone().step_by(SLOT_BYTES).zip(entries) {
        header.heap -= bytes.len() as u16;
        let heap = usize::from(header.heap);
        image[heap..heap + bytes.len()].copy_from_slice(bytes);
        let slot = slot >> PLACE_BITS << PLACE_BITS | u32::from(header.heap);
        image[at..at + SLOT_BYTES].copy_from_slice(&slot.to_ne_bytes());
    }
    copy_in(memory, page + PAGE_HEADER_BYTES, &image[slots]);
    copy_in(memory, page + u64::from(header.heap), &image[usize::from(header.heap)..]);
    header.store(memory, page);
}

/// Hashes at which leaves after the first begin.
pub(super) type Begins = SmallVec<[u64; 2]>;

/// Spreads entries over `leaves` leaves, about evenly. Returns the hashes where the leaves after
/// the first begin. `entries` has a hash and a size for each, in the order of hashes. Entries of
/// one hash stay together. The first leaf takes only hashes below `first_end`. `None` if the leaves
/// are too few.
pub(super) fn spread(entries: &[(u64, usize)], leaves: usize, first_end: u64) -> Option<Begins> {
    // As evenly as entries allow. Where large entries prevent that, fills leaves from the left.
    cut(entries, leaves, first_end, |rest, leaves| rest / leaves)
        .or_else(|| cut(entries, leaves, first_end, |_, _| LEAF_BYTES))
}

/// As [`spread`]. `aim` returns the bytes for a leaf, from the bytes that are left and the leaves
/// that are left.
fn cut(
    entries: &[(u64, usize)],
    leaves: usize,
    first_end: u64,
    aim: impl Fn(usize, usize) -> usize,
) -> Option<Begins> {
    let mut begins = Begins::new();
    let mut rest: usize = entries.iter().map(|(_, bytes)| bytes).sum();
    let mut runs = entries.chunk_by(|one, next| one.0 == next.0).peekable();
    for leaf in 0..leaves {
        let last = leaf + 1 == leaves;
        let aim = if last { LEAF_BYTES } else { aim(rest, leaves - leaf) };
        let mut taken = 0;
        while let Some(run) = runs.peek() {
            let bytes: usize = run.iter().map(|(_, bytes)| bytes).sum();
            let fits = taken + bytes <= LEAF_BYTES && (leaf > 0 || run[0].0 < first_end);
            let near = last || taken + bytes / 2 <= aim;
            if taken > 0 && !(fits && near) || taken == 0 && !fits {
                break;
            }
            taken += bytes;
            runs.next();
        }
        rest -= taken;
        match runs.peek() {
            Some(run) if !last => begins.push(run[0].0),
            None if last => return Some(begins),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_testbed::Plain;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    /// The bytes of each leaf.
    fn filled(entries: &[(u64, usize)], begins: &[u64]) -> Vec<usize> {
        let leaf_of = |hash: u64| begins.partition_point(|begin| *begin <= hash);
        let mut filled = vec![0; begins.len() + 1];
        entries.iter().for_each(|(hash, bytes)| filled[leaf_of(*hash)] += bytes);
        filled
    }

    #[test]
    fn entries_are_spread_evenly_where_their_sizes_allow() {
        let entries: Vec<(u64, usize)> = (0..7).map(|hash| (hash, 1_000)).collect();
        let begins = spread(&entries, 3, 7).expect("they fit");
        assert_eq!(filled(&entries, &begins), [2_000, 3_000, 2_000]);
        assert_eq!(spread(&entries, 1, 7), None, "they are too many");
        let begins = spread(&entries, 3, 1).expect("they fit");
        assert_eq!(filled(&entries, &begins)[0], 1_000, "the first leaf takes what is its own");
        let same = [(4, 1_000), (5, 900), (5, 900), (5, 900), (6, 900)];
        let begins = spread(&same, 2, 9).expect("they fit");
        assert_eq!(begins[..], [5], "entries of one hash stay together");
    }

    /// Entries come and go in one leaf. A gap takes the next entry that fits, so the others are not
    /// moved.
    #[test]
    fn an_entry_takes_the_room_of_one_that_has_gone() {
        use super::super::key::HashSecret;
        use super::super::{
            Entry,
            entry::{Place, encode},
        };
        let (page, order) = (Addr(0), Order::Hashed(HashSecret([1, 2])));
        let mut memory = Plain::zeroed(PAGE_BYTES as u64);
        let mut header = PageHeader::empty(0, 0, super::super::layout::HASHES);
        let mut model = std::collections::BTreeMap::new();
        let mut rng = Pcg64Mcg::seed_from_u64(5);
        let mut most = 0;
        for step in 0..20_000u64 {
            let alike = step < 10_000;
            let key = format!("key:{:04}", rng.random_range(0..1_000)).into_bytes();
            let length = if alike { 1_000 } else { rng.random_range(0..1_500) };
            let entry =
                Entry { value_bytes: length as u64, expires_at_ms: None, place: Place::Inline };
            let bytes = encode(&key, &entry, &vec![step as u8; length]);
            let hash = order.of(&key);
            let before = memory.accesses;
            let set = match find(&mut memory, page, &header, &Key { bytes: &key, hash }) {
                Some(found) => replace(&mut memory, page, &mut header, found, hash, &bytes),
                None => insert(&mut memory, page, &mut header, hash, &bytes),
            };
            most = most.max(if alike { memory.accesses - before } else { 0 });
            match set {
                Ok(()) => _ = model.insert(key, bytes),
                Err(_) => {
                    // The leaf is full: some entry goes, wherever it lies.
                    let index = rng.random_range(0..model.len());
                    let key = model.keys().nth(index).expect("there is one").clone();
                    let hash = order.of(&key);
                    let found = find(&mut memory, page, &header, &Key { bytes: &key, hash });
                    let found = found.expect("it is there");
                    match step % 2 {
                        0 => remove(&mut memory, page, &mut header, found),
                        _ => remove_all(&mut memory, page, &mut header, &[found]),
                    }
                    model.remove(&key);
                }
            }
            let stored = PageHeader::load(&mut memory, page);
            assert_eq!(stored, header, "step {step}");
            let mut all = read(&mut memory, page, &header, &order);
            all.sort_by(|one, other| key_in(&one.bytes).cmp(key_in(&other.bytes)));
            assert!(all.iter().map(|taken| &taken.bytes).eq(model.values()), "step {step}");
            let bytes: usize = model.values().map(|bytes| bytes.len() + SLOT_BYTES).sum();
            assert_eq!(used_bytes(&header), bytes, "step {step}");
        }
        // An entry of 1,000 bytes has 17 lines. The leaf has 64.
        assert!(most <= 70, "{most} accesses");
    }

    /// Two full leaves always have room for one more entry when they become three.
    #[test]
    fn two_leaves_become_three_whatever_their_entries_are() {
        let largest = LEAF_BYTES / 2;
        let mut rng = Pcg64Mcg::seed_from_u64(3);
        for round in 0..20_000 {
            let mut hash = 0;
            let mut leaf = |rng: &mut Pcg64Mcg| {
                let (mut entries, mut bytes) = (Vec::new(), 0);
                loop {
                    let least = if rng.random_bool(0.5) { 6 } else { largest - 40 };
                    let size = rng.random_range(least..=largest);
                    if bytes + size > LEAF_BYTES {
                        return entries;
                    }
                    hash += 2;
                    bytes += size;
                    entries.push((hash, size));
                }
            };
            let mut entries = leaf(&mut rng);
            let first_end = entries.last().expect("one fits").0 + 2;
            if round % 2 == 0 {
                entries.append(&mut leaf(&mut rng));
            }
            let (pages, hash) = (2 + usize::from(round % 2 == 0), rng.random_range(0..first_end));
            let more = (hash / 2 * 2 + 1, rng.random_range(6..=largest));
            entries.insert(entries.partition_point(|(hash, _)| *hash <= more.0), more);
            let begins =
                spread(&entries, pages, first_end).unwrap_or_else(|| panic!("{entries:?}"));
            assert!(filled(&entries, &begins).iter().all(|bytes| (1..=LEAF_BYTES).contains(bytes)));
            assert!(begins.len() + 1 == pages && begins[0] <= first_end, "{begins:?}");
        }
    }
}
