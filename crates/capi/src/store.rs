//! Stores of maps from bytes to bytes, which any thread uses.

use std::ffi::c_char;
use std::sync::Once;

use bytemuck::Zeroable;
use ebbtide_engine::embedded::Store;

use crate::code::{EbbtideCode, given, guarded, string, utf8};
use crate::engine::path_of;
use crate::handles::{Handles, watch_forks};
use crate::memory;
use crate::options::sized;

/// Maps by name in a file. Any thread may use it, jobs may not. Rust and Python programs open the
/// same stores.
pub struct EbbtideStore {
    _opaque: [u8; 0],
}

/// Options of a store. A field of zeros means the default. Only `size` must be set.
#[repr(C)]
#[derive(Debug, Clone, Copy, Zeroable)]
pub struct EbbtideStoreOptions {
    /// `sizeof(EbbtideStoreOptions)`.
    pub size: usize,
    /// The room for keys and values with their index, in bytes. Default: 1 GiB. An existing store
    /// keeps its size.
    pub bytes: u64,
    /// The room for the order of all ordered maps, in addition. Default: an eighth of `bytes`.
    pub order_bytes: u64,
    /// The DRAM budget in bytes. It covers everything. Default: 64 MiB.
    pub dram_bytes: u64,
    /// Kernel threads that run jobs. Default: 1.
    pub cores: u32,
    /// If not 0, an existing store is replaced. Other files never are.
    pub replace: u32,
    /// When a change returns: "always" (the default), "every:TIME" or "none". Null means the
    /// default.
    pub durability: *const c_char,
}

pub(crate) static STORES: Handles<Store> = Handles::new();

extern "C" fn in_child() {
    STORES.forked();
}

/// Opens the store in a file and recovers it, or creates it.
///
/// # Safety
/// `path` is a string, `options` points to a structure of the size it says, and `out` can be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_store_open(
    path: *const c_char,
    options: *const EbbtideStoreOptions,
    out: *mut *mut EbbtideStore,
) -> EbbtideCode {
    guarded(|| {
        // SAFETY: as the caller promises.
        let (path, options) = unsafe { (string("path", path)?, sized("options", options)?) };
        memory::check_outside()?;
        given("out", out)?;
        let mut builder = Store::builder(path_of(path));
        if options.bytes > 0 {
            builder = builder.size(options.bytes);
        }
        if options.order_bytes > 0 {
            builder = builder.order(options.order_bytes);
        }
        if options.dram_bytes > 0 {
            builder = builder.dram(options.dram_bytes);
        }
        if options.cores > 0 {
            builder = builder.cores(options.cores as usize);
        }
        if !options.durability.is_null() {
            // SAFETY: as the caller promises.
            builder =
                builder.durability(unsafe { utf8("options.durability", options.durability)? });
        }
        static WATCH: Once = Once::new();
        watch_forks(&WATCH, in_child);
        let store = builder.replace(options.replace != 0).open()?;
        let handle = STORES.open(store)?;
        // SAFETY: as the caller promises.
        unsafe { out.write(handle) };
        Ok(())
    })
}

/// Waits until all calls with the store have ended, makes all changes durable, and closes it. Its
/// maps and iterators are then [`EBBTIDE_CLOSED`](EbbtideCode::EbbtideClosed). They must still be
/// closed themselves.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_store_close(store: *mut EbbtideStore) -> EbbtideCode {
    guarded(|| {
        memory::check_outside()?;
        Ok(STORES.close("store", store)?.stop()?)
    })
}

/// Raises the room for keys and values to `bytes` bytes. Other calls wait until then. The store is
/// copied to a larger file in the same folder, which needs room for both.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_store_grow(store: *const EbbtideStore, bytes: u64) -> EbbtideCode {
    guarded(|| {
        memory::check_outside()?;
        Ok(STORES.get("store", store)?.grow(bytes)?)
    })
}
