//! Maps from bytes to bytes, with or without order.

use std::ffi::{c_char, c_void};
use std::sync::Once;

use ebbtide_engine::embedded::{Map, OrderedMap};

use crate::bytes::{EbbtideBytes, bytes};
use crate::code::{EbbtideCode, Failure, given, guarded, utf8};
use crate::handles::{Handles, watch_forks};
use crate::memory;
use crate::store::{EbbtideStore, STORES};

/// Keys and values of bytes, found by name in a store. Any thread may use it, jobs may not.
pub struct EbbtideMap {
    _opaque: [u8; 0],
}

/// A map of either kind.
#[derive(Clone)]
pub(crate) enum AnyMap {
    Unordered(Map),
    Ordered(OrderedMap),
}

/// Evaluates `$work` with the map of either kind.
macro_rules! of_kind {
    ($map:expr, $any:ident => $work:expr) => {
        match &$map {
            $crate::map::AnyMap::Unordered($any) => $work,
            $crate::map::AnyMap::Ordered($any) => $work,
        }
    };
}

pub(crate) use of_kind;

static MAPS: Handles<AnyMap> = Handles::new();

extern "C" fn in_child() {
    MAPS.forked();
}

/// Finds the map with this name, or makes an empty one. An ordered map has its keys in the order of
/// their bytes, as `memcmp` compares them.
///
/// # Safety
/// `name` is a string, and `out` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_map(
    store: *const EbbtideStore,
    name: *const c_char,
    ordered: bool,
    out: *mut *mut EbbtideMap,
) -> EbbtideCode {
    guarded(|| {
        // SAFETY: as the caller promises.
        let name = unsafe { utf8("name", name)? };
        memory::check_outside()?;
        given("out", out)?;
        let store = STORES.get("store", store)?;
        let map = match ordered {
            true => AnyMap::Ordered(store.ordered_map(name)?),
            false => AnyMap::Unordered(store.map(name)?),
        };
        static WATCH: Once = Once::new();
        watch_forks(&WATCH, in_child);
        let handle = MAPS.open(map)?;
        // SAFETY: as the caller promises.
        unsafe { out.write(handle) };
        Ok(())
    })
}

/// Closes a map. The others of its store stay open.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_map_close(map: *mut EbbtideMap) -> EbbtideCode {
    guarded(|| MAPS.close("map", map).map(drop))
}

/// The map of a handle, outside of jobs.
pub(crate) fn map_of(map: *const EbbtideMap) -> Result<AnyMap, Failure> {
    memory::check_outside()?;
    MAPS.get("map", map)
}

/// Looks for a key. Sets `*value` to its value, or `value->data` to null if it is not there. The
/// caller frees the value by `ebbtide_bytes_free`.
///
/// # Safety
/// `key` has `key_bytes` bytes, and `value` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_map_get(
    map: *const EbbtideMap,
    key: *const c_void,
    key_bytes: usize,
    value: *mut EbbtideBytes,
) -> EbbtideCode {
    guarded(|| {
        // SAFETY: as the caller promises.
        let key = unsafe { bytes("key", key, key_bytes)? };
        given("value", value)?;
        let found = of_kind!(map_of(map)?, map => map.get(key))?;
        // An empty value has an address too.
        let found = found.map(|found| &*Box::leak(found.into_boxed_slice()));
        // SAFETY: as the caller promises.
        unsafe { value.write(EbbtideBytes::of(found)) };
        Ok(())
    })
}

/// Stores a value under a key.
///
/// # Safety
/// `key` and `value` have as many bytes as is said.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_map_set(
    map: *const EbbtideMap,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
) -> EbbtideCode {
    guarded(|| {
        // SAFETY: as the caller promises.
        let (key, value) =
            unsafe { (bytes("key", key, key_bytes)?, bytes("value", value, value_bytes)?) };
        of_kind!(map_of(map)?, map => map.insert(key, value))?;
        Ok(())
    })
}

/// Removes a key. Sets `*found` to whether it was there, if `found` is not null.
///
/// # Safety
/// `key` has `key_bytes` bytes, and `found` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_map_remove(
    map: *const EbbtideMap,
    key: *const c_void,
    key_bytes: usize,
    found: *mut bool,
) -> EbbtideCode {
    guarded(|| {
        // SAFETY: as the caller promises.
        let key = unsafe { bytes("key", key, key_bytes)? };
        let was_there = of_kind!(map_of(map)?, map => map.remove(key))?;
        if !found.is_null() {
            // SAFETY: as the caller promises.
            unsafe { found.write(was_there) };
        }
        Ok(())
    })
}

/// Returns the number of keys in `*entries`. It is exact while nothing is changed.
///
/// # Safety
/// `entries` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_map_count(
    map: *const EbbtideMap,
    entries: *mut u64,
) -> EbbtideCode {
    guarded(|| {
        given("entries", entries)?;
        let count = of_kind!(map_of(map)?, map => map.len())?;
        // SAFETY: as the caller promises.
        unsafe { entries.write(count) };
        Ok(())
    })
}
