//! `CONFIG`: the settings of the server.

use std::sync::atomic::Ordering;

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{DATABASES, VALUE_BYTES_MAX};

use super::{Call, Checked, Failure, Outcome, SYNTAX};
use crate::acl;
use crate::events::Classes;
use crate::eviction::EvictionPolicy;
use crate::glob;
use crate::number::integer;
use crate::slow::{KEPT_MAX, Slow};
use crate::state::State;

/// Settings that may change while the server runs.
const LATENCY_THRESHOLD: &str = "latency-monitor-threshold";
const SLOWLOG_THRESHOLD: &str = "slowlog-log-slower-than";
const SLOWLOG_LENGTH: &str = "slowlog-max-len";
const TIMEOUT: &str = "timeout";
const SCRIPT_LIMIT: &str = "busy-reply-threshold";
const SCRIPT_LIMIT_BEFORE: &str = "lua-time-limit";
const KEEPALIVE: &str = "tcp-keepalive";
const POLICY: &str = "maxmemory-policy";
const EVENTS: &str = "notify-keyspace-events";
const ACL_LOG_LENGTH: &str = "acllog-max-len";
const CHANNELS: &str = "acl-pubsub-default";

/// The settings that `CONFIG GET` returns.
fn settings(state: &State) -> Vec<(&'static str, String)> {
    let (settings, slow) = (state.settings(), state.slow());
    let channels = match state.shared.acl.has_channels_by_default() {
        true => "allchannels",
        false => "resetchannels",
    };
    vec![
        (LATENCY_THRESHOLD, slow.spike_ms.to_string()),
        (SLOWLOG_THRESHOLD, slow.threshold_us.to_string()),
        (SLOWLOG_LENGTH, slow.kept_max.to_string()),
        (
            "aclfile",
            settings.acl_file.as_ref().map_or(String::new(), |path| path.display().to_string()),
        ),
        (ACL_LOG_LENGTH, state.shared.acl.log().kept_max().to_string()),
        (CHANNELS, channels.into()),
        ("appendonly", "no".into()),
        (SCRIPT_LIMIT, state.shared.slow_scripts.limit_ms().to_string()),
        (SCRIPT_LIMIT_BEFORE, state.shared.slow_scripts.limit_ms().to_string()),
        ("cluster-enabled", if settings.cluster.is_some() { "yes" } else { "no" }.into()),
        ("databases", DATABASES.to_string()),
        ("dir", settings.data.clone()),
        ("durability", settings.durability.clone()),
        ("maxclients", settings.clients_max.to_string()),
        ("maxmemory", settings.capacity_bytes.to_string()),
        (POLICY, state.shared.eviction.policy().to_string()),
        (EVENTS, state.events().to_string()),
        ("port", settings.port.to_string()),
        ("proto-max-bulk-len", VALUE_BYTES_MAX.to_string()),
        ("save", String::new()),
        (KEEPALIVE, state.shared.keepalive_s.load(Ordering::Relaxed).to_string()),
        (TIMEOUT, state.shared.timeout_s.load(Ordering::Relaxed).to_string()),
    ]
}

/// The settings that [`change`] changes.
const CHANGEABLE: [&str; 11] = [
    LATENCY_THRESHOLD,
    SLOWLOG_THRESHOLD,
    SLOWLOG_LENGTH,
    TIMEOUT,
    SCRIPT_LIMIT,
    SCRIPT_LIMIT_BEFORE,
    KEEPALIVE,
    POLICY,
    EVENTS,
    ACL_LOG_LENGTH,
    CHANNELS,
];

fn failed(name: &str, reason: &str) -> Failure {
    format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}").into()
}

/// Changes settings, all or none.
fn set<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (pairs, odd) = call.arguments[2..].as_chunks::<2>();
    if !odd.is_empty() {
        return Err(SYNTAX.into());
    }
    let before = settings(call.state);
    let value_of =
        |name: &[u8]| before.iter().find(|(of, _)| name.eq_ignore_ascii_case(of.as_bytes()));
    let mut names: Vec<&str> = Vec::new();
    for [given, value] in pairs {
        let shown = String::from_utf8_lossy(given);
        let Some((name, now)) = value_of(given) else {
            let text = "ERR Unknown option or number of arguments for CONFIG SET";
            return Err(format!("{text} - '{shown}'").into());
        };
        // A library may set what is so anyway.
        if !CHANGEABLE.contains(name) && now.as_bytes() != *value {
            return Err(failed(&shown, "can't set immutable config").into());
        }
        if names.contains(name) {
            return Err(failed(&shown, "duplicate parameter").into());
        }
        names.push(name);
    }
    for (index, (name, [_, value])) in names.iter().zip(pairs).enumerate() {
        if let Err(failure) = change(call.state, name, value) {
            for name in names[..index].iter().rev() {
                let value =
                    value_of(name.as_bytes()).map_or(&b""[..], |(_, value)| value.as_bytes());
                // It had this value before, so it takes it.
                let _ = change(call.state, name, value);
            }
            return Err(failure.into());
        }
    }
    call.reply.ok();
    Ok(())
}

/// Changes one setting. One that may not change stays as it is.
fn change(state: &State, name: &str, value: &[u8]) -> Checked {
    let most = match name {
        POLICY => return change_policy(state, value),
        EVENTS => return change_events(state, value),
        CHANNELS => return change_channels(state, value),
        ACL_LOG_LENGTH => acl::KEPT_MAX as i64,
        SLOWLOG_THRESHOLD | LATENCY_THRESHOLD => i64::MAX / 1000,
        SLOWLOG_LENGTH => KEPT_MAX as i64,
        TIMEOUT | KEEPALIVE => i64::from(i32::MAX),
        SCRIPT_LIMIT | SCRIPT_LIMIT_BEFORE => i64::MAX,
        _ => return Ok(()),
    };
    let least = if name == SLOWLOG_THRESHOLD { -1 } else { 0 };
    let value = integer(value).filter(|value| (least..=most).contains(value));
    let Some(value) = value else {
        let reason = format!("argument must be between {least} and {most} inclusive");
        return Err(failed(name, &reason));
    };
    let shared = &state.shared;
    match name {
        TIMEOUT => shared.timeout_s.store(value as u64, Ordering::Relaxed),
        SCRIPT_LIMIT | SCRIPT_LIMIT_BEFORE => shared.slow_scripts.set_limit_ms(value as u64),
        ACL_LOG_LENGTH => shared.acl.log().keep(value as usize),
        KEEPALIVE => shared.keepalive_s.store(value as u64, Ordering::Relaxed),
        SLOWLOG_THRESHOLD => shared.slow.change(|slow| slow.threshold_us = value),
        LATENCY_THRESHOLD => shared.slow.change(|slow| slow.spike_ms = value as u64),
        _ => shared.slow.change(|slow| slow.kept_max = value as usize),
    }
    Ok(())
}

/// Changes the classes of events that are published.
fn change_events(state: &State, value: &[u8]) -> Checked {
    let classes = std::str::from_utf8(value)
        .ok()
        .and_then(Classes::parse)
        .ok_or_else(|| failed(EVENTS, "Invalid event class character. Use 'Ag$lshzxeKEtmdn'."))?;
    state.shared.events.store(classes.bits(), Ordering::Relaxed);
    Ok(())
}

/// Changes whether new users have all channels.
fn change_channels(state: &State, value: &[u8]) -> Checked {
    let every = value.eq_ignore_ascii_case(b"allchannels");
    if !every && !value.eq_ignore_ascii_case(b"resetchannels") {
        let reason = "argument(s) must be one of the following: allchannels, resetchannels";
        return Err(failed(CHANNELS, reason));
    }
    state.shared.acl.set_channels_by_default(every);
    Ok(())
}

/// Changes the policy of eviction.
fn change_policy(state: &State, value: &[u8]) -> Checked {
    let name = String::from_utf8_lossy(value).to_lowercase();
    let policy: EvictionPolicy = name.parse().map_err(|_| {
        let names = EvictionPolicy::ALL.map(EvictionPolicy::name).join(", ");
        failed(POLICY, &format!("argument must be one of the following: {names}"))
    })?;
    match state.shared.eviction.set_policy(policy) {
        true => Ok(()),
        false => {
            let reason = "needs DRAM from the start: restart with --maxmemory-policy";
            Err(failed(POLICY, &format!("{policy} {reason} {policy}")))
        }
    }
}

pub(super) fn config<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    if call.is(1, "GET") && call.arguments.len() >= 3 {
        let all = settings(call.state);
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
        call.state.shared.cores.iter().for_each(|core| core.statistics.reset());
        call.state.shared.storage.reset();
        call.state.shared.slow.change(Slow::reset_times);
        call.reply.ok();
        return Ok(());
    }
    if call.is(1, "SET") && call.arguments.len() >= 4 {
        return set(call);
    }
    let name = String::from_utf8_lossy(call.arguments[1]).to_lowercase();
    Err(format!("ERR wrong number of arguments for 'config|{name}' command").into())
}
