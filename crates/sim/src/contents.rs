//! [`Contents`]: what the dataset holds, in host memory that grows with what is touched.

use std::ops::Range;
use std::rc::Rc;

use ebbtide_core::{Addr, LINE_BYTES, PAGE_BYTES, PageId, Value};
use ebbtide_workloads::Workload;
use rustc_hash::FxHashMap;

type Line = [u64; LINE_BYTES / 8];
type Page = [u64; PAGE_BYTES / 8];
type Image = dyn Fn(PageId, Range<usize>, &mut [u8; PAGE_BYTES]) -> Range<usize>;

/// The image of a program under what was stored since.
///
/// Lines are regenerated from the image as they are touched and kept in a direct-mapped cache of
/// pages in host memory; only lines that were stored to outlive their page's stay there. So 256 GiB
/// of data cost what a run touches, and a run gives the same whatever the cache holds.
#[derive(Clone)]
pub struct Contents {
    image: Rc<Image>,
    size_bytes: u64,
    pages: Vec<Page>,
    slots: Vec<Slot>,
    mask: u64,
    /// Where lines are regenerated.
    made: Box<Page>,
    /// Lines stored to, of pages that are in no slot.
    written: FxHashMap<PageId, Written>,
}

#[derive(Clone, Copy)]
struct Slot {
    /// `page + 1`; 0 is empty.
    tag: u64,
    /// Lines that are there, a bit each.
    present: u64,
    /// Those of them that were stored to.
    written: u64,
}

/// The lines of a page whose bit is set, in order.
#[derive(Clone)]
struct Written {
    lines: u64,
    contents: Box<[Line]>,
}

/// Pages in host memory: 128 MiB.
const SLOTS_MAX: u64 = 1 << 15;

impl Contents {
    /// The untouched image of `program`.
    pub fn new(program: impl Workload + 'static) -> Contents {
        let size_bytes = program.size_bytes();
        let pages = size_bytes / PAGE_BYTES as u64;
        let slots = pages.next_power_of_two().min(SLOTS_MAX);
        Contents {
            image: Rc::new(move |page, lines, out| program.image_lines(page, lines, out)),
            size_bytes,
            pages: vec![[0; PAGE_BYTES / 8]; slots as usize],
            slots: vec![Slot { tag: 0, present: 0, written: 0 }; slots as usize],
            mask: slots - 1,
            made: Box::new([0; PAGE_BYTES / 8]),
            written: FxHashMap::default(),
        }
    }

    /// Size of the address space in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The value at `at`, which was checked.
    #[inline]
    pub fn load<T: Value>(&mut self, at: Addr) -> T {
        let offset = at.page_offset();
        let slot = self.slot(at.page(), offset / LINE_BYTES);
        let bytes: &[u8] = bytemuck::cast_slice(&self.pages[slot]);
        bytemuck::pod_read_unaligned(&bytes[offset..offset + size_of::<T>()])
    }

    /// Stores `value` at `at`, which was checked.
    #[inline]
    pub fn store<T: Value>(&mut self, at: Addr, value: T) {
        let offset = at.page_offset();
        let slot = self.slot(at.page(), offset / LINE_BYTES);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.pages[slot]);
        bytes[offset..offset + size_of::<T>()].copy_from_slice(bytemuck::bytes_of(&value));
        self.slots[slot].written |= 1 << (offset / LINE_BYTES);
    }

    /// The slot of `page`, in which `line` is.
    #[inline]
    fn slot(&mut self, page: PageId, line: usize) -> usize {
        // Neighbouring pages of a hot region fall into different slots.
        let index = ((page.0 ^ (page.0 >> 16).wrapping_mul(0x9e37_79b9)) & self.mask) as usize;
        if self.slots[index].tag != page.0 + 1 {
            self.bring(index, page);
        }
        if self.slots[index].present >> line & 1 == 0 {
            self.make(index, page, line);
        }
        index
    }

    /// Gives the slot to `page`, of which the lines stored to are then there.
    #[cold]
    fn bring(&mut self, index: usize, page: PageId) {
        let old = self.slots[index];
        let all: &mut [Line; PAGE_BYTES / LINE_BYTES] = bytemuck::cast_mut(&mut self.pages[index]);
        if old.written != 0 {
            let contents = set_bits(old.written).map(|line| all[line]).collect();
            self.written.insert(PageId(old.tag - 1), Written { lines: old.written, contents });
        }
        self.slots[index] = Slot { tag: page.0 + 1, present: 0, written: 0 };
        if let Some(written) = self.written.remove(&page) {
            for (line, contents) in set_bits(written.lines).zip(&written.contents) {
                all[line] = *contents;
            }
            self.slots[index].present = written.lines;
            self.slots[index].written = written.lines;
        }
    }

    /// Regenerates `line` of `page`, and what comes with it.
    #[cold]
    fn make(&mut self, index: usize, page: PageId, line: usize) {
        let made = (self.image)(page, line..line + 1, bytemuck::cast_mut(&mut *self.made));
        debug_assert!(made.contains(&line));
        let from: &[Line; PAGE_BYTES / LINE_BYTES] = bytemuck::cast_ref(&*self.made);
        let all: &mut [Line; PAGE_BYTES / LINE_BYTES] = bytemuck::cast_mut(&mut self.pages[index]);
        let slot = &mut self.slots[index];
        for line in made {
            if slot.present >> line & 1 == 0 {
                all[line] = from[line];
                slot.present |= 1 << line;
            }
        }
    }
}

fn set_bits(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (bit < 64).then_some(bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_workloads::{Program, Shape};

    #[test]
    fn what_was_stored_outlives_its_page_in_host_memory() {
        let shape = Shape { dataset_bytes: 1 << 40, ..Shape::default() };
        let mut contents = Contents::new(Program::new("array-swap", &shape).unwrap());
        let at = |i: u64| Addr(i * 4096 * 1021 + i % 64 * 64 + 8);
        let before: Vec<u64> = (0..4).map(|i| contents.load(at(i))).collect();
        // Four times as many pages as there are slots.
        let pages = 4 * SLOTS_MAX;
        (4..pages).for_each(|i| contents.store(at(i), i));
        assert!((4..pages).all(|i| contents.load::<u64>(at(i)) == i));
        assert_eq!(before, (0..4).map(|i| contents.load(at(i))).collect::<Vec<u64>>());
    }
}
