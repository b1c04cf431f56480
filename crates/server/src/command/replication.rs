//! `REPLICAOF` and `ROLE`: following a Redis.

use std::time::{Duration, Instant};

use ebbtide_core::FullMemory;

use super::facts::facts;
use super::{Call, Checked, Outcome, Spec, routing};
use crate::following::{LinkState, Master};
use crate::session::Session;
use crate::state::State;

/// The longest wait for the last changes of a master.
const ENDED_WITHIN: Duration = Duration::from_secs(5);

/// Returns an error if a client of this session may not run the command, because the keys are a
/// master's.
pub(super) fn check(spec: &Spec, state: &State, session: &Session) -> Checked {
    let writes = || facts(spec.name).is_some_and(|facts| facts.has("write"));
    match state.shared.following.refuses_changes() && !session.follows && writes() {
        true => Err("READONLY You can't write against a read only replica.".into()),
        false => Ok(()),
    }
}

/// `REPLICAOF host port`, or `REPLICAOF NO ONE`, which replies once the last changes of the master
/// are made.
pub(super) fn replicaof<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    routing::refuse(call, "ERR REPLICAOF not allowed in cluster mode.")?;
    let following = &call.state.shared.following;
    if call.is(1, "NO") && call.is(2, "ONE") {
        following.follow(None);
        let until = Instant::now() + ENDED_WITHIN;
        while following.is_ending() && Instant::now() < until {
            call.memory.let_others_run();
        }
    } else {
        let port = call.integer(2).ok().and_then(|port| u16::try_from(port).ok());
        let host = std::str::from_utf8(call.arguments[1]).ok();
        let (Some(host), Some(port)) = (host, port.filter(|port| *port > 0)) else {
            return Err("ERR Invalid master port".into());
        };
        following.follow(Some(Master { host: host.into(), port }));
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn role<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let following = &call.state.shared.following;
    let (_, master) = following.wanted();
    let Some(Master { host, port }) = master else {
        call.reply.array(3);
        call.reply.bulk(b"master");
        call.reply.integer(following.offset() as i64);
        call.reply.array(0);
        return Ok(());
    };
    call.reply.array(5);
    call.reply.bulk(b"slave");
    call.reply.bulk(host.as_bytes());
    call.reply.integer(port.into());
    call.reply.bulk(match following.state() {
        LinkState::Down => b"connect",
        LinkState::Copying => b"sync",
        LinkState::Up => b"connected",
    });
    call.reply.integer(following.offset() as i64);
    Ok(())
}

/// The section of `INFO`.
pub(super) fn section(state: &State) -> String {
    let following = &state.shared.following;
    let (_, master) = following.wanted();
    let (offset, id) = (following.offset(), &state.shared.run_id);
    let Some(Master { host, port }) = master else {
        return format!(
            "role:master\r\nconnected_slaves:0\r\nmaster_replid:{id}\r\nmaster_repl_offset:{offset}\r\n"
        );
    };
    let link = following.state();
    let (up, copying) = (link == LinkState::Up, link == LinkState::Copying);
    let silent = following.silent_s().map_or(-1, |seconds| seconds as i64);
    format!(
        "role:slave\r\nmaster_host:{host}\r\nmaster_port:{port}\r\nmaster_link_status:{}\r\n\
         master_last_io_seconds_ago:{silent}\r\nmaster_sync_in_progress:{}\r\n\
         slave_read_repl_offset:{offset}\r\nslave_repl_offset:{offset}\r\nslave_priority:100\r\n\
         slave_read_only:1\r\nmaster_changes_refused:{}\r\nconnected_slaves:0\r\n\
         master_replid:{id}\r\nmaster_repl_offset:{offset}\r\n",
        if up { "up" } else { "down" },
        u8::from(copying),
        following.refused(),
    )
}
