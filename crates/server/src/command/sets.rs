//! Commands on sets.

use std::collections::BTreeSet;

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Collection, Key, Kind};

use super::building::Building;
use super::elements::Element;
use super::{Call, LONG_REPLY, Outcome, SYNTAX, Stop};

/// Bytes of DRAM of a rank in an ordered set of them, at most.
const RANK_BYTES: usize = 16;

/// Bytes of DRAM that a member of a result takes in addition to its name.
const MEMBER_BYTES: usize = 64;

pub(super) fn sadd<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (key, members) = (call.key(1), &call.arguments[2..]);
    call.collection(&key, Kind::Set)?;
    let elements = members.iter().map(|member| call.element(member, member.to_vec()));
    let elements: Vec<Element> = elements.collect::<Result<_, _>>()?;
    let added = call.edit_each(&key, Kind::Set, members.len(), |call, set, index| {
        add(call, set, members[index], &elements[index]).map(i64::from)
    })?;
    call.reply.integer(added);
    Ok(())
}

/// Adds a member. Returns true if it is new.
fn add<M: FullMemory>(
    call: &mut Call<'_, M>,
    set: &mut Collection,
    member: &[u8],
    element: &Element,
) -> Result<bool, Stop> {
    if set.find(call.memory, member).is_some() {
        return Ok(false);
    }
    Ok(element.put(call.memory, set)?)
}

pub(super) fn srem<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (key, members) = (call.key(1), &call.arguments[2..]);
    let removed = call.edit_each(&key, Kind::Set, members.len(), |call, set, index| {
        Ok(set.remove(call.memory, members[index]).into())
    })?;
    call.reply.integer(removed);
    Ok(())
}

pub(super) fn scard<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let count = call.length(call.arguments[1], Kind::Set)?;
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn sismember<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (key, member) = (call.key(1), call.arguments[2]);
    let set = call.collection(&key, Kind::Set)?;
    let found = set.is_some_and(|set| set.find(call.memory, member).is_some());
    call.reply.integer(found.into());
    Ok(())
}

pub(super) fn smismember<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (key, members) = (call.key(1), &call.arguments[2..]);
    let set = call.collection(&key, Kind::Set)?;
    call.visits(members.len() as u64)?;
    call.reply.array(members.len());
    for (index, member) in members.iter().enumerate() {
        let found = set.as_ref().is_some_and(|set| set.find(call.memory, member).is_some());
        call.reply.integer(found.into());
        if index % 64 == 63 {
            call.pause()?;
        }
    }
    Ok(())
}

pub(super) fn smembers<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let key = call.key(1);
    let set = call.collection(&key, Kind::Set)?;
    let count = set.as_ref().map_or(0, |set| set.len(call.memory));
    call.visits(count)?;
    call.reply.set(count as usize);
    let Some(set) = set else { return Ok(()) };
    call.each_element(&set, (0, count), |call, member| {
        call.reply.bulk(member);
        Ok(())
    })
}

pub(super) fn srandmember<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    if call.arguments.len() > 3 {
        return Err(SYNTAX.into());
    }
    let counted = call.arguments.len() == 3;
    let count = if counted { call.random_count()? } else { 1 };
    let key = call.key(1);
    let set = call.collection(&key, Kind::Set)?;
    let Some(set) = set else {
        if counted {
            call.reply.array(0);
        } else {
            call.reply.null();
        }
        return Ok(());
    };
    let count = if count > 0 { count.min(set.len(call.memory) as i64) } else { count };
    call.visits(count.unsigned_abs())?;
    if counted {
        call.reply.array(count.unsigned_abs() as usize);
    }
    call.each_random(&set, count, |call, member| {
        call.reply.bulk(member);
        Ok(())
    })
}

pub(super) fn spop<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    if call.arguments.len() > 3 {
        return Err(SYNTAX.into());
    }
    let (key, given) = (call.key(1), call.pop_count()?);
    let there = call.length(call.arguments[1], Kind::Set)?;
    let count = given.unwrap_or(1).min(there);
    if given.is_none() {
        let mut popped = None;
        if count > 0 {
            popped = call.edit(&key, Kind::Set, |call, set| Ok(pop_random(call, set)))?;
        }
        call.reply.bulk_or_null(popped.as_deref());
        return Ok(());
    }
    call.reply.set(count as usize);
    pop_several(call, &key, (count, there))
}

/// Replies with `count` random members of `all`, and removes them. If the reply finds no room, none
/// is removed.
fn pop_several<M: FullMemory>(
    call: &mut Call<'_, M>,
    key: &Key<'_>,
    (count, all): (u64, u64),
) -> Outcome {
    call.visits(count)?;
    if count > (call.state.settings().argument_bytes_max / RANK_BYTES) as u64 {
        return Err(LONG_REPLY.into());
    }
    // Floyd's sampling: Bentley and Floyd, "A Sample of Brilliance", CACM 1987.
    let mut ranks = BTreeSet::new();
    for most in all - count..all {
        let rank = call.state.random() % (most + 1);
        if !ranks.insert(rank) {
            ranks.insert(most);
        }
    }
    let ranks: Vec<u64> = ranks.into_iter().collect();
    if let Some(set) = call.collection(key, Kind::Set)? {
        for (index, rank) in ranks.iter().enumerate() {
            let member = set.at(call.memory, *rank);
            call.reply.bulk_or_null(member.as_deref());
            if index % 64 == 63 {
                call.pause()?;
            }
        }
        call.pause()?;
    }
    call.remove_ranks(key, Kind::Set, &ranks, |call, set, rank| {
        if let Some(member) = set.at(call.memory, rank) {
            set.remove(call.memory, &member);
        }
    })
}

fn pop_random<M: FullMemory>(call: &mut Call<'_, M>, set: &mut Collection) -> Option<Vec<u8>> {
    let count = set.len(call.memory);
    let member = set.at(call.memory, call.state.random() % count.max(1))?;
    set.remove(call.memory, &member);
    Some(member)
}

pub(super) fn smove<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (from, to, member) = (call.key(1), call.key(2), call.arguments[3]);
    let source = call.collection(&from, Kind::Set)?;
    let Some(source) = source else {
        call.reply.integer(0);
        return Ok(());
    };
    call.collection(&to, Kind::Set)?;
    let moved = source.find(call.memory, member).is_some();
    if moved && from.bytes != to.bytes {
        let element = call.element(member, member.to_vec())?;
        call.edit(&to, Kind::Set, |call, set| add(call, set, member, &element))?;
        call.edit(&from, Kind::Set, |call, set| Ok(set.remove(call.memory, member)))?;
    }
    call.reply.integer(moved.into());
    Ok(())
}

pub(super) fn sscan<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    call.scan_elements(Kind::Set, 1, |member| member, |call, member| call.reply.bulk(member))
}

/// An operation on several sets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Inter,
    Union,
    Diff,
}

pub(super) fn sinter<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    reply_result(call, Operation::Inter)
}

pub(super) fn sunion<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    reply_result(call, Operation::Union)
}

pub(super) fn sdiff<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    reply_result(call, Operation::Diff)
}

pub(super) fn sinterstore<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    store_result(call, Operation::Inter)
}

pub(super) fn sunionstore<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    store_result(call, Operation::Union)
}

pub(super) fn sdiffstore<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    store_result(call, Operation::Diff)
}

/// Members of a result, and the bytes of DRAM that they take.
#[derive(Default)]
struct Members {
    names: Vec<Vec<u8>>,
    bytes: usize,
}

impl Members {
    fn add<M: FullMemory>(&mut self, call: &Call<'_, M>, name: &[u8]) -> Outcome {
        self.bytes += name.len() + MEMBER_BYTES;
        if self.bytes > call.state.settings().argument_bytes_max {
            return Err(LONG_REPLY.into());
        }
        self.names.push(name.to_vec());
        Ok(())
    }
}

/// The sets of these keys. A missing one is `None`.
fn sets<M: FullMemory>(
    call: &mut Call<'_, M>,
    keys: &[&[u8]],
) -> Result<Vec<Option<Collection>>, Stop> {
    keys.iter()
        .map(|key| {
            let key = call.keyspace().key(key);
            call.collection(&key, Kind::Set)
        })
        .collect()
}

/// Passes the members of the result of an operation to `each`, until it returns false.
fn each_in_result<M: FullMemory>(
    call: &mut Call<'_, M>,
    operation: Operation,
    keys: &[&[u8]],
    mut each: impl FnMut(&mut Call<'_, M>, &[u8]) -> Result<bool, Stop>,
) -> Outcome {
    let mut sets = sets(call, keys)?;
    match operation {
        Operation::Union => {
            for (index, set) in sets.iter().enumerate() {
                if let Some(set) = set {
                    let wanted = (set, &sets[..index], false);
                    pass(call, wanted, &mut each)?;
                }
            }
        }
        Operation::Inter => {
            if sets.iter().any(Option::is_none) {
                return Ok(());
            }
            let count = |set: &Option<Collection>, memory: &mut M| {
                set.as_ref().map_or(0, |set| set.len(memory))
            };
            let counts: Vec<u64> = sets.iter().map(|set| count(set, call.memory)).collect();
            let smallest = (0..counts.len()).min_by_key(|index| counts[*index]).unwrap_or(0);
            if let Some(set) = sets.swap_remove(smallest) {
                pass(call, (&set, &sets, true), &mut each)?;
            }
        }
        Operation::Diff => {
            if let Some((Some(set), others)) = sets.split_first() {
                pass(call, (set, others, false), &mut each)?;
            }
        }
    }
    Ok(())
}

/// Passes the members of a set that are in all of the others, or in none of them, to `each`, until
/// it returns false.
fn pass<M: FullMemory>(
    call: &mut Call<'_, M>,
    (set, others, in_all): (&Collection, &[Option<Collection>], bool),
    mut each: impl FnMut(&mut Call<'_, M>, &[u8]) -> Result<bool, Stop>,
) -> Outcome {
    let (count, mut rank) = (set.len(call.memory), 0);
    call.visits(count)?;
    while rank < count {
        let mut members = Vec::new();
        if !set.read(call.memory, rank, usize::MAX, &mut members) {
            break;
        }
        rank += members.len() as u64;
        for member in &members {
            let mut others = others.iter().flatten();
            let wanted = others.all(|set| set.find(call.memory, member).is_some() == in_all);
            if wanted && !each(call, member)? {
                return Ok(());
            }
        }
        call.let_others_run();
    }
    Ok(())
}

fn reply_result<M: FullMemory>(call: &mut Call<'_, M>, operation: Operation) -> Outcome {
    let mut members = Members::default();
    each_in_result(call, operation, &call.arguments[1..], |call, member| {
        members.add(call, member)?;
        Ok(true)
    })?;
    call.reply.set(members.names.len());
    for (index, member) in members.names.iter().enumerate() {
        call.reply.bulk(member);
        if index % 64 == 63 {
            call.pause()?;
        }
    }
    Ok(())
}

fn store_result<M: FullMemory>(call: &mut Call<'_, M>, operation: Operation) -> Outcome {
    let to = call.key(1);
    let mut building = Building::new(call, &to, Kind::Set);
    each_in_result(call, operation, &call.arguments[2..], |call, member| {
        building.add(call, &to, member)?;
        Ok(true)
    })?;
    let database = call.session.database;
    let count = building.finish(call, (database, &to), None)?;
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn sintercard<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (keys, rest) = super::arguments::counted_keys(call.arguments, 1)?;
    let most = super::arguments::limit_option(call.arguments, rest)?;
    let mut count = 0u64;
    each_in_result(call, Operation::Inter, keys, |_, _| {
        count += 1;
        Ok(count < most)
    })?;
    call.reply.integer(count as i64);
    Ok(())
}
