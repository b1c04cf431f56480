//! TPC-B's rows: the contents of each line, without latch and checksum.

use bytemuck::{Pod, Zeroable};

use super::{Balance, TELLERS_PER_BRANCH, Transaction};
use crate::Corrupt;
use ebbtide_structures::hash::mix;

/// The first line of an account or a teller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Holder {
    pub id: u64,
    pub branch: u64,
    amount: i64,
    transactions: u64,
    spare: [u64; 2],
}

impl Holder {
    pub(super) fn new(id: u64, branch: u64) -> Holder {
        Holder { id, branch, amount: 0, transactions: 0, spare: [0; 2] }
    }

    pub(super) fn balance(&self) -> Balance {
        Balance { amount: self.amount, transactions: self.transactions }
    }

    pub(super) fn pay(&mut self, delta: i64) {
        self.amount = self.amount.wrapping_add(delta);
        self.transactions = self.transactions.wrapping_add(1);
    }
}

/// The first line of a branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Branch {
    pub id: u64,
    amount: i64,
    transactions: u64,
    /// The number of transactions of each teller, modulo 2¹⁶.
    by_teller: [u16; TELLERS_PER_BRANCH as usize],
    spare: u32,
}

impl Branch {
    pub(super) fn new(id: u64) -> Branch {
        Branch { id, ..Branch::zeroed() }
    }

    pub(super) fn balance(&self) -> Balance {
        Balance { amount: self.amount, transactions: self.transactions }
    }

    /// Checks that the branch and its teller have the same count.
    pub(super) fn check_teller(&self, teller: &Holder) -> Result<(), Corrupt> {
        let seen = self.by_teller[(teller.id % TELLERS_PER_BRANCH) as usize];
        if seen == teller.transactions as u16 && self.id == teller.branch {
            return Ok(());
        }
        let (teller, branch) = (teller.id, self.id);
        Err(Corrupt(format!("teller {teller} and branch {branch} disagree on what the teller did")))
    }

    /// Books a payment that `teller` has booked.
    pub(super) fn pay(&mut self, teller: &Holder, delta: i64) {
        self.amount = self.amount.wrapping_add(delta);
        self.transactions = self.transactions.wrapping_add(1);
        self.by_teller[(teller.id % TELLERS_PER_BRANCH) as usize] = teller.transactions as u16;
    }
}

/// A place of the history: its row, and the sum of the overwritten ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Entry {
    pub account: u64,
    pub number: u64,
    pub teller: u32,
    pub branch: u32,
    pub delta: i32,
    spare: u32,
    /// The sum of the rows that were overwritten here.
    pub carried: i64,
    /// The number of rows written here.
    pub rows: u64,
}

impl Entry {
    pub(super) const NONE: Entry = Entry {
        account: 0,
        number: 0,
        teller: 0,
        branch: 0,
        delta: 0,
        spare: 0,
        carried: 0,
        rows: 0,
    };

    /// This place after `transaction` has overwritten its row.
    pub(super) fn followed_by(&self, transaction: &Transaction) -> Entry {
        Entry {
            account: transaction.account,
            number: transaction.number,
            teller: transaction.teller as u32,
            branch: transaction.branch() as u32,
            delta: transaction.delta as i32,
            spare: 0,
            carried: self.total(),
            rows: self.rows.wrapping_add(1),
        }
    }

    /// The sum of all rows ever written here.
    pub(super) fn total(&self) -> i64 {
        self.carried.wrapping_add(i64::from(self.delta))
    }
}

/// The second line of an account, a teller or a branch, which fills the row up to 100 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Filler {
    pub id: u64,
    text: [u64; 5],
}

impl Filler {
    pub(super) fn new(id: u64) -> Filler {
        Filler { id, text: std::array::from_fn(|i| mix(id.rotate_left(8 * i as u32))) }
    }
}
