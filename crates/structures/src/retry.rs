//! [`retry_faults`]: repeats a step, such as a release, despite device errors.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ebbtide_core::MemoryFault;

/// How many times a step is tried while the device does not return its page.
const ATTEMPTS_MAX: u32 = 8;

/// Runs `step`, which may be repeated, until it ends without a [`MemoryFault`], at most eight
/// times.
///
/// # Errors
/// The payload of the last fault, or of any other unwinding.
pub fn retry_faults<R>(mut step: impl FnMut() -> R) -> std::thread::Result<R> {
    let mut attempts = 1;
    loop {
        // `step` shares nothing but memory itself, whose words are valid at any moment.
        match catch_unwind(AssertUnwindSafe(&mut step)) {
            Err(payload) if payload.is::<MemoryFault>() && attempts < ATTEMPTS_MAX => attempts += 1,
            result => return result,
        }
    }
}
