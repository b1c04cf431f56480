//! JSON from values of Lua.

use mlua::{Table, Value};

use super::{Invalid, Settings};
use crate::number::significant;
use crate::script::native::{NO_MEMORY, Problem, plain_number};

/// Returns a value as JSON.
///
/// # Errors
/// If JSON has no such value, or it takes more than `bytes_max`.
pub(super) fn encode(
    value: Value,
    settings: &Settings,
    bytes_max: usize,
) -> Result<Vec<u8>, Problem> {
    let mut encoder = Encoder { settings, text: Vec::new(), frames: Vec::new() };
    encoder.begin(value)?;
    while let Some(frame) = encoder.frames.last_mut() {
        let part = frame.next();
        if encoder.text.len() > bytes_max {
            return Err(NO_MEMORY.into());
        }
        match part {
            Some((key, value, is_first)) => {
                if !is_first {
                    encoder.text.push(b',');
                }
                if let Some(key) = key {
                    encoder.key(&key)?;
                }
                encoder.begin(value)?;
            }
            None => {
                let frame = encoder.frames.pop().expect("it was the last one");
                encoder.text.push(frame.close());
            }
        }
    }
    Ok(encoder.text)
}

/// A table that is being written.
enum Frame {
    Array { table: Table, next: usize, length: usize },
    Object { pairs: std::vec::IntoIter<(Value, Value)>, is_first: bool },
}

impl Frame {
    /// Returns the next value, its key in an object, and true if it is the first.
    fn next(&mut self) -> Option<(Option<Value>, Value, bool)> {
        match self {
            Frame::Array { table, next, length } => {
                if *next >= *length {
                    return None;
                }
                *next += 1;
                let value = table.raw_get(*next).unwrap_or(Value::Nil);
                Some((None, value, *next == 1))
            }
            Frame::Object { pairs, is_first } => {
                let (key, value) = pairs.next()?;
                Some((Some(key), value, std::mem::take(is_first)))
            }
        }
    }

    fn close(&self) -> u8 {
        if matches!(self, Frame::Array { .. }) { b']' } else { b'}' }
    }
}

struct Encoder<'a> {
    settings: &'a Settings,
    text: Vec<u8>,
    frames: Vec<Frame>,
}

impl Encoder<'_> {
    /// Writes a value, or begins to write a table.
    fn begin(&mut self, value: Value) -> Result<(), Problem> {
        match value {
            Value::Nil => self.text.extend_from_slice(b"null"),
            Value::LightUserData(at) if at.0.is_null() => self.text.extend_from_slice(b"null"),
            Value::Boolean(yes) => {
                self.text.extend_from_slice(if yes { b"true" } else { b"false" })
            }
            Value::Integer(number) => self.number(number as f64)?,
            Value::Number(number) => self.number(number)?,
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Table(table) => return self.begin_table(table),
            other => {
                let name = other.type_name();
                return Err(format!("Cannot serialise {name}: type not supported").into());
            }
        }
        Ok(())
    }

    fn begin_table(&mut self, table: Table) -> Result<(), Problem> {
        let depth = self.frames.len() + 1;
        if depth > self.settings.encode_depth_max {
            return Err(format!("Cannot serialise, excessive nesting ({depth})").into());
        }
        let frame = match self.array_length(&table)? {
            Some(length) => {
                self.text.push(b'[');
                Frame::Array { table, next: 0, length }
            }
            None => {
                self.text.push(b'{');
                let pairs = table.pairs().collect::<mlua::Result<Vec<_>>>()?;
                Frame::Object { pairs: pairs.into_iter(), is_first: true }
            }
        };
        self.frames.push(frame);
        Ok(())
    }

    /// Returns the length of a table whose keys are all positive integers.
    fn array_length(&self, table: &Table) -> Result<Option<usize>, Problem> {
        let (mut longest, mut count) = (0usize, 0usize);
        for pair in table.pairs::<Value, Value>() {
            let Some(key) = plain_number(&pair?.0) else { return Ok(None) };
            if key < 1.0 || key.fract() != 0.0 || key > 1e15 {
                return Ok(None);
            }
            longest = longest.max(key as usize);
            count += 1;
        }
        let sparse = self.settings.sparse;
        let is_sparse = sparse.ratio > 0
            && longest > count.saturating_mul(sparse.ratio)
            && longest > sparse.safe;
        match is_sparse {
            true if !sparse.converts => {
                Err("Cannot serialise table: excessively sparse array".into())
            }
            true => Ok(None),
            false => Ok((count > 0).then_some(longest)),
        }
    }

    fn key(&mut self, key: &Value) -> Result<(), Problem> {
        match key {
            Value::String(text) => self.string(&text.as_bytes()),
            Value::Integer(_) | Value::Number(_) => {
                self.text.push(b'"');
                self.number(plain_number(key).unwrap_or_default())?;
                self.text.push(b'"');
            }
            other => {
                let name = other.type_name();
                let why = "table key must be a number or string";
                return Err(format!("Cannot serialise {name}: {why}").into());
            }
        }
        self.text.push(b':');
        Ok(())
    }

    fn number(&mut self, number: f64) -> Result<(), Problem> {
        if !number.is_finite() {
            match self.settings.encode_invalid {
                Invalid::Fails => {
                    return Err("Cannot serialise number: must not be NaN or Inf".into());
                }
                Invalid::Null => {
                    self.text.extend_from_slice(b"null");
                    return Ok(());
                }
                Invalid::Written => {}
            }
        }
        self.text.extend_from_slice(significant(number, self.settings.precision).as_bytes());
        Ok(())
    }

    fn string(&mut self, bytes: &[u8]) {
        self.text.push(b'"');
        for &byte in bytes {
            match byte {
                b'"' | b'\\' | b'/' => self.text.extend_from_slice(&[b'\\', byte]),
                8 => self.text.extend_from_slice(b"\\b"),
                9 => self.text.extend_from_slice(b"\\t"),
                10 => self.text.extend_from_slice(b"\\n"),
                12 => self.text.extend_from_slice(b"\\f"),
                13 => self.text.extend_from_slice(b"\\r"),
                0..32 | 127 => self.text.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                _ => self.text.push(byte),
            }
        }
        self.text.push(b'"');
    }
}
