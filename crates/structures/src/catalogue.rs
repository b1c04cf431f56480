//! [`Catalogue`]: structures that are found again by name.
//!
//! A catalogue is the first page of a range of addresses and hands out the rest of it. It notes the
//! name, type and place of every structure, so that a program that opens a durable store finds what an
//! earlier one made, whatever else that made and in which order.
//!
//! The page: a line of the catalogue's own (mark, latch, next free address, end, count), then 31
//! entries of two lines (name; type, address and capacity).

use bytemuck::{Pod, Zeroable};
use ebbtide_core::durability::TransactionError;
use ebbtide_core::{Addr, Memory, Value};
use thiserror::Error;

use super::{
    BTree, Database, Heap, LINE, Map, OrderedMap, PAGE, Region, RegionFull, StoredTable, Vector,
    check_base,
};
use crate::latch;
use crate::silo::Row;

const MARK: u64 = u64::from_le_bytes(*b"EBBTROOT");
const LATCH: u64 = 8;
const OWN: u64 = 16;
const ENTRIES: u64 = LINE;
const ENTRY_BYTES: u64 = 2 * LINE;

/// The most structures in a catalogue.
pub const ENTRIES_MAX: u64 = (PAGE - ENTRIES) / ENTRY_BYTES;

/// The longest name, in bytes.
pub const NAME_BYTES_MAX: usize = LINE as usize;

/// What a catalogue knows of itself.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Own {
    next: u64,
    end: u64,
    count: u64,
}

/// What it knows of a structure, beside its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
struct Entry {
    kind: u64,
    /// The sizes of its keys and values, in bytes; of a table, the address of its database and the size of
    /// its rows.
    key_bytes: u64,
    value_bytes: u64,
    base: u64,
    capacity: u64,
}

const VECTOR: u64 = 1;
const MAP: u64 = 2;
const RANGE: u64 = 3;
const ORDERED_MAP: u64 = 4;
const HEAP: u64 = 5;
const DATABASE: u64 = 6;
const TABLE: u64 = 7;
const B_TREE: u64 = 8;

/// Structures in a range of addresses, by name.
#[derive(Debug, Clone, Copy)]
pub struct Catalogue {
    base: Addr,
}

/// Why a structure cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CatalogueError {
    /// The range holds something else.
    #[error("there is no catalogue at {0:?}, but something else")]
    NotOne(Addr),
    /// The name is in use for another structure.
    #[error("'{name}' is {found}, not {expected}")]
    Other {
        /// The name.
        name: String,
        /// What it is.
        found: String,
        /// What was asked for.
        expected: String,
    },
    /// The name does not fit.
    #[error("the name '{0}' has more than {NAME_BYTES_MAX} bytes, or none")]
    BadName(String),
    /// It has no room for another entry.
    #[error("the catalogue has {ENTRIES_MAX} structures and no room for another")]
    Full,
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
            ORDERED_MAP => format!("an ordered map with room for {capacity} nodes"),
            B_TREE => format!(
                "a B+-tree of {capacity} pages with keys of {key_bytes} bytes and rows of {value_bytes}"
            ),
            HEAP => format!("a heap of {capacity} bytes"),
            DATABASE => "a database".into(),
            TABLE => format!(
                "a table for {capacity} rows of {value_bytes} bytes of the database at {:?}",
                Addr(*key_bytes)
            ),
            _ => "a structure of a later version".into(),
        }
    }

    /// Whether it is the same structure, wherever it lies.
    fn is_like(&self, other: &Entry) -> bool {
        Entry { base: 0, ..*self } == Entry { base: 0, ..*other }
    }
}

impl Catalogue {
    /// The catalogue of the `bytes` bytes from `start` on, which is made if they are blank.
    ///
    /// # Errors
    /// When they hold something else.
    ///
    /// # Panics
    /// If `start` is not the start of a page.
    pub fn open<M: Memory>(
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
                    memory.store(start + OWN, Own { next, end, count: 0 });
                    Ok(())
                }
                _ => Err(CatalogueError::NotOne(start)),
            })
        })?;
        opened.map(|()| Catalogue { base: start })
    }

    /// The vector of that name, which is made of zeros if there is none.
    ///
    /// # Errors
    /// When the name is another structure's, or there is no room.
    pub fn vector<T: Value, M: Memory>(
        &self,
        memory: &mut M,
        name: &str,
        len: u64,
    ) -> Result<Vector<T>, CatalogueError> {
        let value_bytes = size_of::<T>() as u64;
        let wanted = Entry { kind: VECTOR, key_bytes: 0, value_bytes, base: 0, capacity: len };
        let at = self.find(memory, name, wanted, Vector::<T>::bytes(len), |_, _| ())?;
        Ok(Vector::at(at, len))
    }

    /// The map of that name, which is made empty if there is none.
    ///
    /// # Errors
    /// As [`vector`](Catalogue::vector).
    pub fn map<K: Value, V: Value, M: Memory>(
        &self,
        memory: &mut M,
        name: &str,
        capacity: u64,
    ) -> Result<Map<K, V>, CatalogueError> {
        let (key_bytes, value_bytes) = (size_of::<K>() as u64, size_of::<V>() as u64);
        let wanted = Entry { kind: MAP, key_bytes, value_bytes, base: 0, capacity };
        let at = self.find(memory, name, wanted, Map::<K, V>::bytes(capacity), |_, _| ())?;
        Ok(Map::at(at, capacity))
    }

    /// The range of `bytes` bytes of that name, for a structure of another kind; zeros if it is new.
    ///
    /// # Errors
    /// As [`vector`](Catalogue::vector).
    pub fn range<M: Memory>(
        &self,
        memory: &mut M,
        name: &str,
        bytes: u64,
    ) -> Result<Addr, CatalogueError> {
        let wanted = Entry { kind: RANGE, key_bytes: 0, value_bytes: 0, base: 0, capacity: bytes };
        self.find(memory, name, wanted, bytes, |_, _| ())
    }

    /// The ordered map of that name, with room for `nodes` nodes ([`OrderedMap::bytes`]), which is made
    /// empty if there is none.
    ///
    /// # Errors
    /// As [`vector`](Catalogue::vector).
    pub fn ordered_map<M: Memory>(
        &self,
        memory: &mut M,
        name: &str,
        nodes: u64,
    ) -> Result<OrderedMap, CatalogueError> {
        let kind = ORDERED_MAP;
        let wanted = Entry { kind, key_bytes: 0, value_bytes: 8, base: 0, capacity: nodes };
        let format = |memory: &mut M, at| OrderedMap::at(at, nodes).format(memory);
        let at = self.find(memory, name, wanted, OrderedMap::bytes(nodes), format)?;
        Ok(OrderedMap::at(at, nodes))
    }

    /// The B+-tree of that name, of `pages` pages ([`BTree::pages_for`]), which is made empty if there is none.
    ///
    /// # Errors
    /// As [`vector`](Catalogue::vector).
    pub fn b_tree<K: Value + Ord, R: Row, M: Memory>(
        &self,
        memory: &mut M,
        name: &str,
        pages: u64,
    ) -> Result<BTree<K, R>, CatalogueError> {
        let (key_bytes, value_bytes) = (size_of::<K>() as u64, size_of::<R>() as u64);
        let wanted = Entry { kind: B_TREE, key_bytes, value_bytes, base: 0, capacity: pages };
        let at = self.find(memory, name, wanted, BTree::<K, R>::bytes(pages), |_, _| ())?;
        Ok(BTree::at(at, pages))
    }

    /// The heap of that name of `bytes` bytes, which is made empty if there is none.
    ///
    /// # Errors
    /// As [`vector`](Catalogue::vector).
    pub fn heap<M: Memory>(
        &self,
        memory: &mut M,
        name: &str,
        bytes: u64,
    ) -> Result<Heap, CatalogueError> {
        let wanted = Entry { kind: HEAP, key_bytes: 0, value_bytes: 0, base: 0, capacity: bytes };
        Ok(Heap::at(self.find(memory, name, wanted, bytes, |_, _| ())?, bytes))
    }

    /// The database of that name, which is made without tables if there is none.
    ///
    /// # Errors
    /// As [`vector`](Catalogue::vector).
    pub fn database<M: Memory>(
        &self,
        memory: &mut M,
        name: &str,
    ) -> Result<Database, CatalogueError> {
        let wanted = Entry { kind: DATABASE, key_bytes: 0, value_bytes: 0, base: 0, capacity: 0 };
        let format = |memory: &mut M, at| Database::at(at).format(memory);
        Ok(Database::at(self.find(memory, name, wanted, Database::BYTES, format)?))
    }

    /// The table of that name of `database`, with `capacity` places for rows of type `R`, which is made
    /// empty if there is none.
    ///
    /// # Errors
    /// As [`vector`](Catalogue::vector).
    pub fn table<R: Row, M: Memory>(
        &self,
        memory: &mut M,
        database: &Database,
        name: &str,
        capacity: u64,
    ) -> Result<StoredTable<R>, CatalogueError> {
        let (key_bytes, value_bytes) = (database.base().0, size_of::<R>() as u64);
        let wanted = Entry { kind: TABLE, key_bytes, value_bytes, base: 0, capacity };
        let format = |memory: &mut M, at| {
            StoredTable::<R>::at(at, database, capacity).format(memory);
        };
        let bytes = StoredTable::<R>::bytes(capacity);
        let at = self.find(memory, name, wanted, bytes, format)?;
        Ok(StoredTable::at(at, database, capacity))
    }

    /// Every name, with a description of its structure.
    pub fn list<M: Memory>(&self, memory: &mut M) -> Vec<(String, String)> {
        latch::read(memory, self.base + LATCH, |memory| {
            let count = memory.load::<Own>(self.base + OWN).count.min(ENTRIES_MAX);
            (0..count)
                .map(|index| {
                    let (name, entry) = self.entry(memory, index);
                    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
                    (String::from_utf8_lossy(&name[..end]).into_owned(), entry.describe())
                })
                .collect()
        })
    }

    fn entry<M: Memory>(&self, memory: &mut M, index: u64) -> ([u8; NAME_BYTES_MAX], Entry) {
        let at = self.base + ENTRIES + index * ENTRY_BYTES;
        let name: [u64; 8] = memory.load(at);
        (bytemuck::cast(name), memory.load(at + LINE))
    }

    /// The address of the structure of that name. If it is new, `bytes` bytes are taken for it, which
    /// `format` gets as zeros.
    fn find<M: Memory>(
        &self,
        memory: &mut M,
        name: &str,
        wanted: Entry,
        bytes: u64,
        format: impl Fn(&mut M, Addr),
    ) -> Result<Addr, CatalogueError> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
            return Err(CatalogueError::BadName(name.into()));
        }
        let mut key = [0; NAME_BYTES_MAX];
        key[..name.len()].copy_from_slice(name.as_bytes());
        let base = self.base;
        let find_or_add = |memory: &mut M| {
            let own: Own = memory.load(base + OWN);
            for index in 0..own.count.min(ENTRIES_MAX) {
                let (there, entry) = self.entry(memory, index);
                if there == key && entry.is_like(&wanted) {
                    return Ok(Addr(entry.base));
                }
                if there == key {
                    let (name, found) = (name.into(), entry.describe());
                    return Err(CatalogueError::Other { name, found, expected: wanted.describe() });
                }
            }
            if own.count >= ENTRIES_MAX {
                return Err(CatalogueError::Full);
            }
            let mut left = Region::new(Addr(own.next), own.end - own.next);
            let start = left.take(bytes)?;
            format(memory, start);
            let at = base + ENTRIES + own.count * ENTRY_BYTES;
            memory.store(at, bytemuck::cast::<_, [u64; 8]>(key));
            memory.store(at + LINE, Entry { base: start.0, ..wanted });
            let next = own.end - left.left_bytes();
            memory.store(base + OWN, Own { next, count: own.count + 1, ..own });
            Ok(start)
        };
        let (found, _) =
            memory.transaction(|memory| latch::write(memory, base + LATCH, find_or_add))?;
        found
    }
}

#[cfg(test)]
mod tests {
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
}
