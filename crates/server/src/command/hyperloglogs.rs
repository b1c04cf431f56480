//! Commands that estimate how many different elements were added.

use ebbtide_core::FullMemory;

use super::{Call, Failure, Outcome, Stop};
use crate::hyperloglog::{Corrupt, HyperLogLog, Registers};

const OTHER_STRING: &str = "WRONGTYPE Key is not a valid HyperLogLog string value.";

impl From<Corrupt> for Failure {
    fn from(_: Corrupt) -> Failure {
        "INVALIDOBJ Corrupted HLL object detected".into()
    }
}

/// Returns the value of the key at `index`, if there is one, and its expiry.
fn find<M: FullMemory>(
    call: &mut Call<'_, M>,
    index: usize,
) -> Result<Option<(HyperLogLog, Option<u64>)>, Stop> {
    let key = call.key(index);
    let Some((value, entry)) = call.small_value(&key, OTHER_STRING)? else { return Ok(None) };
    let found = HyperLogLog::parse(value).ok_or(OTHER_STRING)?;
    Ok(Some((found, entry.expires_at_ms)))
}

pub(super) fn pfadd<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let found = find(call, 1)?;
    let mut changed = found.is_none();
    let (mut value, expires_at_ms) = found.unwrap_or_default();
    for element in &call.arguments[2..] {
        changed |= value.add(element)?;
    }
    if changed {
        value.forget_count();
        let key = call.key(1);
        call.set(&key, value.bytes(), expires_at_ms)?;
    }
    call.reply.integer(changed.into());
    Ok(())
}

/// Unlike Redis, it does not store the count in the value.
pub(super) fn pfcount<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let count = match call.arguments.len() {
        2 => find(call, 1)?.map_or(Ok(0), |(value, _)| value.count())?,
        _ => {
            let mut registers = Registers::default();
            merge(call, 1, &mut registers)?;
            registers.count()
        }
    };
    call.reply.integer(count as i64);
    Ok(())
}

/// Raises the registers to those of the keys from argument `from` on. Returns true if one is dense.
fn merge<M: FullMemory>(
    call: &mut Call<'_, M>,
    from: usize,
    registers: &mut Registers,
) -> Result<bool, Stop> {
    let mut dense = false;
    for index in from..call.arguments.len() {
        call.pace(index, 1)?;
        if let Some((value, _)) = find(call, index)? {
            registers.merge(&value)?;
            dense |= value.is_dense();
        }
    }
    Ok(dense)
}

pub(super) fn pfmerge<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (mut value, expires_at_ms) = find(call, 1)?.unwrap_or_default();
    let mut registers = Registers::default();
    registers.merge(&value)?;
    if merge(call, 2, &mut registers)? {
        value.make_dense()?;
    }
    for (index, rank) in registers.raised() {
        value.raise(index, rank)?;
    }
    value.forget_count();
    let key = call.key(1);
    call.set(&key, value.bytes(), expires_at_ms)?;
    call.reply.ok();
    Ok(())
}
