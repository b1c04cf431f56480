//! [`Heap`]: takes, frees and joins pieces of memory of any size.

use bytemuck::{Pod, Zeroable};
use ebbtide_core::{Addr, Memory};

use super::{LINE, PAGE, Wrong, check_base};
use crate::latch;

/// The offset of the heap's own words, after the latch.
const OWN: u64 = 8;
/// The offset of the heads of the lists of free pieces, one word for each size.
const LISTS: u64 = LINE;
/// Sizes are a line times a power of two: 64 bytes to 1 GiB.
const SIZES: u64 = 25;
/// The marks, one byte for each line of the pieces, begin with the second page.
const MARKS: u64 = PAGE;

/// The heap's own words.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Own {
    /// Lines up to the end of the last piece in use. The lines after it are blank.
    used: u64,
    /// The word that the program wants to find again.
    root: u64,
}

/// The mark of a line where a piece begins is one of these, with the size in the low bits. Other lines have 0.
const FREE: u8 = 0x40;
const TAKEN: u8 = 0x80;

/// Pieces of memory for structures of the program's own, in a range of addresses.
///
/// A piece has a power of two of bytes, at least a line. It begins at a multiple of its size or of a page,
/// so a piece of up to a page lies within one. A free piece serves the next request of its size, or is
/// halved for smaller ones. A piece that is freed is joined with its other half if that is free, and
/// so on. This is the buddy system (Knowlton, "A Fast Storage Allocator", CACM 8, 1965).
///
/// In a [transaction](Memory::transaction), taking and giving back take effect together with the other
/// stores, or not at all. So a crash loses no piece. One word, the [root](Heap::root), is where the program
/// begins when the store is opened again.
///
/// The first page holds the latch, the root, and the heads of the lists of free pieces. A free piece names
/// the next and the previous one in its first words. Then comes one byte for each line, 1.6% of the heap.
/// These bytes record where pieces begin, their sizes and whether they are free.
#[derive(Debug, Clone, Copy)]
pub struct Heap {
    base: Addr,
    /// The address of the first piece.
    first: Addr,
    /// The number of lines of all pieces.
    lines: u64,
}

/// Returns the size of a piece that holds `bytes`, in powers of two above a line.
fn size_for(bytes: u64) -> Option<u64> {
    let lines = bytes.div_ceil(LINE).max(1).checked_next_power_of_two()?;
    Some(u64::from(lines.ilog2())).filter(|size| *size < SIZES)
}

impl Heap {
    /// The heap in the `bytes` bytes from `base` on. A range of zeros is an empty heap.
    ///
    /// # Panics
    /// If `base` is not the start of a page.
    pub fn at(base: Addr, bytes: u64) -> Heap {
        check_base(base);
        // A page of marks covers as many pages of pieces as a page has lines.
        let pages = (bytes / PAGE).saturating_sub(1);
        let marks = pages.div_ceil(1 + PAGE / LINE);
        let first = base + MARKS + marks * PAGE;
        Heap { base, first, lines: (pages - marks) * (PAGE / LINE) }
    }

    /// Takes a piece of at least `bytes` bytes with arbitrary contents. `None` if there is no room.
    ///
    /// # Errors
    /// [`Wrong`] if the pages are not those of the heap.
    pub fn take<M: Memory>(&self, memory: &mut M, bytes: u64) -> Result<Option<Addr>, Wrong> {
        let Some(size) = size_for(bytes) else { return Ok(None) };
        latch::write(memory, self.base, |memory| {
            let mut taken = None;
            for larger in size..SIZES {
                if let Some(line) = self.first_free(memory, larger)? {
                    self.unlist(memory, line, larger)?;
                    // The rest is a half, a quarter, and so on.
                    (size..larger).for_each(|half| self.list(memory, line + (1 << half), half));
                    taken = Some(line);
                    break;
                }
            }
            let Some(line) = taken.or_else(|| self.take_new(memory, size)) else { return Ok(None) };
            self.mark(memory, line, TAKEN | size as u8);
            Ok(Some(self.address(line)))
        })
    }

    /// Frees the piece at `at` that was taken for `bytes` bytes.
    ///
    /// # Errors
    /// If no such piece lies there.
    pub fn give_back<M: Memory>(&self, memory: &mut M, at: Addr, bytes: u64) -> Result<(), Wrong> {
        latch::write(memory, self.base, |memory| {
            let mut line = self.line_of(at).ok_or_else(|| self.wrong(at))?;
            let size =
                size_for(bytes).filter(|size| self.marked(memory, line) == TAKEN | *size as u8);
            let mut size = size.ok_or_else(|| self.wrong(at))?;
            self.mark(memory, line, 0);
            while size + 1 < SIZES {
                let half = line ^ 1 << size;
                if self.marked(memory, half) != FREE | size as u8 {
                    break;
                }
                self.unlist(memory, half, size)?;
                line = line.min(half);
                size += 1;
            }
            self.list(memory, line, size);
            self.shrink(memory)
        })
    }

    /// The word that was stored by [`set_root`](Heap::set_root); 0 at first.
    pub fn root<M: Memory>(&self, memory: &mut M) -> u64 {
        latch::read(memory, self.base, |memory| self.own(memory).root)
    }

    /// Sets the word where the program begins, mostly an address in the heap.
    pub fn set_root<M: Memory>(&self, memory: &mut M, root: u64) {
        latch::write(memory, self.base, |memory| {
            let own = Own { root, ..self.own(memory) };
            memory.store(self.base + OWN, own);
        });
    }

    fn own<M: Memory>(&self, memory: &mut M) -> Own {
        memory.load(self.base + OWN)
    }

    fn set_used<M: Memory>(&self, memory: &mut M, used: u64) {
        memory.store(self.base + OWN, used);
    }

    fn head(&self, size: u64) -> Addr {
        self.base + LISTS + size * 8
    }

    fn address(&self, line: u64) -> Addr {
        self.first + line * LINE
    }

    fn line_of(&self, at: Addr) -> Option<u64> {
        let offset = at.0.checked_sub(self.first.0).filter(|offset| offset.is_multiple_of(LINE))?;
        Some(offset / LINE).filter(|line| *line < self.lines)
    }

    fn wrong(&self, at: Addr) -> Wrong {
        Wrong(format!("no piece of the heap at {:?} lies at {at:?}", self.base))
    }

    /// Returns the mark of a line; 0 if there is no such line.
    fn marked<M: Memory>(&self, memory: &mut M, line: u64) -> u8 {
        if line >= self.lines {
            return 0;
        }
        let marks: [u8; 8] = memory.load(self.base + MARKS + line / 8 * 8);
        marks[line as usize % 8]
    }

    fn mark<M: Memory>(&self, memory: &mut M, line: u64, mark: u8) {
        let at = self.base + MARKS + line / 8 * 8;
        let mut marks: [u8; 8] = memory.load(at);
        marks[line as usize % 8] = mark;
        memory.store(at, marks);
    }

    /// The free piece at `at`, an address that a list has; `None` for the end of the list.
    fn listed<M: Memory>(&self, memory: &mut M, at: u64, size: u64) -> Result<Option<u64>, Wrong> {
        if at == 0 {
            return Ok(None);
        }
        let line = self.line_of(Addr(at));
        let is_free = |line: &u64| self.marked(memory, *line) == FREE | size as u8;
        line.filter(is_free).map(Some).ok_or_else(|| self.wrong(Addr(at)))
    }

    fn first_free<M: Memory>(&self, memory: &mut M, size: u64) -> Result<Option<u64>, Wrong> {
        let first = memory.load(self.head(size));
        self.listed(memory, first, size)
    }

    /// Adds a free piece to the front of the list of its size.
    fn list<M: Memory>(&self, memory: &mut M, line: u64, size: u64) {
        let at = self.address(line);
        let next: u64 = memory.load(self.head(size));
        memory.store(at, [next, 0]);
        if next != 0 {
            memory.store(Addr(next) + 8, at.0);
        }
        memory.store(self.head(size), at.0);
        self.mark(memory, line, FREE | size as u8);
    }

    /// Removes a free piece from the list of its size.
    fn unlist<M: Memory>(&self, memory: &mut M, line: u64, size: u64) -> Result<(), Wrong> {
        let [next, last]: [u64; 2] = memory.load(self.address(line));
        let after = self.listed(memory, next, size)?;
        let before = self.listed(memory, last, size)?;
        memory.store(before.map_or(self.head(size), |line| self.address(line)), next);
        if let Some(line) = after {
            memory.store(self.address(line) + 8, last);
        }
        self.mark(memory, line, 0);
        Ok(())
    }

    /// Takes a piece of blank lines. The lines before it become free pieces.
    fn take_new<M: Memory>(&self, memory: &mut M, size: u64) -> Option<u64> {
        let mut next = self.own(memory).used;
        let start = next.checked_next_multiple_of(1 << size)?;
        let end = start.checked_add(1 << size).filter(|&end| end <= self.lines)?;
        while next < start {
            let smaller = u64::from(next.trailing_zeros());
            self.list(memory, next, smaller);
            next += 1 << smaller;
        }
        self.set_used(memory, end);
        Some(start)
    }

    /// Turns the free pieces at the end into blank lines.
    fn shrink<M: Memory>(&self, memory: &mut M) -> Result<(), Wrong> {
        let before = self.own(memory).used;
        let mut used = before;
        while used > 0 {
            let sizes = 0..=u64::from(used.trailing_zeros()).min(SIZES - 1);
            let starts = sizes.filter_map(|size| Some((used.checked_sub(1 << size)?, size)));
            let mut free = starts;
            let last = free.find(|(line, size)| self.marked(memory, *line) == FREE | *size as u8);
            let Some((line, size)) = last else { break };
            self.unlist(memory, line, size)?;
            used = line;
        }
        if used != before {
            self.set_used(memory, used);
        }
        Ok(())
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
                // The owner of a piece may store anything.
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
        // One page is the heap's own, and one has the marks.
        assert_eq!(first.len() as u64, (BYTES - 2 * PAGE) / 512);
        first.iter().for_each(|&at| heap.give_back(&mut memory, at, 300).unwrap());
        assert_eq!(take_all(&mut memory).len(), first.len());
    }

    #[test]
    fn small_pieces_that_were_given_back_serve_a_request_of_all() {
        let (heap, mut memory) = (Heap::at(Addr(0), BYTES), Plain::zeroed(BYTES));
        let mut random = Pcg64Mcg::seed_from_u64(9);
        for _ in 0..20 {
            let bytes = 32 * PAGE;
            let all = heap.take(&mut memory, bytes).unwrap().expect("it is empty");
            heap.give_back(&mut memory, all, bytes).unwrap();
            let mut pieces = Vec::new();
            loop {
                let bytes = random.random_range(1..6000);
                let Some(at) = heap.take(&mut memory, bytes).unwrap() else { break };
                pieces.push((at, bytes));
            }
            while !pieces.is_empty() {
                let (at, bytes) = pieces.swap_remove(random.random_range(0..pieces.len()));
                heap.give_back(&mut memory, at, bytes).unwrap();
            }
        }
    }

    #[test]
    fn a_piece_elsewhere_and_a_damaged_list_are_errors() {
        let (heap, mut memory) = (Heap::at(Addr(0), BYTES), Plain::zeroed(BYTES));
        let at = heap.take(&mut memory, 100).unwrap().unwrap();
        for wrong in [Addr(0), at + 8, at + 64, Addr(BYTES), Addr(u64::MAX - 63)] {
            assert!(heap.give_back(&mut memory, wrong, 100).is_err(), "{wrong:?}");
        }
        assert!(heap.give_back(&mut memory, at, 200).is_err(), "it has another size");
        heap.give_back(&mut memory, at, 100).unwrap();
        assert!(heap.give_back(&mut memory, at, 100).is_err(), "it was given back");
        memory.store(heap.head(1), 12_345u64);
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
