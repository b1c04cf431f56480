//! The SIGBUS handler: a plain load or store of a page that is not there becomes a miss of its
//! fiber.
//!
//! The handler runs on the stack of the fiber, so that a switch inside it suspends the access
//! itself. SIGBUS stays unblocked, because the next fiber may fault as well. A fault outside of
//! mapped ranges goes to the handler that was there before.

use std::io;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use ebbtide_core::MemoryFault;

use super::exceptions;
use super::fatal::fatal;
use super::registry;

/// The previous handler, for faults outside of mapped ranges.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(null_mut());

/// The bit of a page fault's error code that is set by stores.
const STORE: i64 = 2;

/// Installs the handler, once in a process.
pub(super) fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    INSTALLED.get_or_init(install_now).map_err(io::Error::from_raw_os_error)
}

fn install_now() -> Result<(), i32> {
    exceptions::prepare();
    let error = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
    let mut previous = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: asks only; the previous action is written in full on success.
    if unsafe { libc::sigaction(libc::SIGBUS, std::ptr::null(), previous.as_mut_ptr()) } != 0 {
        return Err(error());
    }
    // SAFETY: written just now. It is never freed: the handler may read it at any time.
    let previous = Box::into_raw(Box::new(unsafe { previous.assume_init() }));
    PREVIOUS.store(previous, Ordering::Release);
    // SAFETY: all zeros is a valid `sigaction` with an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = handle;
    action.sa_sigaction = handler as libc::sighandler_t;
    // On the stack of the fiber: not SA_ONSTACK.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
    // SAFETY: the handler has the type that the flag asks for.
    match unsafe { libc::sigaction(libc::SIGBUS, &raw const action, null_mut()) } {
        0 => Ok(()),
        _ => Err(error()),
    }
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: errno belongs to this thread.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel passes the fault's own description.
    let address = unsafe { (*info).si_addr() } as usize;
    // SAFETY: the kernel passes the state of the thread, of this type.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let store = registers[libc::REG_ERR as usize] & STORE != 0;
    let instruction = registers[libc::REG_RIP as usize] as usize;
    // SAFETY: the program uses the address right now.
    let resolve = || unsafe { registry::resolve(address, store, instruction) };
    match catch_unwind(AssertUnwindSafe(resolve)) {
        Ok(true) => {}
        Ok(false) => pass_on(signal, info, context),
        Err(payload) => match payload.downcast_ref::<MemoryFault>() {
            Some(fault) => fatal(format_args!("a mapped page cannot be read: {}", fault.reason)),
            None => fatal(format_args!("a fault on a mapped page failed")),
        },
    }
    // SAFETY: as above. The fiber has not changed its thread.
    unsafe { *libc::__errno_location() = errno };
}

/// Calls the handler that was there before, or lets the fault end the process.
fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: set before this handler was installed, and never freed.
    let previous = unsafe { &*PREVIOUS.load(Ordering::Acquire) };
    let (handler, flags) = (previous.sa_sigaction, previous.sa_flags);
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        // The access is made again when this handler returns, and ends the process.
        // SAFETY: puts back what was there.
        unsafe { libc::sigaction(signal, previous, null_mut()) };
    } else if flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the flag says that the handler has this type.
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
            unsafe { std::mem::transmute(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: without the flag a handler takes the signal's number alone.
        let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
        handler(signal);
    }
}
