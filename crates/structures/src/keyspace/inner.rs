//! An inner page: separators, and the child for each range of hashes.
//!
//! Child `i` holds the hashes from separator `i` to below the next. Separators are sorted. Each is
//! a word that ends with the low 16 bits of its child. The high 16 bits are at the end of the page,
//! four to a word.

use std::ops::Range;

use ebbtide_core::{Addr, FullMemory};

use super::layout::{PAGE_HEADER_BYTES, PageHeader, PageNumber, copy_in, copy_out};

/// The most children of a page. Each takes 10 bytes.
pub(super) const CHILDREN_MAX: u16 = 400;

/// The offset of the high halves of the children.
const HIGHS: u64 = PAGE_HEADER_BYTES + CHILDREN_MAX as u64 * 8;

/// A separator and its child.
pub(super) type Child = (u64, PageNumber);

fn low_at(page: Addr, index: u16) -> Addr {
    page + PAGE_HEADER_BYTES + u64::from(index) * 8
}

fn high_at(page: Addr, index: u16) -> Addr {
    page + HIGHS + u64::from(index) / 4 * 8
}

fn load_child<M: FullMemory>(memory: &mut M, page: Addr, index: u16) -> Child {
    let low: u64 = memory.load(low_at(page, index));
    let highs: [u16; 4] = memory.load(high_at(page, index));
    let high = highs[usize::from(index) % 4];
    (low >> 16, u32::from(high) << 16 | (low & 0xffff) as u32)
}

/// The first half of a child: its separator and the low bits of its number.
fn low_of((separator, child): Child) -> u64 {
    separator << 16 | u64::from(child & 0xffff)
}

fn store_child<M: FullMemory>(memory: &mut M, page: Addr, index: u16, child: Child) {
    memory.store(low_at(page, index), low_of(child));
    let mut highs: [u16; 4] = memory.load(high_at(page, index));
    highs[usize::from(index) % 4] = (child.1 >> 16) as u16;
    memory.store(high_at(page, index), highs);
}

/// Stores children from index `index` on, a line at a time. A page has many, and a store costs much
/// more than its bytes.
fn store_children<M: FullMemory>(memory: &mut M, page: Addr, index: u16, children: &[Child]) {
    let lows: Vec<u64> = children.iter().map(|child| low_of(*child)).collect();
    let highs: Vec<u16> = children.iter().map(|(_, number)| (number >> 16) as u16).collect();
    copy_in(memory, low_at(page, index), bytemuck::cast_slice(&lows));
    copy_in(memory, page + HIGHS + u64::from(index) * 2, bytemuck::cast_slice(&highs));
}

/// Returns how many separators are at most `hash`.
///
/// Hashes are spread evenly, so the search begins at the place that even separators would have. It
/// doubles its steps until it is past the place, and then halves the rest.
fn up_to<M: FullMemory>(memory: &mut M, page: Addr, header: &PageHeader, hash: u64) -> u16 {
    let (mut from, mut to) = (0, header.count.min(CHILDREN_MAX));
    let mut next = expected(header, to, hash);
    let mut step: u16 = 1;
    while from < to {
        let separator = memory.load::<u64>(low_at(page, next)) >> 16;
        if separator <= hash {
            from = next + 1;
            next = next.saturating_add(step);
        } else {
            to = next;
            next = next.saturating_sub(step);
        }
        // If a step goes past the place, it is longer than the rest, and so are all later ones.
        step = step.saturating_mul(2);
        if !(from..to).contains(&next) {
            next = from + (to - from) / 2;
        }
    }
    from
}

/// Returns the place of the last of `count` separators that is at most `hash`, if they were spread
/// evenly. A page that changes during the read may return any place.
fn expected(header: &PageHeader, count: u16, hash: u64) -> u16 {
    let width = header.high.saturating_sub(header.low).max(1);
    let place = hash.saturating_sub(header.low).saturating_mul(u64::from(count)) / width;
    place.min(u64::from(count).saturating_sub(1)) as u16
}

/// The child that holds `hash`.
pub(super) fn child<M: FullMemory>(
    memory: &mut M,
    page: Addr,
    header: &PageHeader,
    hash: u64,
) -> PageNumber {
    let index = index(memory, page, header, hash);
    load_child(memory, page, index).1
}

/// Adds a child. The page's latch is held and it has room.
pub(super) fn insert<M: FullMemory>(
    memory: &mut M,
    page: Addr,
    header: &mut PageHeader,
    new: Child,
) {
    assert!(header.count < CHILDREN_MAX, "a page that is full is divided first");
    let place = up_to(memory, page, header, new.0);
    let mut children = vec![new];
    children.extend(slice(memory, page, header, place..header.count));
    store_children(memory, page, place, &children);
    header.count += 1;
    header.store(memory, page);
}

/// Returns the index of the child that holds `hash`.
pub(super) fn index<M: FullMemory>(
    memory: &mut M,
    page: Addr,
    header: &PageHeader,
    hash: u64,
) -> u16 {
    up_to(memory, page, header, hash).saturating_sub(1)
}

/// Writes the children from index `index` on again: `kept` replace `replaced` children. The page's
/// latch is held.
pub(super) fn replace<M: FullMemory>(
    memory: &mut M,
    page: Addr,
    header: &mut PageHeader,
    (index, replaced): (u16, u16),
    kept: &[Child],
) {
    let fewer = replaced - kept.len() as u16;
    let mut children = kept.to_vec();
    children.extend(slice(memory, page, header, index + replaced..header.count));
    store_children(memory, page, index, &children);
    header.count -= fewer;
    header.store(memory, page);
}

/// Lowers the separator of a child to `to`, if it is there. The page's latch is held.
pub(super) fn lower<M: FullMemory>(
    memory: &mut M,
    page: Addr,
    header: &PageHeader,
    old: Child,
    to: u64,
) {
    let after = up_to(memory, page, header, old.0);
    // The first child's separator is also in the page above.
    if after > 1 && load_child(memory, page, after - 1) == old {
        store_child(memory, page, after - 1, (to, old.1));
    }
}

/// Returns the children in a range of indices, as far as they exist.
pub(super) fn slice<M: FullMemory>(
    memory: &mut M,
    page: Addr,
    header: &PageHeader,
    range: Range<u16>,
) -> Vec<Child> {
    let end = range.end.min(header.count).min(CHILDREN_MAX);
    let (start, count) = (range.start.min(end), usize::from(end.saturating_sub(range.start)));
    let (mut lows, mut highs) = (Vec::with_capacity(count * 8), Vec::with_capacity(count * 2));
    copy_out(memory, low_at(page, start), count * 8, &mut lows);
    copy_out(memory, page + HIGHS + u64::from(start) * 2, count * 2, &mut highs);
    let (lows, highs) = (lows.as_chunks::<8>().0, highs.as_chunks::<2>().0);
    let child = |(low, high): (&[u8; 8], &[u8; 2])| {
        let (low, high) = (u64::from_ne_bytes(*low), u16::from_ne_bytes(*high));
        (low >> 16, u32::from(high) << 16 | (low & 0xffff) as u32)
    };
    lows.iter().zip(highs).map(child).collect()
}

/// All children.
pub(super) fn read<M: FullMemory>(memory: &mut M, page: Addr, header: &PageHeader) -> Vec<Child> {
    slice(memory, page, header, 0..header.count)
}

/// Writes a page of these children, and its header with their number.
pub(super) fn write<M: FullMemory>(
    memory: &mut M,
    page: Addr,
    header: &mut PageHeader,
    children: &[Child],
) {
    header.count = children.len() as u16;
    store_children(memory, page, 0, children);
    header.store(memory, page);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::layout::HASHES;
    use ebbtide_testbed::Plain;

    #[test]
    fn a_hash_goes_to_the_child_of_the_last_separator_not_above_it() {
        let mut memory = Plain::zeroed(4096);
        let page = Addr(0);
        let mut header = PageHeader::empty(1, 0, HASHES);
        write(&mut memory, page, &mut header, &[(0, 7)]);
        // In an order that is neither rising nor falling, with children beyond 16 bits.
        let mut all = vec![(0, 7)];
        for i in 0..u64::from(CHILDREN_MAX) - 1 {
            let new = ((i * 7919 % 10_007 + 1) << 20, (i as u32 + 1) * 1_000_003);
            insert(&mut memory, page, &mut header, new);
            all.push(new);
        }
        all.sort_unstable();
        assert_eq!(read(&mut memory, page, &header), all);
        for (index, (separator, number)) in all.iter().enumerate() {
            assert_eq!(child(&mut memory, page, &header, *separator), *number);
            let next = all.get(index + 1).map_or(HASHES, |(next, _)| *next);
            assert_eq!(child(&mut memory, page, &header, next - 1), *number);
        }
    }

    /// Half of the children move when one comes in the middle. Memory is accessed by lines.
    #[test]
    fn a_child_more_or_less_costs_few_accesses() {
        let mut memory = Plain::zeroed(4096);
        let page = Addr(0);
        let mut header = PageHeader::empty(1, 0, HASHES);
        let children: Vec<Child> =
            (0..u64::from(CHILDREN_MAX) - 1).map(|i| (i << 38, i as u32 * 70_001)).collect();
        write(&mut memory, page, &mut header, &children);
        let before = memory.accesses;
        insert(&mut memory, page, &mut header, (1 << 38 | 1, 77));
        replace(&mut memory, page, &mut header, (1, 2), &children[1..2]);
        let accesses = memory.accesses - before;
        assert!(accesses <= 400, "{accesses} accesses");
        assert!(read(&mut memory, page, &header) == children, "all others are there");
    }

    /// A page that changes during the read may show any range and any separators. The place found
    /// is always the one that counting finds.
    #[test]
    fn the_place_of_a_hash_does_not_depend_on_where_it_is_expected() {
        let mut memory = Plain::zeroed(4096);
        let page = Addr(0);
        let spread: [fn(u64) -> u64; 4] =
            [|i| i << 38, |i| i, |i| HASHES - 400 + i, |i| (i * i * i) << 20];
        for (separator_of, count) in spread.into_iter().flat_map(|s| [(s, 1), (s, 7), (s, 400)]) {
            let children: Vec<Child> = (0..count).map(|i| (separator_of(i), i as u32)).collect();
            for (low, high) in [(0, HASHES), (HASHES, 0), (1 << 40, 1 << 40), (u64::MAX, 3)] {
                let mut header = PageHeader::empty(1, low, high);
                write(&mut memory, page, &mut header, &children);
                for hash in children.iter().flat_map(|(s, _)| [s.saturating_sub(1), *s, s + 1]) {
                    let counted = children.iter().filter(|(s, _)| *s <= hash).count() as u16;
                    assert_eq!(up_to(&mut memory, page, &header, hash), counted, "{hash:#x}");
                }
            }
        }
    }
}
