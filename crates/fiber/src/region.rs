//! The memory of stacks: one mapping for many stacks, each above a guard that faults. Finds the
//! stack of an address.

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

/// The smallest stack a fiber can have, in bytes: a page for the body, and room to unwind.
pub const STACK_BYTES_MIN: usize = 8 * 1024;

/// The largest stack a fiber can have, in bytes.
pub const STACK_BYTES_MAX: usize = 1 << 30;

/// Bytes below every stack that are reserved but not accessible. A function with a larger frame may
/// step over them, unless its compiler probes the stack, as Rust's does.
pub const GUARD_BYTES: usize = 64 * 1024;

const PAGE_BYTES: usize = 4096;

/// The state of one stack.
#[derive(Default)]
pub(crate) struct State {
    /// The job on it, counted from 1; 0 if there is none.
    pub(crate) job: AtomicU64,
    /// The fiber on it, for calls on the thread's own stack: see [`panics`](crate::panics).
    pub(crate) fiber: AtomicPtr<()>,
    pub(crate) call: AtomicUsize,
    /// Data of the fiber's owner, or null.
    pub(crate) attached: AtomicPtr<()>,
}

/// Guard, stack, guard, stack, …, in one mapping.
pub(crate) struct Region {
    base: NonNull<u8>,
    pub(crate) count: usize,
    pub(crate) usable_bytes: usize,
    pub(crate) states: Box<[State]>,
}

// SAFETY: the mapping belongs to the whole process. The owner of a `Stack` decides what runs on it,
// and the states are atomic.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    pub(crate) fn new(count: usize, bytes: usize) -> io::Result<Region> {
        let invalid = || io::Error::from_raw_os_error(libc::ENOMEM);
        if bytes > STACK_BYTES_MAX {
            return Err(invalid());
        }
        let usable_bytes = bytes.max(STACK_BYTES_MIN).next_multiple_of(PAGE_BYTES);
        let mapped = count.max(1).checked_mul(GUARD_BYTES + usable_bytes).ok_or_else(invalid)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing that exists.
        let base =
            unsafe { libc::mmap(std::ptr::null_mut(), mapped, libc::PROT_NONE, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast()).expect("a mapping is not at address zero");
        let states = (0..count).map(|_| State::default()).collect();
        let region = Region { base, count, usable_bytes, states };
        for index in 0..count {
            let stack = region.usable(index) as *mut libc::c_void;
            let access = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: the range is part of the mapping just made, and nothing uses it yet.
            if unsafe { libc::mprotect(stack, usable_bytes, access) } != 0 {
                return Err(io::Error::last_os_error());
            }
            for offset in (0..usable_bytes).step_by(PAGE_BYTES) {
                // SAFETY: as above; it is writable now.
                unsafe { stack.cast::<u8>().add(offset).write_volatile(0) };
            }
        }
        Ok(region)
    }

    fn stride(&self) -> usize {
        GUARD_BYTES + self.usable_bytes
    }

    fn bytes(&self) -> usize {
        self.count.max(1) * self.stride()
    }

    /// The lowest address of a stack, which is above its guard.
    pub(crate) fn usable(&self, index: usize) -> usize {
        assert!(index < self.count, "stack {index} does not exist");
        self.base.as_ptr() as usize + index * self.stride() + GUARD_BYTES
    }

    pub(crate) fn used_bytes(&self, index: usize) -> usize {
        let (lowest, words) = (self.usable(index) as *const u64, self.usable_bytes / 8);
        // SAFETY: within the stack, which is mapped; a torn value would only be another value.
        let untouched =
            (0..words).take_while(|word| unsafe { lowest.add(*word).read_volatile() } == 0);
        self.usable_bytes - untouched.count() * 8
    }

    /// Returns the stack at `address`, and true if the address is in its guard.
    pub(crate) fn find(&self, address: usize) -> Option<(&State, bool)> {
        let offset = address.checked_sub(self.base.as_ptr() as usize)?;
        let state = self.states.get(offset / self.stride())?;
        Some((state, offset % self.stride() < GUARD_BYTES))
    }

    /// Makes the region known to [`lookup`]. A process with too many regions has some that are not
    /// known.
    pub(crate) fn register(self: &Arc<Region>) {
        let region = Arc::as_ptr(self).cast_mut();
        let free = std::ptr::null_mut();
        let claim = |known: &&Known| {
            known.region.compare_exchange(free, region, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        };
        if let Some((place, known)) = KNOWN.iter().enumerate().find(|(_, known)| claim(known)) {
            KNOWN_END.fetch_max(place + 1, Ordering::AcqRel);
            let start = self.base.as_ptr() as usize;
            known.start.store(start, Ordering::Release);
            known.end.store(start + self.bytes(), Ordering::Release);
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let region = std::ptr::from_mut(self);
        let known = KNOWN.iter().find(|known| known.region.load(Ordering::Acquire) == region);
        if let Some(known) = known {
            known.end.store(0, Ordering::Release);
            known.region.store(std::ptr::null_mut(), Ordering::Release);
        }
        // SAFETY: exactly the mapping made in `new`; all stacks in it hold this region.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes()) };
    }
}

/// A known region and its address range.
struct Known {
    start: AtomicUsize,
    /// Zero while there is no region.
    end: AtomicUsize,
    region: AtomicPtr<Region>,
}

/// Known regions of the process, up to the capacity of this table.
static KNOWN: [Known; 4096] = [const {
    Known {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        region: AtomicPtr::new(std::ptr::null_mut()),
    }
}; 4096];

/// Places of [`KNOWN`] from this one on have never held a region. Most processes have few regions,
/// and a search of all places takes a microsecond.
static KNOWN_END: AtomicUsize = AtomicUsize::new(0);

/// Calls `found` with the region and state of the stack at `address`, if there is one. Its last
/// argument is true if the address is in the guard. Safe in a signal handler.
///
/// # Safety
/// If `address` lies in a region, that region is alive during the call: the calling thread runs on
/// one of its stacks.
pub(crate) unsafe fn lookup<R>(
    address: usize,
    found: impl FnOnce(&Region, &State, bool) -> R,
) -> Option<R> {
    let holds = |known: &&Known| {
        (known.start.load(Ordering::Acquire)..known.end.load(Ordering::Acquire)).contains(&address)
    };
    let known = &KNOWN[..KNOWN_END.load(Ordering::Acquire)];
    let region = known.iter().find(holds)?.region.load(Ordering::Acquire);
    // SAFETY: the address lies in this region, which the caller promises to be alive.
    let region = unsafe { region.as_ref() }?;
    region.find(address).map(|(state, in_guard)| found(region, state, in_guard))
}
