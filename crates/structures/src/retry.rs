//! [`retry_faults`]: a release that outlives device errors.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ebbtide_core::MemoryFault;

/// How often a step is tried whose page the device does not return.
const ATTEMPTS_MAX: u32 = 8;

/// Runs `step`, which may be repeated, until it ends without a [`MemoryFault`], at most eight
/// times.
///
/// # Errors
/// The payload of the last fault, or of any other unwinding.
pub(crate) fn retry_faults<R>(mut step: impl FnMut() -> R) -> std::thread::Result<R> {
    let mut attempts = 1;
    loop {
        // Nothing is shared through `step` but memory itself, whose words are valid at any moment.
        match catch_unwind(AssertUnwindSafe(&mut step)) {
            Err(payload) if payload.is::<MemoryFault>() && attempts < ATTEMPTS_MAX => attempts += 1,
            result => return result,
        }
    }
}
