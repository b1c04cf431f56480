//! Commands that wait for an element of a list or a sorted set, or an entry of a stream.
//!
//! Such a command runs like any other. If it finds nothing, its client waits in
//! [`Waiting`](crate::waiting::Waiting). The service runs the same command again when a key changes
//! or the time is over.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Kind, Score};

use super::lists::{self, End};
use super::removing::Several;
use super::sorted_sets;
use super::{Call, Failure, Outcome, Stop};
use crate::number;
use crate::session::{Blocked, Session};
use crate::state::State;
use crate::waiting::Use;

const NOT_TIME: &str = "ERR timeout is not a float or out of range";

/// The longest timeout in milliseconds.
const TIMEOUT_MS_MAX: f64 = 9.0e15;

/// The null that replies when nothing came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Null {
    Array,
    /// As of a command that moves an element. When the time is over it is an array all the same.
    Value,
}

/// Parses a timeout in seconds. Returns milliseconds; `None` for no end.
fn timeout<M: FullMemory>(call: &Call<'_, M>, index: usize) -> Result<Option<u64>, Failure> {
    let seconds = number::float(call.arguments[index]).ok_or(NOT_TIME)?;
    if seconds < 0.0 {
        return Err("ERR timeout is negative".into());
    }
    let ms = (seconds * 1000.0).ceil();
    if ms > TIMEOUT_MS_MAX {
        return Err(NOT_TIME.into());
    }
    Ok((ms > 0.0).then_some(ms as u64))
}

/// What a command waits for.
pub(super) struct Waits<'a> {
    pub(super) keys: &'a [&'a [u8]],
    /// Milliseconds from now; `None` for no end.
    pub(super) timeout_ms: Option<u64>,
}

/// Runs `attempt`, which returns false if it has found nothing and written no reply. Then waits for
/// an element of the keys, and runs the command again.
fn wait<M: FullMemory>(
    call: &mut Call<'_, M>,
    keys: &[&[u8]],
    timeout_ms: Option<u64>,
    null: Null,
    attempt: impl FnOnce(&mut Call<'_, M>) -> Result<bool, Stop>,
) -> Outcome {
    let again = call.arguments.iter().map(|word| word.to_vec());
    wait_then(call, Waits { keys, timeout_ms }, (again, Use::Takes(None)), null, attempt)
}

/// As [`wait`], for the entries of streams. Then runs the command `again`.
pub(super) fn wait_for_entries<M: FullMemory>(
    call: &mut Call<'_, M>,
    waits: Waits<'_>,
    (again, of): (Vec<Vec<u8>>, Use),
    attempt: impl FnOnce(&mut Call<'_, M>) -> Result<bool, Stop>,
) -> Outcome {
    wait_then(call, waits, (again.into_iter(), of), Null::Array, attempt)
}

/// Runs `attempt`. If it finds nothing, waits, and then runs the command `again`.
fn wait_then<M: FullMemory>(
    call: &mut Call<'_, M>,
    Waits { keys, timeout_ms }: Waits<'_>,
    (again, of): (impl Iterator<Item = Vec<u8>>, Use),
    null: Null,
    attempt: impl FnOnce(&mut Call<'_, M>) -> Result<bool, Stop>,
) -> Outcome {
    // The command may run more than once in its transaction.
    let earlier = call.session.blocked.take();
    let found = attempt(call);
    if !matches!(found, Ok(false)) {
        if let Some(earlier) = earlier {
            stop_waiting(call.state, call.session, &earlier);
        }
        return found.map(drop);
    }
    if call.session.published.is_some() {
        match null {
            Null::Array => call.reply.null_array(),
            Null::Value => call.reply.null(),
        }
        return Ok(());
    }
    let now_ms = call.state.now_ms.get();
    let deadline_ms = match call.session.resumed {
        Some(deadline_ms) => deadline_ms,
        None => timeout_ms.map(|ms| now_ms + ms),
    };
    if deadline_ms.is_some_and(|deadline| deadline <= now_ms) {
        call.reply.null_array();
        return Ok(());
    }
    let blocked = Blocked {
        words: again.collect(),
        database: call.session.database,
        keys: keys.iter().map(|key| key.to_vec()).collect(),
        deadline_ms,
        ..Blocked::default()
    };
    let waiter = (call.session.id, call.state.core);
    call.state.shared.waiting.enter(waiter, blocked.database, &blocked.keys, &of);
    call.session.blocked = Some(Box::new(blocked));
    Ok(())
}

pub(super) fn blpop<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    pop_list(call, End::Left)
}

pub(super) fn brpop<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    pop_list(call, End::Right)
}

fn pop_list<M: FullMemory>(call: &mut Call<'_, M>, end: End) -> Outcome {
    let last = call.arguments.len() - 1;
    let (timeout_ms, keys) = (timeout(call, last)?, &call.arguments[1..last]);
    wait(call, keys, timeout_ms, Null::Array, |call| {
        for key in keys {
            if call.awaited_length(key, Kind::List)? > 0 {
                call.reply.array(2);
                call.reply.bulk(key);
                lists::pop(call, key, end, 1)?;
                return Ok(true);
            }
        }
        Ok(false)
    })
}

pub(super) fn blmpop<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let timeout_ms = timeout(call, 1)?;
    let Several { keys, end, count } = lists::several(call, 2)?;
    wait(call, keys, timeout_ms, Null::Array, |call| lists::pop_first(call, keys, end, count))
}

pub(super) fn blmove<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let ends = (End::parse(call, 3)?, End::parse(call, 4)?);
    let timeout_ms = timeout(call, 5)?;
    wait(call, &call.arguments[1..2], timeout_ms, Null::Value, |call| lists::move_one(call, ends))
}

pub(super) fn brpoplpush<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let timeout_ms = timeout(call, 3)?;
    let ends = (End::Right, End::Left);
    wait(call, &call.arguments[1..2], timeout_ms, Null::Value, |call| lists::move_one(call, ends))
}

pub(super) fn bzpopmin<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    pop_member(call, sorted_sets::End::Least)
}

pub(super) fn bzpopmax<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    pop_member(call, sorted_sets::End::Greatest)
}

fn pop_member<M: FullMemory>(call: &mut Call<'_, M>, end: sorted_sets::End) -> Outcome {
    let last = call.arguments.len() - 1;
    let (timeout_ms, keys) = (timeout(call, last)?, &call.arguments[1..last]);
    wait(call, keys, timeout_ms, Null::Array, |call| {
        for key in keys {
            if call.awaited_length(key, Kind::SortedSet)? > 0 {
                call.reply.array(3);
                call.reply.bulk(key);
                sorted_sets::pop(call, key, end, 1, |call, element| {
                    let (score, member) = Score::split(element);
                    call.reply.bulk(member);
                    call.reply.double(score);
                })?;
                return Ok(true);
            }
        }
        Ok(false)
    })
}

pub(super) fn bzmpop<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let timeout_ms = timeout(call, 1)?;
    let Several { keys, end, count } = sorted_sets::several(call, 2)?;
    wait(call, keys, timeout_ms, Null::Array, |call| sorted_sets::pop_first(call, keys, end, count))
}

/// Ends the waiting of a client for a pause or for these keys, and wakes the clients behind it.
pub fn stop_waiting(state: &State, session: &Session, by: &Blocked) {
    if by.is_postponed {
        state.shared.pause.leave((session.id, state.core));
    }
    for waiter in state.shared.waiting.leave(session.id, by.database, &by.keys) {
        state.wake(waiter);
    }
}
