//! Ebbtide: B+-trees in durable memory. Clients are jobs, and there is a core for every CPU.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use ebbtide_core::durability::{Policy, TransactionError};
use ebbtide_core::{Addr, FullMemory, Memory, PAGE_BYTES, PageId, Watch};
use ebbtide_engine::store::{Access, NewStore, Store};
use ebbtide_engine::{Engine, FlashMemory, Jobs, Options};
use ebbtide_structures::{BTree, TreeError, Vector};
use ebbtide_testbed::Plain;

use crate::store::{Done, Failure, Measured, Sizes, Window};
use crate::transactions::{BRANCHES, Row, TELLERS, Tables, Transaction, first_row, is_right};

/// Transactions in the history. Later ones overwrite the oldest.
const HISTORY: u64 = 1 << 20;

const LOG_BYTES: u64 = 256 << 20;

/// Four times the stack that the deepest of these transactions was seen to use.
const STACK_BYTES: usize = 16 << 10;

/// DRAM of the process outside of the engine's budget: code, the allocator, the kernel's memory
/// for it.
const BESIDE_BYTES: u64 = 4 << 20;

#[derive(Clone, Copy)]
struct Layout {
    accounts: BTree<u64, Row>,
    tellers: BTree<u64, Row>,
    branches: BTree<u64, Row>,
    history: Vector<Row>,
    bytes: u64,
}

impl Layout {
    fn new(rows: u64) -> Layout {
        let mut next = Addr(0);
        let mut place = |bytes: u64| {
            let at = next;
            next = next + bytes.next_multiple_of(PAGE_BYTES as u64);
            at
        };
        let mut tree = |rows: u64| {
            let pages = BTree::<u64, Row>::pages_for(rows);
            BTree::at(place(BTree::<u64, Row>::bytes(pages)), pages)
        };
        let (accounts, tellers, branches) = (tree(rows), tree(TELLERS), tree(BRANCHES));
        let history = Vector::at(place(Vector::<Row>::bytes(HISTORY)), HISTORY);
        Layout { accounts, tellers, branches, history, bytes: next.0 }
    }
}

struct Open<'a, M> {
    layout: Layout,
    memory: &'a mut M,
}

impl<M: FullMemory> Tables for Open<'_, M> {
    type Error = TreeError;

    fn account(&mut self, key: u64) -> Result<Option<Row>, TreeError> {
        Ok(self.layout.accounts.get(self.memory, key)?)
    }
    fn set_account(&mut self, key: u64, row: &Row) -> Result<(), TreeError> {
        self.layout.accounts.insert(self.memory, key, *row).map(drop)
    }
    fn teller(&mut self, key: u64) -> Result<Option<Row>, TreeError> {
        Ok(self.layout.tellers.get(self.memory, key)?)
    }
    fn set_teller(&mut self, key: u64, row: &Row) -> Result<(), TreeError> {
        self.layout.tellers.insert(self.memory, key, *row).map(drop)
    }
    fn branch(&mut self, key: u64) -> Result<Option<Row>, TreeError> {
        Ok(self.layout.branches.get(self.memory, key)?)
    }
    fn set_branch(&mut self, key: u64, row: &Row) -> Result<(), TreeError> {
        self.layout.branches.insert(self.memory, key, *row).map(drop)
    }
    fn note(&mut self, number: u64, row: &Row) -> Result<(), TreeError> {
        self.layout.history.set(self.memory, number % HISTORY, *row);
        Ok(())
    }
}

/// A running engine.
pub struct Ebbtide {
    jobs: Jobs,
    layout: Layout,
    rows: u64,
}

impl Ebbtide {
    /// Fills the trees in plain memory, and writes that memory as a store.
    pub fn create(folder: &Path, sizes: &Sizes) -> Result<(), Failure> {
        let layout = Layout::new(sizes.rows);
        let mut memory = Plain::zeroed(layout.bytes);
        let mut open = Open { layout, memory: &mut memory };
        (0..sizes.rows).try_for_each(|key| open.set_account(key, &first_row(key)))?;
        (0..TELLERS).try_for_each(|key| open.set_teller(key, &first_row(key)))?;
        (0..BRANCHES).try_for_each(|key| open.set_branch(key, &first_row(key)))?;
        let pages = layout.bytes / PAGE_BYTES as u64;
        let (path, tag) = (folder.join("peers.ebbtide"), "peers".into());
        let new = NewStore { path, offset: 0, pages, spare_pages: pages / 2, tag, force: true };
        let image = |page: PageId, out: &mut [u8; PAGE_BYTES]| {
            let words = &memory.words[page.index() * PAGE_BYTES / 8..][..PAGE_BYTES / 8];
            out.copy_from_slice(bytemuck::cast_slice(words));
        };
        Store::create_persistent_image(&new, LOG_BYTES, &image, Watch::unattended())?;
        Ok(())
    }

    pub fn open(folder: &Path, sizes: &Sizes) -> Result<Ebbtide, Failure> {
        let path = folder.join("peers.ebbtide");
        let store = Store::open(&path, 0, Access::Exclusive)?;
        let dram_bytes = sizes.dram_bytes.saturating_sub(BESIDE_BYTES) as usize;
        let cores = available_parallelism()?.get();
        let (durability, stack_bytes) = (Some(Policy::Always), STACK_BYTES);
        let options = Options { cores, durability, stack_bytes, ..Options::new(dram_bytes) };
        let engine = Engine::open_watched(&Arc::new(store), &options, Watch::unattended())?;
        let jobs = Arc::new(engine).start()?;
        Ok(Ebbtide { jobs, layout: Layout::new(sizes.rows), rows: sizes.rows })
    }
}

impl Measured for Ebbtide {
    fn run(&mut self, window: &Window) -> Result<Done, Failure> {
        let began = Instant::now();
        let until = began + Duration::from_secs_f64(window.seconds);
        let (layout, rows, load) = (self.layout, self.rows, window.load);
        let counts = Arc::new((AtomicU64::new(window.first), AtomicU64::new(0)));
        let client = |counts: Arc<(AtomicU64, AtomicU64)>| {
            self.jobs.submit(move |memory| -> Result<bool, TransactionError> {
                let (next, commits) = &*counts;
                let mut right = true;
                while right && Instant::now() < until {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let transaction = Transaction::draw(load, number, rows);
                    if let Transaction::Read(key) = transaction {
                        let row = layout.accounts.get(memory, key);
                        right = row.is_ok_and(|row| row.is_some_and(|row| is_right(key, &row)));
                        continue;
                    }
                    let run =
                        |memory: &mut FlashMemory<'_>| Open { layout, memory }.run(&transaction);
                    let (ran, lsn) = memory.transaction(run)?;
                    memory.durable(lsn)?;
                    commits.fetch_add(1, Ordering::Relaxed);
                    right = ran == Ok(true);
                }
                Ok(right)
            })
        };
        let clients: Vec<_> = (0..window.clients).map(|_| client(counts.clone())).collect();
        for client in clients {
            if !client.wait()?? {
                return Err("a row that was read is not right".into());
            }
        }
        let (next, commits) = &*counts;
        let transactions = next.load(Ordering::Relaxed) - window.first;
        let commits = commits.load(Ordering::Relaxed);
        Ok(Done { transactions, commits, seconds: began.elapsed().as_secs_f64() })
    }
}
