//! Ranges of sorted sets: by rank, by score and by member.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Collection, Kind, Score};

use super::arguments::indices;
use super::building::Building;
use super::sorted_sets::{begin_elements, remove_at, reply_element};
use super::{Call, Failure, Outcome, SYNTAX};
use crate::number;

const BAD_SCORE: &str = "ERR min or max is not a float";
const BAD_MEMBER: &str = "ERR min or max not valid string range item";

/// How a range is given.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Rank,
    Score,
    Member,
}

/// A range of a sorted set.
#[derive(Clone, Copy)]
struct Range<'a> {
    /// True if the greatest element comes first.
    reverse: bool,
    /// The bounds, the lower one first.
    least: Bound<'a>,
    greatest: Bound<'a>,
    /// Elements that are left out at the start, and the number of elements; `None` for all.
    limit: Option<(i64, i64)>,
    with_scores: bool,
}

#[derive(Clone, Copy)]
enum Bound<'a> {
    Rank(i64),
    /// A score, and true if it is outside of the range.
    Score(f64, bool),
    /// A member, and true if it is outside of the range.
    Member(&'a [u8], bool),
    Start,
    End,
}

impl<'a> Bound<'a> {
    fn parse(by: By, text: &'a [u8]) -> Result<Bound<'a>, Failure> {
        match by {
            By::Rank => number::integer(text).map(Bound::Rank).ok_or(super::NOT_INTEGER.into()),
            By::Score => {
                let (open, text) = match text.strip_prefix(b"(") {
                    Some(text) => (true, text),
                    None => (false, text),
                };
                let score = number::float(text).ok_or(BAD_SCORE)?;
                Ok(Bound::Score(score, open))
            }
            By::Member => match text {
                b"-" => Ok(Bound::Start),
                b"+" => Ok(Bound::End),
                [b'(', member @ ..] => Ok(Bound::Member(member, true)),
                [b'[', member @ ..] => Ok(Bound::Member(member, false)),
                _ => Err(BAD_MEMBER.into()),
            },
        }
    }
}

impl Range<'_> {
    /// The rank of the least element of the range, and the number of elements, without the limit.
    fn ranks<M: FullMemory>(&self, call: &mut Call<'_, M>, set: &Collection) -> (u64, u64) {
        let count = set.len(call.memory);
        if let (Bound::Rank(start), Bound::Rank(end)) = (self.least, self.greatest) {
            let (from, length) = indices(start, end, count);
            return match self.reverse {
                true => (count - (from + length).min(count), length),
                false => (from, length),
            };
        }
        let from = rank_at(call, set, self.least, count, false);
        let to = rank_at(call, set, self.greatest, count, true);
        (from, to.saturating_sub(from))
    }

    /// As [`ranks`](Range::ranks), within the limit.
    fn limited<M: FullMemory>(&self, call: &mut Call<'_, M>, set: &Collection) -> (u64, u64) {
        let (from, count) = self.ranks(call, set);
        let Some((skipped, most)) = self.limit else { return (from, count) };
        let Ok(skipped) = u64::try_from(skipped) else { return (from, 0) };
        let left = count.saturating_sub(skipped);
        let taken = u64::try_from(most).map_or(left, |most| left.min(most));
        match self.reverse {
            true => (from + left - taken, taken),
            false => (from + skipped.min(count), taken),
        }
    }
}

/// Number of elements before a bound. `after` counts elements at the bound as before it, if they
/// are in the range.
fn rank_at<M: FullMemory>(
    call: &mut Call<'_, M>,
    set: &Collection,
    bound: Bound<'_>,
    count: u64,
    after: bool,
) -> u64 {
    let bytes = match bound {
        Bound::Rank(_) | Bound::Start => return 0,
        Bound::End => return count,
        Bound::Score(score, open) => {
            let bytes = u64::from_be_bytes(Score::of(score).0);
            // The next score in order.
            (bytes + u64::from(open != after)).to_be_bytes().to_vec()
        }
        Bound::Member(member, open) => {
            let (first, last) =
                (set.at(call.memory, 0), set.at(call.memory, count.saturating_sub(1)));
            let Some((first, last)) = first.zip(last) else { return 0 };
            if Score::split(&first).0 != Score::split(&last).0 {
                return rank_of_member(call, set, (member, open != after), count);
            }
            let mut bytes = Score::of(Score::split(&first).0).with(member);
            if open != after {
                bytes.push(0);
            }
            bytes
        }
    };
    set.rank_of(call.memory, &bytes)
}

/// Number of elements whose members are before a bound, in a set with several scores. If these do
/// not sort the members, the result is not defined. `with_equal` counts the bound itself.
fn rank_of_member<M: FullMemory>(
    call: &mut Call<'_, M>,
    set: &Collection,
    (bound, with_equal): (&[u8], bool),
    count: u64,
) -> u64 {
    let (mut start, mut end) = (0, count);
    while start < end {
        let middle = start + (end - start) / 2;
        let is_before = set.at(call.memory, middle).is_some_and(|element| {
            let member = Score::split(&element).1;
            member < bound || with_equal && member == bound
        });
        (start, end) = if is_before { (middle + 1, end) } else { (start, middle) };
    }
    start
}

/// Parses the bounds at `index` and after, and then options.
fn parse<'a, M: FullMemory>(
    call: &Call<'a, M>,
    index: usize,
    form: (Option<By>, Option<bool>),
    is_stored: bool,
) -> Result<Range<'a>, Failure> {
    let (mut by, mut reverse, mut limit, mut with_scores) = (form.0, form.1, None, false);
    let mut at = index + 2;
    while at < call.arguments.len() {
        let free = (form.0.is_none(), form.1.is_none());
        if call.is(at, "WITHSCORES") && !is_stored {
            with_scores = true;
        } else if call.is(at, "LIMIT") && at + 2 < call.arguments.len() {
            limit = Some((call.integer(at + 1)?, call.integer(at + 2)?));
            at += 2;
        } else if free.0 && call.is(at, "BYSCORE") {
            by = Some(By::Score);
        } else if free.0 && call.is(at, "BYLEX") {
            by = Some(By::Member);
        } else if free.1 && call.is(at, "REV") {
            reverse = Some(true);
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    let (by, reverse) = (by.unwrap_or(By::Rank), reverse.unwrap_or(false));
    // As in Redis, a limit of -1 counts as none.
    if by == By::Rank && limit.is_some_and(|(_, most)| most != -1) {
        let text =
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX";
        return Err(text.into());
    }
    let limit = limit.filter(|_| by != By::Rank);
    if with_scores && by == By::Member {
        let text = "ERR syntax error, WITHSCORES not supported in combination with BYLEX";
        return Err(text.into());
    }
    let (first, second) = (call.arguments[index], call.arguments[index + 1]);
    let swapped = reverse && by != By::Rank;
    let (least, greatest) = if swapped { (second, first) } else { (first, second) };
    // Redis names the first bad bound, but the texts are the same.
    let (least, greatest) = (Bound::parse(by, least)?, Bound::parse(by, greatest)?);
    Ok(Range { reverse, least, greatest, limit, with_scores })
}

fn reply<M: FullMemory>(call: &mut Call<'_, M>, form: (Option<By>, Option<bool>)) -> Outcome {
    let range = parse(call, 2, form, false)?;
    let key = call.key(1);
    let Some(set) = call.collection(&key, Kind::SortedSet)? else {
        call.reply.array(0);
        return Ok(());
    };
    let (from, count) = range.limited(call, &set);
    call.visits(count)?;
    begin_elements(call, count, range.with_scores);
    let write = |call: &mut Call<'_, M>, element: &[u8]| {
        reply_element(call, element, range.with_scores);
        Ok(())
    };
    match range.reverse {
        true => call.each_element_back(&set, (from, count), write),
        false => call.each_element(&set, (from, count), write),
    }
}

pub(super) fn zrange<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    reply(call, (None, None))
}

pub(super) fn zrevrange<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    reply(call, (Some(By::Rank), Some(true)))
}

pub(super) fn zrangebyscore<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    reply(call, (Some(By::Score), Some(false)))
}

pub(super) fn zrevrangebyscore<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    reply(call, (Some(By::Score), Some(true)))
}

pub(super) fn zrangebylex<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    reply(call, (Some(By::Member), Some(false)))
}

pub(super) fn zrevrangebylex<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    reply(call, (Some(By::Member), Some(true)))
}

pub(super) fn zcount<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    count(call, By::Score)
}

pub(super) fn zlexcount<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    count(call, By::Member)
}

fn count<M: FullMemory>(call: &mut Call<'_, M>, by: By) -> Outcome {
    let range = parse(call, 2, (Some(by), Some(false)), true)?;
    let key = call.key(1);
    let set = call.collection(&key, Kind::SortedSet)?;
    let count = set.map_or(0, |set| range.ranks(call, &set).1);
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn zremrangebyrank<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    remove(call, By::Rank)
}

pub(super) fn zremrangebyscore<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    remove(call, By::Score)
}

pub(super) fn zremrangebylex<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    remove(call, By::Member)
}

fn remove<M: FullMemory>(call: &mut Call<'_, M>, by: By) -> Outcome {
    let range = parse(call, 2, (Some(by), Some(false)), true)?;
    let key = call.key(1);
    let set = call.collection(&key, Kind::SortedSet)?;
    let Some((from, count)) = set.map(|set| range.ranks(call, &set)) else {
        call.reply.integer(0);
        return Ok(());
    };
    call.remove_each(&key, Kind::SortedSet, count, |call, set| remove_at(call, set, from))?;
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn zrangestore<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let range = parse(call, 3, (None, None), true)?;
    let (to, from) = (call.key(1), call.key(2));
    let mut building = Building::new(call, &to, Kind::SortedSet);
    if let Some(set) = call.collection(&from, Kind::SortedSet)? {
        let ranks = range.limited(call, &set);
        call.each_element(&set, ranks, |call, element| building.add(call, &to, element))?;
    }
    let database = call.session.database;
    let count = building.finish(call, (database, &to), None)?;
    call.reply.integer(count as i64);
    Ok(())
}
