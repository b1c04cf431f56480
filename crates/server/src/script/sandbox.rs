//! The globals of scripts. `sandbox.lua` makes them from the functions here.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Function, Lua, MultiValue, Table, Value};
use rustix::time::{ClockId, clock_gettime};

use super::messages::Surroundings;
use super::native::{self, Arguments, Problem, Raised, Results, function, plain_number};
use super::sources::Sha;
use super::{bit, cjson, cmsgpack, structs, values};
use crate::protocol::Protocol;

/// The longest pattern of `string.find` and similar functions, in bytes. Each item of a pattern
/// takes stack.
const PATTERN_BYTES_MAX: usize = 512;

/// The most calls of `table.sort` within each other.
const SORTS_MAX: usize = 16;

/// Name of the sandbox's code in the places of errors.
const CHUNK: &str = "=sandbox";

/// State that a script changes until it ends.
pub(super) struct Shared {
    /// The most bytes of a value outside of Lua's memory.
    pub(super) bytes_max: usize,
    /// Protocol of the replies to the script.
    pub(super) protocol: Cell<Protocol>,
    json: Rc<Cell<cjson::Settings>>,
    /// State of the random numbers, 48 bits.
    random: Cell<u64>,
}

impl Shared {
    pub(super) fn new(bytes_max: usize) -> Shared {
        let (protocol, random) = (Cell::new(Protocol::Two), Cell::new(0));
        Shared { bytes_max, protocol, json: Rc::default(), random }
    }

    /// Resets the state for the next script.
    pub(super) fn begin(&self, seed: u64) {
        self.protocol.set(Protocol::Two);
        self.json.set(cjson::Settings::default());
        self.random.set(seed << 16 | 0x330e);
    }

    /// Returns the next random number, from 0 and below 1.
    fn random(&self) -> f64 {
        const BITS: u64 = (1 << 48) - 1;
        let next = self.random.get().wrapping_mul(0x5_deec_e66d).wrapping_add(0xb) & BITS;
        self.random.set(next);
        // As in Redis, 31 bits are divided by 2³¹ - 1.
        ((next >> 17) % i32::MAX as u64) as f64 / f64::from(i32::MAX)
    }
}

/// The globals of scripts, and the function that runs a script.
pub(super) struct Sandbox {
    /// The globals as scripts see them.
    pub(super) environment: Table,
    /// The table behind them.
    pub(super) globals: Table,
    /// Calls a function. Returns true and its result, or false and its error.
    pub(super) run: Function,
}

/// Makes the globals. The functions are `redis.call`, `redis.pcall`, `redis.log` and
/// `redis.acl_check_cmd`.
pub(super) fn build(
    lua: &Lua,
    shared: &Rc<Shared>,
    around: Surroundings,
    [call, pcall, log, may]: [Function; 4],
) -> mlua::Result<Sandbox> {
    let native = lua.create_table()?;
    native.raw_set("call", call)?;
    native.raw_set("pcall", pcall)?;
    native.raw_set("seen", lua.create_function(|lua, error: Value| native::seen(lua, &error))?)?;
    native.raw_set("guard", lua.create_function(guard)?)?;
    native.raw_set("failure", lua.create_function(failure)?)?;
    native.raw_set("where", lua.create_function(|lua, ()| Ok(place(lua).unzip()))?)?;
    native.raw_set("clock", lua.create_function(|_, ()| Ok(clock_s()))?)?;
    native.raw_set("version", around.version)?;
    native.raw_set("version_number", version_number(around.version))?;
    let source = shared.clone();
    native.raw_set("random", function(lua, "random", move |_, a| random(&source, a))?)?;
    let source = shared.clone();
    let seed = function(lua, "randomseed", move |_, arguments| {
        source.random.set((arguments.integer(0)? as u64 & 0xffff_ffff) << 16 | 0x330e);
        Ok(Vec::new())
    })?;
    native.raw_set("randomseed", seed)?;
    native.raw_set("bit", bit::library(lua)?)?;
    native.raw_set("struct", structs::library(lua, shared.bytes_max)?)?;
    native.raw_set("cjson", cjson::library(lua, &shared.json, shared.bytes_max)?)?;
    native.raw_set("cjson_values", cjson::values(lua)?)?;
    native.raw_set("cmsgpack", cmsgpack::library(lua, shared.bytes_max)?)?;
    native.raw_set("cmsgpack_values", cmsgpack::values(lua)?)?;
    let redis = redis(lua, shared)?;
    redis.raw_set("log", log)?;
    redis.raw_set("acl_check_cmd", may)?;
    native.raw_set("redis", redis)?;
    let made = lua.load(include_str!("sandbox.lua")).set_name(CHUNK);
    let (environment, globals, run) = made.call((native, PATTERN_BYTES_MAX, SORTS_MAX))?;
    Ok(Sandbox { environment, globals, run })
}

/// Returns the functions of the table `redis` that raise their errors as tables.
fn redis(lua: &Lua, shared: &Rc<Shared>) -> mlua::Result<Table> {
    let redis = lua.create_table()?;
    let sha = function(lua, "sha1hex", |lua, arguments| {
        if arguments.values.len() != 1 {
            return Err(Problem::Table("wrong number of arguments".into()));
        }
        // As in Redis, a value that is no text counts as an empty one.
        let text = arguments.bytes(0).unwrap_or_default();
        Ok(vec![Value::String(lua.create_string(Sha::of(&text).digits())?)])
    })?;
    redis.raw_set("sha1hex", sha)?;
    let shared = shared.clone();
    let setresp = function(lua, "setresp", move |_, arguments| {
        if arguments.values.len() != 1 {
            return Err(Problem::Table("redis.setresp() requires one argument.".into()));
        }
        shared.protocol.set(match arguments.number(0).unwrap_or(0.0) as i64 {
            2 => Protocol::Two,
            3 => Protocol::Three,
            _ => return Err(Problem::Table("RESP version must be 2 or 3.".into())),
        });
        Ok(Vec::new())
    })?;
    redis.raw_set("setresp", setresp)?;
    let set_repl = function(lua, "set_repl", |_, arguments| {
        if arguments.values.len() != 1 {
            return Err(Problem::Table("redis.set_repl() requires two arguments.".into()));
        }
        if arguments.number(0).unwrap_or(0.0) as i64 & !3 != 0 {
            let why =
                "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
            return Err(Problem::Table(why.into()));
        }
        Ok(Vec::new())
    })?;
    redis.raw_set("set_repl", set_repl)?;
    Ok(redis)
}

/// Returns a function that calls `function` unless its first argument is one of the keys of
/// `protected`.
fn guard(
    lua: &Lua,
    (name, function, protected): (String, Function, Table),
) -> mlua::Result<Function> {
    lua.create_function(move |lua, values: MultiValue| {
        let first = values.front().cloned().unwrap_or(Value::Nil);
        if protected.raw_get::<Option<bool>>(first)?.is_some() {
            return Err(Raised::Text("Attempt to modify a readonly table".into()).error());
        }
        function.call::<MultiValue>(values).map_err(|error| match error {
            mlua::Error::RuntimeError(text) => {
                // Lua does not know the name of a function that Rust calls.
                let message = text.lines().next().unwrap_or_default();
                let message = message.replace("'?'", &format!("'{name}'"));
                Raised::Text(native::caller(lua) + &message).error()
            }
            other => other,
        })
    })
}

fn failure(lua: &Lua, text: mlua::LuaString) -> mlua::Result<mlua::LuaString> {
    let text = text.as_bytes();
    let marked = if text.starts_with(b"-") { text.to_vec() } else { [b"-", &*text].concat() };
    lua.create_string(values::failure(&marked))
}

/// Returns the source and line of the innermost function of the script.
fn place(lua: &Lua) -> Option<(String, usize)> {
    let mut level = 1;
    loop {
        let found = lua.inspect_stack(level, |debug| {
            let source = debug.source();
            let name = source.source.filter(|_| source.what != "C" && source.what != "tail");
            let name = name.filter(|name| name != CHUNK)?;
            Some((name.into_owned(), debug.current_line()?))
        })?;
        if found.is_some() {
            return found;
        }
        level += 1;
    }
}

/// Seconds of CPU time of the process.
fn clock_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The version of Redis as a number: a byte each for major, minor and patch.
fn version_number(version: &str) -> u32 {
    let parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    parts.fold(0, |number, part| number << 8 | part)
}

fn random(shared: &Shared, arguments: &Arguments) -> Results {
    let random = shared.random();
    let number = match arguments.values.len() {
        0 => random,
        1 => {
            let most = arguments.integer(0)?;
            if most < 1 {
                return Err(arguments.bad(0, "interval is empty"));
            }
            (random * most as f64).floor() + 1.0
        }
        2 => {
            let (least, most) = (arguments.integer(0)?, arguments.integer(1)?);
            if least > most {
                return Err(arguments.bad(1, "interval is empty"));
            }
            let count = most as f64 - least as f64 + 1.0;
            (random * count).floor() + least as f64
        }
        _ => return Err("wrong number of arguments".into()),
    };
    Ok(vec![Value::Number(number)])
}

/// Returns the text that a script logs.
pub(super) fn log_text(values: &MultiValue) -> Result<String, &'static str> {
    if values.len() < 2 {
        return Err("redis.log() requires two arguments or more.");
    }
    let Some(level) = values.front().and_then(native::number) else {
        return Err("First argument must be a number (log level).");
    };
    if !(0.0..4.0).contains(&level) {
        return Err("Invalid debug level.");
    }
    let texts = values.iter().skip(1).filter_map(|value| match value {
        Value::String(text) => Some(text.to_string_lossy()),
        other => plain_number(other).map(|number| crate::number::significant(number, 14)),
    });
    Ok(texts.collect::<Vec<_>>().join(" "))
}
