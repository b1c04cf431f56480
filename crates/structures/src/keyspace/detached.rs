//! Large values without a key: they are still being written, or were removed.
//!
//! They form a list that survives crashes. It starts in the header page, and the first page of each
//! value names its neighbours. So no page is lost if the server goes down while it writes a value.
//! A value that was removed stays until its readers are done. A tree of elements is in the list by
//! its root, and loses its other pages in steps.

use ebbtide_core::{Addr, FullMemory};

use super::entry::LargeId;
use super::layout::PageNumber;
use super::pages::{NEIGHBOURS, Pages};
use super::{DETACHED, Keyspace};
use crate::latch;

/// The offset of the first value's number, after the list's latch.
const FIRST: u64 = 8;

/// Values that one call checks.
const LOOKED_AT_MAX: usize = 4096;

fn list(keyspace: &Keyspace) -> Addr {
    keyspace.base + DETACHED
}

fn neighbours<M: FullMemory>(keyspace: &Keyspace, memory: &mut M, number: PageNumber) -> [u32; 2] {
    memory.load(keyspace.pages.address(number) + NEIGHBOURS)
}

fn set_neighbours<M: FullMemory>(
    keyspace: &Keyspace,
    memory: &mut M,
    number: PageNumber,
    to: [u32; 2],
) {
    memory.store(keyspace.pages.address(number) + NEIGHBOURS, to);
}

/// True if there are any.
pub(super) fn any<M: FullMemory>(keyspace: &Keyspace, memory: &mut M) -> bool {
    memory.load::<u64>(list(keyspace) + FIRST) != 0
}

/// Adds a value.
pub(super) fn add<M: FullMemory>(keyspace: &Keyspace, memory: &mut M, LargeId(number): LargeId) {
    let list = list(keyspace);
    latch::write(memory, list, |memory| {
        let first = memory.load::<u64>(list + FIRST) as PageNumber;
        set_neighbours(keyspace, memory, number, [0, first]);
        if first != 0 {
            let [_, next] = neighbours(keyspace, memory, first);
            set_neighbours(keyspace, memory, first, [number, next]);
        }
        memory.store(list + FIRST, u64::from(number));
    });
}

/// Takes a value off the list.
pub(super) fn remove<M: FullMemory>(keyspace: &Keyspace, memory: &mut M, value: LargeId) {
    latch::write(memory, list(keyspace), |memory| unlink(keyspace, memory, value.0));
}

fn unlink<M: FullMemory>(keyspace: &Keyspace, memory: &mut M, number: PageNumber) {
    let [before, next] = neighbours(keyspace, memory, number);
    if before == 0 {
        memory.store(list(keyspace) + FIRST, u64::from(next));
    } else {
        let [first, _] = neighbours(keyspace, memory, before);
        set_neighbours(keyspace, memory, before, [first, next]);
    }
    if next != 0 {
        let [_, last] = neighbours(keyspace, memory, next);
        set_neighbours(keyspace, memory, next, [before, last]);
    }
}

/// The rest of a value that is being freed.
pub(super) enum Left {
    /// Pages that another step frees.
    More,
    /// Its first page.
    Page,
    /// A chain of lists of pages.
    Chain,
}

/// Frees one value that no job holds, or a part of it. `reduce` frees a part of a value and returns
/// what is left. Returns true if there was one.
pub(super) fn reclaim<M: FullMemory>(
    keyspace: &Keyspace,
    memory: &mut M,
    is_held: impl Fn(LargeId) -> bool,
    reduce: impl FnOnce(&mut M, PageNumber) -> Left,
) -> bool {
    let list = list(keyspace);
    latch::write(memory, list, |memory| {
        let mut number = memory.load::<u64>(list + FIRST) as PageNumber;
        for _ in 0..LOOKED_AT_MAX {
            if number == 0 {
                break;
            }
            if !is_held(LargeId(number)) {
                match reduce(memory, number) {
                    Left::More => {}
                    Left::Page => {
                        unlink(keyspace, memory, number);
                        keyspace.pages.give(memory, number);
                    }
                    Left::Chain => {
                        unlink(keyspace, memory, number);
                        give(&keyspace.pages, memory, number);
                    }
                }
                return true;
            }
            [_, number] = neighbours(keyspace, memory, number);
        }
        false
    })
}

/// Frees the pages of the large value whose list begins at `first`.
pub(super) fn give<M: FullMemory>(pages: &Pages, memory: &mut M, first: PageNumber) {
    let (mut last, mut count) = (first, 0);
    loop {
        let (following, held) = pages.list_header(memory, last);
        count += 1 + held;
        if following == 0 {
            break;
        }
        last = following;
    }
    pages.give_chain(memory, (first, last), count);
}
