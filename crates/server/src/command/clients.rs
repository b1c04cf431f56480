//! Commands on the connection itself.

use std::sync::Arc;

use ebbtide_core::FullMemory;

use super::facts::facts;
use super::keys::database;
use super::scripting::declares_no_writes;
use super::table::queued;
use super::transactions::forget;
use super::{Arguments, Call, Failure, Id, Outcome, SYNTAX, Spec, counted_names, routing};
use crate::acl::{Account, Context, DEFAULT, Reason, Refusal};
use crate::number::integer;
use crate::pause::Paused;
use crate::protocol::Protocol;
use crate::session::{Blocked, Session, Silent};
use crate::shared::{ClientInfo, Note};
use crate::state::State;
use crate::statistics::Counter;

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";

pub(super) fn ping<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let text = call.arguments.get(1).copied();
    if call.session.subscriptions() > 0 && call.session.protocol == Protocol::Two {
        call.reply.array(2);
        call.reply.bulk(b"pong");
        call.reply.bulk(text.unwrap_or_default());
        return Ok(());
    }
    match (text, call.arguments.len()) {
        (None, _) => call.reply.status("PONG"),
        (Some(text), 2) => call.reply.bulk(text),
        _ => return Err("ERR wrong number of arguments for 'ping' command".into()),
    }
    Ok(())
}

pub(super) fn echo<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    call.reply.bulk(call.arguments[1]);
    Ok(())
}

pub(super) fn select<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    if call.integer(1)? != 0 {
        routing::refuse(call, "ERR SELECT is not allowed in cluster mode")?;
    }
    let number = database(call, 1)?;
    call.session.database = number;
    call.state.tell_of(call.session.id, |client| client.database = number);
    call.reply.ok();
    Ok(())
}

pub(super) fn quit<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    call.session.closing = true;
    call.reply.ok();
    Ok(())
}

pub(super) fn reset<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    forget(call.state, call.session);
    call.session.queued = None;
    super::pubsub::leave_all(call.state, call.session);
    call.state.tell_of(call.session.id, |client| client.monitors = false);
    let kept = std::mem::take(call.session);
    *call.session = Session { id: kept.id, written: kept.written, ..Session::default() };
    become_user(call.state, call.session, call.state.shared.acl.open_default());
    call.reply.protocol = Protocol::Two;
    call.reply.status("RESET");
    Ok(())
}

pub(super) fn auth<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let (user, password) = match call.arguments {
        [_, password] => (&b"default"[..], *password),
        [_, user, password] => (*user, *password),
        _ => return Err(SYNTAX.into()),
    };
    let takes_any =
        || call.state.shared.acl.find(user).is_some_and(|user| user.user().takes_any_password());
    if call.arguments.len() == 2 && takes_any() {
        return Err("ERR AUTH <password> called without any password configured for the default \
                    user. Are you sure your configuration is correct?"
            .into());
    }
    log_in(call, user, password)?;
    call.reply.ok();
    Ok(())
}

fn log_in<M: FullMemory>(call: &mut Call<'_, M>, user: &[u8], password: &[u8]) -> Outcome {
    let Some(account) = call.state.shared.acl.log_in(user, password) else {
        let (object, user) = (call.arguments[0].to_vec(), user.to_vec());
        let queues = call.session.queued.is_some() || call.session.published.is_some();
        let context = if queues { Context::Transaction } else { Context::Top };
        call.session.refuse(Refusal { reason: Reason::Login, context, object, user });
        return Err(WRONG_PASSWORD.into());
    };
    become_user(call.state, call.session, Some(account));
    Ok(())
}

/// Sets the user of a connection.
pub(super) fn become_user(state: &State, session: &mut Session, user: Option<Arc<Account>>) {
    if user.is_some() || session.user.is_some() {
        state.tell_of(session.id, |client| client.user.clone_from(&user));
        session.user = user;
    }
}

/// Returns true if the user of a connection was deleted. A connection without a user gets the
/// default one, if that needs no password.
pub(super) fn lost_user(state: &State, session: &mut Session) -> bool {
    if session.user.is_none() {
        become_user(state, session, state.shared.acl.open_default());
    }
    session.user.as_ref().is_some_and(|user| user.is_gone())
}

/// Moves what was refused to a command into the log.
pub(super) fn log_refused(state: &State, session: &mut Session) {
    let now_ms = state.now_ms.get();
    let mut client = String::new();
    state.tell_of(session.id, |info| client = line(session.id, info, now_ms));
    let mut log = state.shared.acl.log();
    for refusal in session.refused.drain(..) {
        log.add(refusal, now_ms, client.trim_end().as_bytes());
    }
}

pub(super) fn hello<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let mut protocol = call.session.protocol;
    if call.arguments.len() > 1 {
        let version = integer(call.arguments[1]);
        let version = version.ok_or("ERR Protocol version is not an integer or out of range")?;
        protocol = match version {
            2 => Protocol::Two,
            3 => Protocol::Three,
            _ => return Err("NOPROTO unsupported protocol version".into()),
        };
    }
    let mut name = None;
    let mut index = 2;
    while index < call.arguments.len() {
        let left = call.arguments.len() - index;
        if call.is(index, "AUTH") && left >= 3 {
            log_in(call, call.arguments[index + 1], call.arguments[index + 2])?;
            index += 3;
        } else if call.is(index, "SETNAME") && left >= 2 {
            name = Some(checked_name(call.arguments[index + 1])?);
            index += 2;
        } else {
            let option = String::from_utf8_lossy(call.arguments[index]).into_owned();
            return Err(format!("ERR Syntax error in HELLO option '{option}'").into());
        }
    }
    if call.session.user.is_none() {
        return Err(
            "NOAUTH HELLO must be called with the client already authenticated, otherwise \
                    the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the \
                    client and select the RESP protocol version at the same time"
                .into(),
        );
    }
    if let Some(name) = name {
        set_name(call, name);
    }
    call.session.protocol = protocol;
    call.reply.protocol = protocol;
    let reply = &mut *call.reply;
    reply.map(7);
    for (name, value) in [("server", "redis"), ("version", super::server::COMPATIBLE_VERSION)] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"proto");
    reply.integer(if protocol == Protocol::Three { 3 } else { 2 });
    reply.bulk(b"id");
    reply.integer(call.session.id as i64);
    for (name, value) in [("mode", mode(call.state)), ("role", "master")] {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
    reply.bulk(b"modules");
    reply.array(0);
    Ok(())
}

/// The mode of the server, as `HELLO` and `INFO` name it.
pub(super) fn mode(state: &State) -> &'static str {
    if state.settings().cluster.is_some() { "cluster" } else { "standalone" }
}

/// The longest name of a client in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 4096;

fn checked_name(name: &[u8]) -> Result<Vec<u8>, Failure> {
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("ERR a client's name has at most {NAME_BYTES_MAX} bytes").into());
    }
    if name.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
        return Err(
            "ERR Client names cannot contain spaces, newlines or special characters.".into()
        );
    }
    Ok(name.to_vec())
}

fn set_name<M: FullMemory>(call: &mut Call<'_, M>, name: Vec<u8>) {
    call.state.tell_of(call.session.id, |client| client.name.clone_from(&name));
    call.session.name = name;
}

pub(super) fn client<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let subcommand = call.arguments[1].to_ascii_uppercase();
    match (subcommand.as_slice(), call.arguments.len()) {
        (b"ID", 2) => call.reply.integer(call.session.id as i64),
        (b"GETNAME", 2) if call.session.name.is_empty() => call.reply.null(),
        (b"GETNAME", 2) => call.reply.bulk(&call.session.name),
        (b"SETNAME", 3) => {
            let name = checked_name(call.arguments[2])?;
            set_name(call, name);
            call.reply.ok();
        }
        // Names of libraries have no use here.
        (b"SETINFO", 4) if call.is(2, "LIB-NAME") || call.is(2, "LIB-VER") => call.reply.ok(),
        (b"SETINFO", 4) => {
            let name = String::from_utf8_lossy(call.arguments[2]);
            return Err(format!("ERR Unrecognized option '{name}'").into());
        }
        (b"NO-TOUCH", 3) if call.is(2, "ON") || call.is(2, "OFF") => {
            call.session.no_touch = call.is(2, "ON");
            call.reply.ok();
        }
        // No client is ever closed in favour of keys.
        (b"NO-EVICT", 3) if call.is(2, "ON") || call.is(2, "OFF") => call.reply.ok(),
        (b"NO-EVICT" | b"NO-TOUCH", 3) => return Err(SYNTAX.into()),
        (b"REPLY", 3) => {
            call.session.silent = match call.arguments[2].to_ascii_uppercase().as_slice() {
                b"ON" => Silent::Never,
                b"OFF" => Silent::Always,
                b"SKIP" if call.session.silent == Silent::Always => Silent::Always,
                b"SKIP" => Silent::Next,
                _ => return Err(SYNTAX.into()),
            };
            call.reply.ok();
        }
        (b"INFO", 2) => {
            let me = Filter { ids: Some(vec![call.session.id]), ..Filter::default() };
            let text = list(call, &me);
            call.reply.verbatim(&text);
        }
        (b"LIST", _) => {
            let filter = list_filter(call)?;
            let text = list(call, &filter);
            call.reply.verbatim(&text);
        }
        (b"KILL", 3) => {
            let filter = Filter { address: Some(text_of(call.arguments[2])), ..Filter::default() };
            if kill(call, &filter) == 0 {
                return Err("ERR No such client".into());
            }
            call.reply.ok();
        }
        (b"UNBLOCK", 3 | 4) => unblock(call)?,
        (b"PAUSE" | b"UNPAUSE", _) => pause(call)?,
        (b"KILL", 4..) => {
            let filter = kill_filter(call)?;
            let killed = kill(call, &filter);
            call.reply.integer(killed as i64);
        }
        _ => return Err(SYNTAX.into()),
    }
    Ok(())
}

/// `CLIENT PAUSE` and `CLIENT UNPAUSE`.
fn pause<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let pause = &call.state.shared.pause;
    let waiters = if call.is(1, "UNPAUSE") {
        pause.end()
    } else {
        if call.arguments.len() > 4 {
            let text = "ERR unknown subcommand or wrong number of arguments for 'pause'";
            return Err(format!("{text}. Try CLIENT HELP.").into());
        }
        let ms = integer(call.arguments[2]);
        let ms = ms.ok_or("ERR timeout is not an integer or out of range")?;
        let ms = u64::try_from(ms).map_err(|_| Failure::from("ERR timeout is negative"))?;
        let paused = match call.arguments.get(3) {
            None => Paused::All,
            Some(_) if call.is(3, "ALL") => Paused::All,
            Some(_) if call.is(3, "WRITE") => Paused::Writes,
            Some(_) => return Err("ERR CLIENT PAUSE mode must be WRITE or ALL".into()),
        };
        pause.begin(call.state.now_ms.get().saturating_add(ms), paused)
    };
    waiters.into_iter().for_each(|waiter| call.state.wake(waiter));
    call.reply.ok();
    Ok(())
}

/// Lets a command wait for the end of a pause. Returns false if there is none for it.
pub(super) fn postpone(
    spec: &Spec,
    state: &State,
    session: &mut Session,
    arguments: Arguments<'_>,
) -> bool {
    // A command that has waited for an element goes on.
    if session.follows || session.resumed.is_some() {
        return false;
    }
    let writes = || match spec.id {
        Id::Exec => queued(session).any(|(spec, words)| may_change(spec, state, &words)),
        _ => may_change(spec, state, arguments.words),
    };
    let waiter = (session.id, state.core);
    let until_ms = state.shared.pause.until_ms(waiter, state.now_ms.get(), writes);
    let Some(until_ms) = until_ms else { return false };
    session.blocked = Some(Box::new(Blocked {
        words: arguments.words.iter().map(|word| word.to_vec()).collect(),
        staged: arguments.staged.to_vec(),
        is_postponed: true,
        database: session.database,
        keys: Vec::new(),
        deadline_ms: Some(until_ms),
    }));
    true
}

/// True if a command may change keys or publish messages.
pub(super) fn may_change(spec: &Spec, state: &State, arguments: &[&[u8]]) -> bool {
    let counted = &counted_names()[spec.counted(arguments)];
    match spec.id {
        Id::Eval | Id::Evalsha => !declares_no_writes(spec, state, arguments),
        Id::Pfcount | Id::Publish | Id::Spublish => true,
        _ => facts(counted).is_some_and(|facts| facts.has("write")),
    }
}

/// `CLIENT UNBLOCK`: ends the waiting of a client. Replies with 1 if it waited.
fn unblock<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let fails = match call.arguments.get(3) {
        None => false,
        Some(_) if call.is(3, "TIMEOUT") => false,
        Some(_) if call.is(3, "ERROR") => true,
        Some(_) => return Err("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR".into()),
    };
    let id = u64::try_from(call.integer(2)?).unwrap_or(0);
    let shared = &call.state.shared;
    let core = shared.waiting.core_of(id);
    if let Some(core) = core {
        shared.tell(core, Note::Unblock { id, fails }, call.state.core);
    }
    call.reply.integer(core.is_some().into());
    Ok(())
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Filter of `CLIENT LIST` and `CLIENT KILL`. A connection must match all given fields.
#[derive(Default)]
struct Filter {
    ids: Option<Vec<u64>>,
    kind: Option<Kind>,
    address: Option<String>,
    own_address: Option<String>,
    users: Option<Vec<Arc<Account>>>,
    /// The connection to leave out.
    skips: Option<u64>,
}

/// Types of clients. Redis has more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Normal,
    Pubsub,
    /// A type of Redis that this server does not have.
    Other,
}

impl Filter {
    fn matches(&self, id: u64, client: &ClientInfo) -> bool {
        let kind = if client.is_subscribed() { Kind::Pubsub } else { Kind::Normal };
        let [address, own_address] = &client.addresses;
        self.ids.as_ref().is_none_or(|ids| ids.contains(&id))
            && self.kind.is_none_or(|wanted| wanted == kind)
            && self.address.as_ref().is_none_or(|wanted| wanted == address)
            && self.own_address.as_ref().is_none_or(|wanted| wanted == own_address)
            && self.users.as_ref().is_none_or(|users| {
                let is_its = |user| client.user.as_ref().is_some_and(|its| Arc::ptr_eq(its, user));
                users.iter().any(is_its)
            })
            && self.skips != Some(id)
    }
}

fn kind(text: &[u8]) -> Result<Kind, Failure> {
    match text.to_ascii_lowercase().as_slice() {
        b"normal" => Ok(Kind::Normal),
        b"pubsub" => Ok(Kind::Pubsub),
        b"master" | b"replica" | b"slave" => Ok(Kind::Other),
        _ => Err(format!("ERR Unknown client type '{}'", text_of(text)).into()),
    }
}

fn list_filter<M: FullMemory>(call: &Call<'_, M>) -> Result<Filter, Failure> {
    let given = &call.arguments[2..];
    match given {
        [] => Ok(Filter::default()),
        [_, name] if call.is(2, "TYPE") => {
            Ok(Filter { kind: Some(kind(name)?), ..Filter::default() })
        }
        [_, ids @ ..] if call.is(2, "ID") && !ids.is_empty() => {
            let ids = ids.iter().map(|id| integer(id).map(|id| id as u64));
            let ids: Option<Vec<u64>> = ids.collect();
            let ids = ids.ok_or("ERR Invalid client ID")?;
            Ok(Filter { ids: Some(ids), ..Filter::default() })
        }
        _ => Err(SYNTAX.into()),
    }
}

/// Parses the filters `ID`, `TYPE`, `ADDR`, `LADDR`, `USER` and `SKIPME`.
fn kill_filter<M: FullMemory>(call: &Call<'_, M>) -> Result<Filter, Failure> {
    let me = call.session.id;
    let mut filter = Filter { skips: Some(me), ..Filter::default() };
    for index in (2..call.arguments.len()).step_by(2) {
        let Some(value) = call.arguments.get(index + 1) else { return Err(SYNTAX.into()) };
        if call.is(index, "ID") {
            let id = integer(value).filter(|id| *id > 0);
            let id = id.ok_or("ERR client-id should be greater than 0")?;
            filter.ids = Some(vec![id as u64]);
        } else if call.is(index, "TYPE") {
            filter.kind = Some(kind(value)?);
        } else if call.is(index, "ADDR") {
            filter.address = Some(text_of(value));
        } else if call.is(index, "LADDR") {
            filter.own_address = Some(text_of(value));
        } else if call.is(index, "USER") {
            let user = call.state.shared.acl.find(value);
            let user = user.ok_or_else(|| format!("ERR No such user '{}'", text_of(value)))?;
            filter.users = Some(vec![user]);
        } else if call.is(index, "SKIPME") {
            filter.skips = match value.to_ascii_lowercase().as_slice() {
                b"yes" => Some(me),
                b"no" => None,
                _ => return Err(SYNTAX.into()),
            };
        } else {
            return Err(SYNTAX.into());
        }
    }
    Ok(filter)
}

/// Closes the connections of deleted users.
pub(super) fn close_users<M: FullMemory>(call: &mut Call<'_, M>, gone: Vec<Arc<Account>>) {
    if !gone.is_empty() {
        kill(call, &Filter { users: Some(gone), ..Filter::default() });
    }
}

/// Closes the matching connections. Returns their number.
fn kill<M: FullMemory>(call: &mut Call<'_, M>, filter: &Filter) -> usize {
    let me = call.session.id;
    let clients = call.state.shared.clients();
    let matching = clients.iter().filter(|(id, (_, client))| filter.matches(**id, client));
    let mut count = 0;
    for (id, (core, _)) in matching {
        count += 1;
        if *id == me {
            // The client gets its reply before the connection closes.
            call.session.closing = true;
        } else {
            call.state.shared.tell(*core, Note::Kill(*id), call.state.core);
        }
    }
    count
}

/// Returns the matching connections in the form of `CLIENT LIST`.
fn list<M: FullMemory>(call: &Call<'_, M>, filter: &Filter) -> String {
    let clients = call.state.shared.clients();
    let now_ms = call.state.now_ms.get();
    let shown = clients.iter().filter(|(id, (_, client))| filter.matches(**id, client));
    shown.map(|(id, (_, client))| line(*id, client, now_ms)).collect()
}

/// Returns the line of a connection with the fields of Redis 7.0. Fields without a meaning here
/// are zero.
fn line(id: u64, client: &ClientInfo, now_ms: u64) -> String {
    let ago_s = |at_ms: u64| now_ms.saturating_sub(at_ms) / 1000;
    let [address, own_address] = &client.addresses;
    let [input, output, all] = client.buffers.each_ref().map(Counter::get);
    let (queued, queued_bytes) =
        client.queued.map_or((-1, 0), |(count, bytes)| (count as i64, bytes));
    let flags = [(client.monitors, 'O'), (client.is_subscribed(), 'P'), (queued >= 0, 'x')];
    let flags = flags.into_iter();
    let flags: String = flags.filter(|(is, _)| *is).map(|(_, flag)| flag).collect();
    let flags = if flags.is_empty() { "N" } else { &flags };
    let protocol = if client.protocol == Protocol::Three { 3 } else { 2 };
    format!(
        "id={id} addr={address} laddr={own_address} fd={} name={} age={} idle={} flags={flags} db={} sub={} psub={} \
         ssub={} multi={queued} qbuf={input} qbuf-free=0 argv-mem=0 multi-mem={queued_bytes} rbs={output} rbp={output} \
         obl={output} oll=0 omem=0 tot-mem={all} events=r cmd={} user={} redir=-1 resp={protocol}\n",
        client.descriptor,
        String::from_utf8_lossy(&client.name),
        ago_s(client.since_ms),
        ago_s(client.last_ms),
        client.database,
        client.channels,
        client.patterns,
        client.shard_channels,
        client.command,
        String::from_utf8_lossy(client.user.as_ref().map_or(DEFAULT, |user| user.name())),
    )
}
