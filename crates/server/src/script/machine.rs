//! The Lua side of an interpreter: what runs on its fiber.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use ebbtide_fiber::Suspend;
use mlua::{Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState};
use rustc_hash::FxBuildHasher;

use super::messages::{Asked, Instruction, Request, Run, Surroundings};
use super::native::{NO_MEMORY, Raised, plain_number};
use super::sandbox::{self, Shared};
use super::sources::{Sha, Source};
use super::values::{self, Protocols, failure, text_of};
use crate::number::significant;

/// Instructions of Lua after which a script lets other jobs run.
const TICK_EVERY: u32 = 10_000;

/// Place of the function that a hook calls.
const TICK: &str = "ebbtide tick";

/// The name of every script in errors.
const CHUNK: &str = "@user_script";

/// The error that ends a script. A script cannot catch it.
#[derive(Debug, thiserror::Error)]
#[error("the script was ended")]
struct Ended;

fn ended() -> mlua::Error {
    mlua::Error::external(Ended)
}

/// The fiber that Lua runs on.
struct Host<'a> {
    suspend: &'a Suspend<'a, Instruction, Asked>,
    lua: &'a Lua,
    shared: Rc<Shared>,
    /// True if the script must end.
    ends: Cell<bool>,
}

/// Follows instructions until the last one. `heap_bytes` bounds the memory of Lua.
pub(super) fn serve(
    suspend: &Suspend<'_, Instruction, Asked>,
    heap_bytes: usize,
    around: Surroundings,
) {
    // A panic must not leave the fiber: the job that resumed it would end with it.
    let _ = catch_unwind(AssertUnwindSafe(|| run_all(suspend, heap_bytes, around)));
}

fn run_all(
    suspend: &Suspend<'_, Instruction, Asked>,
    heap_bytes: usize,
    around: Surroundings,
) -> mlua::Result<()> {
    let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
    let lua = Lua::new_with(libraries, LuaOptions::default())?;
    let shared = Rc::new(Shared::new(heap_bytes / 2));
    let host = Host { suspend, lua: &lua, shared: shared.clone(), ends: Cell::new(false) };
    lua.scope(|scope| {
        let call =
            scope.create_function(|lua, values: MultiValue| match host.call(lua, values)? {
                Ok(value) => Ok(value),
                Err(text) => Err(Raised::Table(text).error()),
            })?;
        let pcall =
            scope.create_function(|lua, values: MultiValue| match host.call(lua, values)? {
                Ok(value) => Ok(value),
                Err(text) => {
                    let table = lua.create_table_with_capacity(0, 1)?;
                    table.raw_set("err", text)?;
                    Ok(Value::Table(table))
                }
            })?;
        let log = scope.create_function(|_, values: MultiValue| host.log(&values))?;
        let may = scope.create_function(|_, values: MultiValue| host.may(&values))?;
        let tick = scope.create_function(|_, ()| host.tick())?;
        lua.set_named_registry_value(TICK, tick)?;
        let sandbox = sandbox::build(&lua, &shared, around, [call, pcall, log, may])?;
        lua.set_global_hook(HookTriggers::new().every_nth_instruction(TICK_EVERY), |lua, _| {
            lua.named_registry_value::<Function>(TICK)?.call::<()>(())?;
            Ok(VmState::Continue)
        })?;
        lua.gc_collect()?;
        lua.set_memory_limit(heap_bytes)?;
        let compiled = RefCell::default();
        Machine { host: &host, sandbox, compiled, heap_bytes }.serve();
        lua.remove_global_hook();
        lua.set_memory_limit(0)?;
        Ok(())
    })
}

impl Host<'_> {
    fn suspend(&self, request: Request) -> Instruction {
        self.suspend.suspend((request, self.lua.used_memory()))
    }

    /// Sends a request of the script under way.
    fn ask(&self, request: Request) -> mlua::Result<Instruction> {
        if self.ends.get() {
            return Err(ended());
        }
        match self.suspend(request) {
            Instruction::Abort | Instruction::End => {
                self.ends.set(true);
                Err(ended())
            }
            instruction => Ok(instruction),
        }
    }

    fn tick(&self) -> mlua::Result<()> {
        self.ask(Request::Tick).map(drop)
    }

    /// Runs a command. Returns its reply, or the text of its error.
    fn call(&self, lua: &Lua, values: MultiValue) -> mlua::Result<Result<Value, String>> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(&failure(bytes)).into_owned();
        let answer = match words(&values, self.shared.bytes_max) {
            Err(text) => Instruction::Refuse(text.into()),
            Ok(words) => self.ask(Request::Command(words, self.shared.protocol.get()))?,
        };
        match answer {
            Instruction::Reply(reply) if reply.first() == Some(&b'-') => Ok(Err(text(&reply))),
            Instruction::Reply(reply) => values::from_reply(lua, &reply).map(Ok),
            Instruction::Refuse(reason) => Ok(Err(text(reason.as_bytes()))),
            _ => Err(ended()),
        }
    }

    /// Returns true if the user of the script may run a command.
    fn may(&self, values: &MultiValue) -> mlua::Result<bool> {
        let raised = |text: &str| Raised::Table(format!("ERR {text}")).error();
        let words = words(values, self.shared.bytes_max).map_err(raised)?;
        match self.ask(Request::Permission(words))? {
            Instruction::Permit(may) => Ok(may),
            Instruction::Refuse(text) => Err(raised(&text)),
            _ => Err(ended()),
        }
    }

    fn log(&self, values: &MultiValue) -> mlua::Result<()> {
        match sandbox::log_text(values) {
            Err(text) => Err(Raised::Table(format!("ERR {text}")).error()),
            Ok(text) => self.ask(Request::Log(text)).map(drop),
        }
    }
}

/// Returns the name and arguments of a command.
fn words(values: &MultiValue, bytes_max: usize) -> Result<Vec<Vec<u8>>, &'static str> {
    if values.is_empty() {
        return Err("Please specify at least one argument for this redis lib call");
    }
    let mut bytes = 0;
    let word = |value: &Value| {
        let word = match value {
            Value::String(text) => text.as_bytes().to_vec(),
            Value::Integer(number) => significant(*number as f64, 17).into_bytes(),
            Value::Number(number) => significant(*number, 17).into_bytes(),
            _ => return Err("Lua redis lib command arguments must be strings or integers"),
        };
        bytes += word.len();
        if bytes > bytes_max { Err("the arguments are too long") } else { Ok(word) }
    };
    values.iter().map(word).collect()
}

/// Runs scripts in a sandbox.
struct Machine<'a> {
    host: &'a Host<'a>,
    sandbox: sandbox::Sandbox,
    /// Functions of scripts.
    compiled: RefCell<HashMap<Sha, Function, FxBuildHasher>>,
    heap_bytes: usize,
}

impl Machine<'_> {
    fn serve(&self) {
        let mut request = Request::Idle;
        loop {
            request = match self.host.suspend(request) {
                Instruction::Compile(source) => Request::Compiled(self.function(&source).map(drop)),
                Instruction::Run(run) => {
                    let done = self.run(run);
                    self.tidy();
                    Request::Done(done)
                }
                Instruction::End => return,
                _ => Request::Idle,
            };
        }
    }

    /// Returns a script as a function.
    fn function(&self, source: &Arc<Source>) -> Result<Function, String> {
        if let Some(function) = self.compiled.borrow().get(&source.sha) {
            return Ok(function.clone());
        }
        let chunk = self.host.lua.load(&source.text[..]).set_name(CHUNK);
        let chunk = chunk.set_mode(mlua::chunk::ChunkMode::Text);
        let chunk = chunk.set_environment(self.sandbox.environment.clone());
        let function = chunk.into_function().map_err(|error| {
            let reason = match &error {
                mlua::Error::SyntaxError { message, .. } => message.clone(),
                mlua::Error::MemoryError(_) => NO_MEMORY.into(),
                other => other.to_string(),
            };
            format!("ERR Error compiling script (new function): {reason}")
        })?;
        self.compiled.borrow_mut().insert(source.sha, function.clone());
        Ok(function)
    }

    fn run(&self, run: Run) -> Result<Vec<u8>, String> {
        let function = self.function(&run.source)?;
        self.host.ends.set(false);
        self.host.shared.begin(run.seed);
        let sha = run.source.sha;
        let fails = |why: &str| format!("ERR Error running script {sha}, {why}");
        let result = self.call(&function, &run);
        match result {
            Ok((true, value)) => {
                let script = self.host.shared.protocol.get();
                let protocols = Protocols { client: run.protocol, script };
                let reply = values::to_reply(value, protocols, self.host.shared.bytes_max);
                reply.ok_or_else(|| fails("its reply takes more memory than a script may have"))
            }
            Ok((false, Value::Table(error))) => Err(located(&error, &sha)),
            Ok((false, Value::String(text))) => Err(fails(&text.to_string_lossy())),
            Ok((false, Value::Error(error))) if lacks_memory(&error) => Err(fails(NO_MEMORY)),
            Err(error) if lacks_memory(&error) => Err(fails(NO_MEMORY)),
            Ok((false, _)) | Err(_) => Err(fails("execution failure")),
        }
    }

    fn call(&self, function: &Function, run: &Run) -> mlua::Result<(bool, Value)> {
        let lua = self.host.lua;
        let table = |texts: &[Vec<u8>]| -> mlua::Result<Table> {
            let table = lua.create_table_with_capacity(texts.len(), 0)?;
            for text in texts {
                table.raw_push(lua.create_string(text)?)?;
            }
            Ok(table)
        };
        self.sandbox.globals.raw_set("KEYS", table(&run.keys)?)?;
        self.sandbox.globals.raw_set("ARGV", table(&run.arguments)?)?;
        self.sandbox.run.call(function)
    }

    /// Frees memory after a script, if Lua holds more than half of what it may.
    fn tidy(&self) {
        let lua = self.host.lua;
        lua.gc_restart();
        let is_full = || lua.used_memory() > self.heap_bytes / 2;
        for forget in [false, true] {
            if !is_full() {
                return;
            }
            for name in ["KEYS", "ARGV"] {
                // Setting a field that exists takes no memory.
                let _ = self.sandbox.globals.raw_set(name, Value::Nil);
            }
            if forget {
                self.compiled.borrow_mut().clear();
            }
            let _ = lua.gc_collect();
        }
    }
}

/// True if Lua had no memory left.
fn lacks_memory(error: &mlua::Error) -> bool {
    let is_memory = |error: &mlua::Error| matches!(error, mlua::Error::MemoryError(_));
    error.chain().any(|error| error.downcast_ref().is_some_and(is_memory))
}

/// Returns the text of an error, and where the script raised it.
fn located(error: &Table, sha: &Sha) -> String {
    let field = |name: &str| error.raw_get::<Value>(name).unwrap_or(Value::Nil);
    let text = |name: &str| text_of(&field(name)).map(|t| String::from_utf8_lossy(&t).into_owned());
    let message = text("err").unwrap_or_else(|| "ERR execution failure".into());
    match (text("source"), plain_number(&field("line"))) {
        (Some(source), Some(line)) => format!("{message} script: {sha}, on {source}:{line}."),
        _ => message,
    }
}
