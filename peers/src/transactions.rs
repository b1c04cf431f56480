//! The work of every store: rows of 64 bytes by key, and the transactions on them.
//!
//! * *TPC-B-like* (TPC-B, clause 1.2): adds an amount to an account, a teller and a branch, and
//!   appends to a history. Accounts are drawn evenly.
//! * *TATP-like*: reads a subscriber (80%), or changes where one is (20%). Subscribers are drawn
//!   unevenly, as TATP's benchmark description says (NURand with A = 1,048,575 for more than a
//!   million).
//! * *Reads*: reads a subscriber, drawn the same way.
//!
//! Accounts and subscribers are the same rows.

use serde::{Deserialize, Serialize};

/// A row: a number that identifies it, a balance, its last transaction, and filling.
pub type Row = [u64; 8];

pub const BRANCHES: u64 = 16;
pub const TELLERS: u64 = 160;

/// The kind of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Load {
    TpcB,
    Tatp,
    Reads,
}

/// One client's transaction.
#[derive(Clone, Copy, Debug)]
pub enum Transaction {
    /// Reads a row.
    Read(u64),
    /// Writes a place into a row.
    Move { row: u64, place: u64 },
    /// Adds an amount to an account, a teller and a branch, and appends to the history.
    Pay { account: u64, teller: u64, branch: u64, amount: u64, number: u64 },
}

fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Transaction {
    /// Returns transaction `number` of `load`, over `rows` rows.
    pub fn draw(load: Load, number: u64, rows: u64) -> Transaction {
        let (one, other) = (mixed(2 * number), mixed(2 * number + 1));
        let subscriber = (one % rows | other & 1_048_575) % rows;
        match load {
            Load::Reads => Transaction::Read(subscriber),
            Load::Tatp if mixed(other) % 5 > 0 => Transaction::Read(subscriber),
            Load::Tatp => Transaction::Move { row: subscriber, place: other },
            Load::TpcB => Transaction::Pay {
                account: one % rows,
                teller: other % TELLERS,
                branch: other % BRANCHES,
                amount: other >> 40,
                number,
            },
        }
    }

    pub fn writes(&self) -> bool {
        !matches!(self, Transaction::Read(_))
    }

    /// Returns the row that is probably not in DRAM.
    pub fn cold_row(&self) -> u64 {
        match *self {
            Transaction::Read(row) | Transaction::Move { row, .. } => row,
            Transaction::Pay { account, .. } => account,
        }
    }
}

/// Returns the initial row `key`.
pub fn first_row(key: u64) -> Row {
    let mut row = [key; 8];
    row[0] = mixed(key);
    row[1] = 0;
    row
}

/// True if `row` belongs to `key`.
pub fn is_right(key: u64, row: &Row) -> bool {
    row[0] == mixed(key)
}

/// Returns `row` with `amount` added by transaction `number`.
pub fn paid(mut row: Row, amount: u64, number: u64) -> Row {
    row[1] = row[1].wrapping_add(amount);
    row[2] = number;
    row
}

/// The tables of a store, in a transaction that writes.
pub trait Tables {
    type Error;
    fn account(&mut self, key: u64) -> Result<Option<Row>, Self::Error>;
    fn set_account(&mut self, key: u64, row: &Row) -> Result<(), Self::Error>;
    fn teller(&mut self, key: u64) -> Result<Option<Row>, Self::Error>;
    fn set_teller(&mut self, key: u64, row: &Row) -> Result<(), Self::Error>;
    fn branch(&mut self, key: u64) -> Result<Option<Row>, Self::Error>;
    fn set_branch(&mut self, key: u64, row: &Row) -> Result<(), Self::Error>;
    fn note(&mut self, number: u64, row: &Row) -> Result<(), Self::Error>;

    /// Runs `transaction`. Returns true if all rows were found and right.
    fn run(&mut self, transaction: &Transaction) -> Result<bool, Self::Error> {
        match *transaction {
            Transaction::Read(key) => Ok(self.account(key)?.is_some_and(|row| is_right(key, &row))),
            Transaction::Move { row: key, place } => {
                let Some(mut row) = self.account(key)? else { return Ok(false) };
                row[3] = place;
                self.set_account(key, &row)?;
                Ok(is_right(key, &row))
            }
            Transaction::Pay { account, teller, branch, amount, number } => {
                let (Some(account_row), Some(teller_row), Some(branch_row)) =
                    (self.account(account)?, self.teller(teller)?, self.branch(branch)?)
                else {
                    return Ok(false);
                };
                self.set_account(account, &paid(account_row, amount, number))?;
                self.set_teller(teller, &paid(teller_row, amount, number))?;
                self.set_branch(branch, &paid(branch_row, amount, number))?;
                self.note(number, &[account, teller, branch, amount, number, 0, 0, 0])?;
                Ok(is_right(account, &account_row))
            }
        }
    }
}
