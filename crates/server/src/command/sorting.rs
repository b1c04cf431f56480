//! `SORT` and `SORT_RO`: the elements of a list, a set or a sorted set in order.
//!
//! `BY` and `GET` with a pattern read keys that follow from the elements. Such a command runs while
//! no other command does ([`Spec::access_with`](super::table::Spec::access_with)).

use std::cmp::Ordering;

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Collection, Field, Key, Kind, Score};

use super::building::Building;
use super::{Call, Failure, Id, LONG_REPLY, Outcome, SYNTAX, Stop, WRONG_KIND, routing, table};
use crate::number;

const NOT_SCORE: &str = "ERR One or more scores can't be converted into double";

/// DRAM bytes of an element that is sorted, without its own.
const ITEM_BYTES: usize = 96;

/// Elements that one step reads.
const READ_AT_ONCE: u64 = 512;

/// The options of a command.
#[derive(Debug, Default)]
struct Options<'a> {
    descending: bool,
    alphabetic: bool,
    /// Elements that are left out at the start, and the number of elements; negative for all.
    limit: Option<(i64, i64)>,
    /// Pattern of the keys whose values are compared.
    by: Option<&'a [u8]>,
    /// False if the elements keep their order.
    sorts: bool,
    /// Patterns of the values that are returned.
    get: Vec<&'a [u8]>,
    to: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse<M: FullMemory>(call: &Call<'a, M>, may_store: bool) -> Result<Options<'a>, Failure> {
        // The keys follow from the elements, so no rule on keys can be checked before.
        let command = if may_store { Id::Sort } else { Id::SortRo } as usize;
        let is_limited = call.session.user.as_ref().is_none_or(|account| {
            !account.is_unlimited() && !account.user().reads_every_key_with(command)
        });
        let denied = |option| {
            Failure::from(format!(
                "ERR {option} option of SORT denied due to insufficient ACL permissions."
            ))
        };
        let mut options = Options { sorts: true, ..Options::default() };
        let mut at = 2;
        while at < call.arguments.len() {
            let rest = &call.arguments[at + 1..];
            at += match (call.arguments[at].to_ascii_uppercase().as_slice(), rest) {
                (b"ASC", _) => {
                    options.descending = false;
                    1
                }
                (b"DESC", _) => {
                    options.descending = true;
                    1
                }
                (b"ALPHA", _) => {
                    options.alphabetic = true;
                    1
                }
                (b"LIMIT", [_, _, ..]) => {
                    options.limit = Some((call.integer(at + 1)?, call.integer(at + 2)?));
                    3
                }
                (b"STORE", [key, ..]) if may_store => {
                    options.to = Some(key);
                    2
                }
                (b"BY", [pattern, ..]) => {
                    if pattern.contains(&b'*') {
                        routing::refuse(call, "ERR BY option of SORT denied in Cluster mode.")?;
                        if is_limited {
                            return Err(denied("BY"));
                        }
                    }
                    options.by = Some(pattern);
                    options.sorts &= pattern.contains(&b'*');
                    2
                }
                (b"GET", [pattern, ..]) => {
                    routing::refuse(call, "ERR GET option of SORT denied in Cluster mode.")?;
                    if is_limited {
                        return Err(denied("GET"));
                    }
                    options.get.push(pattern);
                    2
                }
                _ => return Err(SYNTAX.into()),
            };
        }
        Ok(options)
    }

    /// Returns the first element of the result, and the number of elements.
    fn range(&self, count: u64) -> (u64, u64) {
        let Some((skipped, most)) = self.limit else { return (0, count) };
        let start = u64::try_from(skipped).unwrap_or(0).min(count);
        let left = count - start;
        (start, u64::try_from(most).map_or(left, |most| most.min(left)))
    }
}

/// An element, and what it is compared by.
struct Item {
    element: Vec<u8>,
    by: By,
}

enum By {
    Score(f64),
    /// A value; `None` if it is missing.
    Text(Option<Vec<u8>>),
    Element,
}

impl Item {
    fn compare(&self, other: &Item) -> Ordering {
        let elements = || self.element.cmp(&other.element);
        match (&self.by, &other.by) {
            (By::Score(one), By::Score(two)) => one.total_cmp(two).then_with(elements),
            (By::Text(one), By::Text(two)) => one.cmp(two),
            _ => elements(),
        }
    }
}

/// Parses a value as a score, as `strtod` of C does. An empty one is 0.
fn score(text: &[u8]) -> Option<f64> {
    let text = text.trim_ascii_start();
    if text.is_empty() {
        return Some(0.0);
    }
    let is_word = text.iter().all(|byte| !byte.is_ascii_digit());
    // A number beyond the range is an error, and the word is none.
    number::float(text).filter(|score| is_word || score.is_finite())
}

impl<M: FullMemory> Call<'_, M> {
    /// Returns the value that a pattern stands for; `None` if there is none, or it is of another
    /// kind.
    fn look_up(&mut self, pattern: &[u8], element: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        if pattern == b"#" {
            return Ok(Some(element.to_vec()));
        }
        let Some(star) = pattern.iter().position(|byte| *byte == b'*') else { return Ok(None) };
        let (before, after) = (&pattern[..star], &pattern[star + 1..]);
        let arrow = after.windows(2).position(|pair| pair == b"->");
        let (after, field) = match arrow.filter(|arrow| arrow + 2 < after.len()) {
            Some(arrow) => (&after[..arrow], Some(&after[arrow + 2..])),
            None => (after, None),
        };
        let name = [before, element, after].concat();
        let key = self.keyspace().key(&name);
        let found = match field {
            None => self.value(&key),
            Some(field) => self.field_of(&key, field),
        };
        match found {
            Err(stop) if stop.is_wrong_kind() => Ok(None),
            found => found,
        }
    }

    /// Returns the value of a field of a hash.
    fn field_of(&mut self, key: &Key<'_>, field: &[u8]) -> Result<Option<Vec<u8>>, Stop> {
        let Some(hash) = self.collection(key, Kind::Hash)? else { return Ok(None) };
        let element = hash.find(self.memory, field).filter(|element| hash.is_live(element));
        Ok(element.map(|element| Field::decode(&element).value.to_vec()))
    }

    /// Returns the collection that is sorted.
    fn sorted(&mut self) -> Result<Option<Collection>, Stop> {
        let (key, mut value) = (self.key(1), Vec::new());
        let Some(entry) = self.find(&key, &mut value) else { return Ok(None) };
        let collection = self.keyspace().open_collection(&key, &entry, &value);
        let sorts = |of: &Collection| matches!(of.kind, Kind::List | Kind::Set | Kind::SortedSet);
        Ok(Some(collection.filter(sorts).ok_or(WRONG_KIND)?))
    }
}

/// Returns the elements of the result.
fn sort<M: FullMemory>(
    call: &mut Call<'_, M>,
    options: &Options<'_>,
    collection: &Collection,
) -> Result<Vec<Vec<u8>>, Stop> {
    let all = collection.len(call.memory);
    let (start, count) = options.range(all);
    // Elements of lists and sorted sets have an order that DESC reverses.
    let reverses = !options.sorts && options.descending && collection.kind != Kind::Set;
    let (from, end) = match (options.sorts, reverses) {
        (true, _) => (0, all),
        (false, false) => (start, start + count),
        (false, true) => (all - start - count, all - start),
    };
    if !table::sorts_by_other_keys(call.arguments) {
        call.visits(end - from)?;
    }
    let most = call.state.settings().argument_bytes_max;
    let (mut items, mut bytes, mut rank) = (Vec::new(), 0, from);
    while rank < end {
        let part = READ_AT_ONCE.min(end - rank);
        call.each_element(collection, (rank, part), |call, element| {
            let element = match collection.kind {
                Kind::SortedSet => Score::split(element).1,
                _ => element,
            };
            let by = by_of(call, options, element)?;
            let text = if let By::Text(Some(text)) = &by { text.len() } else { 0 };
            bytes += element.len() + text + ITEM_BYTES;
            items.push(Item { element: element.to_vec(), by });
            if bytes > most { Err(LONG_REPLY.into()) } else { Ok(()) }
        })?;
        rank += part;
    }
    if options.sorts {
        items.sort_by(|one, other| match options.descending {
            true => other.compare(one),
            false => one.compare(other),
        });
        items.drain(..start as usize);
        items.truncate(count as usize);
    } else if reverses {
        items.reverse();
    }
    Ok(items.into_iter().map(|item| item.element).collect())
}

/// Returns what an element is compared by.
fn by_of<M: FullMemory>(
    call: &mut Call<'_, M>,
    options: &Options<'_>,
    element: &[u8],
) -> Result<By, Stop> {
    if !options.sorts {
        return Ok(By::Element);
    }
    let value = match options.by {
        Some(pattern) => call.look_up(pattern, element)?,
        None if options.alphabetic => return Ok(By::Element),
        None => Some(element.to_vec()),
    };
    if options.alphabetic {
        return Ok(By::Text(value));
    }
    let Some(value) = value else { return Ok(By::Score(0.0)) };
    // Both zeros are equal.
    Ok(By::Score(score(&value).ok_or(NOT_SCORE)? + 0.0))
}

pub(super) fn sort_and_store<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    run(call, true)
}

pub(super) fn sort_ro<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    run(call, false)
}

fn run<M: FullMemory>(call: &mut Call<'_, M>, may_store: bool) -> Outcome {
    let mut options = Options::parse(call, may_store)?;
    let collection = call.sorted()?;
    let is_set = collection.as_ref().is_some_and(|of| of.kind == Kind::Set);
    if is_set && !options.sorts && (options.to.is_some() || call.session.in_script) {
        // The order of a set is not defined. What is stored or goes to a script has one, as in
        // Redis.
        (options.sorts, options.alphabetic, options.by) = (true, true, None);
    }
    let elements = match &collection {
        Some(collection) => sort(call, &options, collection)?,
        None => Vec::new(),
    };
    if options.get.is_empty() {
        options.get.push(b"#");
    }
    match options.to {
        Some(to) => store(call, &options, &elements, to),
        None => reply(call, &options, &elements),
    }
}

fn reply<M: FullMemory>(
    call: &mut Call<'_, M>,
    options: &Options<'_>,
    elements: &[Vec<u8>],
) -> Outcome {
    call.reply.array(elements.len() * options.get.len());
    for (index, element) in elements.iter().enumerate() {
        for pattern in &options.get {
            let value = call.look_up(pattern, element)?;
            call.reply.bulk_or_null(value.as_deref());
        }
        if index % 64 == 63 {
            call.pause()?;
        }
    }
    Ok(())
}

fn store<M: FullMemory>(
    call: &mut Call<'_, M>,
    options: &Options<'_>,
    elements: &[Vec<u8>],
    to: &[u8],
) -> Outcome {
    let to = call.keyspace().key(to);
    let mut building = Building::new(call, &to, Kind::List);
    for element in elements {
        for pattern in &options.get {
            let value = call.look_up(pattern, element)?.unwrap_or_default();
            building.add(call, &to, &value)?;
        }
    }
    let database = call.session.database;
    let count = building.finish(call, (database, &to), None)?;
    call.reply.integer(count as i64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_those_of_strtod() {
        assert_eq!(score(b""), Some(0.0));
        assert_eq!(score(b" 1.5"), Some(1.5));
        assert_eq!(score(b"-inf"), Some(f64::NEG_INFINITY));
        assert_eq!(score(b"1e999"), None);
        assert_eq!(score(b"1 "), None);
        assert_eq!(score(b"x"), None);
    }
}
