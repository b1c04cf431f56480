//! SQLite with a write-ahead log, synchronous = FULL.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, Transaction as Begun};

use crate::store::{Failure, Peer, Sizes};
use crate::transactions::{BRANCHES, Row, TELLERS, Tables, Transaction, first_row, is_right};

/// A database file. Every thread has its own connection.
pub struct Sqlite {
    file: std::path::PathBuf,
    /// Bytes of the writer's cache.
    cache_bytes: u64,
}

fn connect(file: &Path, cache_bytes: u64) -> Result<Connection, Failure> {
    let connection = Connection::open(file)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -((cache_bytes >> 10) as i64))?;
    // Readers share the kernel's cache of the file. With a mapping for each, page tables would
    // fill the DRAM.
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.set_prepared_statement_cache_capacity(32);
    connection.busy_timeout(std::time::Duration::from_secs(10))?;
    Ok(connection)
}

struct Open<'a>(&'a Connection);

impl Open<'_> {
    fn get(&self, sql: &str, key: u64) -> rusqlite::Result<Option<Row>> {
        let mut statement = self.0.prepare_cached(sql)?;
        let found = statement.query_row([key as i64], |found| {
            let bytes = found.get_ref(0)?.as_blob()?;
            Ok(bytemuck::pod_read_unaligned(bytes))
        });
        found.optional()
    }

    fn put(&self, sql: &str, key: u64, row: &Row) -> rusqlite::Result<()> {
        let bytes: &[u8] = bytemuck::cast_slice(row);
        self.0.prepare_cached(sql)?.execute((bytes, key as i64)).map(drop)
    }
}

const GET_ACCOUNT: &str = "SELECT value FROM accounts WHERE id = ?1";

impl Tables for Open<'_> {
    type Error = rusqlite::Error;

    fn account(&mut self, key: u64) -> rusqlite::Result<Option<Row>> {
        self.get(GET_ACCOUNT, key)
    }
    fn set_account(&mut self, key: u64, row: &Row) -> rusqlite::Result<()> {
        self.put("UPDATE accounts SET value = ?1 WHERE id = ?2", key, row)
    }
    fn teller(&mut self, key: u64) -> rusqlite::Result<Option<Row>> {
        self.get("SELECT value FROM tellers WHERE id = ?1", key)
    }
    fn set_teller(&mut self, key: u64, row: &Row) -> rusqlite::Result<()> {
        self.put("UPDATE tellers SET value = ?1 WHERE id = ?2", key, row)
    }
    fn branch(&mut self, key: u64) -> rusqlite::Result<Option<Row>> {
        self.get("SELECT value FROM branches WHERE id = ?1", key)
    }
    fn set_branch(&mut self, key: u64, row: &Row) -> rusqlite::Result<()> {
        self.put("UPDATE branches SET value = ?1 WHERE id = ?2", key, row)
    }
    fn note(&mut self, number: u64, row: &Row) -> rusqlite::Result<()> {
        self.put("INSERT INTO history (value, id) VALUES (?1, ?2)", number, row)
    }
}

fn fill(begun: &Begun<'_>, table: &str, rows: u64) -> rusqlite::Result<()> {
    let sql = format!("INSERT INTO {table} (value, id) VALUES (?1, ?2)");
    (0..rows).try_for_each(|key| Open(begun).put(&sql, key, &first_row(key)))
}

impl Peer for Sqlite {
    type Reader<'a> = Connection;
    type Writer<'a> = Connection;

    fn create(folder: &Path, sizes: &Sizes) -> Result<(), Failure> {
        let mut connection = connect(&folder.join("peers.sqlite"), 1 << 30)?;
        let begun = connection.transaction()?;
        for (table, rows) in
            [("accounts", sizes.rows), ("tellers", TELLERS), ("branches", BRANCHES), ("history", 0)]
        {
            let columns = "(id INTEGER PRIMARY KEY, value BLOB NOT NULL)";
            begun.execute_batch(&format!("CREATE TABLE {table} {columns}"))?;
            fill(&begun, table, rows)?;
        }
        begun.commit()?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }

    fn open(folder: &Path, sizes: &Sizes) -> Result<Sqlite, Failure> {
        Ok(Sqlite { file: folder.join("peers.sqlite"), cache_bytes: sizes.dram_bytes / 4 })
    }

    fn reader(&self) -> Result<Connection, Failure> {
        connect(&self.file, 64 << 10)
    }

    fn writer(&self) -> Result<Connection, Failure> {
        connect(&self.file, self.cache_bytes)
    }

    fn read(reader: &mut Connection, key: u64) -> Result<bool, Failure> {
        Ok(Open(reader).get(GET_ACCOUNT, key)?.is_some_and(|row| is_right(key, &row)))
    }

    fn commit(writer: &mut Connection, group: &[Transaction]) -> Result<bool, Failure> {
        let begun = writer.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let mut right = true;
        for one in group {
            right &= Open(&begun).run(one)?;
        }
        begun.commit()?;
        Ok(right)
    }
}
