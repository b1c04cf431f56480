//! Mapped regions: plain pointers to data on flash, with an allocator and jobs.

use std::ffi::{c_char, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Once};

use ebbtide_engine::mapped::{
    Heap, MappedStore, NoSwitch, Pinned, Region, STACK_BYTES, let_others_run, no_switch,
};

use crate::code::{EbbtideCode, Failure, given, guarded, string};
use crate::engine::{Argument, EbbtideTicket, hand_out, path_of};
use crate::handles::{Handles, watch_forks};
use crate::memory;
use crate::options::{EbbtideOptions, engine_options};

/// A range of addresses whose pages come from flash. docs/MAPPED.md has the rules for its use.
pub struct EbbtideRegion {
    _opaque: [u8; 0],
}

/// Bytes of a region that stay in DRAM.
pub struct EbbtidePinned {
    _opaque: [u8; 0],
}

/// The function of a job that uses a region. In it, a load or store of a page that is not in DRAM
/// lets other jobs run on the same kernel thread. It must return: it must not throw, jump out or be
/// cancelled. In C++17 and later it is `noexcept`, so a function that throws ends the process.
pub type EbbtideRegionWork = Option<unsafe extern "C" fn(argument: *mut c_void) -> i32>;

/// A store that is one region, with a heap over it.
struct Open {
    store: MappedStore,
    heap: Heap,
}

static REGIONS: Handles<Arc<Open>> = Handles::new();
static PINNED: Handles<Arc<Pinned>> = Handles::new();

/// The region of a handle.
pub(crate) fn region_of(region: *const EbbtideRegion) -> Result<Region, Failure> {
    Ok(REGIONS.get("region", region)?.heap.region().clone())
}

extern "C" fn in_child() {
    REGIONS.forked();
    PINNED.forked();
}

/// Makes a region of `bytes` bytes, whose pages lie in the file at `path`. Its contents are zeros
/// at first, and are lost when it is closed. The budget of `options` covers everything, page tables
/// included. The default stack of a job is 256 KiB, and `durability` must be null.
///
/// # Safety
/// `path` is a string, `options` points to a structure of the size it says, and `out` can be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_region_create(
    path: *const c_char,
    bytes: u64,
    options: *const EbbtideOptions,
    out: *mut *mut EbbtideRegion,
) -> EbbtideCode {
    let given_options = options;
    guarded(|| {
        // SAFETY: as the caller promises.
        let (path, mut options) =
            unsafe { (string("path", path)?, engine_options(given_options)?) };

        memory::check_outside()?;
        given("out", out)?;
        // SAFETY: as the caller promises, and `engine_options` has looked at it.
        if unsafe { (*given_options).stack_bytes } == 0 {
            options.stack_bytes = STACK_BYTES;
        }
        static WATCH: Once = Once::new();
        watch_forks(&WATCH, in_child);
        let store = MappedStore::create(path_of(path), bytes, &options)?;
        let region = store.mapped(bytes)?;
        let heap = Heap::new(&region);
        let handle = REGIONS.open(Arc::new(Open { store, heap }))?;
        // SAFETY: as the caller promises.
        unsafe { out.write(handle) };
        Ok(())
    })
}

/// Waits until all jobs have ended, and closes the region. Its addresses must not be used any more.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_region_close(region: *mut EbbtideRegion) -> EbbtideCode {
    guarded(|| {
        memory::check_outside()?;
        REGIONS.close("region", region).map(drop)
    })
}

/// Returns the first address of a region in `*start` and its size in `*bytes`.
///
/// # Safety
/// `start` and `bytes` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_region_range(
    region: *const EbbtideRegion,
    start: *mut *mut c_void,
    bytes: *mut usize,
) -> EbbtideCode {
    guarded(|| {
        given("start", start)?;
        given("bytes", bytes)?;
        let open = REGIONS.get("region", region)?;
        // SAFETY: as the caller promises.
        unsafe {
            start.write(open.heap.region().start().as_ptr().cast());
            bytes.write(open.heap.region().bytes());
        }
        Ok(())
    })
}

/// Submits a job that uses the region. Blocks while too many jobs are queued. Any thread may
/// submit, but not from inside a job. If `ticket` is null, the result is dropped.
///
/// # Safety
/// `work` may be called with `argument`, by another thread, until it has returned; `ticket` is null
/// or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_region_submit(
    region: *const EbbtideRegion,
    work: EbbtideRegionWork,
    argument: *mut c_void,
    ticket: *mut *mut EbbtideTicket,
) -> EbbtideCode {
    guarded(|| {
        memory::check_outside()?;
        let work = work.ok_or_else(|| Failure::input("work is null"))?;
        let argument = Argument(argument);
        let submitted = REGIONS.get("region", region)?.store.submit(move || {
            let argument = argument;
            // SAFETY: the caller promises that the job may be called with its argument.
            Ok(unsafe { work(argument.0) })
        });
        // SAFETY: as the caller promises.
        unsafe { hand_out(submitted, ticket) }
    })
}

/// Takes a block of `bytes` bytes, aligned to 16. Returns null if there is no room, or the region
/// is closed. Touches no page of the region.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_region_malloc(region: *const EbbtideRegion, bytes: usize) -> *mut c_void {
    ebbtide_region_aligned_alloc(region, ebbtide_engine::mapped::ALIGNMENT, bytes)
}

/// As [`ebbtide_region_malloc`], at a multiple of `alignment`, a power of two.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_region_aligned_alloc(
    region: *const EbbtideRegion,
    alignment: usize,
    bytes: usize,
) -> *mut c_void {
    block(region, |heap| {
        alignment.is_power_of_two().then(|| heap.allocate(bytes, alignment)).flatten()
    })
}

/// Makes the block at `at` hold `bytes` bytes, and returns it. Moves it if it must, with its
/// contents. If `at` is null, takes a new block. Returns null if there is no room; the block is
/// then unchanged.
///
/// # Safety
/// `at` is null or a block of this region.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_region_realloc(
    region: *const EbbtideRegion,
    at: *mut c_void,
    bytes: usize,
) -> *mut c_void {
    block(region, |heap| match NonNull::new(at.cast()) {
        Some(at) => heap.reallocate(at, bytes, ebbtide_engine::mapped::ALIGNMENT),
        None => heap.allocate(bytes, ebbtide_engine::mapped::ALIGNMENT),
    })
}

/// The block that `take` returns, or null.
fn block(
    region: *const EbbtideRegion,
    take: impl FnOnce(&Heap) -> Option<NonNull<u8>>,
) -> *mut c_void {
    let mut found = null_mut();
    // The caller sees null. `ebbtide_error` has the reason.
    let _ = guarded(|| {
        let open = REGIONS.get("region", region)?;
        let taken = take(&open.heap).ok_or_else(|| {
            Failure::new(EbbtideCode::EbbtideFull, "the region has no room for the block")
        })?;
        found = taken.as_ptr().cast();
        Ok(())
    });
    found
}

/// Frees a block, or does nothing if `at` is null. Touches no page of the region. The process ends
/// with one line if no block in use begins there.
///
/// # Safety
/// `at` is null or a block of this region, which is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_region_free(
    region: *const EbbtideRegion,
    at: *mut c_void,
) -> EbbtideCode {
    guarded(|| {
        let open = REGIONS.get("region", region)?;
        if let Some(at) = NonNull::new(at.cast()) {
            open.heap.free(at);
        }
        Ok(())
    })
}

/// Announces an access to `at`: a store, or a load if `store` is 0. A page that is not in DRAM is
/// brought for less than a plain access costs, and one that is there counts as used.
///
/// # Safety
/// Other addresses than those of the region are ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_region_touch(
    region: *const EbbtideRegion,
    at: *const c_void,
    store: i32,
) -> EbbtideCode {
    guarded(|| {
        REGIONS.get("region", region)?.heap.region().touch(at.cast(), store != 0);
        Ok(())
    })
}

/// Keeps `bytes` bytes from `at` on in DRAM, for system calls that read them, or also write to them
/// if `store` is not 0. Ended by `ebbtide_region_unpin`.
///
/// # Safety
/// `out` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_region_pin(
    region: *const EbbtideRegion,
    at: *const c_void,
    bytes: usize,
    store: i32,
    out: *mut *mut EbbtidePinned,
) -> EbbtideCode {
    guarded(|| {
        given("out", out)?;
        let open = REGIONS.get("region", region)?;
        let all = open.heap.region();
        let last = at.cast::<u8>().wrapping_add(bytes.max(1) - 1);
        if !all.contains(at.cast()) || !all.contains(last) || last < at.cast() {
            return Err(Failure::input("the bytes are not within the region"));
        }
        let handle = PINNED.open(Arc::new(all.pin(at.cast(), bytes, store != 0)?))?;
        // SAFETY: as the caller promises.
        unsafe { out.write(handle) };
        Ok(())
    })
}

/// Ends a pin.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_region_unpin(pinned: *mut EbbtidePinned) -> EbbtideCode {
    guarded(|| PINNED.close("pinned", pinned).map(drop))
}

/// From now on a miss of this job blocks its core, until as many calls of `ebbtide_no_switch_end`.
/// Hold it around a lock that other jobs take as well. Does nothing outside of jobs.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_no_switch_begin() {
    no_switch().leave_on();
}

/// Ends one `ebbtide_no_switch_begin` of this job.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_no_switch_end() {
    drop(NoSwitch::left_on());
}

/// Lets other jobs run before this one goes on: for a loop that waits for another job. Outside of
/// jobs, and after `ebbtide_no_switch_begin`, other threads run.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_let_others_run() {
    let_others_run();
}
