//! Reports a stack overflow and its job before the process ends.
//!
//! A fiber that overflows its stack faults in the guard below it. The handler runs on an alternate
//! stack and finds the guard in the table of all stacks. It uses only calls that are safe in a
//! signal handler.

use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::Ordering;

use crate::chained_handler::ChainedHandler;
use crate::region;

/// Bytes of a thread's alternate stack, if it has none.
const ALTERNATE_BYTES: usize = 64 * 1024;

/// The handler, which passes on faults that are no overflow of a fiber.
static HANDLER: ChainedHandler = ChainedHandler::new();

/// Turns on the report of overflows of fibers on the calling thread.
pub(crate) fn watch_this_thread() -> io::Result<()> {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(install);
    thread_local! {
        static ALTERNATE: io::Result<Option<Alternate>> = Alternate::ensure();
    }
    ALTERNATE.with(|alternate| match alternate {
        Ok(_) => Ok(()),
        Err(error) => Err(io::Error::from(error.kind())),
    })
}

fn install() {
    // Without the handler an overflow still ends the process, but no line names its job.
    // SAFETY: the handler only makes calls that are safe in a handler.
    let _ = unsafe { HANDLER.install(libc::SIGSEGV, handle, libc::SA_ONSTACK) };
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes the fault's own description.
    let address = unsafe { (*info).si_addr() } as usize;
    // SAFETY: a fault in a guard comes from the stack above it, which this thread runs on.
    let told = unsafe {
        region::lookup(address, |region, state, in_guard| {
            if in_guard {
                report(state.job.load(Ordering::Relaxed), region.usable_bytes);
            }
            in_guard
        })
    };
    let told = told == Some(true) || {
        // SAFETY: the kernel passes the signal's own description and the state of the thread.
        let (code, registers) =
            unsafe { ((*info).si_code, &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs) };
        code == SI_KERNEL && is_at_its_end(registers[libc::REG_RSP as usize] as usize)
    };
    if told {
        // SAFETY: abort is safe in a handler.
        unsafe { libc::abort() };
    }
    // SAFETY: these are the arguments of the installed handler.
    unsafe { HANDLER.pass_on(signal, info, context) };
}

/// `si_code` of a signal that the kernel sends for reasons of its own.
const SI_KERNEL: libc::c_int = 0x80;

/// The most bytes that the frame of a signal takes.
const SIGNAL_FRAME_BYTES: usize = 16 * 1024;

/// True if the stack at `pointer` has no room for the frame of a signal, after a report. The kernel
/// gives no address when it cannot push one.
fn is_at_its_end(pointer: usize) -> bool {
    // SAFETY: this thread ran on the stack at the pointer.
    let room = unsafe { region::lookup(pointer, |_, _, in_guard| !in_guard) };
    let below = pointer.wrapping_sub(SIGNAL_FRAME_BYTES);
    room == Some(true)
        // SAFETY: as above; the guard belongs to the same region.
        && unsafe {
            region::lookup(below, |region, state, in_guard| {
                if in_guard {
                    report(state.job.load(Ordering::Relaxed), region.usable_bytes);
                }
                in_guard
            })
        } == Some(true)
}

/// Writes one line to standard error without allocating.
fn report(job: u64, stack_bytes: usize) {
    let mut line = Line { text: [0; 256], length: 0 };
    let mut name = [0u8; 16];
    // SAFETY: the name has at most 16 bytes, its ending zero included.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    line.push(b"ebbtide: stack overflow: ");
    if job > 0 {
        line.push(b"job ");
        line.push_number(job);
    } else {
        line.push(b"a fiber");
    }
    line.push(b" of thread '");
    line.push(name.split(|&byte| byte == 0).next().unwrap_or_default());
    line.push(b"' needs more than its stack of ");
    line.push_number((stack_bytes / 1024) as u64);
    line.push(b" KiB\n");
    // SAFETY: writes only what was put into the line.
    unsafe { libc::write(libc::STDERR_FILENO, line.text.as_ptr().cast(), line.length) };
}

struct Line {
    text: [u8; 256],
    length: usize,
}

impl Line {
    fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if let Some(place) = self.text.get_mut(self.length) {
                *place = byte;
                self.length += 1;
            }
        }
    }

    fn push_number(&mut self, number: u64) {
        let mut digits = [0; 20];
        let mut first = digits.len();
        let mut rest = number;
        loop {
            first -= 1;
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.push(&digits[first..]);
    }
}

/// An alternate stack of the thread that made it.
struct Alternate {
    base: *mut libc::c_void,
}

impl Alternate {
    /// Sets an alternate stack for the calling thread if it has none.
    fn ensure() -> io::Result<Option<Alternate>> {
        let mut current = MaybeUninit::<libc::stack_t>::uninit();
        // SAFETY: asks only; the answer is written in full on success.
        if unsafe { libc::sigaltstack(std::ptr::null(), current.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: written just now.
        if unsafe { current.assume_init() }.ss_flags & libc::SS_DISABLE == 0 {
            return Ok(None);
        }
        let (access, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing that exists.
        let base = unsafe { libc::mmap(null_mut(), ALTERNATE_BYTES, access, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let alternate = Alternate { base };
        let stack = libc::stack_t { ss_sp: base, ss_flags: 0, ss_size: ALTERNATE_BYTES };
        // SAFETY: the mapping is this thread's and lives until the thread ends.
        if unsafe { libc::sigaltstack(&raw const stack, null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Some(alternate))
    }
}

impl Drop for Alternate {
    fn drop(&mut self) {
        let none = libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: the thread ends; its alternate stack is not in use.
        unsafe {
            libc::sigaltstack(&raw const none, null_mut());
            libc::munmap(self.base, ALTERNATE_BYTES);
        }
    }
}
