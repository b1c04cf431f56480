//! The consistency conditions of TPC-B (standard, clause 2.3), over the whole database.

use ebbtide_core::{FullMemory, LINE_BYTES};

use super::layout::Table;
use super::rows::{Entry, Filler, Holder};
use super::{Balance, Tpcb};
use crate::Corrupt;

impl Tpcb {
    /// Reads every row and checks that each branch has the sum of its tellers. Accounts, branches
    /// and history must have the same sum and number of transactions, which are returned. No
    /// transaction may run during the call.
    ///
    /// # Errors
    /// [`Corrupt`] with the difference, or the invalid row.
    pub fn audit<M: FullMemory>(&self, memory: &mut M) -> Result<Balance, Corrupt> {
        let branches = self.sum(Table::Branch, |branch| Ok(self.read_branch(memory, branch)?.0))?;
        let accounts = self.sum(Table::Account, |account| {
            Ok(self.read::<M, Holder>(memory, Table::Account, account)?.balance())
        })?;
        let history = self.sum(Table::History, |place| self.read_history(memory, place))?;
        for table in [Table::Branch, Table::Teller, Table::Account] {
            (0..self.layout.rows(table))
                .try_for_each(|row| self.check_filler(memory, table, row))?;
        }
        if accounts == branches && history == branches {
            return Ok(branches);
        }
        Err(Corrupt(format!(
            "the accounts have {accounts:?}, the branches {branches:?}, the history {history:?}"
        )))
    }

    /// The sum of `balance` over every row of a table.
    fn sum(
        &self,
        table: Table,
        mut balance: impl FnMut(u64) -> Result<Balance, Corrupt>,
    ) -> Result<Balance, Corrupt> {
        (0..self.layout.rows(table)).try_fold(Balance::default(), |mut sum, row| {
            sum.add(balance(row)?);
            Ok(sum)
        })
    }

    /// The sum of all that was ever written to a place of the history.
    fn read_history<M: FullMemory>(&self, memory: &mut M, place: u64) -> Result<Balance, Corrupt> {
        let entry: Entry = self.read(memory, Table::History, place)?;
        if entry.rows > 0 && entry.number % self.history_rows() != place {
            return Err(Corrupt(format!("place {place} of the history holds {entry:?}")));
        }
        Ok(Balance { amount: entry.total(), transactions: entry.rows })
    }

    /// Checks the second line of a row.
    fn check_filler<M: FullMemory>(
        &self,
        memory: &mut M,
        table: Table,
        row: u64,
    ) -> Result<(), Corrupt> {
        let at = self.layout.address(table, row) + LINE_BYTES as u64;
        let filler: Filler = self.checksums.read_latched(memory, at)?;
        match filler == Filler::new(row) {
            true => Ok(()),
            false => Err(Corrupt(format!("the filler at {at:?} is {filler:?}"))),
        }
    }
}
