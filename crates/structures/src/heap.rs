//! [`Heap`]: pieces of memory of any size, taken and given back.

use bytemuck::{Pod, Zeroable};
use ebbtide_core::{Addr, Memory};

use super::{LINE, PAGE, Wrong, check_base};
use crate::latch;

/// In the first line, behind the latch.
const OWN: u64 = 8;
/// The lists of free pieces, one word a size.
const LISTS: u64 = LINE;
/// Sizes are a line times a power of two: 64 bytes to 1 GiB.
const SIZES: u64 = 25;
/// The first byte behind the lists is the first to be given out.
const FIRST: u64 = PAGE;

/// What a heap knows of itself.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Own {
    /// The first address that was never given out.
    next: u64,
    /// What the program wants to find again.
    root: u64,
}

/// Pieces of memory for structures of the program's own, in a range of addresses.
///
/// A piece has a power of two of bytes, at least a line, and begins at a multiple of its size or of a
/// page, so a piece of up to a page lies within one. A piece that is given back serves the next request
/// of its size, or is halved for smaller ones; pieces are not joined again. In a
/// [transaction](Memory::transaction) taking and giving back happen with what is stored beside them, or
/// not at all, so a crash loses no piece. One word, the [root](Heap::root), is where the program begins
/// when the store is opened again.
///
/// The first page holds the latch, the root, and the heads of the lists of free pieces, each of which
/// leads to the next in its first word.
#[derive(Debug, Clone, Copy)]
pub struct Heap {
    base: Addr,
    end: Addr,
}

/// The size of a piece, in powers of two above a line, that holds `bytes`.
fn size_for(bytes: u64) -> Option<u64> {
    let lines = bytes.div_ceil(LINE).max(1).checked_next_power_of_two()?;
    Some(u64::from(lines.ilog2())).filter(|size| *size < SIZES)
}

const fn bytes_of(size: u64) -> u64 {
    LINE << size
}

impl Heap {
    /// The heap in the `bytes` bytes from `base` on. A range of zeros is an empty heap.
    ///
    /// # Panics
    /// If `base` is not the start of a page.
    pub fn at(base: Addr, bytes: u64) -> Heap {
        check_base(base);
        Heap { base, end: base + bytes }
    }

    /// Takes a piece of at least `bytes` bytes, which hold anything. `None` if there is no room.
    ///
    /// # Errors
    /// [`Wrong`] when what it reads is not the heap.
    pub fn take<M: Memory>(&self, memory: &mut M, bytes: u64) -> Result<Option<Addr>, Wrong> {
        let Some(size) = size_for(bytes) else { return Ok(None) };
        latch::write(memory, self.base, |memory| {
            for larger in size..SIZES {
                if let Some(at) = self.pop(memory, larger)? {
                    // What is left over are a half, a quarter, and so on.
                    (size..larger).for_each(|half| self.push(memory, at + bytes_of(half), half));
                    return Ok(Some(at));
                }
            }
            Ok(self.take_new(memory, size))
        })
    }

    /// Gives back the piece at `at` that was taken for `bytes` bytes.
    ///
    /// # Errors
    /// [`Wrong`] when no such piece can lie there.
    pub fn give_back<M: Memory>(&self, memory: &mut M, at: Addr, bytes: u64) -> Result<(), Wrong> {
        let size = size_for(bytes).filter(|&size| self.may_lie_at(at, size));
        let size = size.ok_or_else(|| self.wrong(at))?;
        latch::write(memory, self.base, |memory| self.push(memory, at, size));
        Ok(())
    }

    /// The word that was stored by [`set_root`](Heap::set_root); 0 at first.
    pub fn root<M: Memory>(&self, memory: &mut M) -> u64 {
        latch::read(memory, self.base, |memory| self.own(memory).root)
    }

    /// Notes where the program begins, mostly an address in the heap.
    pub fn set_root<M: Memory>(&self, memory: &mut M, root: u64) {
        latch::write(memory, self.base, |memory| {
            let own = Own { root, ..self.own(memory) };
            memory.store(self.base + OWN, own);
        });
    }

    fn own<M: Memory>(&self, memory: &mut M) -> Own {
        memory.load(self.base + OWN)
    }

    fn list(&self, size: u64) -> Addr {
        self.base + LISTS + size * 8
    }

    fn wrong(&self, at: Addr) -> Wrong {
        Wrong(format!("no piece of the heap at {:?} lies at {at:?}", self.base))
    }

    fn may_lie_at(&self, at: Addr, size: u64) -> bool {
        let from_base = at.0.checked_sub(self.base.0).filter(|&offset| offset >= FIRST);
        let is_aligned = |offset: u64| offset.is_multiple_of(bytes_of(size).min(PAGE));
        from_base.is_some_and(is_aligned)
            && at.0.checked_add(bytes_of(size)).is_some_and(|end| end <= self.end.0)
    }

    fn pop<M: Memory>(&self, memory: &mut M, size: u64) -> Result<Option<Addr>, Wrong> {
        let at = Addr(memory.load(self.list(size)));
        if at == Addr(0) {
            return Ok(None);
        }
        if !self.may_lie_at(at, size) {
            return Err(self.wrong(at));
        }
        let next: u64 = memory.load(at);
        memory.store(self.list(size), next);
        Ok(Some(at))
    }

    fn push<M: Memory>(&self, memory: &mut M, at: Addr, size: u64) {
        let next: u64 = memory.load(self.list(size));
        memory.store(at, next);
        memory.store(self.list(size), at.0);
    }

    /// Takes a piece that was never given out. What lies before it becomes free pieces.
    fn take_new<M: Memory>(&self, memory: &mut M, size: u64) -> Option<Addr> {
        let own = self.own(memory);
        let mut next = own.next.max(self.base.0 + FIRST);
        let start = next.next_multiple_of(bytes_of(size).min(PAGE));
        let end = start.checked_add(bytes_of(size)).filter(|&end| end <= self.end.0)?;
        while next < start {
            // The largest that may lie there: they grow up to the next page.
            let smaller = u64::from(next.trailing_zeros() - LINE.trailing_zeros());
            self.push(memory, Addr(next), smaller);
            next += bytes_of(smaller);
        }
        memory.store(self.base + OWN, Own { next: end, ..own });
        Some(Addr(start))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ebbtide_testbed::Plain;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    const BYTES: u64 = 64 * PAGE;

    #[test]
    fn pieces_in_use_never_overlap_and_lie_within_a_page_if_they_fit() {
        let (heap, mut memory) = (Heap::at(Addr(PAGE), BYTES), Plain::zeroed(BYTES + PAGE));
        let mut random = Pcg64Mcg::seed_from_u64(3);
        let mut used: BTreeMap<u64, u64> = BTreeMap::new();
        let mut refused = 0;
        for _ in 0..20_000 {
            let shift = random.random_range(4..15);
            let bytes = random.random_range(1..1u64 << shift);
            if random.random_bool(0.5) || used.is_empty() {
                let Some(at) = heap.take(&mut memory, bytes).unwrap() else {
                    refused += 1;
                    continue;
                };
                assert!(at.0 >= 2 * PAGE && at.0 + bytes <= PAGE + BYTES);
                assert!(bytes > PAGE || at.0 % PAGE + bytes <= PAGE);
                let before = used.range(..=at.0).next_back();
                assert!(before.is_none_or(|(before, bytes)| before + bytes <= at.0));
                assert!(used.range(at.0..).next().is_none_or(|(after, _)| at.0 + bytes <= *after));
                // Whoever has a piece may store anything.
                (0..bytes / 8).for_each(|word| memory.store(at + word * 8, u64::MAX));
                used.insert(at.0, bytes);
            } else {
                let nth = random.random_range(0..used.len());
                let (&at, &bytes) = used.iter().nth(nth).unwrap();
                heap.give_back(&mut memory, Addr(at), bytes).unwrap();
                used.remove(&at);
            }
        }
        assert!(refused > 0, "it was never full");
    }

    #[test]
    fn what_is_given_back_is_enough_for_as_much_again() {
        let (heap, mut memory) = (Heap::at(Addr(0), BYTES), Plain::zeroed(BYTES));
        let take_all = |memory: &mut Plain| {
            std::iter::from_fn(|| heap.take(memory, 300).unwrap()).collect::<Vec<_>>()
        };
        let first = take_all(&mut memory);
        assert_eq!(first.len() as u64, (BYTES - PAGE) / 512);
        first.iter().for_each(|&at| heap.give_back(&mut memory, at, 300).unwrap());
        assert_eq!(take_all(&mut memory).len(), first.len());
    }

    #[test]
    fn a_piece_elsewhere_and_a_damaged_list_are_errors() {
        let (heap, mut memory) = (Heap::at(Addr(0), BYTES), Plain::zeroed(BYTES));
        let at = heap.take(&mut memory, 100).unwrap().unwrap();
        for wrong in [Addr(0), at + 8, Addr(BYTES), Addr(u64::MAX - 63)] {
            assert!(heap.give_back(&mut memory, wrong, 100).is_err(), "{wrong:?}");
        }
        memory.store(heap.list(1), 12_345u64);
        assert!(heap.take(&mut memory, 100).is_err());
        assert_eq!(heap.take(&mut memory, 2 << 30), Ok(None));
    }

    #[test]
    fn a_root_is_found_again() {
        let (heap, mut memory) = (Heap::at(Addr(0), BYTES), Plain::zeroed(BYTES));
        assert_eq!(heap.root(&mut memory), 0);
        heap.set_root(&mut memory, 77);
        heap.take(&mut memory, 100).unwrap();
        assert_eq!(Heap::at(Addr(0), BYTES).root(&mut memory), 77);
    }
}
