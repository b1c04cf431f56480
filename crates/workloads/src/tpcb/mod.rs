//! TPC-B, a bank's debits and credits, over [`FullMemory`]: [`Tpcb`].

mod audit;
mod layout;
mod rows;

use std::ops::Range;

use bytemuck::Pod;
use ebbtide_core::{FullMemory, LINE_BYTES, PAGE_BYTES, PageId};
use ebbtide_structures::latch;

use crate::commit::commit;
use rand::RngExt;

use self::layout::{LINES_PER_PAGE, Layout, ROWS_PER_PAGE, Table};
use self::rows::{Branch, Entry, Filler, Holder};
use crate::keys::{Places, Ranks, job_rng, share};
use crate::kind::Kind;
use crate::shape::{Named, Shape};
use crate::{ALL_LINES, Corrupt, PageBytes, Workload};
use ebbtide_structures::checksum::Checksums;
use ebbtide_structures::hash::mix;
use ebbtide_structures::image::{Line, fill_lines};

/// Tellers of a branch.
pub const TELLERS_PER_BRANCH: u64 = 10;
/// The percentage of transactions on an account of another branch than the teller's.
const REMOTE_PERCENT: u32 = 15;
/// The most that a transaction pays in or out.
const DELTA_MAX: i64 = 999_999;

/// TPC-B's bank. A job is one transaction: a teller of a branch pays an amount into an account or
/// out of it.
///
/// The transaction (TPC-B standard, clause 1.2) adds the amount to the balances of the account, the
/// teller and the teller's branch. It appends a row to the history. All balances are 0 at first. So
/// at any time the sums over accounts, tellers, branches and history are the same: see
/// [`audit`](Tpcb::audit).
///
/// The scale is the standard's: a branch has 10 tellers and 100,000 accounts. As many branches as
/// fit take 15/16 of the dataset, and the history takes the rest. A dataset that is too small for
/// two such branches (27 MB) has two with fewer accounts. Rows of 100 bytes are two lines: the
/// columns that the transaction needs, with a latch, and the filler. A row of the history, 50
/// bytes, is a line.
///
/// Accounts are drawn by [`Shape::theta`] from all branches; the teller is one of the account's
/// branch, or, for 15% of transactions, of any other. With θ = 0 this is the standard's
/// distribution, which draws the teller first. With a greater θ, the branches of hot accounts are
/// hot.
///
/// The history is a ring, since it would outgrow any dataset. Transaction `n` writes place `n`
/// modulo its length, which needs no shared counter. A place carries the sum and the number of the
/// rows that were overwritten there, so that the history accounts for all transactions.
///
/// A transaction takes one latch each of account, branch and history, in this order, which cannot
/// deadlock. The branch's latch covers its tellers. Rows are touched before, so that a job waits
/// for misses without latches. A branch counts the transactions of each of its tellers, and so do
/// they, which detects an outdated page.
#[derive(Debug, Clone)]
pub struct Tpcb {
    layout: Layout,
    ranks: Ranks,
    /// Rank to account.
    places: Places,
    checksums: Checksums,
    seed: u64,
    work: u64,
}

/// The arguments of one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transaction {
    /// The number of the transaction, which stands for its time and selects its place in the
    /// history.
    pub number: u64,
    /// The account, from 0; those of a branch are neighbours.
    pub account: u64,
    /// The teller, from 0; the 10 of a branch are neighbours.
    pub teller: u64,
    /// The amount paid in, or out if negative.
    pub delta: i64,
}

impl Transaction {
    /// The branch, from 0: the teller's.
    pub fn branch(&self) -> u64 {
        self.teller / TELLERS_PER_BRANCH
    }
}

/// A balance and its number of transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Balance {
    /// The sum of all amounts paid in, minus those paid out.
    pub amount: i64,
    /// The number of transactions.
    pub transactions: u64,
}

/// The balances before a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The account's balance.
    pub account: Balance,
    /// The teller's.
    pub teller: Balance,
    /// The branch's.
    pub branch: Balance,
    /// The number of rows written before to the place in the history.
    pub history_rows: u64,
}

impl Tpcb {
    /// The number of branches.
    pub fn branches(&self) -> u64 {
        self.layout.branches
    }

    /// The number of accounts of each branch: 100,000 if there is room.
    pub fn accounts_per_branch(&self) -> u64 {
        self.layout.accounts_per_branch()
    }

    /// The number of rows that the history keeps.
    pub fn history_rows(&self) -> u64 {
        self.layout.rows(Table::History)
    }

    /// The transaction of job `job`.
    #[inline]
    pub fn job(&self, job: u64) -> Transaction {
        let mut rng = job_rng(self.seed, job);
        let account = self.places.place(self.ranks.draw(&mut rng));
        let home = account / self.accounts_per_branch();
        let branch = if rng.random_range(0..100) < REMOTE_PERCENT {
            (home + rng.random_range(1..self.branches())) % self.branches()
        } else {
            home
        };
        Transaction {
            number: job,
            account,
            teller: branch * TELLERS_PER_BRANCH + rng.random_range(0..TELLERS_PER_BRANCH),
            delta: rng.random_range(-DELTA_MAX..=DELTA_MAX),
        }
    }

    /// Runs the transaction in one atomic step. Returns its results, or `None` if there is no such
    /// account or teller. Then nothing changes.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row. Nothing is then stored.
    pub fn execute<M: FullMemory>(
        &self,
        memory: &mut M,
        transaction: &Transaction,
    ) -> Result<Option<Found>, Corrupt> {
        if !self.may_exist(transaction) {
            return Ok(None);
        }
        let account = self.layout.address(Table::Account, transaction.account);
        let branch = self.layout.address(Table::Branch, transaction.branch());
        let history = self.layout.address(Table::History, self.layout.place(transaction));
        commit(memory, |memory| {
            latch::write(memory, account, |memory| {
                latch::write(memory, branch, |memory| {
                    latch::write(memory, history, |memory| {
                        self.apply(memory, transaction).map(Some)
                    })
                })
            })
        })
    }

    /// The transaction itself, for arguments in range. Not atomic: the caller holds the latches.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row. Nothing is then stored.
    pub fn apply<M: FullMemory>(
        &self,
        memory: &mut M,
        transaction: &Transaction,
    ) -> Result<Found, Corrupt> {
        let Transaction { account, teller, delta, .. } = *transaction;
        let mut account: Holder = self.read(memory, Table::Account, account)?;
        let mut teller: Holder = self.read(memory, Table::Teller, teller)?;
        let mut branch: Branch = self.read(memory, Table::Branch, transaction.branch())?;
        let entry: Entry = self.read(memory, Table::History, self.layout.place(transaction))?;
        branch.check_teller(&teller)?;
        let found = Found {
            account: account.balance(),
            teller: teller.balance(),
            branch: branch.balance(),
            history_rows: entry.rows,
        };
        account.pay(delta);
        teller.pay(delta);
        branch.pay(&teller, delta);
        self.store(memory, Table::Account, account.id, account);
        self.store(memory, Table::Teller, teller.id, teller);
        self.store(memory, Table::Branch, branch.id, branch);
        let entry = entry.followed_by(transaction);
        self.store(memory, Table::History, self.layout.place(transaction), entry);
        Ok(found)
    }

    /// The balance of an account, also while other jobs pay; `None` if there is no such account.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row.
    pub fn account<M: FullMemory>(
        &self,
        memory: &mut M,
        account: u64,
    ) -> Result<Option<Balance>, Corrupt> {
        if account >= self.layout.rows(Table::Account) {
            return Ok(None);
        }
        let at = self.layout.address(Table::Account, account);
        Ok(Some(self.checksums.read::<M, Holder>(memory, at)?.balance()))
    }

    /// The balances of a branch and of its tellers in one atomic step, also while other jobs pay;
    /// `None` if there is no such branch.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row, or the rows disagree.
    pub fn branch<M: FullMemory>(
        &self,
        memory: &mut M,
        branch: u64,
    ) -> Result<Option<(Balance, [Balance; TELLERS_PER_BRANCH as usize])>, Corrupt> {
        if branch >= self.branches() {
            return Ok(None);
        }
        let latch = self.layout.address(Table::Branch, branch);
        latch::read(memory, latch, |memory| self.read_branch(memory, branch).map(Some))
    }

    /// Reads a branch and its tellers without the latch.
    fn read_branch<M: FullMemory>(
        &self,
        memory: &mut M,
        branch: u64,
    ) -> Result<(Balance, [Balance; TELLERS_PER_BRANCH as usize]), Corrupt> {
        let row: Branch = self.read(memory, Table::Branch, branch)?;
        let mut tellers = [Balance::default(); TELLERS_PER_BRANCH as usize];
        let mut sum = Balance::default();
        for (teller, balance) in (branch * TELLERS_PER_BRANCH..).zip(&mut tellers) {
            let teller: Holder = self.read(memory, Table::Teller, teller)?;
            row.check_teller(&teller)?;
            *balance = teller.balance();
            sum.add(*balance);
        }
        if sum != row.balance() {
            let found = row.balance();
            return Err(Corrupt(format!("branch {branch} has {found:?}, its tellers {sum:?}")));
        }
        Ok((sum, tellers))
    }

    fn may_exist(&self, transaction: &Transaction) -> bool {
        transaction.account < self.layout.rows(Table::Account)
            && transaction.teller < self.layout.rows(Table::Teller)
    }

    fn read<M: FullMemory, T: Pod>(
        &self,
        memory: &mut M,
        table: Table,
        row: u64,
    ) -> Result<T, Corrupt> {
        let at = self.layout.address(table, row);
        self.checksums.read_latched(memory, at)
    }

    fn store<M: FullMemory, T: Pod>(&self, memory: &mut M, table: Table, row: u64, record: T) {
        let at = self.layout.address(table, row);
        self.checksums.write_latched(memory, at, record);
    }

    /// Line `line` of page `page` of `table`, for the initial image.
    fn image_of(&self, table: Table, page: u64, line: u64) -> Line {
        if table == Table::History {
            let place = page * LINES_PER_PAGE + line;
            return self.checksums.line(self.layout.address(table, place), Entry::NONE);
        }
        let id = page * ROWS_PER_PAGE + line / 2;
        if id >= self.layout.rows(table) {
            return [0; 8];
        }
        let at = self.layout.address(table, id);
        match table {
            _ if line % 2 == 1 => self.checksums.line(at + LINE_BYTES as u64, Filler::new(id)),
            Table::Branch => self.checksums.line(at, Branch::new(id)),
            Table::Teller => self.checksums.line(at, Holder::new(id, id / TELLERS_PER_BRANCH)),
            _ => self.checksums.line(at, Holder::new(id, id / self.accounts_per_branch())),
        }
    }
}

impl Balance {
    fn add(&mut self, other: Balance) {
        self.amount = self.amount.wrapping_add(other.amount);
        self.transactions = self.transactions.wrapping_add(other.transactions);
    }
}

impl Named for Tpcb {
    const NAME: &'static str = "tpcb";
    const DESCRIPTION: &'static str = "pays amounts in to and out of the accounts of a bank";
    const MIX: &'static str =
        "1 transaction: account, teller and branch read and written, a history row appended";
    const SOURCE: &'static str =
        "TPC-B standard, as FlatFlash (ASPLOS'19) runs it; Zipf accounts and the ring are ours";
    /// One page of each table, and one more for the accounts of a second branch.
    const MIN_BYTES: u64 = Layout::MIN_PAGES * PAGE_BYTES as u64;

    fn with_shape(shape: &Shape) -> Tpcb {
        let layout = Layout::new(shape.dataset_bytes / PAGE_BYTES as u64);
        let accounts = layout.rows(Table::Account);
        let pages = accounts / ROWS_PER_PAGE;
        Tpcb {
            ranks: Ranks::new(accounts, shape.theta),
            places: Places::new(pages, ROWS_PER_PAGE, shape.scatter, mix(shape.seed)),
            checksums: Checksums::new(Kind::Tpcb as u64, layout.pages(), shape.seed),
            layout,
            seed: shape.seed,
            work: shape.work_instructions,
        }
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl Workload for Tpcb {
    fn size_bytes(&self) -> u64 {
        self.layout.pages() * PAGE_BYTES as u64
    }

    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.image_lines(page, ALL_LINES, out);
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        assert!(page.start().0 < self.size_bytes(), "{page:?} of {}", self.size_bytes());
        let (table, page) = self.layout.table_of(page);
        fill_lines(out, lines, |line| self.image_of(table, page, line))
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        let transaction = self.job(job);
        let needs = [
            (Table::Account, transaction.account),
            (Table::Teller, transaction.teller),
            (Table::Branch, transaction.branch()),
            (Table::History, self.layout.place(&transaction)),
        ];
        for (part, (table, row)) in (0..).zip(needs) {
            memory.work(share(self.work, part, needs.len() as u64));
            let _latch: u64 = memory.load(self.layout.address(table, row));
        }
        self.execute(memory, &transaction).map(|_| ())
    }

    fn writes(&self) -> bool {
        true
    }

    fn commits(&self) -> bool {
        true
    }
}
