//! The arguments and the results of the seven transactions.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::rows::{AccessData, Before, Digits, SubscriberRow};

/// One of TATP's transactions with its arguments (TATP benchmark description, §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transaction {
    /// Reads a subscriber's row.
    GetSubscriberData {
        /// The subscriber, from 1.
        s_id: u64,
    },
    /// Reads the destinations of forwarded calls. These are the numbers of a facility's call
    /// forwardings that start at or before `start_time` and end after `end_time`, if the facility
    /// is active.
    GetNewDestination {
        /// The subscriber, from 1.
        s_id: u64,
        /// The facility's type, 1 to 4.
        sf_type: u64,
        /// An hour: 0, 8 or 16.
        start_time: u8,
        /// An hour, 1 to 24.
        end_time: u8,
    },
    /// Reads an access-information row.
    GetAccessData {
        /// The subscriber, from 1.
        s_id: u64,
        /// The type of access, 1 to 4.
        ai_type: u64,
    },
    /// Sets a column of a subscriber and one of a facility.
    UpdateSubscriberData(UpdateSubscriberData),
    /// Sets a subscriber's location.
    UpdateLocation {
        /// The subscriber's number.
        sub_nbr: Digits,
        /// The new `subscriber.vlr_location`.
        vlr_location: u32,
    },
    /// Adds a call forwarding, if there is such a facility and no such row yet.
    InsertCallForwarding {
        /// The subscriber's number.
        sub_nbr: Digits,
        /// The facility's type, 1 to 4.
        sf_type: u64,
        /// An hour: 0, 8 or 16.
        start_time: u8,
        /// An hour, 1 to 24.
        end_time: u8,
        /// The destination.
        numberx: Digits,
    },
    /// Removes a call forwarding.
    DeleteCallForwarding {
        /// The subscriber's number.
        sub_nbr: Digits,
        /// The facility's type, 1 to 4.
        sf_type: u64,
        /// An hour: 0, 8 or 16.
        start_time: u8,
    },
}

/// The arguments of one UPDATE_SUBSCRIBER_DATA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UpdateSubscriberData {
    /// The subscriber, from 1.
    pub s_id: u64,
    /// The facility's type, 1 to 4.
    pub sf_type: u64,
    /// The new `subscriber.bit_1`.
    pub bit_1: bool,
    /// The new `special_facility.data_a`.
    pub data_a: u8,
}

impl UpdateSubscriberData {
    /// Random arguments for subscriber `s_id`.
    #[inline]
    pub(super) fn draw(s_id: u64, rng: &mut Pcg64Mcg) -> UpdateSubscriberData {
        let bits: u64 = rng.random();
        UpdateSubscriberData {
            s_id,
            sf_type: bits % 4 + 1,
            bit_1: bits >> 8 & 1 == 1,
            data_a: (bits >> 16) as u8,
        }
    }
}

impl Transaction {
    /// A random transaction of the standard mix for subscriber `s_id`, with uniform arguments.
    ///
    /// 35% get subscriber data, 10% a new destination, 35% access data; 2% update subscriber data,
    /// 14% a location; 2% insert and 2% delete a call forwarding.
    #[inline]
    pub(super) fn draw(s_id: u64, rng: &mut Pcg64Mcg) -> Transaction {
        let of_a_hundred = rng.random_range(0..100);
        let of_type = rng.random_range(1..=4);
        let start_time = 8 * rng.random_range(0..3);
        let end_time = rng.random_range(1..=24);
        let sub_nbr = Digits::new(s_id);
        match of_a_hundred {
            0..35 => Transaction::GetSubscriberData { s_id },
            35..45 => {
                Transaction::GetNewDestination { s_id, sf_type: of_type, start_time, end_time }
            }
            45..80 => Transaction::GetAccessData { s_id, ai_type: of_type },
            80..82 => Transaction::UpdateSubscriberData(UpdateSubscriberData::draw(s_id, rng)),
            82..96 => Transaction::UpdateLocation { sub_nbr, vlr_location: rng.random() },
            96..98 => Transaction::InsertCallForwarding {
                sub_nbr,
                sf_type: of_type,
                start_time,
                end_time,
                numberx: Digits::new(rng.random()),
            },
            _ => Transaction::DeleteCallForwarding { sub_nbr, sf_type: of_type, start_time },
        }
    }

    /// Its subscriber, and its type of facility or access (1 if it has none).
    pub(super) fn about(&self) -> (By, u64) {
        match *self {
            Transaction::GetSubscriberData { s_id } => (By::Id(s_id), 1),
            Transaction::GetNewDestination { s_id, sf_type, .. } => (By::Id(s_id), sf_type),
            Transaction::GetAccessData { s_id, ai_type } => (By::Id(s_id), ai_type),
            Transaction::UpdateSubscriberData(update) => (By::Id(update.s_id), update.sf_type),
            Transaction::UpdateLocation { sub_nbr, .. } => (By::Number(sub_nbr), 1),
            Transaction::InsertCallForwarding { sub_nbr, sf_type, .. }
            | Transaction::DeleteCallForwarding { sub_nbr, sf_type, .. } => {
                (By::Number(sub_nbr), sf_type)
            }
        }
    }

    /// Whether it may change a row.
    pub fn writes(&self) -> bool {
        !matches!(
            self,
            Transaction::GetSubscriberData { .. }
                | Transaction::GetNewDestination { .. }
                | Transaction::GetAccessData { .. }
        )
    }
}

/// The key of a subscriber.
pub(super) enum By {
    Id(u64),
    Number(Digits),
}

/// The result of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The subscriber's row.
    Subscriber(SubscriberRow),
    /// The destinations of calls for start_time 0, 8 and 16, of which at least one exists.
    Destinations([Option<Digits>; 3]),
    /// The access-information row.
    Access(AccessData),
    /// It changed its rows. These are their previous contents.
    Changed(Before),
    /// The row does not exist or, for an insertion, exists already or has no facility. Nothing
    /// changed. About a third of the mix ends so, as TATP intends.
    NoRow,
}
