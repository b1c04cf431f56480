//! [`OfProcess`]: a value that only the process that has made it may end.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::process;

/// A value with threads or requests to the kernel. A forked child has none of them, so its copy of
/// the value is not dropped.
pub(crate) struct OfProcess<T> {
    value: ManuallyDrop<T>,
    process: u32,
}

impl<T> OfProcess<T> {
    /// `value`, made by this process.
    pub(crate) fn new(value: T) -> OfProcess<T> {
        OfProcess { value: ManuallyDrop::new(value), process: process::id() }
    }

    /// Whether this process has made it.
    ///
    /// # Errors
    /// The process that has, if it is another.
    pub(crate) fn check(&self) -> Result<(), u32> {
        if process::id() == self.process { Ok(()) } else { Err(self.process) }
    }

    /// The value itself.
    ///
    /// # Errors
    /// The process that has made it, if it is another.
    pub(crate) fn into_inner(mut self) -> Result<T, u32> {
        self.check()?;
        // SAFETY: `self` is forgotten, so nothing uses the value after this.
        let value = unsafe { ManuallyDrop::take(&mut self.value) };
        std::mem::forget(self);
        Ok(value)
    }
}

impl<T> Deref for OfProcess<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for OfProcess<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.check().is_ok() {
            // SAFETY: nothing uses the value after this.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}
