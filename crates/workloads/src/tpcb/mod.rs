//! TPC-B, a bank's debits and credits, over [`Memory`]: [`Tpcb`].

mod audit;
mod layout;
mod rows;

use std::ops::Range;

use bytemuck::Pod;
use ebbtide_core::{LINE_BYTES, Memory, PAGE_BYTES, PageId};
use ebbtide_structures::latch;
use rand::RngExt;

use self::layout::{LINES_PER_PAGE, Layout, ROWS_PER_PAGE, Table};
use self::rows::{Branch, Entry, Filler, Holder};
use crate::keys::{Places, Ranks, job_rng, share};
use crate::kind::Kind;
use crate::shape::{Named, Shape};
use crate::{ALL_LINES, PageBytes, Workload, Wrong};
use ebbtide_structures::checksum::Checksums;
use ebbtide_structures::hash::mix;
use ebbtide_structures::image::{Line, fill_lines};

/// Tellers of a branch.
pub const TELLERS_PER_BRANCH: u64 = 10;
/// Of a hundred transactions, so many are on an account of another branch than the teller's.
const REMOTE_PERCENT: u32 = 15;
/// A transaction moves at most so much, either way.
const DELTA_MAX: i64 = 999_999;

/// TPC-B's bank; a job is one transaction: a teller of a branch pays an amount in to an account,
/// or out of it.
///
/// The transaction (TPC-B standard, clause 1.2) adds the amount to the balances of the account,
/// the teller and the teller's branch, and appends a row to the history. All balances are 0 at
/// first, so that at any time the sums over accounts, tellers, branches and history are the same:
/// see [`audit`](Tpcb::audit).
///
/// The scale is the standard's: a branch has 10 tellers and 100,000 accounts, and there are as
/// many branches as 15/16 of the dataset hold, the history taking the rest. A dataset too small
/// for two such branches (27 MB) has two with fewer accounts. Rows of 100 bytes are two lines:
/// what the transaction needs, with a latch, and the filler it leaves alone. A row of the
/// history, 50 bytes, is a line.
///
/// Accounts are drawn by [`Shape::theta`] from all branches; the teller is one of the account's
/// branch, or, for 15% of transactions, of any other. With θ = 0 this is the standard's
/// distribution, which draws the teller first; with more, the branches of hot accounts are hot.
///
/// The history is a ring, or it would outgrow any dataset: transaction `n` writes place `n` modulo
/// its length, which needs no counter that everyone fights for. A place carries the sum and the
/// number of the rows that were overwritten there, so that the history still accounts for all.
///
/// Latches are taken in the order account, branch, history, one of each, so nobody waits in a
/// circle; the branch's latch covers its tellers, whom nobody pays without it. Rows are touched
/// before, so that no miss is waited for with a latch held. A branch counts the transactions of
/// each of its tellers, as they do: if one came back old, with its page, the counts would differ.
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
    /// Tells transactions apart, and where in the history each goes; stands for the time.
    pub number: u64,
    /// The account, from 0; those of a branch are neighbours.
    pub account: u64,
    /// The teller, from 0; the 10 of a branch are neighbours.
    pub teller: u64,
    /// What is paid in, or out if negative.
    pub delta: i64,
}

impl Transaction {
    /// The branch, from 0: the teller's.
    pub fn branch(&self) -> u64 {
        self.teller / TELLERS_PER_BRANCH
    }
}

/// What somebody has at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Balance {
    /// All that was paid in, less all that was paid out.
    pub amount: i64,
    /// By how many transactions.
    pub transactions: u64,
}

/// What a transaction found before it wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The account's balance.
    pub account: Balance,
    /// The teller's.
    pub teller: Balance,
    /// The branch's.
    pub branch: Balance,
    /// How many rows the place in the history had held.
    pub history_rows: u64,
}

impl Tpcb {
    /// How many branches there are.
    pub fn branches(&self) -> u64 {
        self.layout.branches
    }

    /// How many accounts each branch has: 100,000 if there is room.
    pub fn accounts_per_branch(&self) -> u64 {
        self.layout.accounts_per_branch()
    }

    /// How many rows the history keeps.
    pub fn history_rows(&self) -> u64 {
        self.layout.rows(Table::History)
    }

    /// The transaction that is job `job`.
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

    /// Runs the transaction in one atomic step. Gives what it found, or `None` if there is no such
    /// account or teller; then nothing changes.
    ///
    /// # Errors
    /// [`Wrong`] when the rows are not what they must be; then nothing is stored.
    pub fn execute<M: Memory>(
        &self,
        memory: &mut M,
        transaction: &Transaction,
    ) -> Result<Option<Found>, Wrong> {
        if !self.may_exist(transaction) {
            return Ok(None);
        }
        let account = self.layout.address(Table::Account, transaction.account);
        let branch = self.layout.address(Table::Branch, transaction.branch());
        let history = self.layout.address(Table::History, self.layout.place(transaction));
        latch::write(memory, account, |memory| {
            latch::write(memory, branch, |memory| {
                latch::write(memory, history, |memory| self.apply(memory, transaction).map(Some))
            })
        })
    }

    /// The transaction itself, for arguments in range. Not atomic: the caller holds the latches.
    ///
    /// # Errors
    /// [`Wrong`] when the rows are not what they must be; then nothing is stored.
    pub fn apply<M: Memory>(
        &self,
        memory: &mut M,
        transaction: &Transaction,
    ) -> Result<Found, Wrong> {
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

    /// The balance of an account, also while others pay; `None` if there is no such account.
    ///
    /// # Errors
    /// [`Wrong`] when the row is not what it must be.
    pub fn account<M: Memory>(
        &self,
        memory: &mut M,
        account: u64,
    ) -> Result<Option<Balance>, Wrong> {
        if account >= self.layout.rows(Table::Account) {
            return Ok(None);
        }
        let at = self.layout.address(Table::Account, account);
        Ok(Some(self.checksums.read::<M, Holder>(memory, at)?.balance()))
    }

    /// The balances of a branch and of its tellers in one atomic step, also while others pay;
    /// `None` if there is no such branch.
    ///
    /// # Errors
    /// [`Wrong`] when the rows are not what they must be, or do not agree.
    pub fn branch<M: Memory>(
        &self,
        memory: &mut M,
        branch: u64,
    ) -> Result<Option<(Balance, [Balance; TELLERS_PER_BRANCH as usize])>, Wrong> {
        if branch >= self.branches() {
            return Ok(None);
        }
        let latch = self.layout.address(Table::Branch, branch);
        latch::read(memory, latch, |memory| self.read_branch(memory, branch).map(Some))
    }

    /// Reads a branch and its tellers without the latch.
    fn read_branch<M: Memory>(
        &self,
        memory: &mut M,
        branch: u64,
    ) -> Result<(Balance, [Balance; TELLERS_PER_BRANCH as usize]), Wrong> {
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
            return Err(Wrong(format!("branch {branch} has {found:?}, its tellers {sum:?}")));
        }
        Ok((sum, tellers))
    }

    fn may_exist(&self, transaction: &Transaction) -> bool {
        transaction.account < self.layout.rows(Table::Account)
            && transaction.teller < self.layout.rows(Table::Teller)
    }

    fn read<M: Memory, T: Pod>(&self, memory: &mut M, table: Table, row: u64) -> Result<T, Wrong> {
        let at = self.layout.address(table, row);
        self.checksums.read_latched(memory, at)
    }

    fn store<M: Memory, T: Pod>(&self, memory: &mut M, table: Table, row: u64, record: T) {
        let at = self.layout.address(table, row);
        self.checksums.write_latched(memory, at, record);
    }

    /// The line `line` of page `page` of `table`, as it is at first.
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

    fn run<M: Memory>(&self, job: u64, memory: &mut M) -> Result<(), Wrong> {
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
}
