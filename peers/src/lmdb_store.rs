//! LMDB, through heed: a copy-on-write B+ tree in a mapped file.

use std::path::Path;

use heed::byteorder::BigEndian;
use heed::types::{Bytes, U64};
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, PutFlags, RwTxn};

use crate::store::{Failure, Peer, Sizes};
use crate::transactions::{BRANCHES, Row, TELLERS, Tables, Transaction, first_row, is_right};

/// The top bits of a key select the table in one tree. The history comes last, where appending is
/// cheapest.
const TELLER: u64 = 1 << 60;
const BRANCH: u64 = 2 << 60;
const HISTORY: u64 = 3 << 60;

type Rows = Database<'static, U64<BigEndian>, Bytes>;

/// An environment whose commits are flushed (neither `NO_SYNC` nor `NO_META_SYNC`).
pub struct Lmdb {
    env: Env,
    rows: Rows,
}

struct Open<'a, 'b> {
    rows: Rows,
    transaction: &'a mut RwTxn<'b>,
}

impl Open<'_, '_> {
    fn get(&self, key: u64) -> heed::Result<Option<Row>> {
        Ok(self.rows.get(self.transaction, &key)?.map(bytemuck::pod_read_unaligned))
    }

    fn put(&mut self, key: u64, row: &Row) -> heed::Result<()> {
        self.rows.put(self.transaction, &key, bytemuck::cast_slice(row))
    }
}

impl Tables for Open<'_, '_> {
    type Error = heed::Error;

    fn account(&mut self, key: u64) -> heed::Result<Option<Row>> {
        self.get(key)
    }
    fn set_account(&mut self, key: u64, row: &Row) -> heed::Result<()> {
        self.put(key, row)
    }
    fn teller(&mut self, key: u64) -> heed::Result<Option<Row>> {
        self.get(TELLER | key)
    }
    fn set_teller(&mut self, key: u64, row: &Row) -> heed::Result<()> {
        self.put(TELLER | key, row)
    }
    fn branch(&mut self, key: u64) -> heed::Result<Option<Row>> {
        self.get(BRANCH | key)
    }
    fn set_branch(&mut self, key: u64, row: &Row) -> heed::Result<()> {
        self.put(BRANCH | key, row)
    }
    fn note(&mut self, number: u64, row: &Row) -> heed::Result<()> {
        self.put(HISTORY | number, row)
    }
}

impl Peer for Lmdb {
    type Reader<'a> = &'a Lmdb;
    type Writer<'a> = &'a Lmdb;

    fn create(folder: &Path, sizes: &Sizes) -> Result<(), Failure> {
        std::fs::create_dir_all(folder.join("peers.lmdb"))?;
        let lmdb = Lmdb::open(folder, sizes)?;
        let mut transaction = lmdb.env.write_txn()?;
        let accounts = (0..sizes.rows).map(|key| (key, first_row(key)));
        let tellers = (0..TELLERS).map(|key| (TELLER | key, first_row(key)));
        let branches = (0..BRANCHES).map(|key| (BRANCH | key, first_row(key)));
        for (key, row) in accounts.chain(tellers).chain(branches) {
            let (flags, row) = (PutFlags::APPEND, bytemuck::cast_slice(&row));
            lmdb.rows.put_with_flags(&mut transaction, flags, &key, row)?;
        }
        transaction.commit()?;
        Ok(())
    }

    fn open(folder: &Path, _sizes: &Sizes) -> Result<Lmdb, Failure> {
        let mut options = EnvOpenOptions::new();
        // Data is many times larger than DRAM, so reading ahead only evicts.
        // SAFETY: the flag changes what the kernel reads and nothing else.
        unsafe { options.flags(EnvFlags::NO_READ_AHEAD) };
        options.map_size(64 << 30).max_readers(1024);
        // SAFETY: this program made the files, and no other uses them.
        let env = unsafe { options.open(folder.join("peers.lmdb"))? };
        let transaction = env.write_txn()?;
        let made = env.create_databases_and_commit(transaction, |opener, transaction| {
            let rows = opener.create_database::<U64<BigEndian>, Bytes>(transaction, None)?;
            heed::Result::Ok(CommitOrAbort::<_, ()>::Commit(rows))
        })?;
        Ok(Lmdb { rows: made.unwrap_commit(), env })
    }

    fn reader(&self) -> Result<&Lmdb, Failure> {
        Ok(self)
    }

    fn writer(&self) -> Result<&Lmdb, Failure> {
        Ok(self)
    }

    fn read(reader: &mut &Lmdb, key: u64) -> Result<bool, Failure> {
        let transaction = reader.env.read_txn()?;
        let row = reader.rows.get(&transaction, &key)?;
        Ok(row.is_some_and(|row| is_right(key, &bytemuck::pod_read_unaligned(row))))
    }

    fn commit(writer: &mut &Lmdb, group: &[Transaction]) -> Result<bool, Failure> {
        let mut transaction = writer.env.write_txn()?;
        let mut open = Open { rows: writer.rows, transaction: &mut transaction };
        let mut right = true;
        for one in group {
            right &= open.run(one)?;
        }
        transaction.commit()?;
        Ok(right)
    }
}
