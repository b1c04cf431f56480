//! The two tables that both TATP programs have, and the transaction that both run on them.
//!
//! A subscriber has two lines: the columns that transactions change, with a latch, and the others.
//! Its four possible special facilities are rows of 32 bytes, side by side on two lines of another
//! page. `s_id` is dense, so addresses are computed and there is no primary index.
//!
//! Both rows count the transactions that changed them, and the subscriber's has a count for each
//! type. If half of a transaction is lost with an outdated page, the counts differ.

use bytemuck::Pod;
use ebbtide_core::{Addr, FullMemory, LINE_BYTES, PAGE_BYTES, PageId};
use ebbtide_structures::latch;

use super::rows::{Facility, Population, Subscriber, SubscriberRest};
use super::transaction::UpdateSubscriberData;
use crate::Corrupt;
use ebbtide_structures::checksum::{Checksums, mismatch};
use ebbtide_structures::image::Line;

/// Bytes in a subscriber's row, and in its special facilities, and in its access information.
pub(super) const ROW_BYTES: u64 = 128;
pub(super) const ROWS_PER_PAGE: u64 = PAGE_BYTES as u64 / ROW_BYTES;
/// Bytes in the row of one facility or one access type.
const HALF_LINE_BYTES: u64 = 32;

/// Subscribers from page 0, and special facilities.
#[derive(Debug, Clone)]
pub(super) struct Tables {
    pub pages_per_table: u64,
    /// The first page of special facilities.
    pub facilities: PageId,
    pub population: Population,
    pub checksums: Checksums,
}

impl Tables {
    pub(super) fn subscribers(&self) -> u64 {
        self.pages_per_table * ROWS_PER_PAGE
    }

    /// Whether there is such a subscriber, and such a type of facility or access.
    pub(super) fn may_exist(&self, s_id: u64, of_type: u64) -> bool {
        (1..=self.subscribers()).contains(&s_id) && (1..=4).contains(&of_type)
    }

    /// UPDATE_SUBSCRIBER_DATA for arguments in range. The caller holds the subscriber's latch.
    /// Returns the rows it read if it changed them.
    pub(super) fn apply<M: FullMemory>(
        &self,
        memory: &mut M,
        update: UpdateSubscriberData,
    ) -> Result<Option<(Subscriber, Facility)>, Corrupt> {
        let UpdateSubscriberData { s_id, sf_type, bit_1, data_a } = update;
        let found @ (subscriber, facility) =
            (self.read_subscriber(memory, s_id)?, self.read_facility(memory, s_id, sf_type)?);
        agree(&subscriber, &facility)?;
        if facility.exists == 0 {
            return Ok(None);
        }
        let commits = facility.commits.wrapping_add(1);
        let mut changed = subscriber;
        changed.commits[sf_type as usize - 1] = commits;
        changed.set_bit_1(bit_1);
        self.store_subscriber(memory, changed);
        let at = self.facility_address(s_id, sf_type);
        let changed = Facility { data_a, commits, ..facility };
        memory.store(at, close_half_line(self.checksums, at, changed));
        Ok(Some(found))
    }

    /// Reads rows of subscriber `s_id` while other jobs may write them. Reads once if they match
    /// their checksums. Otherwise reads under the latch, to distinguish a torn row from a wrong
    /// one.
    pub(super) fn settled<M: FullMemory, R>(
        &self,
        memory: &mut M,
        s_id: u64,
        mut read: impl FnMut(&mut M) -> Result<R, Corrupt>,
    ) -> Result<R, Corrupt> {
        match read(memory) {
            Ok(found) => Ok(found),
            Err(_) => latch::read(memory, self.subscriber_address(s_id), read),
        }
    }

    pub(super) fn read_subscriber<M: FullMemory>(
        &self,
        memory: &mut M,
        s_id: u64,
    ) -> Result<Subscriber, Corrupt> {
        let at = self.subscriber_address(s_id);
        self.checksums.read_latched(memory, at)
    }

    pub(super) fn read_subscriber_rest<M: FullMemory>(
        &self,
        memory: &mut M,
        s_id: u64,
    ) -> Result<SubscriberRest, Corrupt> {
        let at = self.subscriber_address(s_id) + LINE_BYTES as u64;
        self.checksums.read_latched(memory, at)
    }

    pub(super) fn store_subscriber<M: FullMemory>(&self, memory: &mut M, subscriber: Subscriber) {
        let at = self.subscriber_address(subscriber.s_id);
        self.checksums.write_latched(memory, at, subscriber);
    }

    pub(super) fn read_facility<M: FullMemory>(
        &self,
        memory: &mut M,
        s_id: u64,
        sf_type: u64,
    ) -> Result<Facility, Corrupt> {
        let at = self.facility_address(s_id, sf_type);
        open_half_line(self.checksums, at, memory.load(at))
    }

    /// The subscriber's first line, and its latch.
    #[inline]
    pub(super) fn subscriber_address(&self, s_id: u64) -> Addr {
        Addr((s_id - 1) * ROW_BYTES)
    }

    #[inline]
    pub(super) fn facility_address(&self, s_id: u64, sf_type: u64) -> Addr {
        half_line(self.facilities, s_id, sf_type)
    }

    /// Line `line` of page `page` of the subscriber table.
    pub(super) fn image_of_subscribers(&self, page: u64, line: u64) -> Line {
        let s_id = s_id_at(page, line);
        let at = self.subscriber_address(s_id);
        if line.is_multiple_of(2) {
            self.checksums.line(at, self.population.subscriber(s_id))
        } else {
            self.checksums.line(at + LINE_BYTES as u64, self.population.subscriber_rest(s_id))
        }
    }

    /// Line `line` of page `page` of the special-facility table.
    pub(super) fn image_of_facilities(&self, page: u64, line: u64) -> Line {
        image_of_half_lines(self.checksums, self.facilities, (page, line), |s_id, sf_type| {
            self.population.facility(s_id, sf_type)
        })
    }
}

/// Checks that a subscriber's rows have the same counts.
pub(super) fn agree(subscriber: &Subscriber, facility: &Facility) -> Result<(), Corrupt> {
    match subscriber.commits[usize::from(facility.sf_type) - 1] == facility.commits {
        true => Ok(()),
        false => Err(half(subscriber.s_id)),
    }
}

#[cold]
pub(super) fn half(s_id: u64) -> Corrupt {
    Corrupt(format!("subscriber {s_id} and its other rows disagree on the transactions they saw"))
}

/// The subscriber whose rows lie on this line of a table of [`ROW_BYTES`] a subscriber.
fn s_id_at(page: u64, line: u64) -> u64 {
    page * ROWS_PER_PAGE + line / 2 + 1
}

/// The address of the row of type `of_type` in a table of four half lines a subscriber.
#[inline]
pub(super) fn half_line(table: PageId, s_id: u64, of_type: u64) -> Addr {
    table.start() + (s_id - 1) * ROW_BYTES + (of_type - 1) * HALF_LINE_BYTES
}

/// The row in a half line that was read at `at`.
#[inline]
pub(super) fn open_half_line<T: Pod>(
    checksums: Checksums,
    at: Addr,
    words: [u64; 4],
) -> Result<T, Corrupt> {
    let [a, b, c, checksum] = words;
    if checksums.of(at, &[a, b, c]) != checksum {
        return Err(mismatch(at));
    }
    Ok(bytemuck::cast([a, b, c]))
}

/// `row` with its checksum, as it is stored at `at`.
#[inline]
pub(super) fn close_half_line<T: Pod>(checksums: Checksums, at: Addr, row: T) -> [u64; 4] {
    let words: [u64; 3] = bytemuck::cast(row);
    let [a, b, c] = words;
    [a, b, c, checksums.of(at, &words)]
}

/// The line `line` of the page `page` of a table of four half lines a subscriber.
pub(super) fn image_of_half_lines<T: Pod>(
    checksums: Checksums,
    table: PageId,
    (page, line): (u64, u64),
    row: impl Fn(u64, u64) -> T,
) -> Line {
    let s_id = s_id_at(page, line);
    let two: [[u64; 4]; 2] = std::array::from_fn(|i| {
        let of_type = line % 2 * 2 + i as u64 + 1;
        close_half_line(checksums, half_line(table, s_id, of_type), row(s_id, of_type))
    });
    bytemuck::cast(two)
}
