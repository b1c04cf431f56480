//! Runs the panic hook of a fiber on the thread's own stack, because a small stack is too small to
//! print a backtrace.

use std::hint::black_box;
use std::panic::{set_hook, take_hook};
use std::sync::Once;
use std::sync::atomic::Ordering;

use corosensei::Yielder;

use crate::region::{self, State};

/// Calls work on the thread's stack, below the fiber that the pointer stands for.
type Call = unsafe fn(*const (), &mut dyn FnMut());

/// Wraps the current panic hook. A hook that is set later runs on the fiber's stack.
pub(crate) fn use_the_threads_stack() {
    static WRAP: Once = Once::new();
    // The hook cannot be changed during a panic.
    if std::thread::panicking() {
        return;
    }
    WRAP.call_once(|| {
        let hook = take_hook();
        set_hook(Box::new(move |info| on_the_threads_stack(&mut || hook(info))));
    });
}

/// Runs `work` on the thread's own stack, also when a fiber calls this. For code that needs more
/// stack than a fiber has. It must not suspend the fiber.
pub fn on_the_threads_stack(work: &mut dyn FnMut()) {
    let here = black_box(0u8);
    let find = |_: &_, state: &State, _| {
        (state.fiber.load(Ordering::Relaxed), state.call.load(Ordering::Relaxed))
    };
    // SAFETY: this thread runs on the stack at this address.
    match unsafe { region::lookup((&raw const here) as usize, find) } {
        Some((fiber, call)) if !fiber.is_null() => {
            // The stack below may be that of another fiber, which has resumed this one.
            let mut below = || on_the_threads_stack(work);
            // SAFETY: `enter` has stored both together, and this fiber's body has not ended.
            unsafe { std::mem::transmute::<usize, Call>(call)(fiber, &mut below) };
        }
        _ => work(),
    }
}

/// Notes which fiber runs on a stack until its body ends.
pub(crate) struct Entered<'a>(&'a State);

pub(crate) fn enter<'a, In, Out>(state: &'a State, yielder: &Yielder<In, Out>) -> Entered<'a> {
    let call: Call = call::<In, Out>;
    state.call.store(call as usize, Ordering::Relaxed);
    state.fiber.store(std::ptr::from_ref(yielder).cast_mut().cast(), Ordering::Relaxed);
    Entered(state)
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.fiber.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
}

/// # Safety
/// `yielder` is the one of the fiber that calls this, of these types.
unsafe fn call<In, Out>(yielder: *const (), work: &mut dyn FnMut()) {
    /// Work that may run on the other stack, because both belong to the same thread.
    struct Here<'a>(&'a mut dyn FnMut());
    // SAFETY: nothing leaves the thread.
    unsafe impl Send for Here<'_> {}
    impl Here<'_> {
        fn run(self) {
            (self.0)();
        }
    }
    // SAFETY: as the caller promises.
    let yielder = unsafe { &*yielder.cast::<Yielder<In, Out>>() };
    let here = Here(work);
    yielder.on_parent_stack(move || here.run());
}
