//! Commands on the server.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use ebbtide_core::FullMemory;
use ebbtide_core::durability::Lsn;
use ebbtide_structures::keyspace::DATABASES;

use super::facts::facts;
use super::keys::database;
use super::permission::keys_with_flags;
use super::{Call, Outcome, SYNTAX, Spec, TABLE, catalogue, find, routing};
use crate::acl::Categories;
use crate::glob;
use crate::resp::Reply;

/// The version of Redis that the commands follow.
pub(super) const COMPATIBLE_VERSION: &str = "7.0.15";

pub(super) fn flushdb<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    check_mode(call)?;
    let database = call.session.database;
    clear(call, database);
    call.reply.ok();
    Ok(())
}

pub(super) fn flushall<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    check_mode(call)?;
    for database in 0..DATABASES {
        clear(call, database);
    }
    call.reply.ok();
    Ok(())
}

fn clear<M: FullMemory>(call: &mut Call<'_, M>, database: usize) {
    let absent = absent(call, database, &[database]);
    call.keyspace().clear(call.memory, database);
    call.state.changed_all(database, &absent);
}

/// Returns the watched keys of `database` that exist in none of `databases`. Clearing or swapping
/// does not change them.
fn absent<M: FullMemory>(
    call: &mut Call<'_, M>,
    database: usize,
    databases: &[usize],
) -> BTreeSet<Vec<u8>> {
    let (keyspace, now_ms) = (call.keyspace(), call.state.now_ms.get());
    let mut watched = call.state.shared.watched.keys(database);
    watched.retain(|name| {
        let key = keyspace.key(name);
        !databases.iter().any(|of| {
            let entry = keyspace.find(call.memory, *of, &key, &mut Vec::new());
            entry.is_some_and(|entry| entry.expires_at_ms.is_none_or(|at| at > now_ms))
        })
    });
    watched
}

/// Checks the mode. `SYNC` and `ASYNC` act the same: keys are removed at once, their pages freed
/// later.
fn check_mode<M: FullMemory>(call: &Call<'_, M>) -> Outcome {
    match call.arguments.len() {
        1 => Ok(()),
        2 if call.is(1, "SYNC") || call.is(1, "ASYNC") => Ok(()),
        _ => Err(SYNTAX.into()),
    }
}

pub(super) fn swapdb<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    routing::refuse(call, "ERR SWAPDB is not allowed in cluster mode")?;
    let bad = |which: &str| format!("ERR invalid {which} DB index");
    let parse = |index: usize| crate::number::integer(call.arguments[index]);
    parse(1).ok_or_else(|| bad("first"))?;
    parse(2).ok_or_else(|| bad("second"))?;
    let (one, other) = (database(call, 1)?, database(call, 2)?);
    if one == other {
        call.reply.ok();
        return Ok(());
    }
    let absent = [one, other].map(|database| absent(call, database, &[one, other]));
    call.keyspace().swap(call.memory, one, other);
    call.state.changed_all(one, &absent[0]);
    call.state.changed_all(other, &absent[1]);
    call.reply.ok();
    Ok(())
}

pub(super) fn time<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let now_ms = call.state.now_ms.get();
    call.reply.array(2);
    call.reply.bulk((now_ms / 1000).to_string().as_bytes());
    call.reply.bulk((now_ms % 1000 * 1000).to_string().as_bytes());
    Ok(())
}

/// Stops the server. It always saves durable data, so the modes act the same.
pub(super) fn shutdown<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let modes = &call.arguments[1..];
    let names = |word: &str| modes.iter().any(|mode| mode.eq_ignore_ascii_case(word.as_bytes()));
    let known = ["SAVE", "NOSAVE", "NOW", "FORCE", "ABORT"];
    let is_known =
        |mode: &&[u8]| known.iter().any(|word| mode.eq_ignore_ascii_case(word.as_bytes()));
    if !modes.iter().all(is_known)
        || names("SAVE") && names("NOSAVE")
        || names("ABORT") && modes.len() > 1
    {
        return Err(SYNTAX.into());
    }
    if names("ABORT") {
        return Err("ERR No shutdown in progress.".into());
    }
    call.state.shared.shut_down();
    call.session.closing = true;
    Ok(())
}

const NOTHING_KEPT: &str = "ERR nothing outlives this server: it runs with --durability none";

/// Begins a save. With durability `none` there is nothing to save.
fn ask_for_save<M: FullMemory>(call: &Call<'_, M>) -> Result<Lsn, super::Failure> {
    let lsn = call.state.shared.storage.save().ok_or(NOTHING_KEPT)?;
    call.state.shared.save(lsn);
    Ok(lsn)
}

pub(super) fn save<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let lsn = ask_for_save(call)?;
    call.session.saved = call.session.saved.max(lsn);
    call.reply.ok();
    Ok(())
}

pub(super) fn bgsave<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    if call.arguments.len() == 3 && call.is(1, "TO") {
        return copy_to(call);
    }
    let schedule = call.arguments.len() == 2 && call.is(1, "SCHEDULE");
    if call.arguments.len() > 1 && !schedule {
        return Err(SYNTAX.into());
    }
    ask_for_save(call)?;
    call.reply.status("Background saving started");
    Ok(())
}

/// Begins a copy to a file. It holds all changes acknowledged before.
fn copy_to<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let path = std::str::from_utf8(call.arguments[2]).map_err(|_| "ERR the path is not UTF-8")?;
    let storage = &call.state.shared.storage;
    if storage.save().is_none() {
        return Err(NOTHING_KEPT.into());
    }
    storage.copy(path.as_ref()).map_err(|reason| format!("ERR {reason}"))?;
    call.reply.status("Background saving started");
    Ok(())
}

pub(super) fn lastsave<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    call.reply.integer((call.state.shared.saved_ms.load(Ordering::SeqCst) / 1000) as i64);
    Ok(())
}

/// `FUNCTION LIST` and `FLUSH`. There are no functions.
pub(super) fn function<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let options = &call.arguments[2..];
    let is_mode =
        |mode: &&[u8]| [&b"SYNC"[..], b"ASYNC"].iter().any(|word| mode.eq_ignore_ascii_case(word));
    if call.is(1, "FLUSH") {
        if options.len() > 1 || !options.iter().all(is_mode) {
            return Err("ERR FUNCTION FLUSH only supports SYNC|ASYNC option".into());
        }
        call.reply.ok();
        return Ok(());
    }
    let mut index = 2;
    while index < call.arguments.len() {
        if call.is(index, "LIBRARYNAME") {
            index += 1;
            if index == call.arguments.len() {
                return Err("ERR library name argument was not given".into());
            }
        } else if !call.is(index, "WITHCODE") {
            let option = String::from_utf8_lossy(call.arguments[index]);
            return Err(format!("ERR Unknown argument {option}").into());
        }
        index += 1;
    }
    call.reply.array(0);
    Ok(())
}

#[expect(clippy::too_many_lines, reason = "an arm for each subcommand")]
pub(super) fn command<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let Some(subcommand) = call.arguments.get(1) else {
        call.reply.array(TABLE.len());
        TABLE.iter().for_each(|spec| describe(call, spec));
        return Ok(());
    };
    match subcommand.to_ascii_uppercase().as_slice() {
        b"COUNT" => call.reply.integer(TABLE.len() as i64),
        b"LIST" => {
            // Subcommands have a name of both words, as in Redis.
            let commands = catalogue().commands().iter();
            let names = commands.clone().map(|command| command.name.as_bytes());
            let listed: Vec<&[u8]> = match &call.arguments[2..] {
                [] => names.collect(),
                [by, kind, pattern] if by.eq_ignore_ascii_case(b"FILTERBY") => {
                    match kind.to_ascii_uppercase().as_slice() {
                        b"PATTERN" => names.filter(|name| glob::matches(pattern, name)).collect(),
                        b"ACLCAT" => {
                            let of = Categories::named(pattern).unwrap_or_default();
                            let found = commands.filter(|command| command.categories.has(of));
                            found.map(|command| command.name.as_bytes()).collect()
                        }
                        // There are no modules.
                        b"MODULE" => Vec::new(),
                        _ => return Err(SYNTAX.into()),
                    }
                }
                _ => return Err(SYNTAX.into()),
            };
            call.reply.array(listed.len());
            listed.iter().for_each(|name| call.reply.bulk(name));
        }
        b"INFO" => {
            let names = &call.arguments[2..];
            call.reply.array(if names.is_empty() { TABLE.len() } else { names.len() });
            if names.is_empty() {
                TABLE.iter().for_each(|spec| describe(call, spec));
            }
            for name in names {
                match find(name) {
                    Some(spec) => describe(call, spec),
                    None => call.reply.null_array(),
                }
            }
        }
        b"DOCS" => {
            let named = |spec: &&Spec| {
                let names = &call.arguments[2..];
                let is = |name: &&[u8]| name.eq_ignore_ascii_case(spec.name.as_bytes());
                names.is_empty() || names.iter().any(is)
            };
            let specs: Vec<&Spec> = TABLE.iter().filter(named).collect();
            call.reply.map(specs.len());
            for spec in specs {
                call.reply.bulk(spec.name.as_bytes());
                call.reply.map(3);
                for (name, text) in
                    [("summary", spec.summary), ("since", spec.since), ("group", spec.group)]
                {
                    call.reply.bulk(name.as_bytes());
                    call.reply.bulk(text.as_bytes());
                }
            }
        }
        b"GETKEYS" if call.arguments.len() > 2 => keys_of(call, false)?,
        b"GETKEYSANDFLAGS" if call.arguments.len() > 2 => keys_of(call, true)?,
        _ => {
            let name = String::from_utf8_lossy(subcommand).into_owned();
            return Err(format!("ERR unknown subcommand '{name}'. Try COMMAND HELP.").into());
        }
    }
    Ok(())
}

/// Replies with the keys of the command that follows, each with its flags on request.
fn keys_of<M: FullMemory>(call: &mut Call<'_, M>, with_flags: bool) -> Outcome {
    let asked = &call.arguments[2..];
    let spec = find(asked[0]).filter(|spec| spec.takes(asked.len()));
    let spec = spec.ok_or("ERR Invalid command specified")?;
    let keys = keys_with_flags(spec, asked);
    let may_have_none = facts(spec.name).is_some_and(|facts| facts.has("no_mandatory_keys"));
    if keys.is_empty() && !may_have_none {
        return Err("ERR The command has no key arguments".into());
    }
    call.reply.array(keys.len());
    for (index, flags) in keys {
        if with_flags {
            call.reply.array(2);
        }
        call.reply.bulk(asked[index]);
        if with_flags {
            call.reply.set(flags.len());
            flags.iter().for_each(|flag| call.reply.status(flag));
        }
    }
    Ok(())
}

/// Describes a command for `COMMAND`.
fn describe<M: FullMemory>(call: &mut Call<'_, M>, spec: &Spec) {
    describe_one(call.reply, spec.name, spec.arity);
    let subcommands = spec.subcommands().unwrap_or_default();
    call.reply.array(subcommands.len());
    for (name, arity) in subcommands {
        describe_one(call.reply, &format!("{}|{}", spec.name, name.to_lowercase()), *arity);
        call.reply.array(0);
    }
}

/// Describes a command or subcommand without its subcommands.
fn describe_one(reply: &mut Reply, name: &str, arity: i32) {
    let facts = facts(name);
    let flags = facts.map_or(&[][..], |facts| &facts.flags);
    reply.array(10);
    reply.bulk(name.as_bytes());
    reply.integer(arity.into());
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.status(flag));
    let positions = facts.map_or([0; 3], |facts| facts.key_positions);
    positions.into_iter().for_each(|position| reply.integer(position));
    let categories = facts.map(|facts| facts.categories).unwrap_or_default().names();
    reply.set(categories.clone().count());
    categories.for_each(|name| reply.status(&format!("@{name}")));
    // There are no tips.
    reply.array(0);
    let specs = facts.map_or(&[][..], |facts| &facts.key_specs);
    reply.array(specs.len());
    specs.iter().for_each(|spec| spec.write(reply));
}
