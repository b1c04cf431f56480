//! Trees that were cleared, until their pages are given back one by one.
//!
//! The header page has room for the first pages of 64 levels. Each is the start of a chain of pages by
//! `right`, which shrinks from its start.

use ebbtide_core::Memory;

use super::entry::Entry;
use super::layout::{PageHeader, PageNumber};
use super::{DISCARDED, Keyspace, inner, leaf};
use crate::latch;

/// Chains that can wait.
const CHAINS: u64 = 64;

/// Adds the levels of the tree at `root`. Says whether there was room.
pub(super) fn add<M: Memory>(keyspace: &Keyspace, memory: &mut M, root: PageNumber) -> bool {
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

/// Gives back one page, if `may` allows it. Says whether there was one.
pub(super) fn reclaim<M: Memory>(
    keyspace: &Keyspace,
    memory: &mut M,
    may: impl FnOnce() -> bool,
) -> bool {
    let places = keyspace.base + DISCARDED;
    latch::write(memory, places, |memory| {
        if !may() {
            return false;
        }
        for index in 0..CHAINS {
            let at = places + 8 + index * 8;
            let first: u64 = memory.load(at);
            if first == 0 {
                continue;
            }
            let number = first as PageNumber;
            let page = keyspace.pages.address(number);
            let header = PageHeader::load(memory, page);
            if header.level == 0 {
                leaf::each_entry(memory, page, &header, |memory, at| {
                    let entry = Entry::load_without_value(memory, at, leaf::end(page));
                    if let Some(entry) = entry {
                        keyspace.give_pages(memory, &entry);
                    }
                });
            }
            memory.store(at, u64::from(header.right));
            keyspace.pages.give(memory, number);
            return true;
        }
        false
    })
}
