//! The seven transactions on the tables of [`TatpMix`].

use ebbtide_core::FullMemory;
use ebbtide_structures::latch;

use crate::commit::commit;

use super::mix::TatpMix;
use super::rows::{Digits, Forwarding, Subscriber};
use super::tables::half;
use super::transaction::{By, Outcome, Transaction};
use crate::Corrupt;

impl TatpMix {
    /// Runs `transaction` in one atomic step.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row. Nothing is then stored.
    pub fn execute<M: FullMemory>(
        &self,
        memory: &mut M,
        transaction: &Transaction,
    ) -> Result<Outcome, Corrupt> {
        match self.find_subscriber(memory, transaction)? {
            Some(s_id) => self.execute_for(memory, s_id, transaction),
            None => Ok(Outcome::NoRow),
        }
    }

    /// Runs `transaction`. If it writes, the caller holds the subscriber's latch.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads an invalid row. Nothing is then stored.
    pub fn apply<M: FullMemory>(
        &self,
        memory: &mut M,
        transaction: &Transaction,
    ) -> Result<Outcome, Corrupt> {
        match self.find_subscriber(memory, transaction)? {
            Some(s_id) => self.apply_for(memory, s_id, transaction),
            None => Ok(Outcome::NoRow),
        }
    }

    /// The subscriber of `transaction`, from its arguments or from the index. `None` if its
    /// arguments are out of range.
    pub(super) fn find_subscriber<M: FullMemory>(
        &self,
        memory: &mut M,
        transaction: &Transaction,
    ) -> Result<Option<u64>, Corrupt> {
        let (subscriber, row_type) = transaction.about();
        let s_id = match subscriber {
            By::Id(s_id) => Some(s_id),
            By::Number(sub_nbr) => self.index.find(memory, sub_nbr)?,
        };
        Ok(s_id.filter(|&s_id| self.tables.may_exist(s_id, row_type)))
    }

    /// [`execute`](TatpMix::execute) for subscriber `s_id`.
    pub(super) fn execute_for<M: FullMemory>(
        &self,
        memory: &mut M,
        s_id: u64,
        transaction: &Transaction,
    ) -> Result<Outcome, Corrupt> {
        if !transaction.writes() {
            return self.apply_for(memory, s_id, transaction);
        }
        let latch = self.tables.subscriber_address(s_id);
        commit(memory, |memory| {
            latch::write(memory, latch, |memory| self.apply_for(memory, s_id, transaction))
        })
    }

    /// [`apply`](TatpMix::apply) for subscriber `s_id`.
    fn apply_for<M: FullMemory>(
        &self,
        memory: &mut M,
        s_id: u64,
        transaction: &Transaction,
    ) -> Result<Outcome, Corrupt> {
        let found = match *transaction {
            Transaction::GetSubscriberData { .. } => return self.subscriber_data(memory, s_id),
            Transaction::GetNewDestination { sf_type, start_time, end_time, .. } => {
                return self.new_destination(memory, (s_id, sf_type), start_time, end_time);
            }
            Transaction::GetAccessData { ai_type, .. } => {
                return self.access_data(memory, s_id, ai_type);
            }
            Transaction::UpdateSubscriberData(update) => {
                self.tables.apply(memory, update)?.map(|(subscriber, _)| subscriber)
            }
            Transaction::UpdateLocation { sub_nbr, vlr_location } => {
                let subscriber = self.subscriber_called(memory, s_id, sub_nbr)?;
                self.tables.store_subscriber(memory, Subscriber { vlr_location, ..subscriber });
                Some(subscriber)
            }
            Transaction::InsertCallForwarding {
                sub_nbr,
                sf_type,
                start_time,
                end_time,
                numberx,
            } => {
                let row = Forwarding { numberx, end_time };
                self.insert(memory, (s_id, sub_nbr), sf_type, start_time, row)?
            }
            Transaction::DeleteCallForwarding { sub_nbr, sf_type, start_time } => {
                self.replace(memory, (s_id, sub_nbr), sf_type, start_time, |row| {
                    row.exists().then_some(Forwarding::NONE)
                })?
            }
        };
        Ok(found.map_or(Outcome::NoRow, |subscriber| Outcome::Changed(subscriber.before())))
    }

    fn subscriber_data<M: FullMemory>(
        &self,
        memory: &mut M,
        s_id: u64,
    ) -> Result<Outcome, Corrupt> {
        let (row, rest) = self.tables.settled(memory, s_id, |memory| {
            let row = self.tables.read_subscriber(memory, s_id)?;
            Ok((row, self.tables.read_subscriber_rest(memory, s_id)?))
        })?;
        Ok(Outcome::Subscriber(row.row(&rest)))
    }

    fn new_destination<M: FullMemory>(
        &self,
        memory: &mut M,
        (s_id, sf_type): (u64, u64),
        start_time: u8,
        end_time: u8,
    ) -> Result<Outcome, Corrupt> {
        let tables = &self.tables;
        let facility = tables.settled(memory, s_id, |m| tables.read_facility(m, s_id, sf_type))?;
        if facility.exists == 0 || facility.is_active == 0 {
            return Ok(Outcome::NoRow);
        }
        let forwardings =
            tables.settled(memory, s_id, |m| self.read_forwardings(m, s_id, sf_type))?;
        let numbers: [Option<Digits>; 3] = std::array::from_fn(|i| {
            let row = forwardings.rows[i];
            let fits = 8 * i <= usize::from(start_time) && end_time < row.end_time;
            (row.exists() && fits).then_some(row.numberx)
        });
        match numbers {
            [None, None, None] => Ok(Outcome::NoRow),
            _ => Ok(Outcome::Destinations(numbers)),
        }
    }

    fn access_data<M: FullMemory>(
        &self,
        memory: &mut M,
        s_id: u64,
        ai_type: u64,
    ) -> Result<Outcome, Corrupt> {
        let row = self.read_access(memory, s_id, ai_type)?;
        Ok(row.data().map_or(Outcome::NoRow, Outcome::Access))
    }

    /// Adds a call forwarding, unless there is one or no facility for it.
    fn insert<M: FullMemory>(
        &self,
        memory: &mut M,
        subscriber: (u64, Digits),
        sf_type: u64,
        start_time: u8,
        new: Forwarding,
    ) -> Result<Option<Subscriber>, Corrupt> {
        let facility = self.tables.read_facility(memory, subscriber.0, sf_type)?;
        if facility.exists == 0 || !(1..=24).contains(&new.end_time) {
            return Ok(None);
        }
        self.replace(memory, subscriber, sf_type, start_time, |row| (!row.exists()).then_some(new))
    }

    /// Replaces a call forwarding by `new` of it, unless that is `None`. Returns the subscriber it
    /// read if it replaced it.
    fn replace<M: FullMemory>(
        &self,
        memory: &mut M,
        (s_id, sub_nbr): (u64, Digits),
        sf_type: u64,
        start_time: u8,
        new: impl FnOnce(Forwarding) -> Option<Forwarding>,
    ) -> Result<Option<Subscriber>, Corrupt> {
        let subscriber = self.subscriber_called(memory, s_id, sub_nbr)?;
        let mut forwardings = self.read_forwardings(memory, s_id, sf_type)?;
        if subscriber.forwarding_commits_of(sf_type) != forwardings.commits {
            return Err(half(s_id));
        }
        let row = [0, 8, 16].iter().position(|&time| time == start_time);
        let Some(row) = row.map(|row| &mut forwardings.rows[row]) else {
            return Ok(None);
        };
        let Some(new) = new(*row) else {
            return Ok(None);
        };
        *row = new;
        forwardings.commits = (forwardings.commits + 1) % 16;
        let mut changed = subscriber;
        changed.set_forwarding_commits(sf_type, forwardings.commits);
        self.tables.store_subscriber(memory, changed);
        self.store_forwardings(memory, s_id, forwardings);
        Ok(Some(subscriber))
    }

    /// The row of subscriber `s_id`, which the index has for `sub_nbr`.
    fn subscriber_called<M: FullMemory>(
        &self,
        memory: &mut M,
        s_id: u64,
        sub_nbr: Digits,
    ) -> Result<Subscriber, Corrupt> {
        let subscriber = self.tables.read_subscriber(memory, s_id)?;
        match subscriber.sub_nbr == sub_nbr {
            true => Ok(subscriber),
            false => {
                Err(Corrupt(format!("subscriber {s_id} does not have the number {sub_nbr:?}")))
            }
        }
    }
}
