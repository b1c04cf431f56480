//! [`Contents`]: the data, in host memory that grows with the number of stored lines.

mod stored;

use std::cell::Cell;
use std::ops::Range;

use ebbtide_core::{Addr, Archive, LINE_BYTES, PAGE_BYTES, PageId, Value};
use ebbtide_workloads::Workload;

use self::stored::Stored;

type Line = [u64; LINE_BYTES / 8];
/// The lines of a page.
type Lines = [Line; PAGE_BYTES / LINE_BYTES];
type Page = [u64; PAGE_BYTES / 8];
type Image = dyn Fn(PageId, Range<usize>, &mut [u8; PAGE_BYTES]) -> Range<usize>;

/// The image of a program, overlaid with the stored lines.
///
/// Contents regenerate a line from the image when it is touched, and keep it in a direct-mapped
/// cache of pages in host memory. When a page leaves that cache, its stored lines are kept. So 256
/// GiB of data take as much host memory as a run touches. Results do not depend on the cache.
pub struct Contents {
    image: Box<Image>,
    size_bytes: u64,
    pages: Vec<Page>,
    slots: Vec<Slot>,
    mask: u64,
    /// Buffer for regenerated lines.
    made: Box<Page>,
    stored: Stored,
}

#[derive(Clone, Copy)]
struct Slot {
    /// `page + 1`, or 0 if the slot is empty.
    tag: u64,
    /// Lines that are present, one bit each.
    present: u64,
    /// Lines that were stored to since the page has the slot, one bit each.
    written: u64,
}

impl Slot {
    const EMPTY: Slot = Slot { tag: 0, present: 0, written: 0 };
}

/// The source of a line in its slot.
enum Brought {
    /// It was there.
    Present,
    /// It was regenerated now, in the buffer for regenerated lines.
    Made,
}

/// Pages in host memory: 32 MiB. A larger cache would regenerate fewer pages but take longer to
/// access.
const SLOTS_MAX: u64 = 1 << 13;

impl Contents {
    /// The untouched image of `program`.
    pub fn new(program: impl Workload + 'static) -> Contents {
        let size_bytes = program.size_bytes();
        let image = move |page, lines, out: &mut _| program.image_lines(page, lines, out);
        let pages = size_bytes / PAGE_BYTES as u64;
        let slots = pages.next_power_of_two().min(SLOTS_MAX);
        let spare = SPARE.take().filter(|spare| spare.len() as u64 == slots);
        Contents {
            image: Box::new(image),
            size_bytes,
            // Zeroed memory from the host: `vec!` would write it.
            pages: spare.unwrap_or_else(|| bytemuck::zeroed_vec(slots as usize)),
            slots: vec![Slot::EMPTY; slots as usize],
            mask: slots - 1,
            made: Box::new([0; PAGE_BYTES / 8]),
            stored: Stored::default(),
        }
    }

    /// Size of the address space in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The value at `at`, which the caller has checked.
    #[inline]
    pub fn load<T: Value>(&mut self, at: Addr) -> T {
        let mut value = T::zeroed();
        self.read(at, bytemuck::bytes_of_mut(&mut value));
        value
    }

    /// Stores `value` at `at`, which the caller has checked.
    #[inline]
    pub fn store<T: Value>(&mut self, at: Addr, value: T) {
        self.write(at, bytemuck::bytes_of(&value));
    }

    /// Stores `new` in the word at `at`, which the caller has checked, if that word is `current`.
    /// Returns the word found: `Ok` if it was exchanged, `Err` if not.
    pub(crate) fn compare_exchange(
        &mut self,
        at: Addr,
        current: u64,
        new: u64,
    ) -> Result<u64, u64> {
        let found: u64 = self.load(at);
        if found != current {
            return Err(found);
        }
        self.store(at, new);
        Ok(found)
    }

    /// Reads the bytes at `at`, which lie in one line, into `out`.
    #[inline]
    pub(crate) fn read(&mut self, at: Addr, out: &mut [u8]) {
        let (page, offset) = (at.page(), at.page_offset());
        let slot = self.slot_of(page);
        // A line that is regenerated now is read from the buffer: the slot's copy is hardly in the
        // host's caches.
        let bytes: &[u8] = match self.brought(slot, page, offset / LINE_BYTES) {
            Brought::Present => bytemuck::cast_slice(&self.pages[slot]),
            Brought::Made => bytemuck::cast_slice(&*self.made),
        };
        copy(out, &bytes[offset..]);
    }

    /// Writes `value` to the bytes at `at`, which lie in one line.
    #[inline]
    pub(crate) fn write(&mut self, at: Addr, value: &[u8]) {
        let offset = at.page_offset();
        let slot = self.slot_of(at.page());
        self.brought(slot, at.page(), offset / LINE_BYTES);
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.pages[slot]);
        bytes[offset..offset + value.len()].copy_from_slice(value);
        self.slots[slot].written |= 1 << (offset / LINE_BYTES);
    }

    /// The slot of `page`.
    #[inline]
    fn slot_of(&self, page: PageId) -> usize {
        // Spreads neighbouring pages of a hot region over different slots.
        ((page.0 ^ (page.0 >> 16).wrapping_mul(0x9e37_79b9)) & self.mask) as usize
    }

    /// Brings `line` of `page` into its slot, which is `index`.
    #[inline]
    fn brought(&mut self, index: usize, page: PageId, line: usize) -> Brought {
        if self.slots[index].tag != page.0 + 1 {
            self.bring(index, page);
        }
        if self.slots[index].present >> line & 1 == 0 {
            self.make(index, page, line);
            return Brought::Made;
        }
        Brought::Present
    }

    /// Assigns the slot to `page`, with the page's stored lines.
    #[cold]
    fn bring(&mut self, index: usize, page: PageId) {
        let Slot { tag, written, .. } = self.slots[index];
        let all: &mut Lines = bytemuck::cast_mut(&mut self.pages[index]);
        if written != 0 {
            self.stored.keep(PageId(tag - 1), written, all);
        }
        let present = self.stored.read(page, all);
        self.slots[index] = Slot { tag: page.0 + 1, present, written: 0 };
    }

    /// Regenerates `line` of `page`, with the lines that the image generates together.
    #[cold]
    fn make(&mut self, index: usize, page: PageId, line: usize) {
        let made = (self.image)(page, line..line + 1, bytemuck::cast_mut(&mut *self.made));
        debug_assert!(made.contains(&line));
        let from: &Lines = bytemuck::cast_ref(&*self.made);
        let all: &mut Lines = bytemuck::cast_mut(&mut self.pages[index]);
        let slot = &mut self.slots[index];
        for line in made {
            if slot.present >> line & 1 == 0 {
                all[line] = from[line];
                slot.present |= 1 << line;
            }
        }
    }
}

thread_local! {
    /// The host memory of the contents that were dropped last. The next contents use it as it is,
    /// since no line of it is present. The host takes longer to provide fresh memory than a short
    /// run takes.
    static SPARE: Cell<Option<Vec<Page>>> = const { Cell::new(None) };
}

impl Drop for Contents {
    fn drop(&mut self) {
        // The thread may be ending.
        let _ = SPARE.try_with(|spare| spare.set(Some(std::mem::take(&mut self.pages))));
    }
}

impl Contents {
    /// Saves all stored lines to `archive`, or restores them from it. Restoring needs the same
    /// image.
    pub(crate) fn state(&mut self, archive: &mut Archive<'_>) {
        for (slot, page) in self.slots.iter_mut().zip(&self.pages) {
            if slot.written != 0 {
                self.stored.keep(PageId(slot.tag - 1), slot.written, bytemuck::cast_ref(page));
            }
            *slot = Slot::EMPTY;
        }
        archive.part(&mut self.stored);
    }
}

/// Copies the beginning of `from` to `out`. Words and lines, the common sizes, need no call.
#[inline]
fn copy(out: &mut [u8], from: &[u8]) {
    if let Some(word) = out.as_mut_array::<8>() {
        word.copy_from_slice(&from[..8]);
    } else if let Some(line) = out.as_mut_array::<LINE_BYTES>() {
        line.copy_from_slice(&from[..LINE_BYTES]);
    } else {
        out.copy_from_slice(&from[..out.len()]);
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
    fn an_archive_holds_what_was_stored_wherever_it_was() {
        let shape = Shape { dataset_bytes: 1 << 40, ..Shape::default() };
        let of_program = || Contents::new(Program::new("array-swap", &shape).unwrap());
        let mut contents = of_program();
        let at = |i: u64| Addr(i * 4096 * 1021 + i % 64 * 64 + 8);
        let pages = 2 * SLOTS_MAX;
        let untouched: u64 = contents.load(at(pages));
        (0..pages).for_each(|i| contents.store(at(i), i));
        let bytes = Archive::bytes_of(|archive| contents.state(archive));
        let mut other = of_program();
        // Lines already in host memory must not be taken for those in the archive.
        let before: Vec<u64> = (0..pages).map(|i| other.load(at(i))).collect();
        assert!(before.iter().zip(0..).any(|(word, i)| *word != i));
        assert!(Archive::restore(&bytes, |archive| other.state(archive)));
        for mut contents in [contents, other] {
            assert!((0..pages).all(|i| contents.load::<u64>(at(i)) == i));
            assert_eq!(contents.load::<u64>(at(pages)), untouched);
        }
    }

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
