//! Commands on channels.

use ebbtide_core::FullMemory;

use super::{Call, Checked, Outcome};
use crate::channels::Topic;
use crate::glob;
use crate::resp::Reply;
use crate::session::{Published, Session};
use crate::state::State;

/// Maximum number of channels and patterns of a connection.
pub(crate) const SUBSCRIPTIONS_MAX: usize = 10_000;

/// DRAM bytes of a subscription, apart from the two copies of the channel's name.
const SUBSCRIPTION_BYTES: usize = 256;

/// Messages and events that are sent before other jobs run.
pub(super) const SENT_AT_ONCE: usize = 64;

fn subscription_bytes(channel: &[u8]) -> usize {
    channel.len() * 2 + SUBSCRIPTION_BYTES
}

pub(super) fn subscribe<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    join(call, Topic::Channel)
}

pub(super) fn psubscribe<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    join(call, Topic::Pattern)
}

pub(super) fn ssubscribe<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    // As in Redis, it is refused within `EXEC`.
    if call.session.published.is_some() {
        return Err("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client".into());
    }
    join(call, Topic::ShardChannel)
}

/// Words of messages on subscriptions of a kind: that one has begun, and that it has ended.
fn words(topic: Topic) -> [&'static str; 2] {
    match topic {
        Topic::Channel => ["subscribe", "unsubscribe"],
        Topic::Pattern => ["psubscribe", "punsubscribe"],
        Topic::ShardChannel => ["ssubscribe", "sunsubscribe"],
        // MONITOR replies with OK, and nothing but RESET ends it.
        Topic::Commands => [""; 2],
    }
}

fn join<M: FullMemory>(call: &mut Call<'_, M>, topic: Topic) -> Outcome {
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
        if call.session.subscribed(topic).insert(channel.to_vec()) {
            call.session.subscribed_bytes += bytes;
            let subscriber = (call.session.id, call.state.core);
            call.state.shared.channels.subscribe(subscriber, channel, topic);
        }
        tell(call, topic, words(topic)[0], Some(channel));
    }
    Ok(())
}

pub(super) fn unsubscribe<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    leave(call, Topic::Channel)
}

pub(super) fn punsubscribe<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    leave(call, Topic::Pattern)
}

pub(super) fn sunsubscribe<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    leave(call, Topic::ShardChannel)
}

fn leave<M: FullMemory>(call: &mut Call<'_, M>, topic: Topic) -> Outcome {
    let word = words(topic)[1];
    let channels = match &call.arguments[1..] {
        [] => call.session.subscribed(topic).iter().cloned().collect::<Vec<_>>(),
        named => named.iter().map(|name| name.to_vec()).collect(),
    };
    if channels.is_empty() {
        tell(call, topic, word, None);
    }
    for channel in channels {
        if call.session.subscribed(topic).remove(&channel) {
            call.session.subscribed_bytes -= subscription_bytes(&channel);
            call.state.shared.channels.unsubscribe(call.session.id, &channel, topic);
        }
        tell(call, topic, word, Some(&channel));
    }
    Ok(())
}

/// Writes the message on a subscription that has begun or ended. Channels of a slot have a number
/// of their own.
fn tell<M: FullMemory>(call: &mut Call<'_, M>, topic: Topic, word: &str, channel: Option<&[u8]>) {
    let sharded = call.session.shard_channels.len();
    let count = match topic {
        Topic::ShardChannel => sharded,
        _ => call.session.subscriptions() - sharded,
    };
    call.session.pushed = true;
    call.reply.push(3);
    call.reply.bulk(word.as_bytes());
    call.reply.bulk_or_null(channel);
    call.reply.integer(count as i64);
}

/// Ends all subscriptions of a connection.
pub fn leave_all(state: &State, session: &mut Session) {
    session.subscribed_bytes = 0;
    for topic in [Topic::Channel, Topic::Pattern, Topic::ShardChannel, Topic::Commands] {
        for channel in std::mem::take(session.subscribed(topic)) {
            state.shared.channels.unsubscribe(session.id, &channel, topic);
        }
    }
}

/// A client that publishes to itself gets the message at once, before the replies of its next
/// commands. Other clients get messages published within `EXEC` after it has succeeded. Messages of
/// a script come before its reply, also to its own client.
pub(super) fn publish<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    publish_to(call, Topic::Channel)
}

pub(super) fn spublish<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    publish_to(call, Topic::ShardChannel)
}

fn publish_to<M: FullMemory>(call: &mut Call<'_, M>, topic: Topic) -> Outcome {
    let (channel, text) = (call.arguments[1], call.arguments[2]);
    let (state, me) = (call.state, call.session.id);
    let at_once = call.session.published.is_none();
    check_announced(call.state, call.session, channel.len() + text.len())?;
    let mut own = Vec::new();
    let receivers = state.shared.channels.publish((channel, topic), text, |subscriber, message| {
        if subscriber.0 == me {
            own.push(message);
        } else if at_once {
            state.send(subscriber, message);
        }
    });
    let to_self = call.session.in_script && !own.is_empty();
    if let Some(published) = &mut call.session.published {
        published.add(Published {
            channel: (channel.to_vec(), topic),
            text: text.to_vec(),
            to_self,
        });
    }
    if !call.session.in_script {
        call.session.pushed |= !own.is_empty();
        own.iter().for_each(|message| call.reply.message(message));
    }
    call.reply.integer(receivers as i64);
    Ok(())
}

/// Returns an error if what the current `EXEC` or script announces takes too much memory, with
/// `more` bytes.
pub(super) fn check_announced(state: &State, session: &Session, more: usize) -> Checked {
    let most = state.settings().announced_bytes_max();
    if session.published.is_some() && session.announced_bytes() + more > most {
        let text = "the messages and events of a transaction or script take at most";
        return Err(format!("OOM {text} {most} bytes").into());
    }
    Ok(())
}

/// Sends the messages that `EXEC` or a script has published. Lets other jobs run, so that
/// connections take them.
pub(super) fn send_published<M: FullMemory>(
    memory: &mut M,
    state: &State,
    session: &mut Session,
    reply: &mut Reply,
) {
    let me = session.id;
    let messages = session.published.take().unwrap_or_default().list;
    for (index, Published { channel: (channel, topic), text, to_self }) in
        messages.into_iter().enumerate()
    {
        if index > 0 && index.is_multiple_of(SENT_AT_ONCE) {
            memory.let_others_run();
        }
        state.shared.channels.publish((&channel, topic), &text, |subscriber, message| {
            if subscriber.0 != me {
                state.send(subscriber, message);
            } else if to_self {
                session.pushed = true;
                reply.message(&message);
            }
        });
    }
}

pub(super) fn pubsub<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let subcommand = call.arguments[1].to_ascii_uppercase();
    match (subcommand.as_slice(), &call.arguments[2..]) {
        (b"CHANNELS", patterns) if patterns.len() <= 1 => list(call, Topic::Channel),
        (b"SHARDCHANNELS", patterns) if patterns.len() <= 1 => list(call, Topic::ShardChannel),
        (b"NUMSUB", _) => count(call, Topic::Channel),
        (b"SHARDNUMSUB", _) => count(call, Topic::ShardChannel),
        (b"NUMPAT", []) => call.reply.integer(call.state.shared.channels.pattern_count() as i64),
        _ => {
            let name = String::from_utf8_lossy(call.arguments[1]).to_lowercase();
            let text = format!("ERR wrong number of arguments for 'pubsub|{name}' command");
            return Err(text.into());
        }
    }
    Ok(())
}

/// Replies with the channels that have subscribers and match the pattern, if there is one.
fn list<M>(call: &mut Call<'_, M>, topic: Topic) {
    let mut channels = call.state.shared.channels.names(topic);
    let patterns = call.arguments[2..].iter();
    channels.retain(|(name, _)| patterns.clone().all(|p| glob::matches(p, name)));
    call.reply.array(channels.len());
    channels.iter().for_each(|(name, _)| call.reply.bulk(name));
}

/// Replies with the number of subscribers of each channel.
fn count<M>(call: &mut Call<'_, M>, topic: Topic) {
    let names = &call.arguments[2..];
    let channels = call.state.shared.channels.names(topic);
    call.reply.array(names.len() * 2);
    for name in names {
        let count = channels.iter().find(|(channel, _)| channel == name);
        call.reply.bulk(name);
        call.reply.integer(count.map_or(0, |(_, count)| *count as i64));
    }
}
