//! `EVAL`, `EVALSHA` and `SCRIPT`: scripts that run as one step.
//!
//! A script runs in a transaction that holds the stripes of its declared keys. If it accesses
//! another key, the transaction is dropped and the script runs again under all stripes. A memory
//! without a log cannot drop changes, so it runs every script under all stripes.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use ebbtide_core::FullMemory;
use ebbtide_core::durability::{Aborted, Lsn};
use ebbtide_structures::keyspace::{Keyspace, STRIPES, slot};
use smallvec::SmallVec;

use super::permission::{check_rules, check_script};
use super::pubsub::{check_announced, send_published};
use super::server::COMPATIBLE_VERSION;
use super::table::{self, Access, Id, Spec};
use super::{
    Call, Checked, Failure, NOT_INTEGER, Outcome, SYNTAX, Writer, bytes_of, replication, routing,
};
use crate::patience::limit_patience;
use crate::protocol::Protocol;
use crate::resp::Reply;
use crate::script::{
    Instruction, Interpreter, Kill, Request, Run, Sha, Source, Surroundings, Watched,
};
use crate::session::{Messages, Session};
use crate::space;
use crate::state::State;

/// Declared keys that are looked up before a script starts, so that it waits less.
const WARMED_MAX: i64 = 64;

const SURROUNDINGS: Surroundings = Surroundings { version: COMPATIBLE_VERSION };

const UNKILLABLE: &str = "UNKILLABLE Sorry the script already executed write commands against the \
     dataset. You can either wait the script termination or kill the server in a hard way using the \
     SHUTDOWN NOSAVE command.";

/// Index of the first key among the arguments.
const FIRST_KEY: usize = 3;

/// The stripes that a script holds: a bit each.
#[derive(Clone, Copy, Debug)]
struct Stripes([u64; STRIPES as usize / 64]);

impl Stripes {
    const ALL: Stripes = Stripes([u64::MAX; STRIPES as usize / 64]);

    fn of(hashes: &[u64]) -> Stripes {
        let mut stripes = Stripes([0; STRIPES as usize / 64]);
        for hash in hashes {
            let stripe = hash % STRIPES;
            stripes.0[stripe as usize / 64] |= 1 << (stripe % 64);
        }
        stripes
    }

    fn is_all(&self) -> bool {
        self.0 == Stripes::ALL.0
    }

    fn has(&self, hash: u64) -> bool {
        let stripe = hash % STRIPES;
        self.0[stripe as usize / 64] & 1 << (stripe % 64) != 0
    }
}

/// A script and its arguments.
struct Script<'a> {
    source: Arc<Source>,
    keys: &'a [&'a [u8]],
    arguments: &'a [&'a [u8]],
    /// True if it may not change keys.
    reads_only: bool,
}

impl Script<'_> {
    /// The slot of its declared keys, which have one slot in a cluster.
    fn slot(&self) -> Option<u16> {
        self.keys.first().map(|key| slot(key))
    }

    /// Returns the reply for a script that was ended.
    fn ended(&self, stopped: &Stopped) -> Failure {
        format!("ERR {stopped} script: {}", self.source.sha).into()
    }
}

/// Reason why a run of a script does not count.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum Stopped {
    /// It accessed a key whose stripe it does not hold.
    #[error("a script accessed a key that it did not declare")]
    Undeclared,
    /// A client has ended it.
    #[error("Script killed by user with SCRIPT KILL...")]
    Killed,
}

/// The reply of a script, or its error.
type Replied = Result<Vec<u8>, String>;

/// Runs a script in a transaction of its own.
pub(super) fn isolated<M: FullMemory>(id: Id, call: &mut Call<'_, M>) -> Checked {
    warm(call)?;
    with_interpreter(call, |call, interpreter| {
        let script = script(id, call, interpreter)?;
        let keyspace = call.keyspace();
        let mut hashes: SmallVec<[u64; 4]> =
            script.keys.iter().map(|key| keyspace.key(key).hash).collect();
        let bytes = bytes_of(call.arguments);
        space::prepare(call.memory, call.state, &keyspace, bytes);
        let can_drop = call.state.settings().durability != "none";
        if !can_drop || script.source.is_wide() {
            hashes.clear();
        }
        let mut is_wide = hashes.is_empty() && (!can_drop || script.source.is_wide());
        let (database, slot) = (call.session.database, script.slot());
        let Call { memory, state, session, reply, .. } = call;
        let mut watched = state.shared.slow_scripts.watch(!can_drop);
        let (replied, lsn) = loop {
            let stripes = if is_wide { Stripes::ALL } else { Stripes::of(&hashes) };
            let body = |memory: &mut M| {
                session.database = database;
                session.published = Some(Messages::default());
                session.start_over();
                let (script, watched) = (&script, &mut watched);
                let mut runner =
                    Runner { state, session, script, stripes, keyspace, watched, slot };
                runner.run(memory, interpreter, reply.protocol)
            };
            let mut body = body;
            let ran = state.unless_busy(*memory, |memory| match is_wide || !hashes.is_empty() {
                true => state.exclusive_unless(memory, &keyspace, &hashes, body),
                // It holds no stripe, so it can change nothing.
                false => body(memory).map(|ran| (ran, Lsn::ZERO)).map_err(Aborted::GivenUp),
            });
            let ran = ran.inspect_err(|_| {
                session.published = None;
                session.start_over();
                session.database = database;
            })?;
            match ran {
                Err(Aborted::GivenUp(Stopped::Undeclared)) => {
                    script.source.set_wide();
                    hashes.clear();
                    is_wide = true;
                }
                Ok(ran) => break ran,
                Err(error) => {
                    session.published = None;
                    session.start_over();
                    session.database = database;
                    return Err(match error {
                        Aborted::GivenUp(stopped) => script.ended(&stopped),
                        Aborted::Failed(error) => error.into(),
                    });
                }
            }
        };
        session.database = database;
        session.written = session.written.max(lsn);
        send_published(*memory, state, session, reply);
        finish(state, replied, reply)
    })
}

/// Runs a script within `EXEC`, which holds all stripes.
pub(super) fn eval<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let spec = table::find(call.arguments[0]).expect("it was looked up before");
    let Some(mut interpreter) = call.session.interpreter.take() else {
        return Err("ERR no interpreter for a script".into());
    };
    // The transaction may run again, with the same interpreter.
    let ran = catch_unwind(AssertUnwindSafe(|| eval_held(spec.id, call, &mut interpreter)));
    call.session.interpreter = Some(interpreter);
    Ok(ran.unwrap_or_else(|payload| resume_unwind(payload))?)
}

/// Runs a script under all stripes, as a part of the current transaction.
fn eval_held<M: FullMemory>(
    id: Id,
    call: &mut Call<'_, M>,
    interpreter: &mut Interpreter,
) -> Checked {
    let script = script(id, call, interpreter)?;
    let database = call.session.database;
    let keyspace = call.keyspace();
    let Call { memory, state, session, reply, .. } = call;
    let stripes = Stripes::ALL;
    // Its changes are part of those of `EXEC`.
    let watched = &mut state.shared.slow_scripts.watch(true);
    let (script, slot) = (&script, script.slot());
    let mut runner = Runner { state, session, script, stripes, keyspace, watched, slot };
    let ran = runner.run(*memory, interpreter, reply.protocol);
    session.database = database;
    match ran {
        Ok(replied) => finish(state, replied, reply),
        Err(stopped) => Err(script.ended(&stopped)),
    }
}

/// True if a command runs a script that has declared that it changes nothing.
pub(super) fn declares_no_writes(spec: &Spec, state: &State, arguments: &[&[u8]]) -> bool {
    match (spec.id, arguments.get(1)) {
        (Id::Eval, Some(text)) => Source::new(text).is_ok_and(|source| source.reads_only),
        (Id::Evalsha, Some(sha)) => {
            let sources = &state.shared.sources;
            let source = Sha::given(sha).and_then(|sha| sources.find(&sha));
            source.is_some_and(|source| source.reads_only)
        }
        _ => false,
    }
}

fn take_interpreter<M: FullMemory>(call: &mut Call<'_, M>) -> Result<Interpreter, Failure> {
    let (state, keyspace) = (call.state, call.keyspace());
    state.unless_busy(call.memory, |memory| state.scripts.take(memory, &keyspace, SURROUNDINGS))?
}

/// Takes an interpreter while `body` runs.
fn with_interpreter<M: FullMemory, R>(
    call: &mut Call<'_, M>,
    body: impl FnOnce(&mut Call<'_, M>, &mut Interpreter) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let (state, keyspace) = (call.state, call.keyspace());
    let mut interpreter = take_interpreter(call)?;
    // A device error ends a job with a panic. The interpreter is of use to others.
    let ran = catch_unwind(AssertUnwindSafe(|| body(call, &mut interpreter)));
    state.scripts.put(call.memory, &keyspace, interpreter);
    ran.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Runs `body`, whose scripts use an interpreter of the session, within `EXEC`.
pub(super) fn with_session_interpreter<M: FullMemory>(
    call: &mut Call<'_, M>,
    body: impl FnOnce(&mut Call<'_, M>) -> Checked,
) -> Checked {
    let (state, keyspace) = (call.state, call.keyspace());
    call.session.interpreter = Some(take_interpreter(call)?);
    let ran = catch_unwind(AssertUnwindSafe(|| body(call)));
    if let Some(interpreter) = call.session.interpreter.take() {
        state.scripts.put(call.memory, &keyspace, interpreter);
    }
    ran.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Returns the script of a command, compiled.
fn script<'a, M: FullMemory>(
    id: Id,
    call: &mut Call<'a, M>,
    interpreter: &mut Interpreter,
) -> Result<Script<'a>, Failure> {
    const UNKNOWN: &str = "NOSCRIPT No matching script. Please use EVAL.";
    // As in Redis, no script has a digest of another length, whatever follows.
    let sha = match id {
        Id::Evalsha | Id::EvalshaRo => Some(Sha::given(call.arguments[1]).ok_or(UNKNOWN)?),
        _ => None,
    };
    let count = crate::number::integer(call.arguments[2]).ok_or(NOT_INTEGER)?;
    let rest = &call.arguments[FIRST_KEY..];
    if count > rest.len() as i64 {
        return Err("ERR Number of keys can't be greater than number of args".into());
    }
    let count = usize::try_from(count).map_err(|_| "ERR Number of keys can't be negative")?;
    let source = match sha {
        Some(sha) => {
            let found = call.state.shared.sources.find(&sha).ok_or(UNKNOWN)?;
            compile(interpreter, &found)?;
            found
        }
        None => add(call.state, interpreter, call.arguments[1])?,
    };
    if source.stands_alone {
        routing::refuse(call, "ERR Can not run script on cluster, 'no-cluster' flag is set.")?;
    }
    let (keys, arguments) = rest.split_at(count);
    let reads_only = source.reads_only || matches!(id, Id::EvalRo | Id::EvalshaRo);
    Ok(Script { source, keys, arguments, reads_only })
}

/// Returns the script of a text. A new one is compiled and remembered.
fn add(state: &State, interpreter: &mut Interpreter, text: &[u8]) -> Result<Arc<Source>, Failure> {
    let known = state.shared.sources.find(&Sha::of(text));
    let source = match &known {
        Some(known) => known.clone(),
        None => Arc::new(Source::new(text)?),
    };
    compile(interpreter, &source)?;
    if known.is_none() {
        let most = state.settings().scripts_bytes_max();
        state.shared.sources.add(source.clone(), most);
    }
    Ok(source)
}

fn compile(interpreter: &mut Interpreter, source: &Arc<Source>) -> Checked {
    match interpreter.resume(Instruction::Compile(source.clone())) {
        Request::Compiled(Err(reason)) => Err(reason.into()),
        Request::Compiled(Ok(())) => Ok(()),
        _ => Err("ERR the interpreter has failed".into()),
    }
}

/// Looks declared keys up, so that their pages are in DRAM when the script reads them. The command
/// has no interpreter yet: one that waits for flash would keep it from others.
fn warm<M: FullMemory>(call: &mut Call<'_, M>) -> Checked {
    let (keyspace, database) = (call.keyspace(), call.session.database);
    // A wrong number is refused once the script is known.
    let count = crate::number::integer(call.arguments[2]).unwrap_or(0).clamp(0, WARMED_MAX);
    let keys = call.arguments[FIRST_KEY..].iter().take(count as usize);
    let keys: SmallVec<[&[u8]; 4]> = keys.copied().collect();
    call.state.unless_busy(call.memory, |memory| {
        // One key alone gains nothing from a read ahead of its own.
        for key in keys.iter().skip(1) {
            keyspace.fetch_ahead(memory, database, &keyspace.key(key));
        }
        let mut value = Vec::new();
        for key in &keys {
            value.clear();
            keyspace.find(memory, database, &keyspace.key(key), &mut value);
        }
    })
}

fn finish(state: &State, replied: Replied, reply: &mut Reply) -> Checked {
    let replied = replied.map_err(Failure::from)?;
    if let [b'-', error @ ..] = &replied[..] {
        state.statistics().errors.add(1);
        state.slow().note_error(&String::from_utf8_lossy(error));
    }
    reply.raw(&replied);
    Ok(())
}

/// Runs a script, and the commands that it calls.
struct Runner<'a, 'w> {
    state: &'a State,
    session: &'a mut Session,
    script: &'a Script<'a>,
    /// The stripes that it holds.
    stripes: Stripes,
    keyspace: Keyspace,
    watched: &'a mut Watched<'w>,
    /// The slot of its keys in a cluster, once it is known.
    slot: Option<u16>,
}

impl Runner<'_, '_> {
    /// Runs the script to its end.
    fn run<M: FullMemory>(
        &mut self,
        memory: &mut M,
        interpreter: &mut Interpreter,
        protocol: Protocol,
    ) -> Result<Replied, Stopped> {
        let owned = |words: &[&[u8]]| words.iter().map(|word| word.to_vec()).collect();
        let Script { source, keys, arguments, .. } = self.script;
        let run = Run {
            source: source.clone(),
            keys: owned(keys),
            arguments: owned(arguments),
            protocol,
            seed: self.state.random(),
        };
        self.session.in_script = true;
        let mut request = interpreter.resume(Instruction::Run(run));
        loop {
            if let Request::Done(replied) = request {
                self.session.in_script = false;
                return Ok(replied);
            }
            // A transaction that must run again unwinds, and so does a device error. The frames of
            // Lua must end first.
            let answered = catch_unwind(AssertUnwindSafe(|| self.answer(memory, request)));
            match answered {
                Ok(Ok(instruction)) => request = interpreter.resume(instruction),
                Ok(Err(stopped)) => {
                    interpreter.abort();
                    self.session.in_script = false;
                    return Err(stopped);
                }
                Err(payload) => {
                    interpreter.abort();
                    self.session.in_script = false;
                    resume_unwind(payload);
                }
            }
        }
    }

    /// Returns the answer to a request of the script.
    fn answer<M: FullMemory>(
        &mut self,
        memory: &mut M,
        request: Request,
    ) -> Result<Instruction, Stopped> {
        if self.watched.look() {
            return Err(Stopped::Killed);
        }
        if self.watched.must_wake() {
            self.wake_waiting(memory);
        }
        match request {
            Request::Command(words, protocol) => self.command(memory, &words, protocol),
            Request::Permission(words) => {
                let arguments: SmallVec<[&[u8]; 8]> = words.iter().map(Vec::as_slice).collect();
                let spec = table::find(arguments[0]).filter(|spec| spec.knows(&arguments));
                let Some(spec) = spec else {
                    let text = "Invalid command passed to redis.acl_check_cmd()";
                    return Ok(Instruction::Refuse(text.into()));
                };
                let user = self.session.user.as_ref();
                let may = user.is_none_or(|user| check_rules(user, spec, &arguments).is_ok());
                Ok(Instruction::Permit(may))
            }
            Request::Log(text) => {
                self.state.journal().tell("script", text);
                Ok(Instruction::Continue)
            }
            Request::Tick => {
                memory.let_others_run();
                Ok(Instruction::Continue)
            }
            Request::Idle | Request::Compiled(_) | Request::Done(_) => Ok(Instruction::Abort),
        }
    }

    /// Wakes the commands that wait for a latch of this script, which is slow. They give up.
    fn wake_waiting<M: FullMemory>(&self, memory: &mut M) {
        limit_patience(memory, false);
        let held = memory.latches().map(|latches| latches.held().to_vec()).unwrap_or_default();
        held.into_iter().for_each(|latch| memory.wake(latch));
        let stripes: Vec<u64> = (0..STRIPES).collect();
        self.keyspace.wake(memory, &stripes);
    }

    /// Runs a command of the script.
    fn command<M: FullMemory>(
        &mut self,
        memory: &mut M,
        words: &[Vec<u8>],
        protocol: Protocol,
    ) -> Result<Instruction, Stopped> {
        let arguments: SmallVec<[&[u8]; 8]> = words.iter().map(Vec::as_slice).collect();
        let refuse = |text: &str| Ok(Instruction::Refuse(text.into()));
        let spec = table::find(arguments[0]).filter(|spec| spec.knows(&arguments));
        let Some(spec) = spec else { return refuse("Unknown Redis command called from script") };
        if !spec.takes(arguments.len()) {
            return refuse("Wrong number of args calling Redis command from script");
        }
        if !spec.may_run_in_script(&arguments) {
            return refuse("This Redis command is not allowed from script");
        }
        if let Err(text) = check_script(self.session, spec, &arguments) {
            return refuse(text);
        }
        let of_script = (!self.script.source.crosses_slots).then_some(&mut self.slot);
        if let Err(text) = routing::check_script(spec, self.state, &arguments, of_script) {
            return refuse(text);
        }
        if let Err(failure) = replication::check(spec, self.state, self.session) {
            return refuse(failure.text());
        }
        if let Err(failure) = check_announced(self.state, self.session, 0) {
            return refuse(failure.text());
        }
        if self.script.reads_only && spec.changes() {
            return refuse("Write commands are not allowed from read-only scripts.");
        }
        let is_held = match spec.access_with(&arguments) {
            Access::Nothing => true,
            Access::Read | Access::Write => {
                spec.keys(&arguments).all(|key| self.stripes.has(self.keyspace.key(key).hash))
            }
            _ => self.stripes.is_all(),
        };
        if !is_held {
            return Err(Stopped::Undeclared);
        }
        if spec.changes() {
            self.watched.writes();
        }
        let mut reply = Reply::for_script(protocol);
        let session = &mut *self.session;
        let (state, arguments) = (self.state, &arguments[..]);
        let (reply_to, writer) = (&mut reply, Writer::Within);
        let mut call =
            Call { memory, state, session, arguments, staged: &[], reply: reply_to, writer };
        let ran = super::timed(spec, &mut call, |call| super::run_to_end(spec.id, call));
        if let Err(failure) = ran.and_then(|()| fetch(&mut call)) {
            reply.truncate(0);
            reply.error(failure.text());
        }
        Ok(Instruction::Reply(reply.take(Vec::new())))
    }
}

/// Reads the parts of a reply that are on flash.
fn fetch<M: FullMemory>(call: &mut Call<'_, M>) -> Checked {
    let keyspace = call.keyspace();
    let most = call.state.settings().argument_bytes_max as u64;
    if call.reply.large_bytes() > most {
        return Err(format!("ERR a script takes replies of at most {most} bytes").into());
    }
    while call.reply.has_large() {
        call.reply.fetch(call.memory, &keyspace);
    }
    Ok(())
}

/// `SCRIPT`.
pub(super) fn script_command<M: FullMemory>(call: &mut Call<'_, M>) -> Outcome {
    let subcommand = call.arguments[1].to_ascii_uppercase();
    match (subcommand.as_slice(), &call.arguments[2..]) {
        (b"LOAD", [text]) => {
            let source =
                with_interpreter(call, |call, interpreter| add(call.state, interpreter, text))?;
            call.reply.bulk(source.sha.digits());
        }
        (b"EXISTS", shas) => {
            call.reply.array(shas.len());
            for sha in shas {
                let sources = &call.state.shared.sources;
                let found = Sha::given(sha).and_then(|sha| sources.find(&sha));
                call.reply.integer(found.is_some().into());
            }
        }
        (b"FLUSH", modes) => {
            let known = |mode: &&[u8]| {
                mode.eq_ignore_ascii_case(b"async") || mode.eq_ignore_ascii_case(b"sync")
            };
            if modes.len() > 1 || !modes.iter().all(known) {
                return Err("ERR SCRIPT FLUSH only support SYNC|ASYNC option".into());
            }
            call.state.shared.sources.clear();
            call.state.scripts.clear();
            call.reply.ok();
        }
        (b"KILL", []) => {
            return match call.state.shared.slow_scripts.kill() {
                Kill::Done => {
                    call.reply.ok();
                    Ok(())
                }
                Kill::NotBusy => Err("NOTBUSY No scripts in execution right now.".into()),
                Kill::Keeps => Err(UNKILLABLE.into()),
            };
        }
        _ => return Err(SYNTAX.into()),
    }
    Ok(())
}
