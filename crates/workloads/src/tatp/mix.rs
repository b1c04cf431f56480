//! [`TatpMix`]: the telecom benchmark with all its tables and its seven transactions.

use std::ops::Range;

use ebbtide_core::{Addr, FullMemory, LINE_BYTES, PAGE_BYTES, PageId};

use super::index::NumberIndex;
use super::rows::{AccessInfo, Forwardings, Population};
use super::tables::{ROWS_PER_PAGE, Tables, half_line, image_of_half_lines, open_half_line};
use super::transaction::Transaction;
use crate::keys::{Places, Ranks, job_rng, share};
use crate::kind::Kind;
use crate::shape::{Named, Shape};
use crate::{ALL_LINES, Corrupt, PageBytes, Workload};
use ebbtide_structures::checksum::Checksums;
use ebbtide_structures::hash::mix;
use ebbtide_structures::image::{Line, fill_lines};

/// Bytes of a subscriber's call forwardings: a line for each facility.
const FORWARDING_BYTES: u64 = 4 * LINE_BYTES as u64;
/// Pages that hold all rows of [`ROWS_PER_PAGE`] subscribers except their index entries.
const PAGES_PER_BLOCK: u64 = 5;
/// The number of blocks whose index entries fill a page.
const BLOCKS_PER_INDEX_PAGE: u64 = super::index::ENTRIES_PER_PAGE / ROWS_PER_PAGE;

/// TATP's four tables and its index of subscriber numbers; a job is one transaction of the
/// standard mix.
///
/// Read-only are 80% (35% GET_SUBSCRIBER_DATA, 10% GET_NEW_DESTINATION, 35% GET_ACCESS_DATA); the
/// rest write (2% UPDATE_SUBSCRIBER_DATA, 14% UPDATE_LOCATION, 2% INSERT_CALL_FORWARDING, 2%
/// DELETE_CALL_FORWARDING). Many find no row, which is a normal outcome: 37.5% of the look-ups of
/// access data, for example.
///
/// A subscriber takes 648 bytes in five places: two lines of its own row; two of its special
/// facilities; two of its access information; four of call forwardings, one a facility, which hold
/// its three possible rows; and a word of the index. The addresses of rows follow from `s_id`,
/// which is dense. A `sub_nbr` needs a probe of the index.
///
/// The subscriber's latch covers all its rows, so writers are serialisable. They touch the rows
/// they need before they take it. Readers take no latch. Each needs at most one line that can
/// change, and its checksum shows whether it is whole. (The existence and activity of a facility
/// never change.)
///
/// Subscribers are drawn by [`Shape::theta`] and [`Scatter`](crate::Scatter), as keys are in every
/// program. TATP's own distribution, `((a | b) mod P) + 1` with random `a` ≤ 65,535 and `b` ≤ P, is
/// less skewed, and the bits of a subscriber's number determine whether it is hot.
///
/// Facilities and call forwardings count their changes, and the subscriber's row has a count for
/// each of them. If half of a transaction is lost with an outdated page, the next change detects
/// it. An outdated location is not detected.
#[derive(Debug, Clone)]
pub struct TatpMix {
    pub(super) tables: Tables,
    pub(super) index: NumberIndex,
    ranks: Ranks,
    /// Rank to subscriber, from 0.
    places: Places,
    work: u64,
}

impl TatpMix {
    /// The number of subscribers: `s_id` is `1..=subscribers()`.
    pub fn subscribers(&self) -> u64 {
        self.tables.subscribers()
    }

    /// The transaction of job `job`.
    #[inline]
    pub fn job(&self, job: u64) -> Transaction {
        let mut rng = job_rng(self.tables.population.seed, job);
        let s_id = self.places.place(self.ranks.draw(&mut rng)) + 1;
        Transaction::draw(s_id, &mut rng)
    }

    /// The rows of subscriber `s_id` that `transaction` needs under the latch or in a second step,
    /// in the order of their use.
    fn needs(&self, transaction: &Transaction, s_id: u64) -> [Option<Addr>; 3] {
        let subscriber = Some(self.tables.subscriber_address(s_id));
        let facility = |sf_type| Some(self.tables.facility_address(s_id, sf_type));
        let forwardings = |sf_type| Some(self.forwardings_address(s_id, sf_type));
        match *transaction {
            Transaction::GetSubscriberData { .. } | Transaction::GetAccessData { .. } => [None; 3],
            Transaction::GetNewDestination { sf_type, .. } => [None, facility(sf_type), None],
            Transaction::UpdateSubscriberData(update) => {
                [subscriber, facility(update.sf_type), None]
            }
            Transaction::UpdateLocation { .. } => [subscriber, None, None],
            Transaction::InsertCallForwarding { sf_type, .. } => {
                [subscriber, facility(sf_type), forwardings(sf_type)]
            }
            Transaction::DeleteCallForwarding { sf_type, .. } => {
                [subscriber, None, forwardings(sf_type)]
            }
        }
    }

    pub(super) fn read_access<M: FullMemory>(
        &self,
        memory: &mut M,
        s_id: u64,
        ai_type: u64,
    ) -> Result<AccessInfo, Corrupt> {
        let at = half_line(self.access(), s_id, ai_type);
        open_half_line(self.tables.checksums, at, memory.load(at))
    }

    pub(super) fn read_forwardings<M: FullMemory>(
        &self,
        memory: &mut M,
        s_id: u64,
        sf_type: u64,
    ) -> Result<Forwardings, Corrupt> {
        let at = self.forwardings_address(s_id, sf_type);
        self.tables.checksums.read_row(memory, at)
    }

    pub(super) fn store_forwardings<M: FullMemory>(
        &self,
        memory: &mut M,
        s_id: u64,
        forwardings: Forwardings,
    ) {
        let at = self.forwardings_address(s_id, u64::from(forwardings.sf_type));
        self.tables.checksums.write_row(memory, at, &forwardings);
    }

    fn forwardings_address(&self, s_id: u64, sf_type: u64) -> Addr {
        let first = self.forwardings().start() + (s_id - 1) * FORWARDING_BYTES;
        first + (sf_type - 1) * LINE_BYTES as u64
    }

    /// The first page of access information, behind subscribers and special facilities.
    fn access(&self) -> PageId {
        PageId(2 * self.tables.pages_per_table)
    }

    /// The first page of call forwardings.
    fn forwardings(&self) -> PageId {
        PageId(3 * self.tables.pages_per_table)
    }

    fn image_of_forwardings(&self, page: u64, line: u64) -> Line {
        let nth = page * (PAGE_BYTES / LINE_BYTES) as u64 + line;
        let (s_id, sf_type) = (nth / 4 + 1, nth % 4 + 1);
        let forwardings = self.tables.population.forwardings(s_id, sf_type);
        self.tables.checksums.row_line(self.forwardings_address(s_id, sf_type), forwardings)
    }
}

impl Named for TatpMix {
    const NAME: &'static str = "tatp-mix";
    const DESCRIPTION: &'static str = "runs the telecom benchmark's mix of seven transactions";
    const MIX: &'static str = "1 transaction: 80% read 1 or 2 rows; 20% find 1 to 3, mostly by an index, and write 1 or 2";
    const SOURCE: &'static str =
        "TATP description, as FlatFlash (ASPLOS'19) runs it; Zipf keys are ours";
    /// One block and a page of the index.
    const MIN_BYTES: u64 = (PAGES_PER_BLOCK + 1) * PAGE_BYTES as u64;

    fn with_shape(shape: &Shape) -> TatpMix {
        let pages = shape.dataset_bytes / PAGE_BYTES as u64;
        // Each page of the index serves this many blocks; the last may serve fewer.
        let blocks = pages * BLOCKS_PER_INDEX_PAGE / (PAGES_PER_BLOCK * BLOCKS_PER_INDEX_PAGE + 1);
        let subscribers = blocks * ROWS_PER_PAGE;
        let size = PAGES_PER_BLOCK * blocks + NumberIndex::pages(subscribers);
        let checksums = Checksums::new(Kind::TatpMix as u64, size, shape.seed);
        let seed = mix(shape.seed);
        let index = PageId(PAGES_PER_BLOCK * blocks);
        TatpMix {
            tables: Tables {
                pages_per_table: blocks,
                facilities: PageId(blocks),
                population: Population { seed: shape.seed },
                checksums,
            },
            index: NumberIndex::new(index, subscribers, shape.scatter, mix(seed), checksums),
            ranks: Ranks::new(subscribers, shape.theta),
            places: Places::new(blocks, ROWS_PER_PAGE, shape.scatter, seed),
            work: shape.work_instructions,
        }
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl Workload for TatpMix {
    fn size_bytes(&self) -> u64 {
        let index = NumberIndex::pages(self.subscribers());
        (PAGES_PER_BLOCK * self.tables.pages_per_table + index) * PAGE_BYTES as u64
    }

    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.image_lines(page, ALL_LINES, out);
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        assert!(page.start().0 < self.size_bytes(), "{page:?} of {}", self.size_bytes());
        let n = self.tables.pages_per_table;
        let Tables { population, checksums, .. } = self.tables;
        match page.0 / n {
            0 => fill_lines(out, lines, |line| self.tables.image_of_subscribers(page.0, line)),
            1 => fill_lines(out, lines, |line| self.tables.image_of_facilities(page.0 - n, line)),
            2 => fill_lines(out, lines, |line| {
                let row = |s_id, ai_type| population.access_info(s_id, ai_type);
                image_of_half_lines(checksums, self.access(), (page.0 - 2 * n, line), row)
            }),
            3 | 4 => fill_lines(out, lines, |line| self.image_of_forwardings(page.0 - 3 * n, line)),
            _ => {
                fill_lines(out, lines, |line| self.index.image(page.0 - PAGES_PER_BLOCK * n, line))
            }
        }
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        let transaction = self.job(job);
        let Some(s_id) = self.find_subscriber(memory, &transaction)? else {
            return Err(Corrupt(format!("{transaction:?} finds no subscriber")));
        };
        let needs = self.needs(&transaction, s_id);
        let parts = 1 + needs.iter().flatten().count() as u64;
        for (part, &at) in (0..).zip(needs.iter().flatten()) {
            memory.work(share(self.work, part, parts));
            let _row: u64 = memory.load(at);
        }
        memory.work(share(self.work, parts - 1, parts));
        self.execute_for(memory, s_id, &transaction).map(|_| ())
    }

    fn writes(&self) -> bool {
        true
    }

    fn commits(&self) -> bool {
        true
    }
}
