//! `MULTI` and `EXEC`: several commands that take effect as one step.

use std::sync::atomic::Ordering;

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::KEY_BYTES_MAX;

use super::permission::check_queued;
use super::pubsub::{check_announced, send_published};
use super::scripting::with_session_interpreter;
use super::table::{self, Access};
use super::{Call, Checked, Outcome, Stop, Writer, bytes_of, reply_failure, run_to_end, timed};
use crate::large::Staged;
use crate::session::{Messages, Queued, QueuedCommand, Session};
use crate::space;
use crate::state::State;

/// Maximum number of keys that a connection watches.
pub(crate) const WATCHED_MAX: usize = 10_000;

/// DRAM bytes of a watched key, apart from the two copies of its name.
const WATCHED_BYTES: usize = 256;

pub(super) fn multi<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    if call.session.queued.is_some() {
        return Err("ERR MULTI calls can not be nested".into());
    }
    call.session.queued = Some(Queued::default());
    call.reply.ok();
    Ok(())
}

pub(super) fn discard<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    if call.session.queued.take().is_none() {
        return Err("ERR DISCARD without MULTI".into());
    }
    forget(call.state, call.session);
    call.reply.ok();
    Ok(())
}

pub(super) fn watch<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    if call.session.queued.is_some() {
        return Err("ERR WATCH inside MULTI is not allowed".into());
    }
    if call.session.watched.len() + call.arguments.len() > WATCHED_MAX {
        return Err(format!("ERR a connection watches at most {WATCHED_MAX} keys").into());
    }
    // A longer key never exists, so it never changes.
    for key in call.arguments[1..].iter().filter(|key| key.len() <= KEY_BYTES_MAX) {
        let database = call.session.database;
        if call.session.watched.insert((database, key.to_vec())) {
            call.session.watched_bytes += key.len() * 2 + WATCHED_BYTES;
            call.state.watch(call.session.id, database, key, &call.session.broken);
        }
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn unwatch<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    forget(call.state, call.session);
    call.reply.ok();
    Ok(())
}

/// Ends the watching of all keys.
pub fn forget(state: &State, session: &mut Session) {
    state.unwatch(session.id, std::mem::take(&mut session.watched));
    session.watched_bytes = 0;
    session.broken.store(false, Ordering::SeqCst);
}

pub(super) fn exec<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let Some(queued) = call.session.queued.take() else {
        return Err("ERR EXEC without MULTI".into());
    };
    let outcome = match queued.failed {
        true => Err("EXECABORT Transaction discarded because of previous errors.".into()),
        false => run_all(call, &queued.commands),
    };
    forget(call.state, call.session);
    Ok(outcome?)
}

/// Runs the commands unless a watched key has changed. It holds the stripes of watched keys too,
/// so none changes between that check and the commands.
fn run_all<M: FullMemory>(call: &mut Call<'_, M>, commands: &[QueuedCommand]) -> Checked {
    let commands: Vec<(Vec<&[u8]>, &[Staged])> =
        commands.iter().map(|command| (command.arguments(), &command.staged[..])).collect();
    let mut hashes = Vec::new();
    let (mut alone, mut scripts) = (false, false);
    for (arguments, _) in &commands {
        let spec = table::find(arguments[0]).expect("it was looked up when it was queued");
        let access = spec.access_with(arguments);
        scripts |= access == Access::Script;
        alone |= matches!(access, Access::Everything | Access::Unordered | Access::Script);
        hashes.extend(spec.keys(arguments).map(|key| call.keyspace().key(key).hash));
    }
    let watched = call.session.watched.iter();
    hashes.extend(watched.map(|(_, key)| call.keyspace().key(key).hash));
    let keyless = hashes.is_empty() && !alone;
    if alone {
        hashes.clear();
    }
    // A script waits for an interpreter before it holds stripes that others may need.
    match scripts {
        true => with_session_interpreter(call, |call| run_held(call, &commands, &hashes, keyless)),
        false => run_held(call, &commands, &hashes, keyless),
    }
}

/// Runs the commands under the stripes of these hashes.
fn run_held<M: FullMemory>(
    call: &mut Call<'_, M>,
    commands: &[(Vec<&[u8]>, &[Staged])],
    hashes: &[u64],
    keyless: bool,
) -> Checked {
    let keyspace = call.keyspace();
    let (start, begin) = (call.reply.len(), call.reply.begun());
    let (database, user) = (call.session.database, call.session.user.clone());
    let Call { memory, state, session, reply, .. } = call;
    let mut body = |memory: &mut M| {
        reply.truncate(start);
        if session.broken.load(Ordering::SeqCst) {
            reply.null_array();
            return;
        }
        session.database = database;
        session.user.clone_from(&user);
        session.published = Some(Messages::default());
        session.start_over();
        reply.array(commands.len());
        for (arguments, staged) in commands {
            let writer = Writer::Within;
            let mut call = Call { memory, state, session, arguments, staged, reply, writer };
            run_one(&mut call, begin);
        }
    };
    if keyless {
        body(memory);
        send_published(*memory, state, session, reply);
        return Ok(());
    }
    let bytes = commands.iter().map(|(arguments, _)| bytes_of(arguments)).sum();
    space::prepare(*memory, state, &keyspace, bytes);
    let ran = state.unless_busy(*memory, |memory| {
        state.exclusive(memory, &keyspace, hashes, body).map_err(|error| error.to_string())
    });
    let reason = match ran {
        Ok(Ok(((), lsn))) => {
            send_published(*memory, state, session, reply);
            session.written = session.written.max(lsn);
            return Ok(());
        }
        Ok(Err(error)) => format!(": {error}"),
        Err(busy) => format!(" because of: {}", busy.text()),
    };
    session.published = None;
    session.start_over();
    session.database = database;
    Err(format!("EXECABORT Transaction discarded{reason}").into())
}

/// Runs a command of a transaction. The caller holds its stripes. A failure becomes its reply.
/// The reply of the transaction began at `begin`.
fn run_one<M: FullMemory>(call: &mut Call<'_, M>, begin: usize) {
    call.reply.resume(begin);
    let room = call.keep_reply_short().map_err(Stop::failure);
    let start = call.reply.len();
    let spec = table::find(call.arguments[0]).expect("it was looked up when it was queued");
    // Its reply is dropped if it fails, so no part of it moves to flash with what is before it.
    call.reply.begin();
    let checked = room
        .and_then(|()| check_announced(call.state, call.session, 0))
        .and_then(|()| check_queued(call.session, spec, call.arguments));
    let ran = checked.and_then(|()| timed(spec, call, |call| run_to_end(spec.id, call)));
    call.reply.resume(begin);
    if let Err(failure) = ran {
        call.reply.truncate(start);
        reply_failure(call.state, call.reply, &failure);
    }
}
