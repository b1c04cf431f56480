//! [`Catalogue`]: structures that are found by name when a store is opened again.
//!
//! A catalogue is the first page of a range of addresses and hands out the rest of it. It holds the
//! name, type and address of every structure. So a program that opens a durable store finds what an
//! earlier program made there, in any order.
//!
//! A page of the catalogue begins with a line of its own: mark, latch, next free address, end, next
//! page of the catalogue. It goes on with 31 entries of two lines each: name; type, address,
//! capacity and bytes. When all are in use, another such page is taken from the end of the range.
//! An entry without a name is blank, or a free range, or a range that must be zeroed before it is
//! free.

use bytemuck::{Pod, Zeroable};
use ebbtide_core::durability::TransactionError;
use ebbtide_core::{Addr, FullMemory, Value};
use thiserror::Error;

use super::{BTree, LINE, Map, OrderedMap, PAGE, Region, RegionFull, Vector, check_base};
use crate::latch;
use crate::row::Row;

/// The last byte is the version of the format. It covers the formats of the structures as well.
const MARK: u64 = u64::from_le_bytes(*b"EBBROOT3");
const EARLIER_MARKS: [u64; 2] =
    [u64::from_le_bytes(*b"EBBTROOT"), u64::from_le_bytes(*b"EBBROOT2")];
const LATCH: u64 = 8;
const OWN: u64 = 16;
/// The offset of the address of the next page of the catalogue, in every page of it.
const MORE: u64 = 32;
const ENTRIES: u64 = LINE;
const ENTRY_BYTES: u64 = 2 * LINE;
const ENTRIES_OF_PAGE: u64 = (PAGE - ENTRIES) / ENTRY_BYTES;
/// A catalogue with more pages is damaged.
const PAGES_MAX: usize = 1 << 16;
/// Pages that one transaction zeroes.
const CLEARED_PAGES: u64 = 4;

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = LINE as usize;

/// The catalogue's own words.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Own {
    next: u64,
    end: u64,
}

/// The catalogue's knowledge of a structure, without its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
struct Entry {
    kind: u64,
    /// The sizes of its keys and values, in bytes.
    key_bytes: u64,
    value_bytes: u64,
    base: u64,
    capacity: u64,
    /// Its size in bytes, in whole pages.
    bytes: u64,
    /// Bytes that are zeros again. For a structure that was removed.
    cleared: u64,
}

const BLANK: u64 = 0;
const VECTOR: u64 = 1;
const MAP: u64 = 2;
const RANGE: u64 = 3;
const ORDERED_MAP: u64 = 4;
// Structures that no longer exist had 5 to 7.
const B_TREE: u64 = 8;
/// A range of a removed structure that is zeros again.
const FREE: u64 = 1 << 32;
/// A range that is being zeroed.
const LEAVING: u64 = FREE + 1;

/// Structures in a range of addresses, by name.
#[derive(Debug, Clone, Copy)]
pub struct Catalogue {
    base: Addr,
}

/// Why a structure is not available.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CatalogueError {
    /// The range holds something else.
    #[error("the range at {0:?} holds something else than a catalogue")]
    NotOne(Addr),
    /// An earlier version of this library has made it, and this version cannot read its structures.
    #[error(
        "the catalogue at {0:?} is of an earlier format: copy its data with the version that made it"
    )]
    Older(Addr),
    /// The name is in use for another structure.
    #[error("'{name}' is {found}, not {expected}")]
    Other {
        /// The name.
        name: String,
        /// The structure that was found.
        found: String,
        /// The structure that was expected.
        expected: String,
    },
    /// The name is too long or empty.
    #[error("the name '{0}' is empty or has more than {NAME_BYTES_MAX} bytes")]
    BadName(String),
    /// The range has too little room left.
    #[error(transparent)]
    NoRoom(#[from] RegionFull),
    /// The store cannot be written.
    #[error(transparent)]
    Transaction(#[from] TransactionError),
}

impl Entry {
    fn describe(&self) -> String {
        let Entry { kind, key_bytes, value_bytes, capacity, .. } = self;
        match *kind {
            VECTOR => format!("a vector of {capacity} values of {value_bytes} bytes"),
            MAP => format!("a map for {capacity} entries of {key_bytes} and {value_bytes} bytes"),
            RANGE => format!("a range of {capacity} bytes"),
            ORDERED_MAP => format!("an ordered map of {capacity} pages"),
            B_TREE => format!(
                "a B+-tree of {capacity} pages with keys of {key_bytes} bytes and rows of {value_bytes}"
            ),
            _ => "a structure of another version".into(),
        }
    }

    /// Returns true if both describe the same structure; its address does not matter.
    fn is_like(&self, other: &Entry) -> bool {
        let placeless = |entry: &Entry| Entry { base: 0, bytes: 0, cleared: 0, ..*entry };
        placeless(self) == placeless(other)
    }

    fn has_name(&self) -> bool {
        !matches!(self.kind, BLANK | FREE | LEAVING)
    }
}

impl Catalogue {
    /// Opens the catalogue of the `bytes` bytes from `start` on. Makes one if they are blank.
    ///
    /// If a crash interrupted the removal of a structure, completes it, page by page.
    ///
    /// # Errors
    /// If the bytes hold something else, or a catalogue of an earlier format.
    ///
    /// # Panics
    /// If `start` is not the start of a page.
    pub fn open<M: FullMemory>(
        memory: &mut M,
        start: Addr,
        bytes: u64,
    ) -> Result<Catalogue, CatalogueError> {
        check_base(start);
        let (opened, _) = memory.transaction(|memory| {
            latch::write(memory, start + LATCH, |memory| match memory.load::<u64>(start) {
                MARK => Ok(()),
                0 => {
                    memory.store(start, MARK);
                    let (next, end) = (start.0 + PAGE, start.0 + bytes / PAGE * PAGE);
                    memory.store(start + OWN, Own { next, end });
                    Ok(())
                }
                mark if EARLIER_MARKS.contains(&mark) => Err(CatalogueError::Older(start)),
                _ => Err(CatalogueError::NotOne(start)),
            })
        })?;
        opened?;
        let catalogue = Catalogue { base: start };
        catalogue.clear(memory)?;
        Ok(catalogue)
    }

    /// Finds the vector with this name, or makes one of zeros.
    ///
    /// # Errors
    /// If the name belongs to another structure, or there is no room.
    pub fn vector<T: Value, M: FullMemory>(
        &self,
        memory: &mut M,
        name: &str,
        len: u64,
    ) -> Result<Vector<T>, CatalogueError> {
        let value_bytes = size_of::<T>() as u64;
        let wanted = Entry { kind: VECTOR, value_bytes, capacity: len, ..Entry::default() };
        let at = self.find(memory, name, wanted, Vector::<T>::bytes(len))?;
        Ok(Vector::at(at, len))
    }

    /// Finds the map with this name, or makes an empty one.
    ///
    /// # Errors
    /// As [`vector`](Catalogue::vector).
    pub fn map<K: Value, V: Value, M: FullMemory>(
        &self,
        memory: &mut M,
        name: &str,
        capacity: u64,
    ) -> Result<Map<K, V>, CatalogueError> {
        let (key_bytes, value_bytes) = (size_of::<K>() as u64, size_of::<V>() as u64);
        let wanted = Entry { kind: MAP, key_bytes, value_bytes, capacity, ..Entry::default() };
        let at = self.find(memory, name, wanted, Map::<K, V>::bytes(capacity))?;
        Ok(Map::at(at, capacity))
    }

    /// Finds the range of `bytes` bytes with this name, for a structure of another kind. A new one
    /// is zeros.
    ///
    /// # Errors
    /// As [`vector`](Catalogue::vector).
    pub fn range<M: FullMemory>(
        &self,
        memory: &mut M,
        name: &str,
        bytes: u64,
    ) -> Result<Addr, CatalogueError> {
        let wanted = Entry { kind: RANGE, capacity: bytes, ..Entry::default() };
        self.find(memory, name, wanted, bytes)
    }

    /// Finds the ordered map of `pages` pages ([`OrderedMap::pages_for`]) with this name, or makes
    /// an empty one.
    ///
    /// # Errors
    /// As [`vector`](Catalogue::vector).
    pub fn ordered_map<M: FullMemory>(
        &self,
        memory: &mut M,
        name: &str,
        pages: u64,
    ) -> Result<OrderedMap, CatalogueError> {
        let wanted = Entry { kind: ORDERED_MAP, capacity: pages, ..Entry::default() };
        let at = self.find(memory, name, wanted, OrderedMap::bytes(pages))?;
        Ok(OrderedMap::at(at, pages))
    }

    /// Finds the B+-tree of `pages` pages ([`BTree::pages_for`]) with this name, or makes an empty
    /// one.
    ///
    /// # Errors
    /// As [`vector`](Catalogue::vector).
    pub fn b_tree<K: Value + Ord, R: Row, M: FullMemory>(
        &self,
        memory: &mut M,
        name: &str,
        pages: u64,
    ) -> Result<BTree<K, R>, CatalogueError> {
        let (key_bytes, value_bytes) = (size_of::<K>() as u64, size_of::<R>() as u64);
        let wanted =
            Entry { kind: B_TREE, key_bytes, value_bytes, capacity: pages, ..Entry::default() };
        let at = self.find(memory, name, wanted, BTree::<K, R>::bytes(pages))?;
        Ok(BTree::at(at, pages))
    }

    /// Removes the structure with this name. Others can use its room then. Returns false if there
    /// is none.
    ///
    /// The name is free at once. The pages are zeroed in several transactions, and all of them are
    /// read for that. If a crash interrupts this, opening the catalogue completes it. No job may be
    /// using the structure.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn remove<M: FullMemory>(
        &self,
        memory: &mut M,
        name: &str,
    ) -> Result<bool, CatalogueError> {
        let key = key_of(name)?;
        let removed = self.change(memory, |memory| {
            let slot = self.slots(memory).into_iter().find(|&at| {
                memory.load::<Entry>(at + LINE).has_name() && memory.load::<[u64; 8]>(at) == key
            });
            let Some(at) = slot else { return false };
            let entry: Entry = memory.load(at + LINE);
            memory.store(at, [0u64; 8]);
            memory.store(at + LINE, Entry { kind: LEAVING, ..entry });
            true
        })?;
        self.clear(memory)?;
        Ok(removed)
    }

    /// Every name, with a description of its structure.
    pub fn list<M: FullMemory>(&self, memory: &mut M) -> Vec<(String, String)> {
        latch::read(memory, self.base + LATCH, |memory| {
            let mut names = Vec::new();
            for at in self.slots(memory) {
                let (name, entry): ([u64; 8], Entry) = (memory.load(at), memory.load(at + LINE));
                if entry.has_name() {
                    let name: [u8; NAME_BYTES_MAX] = bytemuck::cast(name);
                    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
                    let name = String::from_utf8_lossy(&name[..end]).into_owned();
                    names.push((name, entry.describe()));
                }
            }
            names
        })
    }

    /// Runs `body` as a transaction with the latch held.
    fn change<M: FullMemory, R>(
        &self,
        memory: &mut M,
        mut body: impl FnMut(&mut M) -> R,
    ) -> Result<R, TransactionError> {
        let latch = self.base + LATCH;
        memory.transaction(|memory| latch::write(memory, latch, &mut body)).map(|(done, _)| done)
    }

    /// The addresses of all entries, blank ones as well.
    fn slots<M: FullMemory>(&self, memory: &mut M) -> Vec<Addr> {
        let (mut page, mut slots) = (self.base, Vec::new());
        for _ in 0..PAGES_MAX {
            slots.extend((0..ENTRIES_OF_PAGE).map(|index| page + ENTRIES + index * ENTRY_BYTES));
            page = Addr(memory.load(page + MORE));
            let is_inside = page.0.checked_add(PAGE).is_some_and(|end| end <= memory.size_bytes());
            if page.0 == 0 || page.page_offset() != 0 || !is_inside {
                break;
            }
        }
        slots
    }

    /// Returns the address of the structure with this name. If it is new, takes `bytes` bytes of
    /// zeros.
    fn find<M: FullMemory>(
        &self,
        memory: &mut M,
        name: &str,
        wanted: Entry,
        bytes: u64,
    ) -> Result<Addr, CatalogueError> {
        let key = key_of(name)?;
        self.change(memory, |memory| {
            let slots = self.slots(memory);
            let mut blank = None;
            for &at in &slots {
                let entry: Entry = memory.load(at + LINE);
                if entry.kind == BLANK {
                    blank = blank.or(Some(at));
                } else if entry.has_name() && memory.load::<[u64; 8]>(at) == key {
                    if entry.is_like(&wanted) {
                        return Ok(Addr(entry.base));
                    }
                    let (name, found) = (name.into(), entry.describe());
                    return Err(CatalogueError::Other { name, found, expected: wanted.describe() });
                }
            }
            let at = match blank {
                Some(at) => at,
                None => self.add_page(memory, &slots)?,
            };
            let (start, bytes) = self.take(memory, &slots, bytes)?;
            memory.store(at, key);
            memory.store(at + LINE, Entry { base: start.0, bytes, ..wanted });
            Ok(start)
        })?
    }

    /// Adds a page for entries, at the end of the range if there is room. Returns its first entry.
    fn add_page<M: FullMemory>(
        &self,
        memory: &mut M,
        slots: &[Addr],
    ) -> Result<Addr, CatalogueError> {
        let own: Own = memory.load(self.base + OWN);
        let page = if own.end - own.next >= PAGE {
            memory.store(self.base + OWN, Own { end: own.end - PAGE, ..own });
            Addr(own.end - PAGE)
        } else {
            self.take(memory, slots, PAGE)?.0
        };
        let last = slots[slots.len() - 1].page().start();
        memory.store(last + MORE, page.0);
        Ok(page + ENTRIES)
    }

    /// Takes `bytes` bytes of zeros, from the smallest free range that has them, or after all
    /// structures. Returns the address and the size in whole pages.
    fn take<M: FullMemory>(
        &self,
        memory: &mut M,
        slots: &[Addr],
        bytes: u64,
    ) -> Result<(Addr, u64), CatalogueError> {
        let whole = bytes.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        let free = slots.iter().map(|&at| (at, memory.load::<Entry>(at + LINE)));
        let free = free.filter(|(_, entry)| entry.kind == FREE && entry.bytes >= whole);
        if let Some((at, free)) = free.min_by_key(|(_, free)| free.bytes) {
            let left = Entry { base: free.base + whole, bytes: free.bytes - whole, ..free };
            memory.store(at + LINE, if left.bytes == 0 { Entry::default() } else { left });
            return Ok((Addr(free.base), whole));
        }
        let own: Own = memory.load(self.base + OWN);
        let mut left = Region::new(Addr(own.next), own.end - own.next);
        let start = left.take(bytes)?;
        memory.store(self.base + OWN, own.end - left.left_bytes());
        Ok((start, whole))
    }

    /// Zeroes the ranges of removed structures and frees them, if there are any.
    fn clear<M: FullMemory>(&self, memory: &mut M) -> Result<(), TransactionError> {
        let leaving = |memory: &mut M, slots: &[Addr]| {
            let mut entries = slots.iter().map(|&at| (at, memory.load::<Entry>(at + LINE)));
            entries.find(|(_, entry)| entry.kind == LEAVING)
        };
        while latch::read(memory, self.base + LATCH, |memory| {
            let slots = self.slots(memory);
            leaving(memory, &slots).is_some()
        }) {
            self.change(memory, |memory| {
                let slots = self.slots(memory);
                let Some((at, entry)) = leaving(memory, &slots) else { return };
                let cleared = entry.bytes.min(entry.cleared + CLEARED_PAGES * PAGE);
                (entry.cleared..cleared).step_by(LINE as usize).for_each(|offset| {
                    let line = Addr(entry.base + offset);
                    // Only what is stored is logged.
                    if memory.line(line) != [0; 8] {
                        memory.store(line, [0u64; 8]);
                    }
                });
                memory.store(at + LINE, Entry { cleared, ..entry });
                if cleared == entry.bytes {
                    self.give_back(memory, &slots, at);
                }
            })?;
        }
        Ok(())
    }

    /// Frees the range of the entry at `at`, which holds zeros. Joins it with the free ranges next
    /// to it.
    fn give_back<M: FullMemory>(&self, memory: &mut M, slots: &[Addr], at: Addr) {
        let Entry { base, bytes, .. } = memory.load(at + LINE);
        let (mut start, mut end) = (base, base + bytes);
        for &slot in slots {
            let other: Entry = memory.load(slot + LINE);
            let is_before = other.base + other.bytes == start;
            if other.kind == FREE && (is_before || other.base == end) {
                (start, end) = (start.min(other.base), end.max(other.base + other.bytes));
                memory.store(slot + LINE, Entry::default());
            }
        }
        let own: Own = memory.load(self.base + OWN);
        let free = if end == own.next || start == end {
            Entry::default()
        } else {
            Entry { kind: FREE, base: start, bytes: end - start, ..Entry::default() }
        };
        memory.store(at + LINE, free);
        if end == own.next {
            memory.store(self.base + OWN, start);
        }
    }
}

/// The words of a name.
fn key_of(name: &str) -> Result<[u64; 8], CatalogueError> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
        return Err(CatalogueError::BadName(name.into()));
    }
    let mut key = [0; NAME_BYTES_MAX];
    key[..name.len()].copy_from_slice(name.as_bytes());
    Ok(bytemuck::cast(key))
}

#[cfg(test)]
mod tests {
    use ebbtide_core::Memory;
    use ebbtide_testbed::Plain;

    use super::*;

    const BYTES: u64 = 64 * PAGE;

    #[test]
    fn a_structure_is_found_again_by_name_in_any_order() {
        let mut memory = Plain::zeroed(BYTES);
        let made = Catalogue::open(&mut memory, Addr(0), BYTES).unwrap();
        let visits: Vector<u64> = made.vector(&mut memory, "visits", 100).unwrap();
        let users: Map<u64, [u64; 2]> = made.map(&mut memory, "users", 100).unwrap();
        let orders: BTree<u64, [u64; 9]> = made.b_tree(&mut memory, "orders", 5).unwrap();
        visits.set(&mut memory, 7, 70);
        users.insert(&mut memory, 3, [4, 5]).unwrap();
        orders.insert(&mut memory, 2, [6; 9]).unwrap();
        let again = Catalogue::open(&mut memory, Addr(0), BYTES).unwrap();
        let orders: BTree<u64, [u64; 9]> = again.b_tree(&mut memory, "orders", 5).unwrap();
        let users: Map<u64, [u64; 2]> = again.map(&mut memory, "users", 100).unwrap();
        let visits: Vector<u64> = again.vector(&mut memory, "visits", 100).unwrap();
        assert_eq!(orders.get(&mut memory, 2), Ok(Some([6; 9])));
        assert_eq!(users.get(&mut memory, 3), Some([4, 5]));
        assert_eq!(visits.get(&mut memory, 7), 70);
        let names: Vec<String> =
            again.list(&mut memory).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["visits", "users", "orders"]);
    }

    #[test]
    fn another_type_or_size_under_a_name_is_an_error_that_says_both() {
        let mut memory = Plain::zeroed(BYTES);
        let catalogue = Catalogue::open(&mut memory, Addr(0), BYTES).unwrap();
        catalogue.vector::<u64, _>(&mut memory, "a", 10).unwrap();
        let error = catalogue.vector::<[u64; 2], _>(&mut memory, "a", 10).unwrap_err();
        let said = "'a' is a vector of 10 values of 8 bytes, not a vector of 10 values of 16 bytes";
        assert_eq!(error.to_string(), said);
        assert!(catalogue.map::<u64, u64, _>(&mut memory, "a", 10).is_err());
        assert!(catalogue.range(&mut memory, "", 10).is_err());
        catalogue.b_tree::<u64, u64, _>(&mut memory, "b", 4).unwrap();
        let error = catalogue.b_tree::<u64, [u64; 9], _>(&mut memory, "b", 4).unwrap_err();
        let said = "'b' is a B+-tree of 4 pages with keys of 8 bytes and rows of 8, not a B+-tree of 4 \
                    pages with keys of 8 bytes and rows of 72";
        assert_eq!(error.to_string(), said);
    }

    #[test]
    fn what_does_not_fit_takes_nothing() {
        let mut memory = Plain::zeroed(BYTES);
        let catalogue = Catalogue::open(&mut memory, Addr(0), BYTES).unwrap();
        assert!(matches!(
            catalogue.range(&mut memory, "all", BYTES),
            Err(CatalogueError::NoRoom(_))
        ));
        assert_eq!(catalogue.range(&mut memory, "some", BYTES - PAGE), Ok(Addr(PAGE)));
        memory.store(Addr(0), 99u64);
        let error = Catalogue::open(&mut memory, Addr(0), BYTES).unwrap_err();
        assert_eq!(error, CatalogueError::NotOne(Addr(0)));
    }

    #[test]
    fn a_catalogue_of_an_earlier_format_is_refused() {
        for mark in [*b"EBBTROOT", *b"EBBROOT2"] {
            let mut memory = Plain::zeroed(BYTES);
            memory.store(Addr(0), mark);
            let error = Catalogue::open(&mut memory, Addr(0), BYTES).unwrap_err();
            assert_eq!(error, CatalogueError::Older(Addr(0)));
            assert!(error.to_string().contains("earlier format"), "{error}");
        }
    }

    #[test]
    fn it_has_as_many_structures_as_fit() {
        let mut memory = Plain::zeroed(BYTES);
        let catalogue = Catalogue::open(&mut memory, Addr(0), BYTES).unwrap();
        let made = |memory: &mut Plain, number: u64| {
            catalogue.range(memory, &format!("range {number}"), PAGE)
        };
        let ranges: Vec<Addr> = (0..).map_while(|number| made(&mut memory, number).ok()).collect();
        // Two pages are the catalogue's own, with 31 entries each.
        assert_eq!(ranges.len() as u64, BYTES / PAGE - 2);
        assert_eq!(catalogue.list(&mut memory).len(), ranges.len());
        let again = Catalogue::open(&mut memory, Addr(0), BYTES).unwrap();
        for (number, range) in (0..).zip(ranges) {
            assert_eq!(again.range(&mut memory, &format!("range {number}"), PAGE), Ok(range));
        }
    }

    #[test]
    fn the_room_of_structures_that_were_removed_serves_others_as_zeros() {
        let mut memory = Plain::zeroed(BYTES);
        let memory = &mut memory;
        let catalogue = Catalogue::open(memory, Addr(0), BYTES).unwrap();
        let whole = BYTES - PAGE;
        for round in 0..100 {
            // Of changing sizes, which are removed in changing order.
            let sizes = [3, 1 + round % 20, 7, 1 + round * 7 % 31, 2].map(|pages| pages * PAGE);
            for (name, bytes) in ["a", "b", "c", "d", "e"].into_iter().zip(sizes) {
                let at = catalogue.range(memory, name, bytes).unwrap();
                for offset in (0..bytes).step_by(8) {
                    assert_eq!(memory.load::<u64>(at + offset), 0, "round {round}");
                    memory.store(at + offset, u64::MAX);
                }
            }
            let mut names = ["a", "b", "c", "d", "e"];
            names.rotate_left(round as usize % 5);
            names.swap(0, 2);
            for name in names {
                assert_eq!(catalogue.remove(memory, name), Ok(true));
                assert_eq!(catalogue.remove(memory, name), Ok(false));
            }
            assert_eq!(catalogue.list(memory), []);
            assert_eq!(catalogue.range(memory, "all", whole), Ok(Addr(PAGE)));
            assert_eq!(catalogue.remove(memory, "all"), Ok(true));
        }
    }

    #[test]
    fn a_removal_that_was_cut_off_is_ended_when_the_catalogue_is_opened() {
        let mut memory = Plain::zeroed(BYTES);
        let catalogue = Catalogue::open(&mut memory, Addr(0), BYTES).unwrap();
        let bytes = BYTES - PAGE;
        let at = catalogue.range(&mut memory, "all", bytes).unwrap();
        (0..bytes).step_by(8).for_each(|offset| memory.store(at + offset, 7u64));
        let mut whole = memory.clone();
        whole.accesses = 0;
        catalogue.remove(&mut whole, "all").unwrap();
        for cut in [100, 500, 5_000, whole.accesses - 3] {
            let mut memory = memory.clone();
            memory.failing = memory.accesses + cut..u64::MAX;
            let cut = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                catalogue.remove(&mut memory, "all")
            }));
            assert!(cut.is_err());
            memory.failing = 0..0;
            // The latch was free after a crash.
            memory.words[LATCH as usize / 8] = 0;
            let again = Catalogue::open(&mut memory, Addr(0), BYTES).unwrap();
            assert_eq!(again.range(&mut memory, "new", bytes), Ok(Addr(PAGE)));
            assert!((0..bytes).step_by(8).all(|at| memory.load::<u64>(Addr(PAGE + at)) == 0));
        }
    }
}
