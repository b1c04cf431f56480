//! [`Sql`]: SQL statements on one table, in key order or at random, as in HAMS's SQLite benchmark.

use std::ops::Range;

use ebbtide_core::{FullMemory, PageId};
use rand::RngExt;

use crate::keys::{job_rng, share};
use crate::masstree::Masstree;
use crate::shape::{Named, Shape};
use crate::{Corrupt, PageBytes, Workload};

/// Rows that a job reads or writes.
const ROWS: u64 = 16;

/// Selects rows by key.
const SELECT: u8 = 0;
/// Replaces rows by key, as `REPLACE INTO` does: removes a row and its index entry and inserts them
/// again, so the table keeps its size.
const INSERT: u8 = 1;
/// Updates rows in place.
const UPDATE: u8 = 2;

/// Statements on a table of 64-byte rows with an index over their keys, a [`Masstree`], for the
/// SQLite benchmark of HAMS (ISCA'21). It parses no SQL and writes no journal: it makes the memory
/// accesses of the statements.
///
/// Job `n` runs one statement on 16 rows. In order, these are rows `16·n` to `16·n + 15` modulo the
/// number of rows. A select looks up the first and then scans the index. At random, these are
/// uniformly random rows, each with its own look-up, so skew and scatter have no effect.
#[derive(Debug, Clone)]
pub struct Sql<const IN_ORDER: bool, const STATEMENT: u8> {
    table: Masstree,
    seed: u64,
    work: u64,
}

/// Selects rows in the order of their keys.
pub type SqlSeqSelect = Sql<true, SELECT>;
/// Selects rows at random.
pub type SqlRandomSelect = Sql<false, SELECT>;
/// Inserts rows in the order of their keys.
pub type SqlSeqInsert = Sql<true, INSERT>;
/// Inserts rows at random.
pub type SqlRandomInsert = Sql<false, INSERT>;
/// Updates rows at random.
pub type SqlUpdate = Sql<false, UPDATE>;

impl<const IN_ORDER: bool, const STATEMENT: u8> Sql<IN_ORDER, STATEMENT> {
    /// Returns the table with its index.
    pub fn table(&self) -> &Masstree {
        &self.table
    }

    /// Returns the 16 rows that job `job` reads or writes.
    #[inline]
    pub fn job(&self, job: u64) -> [u64; ROWS as usize] {
        let rows = self.table.keys();
        if IN_ORDER {
            let first = job.wrapping_mul(ROWS);
            return std::array::from_fn(|i| first.wrapping_add(i as u64) % rows);
        }
        let mut rng = job_rng(self.seed, job);
        std::array::from_fn(|_| rng.random_range(0..rows))
    }
}

impl<const IN_ORDER: bool, const STATEMENT: u8> Named for Sql<IN_ORDER, STATEMENT> {
    const NAME: &'static str = match (STATEMENT, IN_ORDER) {
        (SELECT, true) => "sql-seq-select",
        (SELECT, false) => "sql-random-select",
        (INSERT, true) => "sql-seq-insert",
        (INSERT, false) => "sql-random-insert",
        _ => "sql-update",
    };
    const DESCRIPTION: &'static str = match (STATEMENT, IN_ORDER) {
        (SELECT, true) => "selects the rows of a table in the order of their keys",
        (SELECT, false) => "selects rows of a table at random",
        (INSERT, true) => "replaces the rows of a table in the order of their keys",
        (INSERT, false) => "replaces rows of a table at random",
        _ => "updates rows of a table at random",
    };
    const MIX: &'static str = match (STATEMENT, IN_ORDER) {
        (SELECT, true) => "16 rows: 1 look-up in the index, and along it",
        (SELECT, false) => "16 rows, each looked up in the index",
        (INSERT, _) => "16 rows, each taken out of the index and put in again",
        _ => "16 rows, each looked up in the index and written",
    };
    const SOURCE: &'static str = "the SQLite benchmark of HAMS (ISCA'21); 64-byte rows are ours";
    const MIN_BYTES: u64 = <Masstree as Named>::MIN_BYTES;
    /// An insertion walks down the index and back.
    const STACK_BYTES: usize = 16 << 10;

    fn with_shape(shape: &Shape) -> Self {
        Sql { table: Masstree::with_shape(shape), seed: shape.seed, work: shape.work_instructions }
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl<const IN_ORDER: bool, const STATEMENT: u8> Workload for Sql<IN_ORDER, STATEMENT> {
    fn size_bytes(&self) -> u64 {
        self.table.size_bytes()
    }

    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.table.image(page, out);
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        self.table.image_lines(page, lines, out)
    }

    fn run<M: FullMemory>(&self, job: u64, m: &mut M) -> Result<(), Corrupt> {
        let rows = self.job(job);
        if IN_ORDER && STATEMENT == SELECT {
            let mut done = 0;
            return self.table.scan(m, &rows, |m| {
                m.work(share(self.work, done, ROWS));
                done += 1;
            });
        }
        for (part, row) in (0..).zip(rows) {
            m.work(share(self.work, part, ROWS));
            match STATEMENT {
                SELECT => self.table.get(m, row).map(|_| ())?,
                INSERT => self.table.replace(m, row)?,
                _ => self.table.update(m, row)?,
            }
        }
        Ok(())
    }

    fn writes(&self) -> bool {
        STATEMENT != SELECT
    }
}
