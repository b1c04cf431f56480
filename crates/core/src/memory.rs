//! [`Memory`]: the trait every program is written against, in plain direct style.
//!
//! The same code runs over DRAM, over the engine's DRAM cache on real flash, under OS paging, and
//! on any simulated machine. A call may suspend the fiber it runs on. No reference survives a call:
//! values are passed by value and every call takes `&mut self`.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytemuck::Pod;
use thiserror::Error;

use crate::addr::{Addr, LINE_BYTES, PageId};
use crate::durability::{Aborted, Lsn, TransactionError};

mod full;

pub use full::FullMemory;

/// A plain value that memory holds: 8 to 64 bytes, a whole number of 8-byte words.
///
/// Any [`bytemuck::Pod`] type of that size is one. Memory is made of 8-byte words, and a word never
/// tears. A larger value is read and written word by word. It needs a latch
/// (`ebbtide_structures::latch`) if other cores may change it at the same time.
pub trait Value: Pod {}
impl<T: Pod> Value for T {}

/// A program's knowledge of its coming accesses, for memories that can use it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hint {
    /// The line at this address will be needed soon.
    WillNeed(Addr),
    /// The page of this address will not be needed soon.
    DontNeed(Addr),
}

/// One flat, byte-addressable address space over flash.
///
/// These are the calls of a program. [`FullMemory`] has the rest, for data structures.
///
/// # Ordering and races
/// Jobs interleave at every access and across cores. Words are atomic, loads acquire and stores
/// release, so jobs may race by design without undefined behaviour. A job that sees a word of
/// another job also sees all that the other stored before it. Anything more needs a latch
/// (`ebbtide_structures::latch`).
///
/// # Suspension
/// Any call may suspend the fiber it runs on, and other jobs then run on the same kernel thread.
/// Hold no lock guard, no `RefCell` borrow and no thread-local reference across a memory call. The
/// next job that wants it would block its own thread for ever, or panic. A job that unwinds cannot
/// be suspended, so destructors must not make a call that has to wait.
///
/// # Errors
/// A page that the device cannot read or write ends the job that touches it. The call unwinds with
/// a [`MemoryFault`], which becomes the result of the job.
///
/// # Panics
/// A program must not use an address out of bounds or one that is not a multiple of 8. Nor may a
/// value cross a line. Such a bug panics, which ends only the job.
pub trait Memory {
    /// Size of the address space in bytes.
    fn size_bytes(&self) -> u64;

    /// The value at `at`.
    fn load<T: Value>(&mut self, at: Addr) -> T;

    /// Stores `value` at `at`.
    fn store<T: Value>(&mut self, at: Addr, value: T);

    /// Stores `new` in the word at `at` if that word is `current`, in one atomic step. Returns the
    /// word found: `Ok` if it was exchanged, `Err` if not.
    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64>;

    /// Lets other jobs run while the word at `at` is `seen` and no job calls [`wake`](Memory::wake)
    /// for it. May return early: the caller must check the word again.
    fn wait(&mut self, at: Addr, seen: u64);

    /// Makes every job that waits on the word at `at` runnable.
    fn wake(&mut self, at: Addr);

    /// Announces pages that will be needed. A hint never changes what a program computes.
    fn hint(&mut self, _hint: Hint) {}

    /// Runs `body` as a transaction. All its stores take effect in one step at its end, and survive
    /// a crash as a whole or not at all. Returns the result of `body` and the transaction's place
    /// in the log, for [`durable`](Memory::durable).
    ///
    /// A memory without a persist part runs `body` once, on itself, and returns [`Lsn::ZERO`].
    /// Programs mark their transactions once and run on every memory.
    ///
    /// * *Rerunnable.* `body` may run more than once, and only its last run counts. Its changes
    ///   outside of memory must begin anew at each run.
    /// * *Atomic.* Stores to the persist part are kept aside until `body` returns; its own loads
    ///   see them, no other job does. A `body` that returns is committed, even if it returns an
    ///   error: for one that may give up use [`try_transaction`](Memory::try_transaction). If
    ///   `body` unwinds, a memory with a persist part drops its stores. Other memories keep them.
    /// * *Of one moment.* The commit checks every word that was read under a latch of
    ///   `ebbtide_structures::latch`, by [`load_checked`](FullMemory::load_checked) or by
    ///   [`compare_exchange`](Memory::compare_exchange). It does not check a plain
    ///   [`load`](Memory::load) outside of a latch.
    /// * *Bounded.* The size of a transaction is limited; see [`TransactionError::TooLarge`].
    /// * *Latches are not data.* A latch may be held around the transaction. It may also be taken
    ///   inside by `ebbtide_structures::latch`, which keeps it until the stores have taken effect.
    ///   It is never logged. Two transactions that store to the same words need a latch between
    ///   them, or [`compare_exchange`](Memory::compare_exchange). An exchanged word is checked
    ///   again at the end. If another job has changed it, `body` runs again.
    /// * *Not nested.* A transaction inside a transaction is part of the outer one.
    ///
    /// # Errors
    /// When nothing of it took place: it is too large, or the log cannot be written any more.
    fn transaction<R>(
        &mut self,
        mut body: impl FnMut(&mut Self) -> R,
    ) -> Result<(R, Lsn), TransactionError> {
        Ok((body(self), Lsn::ZERO))
    }

    /// As [`transaction`](Memory::transaction), of a `body` that may give up. If it returns an
    /// error, a memory with a persist part drops the stores of `body`, and other memories keep
    /// them. The error is of one moment as well: if a checked word has changed by then, `body` runs
    /// again.
    ///
    /// # Errors
    /// [`Aborted::GivenUp`] with the error of `body`, else as `transaction`.
    fn try_transaction<R, E>(
        &mut self,
        mut body: impl FnMut(&mut Self) -> Result<R, E>,
    ) -> Result<(R, Lsn), Aborted<E>> {
        body(self).map(|value| (value, Lsn::ZERO)).map_err(Aborted::GivenUp)
    }

    /// Waits until the transaction at `lsn` and all earlier ones survive a crash. The job keeps its
    /// fiber, and other jobs run. [`Lsn::ZERO`] waits for nothing.
    ///
    /// # Errors
    /// When it cannot become durable, because the log cannot be written any more, and inside a
    /// transaction.
    fn durable(&mut self, _lsn: Lsn) -> Result<(), TransactionError> {
        Ok(())
    }
}

/// Checks that a value of type `T` at `at` is aligned to words and stays within one line.
///
/// Implementations of [`Memory`] call it first thing: their `unsafe` code relies on it.
///
/// # Panics
/// When it does not hold.
#[inline(always)]
pub fn check_access<T: Value>(at: Addr) {
    const {
        assert!(
            size_of::<T>() > 0 && size_of::<T>() <= LINE_BYTES && size_of::<T>().is_multiple_of(8)
        );
        assert!(align_of::<T>() <= 8);
    }
    let offset = at.0 as usize % LINE_BYTES;
    if !offset.is_multiple_of(8) || (size_of::<T>() > 8 && offset + size_of::<T>() > LINE_BYTES) {
        misplaced(at, size_of::<T>());
    }
}

#[cold]
#[inline(never)]
fn misplaced(at: Addr, bytes: usize) -> ! {
    panic!("a {bytes}-byte value at {at:?} is not aligned to 8 bytes or crosses a 64-byte line");
}

/// The payload with which a job unwinds that has lost its [`Patience`].
#[derive(Debug)]
pub struct GaveUp;

/// Whether a job goes on waiting for others. While it is on, and the flag is set, the job unwinds
/// with [`GaveUp`] where it would wait.
#[derive(Debug, Default)]
pub struct Patience {
    ended: Option<Arc<AtomicBool>>,
    is_limited: bool,
}

impl Patience {
    /// Sets the flag that ends it. Jobs are patient until [`limit`](Patience::limit) is called.
    pub fn end_with(&mut self, flag: &Arc<AtomicBool>) {
        if !self.ended.as_ref().is_some_and(|ended| Arc::ptr_eq(ended, flag)) {
            self.ended = Some(flag.clone());
        }
    }

    /// Sets whether the flag counts.
    pub fn limit(&mut self, is_limited: bool) {
        self.is_limited = is_limited;
    }

    /// Unwinds with [`GaveUp`] if it has ended.
    pub fn check(&self) {
        let ended = self.ended.as_ref().filter(|_| self.is_limited);
        if ended.is_some_and(|ended| ended.load(Ordering::Relaxed)) {
            std::panic::resume_unwind(Box::new(GaveUp));
        }
    }
}

/// Why a page could not be read or written. The fault ends the job.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("page {}: {reason}", page.0)]
pub struct MemoryFault {
    /// The page the job touched.
    pub page: PageId,
    /// The device's error, in one line.
    pub reason: String,
    /// True if the page is intact, but every frame holds a changed page and writes to the device
    /// fail. The page can be read once they succeed again.
    pub writes_fail: bool,
}

impl MemoryFault {
    /// Ends the running job: unwinds to the place that started it, without a panic message.
    pub fn unwind(self) -> ! {
        std::panic::resume_unwind(Box::new(self))
    }

    /// The fault a job ended with, if `payload` (from `catch_unwind`) is one.
    ///
    /// # Errors
    /// Returns the payload as the error if it is something else, such as a panic of the program.
    pub fn from_unwind(payload: Box<dyn Any + Send>) -> Result<MemoryFault, Box<dyn Any + Send>> {
        payload.downcast::<MemoryFault>().map(|fault| *fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends_while_it_is_limited_and_the_flag_is_set() {
        let (flag, mut patience) = (Arc::new(AtomicBool::new(true)), Patience::default());
        let ends = |patience: &Patience| std::panic::catch_unwind(|| patience.check()).is_err();
        patience.limit(true);
        assert!(!ends(&patience), "there is no flag");
        patience.end_with(&flag);
        assert!(ends(&patience));
        flag.store(false, Ordering::Relaxed);
        assert!(!ends(&patience));
        flag.store(true, Ordering::Relaxed);
        patience.limit(false);
        assert!(!ends(&patience));
    }

    /// Two lines, and nothing that a trait does not demand.
    pub(super) struct Lines(pub(super) [u64; LINES_BYTES / 8]);

    pub(super) const LINES_BYTES: usize = 2 * LINE_BYTES;

    impl Lines {
        /// Every word holds its own address.
        pub(super) fn new() -> Lines {
            Lines(std::array::from_fn(|word| word as u64 * 8))
        }

        fn bytes_of<T: Value>(&mut self, at: Addr) -> &mut [u8] {
            check_access::<T>(at);
            &mut bytemuck::cast_slice_mut(&mut self.0)[at.0 as usize..][..size_of::<T>()]
        }
    }

    impl Memory for Lines {
        fn size_bytes(&self) -> u64 {
            LINES_BYTES as u64
        }
        fn load<T: Value>(&mut self, at: Addr) -> T {
            bytemuck::pod_read_unaligned(self.bytes_of::<T>(at))
        }
        fn store<T: Value>(&mut self, at: Addr, value: T) {
            self.bytes_of::<T>(at).copy_from_slice(bytemuck::bytes_of(&value));
        }
        fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
            let found = self.load(at);
            if found != current {
                return Err(found);
            }
            self.store(at, new);
            Ok(found)
        }
        fn wait(&mut self, _at: Addr, _seen: u64) {}
        fn wake(&mut self, _at: Addr) {}
    }

    #[test]
    fn a_memory_without_a_persist_part_runs_a_transaction_once_on_itself() {
        let mut memory = Lines::new();
        let mut runs = 0;
        let committed = memory.transaction(|memory| {
            runs += 1;
            let seen: u64 = memory.load(Addr(8));
            memory.store(Addr(8), seen + 1);
            memory.load::<u64>(Addr(8))
        });
        assert_eq!(committed, Ok((9, Lsn::ZERO)));
        assert_eq!((runs, memory.0[1]), (1, 9));
        assert_eq!(memory.durable(Lsn::ZERO), Ok(()));
    }

    #[test]
    fn an_access_is_aligned_to_words_and_stays_within_a_line() {
        fn check<T: Value>() {
            for at in 0..LINES_BYTES {
                let checked = std::panic::catch_unwind(|| check_access::<T>(Addr(at as u64)));
                let last = at + size_of::<T>() - 1;
                let fits = at % 8 == 0 && at / LINE_BYTES == last / LINE_BYTES;
                assert_eq!(checked.is_ok(), fits, "{} bytes at {at}", size_of::<T>());
            }
        }
        check::<u64>();
        check::<[u64; 2]>();
        check::<[u64; 3]>();
        check::<[u64; 8]>();
    }
}
