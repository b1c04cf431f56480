//! [`Heap`]: malloc, free, realloc and aligned allocation in a region.
//!
//! Notes of the blocks in use lie in DRAM, off the data pages. So neither allocation nor `free`
//! touches a page of the region, and none of them can miss. The notes take their DRAM from the
//! pages that are mapped at once.

mod blocks;
mod runs;
mod small;

use std::alloc::Layout;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use allocator_api2::alloc::{AllocError, Allocator};
use ebbtide_core::PAGE_BYTES;
use parking_lot::Mutex;

use super::fatal::fatal;
use super::region::Region;
use blocks::Blocks;
use small::{BadFree, CHUNK_BYTES};

/// The alignment of a block from [`Heap::allocate`] without another one.
pub const ALIGNMENT: usize = 16;

/// An allocator over all of a region. Clones share it, and any thread may use it.
///
/// It is an [`Allocator`], so that `hashbrown::HashMap` and `allocator_api2::vec::Vec` work in a
/// region.
///
/// ```no_run
/// # use ebbtide_engine::mapped::{Heap, MappedStore};
/// use allocator_api2::vec::Vec;
///
/// let store = MappedStore::builder("regions.ebb").size("64GiB").dram("2GiB").open()?;
/// let heap = Heap::new(&store.mapped("16GiB")?);
/// store.run(move || {
///     let mut numbers = Vec::new_in(heap);
///     numbers.extend(0..1_000_000u64);
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Heap(Arc<Shared>);

struct Shared {
    region: Region,
    /// The address of the first chunk, which is a multiple of the size of a chunk.
    base: usize,
    blocks: Mutex<Blocks>,
    /// Pages of DRAM that the notes have taken.
    pages: Mutex<usize>,
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("region", &self.0.region).finish_non_exhaustive()
    }
}

impl Heap {
    /// A heap over all of `region`, which nothing else must use. Up to 64 KiB at the start of the
    /// region are left out.
    pub fn new(region: &Region) -> Heap {
        let start = region.start().as_ptr() as usize;
        let base = start.next_multiple_of(CHUNK_BYTES);
        let chunks = (start + region.bytes()).saturating_sub(base) / CHUNK_BYTES;
        let phase = (base / CHUNK_BYTES % (1 << 16)) as u32;
        let blocks = Mutex::new(Blocks::new(chunks as u32, phase));
        let heap =
            Heap(Arc::new(Shared { region: region.clone(), base, blocks, pages: Mutex::new(0) }));
        heap.charge(heap.0.blocks.lock().memory_bytes());
        heap
    }

    /// The region that the blocks lie in.
    pub fn region(&self) -> &Region {
        &self.0.region
    }

    /// Takes a block of `bytes` bytes at a multiple of `align`, which must be a power of two.
    /// Returns `None` if the region has no room for it.
    pub fn allocate(&self, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        assert!(align.is_power_of_two(), "an alignment of {align} is no power of two");
        let mut blocks = self.0.blocks.lock();
        let offset = blocks.allocate(bytes, align)?;
        let memory_bytes = blocks.memory_bytes();
        drop(blocks);
        self.charge(memory_bytes);
        Some(self.address(offset))
    }

    /// Frees a block. The process ends with one line if no block begins at `at`, or it is free.
    pub fn free(&self, at: NonNull<u8>) {
        let mut blocks = self.0.blocks.lock();
        let freed = blocks.free(self.offset(at));
        let memory_bytes = blocks.memory_bytes();
        drop(blocks);
        match freed {
            Ok(()) => self.charge(memory_bytes),
            Err(BadFree::Freed) => fatal(format_args!("double free of {at:p} in a mapped region")),
            Err(BadFree::NoBlock) => {
                fatal(format_args!("free of {at:p}, where no block of the region begins"));
            }
        }
    }

    /// Bytes that the block at `at` can hold, or `None` if no block in use begins there.
    pub fn usable_bytes(&self, at: NonNull<u8>) -> Option<usize> {
        self.0.blocks.lock().usable_bytes(self.offset(at))
    }

    /// Makes the block at `at` hold `bytes` bytes without moving it. Returns true if it does.
    pub fn resize(&self, at: NonNull<u8>, bytes: usize) -> bool {
        self.0.blocks.lock().resize(self.offset(at), bytes)
    }

    /// Makes the block at `at` hold `bytes` bytes. Moves it if it must, with its contents. Returns
    /// `None` if there is no room; the block is then unchanged.
    pub fn reallocate(&self, at: NonNull<u8>, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let Some(usable) = self.usable_bytes(at) else {
            fatal(format_args!("realloc of {at:p}, where no block of the region begins"));
        };
        if (at.as_ptr() as usize).is_multiple_of(align) && self.resize(at, bytes) {
            return Some(at);
        }
        let moved = self.allocate(bytes, align)?;
        self.copy(at, moved, usable.min(bytes));
        self.free(at);
        Some(moved)
    }

    fn address(&self, offset: usize) -> NonNull<u8> {
        NonNull::new((self.0.base + offset) as *mut u8).expect("a region is not at address zero")
    }

    fn offset(&self, at: NonNull<u8>) -> usize {
        (at.as_ptr() as usize).wrapping_sub(self.0.base)
    }

    /// Copies `bytes` bytes from one block to another one.
    fn copy(&self, from: NonNull<u8>, to: NonNull<u8>, bytes: usize) {
        // SAFETY: both are blocks of this heap that hold so many bytes. They do not overlap.
        unsafe { to.copy_from_nonoverlapping(from, bytes) };
    }

    /// Takes the DRAM for `bytes` bytes of notes from the pages of the region, or gives it back.
    fn charge(&self, bytes: usize) {
        let wanted = bytes.div_ceil(PAGE_BYTES);
        let mut pages = self.0.pages.lock();
        if *pages != wanted {
            self.0.region.change_dram(*pages, wanted);
            *pages = wanted;
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.region.change_dram(*self.pages.get_mut(), 0);
    }
}

// SAFETY: a block is in use until it is freed. All clones share the heap, and the region lives as
// long as the last of them.
unsafe impl Allocator for Heap {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let block = Heap::allocate(self, layout.size(), layout.align()).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(block, layout.size()))
    }

    unsafe fn deallocate(&self, at: NonNull<u8>, _layout: Layout) {
        self.free(at);
    }

    unsafe fn grow(
        &self,
        at: NonNull<u8>,
        _old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let block = self.reallocate(at, new.size(), new.align()).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(block, new.size()))
    }

    unsafe fn shrink(
        &self,
        at: NonNull<u8>,
        _old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        let block = self.reallocate(at, new.size(), new.align()).ok_or(AllocError)?;
        Ok(NonNull::slice_from_raw_parts(block, new.size()))
    }
}
