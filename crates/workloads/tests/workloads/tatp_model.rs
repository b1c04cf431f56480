//! TATP's transactions on a plain copy of a subscriber: the obvious model.

use ebbtide_workloads::tatp::{Digits, FacilityData, Outcome, Snapshot, Transaction};
use ebbtide_workloads::{Program, Scatter, TatpMix};

use crate::common::program;

pub fn tatp_mix(pages: u64) -> TatpMix {
    match program("tatp-mix", pages, Scatter::Pages) {
        Program::TatpMix(mix) => mix,
        _ => unreachable!(),
    }
}

/// The subscriber a transaction is about.
pub fn subscriber(transaction: &Transaction) -> u64 {
    match *transaction {
        Transaction::GetSubscriberData { s_id }
        | Transaction::GetNewDestination { s_id, .. }
        | Transaction::GetAccessData { s_id, .. } => s_id,
        Transaction::UpdateSubscriberData(update) => update.s_id,
        Transaction::UpdateLocation { sub_nbr, .. }
        | Transaction::InsertCallForwarding { sub_nbr, .. }
        | Transaction::DeleteCallForwarding { sub_nbr, .. } => sub_nbr.number().unwrap(),
    }
}

/// The same transaction, but about another subscriber.
pub fn about(subscriber: u64, mut transaction: Transaction) -> Transaction {
    match &mut transaction {
        Transaction::GetSubscriberData { s_id }
        | Transaction::GetNewDestination { s_id, .. }
        | Transaction::GetAccessData { s_id, .. } => *s_id = subscriber,
        Transaction::UpdateSubscriberData(update) => update.s_id = subscriber,
        Transaction::UpdateLocation { sub_nbr, .. }
        | Transaction::InsertCallForwarding { sub_nbr, .. }
        | Transaction::DeleteCallForwarding { sub_nbr, .. } => *sub_nbr = Digits::new(subscriber),
    }
    transaction
}

/// Runs a transaction on its subscriber.
pub fn serial(state: &mut Snapshot, transaction: &Transaction) -> Outcome {
    let before = state.before;
    let facilities = &mut state.facilities;
    let changed = match *transaction {
        Transaction::GetSubscriberData { .. } => return Outcome::Subscriber(state.row),
        Transaction::GetAccessData { ai_type, .. } => {
            return state.access[ai_type as usize - 1].map_or(Outcome::NoRow, Outcome::Access);
        }
        Transaction::GetNewDestination { sf_type, start_time, end_time, .. } => {
            let facility = facilities[sf_type as usize - 1].filter(|facility| facility.is_active);
            return facility.map_or(Outcome::NoRow, |f| destinations(&f, start_time, end_time));
        }
        Transaction::UpdateSubscriberData(update) => {
            match &mut facilities[update.sf_type as usize - 1] {
                Some(facility) => {
                    facility.data_a = update.data_a;
                    state.row.bits = state.row.bits & !1 | u16::from(update.bit_1);
                    state.before.bit_1 = update.bit_1;
                    state.before.commits[update.sf_type as usize - 1] += 1;
                    true
                }
                None => false,
            }
        }
        Transaction::UpdateLocation { vlr_location, .. } => {
            state.row.vlr_location = vlr_location;
            state.before.vlr_location = vlr_location;
            true
        }
        Transaction::InsertCallForwarding { sf_type, start_time, end_time, numberx, .. } => {
            let row = forwarding(facilities, sf_type, start_time).filter(|row| row.is_none());
            row.map(|row| *row = Some((end_time, numberx))).is_some()
        }
        Transaction::DeleteCallForwarding { sf_type, start_time, .. } => {
            let row = forwarding(facilities, sf_type, start_time);
            row.and_then(Option::take).is_some()
        }
    };
    if changed {
        count_forwarding(state, transaction);
        Outcome::Changed(before)
    } else {
        Outcome::NoRow
    }
}

fn destinations(facility: &FacilityData, start_time: u8, end_time: u8) -> Outcome {
    let mut numbers = [None; 3];
    for (from, (row, number)) in
        [0, 8, 16].into_iter().zip(facility.forwardings.iter().zip(&mut numbers))
    {
        *number = row
            .filter(|&(until, _)| from <= start_time && end_time < until)
            .map(|(_, numberx)| numberx);
    }
    if numbers == [None; 3] { Outcome::NoRow } else { Outcome::Destinations(numbers) }
}

fn forwarding(
    facilities: &mut [Option<FacilityData>; 4],
    sf_type: u64,
    start_time: u8,
) -> Option<&mut Option<(u8, Digits)>> {
    let facility = facilities[sf_type as usize - 1].as_mut()?;
    Some(&mut facility.forwardings[usize::from(start_time) / 8])
}

fn count_forwarding(state: &mut Snapshot, transaction: &Transaction) {
    if let Transaction::InsertCallForwarding { sf_type, .. }
    | Transaction::DeleteCallForwarding { sf_type, .. } = transaction
    {
        let shift = 4 * (sf_type - 1);
        let counts = &mut state.before.forwarding_commits;
        let count = *counts >> shift & 15;
        *counts = *counts & !(15 << shift) | ((count + 1) % 16) << shift;
    }
}
