//! Trees of cleared databases. Their pages are freed one by one.
//!
//! The header page has room for the first pages of 64 levels. Each is the start of a chain of pages
//! by `right`, which shrinks from its start.

use ebbtide_core::FullMemory;

use super::entry::Entry;
use super::layout::{PageHeader, PageNumber};
use super::{DISCARDED, Keyspace, inner, leaf};
use crate::latch;

/// The most chains that can wait.
const CHAINS: u64 = 64;

/// Adds the levels of the tree at `root`. Returns true if there was room.
pub(super) fn add<M: FullMemory>(keyspace: &Keyspace, memory: &mut M, root: PageNumber) -> bool {
    let mut firsts = Vec::new();
    let mut number = root;
    loop {
        firsts.push(number);
        let page = keyspace.pages.address(number);
        let header = PageHeader::load(memory, page);
        if header.level == 0 {
            break;
        }
        number = inner::child(memory, page, &header, 0);
    }
    let places = keyspace.base + DISCARDED;
    latch::write(memory, places, |memory| {
        let free = |memory: &mut M, index: &u64| memory.load::<u64>(places + 8 + index * 8) == 0;
        let free: Vec<u64> = (0..CHAINS).filter(|index| free(memory, index)).collect();
        if free.len() < firsts.len() {
            return false;
        }
        for (index, first) in free.into_iter().zip(&firsts) {
            memory.store(places + 8 + index * 8, u64::from(*first));
        }
        true
    })
}

/// Frees one page. Returns true if there was one.
///
/// The pages that lead to it were freed before, so a job that still descends the tree notices.
pub(super) fn reclaim<M: FullMemory>(keyspace: &Keyspace, memory: &mut M) -> bool {
    let places = keyspace.base + DISCARDED;
    latch::write(memory, places, |memory| {
        for index in 0..CHAINS {
            let at = places + 8 + index * 8;
            let first: u64 = memory.load(at);
            if first != 0 {
                let right = give(keyspace, memory, first as PageNumber);
                memory.store(at, u64::from(right));
                return true;
            }
        }
        false
    })
}

/// Frees a page with the values of its keys. Returns the number of the page that follows.
fn give<M: FullMemory>(keyspace: &Keyspace, memory: &mut M, number: PageNumber) -> PageNumber {
    let page = keyspace.pages.address(number);
    let right = latch::write(memory, page, |memory| {
        let header = PageHeader::load(memory, page);
        if header.level == 0 {
            leaf::each_entry(memory, page, &header, |memory, at| {
                let entry = Entry::load_without_value(memory, at, leaf::end(page));
                if let Some(entry) = entry {
                    keyspace.give_pages(memory, &entry);
                }
            });
        }
        header.right
    });
    keyspace.pages.give(memory, number);
    right
}
