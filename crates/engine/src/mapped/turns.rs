//! Turns of jobs without a memory at hand: [`let_others_run`], and the lock [`RwLock`] that waits
//! by it.

use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::lock_api::{self, GuardNoSend, RawRwLock};

use crate::core::flash_memory::FiberContext;

/// Lets other jobs run before this one goes on. Under [`no_switch`](super::no_switch), and on a
/// thread outside of jobs, other threads run.
pub fn let_others_run() {
    let switched = FiberContext::with_current(|context| {
        let may_switch = context.no_switch().get() == 0;
        if may_switch {
            context.memory(false).yield_now();
        }
        may_switch
    });
    if switched != Some(true) {
        std::thread::yield_now();
    }
}

/// A lock of jobs: one that waits lets other jobs run. So its holder may use regions. A writer that
/// waits goes before later readers.
///
/// ```no_run
/// use ebbtide_engine::mapped::{Heap, MappedStore, RwLock};
///
/// let store = MappedStore::builder("regions.ebb").size("64GiB").dram("2GiB").open()?;
/// let heap = Heap::new(&store.mapped("16GiB")?);
/// let users = RwLock::new(hashbrown::HashMap::<u64, u64, _, _>::new_in(heap));
/// users.write().insert(1, 815);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type RwLock<T> = lock_api::RwLock<RawLock, T>;

/// The state of a [`RwLock`]: the number of readers, or a writer.
#[derive(Debug)]
pub struct RawLock(AtomicU32);

/// A writer holds the lock.
const WRITER: u32 = 1 << 31;
/// A writer waits.
const WAITS: u32 = 1 << 30;

impl RawLock {
    fn change(&self, change: impl Fn(u32) -> Option<u32>) -> bool {
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, change).is_ok()
    }
}

// SAFETY: a writer enters only when there is neither a reader nor a writer, and a reader only when
// there is no writer.
unsafe impl RawRwLock for RawLock {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait demands it")]
    const INIT: RawLock = RawLock(AtomicU32::new(0));

    type GuardMarker = GuardNoSend;

    fn lock_shared(&self) {
        while !self.try_lock_shared() {
            let_others_run();
        }
    }

    fn try_lock_shared(&self) -> bool {
        self.change(|state| (state & (WRITER | WAITS) == 0).then_some(state + 1))
    }

    unsafe fn unlock_shared(&self) {
        self.0.fetch_sub(1, Ordering::Release);
    }

    fn lock_exclusive(&self) {
        // Of several writers that wait, each sets the mark again while another holds the lock.
        while !self.change(|state| (state & !WAITS == 0).then_some(WRITER)) {
            self.0.fetch_or(WAITS, Ordering::Relaxed);
            let_others_run();
        }
    }

    fn try_lock_exclusive(&self) -> bool {
        self.change(|state| (state & !WAITS == 0).then_some(WRITER | state))
    }

    unsafe fn unlock_exclusive(&self) {
        self.0.fetch_and(!WRITER, Ordering::Release);
    }
}
