//! Structures that are found by name: ranges of addresses, and maps from words to words.

use std::ffi::c_char;

use ebbtide_core::{Addr, Memory, PAGE_BYTES};
use ebbtide_engine::FlashMemory;
use ebbtide_structures::{Catalogue, CatalogueError, Map, MapFull};

use crate::code::{EbbtideCode, Failure, given, guarded, utf8};
use crate::memory::{EbbtideMemory, own};

/// A hash table from words to words, of fixed capacity. It is a place and a size: all jobs may copy and
/// share it, and it stays good as long as its store.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EbbtideMap {
    /// Where it begins.
    pub base: u64,
    /// How many entries fit.
    pub capacity: u64,
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

/// Makes a call with a map that lies within the address space.
fn mapped<T>(
    memory: *const EbbtideMemory,
    map: EbbtideMap,
    work: impl FnOnce(&mut FlashMemory<'_>, Map<u64, u64>) -> T,
) -> Result<T, Failure> {
    let memory = own(memory)?;
    if !map.base.is_multiple_of(PAGE_BYTES as u64) {
        let text = format!("map.base is {}: expected what ebbtide_map gives", map.base);
        return Err(Failure::input(text));
    }
    memory.check(map.base, Map::<u64, u64>::bytes(map.capacity))?;
    memory.call(|flash| work(flash, Map::at(Addr(map.base), map.capacity)))
}

/// The range of `bytes` bytes with this name, which is made of zeros if there is none. Names are kept in
/// the first page of the address space: a program that uses them has its data in such ranges and in
/// maps alone.
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

/// The map with this name, which is made empty, for `capacity` entries, if there is none.
///
/// # Safety
/// `name` is a string, and `map` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_map(
    memory: *mut EbbtideMemory,
    name: *const c_char,
    capacity: u64,
    map: *mut EbbtideMap,
) -> EbbtideCode {
    guarded(|| {
        // SAFETY: as the caller promises.
        let name = unsafe { utf8("name", name)? };
        given("map", map)?;
        let made =
            named(memory, |flash, catalogue| catalogue.map::<u64, u64, _>(flash, name, capacity))?;
        // SAFETY: as the caller promises.
        unsafe { map.write(EbbtideMap { base: made.base().0, capacity: made.capacity() }) };
        Ok(())
    })
}

/// Looks for `key`. Puts whether it is there into `*found`, and its value into `*value` if it is.
///
/// # Safety
/// `value` and `found` are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_map_get(
    memory: *mut EbbtideMemory,
    map: EbbtideMap,
    key: u64,
    value: *mut u64,
    found: *mut bool,
) -> EbbtideCode {
    guarded(|| {
        given("value", value)?;
        given("found", found)?;
        let there = mapped(memory, map, |flash, map| map.get(flash, key))?;
        // SAFETY: as the caller promises.
        unsafe {
            found.write(there.is_some());
            if let Some(there) = there {
                value.write(there);
            }
        }
        Ok(())
    })
}

/// Sets the value of `key`.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_map_set(
    memory: *mut EbbtideMemory,
    map: EbbtideMap,
    key: u64,
    value: u64,
) -> EbbtideCode {
    guarded(|| {
        mapped(memory, map, |flash, map| map.insert(flash, key, value))??;
        Ok(())
    })
}

/// Adds `delta` to the value of `key`, which counts as 0 if it is not there, in one atomic step. Puts
/// the sum into `*sum`, if `sum` is not null. It wraps around.
///
/// # Safety
/// `sum` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_map_add(
    memory: *mut EbbtideMemory,
    map: EbbtideMap,
    key: u64,
    delta: u64,
    sum: *mut u64,
) -> EbbtideCode {
    guarded(|| {
        let add = |before: Option<u64>| before.unwrap_or(0).wrapping_add(delta);
        let before =
            mapped(memory, map, |flash, map| map.update(flash, key, |value| Some(add(value))))??;
        if !sum.is_null() {
            // SAFETY: as the caller promises.
            unsafe { sum.write(add(before)) };
        }
        Ok(())
    })
}

/// Removes `key`. Puts whether it was there into `*found`, if `found` is not null.
///
/// # Safety
/// `found` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_map_remove(
    memory: *mut EbbtideMemory,
    map: EbbtideMap,
    key: u64,
    found: *mut bool,
) -> EbbtideCode {
    guarded(|| {
        let removed = mapped(memory, map, |flash, map| map.remove(flash, key))?;
        if !found.is_null() {
            // SAFETY: as the caller promises.
            unsafe { found.write(removed.is_some()) };
        }
        Ok(())
    })
}

/// The number of entries; exact while no job adds or removes any.
///
/// # Safety
/// `entries` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_map_count(
    memory: *mut EbbtideMemory,
    map: EbbtideMap,
    entries: *mut u64,
) -> EbbtideCode {
    guarded(|| {
        given("entries", entries)?;
        let count = mapped(memory, map, |flash, map| map.len(flash))?;
        // SAFETY: as the caller promises.
        unsafe { entries.write(count) };
        Ok(())
    })
}
