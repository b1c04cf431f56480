//! The SIGBUS handler: a plain load or store of a page that is not there becomes a miss of its
//! fiber.
//!
//! The handler runs on the stack of the fiber, so that a switch inside it suspends the access
//! itself. SIGBUS stays unblocked, because the next fiber may fault as well. A fault outside of
//! mapped ranges goes to the handler that was there before.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use ebbtide_core::MemoryFault;
use ebbtide_fiber::ChainedHandler;

use super::exceptions;
use super::fatal::fatal;
use super::registry;

/// The handler, which passes on faults outside of mapped ranges.
static HANDLER: ChainedHandler = ChainedHandler::new();

/// The bit of a page fault's error code that is set by stores.
const STORE: i64 = 2;

/// Installs the handler, once in a process.
pub(super) fn install() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    INSTALLED.get_or_init(install_now).map_err(io::Error::from_raw_os_error)
}

fn install_now() -> Result<(), i32> {
    exceptions::prepare();
    // On the stack of the fiber: not SA_ONSTACK.
    // SAFETY: the handler runs where a mapped page is accessed, which may suspend the fiber.
    let installed = unsafe { HANDLER.install(libc::SIGBUS, handle, libc::SA_NODEFER) };
    installed.map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL))
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
        // SAFETY: these are the arguments of the installed handler.
        Ok(false) => unsafe { HANDLER.pass_on(signal, info, context) },
        Err(payload) => match payload.downcast_ref::<MemoryFault>() {
            Some(fault) => fatal(format_args!("a mapped page cannot be read: {}", fault.reason)),
            None => fatal(format_args!("a fault on a mapped page failed")),
        },
    }
    // SAFETY: as above. The fiber has not changed its thread.
    unsafe { *libc::__errno_location() = errno };
}
