//! Functions for scripts that are written in Rust.
//!
//! Such a function raises a [`Raised`], which Lua carries as a userdata. A C function keeps the
//! frame of a caller whose last call it is, so the error knows its place. The sandbox gives scripts
//! that catch it the text or table that Redis would have raised.

use mlua::{Function, Lua, MultiValue, Value};

/// Text of the error of a script whose memory is full.
pub(super) const NO_MEMORY: &str = "not enough memory";

/// Reason why a function has no results.
pub(super) enum Problem {
    /// It raises this text, with the place of its caller.
    Message(String),
    /// It raises a table with this text.
    Table(String),
    /// An error of Lua, such as a lack of memory.
    Lua(mlua::Error),
}

impl From<String> for Problem {
    fn from(message: String) -> Problem {
        Problem::Message(message)
    }
}

impl From<&str> for Problem {
    fn from(message: &str) -> Problem {
        Problem::Message(message.into())
    }
}

impl From<mlua::Error> for Problem {
    fn from(error: mlua::Error) -> Problem {
        Problem::Lua(error)
    }
}

/// The results of a function.
pub(super) type Results = Result<Vec<Value>, Problem>;

/// Returns `run` as a function of Lua. Errors name `name`.
pub(super) fn function(
    lua: &Lua,
    name: &'static str,
    run: impl Fn(&Lua, &Arguments) -> Results + 'static,
) -> mlua::Result<Function> {
    lua.create_function(move |lua, values: MultiValue| {
        let arguments = Arguments { name, values: values.into_vec() };
        answer(lua, run(lua, &arguments))
    })
}

/// An error that a script may catch.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Raised {
    /// A text.
    #[error("{0}")]
    Text(String),
    /// A table whose field `err` has this text.
    #[error("{0}")]
    Table(String),
}

impl Raised {
    /// Returns the error as Lua raises it.
    pub(super) fn error(self) -> mlua::Error {
        mlua::Error::external(self)
    }
}

/// Returns the text or table that a script sees in place of an error of Rust. `None` if the script
/// must end.
pub(super) fn seen(lua: &Lua, error: &Value) -> mlua::Result<Option<Value>> {
    let Value::Error(error) = error else { return Ok(None) };
    Ok(match error.downcast_ref::<Raised>() {
        Some(Raised::Text(text)) => Some(Value::String(lua.create_string(text)?)),
        Some(Raised::Table(text)) => {
            let table = lua.create_table_with_capacity(0, 1)?;
            table.raw_set("err", text.as_str())?;
            Some(Value::Table(table))
        }
        None => None,
    })
}

/// Returns the place of the caller of the running function, as Lua writes it before an error.
pub(super) fn caller(lua: &Lua) -> String {
    let place = lua.inspect_stack(1, |debug| {
        let (source, line) = (debug.source(), debug.current_line()?);
        Some(format!("{}:{line}: ", source.short_src?))
    });
    place.flatten().unwrap_or_default()
}

/// Returns results, or raises the error.
fn answer(lua: &Lua, results: Results) -> mlua::Result<MultiValue> {
    match results {
        Ok(values) => Ok(MultiValue::from_vec(values)),
        Err(Problem::Message(text)) => Err(Raised::Text(caller(lua) + &text).error()),
        Err(Problem::Table(text)) => Err(Raised::Table(format!("ERR {text}")).error()),
        Err(Problem::Lua(mlua::Error::MemoryError(_))) => {
            Err(Raised::Text(NO_MEMORY.into()).error())
        }
        Err(Problem::Lua(error)) => Err(error),
    }
}

/// The arguments of a function.
pub(super) struct Arguments {
    /// Name of the function.
    name: &'static str,
    /// The arguments.
    pub(super) values: Vec<Value>,
}

impl Arguments {
    /// Returns the argument at `index`, from 0. A missing one is nil.
    pub(super) fn value(&self, index: usize) -> Value {
        self.values.get(index).cloned().unwrap_or(Value::Nil)
    }

    /// Returns the error of a bad argument.
    pub(super) fn bad(&self, index: usize, why: &str) -> Problem {
        format!("bad argument #{} to '{}' ({why})", index + 1, self.name).into()
    }

    fn wrong_type(&self, index: usize, expected: &str) -> Problem {
        let found = self.values.get(index).map_or("no value", Value::type_name);
        let found = if found == "integer" { "number" } else { found };
        self.bad(index, &format!("{expected} expected, got {found}"))
    }

    /// Returns a number. Text of a number is one.
    pub(super) fn number(&self, index: usize) -> Result<f64, Problem> {
        number(&self.value(index)).ok_or_else(|| self.wrong_type(index, "number"))
    }

    /// Returns an integer. A fraction is cut off.
    pub(super) fn integer(&self, index: usize) -> Result<i64, Problem> {
        Ok(self.number(index)? as i64)
    }

    /// Returns an integer, or `otherwise` if there is no argument.
    pub(super) fn integer_or(&self, index: usize, otherwise: i64) -> Result<i64, Problem> {
        match self.value(index) {
            Value::Nil => Ok(otherwise),
            _ => self.integer(index),
        }
    }

    /// Returns the bytes of a string, or of a number as text.
    pub(super) fn bytes(&self, index: usize) -> Result<Vec<u8>, Problem> {
        bytes(&self.value(index)).ok_or_else(|| self.wrong_type(index, "string"))
    }
}

/// Returns a number. A text is none.
pub(super) fn plain_number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(number) => Some(*number as f64),
        Value::Number(number) => Some(*number),
        _ => None,
    }
}

/// Returns a number, or the number that a text is.
pub(super) fn number(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => {
            std::str::from_utf8(&text.as_bytes()).ok().and_then(|text| text.trim().parse().ok())
        }
        value => plain_number(value),
    }
}

/// Returns the bytes of a string, or of a number as Lua writes it.
fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        _ => number(value).map(|number| crate::number::significant(number, 14).into_bytes()),
    }
}
