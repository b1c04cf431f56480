//! Unions, intersections and differences of sorted sets.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Collection, Kind, Score};

use super::building::Building;
use super::sorted_sets::{begin_elements, check_member, reply_member, score_of};
use super::{Call, Failure, LONG_REPLY, NOT_INTEGER, Outcome, SYNTAX, Stop};
use crate::number;

/// Bytes of DRAM that an element of a result takes in addition to its own.
const ELEMENT_BYTES: usize = 80;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Inter,
    Diff,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

impl Aggregate {
    fn of(self, one: f64, other: f64) -> f64 {
        match self {
            // The sum of both infinities is 0, as in Redis.
            Aggregate::Sum if (one + other).is_nan() => 0.0,
            Aggregate::Sum => one + other,
            Aggregate::Min => one.min(other),
            Aggregate::Max => one.max(other),
        }
    }
}

/// The arguments of an operation.
struct Options<'a> {
    keys: &'a [&'a [u8]],
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
}

/// Returns the keys after their number at `index`, and the index after them.
fn input_keys<'a, M: FullMemory>(
    call: &Call<'a, M>,
    index: usize,
    name: &str,
) -> Result<(&'a [&'a [u8]], usize), Failure> {
    let count = number::integer(call.arguments[index]).ok_or(NOT_INTEGER)?;
    if count < 1 {
        return Err(format!("ERR at least 1 input key is needed for '{name}' command").into());
    }
    let end = (index + 1).saturating_add(usize::try_from(count).unwrap_or(usize::MAX));
    Ok((call.arguments.get(index + 1..end).ok_or(SYNTAX)?, end))
}

fn parse<'a, M: FullMemory>(
    call: &Call<'a, M>,
    index: usize,
    operation: Operation,
    name: &str,
) -> Result<Options<'a>, Failure> {
    let (keys, end) = input_keys(call, index, name)?;
    let mut options = Options {
        keys,
        weights: vec![1.0; keys.len()],
        aggregate: Aggregate::Sum,
        with_scores: false,
    };
    let weighs = operation != Operation::Diff;
    let mut at = end;
    while at < call.arguments.len() {
        let weights = call.arguments.get(at + 1..at + 1 + keys.len());
        if weighs && call.is(at, "WEIGHTS") && weights.is_some() {
            let weights = weights.unwrap_or_default().iter().map(|weight| number::float(weight));
            let weights: Option<Vec<f64>> = weights.collect();
            options.weights = weights.ok_or("ERR weight value is not a float")?;
            at += keys.len();
        } else if weighs && call.is(at, "AGGREGATE") && at + 1 < call.arguments.len() {
            at += 1;
            options.aggregate = match call.arguments[at].to_ascii_uppercase().as_slice() {
                b"SUM" => Aggregate::Sum,
                b"MIN" => Aggregate::Min,
                b"MAX" => Aggregate::Max,
                _ => return Err(SYNTAX.into()),
            };
        } else if call.is(at, "WITHSCORES") && index == 1 {
            options.with_scores = true;
        } else {
            return Err(SYNTAX.into());
        }
        at += 1;
    }
    Ok(options)
}

/// A set or a sorted set. Members of a set have the score 1.
struct Source {
    collection: Collection,
    count: u64,
    weight: f64,
}

impl Source {
    fn split<'a>(&self, element: &'a [u8]) -> (f64, &'a [u8]) {
        let (score, member) = match self.collection.kind {
            Kind::SortedSet => Score::split(element),
            _ => (1.0, element),
        };
        (self.weighed(score), member)
    }

    fn weighed(&self, score: f64) -> f64 {
        let score = score * self.weight;
        if score.is_nan() { 0.0 } else { score }
    }

    fn score<M: FullMemory>(&self, call: &mut Call<'_, M>, member: &[u8]) -> Option<f64> {
        let score = match self.collection.kind {
            Kind::SortedSet => score_of(call, &self.collection, member)?,
            _ => self.collection.find(call.memory, member).map(|_| 1.0)?,
        };
        Some(self.weighed(score))
    }
}

fn sources<M: FullMemory>(
    call: &mut Call<'_, M>,
    keys: &[&[u8]],
    weights: &[f64],
) -> Result<Vec<Option<Source>>, Stop> {
    let mut sources = Vec::with_capacity(keys.len());
    for (key, weight) in keys.iter().zip(weights) {
        let key = call.keyspace().key(key);
        let mut value = Vec::new();
        let entry = call.find(&key, &mut value);
        let kind = entry.map(|entry| entry.kind());
        let collection = match kind {
            None => None,
            Some(Kind::Set) => call.collection(&key, Kind::Set)?,
            Some(_) => call.collection(&key, Kind::SortedSet)?,
        };
        sources.push(collection.map(|collection| {
            let count = collection.len(call.memory);
            Source { collection, count, weight: *weight }
        }));
    }
    Ok(sources)
}

/// Calls `each` with the elements of a source.
fn pass<M: FullMemory>(
    call: &mut Call<'_, M>,
    source: &Source,
    mut each: impl FnMut(&mut Call<'_, M>, &[u8]) -> Result<bool, Stop>,
) -> Outcome {
    call.visits(source.count)?;
    let mut rank = 0;
    while rank < source.count {
        let mut elements = Vec::new();
        if !source.collection.read(call.memory, rank, usize::MAX, &mut elements) {
            break;
        }
        rank += elements.len() as u64;
        for element in &elements {
            if !each(call, element)? {
                return Ok(());
            }
        }
        call.let_others_run();
    }
    Ok(())
}

/// Passes the members of the result of an operation to `each` with their scores, in no order.
fn each_in_result<M: FullMemory>(
    call: &mut Call<'_, M>,
    operation: Operation,
    options: &Options<'_>,
    mut each: impl FnMut(&mut Call<'_, M>, (f64, &[u8])) -> Outcome,
) -> Outcome {
    let mut sources = sources(call, options.keys, &options.weights)?;
    if operation == Operation::Inter {
        if sources.iter().any(Option::is_none) {
            return Ok(());
        }
        sources.sort_by_key(|source| source.as_ref().map(|source| source.count));
    }
    let firsts = if operation == Operation::Union { sources.len() } else { 1 };
    for (index, source) in sources[..firsts].iter().enumerate() {
        let Some(source) = source else { continue };
        let (before, after) = (&sources[..index], &sources[index + 1..]);
        pass(call, source, |call, element| {
            let (mut score, member) = source.split(element);
            if before.iter().flatten().any(|source| source.score(call, member).is_some()) {
                return Ok(true);
            }
            for other in after.iter().flatten() {
                match (operation, other.score(call, member)) {
                    (Operation::Diff, Some(_)) | (Operation::Inter, None) => return Ok(true),
                    (_, Some(more)) => score = options.aggregate.of(score, more),
                    (_, None) => {}
                }
            }
            each(call, (score, member))?;
            Ok(true)
        })?;
    }
    Ok(())
}

fn reply_result<M: FullMemory>(
    call: &mut Call<'_, M>,
    operation: Operation,
    name: &str,
) -> Outcome {
    let options = parse(call, 1, operation, name)?;
    let (mut elements, mut bytes) = (Vec::new(), 0);
    each_in_result(call, operation, &options, |call, (score, member)| {
        let element = Score::of(score).with(member);
        bytes += element.len() + ELEMENT_BYTES;
        if bytes > call.state.settings().argument_bytes_max {
            return Err(LONG_REPLY.into());
        }
        // The element has no sign of zero.
        elements.push((element, score));
        Ok(())
    })?;
    elements.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    begin_elements(call, elements.len() as u64, options.with_scores);
    for (index, (element, score)) in elements.iter().enumerate() {
        reply_member(call, (*score, Score::split(element).1), options.with_scores);
        if index % 64 == 63 {
            call.pause()?;
        }
    }
    Ok(())
}

fn store_result<M: FullMemory>(
    call: &mut Call<'_, M>,
    operation: Operation,
    name: &str,
) -> Outcome {
    let options = parse(call, 2, operation, name)?;
    let to = call.key(1);
    let mut building = Building::new(call, &to, Kind::SortedSet);
    each_in_result(call, operation, &options, |call, (score, member)| {
        check_member(member)?;
        building.add(call, &to, &Score::of(score).with(member))
    })?;
    let database = call.session.database;
    let count = building.finish(call, (database, &to), None)?;
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn zunion<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    reply_result(call, Operation::Union, "zunion")
}

pub(super) fn zinter<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    reply_result(call, Operation::Inter, "zinter")
}

pub(super) fn zdiff<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    reply_result(call, Operation::Diff, "zdiff")
}

pub(super) fn zunionstore<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    store_result(call, Operation::Union, "zunionstore")
}

pub(super) fn zinterstore<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    store_result(call, Operation::Inter, "zinterstore")
}

pub(super) fn zdiffstore<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    store_result(call, Operation::Diff, "zdiffstore")
}

pub(super) fn zintercard<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (keys, rest) = input_keys(call, 1, "zintercard")?;
    let most = super::arguments::limit_option(call.arguments, rest)?;
    let sources = sources(call, keys, &vec![1.0; keys.len()])?;
    let mut count = 0;
    if sources.iter().all(Option::is_some) {
        let mut sources: Vec<Source> = sources.into_iter().flatten().collect();
        sources.sort_by_key(|source| source.count);
        if let Some((first, others)) = sources.split_first() {
            pass(call, first, |call, element| {
                let (_, member) = first.split(element);
                let is_in = |source: &Source| source.score(call, member).is_some();
                count += u64::from(others.iter().all(is_in));
                Ok(count < most)
            })?;
        }
    }
    call.reply.integer(count as i64);
    Ok(())
}
