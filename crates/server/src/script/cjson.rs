//! The library `cjson`: values of Lua as JSON.

mod decode;
mod encode;

use std::cell::Cell;
use std::rc::Rc;

use mlua::{Lua, Table, Value};

use super::native::{Arguments, Problem, Results, function};

/// The largest value of a setting.
const SETTING_MAX: i64 = i32::MAX as i64;

/// Settings that a script may change until it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// What happens to an array with holes.
    sparse: Sparse,
    encode_depth_max: usize,
    decode_depth_max: usize,
    /// Significant digits of a number.
    precision: usize,
    /// What happens to a number that JSON does not have.
    encode_invalid: Invalid,
    /// True if numbers that JSON does not have are read.
    decode_invalid: bool,
    /// Has no effect.
    keeps_buffer: bool,
}

/// Rules for arrays with holes. One with more than `safe` elements has at most `ratio` for each
/// that is not nil.
#[derive(Clone, Copy, Debug)]
struct Sparse {
    /// True if an array with too many holes becomes an object.
    converts: bool,
    ratio: usize,
    safe: usize,
}

/// What happens to infinity and NaN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Invalid {
    Fails,
    Written,
    Null,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            sparse: Sparse { converts: false, ratio: 2, safe: 10 },
            encode_depth_max: 1000,
            decode_depth_max: 1000,
            precision: 14,
            encode_invalid: Invalid::Fails,
            decode_invalid: true,
            keeps_buffer: true,
        }
    }
}

/// Returns the functions of the library. JSON has at most `bytes_max` bytes.
pub(super) fn library(
    lua: &Lua,
    settings: &Rc<Cell<Settings>>,
    bytes_max: usize,
) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let shared = settings.clone();
    let encode = function(lua, "encode", move |lua, arguments| {
        if arguments.values.len() != 1 {
            return Err(arguments.bad(0, "expected 1 argument"));
        }
        let text = encode::encode(arguments.value(0), &shared.get(), bytes_max)?;
        Ok(vec![Value::String(lua.create_string(text)?)])
    })?;
    table.raw_set("encode", encode)?;
    let shared = settings.clone();
    let decode = function(lua, "decode", move |lua, arguments| {
        if arguments.values.len() != 1 {
            return Err(arguments.bad(0, "expected 1 argument"));
        }
        Ok(vec![decode::decode(lua, &arguments.bytes(0)?, &shared.get())?])
    })?;
    table.raw_set("decode", decode)?;
    let setters: [(&'static str, Setter); 7] = [
        ("encode_sparse_array", sparse),
        ("encode_max_depth", encode_depth),
        ("decode_max_depth", decode_depth),
        ("encode_number_precision", precision),
        ("encode_keep_buffer", keep_buffer),
        ("encode_invalid_numbers", encode_invalid),
        ("decode_invalid_numbers", decode_invalid),
    ];
    for (name, set) in setters {
        let shared = settings.clone();
        let set = function(lua, name, move |lua, arguments| {
            let mut changed = shared.get();
            let results = set(lua, &mut changed, arguments)?;
            shared.set(changed);
            Ok(results)
        })?;
        table.raw_set(name, set)?;
    }
    Ok(table)
}

/// Returns the values of the library that are no functions.
pub(super) fn values(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("null", Value::NULL)?;
    table.raw_set("_NAME", "cjson")?;
    table.raw_set("_VERSION", "2.1.0")?;
    Ok(table)
}

/// Changes settings, and returns their values.
type Setter = fn(&Lua, &mut Settings, &Arguments) -> Results;

fn integer(arguments: &Arguments, index: usize, was: usize, most: i64) -> Result<usize, Problem> {
    let least = i64::from(index == 0);
    let value = arguments.integer_or(index, was as i64)?;
    if !(least..=most).contains(&value) {
        let why = format!("expected integer between {least} and {most}");
        return Err(arguments.bad(index, &why));
    }
    Ok(value as usize)
}

fn flag(arguments: &Arguments, index: usize, was: bool) -> bool {
    match arguments.value(index) {
        Value::Nil => was,
        Value::Boolean(yes) => yes,
        value => value.as_string().is_some_and(|text| &*text.as_bytes() == b"on"),
    }
}

fn sparse(_: &Lua, settings: &mut Settings, arguments: &Arguments) -> Results {
    let sparse = &mut settings.sparse;
    sparse.converts = flag(arguments, 0, sparse.converts);
    sparse.ratio = integer(arguments, 1, sparse.ratio, SETTING_MAX)?;
    sparse.safe = integer(arguments, 2, sparse.safe, SETTING_MAX)?;
    let number = |number: usize| Value::Number(number as f64);
    Ok(vec![Value::Boolean(sparse.converts), number(sparse.ratio), number(sparse.safe)])
}

fn encode_depth(_: &Lua, settings: &mut Settings, arguments: &Arguments) -> Results {
    settings.encode_depth_max = integer(arguments, 0, settings.encode_depth_max, SETTING_MAX)?;
    Ok(vec![Value::Number(settings.encode_depth_max as f64)])
}

fn decode_depth(_: &Lua, settings: &mut Settings, arguments: &Arguments) -> Results {
    settings.decode_depth_max = integer(arguments, 0, settings.decode_depth_max, SETTING_MAX)?;
    Ok(vec![Value::Number(settings.decode_depth_max as f64)])
}

fn precision(_: &Lua, settings: &mut Settings, arguments: &Arguments) -> Results {
    settings.precision = integer(arguments, 0, settings.precision, 14)?;
    Ok(vec![Value::Number(settings.precision as f64)])
}

fn keep_buffer(_: &Lua, settings: &mut Settings, arguments: &Arguments) -> Results {
    settings.keeps_buffer = flag(arguments, 0, settings.keeps_buffer);
    Ok(vec![Value::Boolean(settings.keeps_buffer)])
}

fn encode_invalid(lua: &Lua, settings: &mut Settings, arguments: &Arguments) -> Results {
    let is_null =
        |value: &Value| value.as_string().is_some_and(|text| &*text.as_bytes() == b"null");
    settings.encode_invalid = match arguments.value(0) {
        value if is_null(&value) => Invalid::Null,
        Value::Nil => settings.encode_invalid,
        _ if flag(arguments, 0, false) => Invalid::Written,
        _ => Invalid::Fails,
    };
    Ok(vec![match settings.encode_invalid {
        Invalid::Null => Value::String(lua.create_string("null")?),
        other => Value::Boolean(other == Invalid::Written),
    }])
}

fn decode_invalid(_: &Lua, settings: &mut Settings, arguments: &Arguments) -> Results {
    settings.decode_invalid = flag(arguments, 0, settings.decode_invalid);
    Ok(vec![Value::Boolean(settings.decode_invalid)])
}
