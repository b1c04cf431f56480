//! The library `cmsgpack`: values of Lua as MessagePack.

use mlua::{Lua, Table, Value};

use super::native::{Arguments, NO_MEMORY, Problem, Results, function, plain_number};

/// Tables within tables beyond this number are packed as nil.
const NESTING_MAX: usize = 16;

/// Arrays and maps within each other that are unpacked.
const UNPACKED_NESTING_MAX: usize = 100;

const MISSING: &str = "Missing bytes in input.";
const BAD: &str = "Bad data format in input.";

/// Returns the functions of the library. Packed values take at most `bytes_max`.
pub(super) fn library(lua: &Lua, bytes_max: usize) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let pack = function(lua, "pack", move |lua, arguments| {
        if arguments.values.is_empty() {
            return Err("bad argument #0 to 'pack' (MessagePack pack needs input.)".into());
        }
        let mut packer = Packer { bytes: Vec::new(), bytes_max };
        arguments.values.iter().try_for_each(|value| packer.value(value, 0))?;
        Ok(vec![Value::String(lua.create_string(packer.bytes)?)])
    })?;
    table.raw_set("pack", pack)?;
    table.raw_set("unpack", function(lua, "unpack", |lua, a| unpack(lua, a, None, 0))?)?;
    let one = function(lua, "unpack_one", |lua, arguments| {
        unpack(lua, arguments, Some(1), arguments.integer_or(1, 0)?)
    })?;
    table.raw_set("unpack_one", one)?;
    let limited = function(lua, "unpack_limit", |lua, arguments| {
        unpack(lua, arguments, Some(arguments.integer(1)?), arguments.integer_or(2, 0)?)
    })?;
    table.raw_set("unpack_limit", limited)?;
    Ok(table)
}

/// Returns the values of the library that are no functions.
pub(super) fn values(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set("_NAME", "cmsgpack")?;
    table.raw_set("_VERSION", "lua-cmsgpack 0.4.0")?;
    Ok(table)
}

struct Packer {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Packer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Problem> {
        if self.bytes.len() > self.bytes_max {
            return Err(NO_MEMORY.into());
        }
        match value {
            Value::String(text) => {
                let text = text.as_bytes();
                self.head(text.len(), (0xa0, 32), [Some(0xd9), Some(0xda), Some(0xdb)]);
                self.bytes.extend_from_slice(&text);
            }
            Value::Boolean(yes) => self.bytes.push(if *yes { 0xc3 } else { 0xc2 }),
            Value::Integer(number) => self.number(*number as f64),
            Value::Number(number) => self.number(*number),
            Value::Table(table) if depth < NESTING_MAX => return self.table(table, depth),
            _ => self.bytes.push(0xc0),
        }
        Ok(())
    }

    /// Writes a length: in a byte with `fixed`, or after a byte for 8, 16 or 32 bits.
    fn head(&mut self, length: usize, fixed: (u8, usize), marks: [Option<u8>; 3]) {
        let [mark8, mark16, mark32] = marks;
        if length < fixed.1 {
            self.bytes.push(fixed.0 | length as u8);
        } else if let Some(mark) = mark8.filter(|_| length <= 0xff) {
            self.bytes.extend_from_slice(&[mark, length as u8]);
        } else if let Some(mark) = mark16.filter(|_| length <= 0xffff) {
            self.bytes.push(mark);
            self.bytes.extend_from_slice(&(length as u16).to_be_bytes());
        } else if let Some(mark) = mark32 {
            self.bytes.push(mark);
            self.bytes.extend_from_slice(&(length as u32).to_be_bytes());
        }
    }

    fn number(&mut self, number: f64) {
        let is_integer = number.fract() == 0.0
            && (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
        if is_integer {
            return self.integer(number as i64);
        }
        if f64::from(number as f32) == number {
            self.bytes.push(0xca);
            self.bytes.extend_from_slice(&(number as f32).to_be_bytes());
        } else {
            self.bytes.push(0xcb);
            self.bytes.extend_from_slice(&number.to_be_bytes());
        }
    }

    fn integer(&mut self, number: i64) {
        let bytes = number.to_be_bytes();
        let (mark, length) = match number {
            -32..=0x7f => return self.bytes.push(number as u8),
            0x80..=0xff => (0xcc, 1),
            0x100..=0xffff => (0xcd, 2),
            0x1_0000..=0xffff_ffff => (0xce, 4),
            0x1_0000_0000.. => (0xcf, 8),
            -128..-32 => (0xd0, 1),
            -32768..-128 => (0xd1, 2),
            -0x8000_0000..-32768 => (0xd2, 4),
            _ => (0xd3, 8),
        };
        self.bytes.push(mark);
        self.bytes.extend_from_slice(&bytes[8 - length..]);
    }

    fn table(&mut self, table: &Table, depth: usize) -> Result<(), Problem> {
        if let Some(length) = array_length(table)? {
            self.head(length, (0x90, 16), [None, Some(0xdc), Some(0xdd)]);
            for index in 1..=length {
                self.value(&table.raw_get(index)?, depth + 1)?;
            }
            return Ok(());
        }
        let pairs = table.pairs::<Value, Value>().collect::<mlua::Result<Vec<_>>>()?;
        self.head(pairs.len(), (0x80, 16), [None, Some(0xde), Some(0xdf)]);
        for (key, value) in pairs {
            self.value(&key, depth + 1)?;
            self.value(&value, depth + 1)?;
        }
        Ok(())
    }
}

/// Returns the length of a table whose keys are 1, 2 and so on.
fn array_length(table: &Table) -> Result<Option<usize>, Problem> {
    let (mut longest, mut count) = (0.0f64, 0usize);
    for pair in table.pairs::<Value, Value>() {
        let Some(key) = plain_number(&pair?.0) else { return Ok(None) };
        if key < 1.0 || key.fract() != 0.0 {
            return Ok(None);
        }
        longest = longest.max(key);
        count += 1;
    }
    Ok((longest == count as f64).then_some(count))
}

/// Unpacks at most `limit` values from byte `offset` on. With a limit, the first result is the
/// offset of the next value, or -1 at the end.
fn unpack(lua: &Lua, arguments: &Arguments, limit: Option<i64>, offset: i64) -> Results {
    let bytes = arguments.bytes(0)?;
    let length = bytes.len() as i64;
    let most = limit.unwrap_or(0);
    if offset < 0 || most < 0 {
        return Err(format!(
            "Invalid request to unpack with offset of {offset} and limit of {length}."
        )
        .into());
    }
    if offset > length {
        return Err(format!("Start offset {offset} greater than input length {length}.").into());
    }
    let mut unpacker = Unpacker { lua, bytes: &bytes[offset as usize..] };
    let mut values = Vec::new();
    while !unpacker.bytes.is_empty() && (most == 0 || (values.len() as i64) < most) {
        values.push(unpacker.value(0)?);
    }
    if limit.is_some() {
        let next = length - unpacker.bytes.len() as i64;
        let next = if unpacker.bytes.is_empty() { -1 } else { next };
        values.insert(0, Value::Number(next as f64));
    }
    Ok(values)
}

struct Unpacker<'a> {
    lua: &'a Lua,
    bytes: &'a [u8],
}

impl<'a> Unpacker<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Problem> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or(MISSING)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Takes an unsigned integer of some bytes.
    fn unsigned(&mut self, bytes: usize) -> Result<u64, Problem> {
        Ok(self.take(bytes)?.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, bytes: usize) -> Result<Value, Problem> {
        let unused = 64 - 8 * bytes as u32;
        let value = (self.unsigned(bytes)? << unused) as i64 >> unused;
        Ok(Value::Number(value as f64))
    }

    fn value(&mut self, depth: usize) -> Result<Value, Problem> {
        let mark = self.take(1)?[0];
        Ok(match mark {
            0..0x80 => Value::Number(f64::from(mark)),
            0xe0.. => Value::Number(f64::from(mark as i8)),
            0xc0 => Value::Nil,
            0xc2 => Value::Boolean(false),
            0xc3 => Value::Boolean(true),
            0xca => Value::Number(f64::from(f32::from_bits(self.unsigned(4)? as u32))),
            0xcb => Value::Number(f64::from_bits(self.unsigned(8)?)),
            0xcc..=0xcf => Value::Number(self.unsigned(1 << (mark - 0xcc))? as f64),
            0xd0..=0xd3 => self.signed(1 << (mark - 0xd0))?,
            0xa0..0xc0 => self.string(usize::from(mark & 31))?,
            0xd9..=0xdb => {
                let length = self.unsigned(1 << (mark - 0xd9))?;
                self.string(length as usize)?
            }
            0xc4..=0xc6 => {
                let length = self.unsigned(1 << (mark - 0xc4))?;
                self.string(length as usize)?
            }
            0x90..0xa0 => self.array(usize::from(mark & 15), depth)?,
            0xdc | 0xdd => {
                let length = self.unsigned(2 << (mark - 0xdc))?;
                self.array(length as usize, depth)?
            }
            0x80..0x90 => self.map(usize::from(mark & 15), depth)?,
            0xde | 0xdf => {
                let length = self.unsigned(2 << (mark - 0xde))?;
                self.map(length as usize, depth)?
            }
            _ => return Err(BAD.into()),
        })
    }

    fn string(&mut self, length: usize) -> Result<Value, Problem> {
        let bytes = self.take(length)?;
        Ok(Value::String(self.lua.create_string(bytes)?))
    }

    fn nested(depth: usize) -> Result<usize, Problem> {
        if depth >= UNPACKED_NESTING_MAX {
            return Err(BAD.into());
        }
        Ok(depth + 1)
    }

    fn array(&mut self, length: usize, depth: usize) -> Result<Value, Problem> {
        let depth = Self::nested(depth)?;
        let table = self.lua.create_table()?;
        for index in 1..=length {
            let value = self.value(depth)?;
            table.raw_set(index, value)?;
        }
        Ok(Value::Table(table))
    }

    fn map(&mut self, length: usize, depth: usize) -> Result<Value, Problem> {
        let depth = Self::nested(depth)?;
        let table = self.lua.create_table()?;
        for _ in 0..length {
            let key = self.value(depth)?;
            let value = self.value(depth)?;
            let is_nan = plain_number(&key).is_some_and(f64::is_nan);
            if key == Value::Nil || is_nan {
                return Err(BAD.into());
            }
            table.raw_set(key, value)?;
        }
        Ok(Value::Table(table))
    }
}
