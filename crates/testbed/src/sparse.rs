//! [`Sparse`]: pages that are made when they are first accessed.

use std::collections::HashMap;
use std::fmt;

use ebbtide_core::{Addr, FullMemory, Memory, PAGE_BYTES, PageId, Value};

use crate::{exchange, index, load, store, words_of_page};

const WORDS_PER_PAGE: usize = PAGE_BYTES / 8;

/// Writes the contents of a page.
type Image<'a> = dyn Fn(PageId, &mut [u8; PAGE_BYTES]) + 'a;

/// A memory of any size, for one job at a time. It keeps the pages that were accessed, and makes
/// each from its image at the first access.
pub struct Sparse<'a> {
    size_bytes: u64,
    image: Box<Image<'a>>,
    /// The words of each page accessed so far, by page number.
    pub pages: HashMap<u64, Vec<u64>>,
}

impl<'a> Sparse<'a> {
    /// A memory of `size_bytes` bytes whose pages `image` writes.
    pub fn new(size_bytes: u64, image: impl Fn(PageId, &mut [u8; PAGE_BYTES]) + 'a) -> Sparse<'a> {
        Sparse { size_bytes, image: Box::new(image), pages: HashMap::new() }
    }

    fn page(&mut self, at: Addr) -> &mut Vec<u64> {
        self.pages.entry(at.page().0).or_insert_with(|| words_of_page(at.page(), &self.image))
    }
}

impl fmt::Debug for Sparse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sparse").field("size_bytes", &self.size_bytes).finish_non_exhaustive()
    }
}

impl Memory for Sparse<'_> {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
    fn load<T: Value>(&mut self, at: Addr) -> T {
        let page = self.page(at);
        load(at, |i| page[i % WORDS_PER_PAGE])
    }
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        let page = self.page(at);
        store(at, value, |i, word| page[i % WORDS_PER_PAGE] = word);
    }
    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        exchange(&mut self.page(at)[index(at) % WORDS_PER_PAGE], current, new)
    }
    fn wait(&mut self, at: Addr, _seen: u64) {
        panic!("the only job waits for the word at {at:?}");
    }
    fn wake(&mut self, _at: Addr) {}
}

impl FullMemory for Sparse<'_> {
    fn work(&mut self, _instructions: u64) {}
}
