//! Structures that are found by name: ranges of addresses, and maps from words to values.

use std::ffi::{c_char, c_void};

use ebbtide_core::{Addr, Memory, PAGE_BYTES, Value};
use ebbtide_engine::FlashMemory;
use ebbtide_structures::{Catalogue, CatalogueError, Map, MapFull};

use crate::code::{EbbtideCode, Failure, given, guarded, utf8};
use crate::memory::{EbbtideMemory, own};

/// A hash table from words to values of one size, of fixed capacity. It consists of an address and
/// two sizes. All jobs may copy and share it, and it stays valid as long as its store.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EbbtideTypedMap {
    /// Its address.
    pub base: u64,
    /// The most entries.
    pub capacity: u64,
    /// Size of a value in bytes: a multiple of 8 up to 64.
    pub value_bytes: u64,
}

impl From<CatalogueError> for Failure {
    fn from(error: CatalogueError) -> Failure {
        match error {
            CatalogueError::Transaction(error) => error.into(),
            error => Failure::input(error),
        }
    }
}

impl From<MapFull> for Failure {
    fn from(full: MapFull) -> Failure {
        Failure::new(EbbtideCode::EbbtideFull, full)
    }
}

/// Makes a call with the catalogue, which takes the whole address space.
fn named<T>(
    memory: *const EbbtideMemory,
    work: impl FnOnce(&mut FlashMemory<'_>, Catalogue) -> Result<T, CatalogueError>,
) -> Result<T, Failure> {
    Ok(own(memory)?.call(|flash| {
        let bytes = flash.size_bytes();
        let catalogue = Catalogue::open(flash, Addr(0), bytes)?;
        work(flash, catalogue)
    })??)
}

/// Evaluates `$work`, a result, where the type `$V` has `$bytes` bytes.
macro_rules! of_size {
    ($bytes:expr, $V:ident => $work:expr) => {
        of_size!($bytes, $V => $work, 1, 2, 3, 4, 5, 6, 7, 8)
    };
    ($bytes:expr, $V:ident => $work:expr, $($words:literal),*) => {
        match $bytes {
            $(bytes if bytes == 8 * $words => {
                type $V = [u64; $words];
                $work
            })*
            bytes => {
                let text = format!("value_bytes is {bytes}: expected a multiple of 8 up to 64");
                Err(Failure::input(text))
            }
        }
    };
}

/// Makes a call with a map that lies within the address space.
fn mapped<V: Value, T>(
    memory: *const EbbtideMemory,
    map: EbbtideTypedMap,
    work: impl FnOnce(&mut FlashMemory<'_>, Map<u64, V>) -> T,
) -> Result<T, Failure> {
    let memory = own(memory)?;
    if !map.base.is_multiple_of(PAGE_BYTES as u64) {
        let text = format!("map.base is {}: expected what ebbtide_typed_map gives", map.base);
        return Err(Failure::input(text));
    }
    memory.check(map.base, Map::<u64, V>::bytes(map.capacity))?;
    memory.call(|flash| work(flash, Map::at(Addr(map.base), map.capacity)))
}

/// Finds the range of `bytes` bytes with this name, or makes one of zeros. Names are kept in the
/// first page of the address space. A program that uses names must keep all its data in such ranges
/// and maps.
///
/// # Safety
/// `name` is a string, and `at` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_range(
    memory: *mut EbbtideMemory,
    name: *const c_char,
    bytes: u64,
    at: *mut u64,
) -> EbbtideCode {
    guarded(|| {
        // SAFETY: as the caller promises.
        let name = unsafe { utf8("name", name)? };
        given("at", at)?;
        let start = named(memory, |flash, catalogue| catalogue.range(flash, name, bytes))?;
        // SAFETY: as the caller promises.
        unsafe { at.write(start.0) };
        Ok(())
    })
}

/// Finds the map with this name, or makes an empty one for `capacity` entries with values of
/// `value_bytes` bytes. `value_bytes` is a multiple of 8 up to 64.
///
/// # Safety
/// `name` is a string, and `map` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_typed_map(
    memory: *mut EbbtideMemory,
    name: *const c_char,
    capacity: u64,
    value_bytes: u64,
    map: *mut EbbtideTypedMap,
) -> EbbtideCode {
    guarded(|| {
        // SAFETY: as the caller promises.
        let name = unsafe { utf8("name", name)? };
        given("map", map)?;
        let base = of_size!(value_bytes, V => named(memory, |flash, catalogue| {
            Ok(catalogue.map::<u64, V, _>(flash, name, capacity)?.base().0)
        }))?;
        // SAFETY: as the caller promises.
        unsafe { map.write(EbbtideTypedMap { base, capacity, value_bytes }) };
        Ok(())
    })
}

/// Looks for `key`. Sets `*found` to whether it is there. If it is, copies its value to the
/// `map.value_bytes` bytes at `value`.
///
/// # Safety
/// `found` is null or can be written, and so can `value`, with as many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_typed_map_get(
    memory: *mut EbbtideMemory,
    map: EbbtideTypedMap,
    key: u64,
    value: *mut c_void,
    found: *mut bool,
) -> EbbtideCode {
    guarded(|| {
        given("value", value)?;
        given("found", found)?;
        of_size!(map.value_bytes, V => {
            let there = mapped(memory, map, |flash, map: Map<u64, V>| map.get(flash, key))?;
            // SAFETY: as the caller promises.
            unsafe {
                found.write(there.is_some());
                if let Some(there) = there {
                    value.cast::<V>().write_unaligned(there);
                }
            }
            Ok(())
        })
    })
}

/// Sets the value of `key` to the `map.value_bytes` bytes at `value`.
///
/// # Safety
/// `value` is null or has as many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_typed_map_set(
    memory: *mut EbbtideMemory,
    map: EbbtideTypedMap,
    key: u64,
    value: *const c_void,
) -> EbbtideCode {
    guarded(|| {
        given("value", value)?;
        of_size!(map.value_bytes, V => {
            // SAFETY: as the caller promises.
            let value = unsafe { value.cast::<V>().read_unaligned() };
            mapped(memory, map, |flash, map| map.insert(flash, key, value))??;
            Ok(())
        })
    })
}

/// Adds `delta` to the value of `key` in one atomic step. A missing key counts as 0. Returns the
/// sum in `*sum`, if `sum` is not null. The sum wraps around. The values of the map must have 8
/// bytes.
///
/// # Safety
/// `sum` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_typed_map_add(
    memory: *mut EbbtideMemory,
    map: EbbtideTypedMap,
    key: u64,
    delta: u64,
    sum: *mut u64,
) -> EbbtideCode {
    guarded(|| {
        if map.value_bytes != 8 {
            let text = format!("map.value_bytes is {}: expected 8 to add", map.value_bytes);
            return Err(Failure::input(text));
        }
        let add = |before: Option<u64>| before.unwrap_or(0).wrapping_add(delta);
        let before = mapped(memory, map, |flash, map: Map<u64, u64>| {
            map.update(flash, key, |value| Some(add(value)))
        })??;
        if !sum.is_null() {
            // SAFETY: as the caller promises.
            unsafe { sum.write(add(before)) };
        }
        Ok(())
    })
}

/// Removes `key`. Sets `*found` to whether it was there, if `found` is not null.
///
/// # Safety
/// `found` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_typed_map_remove(
    memory: *mut EbbtideMemory,
    map: EbbtideTypedMap,
    key: u64,
    found: *mut bool,
) -> EbbtideCode {
    guarded(|| {
        let was_there = of_size!(map.value_bytes, V => {
            mapped(memory, map, |flash, map: Map<u64, V>| map.remove(flash, key).is_some())
        })?;
        if !found.is_null() {
            // SAFETY: as the caller promises.
            unsafe { found.write(was_there) };
        }
        Ok(())
    })
}

/// Returns the number of entries. It is exact while no job adds or removes any.
///
/// # Safety
/// `entries` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_typed_map_count(
    memory: *mut EbbtideMemory,
    map: EbbtideTypedMap,
    entries: *mut u64,
) -> EbbtideCode {
    guarded(|| {
        given("entries", entries)?;
        let count = of_size!(map.value_bytes, V => {
            mapped(memory, map, |flash, map: Map<u64, V>| map.len(flash))
        })?;
        // SAFETY: as the caller promises.
        unsafe { entries.write(count) };
        Ok(())
    })
}
