//! Commands: the table that dispatches them, and the operations that they use.

mod acl;
mod arguments;
mod bits;
mod blocking;
mod building;
mod clients;
mod cluster;
mod collections;
mod config;
mod dump;
mod dump_collections;
mod dump_streams;
mod elements;
mod events;
mod expiry;
mod facts;
mod field_expiry;
mod geo;
mod hashes;
mod hyperloglogs;
mod info;
mod keys;
mod large;
mod lcs;
mod limits;
mod lists;
mod migrate;
mod monitor;
mod permission;
mod pubsub;
mod removing;
mod replication;
mod routing;
mod scripting;
mod server;
mod sets;
mod slow;
mod sorted_algebra;
mod sorted_ranges;
mod sorted_sets;
mod sorting;
mod stream_arguments;
mod stream_claims;
mod stream_group_reads;
mod stream_groups;
mod stream_info;
mod stream_reads;
mod streams;
mod strings;
mod table;
mod transactions;
mod writer;

use std::borrow::Cow;
use std::time::Instant;

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Entry, Full, Key, Keyspace, Kind, STRIPES, WHOLE_BYTES_MAX};
use smallvec::SmallVec;

use events::Before;

use crate::events::Classes;
use crate::failure::Failure;
use crate::large::{Outgoing, Staged};
use crate::patience::BUSY;
use crate::resp::Reply;
use crate::session::{Queued, QueuedCommand, Session, Silent};
use crate::space;
use crate::state::State;

pub use blocking::stop_waiting;
pub use limits::limits;
pub use permission::catalogue;
pub use pubsub::leave_all;
pub use table::{Access, Id, Spec, TABLE, counted_names, find};
pub use transactions::forget;
use writer::{Rerun, Steps, Stop, Writer, run_in_steps};

/// Maximum number of commands queued for `EXEC`.
pub(crate) const QUEUED_MAX: usize = 100_000;

/// The largest value buffer that a core keeps for its next command.
const SPARE_BYTES_MAX: usize = 4 << 10;

/// A command with more arguments runs in steps, and yields to other jobs between keys.
const KEYS_AT_ONCE_MAX: usize = 256;

/// Keys between two yields of a command over many keys.
const KEYS_BETWEEN_PAUSES: usize = 32;

/// DRAM bytes of an argument that lies in memory.
pub(crate) const STAGED_BYTES: usize = 1 << 10;

/// The result of a check before a command, or of a command that has ended.
type Checked = Result<(), Failure>;

/// The result of a command. If it is `Ok`, the reply is written.
pub type Outcome = Result<(), Stop>;

const TOO_LONG: &str = "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
const LONG_REPLY: &str =
    "OOM the reply takes more memory than connections may hold, and flash has no room for it";
const SYNTAX: &str = "ERR syntax error";
const WRONG_KIND: &str = "WRONGTYPE Operation against a key holding the wrong kind of value";
const NOT_INTEGER: &str = "ERR value is not an integer or out of range";
const NOT_FLOAT: &str = "ERR value is not a valid float";

/// A running command.
pub struct Call<'a, M> {
    /// The memory of the keys.
    pub memory: &'a mut M,
    /// State of the server.
    pub state: &'a State,
    /// State of the connection.
    pub session: &'a mut Session,
    /// The command's name and arguments.
    pub arguments: &'a [&'a [u8]],
    /// The arguments that lie in memory. They are empty in `arguments`.
    pub staged: &'a [Staged],
    /// The reply.
    pub reply: &'a mut Reply,
    /// Its transactions.
    pub writer: Writer<'a>,
}

impl<'a, M: FullMemory> Call<'a, M> {
    /// Returns the time by which keys and fields have expired, in milliseconds since the Unix
    /// epoch. For the commands of a master none have: it removes those that expire. A command that
    /// it ran before may come here later.
    fn expired_ms(&self) -> u64 {
        if self.session.follows { 0 } else { self.state.now_ms.get() }
    }

    /// Returns the keyspace at the command's time.
    fn keyspace(&self) -> Keyspace {
        let keys = self.state.keys().expect("commands run once the store is open");
        keys.at(self.expired_ms()).keeping_expired(self.state.events().has(Classes::EXPIRED))
    }

    /// Returns an argument as a key.
    fn key(&self, index: usize) -> Key<'a> {
        self.keyspace().key(self.arguments[index])
    }

    /// Returns the entry of a key that has not expired. Appends an inline value to `value`.
    fn find(&mut self, key: &Key<'_>, value: &mut Vec<u8>) -> Option<Entry> {
        let database = self.session.database;
        self.find_in(database, key, value)
    }

    fn find_in(&mut self, database: usize, key: &Key<'_>, value: &mut Vec<u8>) -> Option<Entry> {
        let entry = self.peek_in(database, key, value);
        if entry.is_some() && !self.session.no_touch {
            self.state.used(database, key.hash);
        }
        entry
    }

    /// As [`find`](Call::find), of a command that does not use the key.
    fn peek(&mut self, key: &Key<'_>, value: &mut Vec<u8>) -> Option<Entry> {
        self.peek_in(self.session.database, key, value)
    }

    fn peek_in(&mut self, database: usize, key: &Key<'_>, value: &mut Vec<u8>) -> Option<Entry> {
        let entry = self.keyspace().find(self.memory, database, key, value);
        let now_ms = self.expired_ms();
        let keyspace = self.keyspace();
        let entry = entry.filter(|entry| {
            entry.expires_at_ms.is_none_or(|at| at > now_ms)
                && !keyspace.is_over(self.memory, entry, value)
        });
        if entry.is_none() {
            value.clear();
            self.missed(database, key.bytes);
        }
        let statistics = self.state.statistics();
        if entry.is_some() { &statistics.hits } else { &statistics.misses }.add(1);
        entry
    }

    /// Replies with the value of an entry. An inline value is in `value`.
    fn reply_value(&mut self, entry: &Entry, value: &mut Vec<u8>) -> Outcome {
        match entry.large() {
            Some(id) => {
                let hold = self.state.shared.holds.hold(id);
                let bytes = Outgoing::new(entry, 0, entry.value_bytes, hold);
                self.reply.large(entry.value_bytes, bytes);
            }
            None => {
                self.complete(entry, value)?;
                self.reply.bulk(value);
            }
        }
        Ok(())
    }

    /// As [`find`](Call::find).
    ///
    /// # Errors
    /// Returns an error if the value is no string.
    fn find_string(
        &mut self,
        key: &Key<'_>,
        value: &mut Vec<u8>,
    ) -> Result<Option<Entry>, Failure> {
        let entry = self.find(key, value);
        match entry.as_ref().is_some_and(|entry| entry.kind() != Kind::String) {
            true => Err(WRONG_KIND.into()),
            false => Ok(entry),
        }
    }

    /// Replies with the value of a key, or with null if there is no string.
    fn reply_string(&mut self, key: &Key<'_>) -> Outcome {
        match self.reply_key(key) {
            Err(stop) if stop.is_wrong_kind() => {
                self.reply.null();
                Ok(())
            }
            replied => replied.map(drop),
        }
    }

    /// Replies with the value of a key, or with null. Returns its entry.
    fn reply_key(&mut self, key: &Key<'_>) -> Result<Option<Entry>, Stop> {
        let mut value = self.state.spare.take();
        let entry = self.find_string(key, &mut value)?;
        match &entry {
            Some(entry) => self.reply_value(entry, &mut value)?,
            None => self.reply.null(),
        }
        if value.capacity() <= SPARE_BYTES_MAX {
            value.clear();
            self.state.spare.set(value);
        }
        Ok(entry)
    }

    /// Returns `count` bytes of a value in pages, from byte `at` on.
    fn bytes_at(&mut self, entry: &Entry, at: u64, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count);
        self.keyspace().read_range(self.memory, entry, at, count, &mut bytes);
        bytes
    }

    /// Appends the bytes of an entry's value to `value`, unless it is inline and there already.
    fn complete(&mut self, entry: &Entry, value: &mut Vec<u8>) -> Outcome {
        if !entry.is_inline() {
            let most = self.state.settings().argument_bytes_max as u64;
            if entry.value_bytes > most {
                return Err(format!("ERR the command takes values of at most {most} bytes").into());
            }
            let length = entry.value_bytes as usize;
            self.keyspace().read_range(self.memory, entry, 0, length, value);
        }
        Ok(())
    }

    /// Returns the whole value of a key.
    fn value(&mut self, key: &Key<'_>) -> Result<Option<Vec<u8>>, Stop> {
        let mut value = Vec::new();
        let Some(entry) = self.find_string(key, &mut value)? else { return Ok(None) };
        self.complete(&entry, &mut value)?;
        Ok(Some(value))
    }

    /// As [`value`](Call::value), with the entry. A large value fails with `otherwise`.
    fn small_value(
        &mut self,
        key: &Key<'_>,
        otherwise: &'static str,
    ) -> Result<Option<(Vec<u8>, Entry)>, Stop> {
        let mut value = Vec::new();
        let Some(entry) = self.find_string(key, &mut value)? else { return Ok(None) };
        if entry.large().is_some() {
            return Err(otherwise.into());
        }
        self.complete(&entry, &mut value)?;
        Ok(Some((value, entry)))
    }

    /// As [`set`](Call::set), with the argument at `index` as the value.
    fn set_argument(&mut self, key: &Key<'_>, index: usize, expires_at_ms: Option<u64>) -> Outcome {
        let Some(staged) = self.staged.iter().find(|staged| staged.argument == index) else {
            return self.set(key, self.arguments[index], expires_at_ms);
        };
        let large = staged.value()?;
        check_key(key)?;
        let database = self.session.database;
        let keyspace = self.keyspace();
        self.set_or_remove((database, key), expires_at_ms, |memory| {
            keyspace.attach_large(memory, database, key, large, expires_at_ms).map(drop)
        })
    }

    /// Runs `set`, which sets a key with this expiry time. Removes the key instead if the time has
    /// passed.
    fn set_or_remove(
        &mut self,
        (database, key): (usize, &Key<'_>),
        expires_at_ms: Option<u64>,
        mut set: impl FnMut(&mut M) -> Result<(), Full>,
    ) -> Outcome {
        let over = expires_at_ms.is_some_and(|at| at <= self.expired_ms());
        let (keyspace, before) = (self.keyspace(), self.before(database, key));
        self.step(&[key.hash], |call| {
            if over {
                keyspace.remove(call.memory, database, key);
                return Ok(());
            }
            set(call.memory)
        })?;
        if over {
            self.state.changed(database, key.bytes);
            self.event((database, key.bytes), Classes::GENERIC, "del");
        } else {
            self.changed((database, key), before);
        }
        Ok(())
    }

    /// Sets a key and its expiry time, or removes the key if the time has passed.
    fn set(&mut self, key: &Key<'_>, value: &[u8], expires_at_ms: Option<u64>) -> Outcome {
        let database = self.session.database;
        self.set_in(database, key, value, expires_at_ms)
    }

    fn set_in(
        &mut self,
        database: usize,
        key: &Key<'_>,
        value: &[u8],
        expires_at_ms: Option<u64>,
    ) -> Outcome {
        check_key(key)?;
        if value.len() > WHOLE_BYTES_MAX {
            let length = value.len() as u64;
            return large::build(self, (database, key), length, expires_at_ms, |_, at, count| {
                value[at as usize..at as usize + count].to_vec()
            });
        }
        let keyspace = self.keyspace();
        self.set_or_remove((database, key), expires_at_ms, |memory| {
            keyspace.set(memory, database, key, value, expires_at_ms).map(drop)
        })
    }

    /// Removes a key. Returns true if it existed and had not expired.
    fn remove(&mut self, key: &Key<'_>) -> Result<bool, Stop> {
        let (keyspace, database) = (self.keyspace(), self.session.database);
        let mut value = Vec::new();
        let entry = keyspace.find(self.memory, database, key, &mut value);
        let Some(entry) = entry else { return Ok(false) };
        let is_over = entry.expires_at_ms.is_some_and(|at| at <= self.expired_ms())
            || keyspace.is_over(self.memory, &entry, &value);
        self.step(&[key.hash], |call| Ok(keyspace.remove(call.memory, database, key)))?;
        if is_over {
            self.state.statistics().expired.add(1);
            self.event((database, key.bytes), Classes::EXPIRED, "expired");
            return Ok(false);
        }
        self.state.removed(database, key.bytes);
        self.event((database, key.bytes), Classes::GENERIC, "del");
        Ok(true)
    }

    /// Changes the expiry time of an existing key; `None` removes it.
    fn set_expiry(&mut self, key: &Key<'_>, expires_at_ms: Option<u64>) -> Outcome {
        let (keyspace, database) = (self.keyspace(), self.session.database);
        self.step(&[key.hash], |call| {
            keyspace.set_expiry(call.memory, database, key, expires_at_ms)
        })?;
        self.state.changed(database, key.bytes);
        let name = if expires_at_ms.is_some() { "expire" } else { "persist" };
        self.event((database, key.bytes), Classes::GENERIC, name);
        Ok(())
    }

    /// Moves a key to another name or database.
    fn rename(&mut self, from: (usize, &Key<'_>), to: (usize, &Key<'_>)) -> Outcome {
        let keyspace = self.keyspace();
        self.step(&[from.1.hash, to.1.hash], |call| keyspace.rename(call.memory, from, to))?;
        self.state.removed(from.0, from.1.bytes);
        self.state.changed(to.0, to.1.bytes);
        let moves = from.0 != to.0;
        let names = if moves { ["move_from", "move_to"] } else { ["rename_from", "rename_to"] };
        // A key that had this name is removed first, as in Redis.
        self.began((to.0, to.1.bytes), Before::Absent);
        self.event((from.0, from.1.bytes), Classes::GENERIC, names[0]);
        self.event((to.0, to.1.bytes), Classes::GENERIC, names[1]);
        Ok(())
    }

    /// Called by a command over many keys before the key at `index`; keys are `step` arguments
    /// apart. Every 32 keys it yields to other jobs and prefetches the next leaves.
    ///
    /// # Errors
    /// As [`keep_reply_short`](Call::keep_reply_short).
    fn pace(&mut self, index: usize, step: usize) -> Outcome {
        self.keep_reply_short()?;
        if !((index - 1) / step).is_multiple_of(KEYS_BETWEEN_PAUSES) || !self.let_others_run() {
            return Ok(());
        }
        let (keyspace, database) = (self.keyspace(), self.session.database);
        for key in self.arguments[index..].iter().step_by(step).take(KEYS_BETWEEN_PAUSES) {
            keyspace.fetch_ahead(self.memory, database, &keyspace.key(key));
        }
        Ok(())
    }

    /// Parses an argument as an integer.
    fn integer(&self, index: usize) -> Result<i64, Failure> {
        crate::number::integer(self.arguments[index]).ok_or(NOT_INTEGER.into())
    }

    /// True if an argument is this word, in any case.
    fn is(&self, index: usize, word: &str) -> bool {
        self.arguments[index].eq_ignore_ascii_case(word.as_bytes())
    }
}

/// Returns an error if a key is too long for an entry.
fn check_key(key: &Key<'_>) -> Checked {
    use ebbtide_structures::keyspace::KEY_BYTES_MAX;
    if key.bytes.len() > KEY_BYTES_MAX {
        return Err(format!("ERR a key has at most {KEY_BYTES_MAX} bytes").into());
    }
    Ok(())
}

/// The words of a request. Some may lie in memory.
#[derive(Clone, Copy, Debug)]
pub struct Arguments<'a> {
    /// The command's name and its arguments.
    pub words: &'a [&'a [u8]],
    /// The arguments that lie in memory. Their words are empty.
    pub staged: &'a [Staged],
}

/// Runs a request, which must not be empty, and writes its reply.
pub fn execute<M: FullMemory>(
    memory: &mut M,
    state: &State,
    session: &mut Session,
    arguments: Arguments<'_>,
    reply: &mut Reply,
) {
    state.statistics().commands.add(1);
    let start = reply.len();
    reply.begin();
    session.pushed = false;
    let outcome = dispatch(memory, state, session, arguments, reply);
    if let Err(failure) = outcome {
        reply.truncate(start);
        reply_failure(state, reply, &failure);
    }
    let wanted = session.silent == Silent::Never;
    session.silent = match session.silent {
        Silent::Next => Silent::Now,
        Silent::Now => Silent::Never,
        other => other,
    };
    if !wanted && !session.pushed {
        reply.truncate(start);
    }
    let mut events = session.events.take(0).into_iter();
    while events.len() > 0 {
        state.publish(events.by_ref().take(pubsub::SENT_AT_ONCE));
        if events.len() > 0 {
            memory.let_others_run();
        }
    }
    if !session.refused.is_empty() {
        clients::log_refused(state, session);
    }
}

fn dispatch<M: FullMemory>(
    memory: &mut M,
    state: &State,
    session: &mut Session,
    Arguments { words: arguments, staged }: Arguments<'_>,
    reply: &mut Reply,
) -> Checked {
    if is_http(arguments[0]) {
        session.closing = true;
        let id = session.id;
        state.journal().tell(
            "http",
            format!(
                "closed connection {id}: it sent POST or Host:, perhaps a browser that was sent here"
            ),
        );
        return Ok(());
    }
    if clients::lost_user(state, session) {
        session.closing = true;
        return Ok(());
    }
    let found = table::find(arguments[0]).ok_or_else(|| unknown(arguments));
    let checked = found.and_then(|spec| {
        let checked = check(spec, state, session, arguments);
        checked.inspect_err(|_| state.slow().note_rejected(spec.counted(arguments)))?;
        Ok(spec)
    });
    let spec = checked.map_err(|failure| rejected(state, session, arguments[0], failure))?;
    let counted = spec.counted(arguments);
    state.tell_of(session.id, |client| {
        client.command = &counted_names()[counted];
        client.last_ms = state.now_ms.get();
    });
    if clients::postpone(spec, state, session, Arguments { words: arguments, staged }) {
        return Ok(());
    }
    if let Some(queued) = &mut session.queued
        && !spec.in_transaction
    {
        let most = state.settings().queued_bytes_max();
        let outcome = queue(queued, most, arguments, staged, reply);
        tell_session(state, session);
        return outcome;
    }
    let writer = Writer::Alone;
    let mut call = Call { memory, state, session, arguments, staged, reply, writer };
    timed(spec, &mut call, |call| {
        let outcome = isolated(spec, call);
        if call.session.pushed || spec.in_transaction || spec.id == Id::Hello {
            tell_session(state, call.session);
        }
        outcome
    })
}

/// Runs a command, and counts it and its time. One within `EXEC` or a script counts as well, and
/// counts again if its transaction runs again.
fn timed<M: FullMemory>(
    spec: &Spec,
    call: &mut Call<'_, M>,
    run: impl FnOnce(&mut Call<'_, M>) -> Checked,
) -> Checked {
    let (counted, began) = (spec.counted(call.arguments), Instant::now());
    let outcome = monitor::told(spec, call, run);
    let (took, now_ms) = (began.elapsed(), call.state.now_ms.get());
    let mut slow = call.state.slow();
    slow.note(counted, took, &without_secrets(spec, call.arguments), &call.session.name, now_ms);
    if outcome.is_err() {
        slow.note_failed(counted);
    }
    outcome
}

/// Returns the error of a command that does not run. It fails the transaction that it is part of.
fn rejected(state: &State, session: &mut Session, name: &[u8], failure: Failure) -> Failure {
    if name.eq_ignore_ascii_case(b"exec") {
        session.queued = None;
        forget(state, session);
        if matches!(failure, Failure::Elsewhere(_)) {
            return failure;
        }
        let reason = failure.text();
        let reason = reason.strip_prefix("ERR ").unwrap_or(reason);
        return format!("EXECABORT Transaction discarded because of: {reason}").into();
    }
    if let Some(queued) = &mut session.queued {
        queued.failed = true;
    }
    failure
}

/// Returns the arguments of a command for people, which passwords stay out of.
fn without_secrets<'a>(spec: &Spec, arguments: &'a [&'a [u8]]) -> Cow<'a, [&'a [u8]]> {
    let after = |name: &str, from: usize| {
        let mut words = arguments.iter().skip(from);
        words.position(|word| word.eq_ignore_ascii_case(name.as_bytes())).map(|at| from + at + 1)
    };
    let secret = match spec.id {
        Id::Auth => 1..arguments.len(),
        Id::Hello => after("auth", 2).map_or(0..0, |at| at..at + 2),
        Id::Acl if arguments.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"setuser")) => {
            2..arguments.len()
        }
        Id::Migrate => after("auth", 6)
            .map(|at| at..at + 1)
            .or_else(|| after("auth2", 6).map(|at| at..at + 2))
            .unwrap_or_default(),
        _ => return Cow::Borrowed(arguments),
    };
    let word = |(index, word): (usize, &&'a [u8])| {
        if secret.contains(&index) { b"(redacted)" } else { *word }
    };
    arguments.iter().enumerate().map(word).collect()
}

/// Replies with a failure, and counts it.
fn reply_failure(state: &State, reply: &mut Reply, failure: &Failure) {
    state.statistics().errors.add(1);
    state.slow().note_error(failure.text());
    reply.error(failure.text());
}

/// True if a request is a line of HTTP. The rest may be commands that an attacker made a browser
/// send.
fn is_http(word: &[u8]) -> bool {
    [&b"post"[..], b"host:"].iter().any(|line| word.eq_ignore_ascii_case(line))
}

/// Publishes the state of a connection for `CLIENT LIST`.
fn tell_session(state: &State, session: &Session) {
    state.tell_of(session.id, |client| {
        client.database = session.database;
        client.channels = session.channels.len();
        client.patterns = session.patterns.len();
        client.shard_channels = session.shard_channels.len();
        client.queued = session.queued.as_ref().map(|queued| (queued.commands.len(), queued.bytes));
        client.protocol = session.protocol;
    });
}

/// Returns an error if the client may not run a command now.
fn check(spec: &Spec, state: &State, session: &mut Session, arguments: &[&[u8]]) -> Checked {
    check_count(spec, arguments)?;
    if session.user.is_none() && !session.follows && !spec.before_authentication {
        return Err("NOAUTH Authentication required.".into());
    }
    if session.queued.is_some() && spec.never_in_transaction {
        return Err("ERR Command not allowed inside a transaction".into());
    }
    permission::check_request(session, spec, arguments)?;
    monitor::check(spec, state, session, arguments)?;
    routing::check(spec, state, session, arguments)?;
    replication::check(spec, state, session)?;
    if state.shared.slow_scripts.is_busy() && !spec.may_run_while_busy(arguments) {
        return Err(BUSY.into());
    }
    let limited = session.subscriptions() > 0 && !spec.while_subscribed;
    if limited && session.protocol == crate::protocol::Protocol::Two {
        return Err(format!(
            "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
             allowed in this context",
            counted_names()[spec.counted(arguments)]
        )
        .into());
    }
    Ok(())
}

/// Returns an error for a wrong number of arguments or an unknown subcommand.
fn check_count(spec: &Spec, arguments: &[&[u8]]) -> Checked {
    if !spec.takes(arguments.len()) {
        return Err(format!("ERR wrong number of arguments for '{}' command", spec.name).into());
    }
    if let (Some(_), Some(name)) = (spec.subcommands(), arguments.get(1)) {
        let Some((subcommand, arity)) = spec.subcommand(arguments) else {
            let name = String::from_utf8_lossy(&name[..name.len().min(128)]);
            let command = spec.name.to_uppercase();
            return Err(format!("ERR unknown subcommand '{name}'. Try {command} HELP.").into());
        };
        if !table::takes(arity, arguments.len()) {
            let name = format!("{}|{}", spec.name, subcommand.to_lowercase());
            return Err(format!("ERR wrong number of arguments for '{name}' command").into());
        }
    }
    Ok(())
}

fn queue(
    queued: &mut Queued,
    bytes_max: usize,
    arguments: &[&[u8]],
    staged: &[Staged],
    reply: &mut Reply,
) -> Checked {
    // 48 bytes: a vector, and an allocation for each word.
    let bytes: usize = arguments.iter().map(|argument| argument.len() + 48).sum();
    let bytes = bytes + size_of::<QueuedCommand>() + staged.len() * STAGED_BYTES;
    if queued.commands.len() >= QUEUED_MAX || queued.bytes + bytes > bytes_max {
        // EXEC will fail, so the queued commands are dropped.
        *queued = Queued { failed: true, ..Queued::default() };
        return Err(format!(
            "ERR a transaction has at most {QUEUED_MAX} commands of {bytes_max} bytes together"
        )
        .into());
    }
    if queued.failed {
        reply.status("QUEUED");
        return Ok(());
    }
    queued.bytes += bytes;
    let words = arguments.iter().map(|argument| argument.to_vec()).collect();
    queued.commands.push(QueuedCommand { words, staged: staged.to_vec() });
    reply.status("QUEUED");
    Ok(())
}

/// The error for an unknown command, in the words of Redis.
fn unknown(arguments: &[&[u8]]) -> Failure {
    const SHOWN_BYTES: usize = 128;
    let shown = |bytes: &[u8], most: usize| {
        String::from_utf8_lossy(&bytes[..bytes.len().min(most)]).into_owned()
    };
    let mut rest = String::new();
    for argument in &arguments[1..] {
        if rest.len() >= SHOWN_BYTES {
            break;
        }
        let most = SHOWN_BYTES - rest.len();
        rest.push_str(&format!("'{}' ", shown(argument, most)));
    }
    let name = shown(arguments[0], SHOWN_BYTES);
    format!("ERR unknown command '{name}', with args beginning with: {rest}").into()
}

/// Runs a command so that it and other commands see each other's changes complete or not at all.
fn isolated<M: FullMemory>(spec: &'static Spec, call: &mut Call<'_, M>) -> Checked {
    let keyspace = call.state.keys();
    let access = spec.access_with(call.arguments);
    let Some(keyspace) = keyspace.filter(|_| access != Access::Nothing) else {
        return run_to_end(spec.id, call);
    };
    let is_long = call.arguments.len() > KEYS_AT_ONCE_MAX;
    let keys = spec.keys(call.arguments).map(|key| keyspace.key(key).hash);
    let hashes: SmallVec<[u64; 4]> = match access {
        Access::Nothing | Access::Everything => SmallVec::new(),
        Access::Script => return scripting::isolated(spec.id, call),
        Access::Unordered => return run_unordered(spec.id, call),
        Access::Read | Access::Write if is_long => one_a_stripe(keys),
        Access::Read | Access::Write => keys.collect(),
    };
    let start = call.reply.len();
    let outcome = match access {
        _ if is_long && !hashes.is_empty() => Err(Rerun.into()),
        Access::Read => read(spec, call, &hashes),
        _ => change(spec, call, &keyspace, &hashes),
    };
    let outcome = match outcome {
        Err(Stop::Rerun(Rerun)) => {
            call.reply.truncate(start);
            run_in_steps(spec, call, &hashes)
        }
        outcome => outcome.map_err(Stop::failure),
    };
    if access == Access::Read {
        call.session.written = call.session.written.max(call.state.shared.last_written(&hashes));
    }
    outcome
}

/// Runs a command that holds no stripe, in steps.
fn run_unordered<M: FullMemory>(id: Id, call: &mut Call<'_, M>) -> Checked {
    let steps = Steps::default();
    let writer = Writer::Steps(&steps);
    let Call { memory, state, session, arguments, staged, reply, .. } = call;
    let outcome = state.unless_busy(*memory, |memory| {
        run_to_end(id, &mut Call { memory, state, session, arguments, staged, reply, writer })
    })?;
    // It may have read changes that are not recorded yet.
    session.written = session.written.max(state.shared.storage.committed());
    outcome
}

/// Runs a command that changes keys of these hashes, in one transaction.
fn change<M: FullMemory>(
    spec: &Spec,
    call: &mut Call<'_, M>,
    keyspace: &Keyspace,
    hashes: &[u64],
) -> Outcome {
    if spec.id == Id::Msetnx && call.state.shared.eviction.policy().evicts() {
        space::prepare(call.memory, call.state, keyspace, bytes_of(call.arguments));
    }
    let start = call.reply.len();
    let Call { memory, state, session, arguments, staged, reply, writer } = call;
    let writer = *writer;
    loop {
        let ran = state.unless_busy(*memory, |memory| {
            state.exclusive(memory, keyspace, hashes, |memory| {
                reply.truncate(start);
                session.start_over();
                let mut call = Call { memory, state, session, arguments, staged, reply, writer };
                run_by_id(spec.id, &mut call)
            })
        });
        if !matches!(ran, Ok(Ok(_))) {
            session.start_over();
        }
        match ran? {
            // A command that found no free page has changed nothing and can run again. MSETNX
            // cannot: it would find its own keys.
            Ok((Err(Stop::Failed(Failure::Full)), _))
                if spec.id != Id::Msetnx && space::make(*memory, state, keyspace) => {}
            Ok((outcome, lsn)) => {
                session.written = session.written.max(lsn);
                return outcome;
            }
            Err(error) if hashes.is_empty() => return Err(error.into()),
            Err(error) => return Err(Stop::of(error)),
        }
    }
}

/// Returns the bytes of all arguments together.
fn bytes_of(arguments: &[&[u8]]) -> usize {
    arguments.iter().map(|argument| argument.len()).sum()
}

/// Runs a command that reads keys of these hashes.
///
/// A single key is read again if it changes during the read. The stripes of several keys, and of a
/// command that may wait, are held. No page is pinned.
fn read<M: FullMemory>(spec: &Spec, call: &mut Call<'_, M>, hashes: &[u64]) -> Outcome {
    let keyspace = call.keyspace();
    let start = call.reply.len();
    let Call { memory, state, session, arguments, staged, reply, writer } = call;
    let (stripes, writer) = (state.shared.reserved.of(&keyspace, hashes), *writer);
    let mut body = |memory: &mut M| {
        reply.truncate(start);
        session.start_over();
        run_by_id(spec.id, &mut Call { memory, state, session, arguments, staged, reply, writer })
    };
    state.unless_busy(*memory, |memory| match *hashes {
        [] => body(memory),
        [hash] if !spec.waits() => keyspace.consistent(memory, hash, body),
        _ => stripes.alone(memory, body),
    })?
}

/// Returns one hash for each stripe of these hashes.
fn one_a_stripe(hashes: impl Iterator<Item = u64>) -> SmallVec<[u64; 4]> {
    let mut seen = [false; STRIPES as usize];
    hashes.filter(|hash| !std::mem::replace(&mut seen[(hash % STRIPES) as usize], true)).collect()
}

/// Defines [`run_by_id`].
macro_rules! define_run {
    ($($id:ident $name:literal $arity:literal $access:ident ($first:literal $last:literal $step:literal)
       $group:literal $since:literal $run:path, $summary:literal;)*) => {
        /// Runs a command after its arguments were counted. Its keys are isolated from other
        /// commands.
        fn run_by_id<M: FullMemory>(id: Id, call: &mut Call<'_, M>) -> Outcome {
            call.session.events.begin();
            match id { $(Id::$id => $run(call),)* }
        }
    };
}

table::for_each_command!(define_run);

/// Runs a command that cannot run again.
fn run_to_end<M: FullMemory>(id: Id, call: &mut Call<'_, M>) -> Checked {
    run_by_id(id, call).map_err(Stop::failure)
}
