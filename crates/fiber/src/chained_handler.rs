//! [`ChainedHandler`]: a signal handler that passes foreign signals on to the previous handler.

use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A handler that takes the description of its signal.
pub type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// The handler of one signal in front of the previous one. It is a static of the handler's module.
#[derive(Debug)]
pub struct ChainedHandler {
    previous: AtomicPtr<libc::sigaction>,
}

impl ChainedHandler {
    /// A handler that is not installed yet.
    #[expect(clippy::new_without_default, reason = "only statics have this type")]
    pub const fn new() -> ChainedHandler {
        ChainedHandler { previous: AtomicPtr::new(null_mut()) }
    }

    /// Installs `handler` for `signal`, with `flags` and `SA_SIGINFO`. To be called once.
    ///
    /// # Errors
    /// When the kernel refuses.
    ///
    /// # Safety
    /// `handler` makes only calls that are safe at any point of a thread that may get the signal.
    pub unsafe fn install(
        &self,
        signal: libc::c_int,
        handler: Handler,
        flags: libc::c_int,
    ) -> io::Result<()> {
        let mut previous = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: asks only; the previous action is written in full on success.
        if unsafe { libc::sigaction(signal, std::ptr::null(), previous.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: written just now. It is never freed: the handler may read it at any time.
        let previous = Box::into_raw(Box::new(unsafe { previous.assume_init() }));
        self.previous.store(previous, Ordering::Release);
        // SAFETY: all zeros is a valid `sigaction` with an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | flags;
        // SAFETY: the handler has the type that the flag asks for, and the caller vouches for it.
        match unsafe { libc::sigaction(signal, &raw const action, null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Calls the previous handler, or lets the signal end the process.
    ///
    /// # Safety
    /// The caller is the installed handler, and passes its own arguments.
    pub unsafe fn pass_on(
        &self,
        signal: libc::c_int,
        info: *mut libc::siginfo_t,
        context: *mut libc::c_void,
    ) {
        // SAFETY: set before the handler was installed, and never freed.
        let previous = unsafe { &*self.previous.load(Ordering::Acquire) };
        let (handler, flags) = (previous.sa_sigaction, previous.sa_flags);
        if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
            // The access is made again when this handler returns, and ends the process.
            // SAFETY: puts back what was there.
            unsafe { libc::sigaction(signal, previous, null_mut()) };
        } else if flags & libc::SA_SIGINFO != 0 {
            // SAFETY: the flag says that the handler has this type.
            let handler: Handler = unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        } else {
            // SAFETY: without the flag a handler takes the signal's number alone.
            let handler: extern "C" fn(libc::c_int) = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
