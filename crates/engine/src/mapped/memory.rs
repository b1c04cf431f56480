//! [`PointerMemory`]: a region as [`Memory`], by plain loads and stores. Programs that are written
//! over `Memory` run in a region without a check of residency.

use ebbtide_core::{Addr, FullMemory, Memory, Value, check_access};

use super::region::Region;
use crate::core::flash_memory::FlashMemory;
use crate::host::atomic_words;

/// The memory of a job over a region.
pub struct PointerMemory<'a, 'b> {
    base: *mut u8,
    size_bytes: u64,
    job: &'a mut FlashMemory<'b>,
}

impl Region {
    /// The region as a memory, for the job of `job`. The address 0 is the region's first byte.
    pub fn memory<'a, 'b>(&'a self, job: &'a mut FlashMemory<'b>) -> PointerMemory<'a, 'b> {
        let (base, size_bytes) = (self.start().as_ptr(), self.bytes() as u64);
        PointerMemory { base, size_bytes, job }
    }
}

impl PointerMemory<'_, '_> {
    #[inline(always)]
    fn place<T: Value>(&self, at: Addr) -> *mut u8 {
        check_access::<T>(at);
        if at.0 >= self.size_bytes {
            out_of_bounds(at, self.size_bytes);
        }
        // SAFETY: within the region; a value does not cross a line, so its end is too.
        unsafe { self.base.add(at.0 as usize) }
    }
}

#[cold]
#[inline(never)]
fn out_of_bounds(at: Addr, size_bytes: u64) -> ! {
    panic!("address {at:?} is beyond the region of {size_bytes} bytes");
}

impl Memory for PointerMemory<'_, '_> {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    #[inline(always)]
    fn load<T: Value>(&mut self, at: Addr) -> T {
        // SAFETY: `place` has checked alignment and bounds. The region lives as long as `self`, and
        // is only accessed as words.
        unsafe { atomic_words::load(self.place::<T>(at)) }
    }

    #[inline(always)]
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        // SAFETY: as in `load`.
        unsafe { atomic_words::store(self.place::<T>(at), value) }
    }

    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        // SAFETY: as in `load`.
        unsafe { atomic_words::compare_exchange(self.place::<u64>(at), current, new) }
    }

    fn wait(&mut self, _at: Addr, _seen: u64) {
        // The holder of the latch is another job, perhaps of this core.
        self.job.yield_now();
    }

    fn wake(&mut self, _at: Addr) {}
}

impl FullMemory for PointerMemory<'_, '_> {
    fn work(&mut self, instructions: u64) {
        self.job.work(instructions);
    }

    fn let_others_run(&mut self) {
        self.job.let_others_run();
    }
}
