//! [`Snapshot`]: all rows of a subscriber, read in one atomic step.

use ebbtide_core::FullMemory;
use ebbtide_structures::latch;

use super::mix::TatpMix;
use super::rows::{AccessData, Before, Digits, Facility, Forwarding, SubscriberRow};
use super::tables::{agree, half};
use crate::Corrupt;

/// All rows of a subscriber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshot {
    /// The subscriber's own row.
    pub row: SubscriberRow,
    /// The subscriber's access information by type, 1 to 4; `None` where there is no row.
    pub access: [Option<AccessData>; 4],
    /// The subscriber's special facilities by type, 1 to 4; `None` where there is no row.
    pub facilities: [Option<FacilityData>; 4],
    /// The contents that the next change would find.
    pub before: Before,
}

/// A special facility with its call forwardings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FacilityData {
    /// True if calls are forwarded.
    pub is_active: bool,
    /// A random number.
    pub error_cntrl: u8,
    /// A number that transactions change.
    pub data_a: u8,
    /// Letters.
    pub data_b: [u8; 5],
    /// For start_time 0, 8 and 16: the end time and the destination.
    pub forwardings: [Option<(u8, Digits)>; 3],
}

impl TatpMix {
    /// Reads all rows of a subscriber, also while other jobs write them. Returns `None` if there is
    /// no such subscriber.
    ///
    /// # Errors
    /// [`Corrupt`] if a row is invalid, or the rows disagree on the number of changes.
    pub fn snapshot<M: FullMemory>(
        &self,
        memory: &mut M,
        s_id: u64,
    ) -> Result<Option<Snapshot>, Corrupt> {
        if !self.tables.may_exist(s_id, 1) {
            return Ok(None);
        }
        let latch = self.tables.subscriber_address(s_id);
        latch::read(memory, latch, |memory| self.read_all(memory, s_id).map(Some))
    }

    fn read_all<M: FullMemory>(&self, memory: &mut M, s_id: u64) -> Result<Snapshot, Corrupt> {
        let subscriber = self.tables.read_subscriber(memory, s_id)?;
        let rest = self.tables.read_subscriber_rest(memory, s_id)?;
        let mut access = [None; 4];
        for (ai_type, access) in (1..).zip(&mut access) {
            *access = self.read_access(memory, s_id, ai_type)?.data();
        }
        let mut facilities = [None; 4];
        for (sf_type, data) in (1..).zip(&mut facilities) {
            let facility = self.tables.read_facility(memory, s_id, sf_type)?;
            agree(&subscriber, &facility)?;
            let forwardings = self.read_forwardings(memory, s_id, sf_type)?;
            if subscriber.forwarding_commits_of(sf_type) != forwardings.commits {
                return Err(half(s_id));
            }
            *data = facility.data(forwardings.rows);
        }
        Ok(Snapshot { row: subscriber.row(&rest), access, facilities, before: subscriber.before() })
    }
}

impl Facility {
    /// Its columns, if it exists, with its call forwardings.
    fn data(&self, forwardings: [Forwarding; 3]) -> Option<FacilityData> {
        (self.exists != 0).then_some(FacilityData {
            is_active: self.is_active != 0,
            error_cntrl: self.error_cntrl,
            data_a: self.data_a,
            data_b: self.data_b,
            forwardings: forwardings.map(|row| row.exists().then_some((row.end_time, row.numberx))),
        })
    }
}
