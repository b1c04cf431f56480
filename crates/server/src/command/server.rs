//! Commands on the server itself.

use ebbtide_core::Memory;
use ebbtide_structures::keyspace::DATABASES;

use super::keys::database;
use super::{Call, Outcome, SYNTAX, Spec, TABLE, find};
use crate::glob;
use crate::state::Settings;

/// The version of Redis whose commands are meant.
pub(super) const COMPATIBLE_VERSION: &str = "7.0.15";

pub(super) fn flushdb<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    check_mode(call)?;
    let database = call.session.database;
    clear(call, database);
    call.reply.ok();
    Ok(())
}

pub(super) fn flushall<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    check_mode(call)?;
    for database in 0..DATABASES {
        clear(call, database);
    }
    call.reply.ok();
    Ok(())
}

fn clear<M: Memory>(call: &mut Call<'_, M>, database: usize) {
    call.keyspace().clear(call.memory, database);
    crate::state::add(&call.state.clears, 1);
    call.state.changed_all(database);
}

/// `SYNC` and `ASYNC` mean the same: the keys go at once, their pages later.
fn check_mode<M: Memory>(call: &Call<'_, M>) -> Outcome {
    match call.arguments.len() {
        1 => Ok(()),
        2 if call.is(1, "SYNC") || call.is(1, "ASYNC") => Ok(()),
        _ => Err(SYNTAX.into()),
    }
}

pub(super) fn swapdb<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    let bad = |which: &str| super::Failure::from(format!("ERR invalid {which} DB index"));
    let parse = |index: usize| crate::number::integer(call.arguments[index]);
    parse(1).ok_or_else(|| bad("first"))?;
    parse(2).ok_or_else(|| bad("second"))?;
    let (one, other) = (database(call, 1)?, database(call, 2)?);
    call.keyspace().swap(call.memory, one, other);
    call.state.changed_all(one);
    call.state.changed_all(other);
    call.reply.ok();
    Ok(())
}

pub(super) fn time<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    let now_ms = call.state.now_ms.get();
    call.reply.array(2);
    call.reply.bulk((now_ms / 1000).to_string().as_bytes());
    call.reply.bulk((now_ms % 1000 * 1000).to_string().as_bytes());
    Ok(())
}

pub(super) fn shutdown<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    call.state.shutdown.set(true);
    call.session.closing = true;
    Ok(())
}

pub(super) fn command<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    let Some(subcommand) = call.arguments.get(1) else {
        call.reply.array(TABLE.len());
        TABLE.iter().for_each(|spec| describe(call, spec));
        return Ok(());
    };
    match subcommand.to_ascii_uppercase().as_slice() {
        b"COUNT" => call.reply.integer(TABLE.len() as i64),
        b"LIST" => {
            call.reply.array(TABLE.len());
            TABLE.iter().for_each(|spec| call.reply.bulk(spec.name.as_bytes()));
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
        b"GETKEYS" if call.arguments.len() > 2 => {
            let asked = &call.arguments[2..];
            let spec = find(asked[0]).filter(|spec| spec.takes(asked.len()));
            let keys: Vec<&[u8]> = spec.map_or(Vec::new(), |spec| spec.keys(asked).collect());
            if spec.is_none() {
                return Err("ERR Invalid command specified".into());
            }
            if keys.is_empty() {
                return Err("ERR The command has no key arguments".into());
            }
            call.reply.array(keys.len());
            keys.iter().for_each(|key| call.reply.bulk(key));
        }
        _ => {
            let name = String::from_utf8_lossy(subcommand).into_owned();
            return Err(format!("ERR unknown subcommand '{name}'. Try COMMAND HELP.").into());
        }
    }
    Ok(())
}

/// A command as `COMMAND` tells it.
fn describe<M: Memory>(call: &mut Call<'_, M>, spec: &Spec) {
    let reply = &mut *call.reply;
    reply.array(10);
    reply.bulk(spec.name.as_bytes());
    reply.integer(spec.arity.into());
    let flags = spec.flags();
    reply.set(flags.len());
    flags.iter().for_each(|flag| reply.status(flag));
    let (first, last, step) = spec.key_positions;
    reply.integer(first);
    reply.integer(last);
    reply.integer(step);
    for _ in 0..4 {
        reply.array(0);
    }
}

/// The settings that `CONFIG GET` tells.
fn settings(settings: &Settings) -> Vec<(&'static str, String)> {
    vec![
        ("appendonly", "no".into()),
        ("databases", DATABASES.to_string()),
        ("dir", settings.data.clone()),
        ("durability", settings.durability.clone()),
        ("maxclients", settings.clients_max.to_string()),
        ("maxmemory", settings.dram_bytes.to_string()),
        ("maxmemory-policy", "noeviction".into()),
        ("port", settings.port.to_string()),
        ("proto-max-bulk-len", settings.argument_bytes_max.to_string()),
        ("save", String::new()),
    ]
}

pub(super) fn config<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    if call.is(1, "GET") && call.arguments.len() >= 3 {
        let all = settings(&call.state.settings.borrow());
        let wanted = |name: &str| {
            call.arguments[2..]
                .iter()
                .any(|pattern| glob::matches(&pattern.to_ascii_lowercase(), name.as_bytes()))
        };
        let found: Vec<_> = all.iter().filter(|(name, _)| wanted(name)).collect();
        call.reply.map(found.len());
        for (name, value) in found {
            call.reply.bulk(name.as_bytes());
            call.reply.bulk(value.as_bytes());
        }
        return Ok(());
    }
    if call.is(1, "RESETSTAT") && call.arguments.len() == 2 {
        let statistics = &call.state.statistics;
        for counter in [
            &statistics.commands,
            &statistics.connections,
            &statistics.rejected,
            &statistics.hits,
            &statistics.misses,
            &statistics.expired,
            &statistics.errors,
        ] {
            counter.set(0);
        }
        call.reply.ok();
        return Ok(());
    }
    if call.is(1, "SET") && call.arguments.len() >= 4 {
        let name = String::from_utf8_lossy(call.arguments[2]).into_owned();
        return Err(format!("ERR '{name}' can only be set when the server starts").into());
    }
    let name = String::from_utf8_lossy(call.arguments[1]).to_lowercase();
    Err(format!("ERR wrong number of arguments for 'config|{name}' command").into())
}

/// Writes a section of `INFO`.
type Section<'a, M> = fn(&mut Call<'a, M>) -> String;

pub(super) fn info<'a, M: Memory>(call: &mut Call<'a, M>) -> Outcome {
    let wanted = |section: &str| {
        let all = ["all", "everything", "default"];
        let asked = &call.arguments[1..];
        let is = |word: &str| asked.iter().any(|name| name.eq_ignore_ascii_case(word.as_bytes()));
        asked.is_empty() || all.into_iter().any(is) || is(section)
    };
    let mut text = String::new();
    let sections: [(&str, Section<'a, M>); 7] = [
        ("Server", server_section),
        ("Clients", clients_section),
        ("Memory", memory_section),
        ("Stats", stats_section),
        ("Replication", |_| "role:master\r\nconnected_slaves:0\r\n".into()),
        ("Keyspace", keyspace_section),
        ("Ebbtide", |call| call.state.engine_info.borrow()()),
    ];
    let wanted = sections.map(|(name, section)| (name, section, wanted(name)));
    for (name, section, _) in wanted.into_iter().filter(|(.., wanted)| *wanted) {
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        text.push_str(&format!("# {name}\r\n{}", section(call)));
    }
    call.reply.verbatim(&text);
    Ok(())
}

fn server_section<M: Memory>(call: &mut Call<'_, M>) -> String {
    let settings = call.state.settings.borrow();
    let uptime = (call.state.now_ms.get() - call.state.started_ms) / 1000;
    format!(
        "redis_version:{COMPATIBLE_VERSION}\r\nebbtide_version:{}\r\nredis_mode:standalone\r\n\
         os:Linux\r\narch_bits:64\r\nprocess_id:{}\r\ntcp_port:{}\r\nuptime_in_seconds:{uptime}\r\n\
         uptime_in_days:{}\r\n",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        settings.port,
        uptime / 86_400,
    )
}

fn clients_section<M: Memory>(call: &mut Call<'_, M>) -> String {
    let statistics = &call.state.statistics;
    let most = call.state.settings.borrow().clients_max;
    format!("connected_clients:{}\r\nmaxclients:{most}\r\n", statistics.clients.get())
}

fn memory_section<M: Memory>(call: &mut Call<'_, M>) -> String {
    let settings = call.state.settings.borrow();
    let (free, all) = call.keyspace().free_pages(call.memory);
    format!(
        "used_memory:{0}\r\nmaxmemory:{0}\r\nmaxmemory_policy:noeviction\r\nflash_bytes:{1}\r\n\
         flash_bytes_free:{2}\r\n",
        settings.dram_bytes,
        all * 4096,
        free * 4096,
    )
}

fn stats_section<M: Memory>(call: &mut Call<'_, M>) -> String {
    let statistics = &call.state.statistics;
    format!(
        "total_connections_received:{}\r\ntotal_commands_processed:{}\r\ntotal_net_input_bytes:{}\r\n\
         total_net_output_bytes:{}\r\nrejected_connections:{}\r\nexpired_keys:{}\r\nevicted_keys:0\r\n\
         keyspace_hits:{}\r\nkeyspace_misses:{}\r\ntotal_error_replies:{}\r\n",
        statistics.connections.get(),
        statistics.commands.get(),
        statistics.input_bytes.get(),
        statistics.output_bytes.get(),
        statistics.rejected.get(),
        statistics.expired.get(),
        statistics.hits.get(),
        statistics.misses.get(),
        statistics.errors.get(),
    )
}

fn keyspace_section<M: Memory>(call: &mut Call<'_, M>) -> String {
    let mut text = String::new();
    for database in 0..DATABASES {
        let counts = call.keyspace().counts(call.memory, database);
        if counts.keys > 0 {
            text.push_str(&format!(
                "db{database}:keys={},expires={},avg_ttl=0\r\n",
                counts.keys, counts.expiring
            ));
        }
    }
    text
}
