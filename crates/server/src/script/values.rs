//! Values of Lua and replies, as Redis converts them into each other.

use mlua::{Lua, Table, Value};

use super::native::plain_number;
use crate::protocol::Protocol;

/// Tables within tables of a reply. Redis has room for more on its stack of Lua.
const DEPTH_MAX: usize = 1000;

/// The reply to a script whose result has too many tables within tables.
const TOO_DEEP: &[u8] = b"-ERR reached lua stack limit\r\n";

/// Returns the value of a reply.
///
/// # Errors
/// If Lua has no memory for it.
pub(super) fn from_reply(lua: &Lua, reply: &[u8]) -> mlua::Result<Value> {
    Reader { lua, bytes: reply }.value()
}

/// Reads replies that the server wrote.
struct Reader<'a> {
    lua: &'a Lua,
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Takes a line without its end.
    fn line(&mut self) -> &'a [u8] {
        let end = memchr::memchr(b'\r', self.bytes).unwrap_or(self.bytes.len());
        let line = &self.bytes[..end];
        self.bytes = self.bytes.get(end + 2..).unwrap_or_default();
        line
    }

    /// Takes `count` bytes and the line end after them.
    fn take(&mut self, count: usize) -> &'a [u8] {
        let taken = self.bytes.get(..count).unwrap_or_default();
        self.bytes = self.bytes.get(count + 2..).unwrap_or_default();
        taken
    }

    fn text(&self, bytes: &[u8]) -> mlua::Result<Value> {
        self.lua.create_string(bytes).map(Value::String)
    }

    /// Returns a table with one field.
    fn single(&self, name: &str, value: Value) -> mlua::Result<Value> {
        let table = self.lua.create_table_with_capacity(0, 1)?;
        table.raw_set(name, value)?;
        Ok(Value::Table(table))
    }

    fn value(&mut self) -> mlua::Result<Value> {
        let line = self.line();
        let (kind, rest) = line.split_at(1.min(line.len()));
        let count = crate::number::integer(rest).unwrap_or(0);
        match kind {
            b":" => Ok(Value::Number(count as f64)),
            b"$" | b"*" if count < 0 => Ok(Value::Boolean(false)),
            b"$" => {
                let bytes = self.take(count as usize);
                self.text(bytes)
            }
            b"+" => self.single("ok", self.text(rest)?),
            b"-" => self.single("err", self.text(&failure(line))?),
            b"*" | b">" => {
                let table = self.lua.create_table_with_capacity(count as usize, 0)?;
                for index in 1..=count {
                    table.raw_set(index, self.value()?)?;
                }
                Ok(Value::Table(table))
            }
            b"%" => {
                let table = self.lua.create_table()?;
                for _ in 0..count {
                    let key = self.value()?;
                    table.raw_set(key, self.value()?)?;
                }
                self.single("map", Value::Table(table))
            }
            b"~" => {
                let table = self.lua.create_table()?;
                for _ in 0..count {
                    table.raw_set(self.value()?, true)?;
                }
                self.single("set", Value::Table(table))
            }
            b"," => {
                let number = std::str::from_utf8(rest).ok().and_then(|text| text.parse().ok());
                self.single("double", Value::Number(number.unwrap_or(f64::NAN)))
            }
            b"#" => Ok(Value::Boolean(rest == b"t")),
            b"(" => self.single("big_number", self.text(rest)?),
            b"=" => {
                let bytes = self.take(count as usize);
                let (format, text) = bytes.split_at(4.min(bytes.len()));
                let table = self.lua.create_table()?;
                table.raw_set("string", self.text(text)?)?;
                table.raw_set("format", self.text(&format[..3.min(format.len())])?)?;
                self.single("verbatim_string", Value::Table(table))
            }
            _ => Ok(Value::Nil),
        }
    }
}

/// Returns the text of an error in the form of Redis: a code and a message. A text that does not
/// begin with `-`, or has no space, gets the code `ERR`.
pub(super) fn failure(text: &[u8]) -> Vec<u8> {
    let bare = text.strip_prefix(b"-").unwrap_or(text);
    let has_code = text.first() == Some(&b'-') && bare.contains(&b' ');
    let end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let from = bare.iter().position(|byte| !end(byte)).unwrap_or(bare.len());
    let to = bare.iter().rposition(|byte| !end(byte)).map_or(from, |last| last + 1);
    let bare = &bare[from..to];
    if has_code { bare.to_vec() } else { [b"ERR ", bare].concat() }
}

/// The protocols of a result.
#[derive(Clone, Copy, Debug)]
pub(super) struct Protocols {
    /// Protocol of the reply.
    pub(super) client: Protocol,
    /// Protocol that the script has chosen.
    pub(super) script: Protocol,
}

/// Writes a script's result as a reply. `None` if it is longer than `bytes_max`.
pub(super) fn to_reply(value: Value, protocols: Protocols, bytes_max: usize) -> Option<Vec<u8>> {
    let mut writer = Writer { protocols, bytes: Vec::new(), headers: Vec::new() };
    let mut frames: Vec<Frame> = Vec::new();
    frames.extend(writer.begin(value));
    while let Some(frame) = frames.last_mut() {
        if writer.bytes.len() > bytes_max || writer.headers.len() > bytes_max / 8 {
            return None;
        }
        match frame.next() {
            None => {
                let frame = frames.pop().expect("it was the last one");
                writer.headers[frame.header].count = frame.count;
            }
            Some(_) if frames.len() > DEPTH_MAX => writer.bytes.extend_from_slice(TOO_DEEP),
            Some(value) => frames.extend(writer.begin(value)),
        }
    }
    Some(writer.end())
}

/// The kind of a reply with parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Array,
    Map,
    Set,
}

/// The start of a reply with parts, whose number is known at the end.
struct Header {
    /// Offset in the bytes without headers.
    at: usize,
    kind: Kind,
    count: usize,
}

/// A table whose parts are being written.
struct Frame {
    header: usize,
    count: usize,
    parts: Parts,
}

enum Parts {
    /// The elements of an array, up to the first nil.
    Elements(Table),
    /// Keys, and values of a map.
    Pairs(std::vec::IntoIter<Value>, Kind),
}

impl Frame {
    fn next(&mut self) -> Option<Value> {
        match &mut self.parts {
            Parts::Elements(table) => {
                let value = table.raw_get(self.count + 1).ok().filter(|value| *value != Value::Nil);
                self.count += usize::from(value.is_some());
                value
            }
            Parts::Pairs(parts, kind) => {
                let value = parts.next();
                // A map counts pairs, when their key is written.
                let of_pair = if *kind == Kind::Map { 2 } else { 1 };
                let is_first = parts.len() % of_pair == of_pair - 1;
                self.count += usize::from(value.is_some() && is_first);
                value
            }
        }
    }
}

struct Writer {
    protocols: Protocols,
    bytes: Vec<u8>,
    headers: Vec<Header>,
}

impl Writer {
    fn line(&mut self, kind: u8, text: &[u8]) {
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Writes a line of text. Line ends in it become spaces.
    fn clean_line(&mut self, kind: u8, text: &[u8]) {
        let clean = |byte: &u8| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte };
        let text: Vec<u8> = text.iter().map(clean).collect();
        self.line(kind, &text);
    }

    fn number(&mut self, kind: u8, number: i64) {
        self.line(kind, itoa::Buffer::new().format(number).as_bytes());
    }

    fn bulk(&mut self, bytes: &[u8]) {
        self.number(b'$', bytes.len() as i64);
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn null(&mut self) {
        match self.protocols.client {
            Protocol::Two => self.bytes.extend_from_slice(b"$-1\r\n"),
            Protocol::Three => self.bytes.extend_from_slice(b"_\r\n"),
        }
    }

    /// Writes a value. Returns a frame if its parts must follow.
    fn begin(&mut self, value: Value) -> Option<Frame> {
        let in_three = self.protocols.client == Protocol::Three;
        match value {
            Value::String(text) => self.bulk(&text.as_bytes()),
            Value::Boolean(yes) if self.protocols.script == Protocol::Two => match yes {
                true => self.number(b':', 1),
                false => self.null(),
            },
            Value::Boolean(yes) if in_three => self.line(b'#', if yes { b"t" } else { b"f" }),
            Value::Boolean(yes) => self.number(b':', yes.into()),
            Value::Integer(number) => self.number(b':', number),
            Value::Number(number) => self.number(b':', truncated(number)),
            Value::Table(table) => return self.begin_table(table),
            _ => self.null(),
        }
        None
    }

    fn begin_table(&mut self, table: Table) -> Option<Frame> {
        let field = |name: &str| table.raw_get::<Value>(name).unwrap_or(Value::Nil);
        if let Some(text) = text_of(&field("err")) {
            self.clean_line(b'-', &text);
            return None;
        }
        if let Some(text) = text_of(&field("ok")) {
            self.clean_line(b'+', &text);
            return None;
        }
        if let Some(number) = plain_number(&field("double")) {
            self.double(number);
            return None;
        }
        let in_three = self.protocols.client == Protocol::Three;
        if let Some(text) = text_of(&field("big_number")) {
            match in_three {
                true => self.clean_line(b'(', &text),
                false => self.bulk(&text),
            }
            return None;
        }
        if let Value::Table(verbatim) = field("verbatim_string")
            && let Some(format) = verbatim.raw_get("format").ok().as_ref().and_then(text_of)
            && let Some(text) = verbatim.raw_get("string").ok().as_ref().and_then(text_of)
        {
            self.verbatim(&format, &text);
            return None;
        }
        if let Value::Table(map) = field("map") {
            return Some(self.begin_pairs(&map, Kind::Map));
        }
        if let Value::Table(set) = field("set") {
            return Some(self.begin_pairs(&set, Kind::Set));
        }
        let header = self.header(Kind::Array);
        Some(Frame { header, count: 0, parts: Parts::Elements(table) })
    }

    fn begin_pairs(&mut self, table: &Table, kind: Kind) -> Frame {
        let pairs = table.pairs::<Value, Value>().map_while(Result::ok);
        let parts: Vec<Value> = match kind {
            Kind::Map => pairs.flat_map(|(key, value)| [key, value]).collect(),
            _ => pairs.map(|(key, _)| key).collect(),
        };
        let header = self.header(kind);
        Frame { header, count: 0, parts: Parts::Pairs(parts.into_iter(), kind) }
    }

    fn header(&mut self, kind: Kind) -> usize {
        self.headers.push(Header { at: self.bytes.len(), kind, count: 0 });
        self.headers.len() - 1
    }

    fn double(&mut self, number: f64) {
        let text = crate::number::significant(number, 17);
        match self.protocols.client {
            Protocol::Two => self.bulk(text.as_bytes()),
            Protocol::Three => self.line(b',', text.as_bytes()),
        }
    }

    fn verbatim(&mut self, format: &[u8], text: &[u8]) {
        if self.protocols.client == Protocol::Two {
            return self.bulk(text);
        }
        let mut kind = format.to_vec();
        kind.resize(3, b' ');
        self.number(b'=', text.len() as i64 + 4);
        self.bytes.extend_from_slice(&kind);
        self.bytes.push(b':');
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// Returns all bytes, with the headers.
    fn end(mut self) -> Vec<u8> {
        if self.headers.is_empty() {
            return self.bytes;
        }
        let headers = std::mem::take(&mut self.headers);
        let bytes = std::mem::take(&mut self.bytes);
        let mut from = 0;
        for Header { at, kind, count } in headers {
            self.bytes.extend_from_slice(&bytes[from..at]);
            from = at;
            let (mark, count) = match (self.protocols.client, kind) {
                (Protocol::Two, Kind::Map) => (b'*', count * 2),
                (Protocol::Two, _) | (_, Kind::Array) => (b'*', count),
                (_, Kind::Map) => (b'%', count),
                (_, Kind::Set) => (b'~', count),
            };
            self.number(mark, count as i64);
        }
        self.bytes.extend_from_slice(&bytes[from..]);
        self.bytes
    }
}

/// Returns the bytes of a string.
pub(super) fn text_of(value: &Value) -> Option<Vec<u8>> {
    value.as_string().map(|text| text.as_bytes().to_vec())
}

/// Converts a number to an integer as C does on x86-64.
fn truncated(number: f64) -> i64 {
    let fits = number > -9.3e18 && number < 9.223_372_036_854_776e18;
    if fits { number as i64 } else { i64::MIN }
}
