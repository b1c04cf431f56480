//! Commands on channels.

use ebbtide_core::Memory;

use super::{Call, Outcome};
use crate::glob;
use crate::resp::Reply;
use crate::session::{Published, Session};
use crate::state::State;

/// Maximum number of channels and patterns of a connection.
pub(crate) const SUBSCRIPTIONS_MAX: usize = 10_000;

/// DRAM bytes of a subscription, apart from the two copies of the channel's name.
const SUBSCRIPTION_BYTES: usize = 256;

fn subscription_bytes(channel: &[u8]) -> usize {
    channel.len() * 2 + SUBSCRIPTION_BYTES
}

pub(super) fn subscribe<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    join(call, "subscribe", false)
}

pub(super) fn psubscribe<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    join(call, "psubscribe", true)
}

fn join<M: Memory>(call: &mut Call<'_, M>, word: &str, pattern: bool) -> Outcome {
    for channel in &call.arguments[1..] {
        if call.session.subscriptions() >= SUBSCRIPTIONS_MAX {
            return Err(format!("ERR a connection has at most {SUBSCRIPTIONS_MAX} channels").into());
        }
        let bytes = subscription_bytes(channel);
        let most = call.state.settings().argument_bytes_max;
        if call.session.subscribed_bytes + bytes > most {
            return Err(
                format!("ERR the channels of a connection take at most {most} bytes").into()
            );
        }
        let joined = if pattern { &mut call.session.patterns } else { &mut call.session.channels };
        if joined.insert(channel.to_vec()) {
            call.session.subscribed_bytes += bytes;
            let subscriber = (call.session.id, call.state.core);
            call.state.shared.channels.subscribe(subscriber, channel, pattern);
        }
        tell(call, word, Some(channel));
    }
    Ok(())
}

pub(super) fn unsubscribe<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    leave(call, "unsubscribe", false)
}

pub(super) fn punsubscribe<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    leave(call, "punsubscribe", true)
}

fn leave<M: Memory>(call: &mut Call<'_, M>, word: &str, pattern: bool) -> Outcome {
    let joined = |session: &Session| {
        let joined = if pattern { &session.patterns } else { &session.channels };
        joined.iter().cloned().collect::<Vec<_>>()
    };
    let channels = match &call.arguments[1..] {
        [] => joined(call.session),
        named => named.iter().map(|name| name.to_vec()).collect(),
    };
    if channels.is_empty() {
        tell(call, word, None);
    }
    for channel in channels {
        let joined = if pattern { &mut call.session.patterns } else { &mut call.session.channels };
        if joined.remove(&channel) {
            call.session.subscribed_bytes -= subscription_bytes(&channel);
            call.state.shared.channels.unsubscribe(call.session.id, &channel, pattern);
        }
        tell(call, word, Some(&channel));
    }
    Ok(())
}

fn tell<M: Memory>(call: &mut Call<'_, M>, word: &str, channel: Option<&[u8]>) {
    call.session.pushed = true;
    call.reply.push(3);
    call.reply.bulk(word.as_bytes());
    call.reply.bulk_or_null(channel);
    call.reply.integer(call.session.subscriptions() as i64);
}

/// Ends all subscriptions of a connection.
pub fn leave_all(state: &State, session: &mut Session) {
    session.subscribed_bytes = 0;
    for channel in std::mem::take(&mut session.channels) {
        state.shared.channels.unsubscribe(session.id, &channel, false);
    }
    for pattern in std::mem::take(&mut session.patterns) {
        state.shared.channels.unsubscribe(session.id, &pattern, true);
    }
}

/// A client that publishes to itself gets the message at once, before the replies of its next
/// commands. Other clients get messages published within `EXEC` after it has succeeded. Messages of
/// a script come before its reply, also to its own client.
pub(super) fn publish<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    let (channel, text) = (call.arguments[1], call.arguments[2]);
    let (state, me) = (call.state, call.session.id);
    let at_once = call.session.published.is_none();
    let mut own = Vec::new();
    let receivers = state.shared.channels.publish(channel, text, |subscriber, message| {
        if subscriber.0 == me {
            own.push(message);
        } else if at_once {
            state.send(subscriber, message);
        }
    });
    let to_self = call.session.in_script && !own.is_empty();
    if let Some(published) = &mut call.session.published {
        published.push(Published { channel: channel.to_vec(), text: text.to_vec(), to_self });
    }
    if !call.session.in_script {
        call.session.pushed |= !own.is_empty();
        own.iter().for_each(|message| call.reply.message(message));
    }
    call.reply.integer(receivers as i64);
    Ok(())
}

/// Sends the messages that `EXEC` or a script has published.
pub(super) fn send_published(state: &State, session: &mut Session, reply: &mut Reply) {
    let me = session.id;
    for Published { channel, text, to_self } in session.published.take().into_iter().flatten() {
        state.shared.channels.publish(&channel, &text, |subscriber, message| {
            if subscriber.0 != me {
                state.send(subscriber, message);
            } else if to_self {
                session.pushed = true;
                reply.message(&message);
            }
        });
    }
}

pub(super) fn pubsub<M: Memory>(call: &mut Call<'_, M>) -> Outcome {
    let subcommand = call.arguments[1].to_ascii_uppercase();
    match (subcommand.as_slice(), &call.arguments[2..]) {
        (b"CHANNELS", patterns) if patterns.len() <= 1 => {
            let mut channels = call.state.shared.channels.names();
            channels.retain(|(name, _)| patterns.iter().all(|p| glob::matches(p, name)));
            call.reply.array(channels.len());
            channels.iter().for_each(|(name, _)| call.reply.bulk(name));
        }
        (b"NUMSUB", names) => {
            let channels = call.state.shared.channels.names();
            call.reply.array(names.len() * 2);
            for name in names {
                let count = channels.iter().find(|(channel, _)| channel == name);
                call.reply.bulk(name);
                call.reply.integer(count.map_or(0, |(_, count)| *count as i64));
            }
        }
        (b"NUMPAT", []) => call.reply.integer(call.state.shared.channels.pattern_count() as i64),
        _ => {
            let name = String::from_utf8_lossy(call.arguments[1]).to_lowercase();
            let text = format!("ERR wrong number of arguments for 'pubsub|{name}' command");
            return Err(text.into());
        }
    }
    Ok(())
}
