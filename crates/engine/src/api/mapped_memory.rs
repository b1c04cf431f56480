//! Mapped memory. Either all of it is in DRAM, as the bound for every other memory, or it is a file
//! under OS paging, as the baseline.

use std::fs::File;
use std::io;
use std::sync::Arc;

use ebbtide_core::{Addr, FullMemory, Memory, PAGE_BYTES, PageId, Value, check_access};

use crate::host::atomic_words;
use crate::host::mapping::Mapping;
use crate::store::Store;

/// A mapped address space that any number of threads share.
#[derive(Clone)]
pub struct MappedMemory {
    mapping: Arc<Mapping>,
    size_bytes: u64,
}

impl MappedMemory {
    /// `pages` pages in DRAM, in huge pages where granted, resident from the start. `image` writes
    /// the contents of each.
    ///
    /// # Errors
    /// When there is too little memory.
    pub fn dram(
        pages: u64,
        image: &(dyn Fn(PageId, &mut [u8; PAGE_BYTES]) + Sync),
    ) -> io::Result<MappedMemory> {
        let mapping = Mapping::filled(pages, image)?;
        Ok(MappedMemory { mapping: Arc::new(mapping), size_bytes: pages * PAGE_BYTES as u64 })
    }

    /// The pages of a store, under the kernel's own paging. A page that cannot be read ends the
    /// process (SIGBUS), as with every mapped file. Stores of jobs do not reach a store that is
    /// open for reading only.
    ///
    /// # Errors
    /// When the file cannot be opened or mapped. Also for a store with a log, whose pages have
    /// other places.
    pub fn paged(store: &Store) -> io::Result<MappedMemory> {
        let (header, writes) = (store.header(), !store.is_read_only());
        if header.log_blocks > 0 {
            let text =
                "a store with a log is not mapped: only its engine knows where its pages are";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        // The store's own descriptor bypasses the page cache; paging lives off it.
        let file = File::options().read(true).write(writes).open(store.path())?;
        let size_bytes = header.pages * PAGE_BYTES as u64;
        let (offset, bytes) = (store.pages_offset(), size_bytes as usize);
        let mapping = Mapping::of_file(&file, writes, offset, bytes)?;
        Ok(MappedMemory { mapping: Arc::new(mapping), size_bytes })
    }

    #[inline(always)]
    fn place<T: Value>(&self, at: Addr) -> *mut u8 {
        check_access::<T>(at);
        if at.0 >= self.size_bytes {
            out_of_bounds(at, self.size_bytes);
        }
        // SAFETY: within the mapping; a value does not cross a line, so its end is too.
        unsafe { self.mapping.base().add(at.0 as usize) }
    }
}

#[cold]
#[inline(never)]
fn out_of_bounds(at: Addr, size_bytes: u64) -> ! {
    panic!("address {at:?} is beyond the address space of {size_bytes} bytes");
}

impl Memory for MappedMemory {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    #[inline(always)]
    fn load<T: Value>(&mut self, at: Addr) -> T {
        // SAFETY: `place` has checked alignment and bounds; the mapping is only accessed as words.
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
        // The holder of the latch runs on another kernel thread, perhaps on this very CPU.
        std::thread::yield_now();
    }

    fn wake(&mut self, _at: Addr) {}
}

impl FullMemory for MappedMemory {
    fn work(&mut self, instructions: u64) {
        atomic_words::execute(instructions);
    }
}
