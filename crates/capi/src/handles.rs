//! Checked handles. A handle is a number in the form of a pointer, never an address. A closed
//! handle, or one opened before a fork, is told from an open one.

use std::ptr::{null_mut, without_provenance_mut};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

use parking_lot::Mutex;

use crate::code::{EbbtideCode, Failure};

/// A handle has three numbers: a place, how many times that place was used, and the forks between
/// the first process and this one. No handle is null, because the use counts from 1.
const PLACE_BITS: u32 = 28;
const USE_BITS: u32 = 28;
const FORK_BITS: u32 = 8;

fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// All values of one kind to which this process has handles.
///
/// A forked child gets empty tables. The parent's values need threads that the child does not have,
/// and locks may be held for ever.
pub(crate) struct Handles<T: 'static>(AtomicPtr<Table<T>>);

struct Table<T> {
    forks: u64,
    places: Mutex<Places<T>>,
}

struct Places<T> {
    all: Vec<Place<T>>,
    free: Vec<u32>,
}

struct Place<T> {
    uses: u64,
    value: Option<T>,
}

impl<T: Send> Handles<T> {
    pub(crate) const fn new() -> Handles<T> {
        Handles(AtomicPtr::new(null_mut()))
    }

    fn table(&self) -> &'static Table<T> {
        let mut table = self.0.load(Ordering::Acquire);
        if table.is_null() {
            let new = Table::boxed(0);
            let (set, unset) = (Ordering::AcqRel, Ordering::Acquire);
            table = match self.0.compare_exchange(null_mut(), new, set, unset) {
                Ok(_) => new,
                Err(first) => {
                    // SAFETY: made just now, and nobody has seen it.
                    drop(unsafe { Box::from_raw(new) });
                    first
                }
            };
        }
        // SAFETY: a table that was stored is never freed.
        unsafe { &*table }
    }

    /// Forgets all values in a forked child, without dropping them.
    pub(crate) fn forked(&self) {
        let old = self.0.load(Ordering::Acquire);
        if !old.is_null() {
            // SAFETY: a table that was stored is never freed, and `forks` never changes.
            let forks = unsafe { (*old).forks } + 1;
            self.0.store(Table::boxed(forks & mask(FORK_BITS)), Ordering::Release);
        }
    }

    /// Opens a handle to `value`.
    pub(crate) fn open<H>(&self, value: T) -> Result<*mut H, Failure> {
        let table = self.table();
        let mut places = table.places.lock();
        let number = match places.free.pop() {
            Some(number) => number,
            None if places.all.len() as u64 > mask(PLACE_BITS) => {
                return Err(Failure::failed(format!("{} handles are open", places.all.len())));
            }
            None => {
                places.all.push(Place { uses: 0, value: None });
                places.all.len() as u32 - 1
            }
        };
        let place = &mut places.all[number as usize];
        place.uses = (place.uses % mask(USE_BITS)) + 1;
        place.value = Some(value);
        let handle = u64::from(number) | place.uses << PLACE_BITS;
        let handle = handle | table.forks << (PLACE_BITS + USE_BITS);
        Ok(without_provenance_mut(handle as usize))
    }

    /// Returns the value of a handle.
    pub(crate) fn get<H>(&self, name: &str, handle: *const H) -> Result<T, Failure>
    where
        T: Clone,
    {
        self.find(name, handle, |place, _| place.value.clone())
    }

    /// Closes a handle and returns its value.
    pub(crate) fn close<H>(&self, name: &str, handle: *const H) -> Result<T, Failure> {
        self.find(name, handle, |place, free| {
            let value = place.value.take()?;
            free();
            Some(value)
        })
    }

    fn find<H>(
        &self,
        name: &str,
        handle: *const H,
        take: impl FnOnce(&mut Place<T>, &mut dyn FnMut()) -> Option<T>,
    ) -> Result<T, Failure> {
        crate::code::given(name, handle)?;
        let handle = handle.addr() as u64;
        let table = self.table();
        if handle >> (PLACE_BITS + USE_BITS) != table.forks {
            let text = format!("{name} was opened before a fork: expected to be opened after it");
            return Err(Failure::new(EbbtideCode::EbbtideForked, text));
        }
        let number = (handle & mask(PLACE_BITS)) as u32;
        let uses = handle >> PLACE_BITS & mask(USE_BITS);
        let mut places = table.places.lock();
        let Places { all, free } = &mut *places;
        let place = all.get_mut(number as usize).filter(|place| place.uses == uses);
        let value = place.and_then(|place| take(place, &mut || free.push(number)));
        value.ok_or_else(|| {
            let text = format!("{name} is closed, or was never open");
            Failure::new(EbbtideCode::EbbtideClosed, text)
        })
    }
}

impl<T> Table<T> {
    fn boxed(forks: u64) -> *mut Table<T> {
        let places = Mutex::new(Places { all: Vec::new(), free: Vec::new() });
        Box::into_raw(Box::new(Table { forks, places }))
    }
}

/// Registers `in_child` to be called in every child that this process forks from now on, `once` in
/// a process.
pub(crate) fn watch_forks(once: &Once, in_child: unsafe extern "C" fn()) {
    once.call_once(|| {
        // SAFETY: the handler is a function of this library. If it cannot be registered, forks are
        // not noticed.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Handle;

    fn code<T>(found: Result<T, Failure>) -> EbbtideCode {
        found.err().map_or(EbbtideCode::EbbtideOk, |failure| failure.code)
    }

    #[test]
    fn a_handle_is_good_until_it_is_closed_and_its_place_is_used_again() {
        let handles: Handles<u32> = Handles::new();
        let first: *mut Handle = handles.open(7).unwrap();
        assert_eq!(handles.get("a number", first).unwrap(), 7);
        assert_eq!(handles.close("a number", first).unwrap(), 7);
        let second: *mut Handle = handles.open(8).unwrap();
        assert_eq!(code(handles.get("a number", first)), EbbtideCode::EbbtideClosed);
        assert_eq!(code(handles.close("a number", first)), EbbtideCode::EbbtideClosed);
        assert_eq!(handles.get("a number", second).unwrap(), 8);
    }

    #[test]
    fn handles_that_were_never_given_are_refused() {
        let handles: Handles<u32> = Handles::new();
        assert_eq!(code(handles.get::<Handle>("a number", null_mut())), EbbtideCode::EbbtideInput);
        for bits in [1, 4096, 1 << PLACE_BITS, mask(PLACE_BITS + USE_BITS)] {
            let handle: *mut Handle = without_provenance_mut(bits as usize);
            assert_eq!(code(handles.get("a number", handle)), EbbtideCode::EbbtideClosed);
        }
    }

    #[test]
    fn a_fork_closes_everything_without_dropping_it() {
        let handles: Handles<u32> = Handles::new();
        let before: *mut Handle = handles.open(7).unwrap();
        handles.forked();
        assert_eq!(code(handles.get("a number", before)), EbbtideCode::EbbtideForked);
        let after: *mut Handle = handles.open(8).unwrap();
        assert_eq!(handles.get("a number", after).unwrap(), 8);
    }
}
