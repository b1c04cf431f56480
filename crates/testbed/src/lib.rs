//! Memories on which tests run structures and programs.
//!
//! * [`Plain`]: words of one job. It counts accesses, and those that a test names fail.
//! * [`Sparse`]: pages that are made when a job first accesses them, for datasets of any size.
//! * [`Faulty`]: any memory, with accesses that fail; [`run_with_fault`] lets one access fail.
//! * [`Kept`]: a transaction whose stores take effect word by word, with a look after each.
//! * [`Interleaved`]: one thread's view of [`Shared`] words. A seeded generator chooses which
//!   thread makes the next access, so that a test repeats the same interleaving ([`interleave()`]).
//! * [`Raced`]: one thread's view of the same words, in the order the machine gives ([`race`]).
//!
//! ```
//! use ebbtide_core::{Addr, Memory};
//! use ebbtide_testbed::{Shared, interleave};
//!
//! let words = Shared::new(&[0]);
//! interleave(&words, 2, 7, |_, memory| {
//!     let seen: u64 = memory.load(Addr(0));
//!     memory.store(Addr(0), seen + 1);
//! });
//! let count = words.into_plain().words[0];
//! assert!(count == 1 || count == 2, "one increment may overwrite the other");
//! ```

#![forbid(unsafe_code)]

mod commit;
mod fault;
mod interleave;
mod plain;
pub mod power_loss;
mod sparse;

pub use commit::{Kept, Onlooker};
pub use fault::{Faulty, catch_fault, run_with_fault};
pub use interleave::{Interleaved, Raced, Shared, interleave, interleave_bursts, race};
pub use plain::Plain;
pub use sparse::Sparse;

use ebbtide_core::{Addr, PAGE_BYTES, PageId, Value, check_access};

/// The words of pages `0..pages`. `image` writes each page.
///
/// The buffer given to `image` holds garbage, so that a byte that `image` leaves out is noticed.
pub fn words_of_pages(
    pages: u64,
    mut image: impl FnMut(PageId, &mut [u8; PAGE_BYTES]),
) -> Vec<u64> {
    (0..pages).flat_map(|page| words_of_page(PageId(page), &mut image)).collect()
}

/// The words of one page, as [`words_of_pages`] makes them.
pub fn words_of_page(page: PageId, image: impl FnOnce(PageId, &mut [u8; PAGE_BYTES])) -> Vec<u64> {
    let mut bytes = [0xa5; PAGE_BYTES];
    image(page, &mut bytes);
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

/// Loads a value word by word. `word` returns the word of an index.
fn load<T: Value>(at: Addr, mut word: impl FnMut(usize) -> u64) -> T {
    check_access::<T>(at);
    let mut value = T::zeroed();
    let words = bytemuck::bytes_of_mut(&mut value).as_chunks_mut::<8>().0;
    for (i, bytes) in words.iter_mut().enumerate() {
        *bytes = word(index(at) + i).to_ne_bytes();
    }
    value
}

/// Stores a value word by word. `word` takes the word of that index.
fn store<T: Value>(at: Addr, value: T, mut word: impl FnMut(usize, u64)) {
    check_access::<T>(at);
    for (i, bytes) in bytemuck::bytes_of(&value).as_chunks::<8>().0.iter().enumerate() {
        word(index(at) + i, u64::from_ne_bytes(*bytes));
    }
}

/// The index of the word at `at`.
fn index(at: Addr) -> usize {
    at.0 as usize / 8
}

/// The effect of [`compare_exchange`](ebbtide_core::Memory::compare_exchange) on a word of one job.
fn exchange(word: &mut u64, current: u64, new: u64) -> Result<u64, u64> {
    if *word == current { Ok(std::mem::replace(word, new)) } else { Err(*word) }
}
