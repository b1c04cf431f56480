//! [`Database`] and [`StoredTable`]: Silo's tables in a store, found again when it is opened.

use ebbtide_core::{Addr, Memory};

use super::{LINE, PAGE, check_base};
use crate::image::Line;
use crate::latch;
use crate::masstree::Tree;
use crate::silo::{Row, Silo, Table};

const EPOCH: u64 = LINE;

/// Silo's transactions on tables that stay in memory.
///
/// One page: the latch, and a line for Silo's epoch. In a [transaction](Memory::transaction) of the memory,
/// Silo's locks and versions are stores like any other. So Silo's transactions must run
/// [`alone`](Database::alone) there: the latch orders them until their stores have taken effect.
///
/// ```
/// use ebbtide_core::{Addr, Memory};
/// use ebbtide_structures::silo::Isolation;
/// use ebbtide_structures::Catalogue;
/// use ebbtide_testbed::Plain;
///
/// let mut memory = Plain::zeroed(1 << 20);
/// let catalogue = Catalogue::open(&mut memory, Addr(0), 1 << 20)?;
/// let bank = catalogue.database(&mut memory, "bank")?;
/// let accounts = catalogue.table::<[u64; 2], _>(&mut memory, &bank, "accounts", 100)?;
/// let (paid, lsn) = memory.transaction(|memory| {
///     bank.alone(memory, |memory| {
///         let place = accounts.place(memory, bank.silo(), 7);
///         bank.silo().run(memory, 0, Isolation::Serializable, |silo| {
///             silo.insert(accounts.table(), 7, place, &[100, 0])
///         })
///     })
/// })?;
/// assert!(paid?.is_some_and(|committed| committed.value));
/// memory.durable(lsn)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Database {
    latch: Addr,
    silo: Silo,
}

impl Database {
    /// Bytes that it takes.
    pub const BYTES: u64 = PAGE;

    /// The database in the page at `base`, which [`format`](Database::format) has made.
    ///
    /// # Panics
    /// If `base` is not the start of a page.
    pub fn at(base: Addr) -> Database {
        check_base(base);
        Database { latch: base, silo: Silo::new(base + EPOCH, base.0) }
    }

    /// Begins the first epoch. The page must be zeros.
    pub fn format<M: Memory>(&self, memory: &mut M) {
        memory.store(self.latch + EPOCH, self.silo.image_of_epoch());
    }

    /// Returns the object that runs its transactions.
    pub fn silo(&self) -> &Silo {
        &self.silo
    }

    /// Runs `body` while no other job does so. `body` runs Silo's transactions on the database's tables.
    pub fn alone<M: Memory, R>(&self, memory: &mut M, body: impl FnOnce(&mut M) -> R) -> R {
        latch::write(memory, self.latch, body)
    }

    /// Returns the address of its page, which identifies it.
    pub(crate) fn base(&self) -> Addr {
        self.latch
    }
}

/// Rows of type `R` by 8-byte keys, with a place for each of a fixed number of rows.
#[derive(Debug, Clone)]
pub struct StoredTable<R> {
    table: Table<R>,
    places: Addr,
    capacity: u64,
}

impl<R: Row> StoredTable<R> {
    const PLACE_BYTES: u64 = R::LINES as u64 * LINE;

    /// Returns the bytes of the index: a node for every three keys, a sixth as many above them, and a root.
    /// A node is joined with others when it has lost all its keys. If keys come in order and any of them
    /// go, there are 0.22 nodes for each key that is left.
    fn index_bytes(capacity: u64) -> u64 {
        Tree::bytes(0, capacity.div_ceil(3) + capacity.div_ceil(18) + 2)
    }

    /// Bytes that a table with `capacity` places takes.
    pub fn bytes(capacity: u64) -> u64 {
        let places = capacity.saturating_mul(Self::PLACE_BYTES);
        Self::index_bytes(capacity).saturating_add(places)
    }

    /// The table of `database` in the [`bytes`](StoredTable::bytes) from `base` on, which
    /// [`format`](StoredTable::format) has made.
    ///
    /// # Panics
    /// If `base` is not the start of a page.
    pub fn at(base: Addr, database: &Database, capacity: u64) -> StoredTable<R> {
        check_base(base);
        let bytes = Self::index_bytes(capacity);
        let index = Tree::new(base, bytes, 0, database.base().0);
        StoredTable { table: Table::new(index), places: base + bytes, capacity }
    }

    /// Makes the table empty. Its bytes must be zeros.
    pub fn format<M: Memory>(&self, memory: &mut M) {
        self.table.index().format(memory);
    }

    /// The table, for Silo's transactions.
    pub fn table(&self) -> &Table<R> {
        &self.table
    }

    /// Returns place `number`, to insert a row at. The program assigns places to rows. It may assign a
    /// place to another row once its row is removed.
    ///
    /// # Panics
    /// If there is no such place.
    pub fn place<M: Memory>(&self, memory: &mut M, silo: &Silo, number: u64) -> Addr {
        let Self { places, capacity, .. } = self;
        assert!(number < *capacity, "a table of {capacity} places has no place {number}");
        let at = *places + number * Self::PLACE_BYTES;
        if memory.line(at) == Line::default() {
            memory.store(at, silo.image_of_free_place(at, 0));
        }
        at
    }
}
