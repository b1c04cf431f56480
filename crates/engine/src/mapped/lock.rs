//! [`Lock`]: a mutex that the model checks can replace by their own.

#[cfg(not(all(test, shuttle)))]
use parking_lot::{Mutex, MutexGuard};
#[cfg(all(test, shuttle))]
use shuttle::sync::{Mutex, MutexGuard};

/// A mutex.
#[derive(Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Lock<T> {
        Lock(Mutex::new(value))
    }

    #[cfg(not(all(test, shuttle)))]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }

    #[cfg(all(test, shuttle))]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("no holder has panicked")
    }
}

/// A locked value.
pub(crate) type Guard<'a, T> = MutexGuard<'a, T>;
