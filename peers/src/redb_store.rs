//! redb: copy-on-write B+ trees in one file.

use std::path::Path;

use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition};

use crate::store::{Failure, Peer, Sizes};
use crate::transactions::{BRANCHES, Row, TELLERS, Tables, Transaction, first_row, is_right};

const ACCOUNTS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("accounts");
const TELLER: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("tellers");
const BRANCH: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("branches");
const HISTORY: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("history");

/// A database whose commits are flushed (`Durability::Immediate`, the default).
pub struct Redb(Database);

fn file(folder: &Path) -> std::path::PathBuf {
    folder.join("peers.redb")
}

fn row(bytes: &[u8]) -> Row {
    bytemuck::pod_read_unaligned(bytes)
}

struct Open<'a> {
    accounts: Table<'a, u64, &'static [u8]>,
    tellers: Table<'a, u64, &'static [u8]>,
    branches: Table<'a, u64, &'static [u8]>,
    history: Table<'a, u64, &'static [u8]>,
}

macro_rules! table {
    ($table:ident: $get:ident, $set:ident) => {
        fn $get(&mut self, key: u64) -> Result<Option<Row>, redb::Error> {
            Ok(self.$table.get(key)?.map(|value| row(value.value())))
        }
        fn $set(&mut self, key: u64, row: &Row) -> Result<(), redb::Error> {
            self.$table.insert(key, bytemuck::cast_slice(row))?;
            Ok(())
        }
    };
}

impl Tables for Open<'_> {
    type Error = redb::Error;
    table!(accounts: account, set_account);
    table!(tellers: teller, set_teller);
    table!(branches: branch, set_branch);
    fn note(&mut self, number: u64, row: &Row) -> Result<(), redb::Error> {
        self.history.insert(number, bytemuck::cast_slice(row))?;
        Ok(())
    }
}

impl Redb {
    fn commit_with(
        &self,
        change: impl FnOnce(&mut Open<'_>) -> Result<bool, redb::Error>,
    ) -> Result<bool, Failure> {
        let transaction = self.0.begin_write()?;
        let right = {
            let mut open = Open {
                accounts: transaction.open_table(ACCOUNTS)?,
                tellers: transaction.open_table(TELLER)?,
                branches: transaction.open_table(BRANCH)?,
                history: transaction.open_table(HISTORY)?,
            };
            change(&mut open)?
        };
        transaction.commit()?;
        Ok(right)
    }
}

impl Peer for Redb {
    type Reader<'a> = &'a Redb;
    type Writer<'a> = &'a Redb;

    fn create(folder: &Path, sizes: &Sizes) -> Result<(), Failure> {
        let database = Redb(Database::builder().set_cache_size(1 << 30).create(file(folder))?);
        database.commit_with(|open| {
            (0..TELLERS).try_for_each(|key| open.set_teller(key, &first_row(key)))?;
            (0..BRANCHES).try_for_each(|key| open.set_branch(key, &first_row(key)))?;
            (0..sizes.rows).try_for_each(|key| open.set_account(key, &first_row(key)))?;
            Ok(true)
        })?;
        Ok(())
    }

    /// redb's cache gets an eighth of the DRAM, and the kernel's cache the rest. With a quarter
    /// the process was killed at the limit.
    fn open(folder: &Path, sizes: &Sizes) -> Result<Redb, Failure> {
        let cache_bytes = sizes.dram_bytes as usize / 8;
        Ok(Redb(Database::builder().set_cache_size(cache_bytes).open(file(folder))?))
    }

    fn reader(&self) -> Result<&Redb, Failure> {
        Ok(self)
    }

    fn writer(&self) -> Result<&Redb, Failure> {
        Ok(self)
    }

    fn read(reader: &mut &Redb, key: u64) -> Result<bool, Failure> {
        let transaction = reader.0.begin_read()?;
        let table = transaction.open_table(ACCOUNTS)?;
        Ok(table.get(key)?.is_some_and(|value| is_right(key, &row(value.value()))))
    }

    fn commit(writer: &mut &Redb, group: &[Transaction]) -> Result<bool, Failure> {
        writer.commit_with(|open| {
            let mut right = true;
            for transaction in group {
                right &= open.run(transaction)?;
            }
            Ok(right)
        })
    }
}
