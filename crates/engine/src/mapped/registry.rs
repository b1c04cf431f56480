//! The mapped ranges of the process, found by address. Safe in a signal handler.

use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// A plain load or store that faulted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    /// Bytes from the start of the range.
    pub(super) offset: usize,
    pub(super) store: bool,
    /// The address of the instruction.
    pub(super) instruction: usize,
}

/// Brings the page of an access to the range whose owner is the first argument.
pub(super) type Resolve = unsafe fn(*const (), Access);

/// A known range.
struct Known {
    start: AtomicUsize,
    /// Zero while there is no range.
    end: AtomicUsize,
    owner: AtomicPtr<()>,
    /// A [`Resolve`].
    resolve: AtomicUsize,
}

/// Ranges of a process at most.
pub(super) const RANGES_MAX: usize = 64;

static KNOWN: [Known; RANGES_MAX] = [const {
    Known {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        owner: AtomicPtr::new(std::ptr::null_mut()),
        resolve: AtomicUsize::new(0),
    }
}; RANGES_MAX];

/// Makes a range known. Returns false if there are too many.
pub(super) fn add(addresses: Range<usize>, owner: *const (), resolve: Resolve) -> bool {
    let (owner, free) = (owner.cast_mut(), std::ptr::null_mut());
    let claim = |known: &&Known| {
        known.owner.compare_exchange(free, owner, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    };
    let Some(known) = KNOWN.iter().find(claim) else { return false };
    known.resolve.store(resolve as usize, Ordering::Release);
    known.start.store(addresses.start, Ordering::Release);
    known.end.store(addresses.end, Ordering::Release);
    true
}

/// Forgets the range of `owner`.
pub(super) fn remove(owner: *const ()) {
    let is_its = |known: &&Known| known.owner.load(Ordering::Acquire).cast_const() == owner;
    if let Some(known) = KNOWN.iter().find(is_its) {
        known.end.store(0, Ordering::Release);
        known.owner.store(std::ptr::null_mut(), Ordering::Release);
    }
}

/// Brings the page of an access to `address`. Returns false if the address is in no range.
///
/// # Safety
/// If a range holds `address`, the caller's thread uses that range, so that its owner is alive.
pub(super) unsafe fn resolve(address: usize, store: bool, instruction: usize) -> bool {
    let holds = |known: &&Known| {
        (known.start.load(Ordering::Acquire)..known.end.load(Ordering::Acquire)).contains(&address)
    };
    let Some(known) = KNOWN.iter().find(holds) else { return false };
    let offset = address - known.start.load(Ordering::Acquire);
    let resolve = known.resolve.load(Ordering::Acquire);
    // SAFETY: `add` has stored a function of this type before the range.
    let resolve = unsafe { std::mem::transmute::<usize, Resolve>(resolve) };
    // SAFETY: the owner of this range, alive as the caller promises.
    unsafe { resolve(known.owner.load(Ordering::Acquire), Access { offset, store, instruction }) };
    true
}
