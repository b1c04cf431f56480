//! `MONITOR`: a line about each command for the clients that asked for it.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use ebbtide_core::FullMemory;

use super::clients::may_change;
use super::facts::facts;
use super::table::Access;
use super::{Call, Checked, Outcome, Spec, counted_names, without_secrets};
use crate::channels::{COMMANDS, Topic};
use crate::large::PIECE_BYTES;
use crate::session::Session;
use crate::state::State;

/// The most bytes of a line with one argument. One that does not fit is shown as its length, and
/// the number of arguments ends a longer line.
const LINE_BYTES_MAX: usize = PIECE_BYTES;

/// DRAM bytes of a line, apart from its text.
const LINE_BYTES: usize = 64;

/// DRAM bytes of lines that are sent before other jobs run, and connections take them.
const SENT_BYTES_MAX: usize = 16 << 10;

pub(super) fn monitor<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    if call.session.published.is_some() {
        return Err("ERR MONITOR isn't allowed for DENY BLOCKING client".into());
    }
    // As in Redis, a client that monitors already gets no reply.
    if call.session.commands.insert(COMMANDS.to_vec()) {
        let subscriber = (call.session.id, call.state.core);
        call.state.shared.channels.subscribe(subscriber, COMMANDS, Topic::Commands);
        call.state.tell_of(call.session.id, |client| client.monitors = true);
        call.reply.ok();
    }
    Ok(())
}

/// Returns an error if the client monitors and the command uses keys.
pub(super) fn check(spec: &Spec, state: &State, session: &Session, arguments: &[&[u8]]) -> Checked {
    let monitors = !session.commands.is_empty();
    if monitors && (may_change(spec, state, arguments) || has_flag(spec, arguments, "readonly")) {
        return Err("ERR Replica can't interact with the keyspace".into());
    }
    Ok(())
}

fn has_flag(spec: &Spec, arguments: &[&[u8]], flag: &str) -> bool {
    facts(&counted_names()[spec.counted(arguments)]).is_some_and(|facts| facts.has(flag))
}

/// Runs a command with `run`, and then tells the clients that monitor. The command may be one of
/// `EXEC` or a script. Its line is then sent when these have taken effect.
pub(super) fn told<M: FullMemory>(
    spec: &Spec,
    call: &mut Call<'_, M>,
    run: impl FnOnce(&mut Call<'_, M>) -> Checked,
) -> Checked {
    // A command that waits again was shown when it came.
    if !call.state.shared.channels.is_monitored() || call.session.resumed.is_some() {
        return run(call);
    }
    let is_script = spec.access == Access::Script;
    let (is_part, database) = (call.session.published.is_some(), call.session.database);
    if is_part && is_script {
        add(spec, call, database);
        return run(call);
    }
    let outcome = run(call);
    if is_part {
        add(spec, call, call.session.database);
        return outcome;
    }
    let parts = std::mem::take(&mut call.session.monitored).list;
    // As in Redis, a script stands before its commands, and `EXEC` behind those of its body.
    if is_script {
        let own = line(spec, call, database);
        send(call, own.into_iter().chain(parts));
    } else {
        let own = line(spec, call, call.session.database);
        send(call, parts.into_iter().chain(own));
    }
    outcome
}

/// Sends lines to the clients that monitor.
fn send<M: FullMemory>(call: &mut Call<'_, M>, lines: impl Iterator<Item = Vec<u8>>) {
    let Call { memory, state, .. } = call;
    let mut sent_bytes = 0;
    for line in lines {
        let channels = &state.shared.channels;
        let receivers = channels
            .publish((COMMANDS, Topic::Commands), &line, |to, message| state.send(to, message));
        sent_bytes += line.len() + LINE_BYTES * receivers;
        if sent_bytes >= SENT_BYTES_MAX {
            memory.let_others_run();
            sent_bytes = 0;
        }
    }
}

/// Adds the line of a command of `EXEC` or a script, unless the lines take too much memory.
fn add<M: FullMemory>(spec: &Spec, call: &mut Call<'_, M>, database: usize) {
    let most = call.state.settings().announced_bytes_max();
    if call.session.monitored.bytes >= most {
        return;
    }
    if let Some(line) = line(spec, call, database) {
        call.session.monitored.bytes += line.len() + LINE_BYTES;
        call.session.monitored.list.push(line);
    }
}

/// Returns the line of a command: the time, the database, the client and the arguments. `None` if
/// the command is not shown.
fn line<M: FullMemory>(spec: &Spec, call: &Call<'_, M>, database: usize) -> Option<Vec<u8>> {
    let hidden = ["admin", "skip_monitor"];
    let is_hidden = hidden.iter().any(|flag| has_flag(spec, call.arguments, flag));
    if is_hidden && spec.access != Access::Script {
        return None;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut text = format!("{}.{:06} [{database} ", now.as_secs(), now.subsec_micros());
    if call.session.in_script {
        text.push_str("lua");
    } else {
        call.state.tell_of(call.session.id, |client| {
            // The address of a client of the Unix socket is the path, with port 0.
            match client.addresses[0].strip_suffix(":0") {
                Some(path) => text.extend(["unix:", path]),
                None => text.push_str(&client.addresses[0]),
            }
        });
    }
    text.push(']');
    for (index, word) in without_secrets(spec, call.arguments).iter().enumerate() {
        text.push_str(" \"");
        let start = text.len();
        let staged = call.staged.iter().find(|staged| staged.argument == index);
        let bytes = staged.map_or(word.len() as u64, |staged| staged.bytes());
        if bytes <= LINE_BYTES_MAX as u64 {
            quote(word, &mut text);
        }
        if bytes > LINE_BYTES_MAX as u64 || text.len() - start > LINE_BYTES_MAX {
            text.truncate(start);
            text.push_str(&format!("({bytes} bytes)"));
        }
        text.push('"');
        let left = call.arguments.len() - 1 - index;
        if text.len() > LINE_BYTES_MAX && left > 0 {
            text.push_str(&format!(" \"... ({left} more arguments)\""));
            break;
        }
    }
    Some(text.into_bytes())
}

/// Appends bytes as Redis shows them between quotes.
fn quote(bytes: &[u8], text: &mut String) {
    for byte in bytes {
        match byte {
            b'\\' | b'"' => text.extend(['\\', char::from(*byte)]),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            7 => text.push_str("\\a"),
            8 => text.push_str("\\b"),
            b' '..=b'~' => text.push(char::from(*byte)),
            // Writing to a string does not fail.
            _ => _ = write!(text, "\\x{byte:02x}"),
        }
    }
}
