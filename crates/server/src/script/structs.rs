//! The library `struct`: values of Lua as fields of a C structure.

use mlua::{Lua, Table, Value};

use super::native::{Arguments, NO_MEMORY, Problem, Results, function, plain_number};

/// The largest integer in bytes.
const INTEGER_BYTES_MAX: usize = 32;

/// The largest alignment in bytes, which is the default of `!`.
const ALIGNMENT_MAX: usize = 16;

/// Returns the functions of the library. Packed values take at most `bytes_max`.
pub(super) fn library(lua: &Lua, bytes_max: usize) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let pack = function(lua, "pack", move |lua, arguments| pack(lua, arguments, bytes_max))?;
    table.raw_set("pack", pack)?;
    table.raw_set("unpack", function(lua, "unpack", unpack)?)?;
    table.raw_set("size", function(lua, "size", size)?)?;
    Ok(table)
}

/// An option of a format that stands for a value, or for a byte of padding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Field {
    Integer {
        signed: bool,
    },
    Float,
    Double,
    Padding,
    /// A string that ends with a zero.
    Terminated,
    /// A string of a fixed length. With length 0, the length comes before it.
    Fixed,
    /// A space, or an option for the fields that follow.
    Nothing,
    /// No option.
    Unknown(u8),
}

/// Reads a format.
struct Format<'a> {
    rest: &'a [u8],
    little: bool,
    alignment: usize,
}

/// A field with its size in bytes.
type Sized = (Field, usize);

impl<'a> Format<'a> {
    fn new(text: &'a [u8]) -> Format<'a> {
        Format { rest: text, little: true, alignment: 1 }
    }

    /// Takes a number, or returns `otherwise` if there is none.
    fn number(&mut self, otherwise: usize) -> Result<usize, Problem> {
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at(count);
        if digits.is_empty() {
            return Ok(otherwise);
        }
        self.rest = rest;
        let number = std::str::from_utf8(digits).ok().and_then(|text| text.parse::<i32>().ok());
        Ok(number.ok_or("integral size overflow")? as usize)
    }

    fn integer(&mut self, otherwise: usize) -> Result<usize, Problem> {
        let bytes = self.number(otherwise)?;
        if bytes > INTEGER_BYTES_MAX {
            return Err(format!(
                "integral size {bytes} is larger than limit of {INTEGER_BYTES_MAX}"
            )
            .into());
        }
        Ok(bytes)
    }

    fn next(&mut self) -> Result<Option<Sized>, Problem> {
        let Some((option, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        let integer = |signed, bytes| (Field::Integer { signed }, bytes);
        Ok(Some(match option {
            b'b' => integer(true, 1),
            b'B' => integer(false, 1),
            b'h' => integer(true, 2),
            b'H' => integer(false, 2),
            b'l' => integer(true, 8),
            b'L' | b'T' => integer(false, 8),
            b'i' => integer(true, self.integer(4)?),
            b'I' => integer(false, self.integer(4)?),
            b'f' => (Field::Float, 4),
            b'd' => (Field::Double, 8),
            b'x' => (Field::Padding, 1),
            b's' => (Field::Terminated, 0),
            b'c' => (Field::Fixed, self.number(1)?),
            b' ' => (Field::Nothing, 0),
            b'<' | b'>' => {
                self.little = *option == b'<';
                (Field::Nothing, 0)
            }
            b'!' => {
                let alignment = self.number(ALIGNMENT_MAX)?;
                if alignment == 0 || !alignment.is_power_of_two() {
                    return Err(format!("alignment {alignment} is not a power of 2").into());
                }
                self.alignment = alignment;
                (Field::Nothing, 0)
            }
            other => (Field::Unknown(*other), 0),
        }))
    }

    /// Returns the bytes of padding before a field at byte `at`.
    fn padding(&self, (field, bytes): Sized, at: usize) -> usize {
        let aligned = matches!(field, Field::Integer { .. } | Field::Float | Field::Double);
        let align = bytes.min(self.alignment);
        if !aligned || align <= 1 { 0 } else { (align - (at & (align - 1))) & (align - 1) }
    }

    /// Orders the bytes of a number, whose lowest comes first.
    fn ordered(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if !self.little {
            bytes.reverse();
        }
        bytes
    }
}

fn pack(lua: &Lua, arguments: &Arguments, bytes_max: usize) -> Results {
    let text = arguments.bytes(0)?;
    let mut format = Format::new(&text);
    let (mut index, mut packed) = (1, Vec::<u8>::new());
    while let Some((field, bytes)) = format.next()? {
        let padding = format.padding((field, bytes), packed.len());
        packed.resize(packed.len() + padding, 0);
        match field {
            Field::Integer { .. } => {
                // As C converts a double to a 64-bit integer.
                let number = arguments.number(index)?;
                let number = if number < 0.0 { number as i64 as u64 } else { number as u64 };
                let mut low = number.to_le_bytes().to_vec();
                low.resize(bytes, 0);
                packed.extend(format.ordered(low));
            }
            Field::Float => {
                let number = arguments.number(index)? as f32;
                packed.extend(format.ordered(number.to_le_bytes().to_vec()));
            }
            Field::Double => {
                packed.extend(format.ordered(arguments.number(index)?.to_le_bytes().to_vec()));
            }
            Field::Padding => packed.push(0),
            Field::Terminated | Field::Fixed => {
                let string = arguments.bytes(index)?;
                let length = if field == Field::Fixed && bytes > 0 { bytes } else { string.len() };
                let part = string.get(..length);
                // Redis names the argument after it.
                packed.extend(part.ok_or_else(|| arguments.bad(index + 1, "string too short"))?);
                if field == Field::Terminated {
                    packed.push(0);
                }
            }
            Field::Nothing => {}
            Field::Unknown(option) => return Err(unknown(arguments, option)),
        }
        index += usize::from(!matches!(field, Field::Padding | Field::Nothing));
        if packed.len() > bytes_max {
            return Err(NO_MEMORY.into());
        }
    }
    Ok(vec![Value::String(lua.create_string(packed)?)])
}

fn unpack(lua: &Lua, arguments: &Arguments) -> Results {
    const SHORT: &str = "data string too short";
    let (text, data) = (arguments.bytes(0)?, arguments.bytes(1)?);
    let from = arguments.integer_or(2, 1)?;
    if from < 1 {
        return Err(arguments.bad(2, "offset must be 1 or greater"));
    }
    let mut at = (from - 1) as usize;
    let mut format = Format::new(&text);
    let mut values: Vec<Value> = Vec::new();
    while let Some((field, bytes)) = format.next()? {
        at += format.padding((field, bytes), at);
        let data_from = |from: usize| data.get(from..).ok_or_else(|| arguments.bad(1, SHORT));
        let rest = data_from(at)?;
        let part = rest.get(..bytes).ok_or_else(|| arguments.bad(1, SHORT))?;
        at += bytes;
        let ordered = || format.ordered(part.to_vec());
        match field {
            Field::Integer { signed } => values.push(integer(&ordered(), signed)),
            Field::Float => {
                let bytes = ordered().try_into().expect("four bytes");
                values.push(Value::Number(f64::from(f32::from_le_bytes(bytes))));
            }
            Field::Double => {
                let bytes = ordered().try_into().expect("eight bytes");
                values.push(Value::Number(f64::from_le_bytes(bytes)));
            }
            Field::Fixed => {
                let length = match bytes {
                    0 => {
                        let length = values.pop().as_ref().and_then(plain_number);
                        length.ok_or("format 'c0' needs a previous size")? as usize
                    }
                    bytes => bytes,
                };
                let part = rest.get(..length).ok_or_else(|| arguments.bad(1, SHORT))?;
                at += if bytes == 0 { length } else { 0 };
                values.push(Value::String(lua.create_string(part)?));
            }
            Field::Terminated => {
                let end = memchr::memchr(0, rest).ok_or("unfinished string in data")?;
                values.push(Value::String(lua.create_string(&rest[..end])?));
                at += end + 1;
            }
            Field::Padding | Field::Nothing => {}
            Field::Unknown(option) => return Err(unknown(arguments, option)),
        }
    }
    values.push(Value::Number((at + 1) as f64));
    Ok(values)
}

fn unknown(arguments: &Arguments, option: u8) -> Problem {
    arguments.bad(0, &format!("invalid format option '{}'", char::from(option)))
}

/// Returns an integer whose lowest byte comes first.
fn integer(bytes: &[u8], signed: bool) -> Value {
    let value = bytes.iter().take(8).rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
    Value::Number(match signed {
        true => ((value << unused) as i64 >> unused) as f64,
        false => value as f64,
    })
}

fn size(_: &Lua, arguments: &Arguments) -> Results {
    let text = arguments.bytes(0)?;
    let mut format = Format::new(&text);
    let mut at = 0;
    while let Some((field, bytes)) = format.next()? {
        match field {
            Field::Terminated => return Err(arguments.bad(0, "option 's' has no fixed size")),
            Field::Fixed if bytes == 0 => {
                return Err(arguments.bad(0, "option 'c0' has no fixed size"));
            }
            _ => at += format.padding((field, bytes), at) + bytes,
        }
    }
    Ok(vec![Value::Number(at as f64)])
}
