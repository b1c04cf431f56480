//! Walks through the keys and values of a map.

use std::ffi::c_void;
use std::sync::{Arc, Once};

use ebbtide_engine::embedded::{Iter, Range};
use parking_lot::Mutex;

use crate::bytes::{EbbtideBytes, bytes};
use crate::code::{EbbtideCode, Failure, given, guarded};
use crate::handles::{Handles, watch_forks};
use crate::map::{AnyMap, EbbtideMap, map_of};
use crate::memory;

/// A walk through the keys and values of a map. One thread at a time may use it.
pub struct EbbtideIterator {
    _opaque: [u8; 0],
}

/// A walk, and the pair that it gave last.
struct Walk {
    pairs: Pairs,
    last: Option<(Vec<u8>, Vec<u8>)>,
}

enum Pairs {
    Unordered(Iter),
    Ordered(Range),
}

static WALKS: Handles<Arc<Mutex<Walk>>> = Handles::new();

extern "C" fn in_child() {
    WALKS.forked();
}

/// Begins a walk through a map. A key that is there all the time comes exactly once.
///
/// In an ordered map, keys come in order: from `from` on, if that is not null, and to before `to`,
/// if that is not null. In a map without order, both must be null.
///
/// # Safety
/// `from` and `to` are null or have as many bytes as is said, and `out` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_map_iterate(
    map: *const EbbtideMap,
    from: *const c_void,
    from_bytes: usize,
    to: *const c_void,
    to_bytes: usize,
    out: *mut *mut EbbtideIterator,
) -> EbbtideCode {
    guarded(|| {
        given("out", out)?;
        let bound = |name, data: *const c_void, size| match data.is_null() {
            true => Ok(None),
            // SAFETY: as the caller promises.
            false => unsafe { bytes(name, data, size) }.map(Some),
        };
        let (from, to) = (bound("from", from, from_bytes)?, bound("to", to, to_bytes)?);
        let pairs = match map_of(map)? {
            AnyMap::Ordered(map) => Pairs::Ordered(match (from, to) {
                (Some(from), Some(to)) => map.range(from..to),
                (Some(from), None) => map.range(from..),
                (None, Some(to)) => map.range(..to),
                (None, None) => map.iter(),
            }),
            AnyMap::Unordered(map) if from.is_none() && to.is_none() => {
                Pairs::Unordered(map.iter())
            }
            AnyMap::Unordered(_) => {
                let text = "from and to are bounds of an ordered map: expected null";
                return Err(Failure::input(text));
            }
        };
        static WATCH: Once = Once::new();
        watch_forks(&WATCH, in_child);
        let handle = WALKS.open(Arc::new(Mutex::new(Walk { pairs, last: None })))?;
        // SAFETY: as the caller promises.
        unsafe { out.write(handle) };
        Ok(())
    })
}

/// Returns the next key and its value; both `data` are null at the end. They stay valid until the
/// next call with this iterator.
///
/// # Safety
/// `key` and `value` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_iterator_next(
    iterator: *mut EbbtideIterator,
    key: *mut EbbtideBytes,
    value: *mut EbbtideBytes,
) -> EbbtideCode {
    guarded(|| {
        given("key", key)?;
        given("value", value)?;
        memory::check_outside()?;
        let walk = WALKS.get("iterator", iterator.cast_const())?;
        let mut walk = walk.lock();
        let next = match &mut walk.pairs {
            Pairs::Unordered(pairs) => pairs.next(),
            Pairs::Ordered(pairs) => pairs.next(),
        };
        walk.last = next.transpose()?;
        let last = walk.last.as_ref();
        // SAFETY: as the caller promises.
        unsafe {
            key.write(EbbtideBytes::of(last.map(|(key, _)| &key[..])));
            value.write(EbbtideBytes::of(last.map(|(_, value)| &value[..])));
        }
        Ok(())
    })
}

/// Ends a walk.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_iterator_close(iterator: *mut EbbtideIterator) -> EbbtideCode {
    guarded(|| WALKS.close("iterator", iterator).map(drop))
}
