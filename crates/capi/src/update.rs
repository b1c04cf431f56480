//! Updates of a map: a value is read and replaced as one transaction.

use std::ffi::c_void;

use ebbtide_engine::embedded::Error;

use crate::bytes::{EbbtideBytes, bytes};
use crate::code::{EbbtideCode, Failure, given, guarded};
use crate::engine::Argument;
use crate::map::{EbbtideMap, map_of, of_kind};
use crate::memory;

/// The new value of an update: see [`ebbtide_new_value`].
pub struct EbbtideNewValue {
    value: Option<Vec<u8>>,
}

/// The function of an update. `old.data` is null if there is no value. It gives the new value by
/// [`ebbtide_new_value`]; without that call the key is removed. If it does not return 0, nothing
/// changes. It may be called more than once, and only its last call counts. It runs on another
/// thread, on a stack of 64 KiB. Other calls of this library are refused in it.
pub type EbbtideUpdate = Option<
    unsafe extern "C" fn(
        old: EbbtideBytes,
        new_value: *mut EbbtideNewValue,
        argument: *mut c_void,
    ) -> i32,
>;

/// Replaces the value of a key by the one that `update` gives, as one transaction. No other change
/// of the key comes between. Returns [`EBBTIDE_ABANDONED`](EbbtideCode::EbbtideAbandoned) if
/// `update` does not return 0.
///
/// # Safety
/// `key` has `key_bytes` bytes. `update` may be called with `argument`, by another thread, during
/// this call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_map_update(
    map: *const EbbtideMap,
    key: *const c_void,
    key_bytes: usize,
    update: EbbtideUpdate,
    argument: *mut c_void,
) -> EbbtideCode {
    guarded(|| {
        // SAFETY: as the caller promises.
        let key = unsafe { bytes("key", key, key_bytes)? };
        let update = update.ok_or_else(|| Failure::input("update is null"))?;
        let argument = Argument(argument);
        let change = move |old: Option<&[u8]>| {
            let argument = &argument;
            let mut new_value = EbbtideNewValue { value: None };
            // SAFETY: the caller promises that it may be called, and `new_value` outlives the call.
            let code = memory::in_update(|| unsafe {
                update(EbbtideBytes::of(old), &raw mut new_value, argument.0)
            });
            match code {
                0 => Ok(new_value.value),
                code => Err(Error::program(format!("the update returned {code}, not 0"))),
            }
        };
        match of_kind!(map_of(map)?, map => map.try_update(key, change)) {
            Ok(_) => Ok(()),
            Err(error @ Error::Program(_)) => {
                Err(Failure::new(EbbtideCode::EbbtideAbandoned, error))
            }
            Err(error) => Err(error.into()),
        }
    })
}

/// Sets the new value of an update, and copies its bytes. The last call counts.
///
/// # Safety
/// `new_value` is the argument of the update, and `value` has `value_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_new_value(
    new_value: *mut EbbtideNewValue,
    value: *const c_void,
    value_bytes: usize,
) -> EbbtideCode {
    guarded(|| {
        given("new_value", new_value)?;
        // SAFETY: as the caller promises.
        let value = unsafe { bytes("value", value, value_bytes)? }.to_vec();
        // SAFETY: as above.
        unsafe { (*new_value).value = Some(value) };
        Ok(())
    })
}
