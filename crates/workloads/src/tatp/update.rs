//! [`Tatp`]: the telecom benchmark's UPDATE_SUBSCRIBER_DATA (AstriFlash, HPCA'23 §V-A).

use std::ops::Range;

use ebbtide_core::{FullMemory, PAGE_BYTES, PageId};
use ebbtide_structures::latch;

use crate::commit::commit;

use super::rows::Population;
use super::tables::{ROWS_PER_PAGE, Tables, agree};
use super::transaction::UpdateSubscriberData;
use crate::keys::{Places, Ranks, job_rng, share};
use crate::kind::Kind;
use crate::shape::{Named, Shape};
use crate::{ALL_LINES, Accesses, Corrupt, PageBytes, Workload};
use ebbtide_structures::checksum::{Checksums, RECORD_OFFSET};
use ebbtide_structures::hash::mix;
use ebbtide_structures::image::fill_lines;

/// TATP's subscriber and special-facility tables; a job is one UPDATE_SUBSCRIBER_DATA.
///
/// The transaction (TATP benchmark description, §5.3; the only one AstriFlash runs): for a
/// subscriber and one of four facility types, set `subscriber.bit_1` and `special_facility.data_a`.
/// A subscriber has 1 to 4 facilities of distinct types, so the row exists 62.5% of the time. If it
/// does not, nothing changes and the job is done.
///
/// A subscriber has two lines: the columns that the transaction needs, with a latch, and the
/// others. Its four possible facilities are rows of 32 bytes, side by side on two lines of another
/// page. `s_id` is dense, so addresses are computed and there is no primary index. The subscriber's
/// latch covers its facilities too, which makes transactions serialisable. Both rows are touched
/// before it is taken, so that a job waits for misses without it.
///
/// Both rows count the transactions that changed them, and the subscriber's has a count for each
/// type. If half of a transaction is lost with an outdated page, the counts differ.
#[derive(Debug, Clone)]
pub struct Tatp {
    tables: Tables,
    ranks: Ranks,
    /// Rank to subscriber, from 0.
    places: Places,
    work: u64,
}

/// The contents of the rows before a committed transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Updated {
    /// `subscriber.bit_1`.
    pub bit_1: bool,
    /// `special_facility.data_a`.
    pub data_a: u8,
    /// How many transactions had changed each of the subscriber's facilities, modulo 2¹⁶.
    pub commits: [u16; 4],
}

/// A subscriber and its facilities, read atomically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubscriberData {
    /// `subscriber.bit_1`.
    pub bit_1: bool,
    /// `special_facility.data_a` of each type that exists.
    pub data_a: [Option<u8>; 4],
    /// How many transactions have changed each facility, modulo 2¹⁶.
    pub commits: [u16; 4],
}

impl Tatp {
    /// The number of subscribers: `s_id` is `1..=subscribers()`.
    pub fn subscribers(&self) -> u64 {
        self.tables.subscribers()
    }

    /// The transaction of job `job`.
    #[inline]
    pub fn job(&self, job: u64) -> UpdateSubscriberData {
        let mut rng = job_rng(self.tables.population.seed, job);
        let s_id = self.places.place(self.ranks.draw(&mut rng)) + 1;
        UpdateSubscriberData::draw(s_id, &mut rng)
    }

    /// Runs the transaction in one atomic step. Returns the previous contents, or `None` if there
    /// is no such subscriber or facility. Nothing then changes.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row. Nothing is then stored.
    pub fn update<M: FullMemory>(
        &self,
        memory: &mut M,
        update: UpdateSubscriberData,
    ) -> Result<Option<Updated>, Corrupt> {
        if !self.tables.may_exist(update.s_id, update.sf_type) {
            return Ok(None);
        }
        let latch = self.tables.subscriber_address(update.s_id);
        commit(memory, |memory| latch::write(memory, latch, |memory| self.apply(memory, update)))
    }

    /// The transaction itself, for arguments in range. The caller holds the subscriber's latch.
    pub fn apply<M: FullMemory>(
        &self,
        memory: &mut M,
        update: UpdateSubscriberData,
    ) -> Result<Option<Updated>, Corrupt> {
        let found = self.tables.apply(memory, update)?;
        Ok(found.map(|(subscriber, facility)| Updated {
            bit_1: subscriber.bit_1(),
            data_a: facility.data_a,
            commits: subscriber.commits,
        }))
    }

    /// A subscriber and its facilities, read in one atomic step; `None` if there is none.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row.
    pub fn get<M: FullMemory>(
        &self,
        memory: &mut M,
        s_id: u64,
    ) -> Result<Option<SubscriberData>, Corrupt> {
        if !self.tables.may_exist(s_id, 1) {
            return Ok(None);
        }
        let latch = self.tables.subscriber_address(s_id);
        latch::read(memory, latch, |memory| self.read(memory, s_id).map(Some))
    }

    /// Reads them without the latch.
    fn read<M: FullMemory>(&self, memory: &mut M, s_id: u64) -> Result<SubscriberData, Corrupt> {
        let subscriber = self.tables.read_subscriber(memory, s_id)?;
        let mut data_a = [None; 4];
        for (sf_type, data_a) in (1..).zip(&mut data_a) {
            let facility = self.tables.read_facility(memory, s_id, sf_type)?;
            agree(&subscriber, &facility)?;
            *data_a = (facility.exists != 0).then_some(facility.data_a);
        }
        Ok(SubscriberData { bit_1: subscriber.bit_1(), data_a, commits: subscriber.commits })
    }
}

impl Named for Tatp {
    const NAME: &'static str = "tatp";
    const DESCRIPTION: &'static str = "updates a telecom subscriber and one of its facilities";
    const MIX: &'static str =
        "1 UPDATE_SUBSCRIBER_DATA: 2 rows read, both written in 62.5% of jobs";
    const SOURCE: &'static str =
        "AstriFlash (HPCA'23) section V-A; columns from the TATP description";
    /// One page of each table.
    const MIN_BYTES: u64 = 2 * PAGE_BYTES as u64;

    fn with_shape(shape: &Shape) -> Tatp {
        let pages_per_table = shape.dataset_bytes / Tatp::MIN_BYTES;
        let tables = Tables {
            pages_per_table,
            facilities: PageId(pages_per_table),
            population: Population { seed: shape.seed },
            checksums: Checksums::new(Kind::Tatp as u64, 2 * pages_per_table, shape.seed),
        };
        Tatp {
            ranks: Ranks::new(tables.subscribers(), shape.theta),
            places: Places::new(pages_per_table, ROWS_PER_PAGE, shape.scatter, mix(shape.seed)),
            tables,
            work: shape.work_instructions,
        }
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl Workload for Tatp {
    fn size_bytes(&self) -> u64 {
        self.tables.pages_per_table * Tatp::MIN_BYTES
    }

    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.image_lines(page, ALL_LINES, out);
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        let pages = self.tables.pages_per_table;
        assert!(page.0 < 2 * pages, "{page:?} of {}", 2 * pages);
        match page.0.checked_sub(pages) {
            None => fill_lines(out, lines, |line| self.tables.image_of_subscribers(page.0, line)),
            Some(page) => {
                fill_lines(out, lines, |line| self.tables.image_of_facilities(page, line))
            }
        }
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        let update = self.job(job);
        memory.work(share(self.work, 0, 2));
        let _latch: u64 = memory.load(self.tables.subscriber_address(update.s_id));
        memory.work(share(self.work, 1, 2));
        let _row: u64 = memory.load(self.tables.facility_address(update.s_id, update.sf_type));
        self.update(memory, update).map(|_| ())
    }

    fn accesses(&self, job: u64, accesses: &mut Accesses) -> bool {
        let UpdateSubscriberData { s_id, sf_type, .. } = self.job(job);
        let subscriber = self.tables.subscriber_address(s_id);
        let facility = self.tables.facility_address(s_id, sf_type);
        accesses.load_all([subscriber, facility]);
        accesses.latched(&[subscriber], |accesses| {
            accesses.load_all([subscriber, facility]);
            if self.tables.population.facility(s_id, sf_type).exists != 0 {
                accesses.store(subscriber + RECORD_OFFSET);
                accesses.store(facility);
            }
        });
        true
    }

    fn writes(&self) -> bool {
        true
    }

    fn commits(&self) -> bool {
        true
    }
}
