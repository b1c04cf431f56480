//! Structures of options. Each carries its size, so that later versions can add fields at the end.

use std::ffi::c_char;

use bytemuck::Zeroable;
use ebbtide_core::PAGE_BYTES;
use ebbtide_core::durability::Policy;
use ebbtide_engine::Options;

use crate::code::{Failure, given, utf8};

/// Options of an engine. A field of zeros means the default. Only `size` and `dram_bytes` must be
/// set.
#[repr(C)]
#[derive(Debug, Clone, Copy, Zeroable)]
pub struct EbbtideOptions {
    /// `sizeof(EbbtideOptions)`.
    pub size: usize,
    /// The DRAM budget in bytes. It covers everything: cache, page states, stacks, buffers.
    pub dram_bytes: u64,
    /// Kernel threads that run jobs. Default: 1.
    pub cores: u32,
    /// User-level threads of each core. Default: as many as suit the budget.
    pub threads: u32,
    /// Stack of a job in bytes. Default: 64 KiB.
    pub stack_bytes: u64,
    /// When a transaction is acknowledged: "always" (the default), "every:TIME" or "none". A store
    /// without a log takes only "none", or null.
    pub durability: *const c_char,
}

/// A store to create. A field of zeros means the default. Only `size` and `bytes` must be set.
#[repr(C)]
#[derive(Debug, Clone, Copy, Zeroable)]
pub struct EbbtideNewStore {
    /// `sizeof(EbbtideNewStore)`.
    pub size: usize,
    /// Size of the address space in bytes. The file also reserves half as much for spare pages, and
    /// the log. A page takes 6.5 bytes of the DRAM budget, and 11 with a log: 1.6 or 2.8 GiB for 1
    /// TiB. `ebbtide store grow` enlarges a store with a log that is closed.
    pub bytes: u64,
    /// Size of the log in bytes. A store with a log survives crashes. A store without a log is
    /// memory expansion: its contents are lost when the engine is closed.
    pub log_bytes: u64,
    /// If not 0, the file is overwritten. If 0, only a store without a log is overwritten. A store
    /// with a log, or a file that is not a store, is refused.
    pub force: u32,
}

/// The largest structure of any version, in bytes.
const SIZE_MAX: usize = 4096;

/// Copies the structure that `from` points to. One of an earlier version is filled up with zeros.
/// One of a later version must have zeros in the fields that this version does not know.
///
/// # Safety
/// `from` is null or points to as many bytes as its first field, a size, says.
pub(crate) unsafe fn sized<T: Zeroable + Copy>(name: &str, from: *const T) -> Result<T, Failure> {
    given(name, from)?;
    // SAFETY: as the caller promises, the size is there in every version.
    let size = unsafe { from.cast::<usize>().read() };
    let known = size_of::<T>();
    if !(size_of::<usize>()..=SIZE_MAX).contains(&size) {
        return Err(Failure::input(format!("{name}.size is {size}: expected {known}")));
    }
    let mut into = T::zeroed();
    // SAFETY: `from` has `size` bytes, and `into` as many as this version knows.
    let more = unsafe {
        let (from, into) = (from.cast::<u8>(), (&raw mut into).cast::<u8>());
        into.copy_from_nonoverlapping(from, size.min(known));
        std::slice::from_raw_parts(from, size).get(known..).unwrap_or_default()
    };
    if more.iter().any(|byte| *byte != 0) {
        let text = format!("{name}.size is {size}, of a later version: expected {known}");
        return Err(Failure::input(text));
    }
    Ok(into)
}

fn bytes(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Reads the options of an engine from `from`.
///
/// # Safety
/// `from` is null or points to options, as their size says.
pub(crate) unsafe fn engine_options(from: *const EbbtideOptions) -> Result<Options, Failure> {
    // SAFETY: as the caller promises.
    let given = unsafe { sized("options", from)? };
    let mut options = Options::new(bytes(given.dram_bytes));
    if given.cores > 0 {
        options.cores = given.cores as usize;
    }
    if given.threads > 0 {
        options.tuning.threads = Some(given.threads as usize);
    }
    if given.stack_bytes > 0 {
        options.stack_bytes = bytes(given.stack_bytes);
    }
    if !given.durability.is_null() {
        // SAFETY: as the caller promises.
        let text = unsafe { utf8("options.durability", given.durability)? };
        options.durability = Some(text.parse::<Policy>().map_err(Failure::input)?);
    }
    Ok(options)
}

/// Reads the store to create from `from`. Also returns its pages.
///
/// # Safety
/// As of [`engine_options`].
pub(crate) unsafe fn new_store(
    from: *const EbbtideNewStore,
) -> Result<(EbbtideNewStore, u64), Failure> {
    // SAFETY: as the caller promises.
    let new = unsafe { sized("store", from)? };
    Ok((new, new.bytes.div_ceil(PAGE_BYTES as u64)))
}
