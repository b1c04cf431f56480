//! Commands on sorted sets: scores of members, and removal of members.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Collection, Kind, MEMBER_BYTES_MAX, Score};

use super::removing::Several;
use super::{Call, Failure, NOT_FLOAT, Outcome, SYNTAX, Stop};
use crate::number;
use crate::protocol::Protocol;

const NOT_NUMBER: &str = "ERR resulting score is not a number (NaN)";

/// The options of `ZADD`.
#[derive(Clone, Copy, Default)]
pub(super) struct AddOptions {
    if_absent: bool,
    if_present: bool,
    if_greater: bool,
    if_less: bool,
    count_changed: bool,
    increment: bool,
}

impl AddOptions {
    /// Reads an option of one of these names. Returns false for another word.
    pub(super) fn read(&mut self, word: &[u8], names: &[&str]) -> bool {
        let name = names.iter().find(|name| word.eq_ignore_ascii_case(name.as_bytes()));
        let option = match name.copied() {
            Some("NX") => &mut self.if_absent,
            Some("XX") => &mut self.if_present,
            Some("GT") => &mut self.if_greater,
            Some("LT") => &mut self.if_less,
            Some("CH") => &mut self.count_changed,
            Some("INCR") => &mut self.increment,
            _ => return false,
        };
        *option = true;
        true
    }

    pub(super) fn check(&self, pairs: usize) -> Outcome {
        if self.if_absent && self.if_present {
            return Err("ERR XX and NX options at the same time are not compatible".into());
        }
        let compares = [self.if_greater, self.if_less, self.if_absent];
        if compares.iter().filter(|given| **given).count() > 1 {
            let text = "ERR GT, LT, and/or NX options at the same time are not compatible";
            return Err(text.into());
        }
        if self.increment && pairs > 1 {
            return Err("ERR INCR option supports a single increment-element pair".into());
        }
        Ok(())
    }
}

/// What `ZADD` has done with a member.
#[derive(Clone, Copy, PartialEq)]
enum Added {
    Nothing,
    Same(f64),
    Updated(f64),
    New(f64),
}

pub(super) fn zadd<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (mut options, mut index) = (AddOptions::default(), 2);
    let names = ["NX", "XX", "GT", "LT", "CH", "INCR"];
    while index < call.arguments.len() && options.read(call.arguments[index], &names) {
        index += 1;
    }
    let (pairs, odd) = call.arguments[index..].as_chunks::<2>();
    if !odd.is_empty() || pairs.is_empty() {
        return Err(SYNTAX.into());
    }
    options.check(pairs.len())?;
    let scores = pairs.iter().map(|[score, _]| number::float(score).ok_or(NOT_FLOAT));
    let scores: Vec<f64> = scores.collect::<Result<_, _>>()?;
    pairs.iter().try_for_each(|[_, member]| check_member(member))?;
    let key = call.key(1);
    if options.increment {
        let added = call.edit(&key, Kind::SortedSet, |call, set| {
            add(call, set, options, scores[0], pairs[0][1])
        })?;
        match added {
            Added::Nothing => call.reply.null(),
            Added::Same(score) | Added::Updated(score) | Added::New(score) => {
                call.reply.double(score);
            }
        }
        return Ok(());
    }
    let members: Vec<_> =
        scores.into_iter().zip(pairs).map(|(score, pair)| (score, pair[1])).collect();
    add_all(call, options, &members)
}

/// Adds members with scores to the sorted set of the first key, and replies with their number.
pub(super) fn add_all<M: FullMemory>(
    call: &mut Call<'_, M>,
    options: AddOptions,
    members: &[(f64, &[u8])],
) -> Outcome {
    let key = call.key(1);
    let added = call.edit_each(&key, Kind::SortedSet, members.len(), |call, set, index| {
        let (score, member) = members[index];
        Ok(match add(call, set, options, score, member)? {
            Added::New(_) => 1,
            Added::Updated(_) => options.count_changed.into(),
            Added::Nothing | Added::Same(_) => 0,
        })
    })?;
    call.reply.integer(added);
    Ok(())
}

/// Returns an error if a member is too long.
pub(super) fn check_member(member: &[u8]) -> Outcome {
    if member.len() > MEMBER_BYTES_MAX {
        let text = format!("ERR a member of a sorted set has at most {MEMBER_BYTES_MAX} bytes");
        return Err(text.into());
    }
    Ok(())
}

fn add<M: FullMemory>(
    call: &mut Call<'_, M>,
    set: &mut Collection,
    options: AddOptions,
    score: f64,
    member: &[u8],
) -> Result<Added, Stop> {
    let found = set.find_member(call.memory, member);
    let Some(old) = found.as_ref().map(|element| Score::split(element).0) else {
        if options.if_present {
            return Ok(Added::Nothing);
        }
        set.put_member(call.memory, None, Score::of(score), member)?;
        return Ok(Added::New(score));
    };
    if options.if_absent {
        return Ok(Added::Nothing);
    }
    let new = if options.increment { old + score } else { score };
    if new.is_nan() {
        return Err(NOT_NUMBER.into());
    }
    if options.if_less && new >= old || options.if_greater && new <= old {
        return Ok(Added::Nothing);
    }
    if new == old {
        return Ok(Added::Same(new));
    }
    set.put_member(call.memory, found, Score::of(new), member)?;
    Ok(Added::Updated(new))
}

/// Returns the score of a member.
pub(super) fn score_of<M: FullMemory>(
    call: &mut Call<'_, M>,
    set: &Collection,
    member: &[u8],
) -> Option<f64> {
    set.find_member(call.memory, member).map(|element| Score::split(&element).0)
}

pub(super) fn zincrby<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (key, member) = (call.key(1), call.arguments[3]);
    let by = number::float(call.arguments[2]).ok_or(NOT_FLOAT)?;
    check_member(member)?;
    let options = AddOptions { increment: true, ..AddOptions::default() };
    let added =
        call.edit(&key, Kind::SortedSet, |call, set| add(call, set, options, by, member))?;
    if let Added::Same(score) | Added::Updated(score) | Added::New(score) = added {
        call.reply.double(score);
    }
    Ok(())
}

pub(super) fn zrem<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (key, members) = (call.key(1), &call.arguments[2..]);
    let removed = call.edit_each(&key, Kind::SortedSet, members.len(), |call, set, index| {
        Ok(set.remove_member(call.memory, members[index]).into())
    })?;
    call.reply.integer(removed);
    Ok(())
}

pub(super) fn zcard<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let count = call.length(call.arguments[1], Kind::SortedSet)?;
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn zscore<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    let set = call.collection(&key, Kind::SortedSet)?;
    let score = set.and_then(|set| score_of(call, &set, call.arguments[2]));
    reply_score(call, score);
    Ok(())
}

pub(super) fn zmscore<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (key, members) = (call.key(1), &call.arguments[2..]);
    let set = call.collection(&key, Kind::SortedSet)?;
    call.visits(members.len() as u64)?;
    call.reply.array(members.len());
    for (index, member) in members.iter().enumerate() {
        let score = set.as_ref().and_then(|set| score_of(call, set, member));
        reply_score(call, score);
        if index % 64 == 63 {
            call.pause()?;
        }
    }
    Ok(())
}

fn reply_score<M: FullMemory>(call: &mut Call<'_, M>, score: Option<f64>) {
    match score {
        Some(score) => call.reply.double(score),
        None => call.reply.null(),
    }
}

pub(super) fn zrank<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    rank(call, false)
}

pub(super) fn zrevrank<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    rank(call, true)
}

fn rank<M: FullMemory>(call: &mut Call<'_, M>, reverse: bool) -> Outcome {
    let key = call.key(1);
    let set = call.collection(&key, Kind::SortedSet)?;
    let found = set.and_then(|set| {
        let element = set.find_member(call.memory, call.arguments[2])?;
        Some((set.rank_of(call.memory, &element), set.len(call.memory)))
    });
    match found {
        None => call.reply.null(),
        Some((rank, _)) if !reverse => call.reply.integer(rank as i64),
        Some((rank, count)) => call.reply.integer(count.saturating_sub(rank + 1) as i64),
    }
    Ok(())
}

pub(super) fn zscan<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    call.scan_elements(
        Kind::SortedSet,
        2,
        |element| Score::split(element).1,
        |call, element| {
            let (score, member) = Score::split(element);
            call.reply.bulk(member);
            call.reply.bulk(number::significant(score, 17).as_bytes());
        },
    )
}

pub(super) fn zrandmember<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    if call.arguments.len() == 2 {
        let key = call.key(1);
        let mut found = None;
        if let Some(set) = call.collection(&key, Kind::SortedSet)? {
            call.each_random(&set, 1, |_, element| {
                found = Some(Score::split(element).1.to_vec());
                Ok(())
            })?;
        }
        call.reply.bulk_or_null(found.as_deref());
        return Ok(());
    }
    let count = call.random_count()?;
    let with_scores = call.arguments.len() == 4 && call.is(3, "WITHSCORES");
    if call.arguments.len() > 4 || call.arguments.len() == 4 && !with_scores {
        return Err(SYNTAX.into());
    }
    if with_scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err("ERR value is out of range".into());
    }
    let key = call.key(1);
    let Some(set) = call.collection(&key, Kind::SortedSet)? else {
        call.reply.array(0);
        return Ok(());
    };
    let count = if count > 0 { count.min(set.len(call.memory) as i64) } else { count };
    call.visits(count.unsigned_abs())?;
    begin_elements(call, count.unsigned_abs(), with_scores);
    call.each_random(&set, count, |call, element| {
        reply_element(call, element, with_scores);
        Ok(())
    })
}

/// Begins a reply of elements. In RESP3 a member and its score are a pair.
pub(super) fn begin_elements<M: FullMemory>(call: &mut Call<'_, M>, count: u64, with_scores: bool) {
    let flat = with_scores && call.reply.protocol == Protocol::Two;
    call.reply.array(count as usize * (1 + usize::from(flat)));
}

pub(super) fn reply_element<M: FullMemory>(
    call: &mut Call<'_, M>,
    element: &[u8],
    with_scores: bool,
) {
    reply_member(call, Score::split(element), with_scores);
}

pub(super) fn reply_member<M: FullMemory>(
    call: &mut Call<'_, M>,
    (score, member): (f64, &[u8]),
    with_scores: bool,
) {
    if with_scores && call.reply.protocol == Protocol::Three {
        call.reply.array(2);
    }
    call.reply.bulk(member);
    if with_scores {
        call.reply.double(score);
    }
}

/// The end of a sorted set that a command pops from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Least,
    Greatest,
}

pub(super) fn zpopmin<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    pop_counted(call, End::Least)
}

pub(super) fn zpopmax<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    pop_counted(call, End::Greatest)
}

fn pop_counted<M: FullMemory>(call: &mut Call<'_, M>, end: End) -> Outcome {
    if call.arguments.len() > 3 {
        return Err(SYNTAX.into());
    }
    let (key, count) = (call.arguments[1], call.pop_count()?);
    let there = call.length(key, Kind::SortedSet)?.min(count.unwrap_or(1));
    let in_pairs = count.is_some() && call.reply.protocol == Protocol::Three;
    call.reply.array(there as usize * if in_pairs { 1 } else { 2 });
    pop(call, key, end, there, |call, element| {
        let (score, member) = Score::split(element);
        if in_pairs {
            call.reply.array(2);
        }
        call.reply.bulk(member);
        call.reply.double(score);
    })
}

/// Removes the member at a rank. Returns false if there is none.
pub(super) fn remove_at<M: FullMemory>(
    call: &mut Call<'_, M>,
    set: &mut Collection,
    rank: u64,
) -> bool {
    let Some(element) = set.at(call.memory, rank) else { return false };
    set.remove_member(call.memory, Score::split(&element).1);
    true
}

/// Calls `reply` with `count` members, which are there, and removes them. If the reply finds no
/// room, none is removed.
pub(super) fn pop<M: FullMemory>(
    call: &mut Call<'_, M>,
    key: &[u8],
    end: End,
    count: u64,
    mut reply: impl FnMut(&mut Call<'_, M>, &[u8]),
) -> Outcome {
    let key = call.keyspace().key(key);
    if let Some(set) = call.collection(&key, Kind::SortedSet)? {
        let each = |call: &mut Call<'_, M>, element: &[u8]| {
            reply(call, element);
            Ok(())
        };
        let last = set.len(call.memory) - count;
        match end {
            End::Least => call.each_element(&set, (0, count), each)?,
            End::Greatest => call.each_element_back(&set, (last, count), each)?,
        }
    }
    call.remove_each(&key, Kind::SortedSet, count, |call, set| {
        let last = set.len(call.memory).saturating_sub(1);
        remove_at(call, set, if end == End::Least { 0 } else { last })
    })
}

pub(super) fn zmpop<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let Several { keys, end, count } = several(call, 1)?;
    if !pop_first(call, keys, end, count)? {
        call.reply.null_array();
    }
    Ok(())
}

/// Parses the number of keys at `index`, the keys, `MIN` or `MAX`, and `COUNT`.
pub(super) fn several<'a, M: FullMemory>(
    call: &Call<'a, M>,
    index: usize,
) -> Result<Several<'a, End>, Failure> {
    Several::parse(call, index, |call, index| match call.arguments.get(index) {
        Some(_) if call.is(index, "MIN") => Ok(End::Least),
        Some(_) if call.is(index, "MAX") => Ok(End::Greatest),
        _ => Err(SYNTAX.into()),
    })
}

/// Pops from the first key that has members, and replies with its name and them. Returns false if
/// none has.
pub(super) fn pop_first<M: FullMemory>(
    call: &mut Call<'_, M>,
    keys: &[&[u8]],
    end: End,
    count: u64,
) -> Result<bool, Stop> {
    call.pop_first(keys, (Kind::SortedSet, count), |call, key, there| {
        pop(call, key, end, there, |call, element| {
            let (score, member) = Score::split(element);
            call.reply.array(2);
            call.reply.bulk(member);
            call.reply.double(score);
        })
    })
}
