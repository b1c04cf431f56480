//! C++ exceptions across a switch. The C++ runtime keeps the exceptions of a thread in a
//! thread-local structure, which belongs to the fiber that is suspended.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// `__cxa_eh_globals` of the Itanium C++ ABI, §2.2.2.
#[repr(C)]
#[derive(Clone, Copy)]
struct Globals {
    caught: *mut c_void,
    uncaught: c_uint,
}

/// `__cxa_get_globals`, or zero if the process has no C++ runtime.
static GET_GLOBALS: AtomicUsize = AtomicUsize::new(0);

/// Looks for the C++ runtime.
pub(super) fn prepare() {
    // SAFETY: the name is a C string; the call only looks it up.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_get_globals".as_ptr()) };
    GET_GLOBALS.store(found as usize, Ordering::Release);
}

/// The structure of this thread.
fn globals() -> Option<*mut Globals> {
    let found = GET_GLOBALS.load(Ordering::Acquire);
    // SAFETY: the C++ ABI gives the function this type.
    let get: extern "C" fn() -> *mut Globals =
        (found != 0).then(|| unsafe { std::mem::transmute::<usize, _>(found) })?;
    Some(get())
}

/// True if an exception of C++ or a panic of Rust is being thrown on this thread.
pub(super) fn is_unwinding() -> bool {
    // SAFETY: the structure lives as long as its thread.
    std::thread::panicking() || globals().is_some_and(|globals| unsafe { (*globals).uncaught } > 0)
}

/// The exceptions that a fiber has caught and not ended, put aside until dropped.
pub(super) struct Aside(Option<Globals>);

impl Aside {
    /// Puts them aside, so that other fibers of the thread see none.
    pub(super) fn put() -> Aside {
        Aside(globals().map(|globals| {
            let none = Globals { caught: std::ptr::null_mut(), uncaught: 0 };
            // SAFETY: as above; only this thread uses its structure.
            unsafe { globals.replace(none) }
        }))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if let (Some(aside), Some(globals)) = (self.0, globals()) {
            // SAFETY: as above. The fiber has not changed its thread.
            unsafe { globals.write(aside) };
        }
    }
}
