//! [`TracedMemory`]: a memory that reports every access.

use ebbtide_core::{Addr, Memory, PageId, Value, check_access};
use ebbtide_sim::Contents;

/// The contents of a program's memory, and a function that is called with the page of each access
/// and whether the access is a store. One job runs at a time, so that no job waits.
///
/// The function is called by its address, so that programs are compiled once for all of them.
pub(super) struct TracedMemory<'a> {
    pub(super) contents: &'a mut Contents,
    pub(super) touch: &'a mut dyn FnMut(PageId, bool),
}

impl Memory for TracedMemory<'_> {
    fn size_bytes(&self) -> u64 {
        self.contents.size_bytes()
    }

    fn load<T: Value>(&mut self, at: Addr) -> T {
        check_access::<T>(at);
        (self.touch)(at.page(), false);
        self.contents.load(at)
    }

    fn store<T: Value>(&mut self, at: Addr, value: T) {
        check_access::<T>(at);
        (self.touch)(at.page(), true);
        self.contents.store(at, value);
    }

    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        check_access::<u64>(at);
        (self.touch)(at.page(), true);
        let found: u64 = self.contents.load(at);
        if found != current {
            return Err(found);
        }
        self.contents.store(at, new);
        Ok(found)
    }

    fn work(&mut self, _instructions: u64) {}

    fn wait(&mut self, _at: Addr, _seen: u64) {}

    fn wake(&mut self, _at: Addr) {}
}
