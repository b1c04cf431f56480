//! The library `bit`: operations on numbers of 32 bits.

use mlua::{Lua, Table, Value};

use super::native::{Arguments, Problem, function};

/// A number whose sum with another has the low 32 bits of that one's integer in its fraction.
const TO_BITS: f64 = 6_755_399_441_055_744.0;

/// Returns the functions of the library.
pub(super) fn library(lua: &Lua) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    let one = |name, operation: fn(u32) -> u32| {
        function(lua, name, move |_, arguments| result(operation(bits(arguments, 0)?)))
    };
    let fold = |name, operation: fn(u32, u32) -> u32| {
        function(lua, name, move |_, arguments| {
            let mut all = bits(arguments, 0)?;
            for index in 1..arguments.values.len() {
                all = operation(all, bits(arguments, index)?);
            }
            result(all)
        })
    };
    let shift = |name, operation: fn(u32, u32) -> u32| {
        function(lua, name, move |_, arguments| {
            result(operation(bits(arguments, 0)?, bits(arguments, 1)? & 31))
        })
    };
    table.raw_set("tobit", one("tobit", |bits| bits)?)?;
    table.raw_set("bnot", one("bnot", |bits| !bits)?)?;
    table.raw_set("bswap", one("bswap", u32::swap_bytes)?)?;
    table.raw_set("band", fold("band", |one, other| one & other)?)?;
    table.raw_set("bor", fold("bor", |one, other| one | other)?)?;
    table.raw_set("bxor", fold("bxor", |one, other| one ^ other)?)?;
    table.raw_set("lshift", shift("lshift", |bits, by| bits << by)?)?;
    table.raw_set("rshift", shift("rshift", |bits, by| bits >> by)?)?;
    table.raw_set("arshift", shift("arshift", |bits, by| (bits as i32 >> by) as u32)?)?;
    table.raw_set("rol", shift("rol", u32::rotate_left)?)?;
    table.raw_set("ror", shift("ror", u32::rotate_right)?)?;
    table.raw_set("tohex", function(lua, "tohex", to_hex)?)?;
    Ok(table)
}

fn bits(arguments: &Arguments, index: usize) -> Result<u32, Problem> {
    Ok((arguments.number(index)? + TO_BITS).to_bits() as u32)
}

fn result(bits: u32) -> Result<Vec<Value>, Problem> {
    Ok(vec![Value::Number(f64::from(bits as i32))])
}

/// Returns the last hexadecimal digits. A negative number of digits asks for upper case.
fn to_hex(lua: &Lua, arguments: &Arguments) -> Result<Vec<Value>, Problem> {
    let bits = bits(arguments, 0)?;
    let digits = arguments.integer_or(1, 8)?;
    let count = digits.unsigned_abs().min(8) as usize;
    let text = if digits < 0 { format!("{bits:08X}") } else { format!("{bits:08x}") };
    Ok(vec![Value::String(lua.create_string(&text[8 - count..])?)])
}
