//! [`EbbtideMemory`]: the address space as a job sees it.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;
use std::sync::Arc;

use ebbtide_core::durability::Lsn;
use ebbtide_core::{Addr, Hint, Memory, MemoryFault};
use ebbtide_engine::{Deadlock, Engine, FlashMemory};

use crate::code::{EbbtideCode, Failure, given, guarded, panic_text};

/// The payload of a call that unwinds.
type Payload = Box<dyn Any + Send>;

/// The address space of an engine. Valid for the job that got it, until that job returns.
pub struct EbbtideMemory {
    flash: Cell<*mut FlashMemory<'static>>,
    engine: Arc<Engine>,
    size_bytes: u64,
    /// The last transaction that was committed.
    committed: Cell<Lsn>,
    /// The depth of nested transactions whose bodies run.
    depth: Cell<u32>,
    /// Why the transaction under way cannot go on. It unwinds once its body has returned.
    unwound: Cell<Option<Payload>>,
}

/// Ends a transaction whose body did not return 0.
pub(crate) struct Abandoned(pub(crate) i32);

thread_local! {
    /// The memory of the job that runs on this thread. Each call sets it again at its end, because
    /// other jobs may have run during the call.
    static CURRENT: Cell<*const EbbtideMemory> = const { Cell::new(null()) };
    /// True while the function of an update runs on this thread. No other job can run meanwhile.
    static IN_UPDATE: Cell<bool> = const { Cell::new(false) };
}

/// Notes that no job runs on this thread.
pub(crate) fn leave() {
    CURRENT.set(null());
    IN_UPDATE.set(false);
}

/// Refuses calls from inside a job that would block its core.
pub(crate) fn check_outside() -> Result<(), Failure> {
    let inside = match (CURRENT.get().is_null(), IN_UPDATE.get()) {
        (true, false) => return Ok(()),
        (true, true) => "an update",
        (false, _) => "a job",
    };
    let text =
        format!("the call was made inside {inside}: expected one by a thread of the program");
    Err(Failure::new(EbbtideCode::EbbtideMisplaced, text))
}

/// Runs the function of an update, which must make no calls that block its core.
pub(crate) fn in_update(function: impl FnOnce() -> i32) -> i32 {
    IN_UPDATE.set(true);
    let code = function();
    IN_UPDATE.set(false);
    code
}

/// Returns the memory that a job has passed in, if it is its own.
pub(crate) fn own<'a>(memory: *const EbbtideMemory) -> Result<&'a EbbtideMemory, Failure> {
    given("memory", memory)?;
    if memory != CURRENT.get() {
        let text = "memory is the memory of another job, or of one that has ended: expected the memory \
                    of the job that calls";
        return Err(Failure::new(EbbtideCode::EbbtideMisplaced, text));
    }
    // SAFETY: the job's callback runs below the frame that the memory lies in.
    Ok(unsafe { &*memory })
}

impl EbbtideMemory {
    pub(crate) fn new(flash: &mut FlashMemory<'_>, engine: &Arc<Engine>) -> EbbtideMemory {
        EbbtideMemory {
            // The callback ends, and with it every borrow of this, before the memory does.
            flash: Cell::new(std::ptr::from_mut(flash).cast()),
            engine: engine.clone(),
            size_bytes: flash.size_bytes(),
            committed: Cell::new(Lsn::ZERO),
            depth: Cell::new(0),
            unwound: Cell::new(None),
        }
    }

    /// Runs a job's callback.
    pub(crate) fn run(&self, work: impl FnOnce(*mut EbbtideMemory) -> i32) -> i32 {
        CURRENT.set(self);
        let result = work(std::ptr::from_ref(self).cast_mut());
        leave();
        result
    }

    /// Returns the place of the last transaction that the job has committed.
    pub(crate) fn committed(&self) -> Lsn {
        self.committed.get()
    }

    pub(crate) fn has_committed(&self, lsn: Lsn) {
        self.committed.set(self.committed.get().max(lsn));
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Runs the body of a transaction over `flash`. Unwinds if the transaction cannot go on.
    pub(crate) fn run_body(&self, flash: &mut FlashMemory<'_>, body: impl FnOnce() -> i32) {
        let outer = self.flash.replace(std::ptr::from_mut(flash).cast());
        self.depth.set(self.depth.get() + 1);
        // Before each run, a transaction may wait while other jobs run.
        CURRENT.set(self);
        let result = body();
        self.depth.set(self.depth.get() - 1);
        self.flash.set(outer);
        if let Some(payload) = self.unwound.take() {
            std::panic::resume_unwind(payload);
        }
        if result != 0 {
            std::panic::resume_unwind(Box::new(Abandoned(result)));
        }
    }

    /// Makes a call. If it unwinds, returns a failure and ends the transaction under way.
    pub(crate) fn call<R>(
        &self,
        work: impl FnOnce(&mut FlashMemory<'static>) -> R,
    ) -> Result<R, Failure> {
        let unwound = self.unwound.take();
        if unwound.is_some() {
            self.unwound.set(unwound);
            return Err(Failure::new(EbbtideCode::EbbtideAgain, AGAIN));
        }
        // SAFETY: the job's memory outlives its callback, which no other job shares, and which
        // makes one call at a time.
        let flash = unsafe { &mut *self.flash.get() };
        let result = catch_unwind(AssertUnwindSafe(|| work(flash)));
        CURRENT.set(self);
        result.map_err(|payload| {
            let failure = failure_of(&*payload);
            if self.depth.get() > 0 {
                self.unwound.set(Some(payload));
            }
            failure
        })
    }

    /// Refuses a range that is not within the address space.
    pub(crate) fn check(&self, at: u64, bytes: u64) -> Result<(), Failure> {
        let size = self.size_bytes;
        match at.checked_add(bytes) {
            Some(end) if end <= size => Ok(()),
            _ => Err(Failure::input(format!(
                "{bytes} bytes at address {at}: expected a range within {size} bytes"
            ))),
        }
    }

    /// Refuses an address that is not a word's.
    fn check_word(&self, at: u64) -> Result<(), Failure> {
        if !at.is_multiple_of(8) {
            return Err(Failure::input(format!(
                "a word at address {at}: expected a multiple of 8"
            )));
        }
        self.check(at, 8)
    }
}

const AGAIN: &str = "the transaction cannot go on as it is: its body has to return";

fn failure_of(payload: &(dyn Any + Send)) -> Failure {
    if let Some(fault) = payload.downcast_ref::<MemoryFault>() {
        Failure::failed(fault)
    } else if let Some(deadlock) = payload.downcast_ref::<Deadlock>() {
        Failure::failed(deadlock)
    } else if let Some(Abandoned(result)) = payload.downcast_ref::<Abandoned>() {
        let text = format!("the body of the transaction returned {result}: expected 0 to commit");
        Failure::new(EbbtideCode::EbbtideAbandoned, text)
    } else if payload.is::<&str>() || payload.is::<String>() {
        Failure::failed(panic_text(payload))
    } else {
        Failure::new(EbbtideCode::EbbtideAgain, AGAIN)
    }
}

/// Returns the size of the address space in bytes.
///
/// # Safety
/// `bytes` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_size(memory: *mut EbbtideMemory, bytes: *mut u64) -> EbbtideCode {
    guarded(|| {
        given("bytes", bytes)?;
        let size_bytes = own(memory)?.size_bytes;
        // SAFETY: as the caller promises.
        unsafe { bytes.write(size_bytes) };
        Ok(())
    })
}

/// Loads the word of 8 bytes at `at`, a multiple of 8.
///
/// # Safety
/// `value` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_load(
    memory: *mut EbbtideMemory,
    at: u64,
    value: *mut u64,
) -> EbbtideCode {
    guarded(|| {
        given("value", value)?;
        let memory = own(memory)?;
        memory.check_word(at)?;
        let word = memory.call(|flash| flash.load::<u64>(Addr(at)))?;
        // SAFETY: as the caller promises.
        unsafe { value.write(word) };
        Ok(())
    })
}

/// Stores `value` in the word at `at`, a multiple of 8.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_store(memory: *mut EbbtideMemory, at: u64, value: u64) -> EbbtideCode {
    guarded(|| {
        let memory = own(memory)?;
        memory.check_word(at)?;
        memory.call(|flash| flash.store::<u64>(Addr(at), value))
    })
}

/// Stores `desired` in the word at `at` if that word is `*expected`, in one atomic step. Sets
/// `*expected` to the word found, and `*exchanged` to whether it was exchanged.
///
/// # Safety
/// `expected` and `exchanged` are null or can be read and written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_compare_exchange(
    memory: *mut EbbtideMemory,
    at: u64,
    expected: *mut u64,
    desired: u64,
    exchanged: *mut bool,
) -> EbbtideCode {
    guarded(|| {
        given("expected", expected)?;
        given("exchanged", exchanged)?;
        let memory = own(memory)?;
        memory.check_word(at)?;
        // SAFETY: as the caller promises.
        let current = unsafe { expected.read() };
        let found = memory.call(|flash| flash.compare_exchange(Addr(at), current, desired))?;
        // SAFETY: as above.
        unsafe {
            exchanged.write(found.is_ok());
            expected.write(found.unwrap_or_else(|found| found));
        }
        Ok(())
    })
}

/// Copies `bytes` bytes from address `at` on into `into`. The range may begin anywhere and span any
/// number of pages.
///
/// # Safety
/// `into` has room for as many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_read(
    memory: *mut EbbtideMemory,
    at: u64,
    into: *mut u8,
    bytes: usize,
) -> EbbtideCode {
    guarded(|| {
        let memory = own(memory)?;
        memory.check(at, bytes as u64)?;
        if bytes == 0 {
            return Ok(());
        }
        given("into", into)?;
        // SAFETY: as the caller promises.
        let into = unsafe { std::slice::from_raw_parts_mut(into, bytes) };
        memory.call(|flash| flash.read_bytes(Addr(at), into))
    })
}

/// Copies `bytes` bytes from `from` to address `at`. The range may begin anywhere and span any
/// number of pages.
///
/// # Safety
/// `from` has as many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ebbtide_write(
    memory: *mut EbbtideMemory,
    at: u64,
    from: *const u8,
    bytes: usize,
) -> EbbtideCode {
    guarded(|| {
        let memory = own(memory)?;
        memory.check(at, bytes as u64)?;
        if bytes == 0 {
            return Ok(());
        }
        given("from", from)?;
        // SAFETY: as the caller promises.
        let from = unsafe { std::slice::from_raw_parts(from, bytes) };
        memory.call(|flash| flash.write_bytes(Addr(at), from))
    })
}

/// Lets other jobs run while the word at `at` is `seen` and no job calls `ebbtide_wake` for it. May
/// return early: check the word again.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_wait_on(memory: *mut EbbtideMemory, at: u64, seen: u64) -> EbbtideCode {
    guarded(|| {
        let memory = own(memory)?;
        memory.check_word(at)?;
        memory.call(|flash| flash.wait(Addr(at), seen))
    })
}

/// Makes every job that waits on the word at `at` runnable.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_wake(memory: *mut EbbtideMemory, at: u64) -> EbbtideCode {
    guarded(|| own(memory)?.call(|flash| flash.wake(Addr(at))))
}

/// Announces that the page of `at` will be needed soon. Never changes what a job computes.
#[unsafe(no_mangle)]
pub extern "C" fn ebbtide_will_need(memory: *mut EbbtideMemory, at: u64) -> EbbtideCode {
    guarded(|| own(memory)?.call(|flash| flash.hint(Hint::WillNeed(Addr(at)))))
}
