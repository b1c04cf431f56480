//! Values of Lua from JSON. Errors are those of the library in Redis.

use mlua::{Lua, Table, Value};

use super::Settings;
use crate::script::native::Problem;

/// Returns the value of a text.
///
/// # Errors
/// If it is not JSON, or too deep.
pub(super) fn decode(lua: &Lua, text: &[u8], settings: &Settings) -> Result<Value, Problem> {
    if let [first, second, ..] = text
        && (*first == 0 || *second == 0)
    {
        return Err("JSON parser does not support UTF-16 or UTF-32".into());
    }
    let mut parser = Parser { lua, text, at: 0, settings, frames: Vec::new() };
    let token = parser.token();
    let mut value = parser.begin(token)?;
    while let Some(frame) = parser.frames.last_mut() {
        if let Some(value) = value.take() {
            frame.add(value)?;
        }
        value = parser.go_on()?;
    }
    let token = parser.token();
    match token.kind {
        Kind::End => Ok(value.expect("the outermost value is complete")),
        _ => Err(token.unexpected("the end")),
    }
}

/// Kind of a token, with its value.
#[derive(Debug)]
enum Kind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Kind::ObjectBegin => "T_OBJ_BEGIN",
            Kind::ObjectEnd => "T_OBJ_END",
            Kind::ArrayBegin => "T_ARR_BEGIN",
            Kind::ArrayEnd => "T_ARR_END",
            Kind::String(_) => "T_STRING",
            Kind::Number(_) => "T_NUMBER",
            Kind::Boolean(_) => "T_BOOLEAN",
            Kind::Null => "T_NULL",
            Kind::Colon => "T_COLON",
            Kind::Comma => "T_COMMA",
            Kind::End => "T_END",
            Kind::Error(name) => name,
        }
    }
}

/// A token, and the offset of its first byte.
#[derive(Debug)]
struct Token {
    kind: Kind,
    at: usize,
}

impl Token {
    fn unexpected(&self, expected: &str) -> Problem {
        let (found, place) = (self.kind.name(), self.at + 1);
        format!("Expected {expected} but found {found} at character {place}").into()
    }
}

/// An array or object that is being read.
struct Frame {
    table: Table,
    /// Number of elements of an array.
    count: usize,
    /// Key of the next value of an object.
    key: Option<Vec<u8>>,
    is_object: bool,
}

impl Frame {
    fn add(&mut self, value: Value) -> Result<(), Problem> {
        self.count += 1;
        match self.key.take() {
            Some(key) => self.table.raw_set(mlua::BString::from(key), value)?,
            None => self.table.raw_set(self.count, value)?,
        }
        Ok(())
    }
}

struct Parser<'a> {
    lua: &'a Lua,
    text: &'a [u8],
    at: usize,
    settings: &'a Settings,
    frames: Vec<Frame>,
}

impl Parser<'_> {
    /// Returns the value of a token. `None` if it begins an array or object, which is not empty.
    fn begin(&mut self, token: Token) -> Result<Option<Value>, Problem> {
        Ok(Some(match token.kind {
            Kind::String(text) => Value::String(self.lua.create_string(text)?),
            Kind::Number(number) => Value::Number(number),
            Kind::Boolean(yes) => Value::Boolean(yes),
            Kind::Null => Value::NULL,
            Kind::ObjectBegin | Kind::ArrayBegin => {
                let is_object = matches!(token.kind, Kind::ObjectBegin);
                return self.begin_table(is_object, token.at).map(|()| None);
            }
            _ => return Err(token.unexpected("value")),
        }))
    }

    fn begin_table(&mut self, is_object: bool, at: usize) -> Result<(), Problem> {
        let depth = self.frames.len() + 1;
        if depth > self.settings.decode_depth_max {
            let place = at + 1;
            return Err(format!(
                "Found too many nested data structures ({depth}) at character {place}"
            )
            .into());
        }
        let table = self.lua.create_table()?;
        self.frames.push(Frame { table, count: 0, key: None, is_object });
        Ok(())
    }

    /// Continues the innermost array or object. Returns its value if it ends, or a simple value in
    /// it.
    fn go_on(&mut self) -> Result<Option<Value>, Problem> {
        let frame = self.frames.last().expect("one is open");
        let (is_object, is_first) = (frame.is_object, frame.count == 0);
        let mut token = self.token();
        let ends = match token.kind {
            Kind::ObjectEnd => is_object,
            Kind::ArrayEnd => !is_object,
            _ => false,
        };
        if ends {
            let frame = self.frames.pop().expect("one is open");
            return Ok(Some(Value::Table(frame.table)));
        }
        if !is_first {
            if !matches!(token.kind, Kind::Comma) {
                let end = if is_object { "comma or object end" } else { "comma or array end" };
                return Err(token.unexpected(end));
            }
            token = self.token();
        }
        if is_object {
            let Kind::String(key) = token.kind else {
                return Err(token.unexpected("object key string"));
            };
            let colon = self.token();
            if !matches!(colon.kind, Kind::Colon) {
                return Err(colon.unexpected("colon"));
            }
            self.frames.last_mut().expect("one is open").key = Some(key);
            token = self.token();
        }
        self.begin(token)
    }

    fn token(&mut self) -> Token {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += self.text[self.at..].iter().take_while(|byte| is_space(byte)).count();
        let at = self.at;
        let rest = &self.text[at..];
        let single = |kind| (kind, 1);
        let (kind, length) = match rest {
            [] => (Kind::End, 0),
            [b'{', ..] => single(Kind::ObjectBegin),
            [b'}', ..] => single(Kind::ObjectEnd),
            [b'[', ..] => single(Kind::ArrayBegin),
            [b']', ..] => single(Kind::ArrayEnd),
            [b':', ..] => single(Kind::Colon),
            [b',', ..] => single(Kind::Comma),
            [b'"', ..] => return self.string(),
            [b'-' | b'+' | b'0'..=b'9', ..]
                if !self.settings.decode_invalid && is_invalid(rest) =>
            {
                single(Kind::Error("invalid number"))
            }
            [b'-' | b'+' | b'0'..=b'9', ..] => number(rest),
            [b't', b'r', b'u', b'e', ..] => (Kind::Boolean(true), 4),
            [b'f', b'a', b'l', b's', b'e', ..] => (Kind::Boolean(false), 5),
            [b'n', b'u', b'l', b'l', ..] => (Kind::Null, 4),
            _ if self.settings.decode_invalid && is_invalid(rest) => number(rest),
            _ => single(Kind::Error("invalid token")),
        };
        self.at += length;
        Token { kind, at }
    }

    fn string(&mut self) -> Token {
        let begin = self.at;
        let mut text = Vec::new();
        let mut at = begin + 1;
        let fails = |why, at| Token { kind: Kind::Error(why), at };
        loop {
            match self.text.get(at) {
                None => return fails("unexpected end of string", at),
                Some(b'"') => break,
                Some(b'\\') => match self.escape(at, &mut text) {
                    Ok(length) => at += length,
                    Err(why) => return fails(why, at),
                },
                Some(byte) => {
                    text.push(*byte);
                    at += 1;
                }
            }
        }
        self.at = at + 1;
        Token { kind: Kind::String(text), at: begin }
    }

    /// Appends what the escape at `at` stands for. Returns its length.
    fn escape(&self, at: usize, text: &mut Vec<u8>) -> Result<usize, &'static str> {
        let byte = match self.text.get(at + 1) {
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            Some(b'b') => 8,
            Some(b'f') => 12,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            Some(b'u') => {
                const INVALID: &str = "invalid unicode escape code";
                let unit = self.unit(at).ok_or(INVALID)?;
                let (point, length) = match unit {
                    0xd800..0xdc00 => {
                        let low = self.unit(at + 6).filter(|low| (0xdc00..0xe000).contains(low));
                        let low = low.ok_or(INVALID)?;
                        (0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00), 12)
                    }
                    0xdc00..0xe000 => return Err(INVALID),
                    unit => (unit, 6),
                };
                let point = char::from_u32(point).ok_or(INVALID)?;
                text.extend_from_slice(point.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(length);
            }
            _ => return Err("invalid escape code"),
        };
        text.push(byte);
        Ok(2)
    }

    /// Returns the unit of UTF-16 that is escaped at `at`.
    fn unit(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
        let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
        u32::from_str_radix(digits, 16).ok()
    }
}

fn without_sign(text: &[u8]) -> &[u8] {
    match text {
        [b'-' | b'+', rest @ ..] => rest,
        text => text,
    }
}

/// True if a text begins with a number that JSON does not have: hexadecimal, infinite, NaN, or
/// with leading zeros.
fn is_invalid(text: &[u8]) -> bool {
    let begins = |text: &[u8], word: &[u8]| {
        text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
    };
    match without_sign(text) {
        [b'0', b'x' | b'X' | b'0'..=b'9', ..] => true,
        [b'0', ..] | [b'1'..=b'9', ..] => false,
        rest => begins(rest, b"inf") || begins(rest, b"nan"),
    }
}

/// Reads a number as C does. Returns its token and length.
fn number(text: &[u8]) -> (Kind, usize) {
    let rest = without_sign(text);
    let sign = text.len() - rest.len();
    let negative = text[0] == b'-';
    let begins =
        |word: &[u8]| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let of = |value: f64, length: usize| {
        (Kind::Number(if negative { -value } else { value }), sign + length)
    };
    for (word, value) in
        [(&b"infinity"[..], f64::INFINITY), (b"inf", f64::INFINITY), (b"nan", f64::NAN)]
    {
        if begins(word) {
            return of(value, word.len());
        }
    }
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if begins(b"0x") {
        let hex = rest[2..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let value = rest[2..2 + hex].iter().fold(0.0, |value, digit| {
            value * 16.0 + f64::from(char::from(*digit).to_digit(16).unwrap_or(0))
        });
        return if hex == 0 { of(0.0, 1) } else { of(value, 2 + hex) };
    }
    let mut length = digits(rest);
    if rest.get(length) == Some(&b'.') {
        length += 1 + digits(&rest[length + 1..]);
    }
    if matches!(rest.get(length), Some(b'e' | b'E')) {
        let signed = without_sign(&rest[length + 1..]);
        let count = digits(signed);
        if count > 0 {
            length = rest.len() - signed.len() + count;
        }
    }
    let value = std::str::from_utf8(&rest[..length]).ok().and_then(|text| text.parse().ok());
    value.map_or((Kind::Error("invalid number"), 1), |value| of(value, length))
}
