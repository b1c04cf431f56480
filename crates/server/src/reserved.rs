//! [`Reserved`]: stripes whose keys do not change while a long command uses them.
//!
//! A command that reads many keys, or prepares a large value, takes long. It reserves its stripes
//! and holds no latch. Other commands may read their keys; commands that change them wait. A
//! reservation begins and ends under the latches of all its stripes. A change checks for it under
//! the same latches.

use std::sync::atomic::{AtomicBool, Ordering};

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Keyspace, STRIPES};

use crate::patience::limit_patience;

/// A flag for each stripe: true if reserved.
#[derive(Debug)]
pub struct Reserved([AtomicBool; STRIPES as usize]);

impl Default for Reserved {
    fn default() -> Reserved {
        Reserved([const { AtomicBool::new(false) }; STRIPES as usize])
    }
}

impl Reserved {
    /// Returns the stripes of these hashes. An empty list means all stripes.
    pub fn of<'a>(&'a self, keyspace: &'a Keyspace, hashes: &'a [u64]) -> Stripes<'a> {
        Stripes { reserved: self, keyspace, hashes }
    }

    /// True if a stripe is reserved.
    pub(crate) fn has(&self, stripe: u64) -> bool {
        self.0[stripe as usize].load(Ordering::SeqCst)
    }
}

/// Some stripes of a keyspace.
#[derive(Debug, Clone, Copy)]
pub struct Stripes<'a> {
    reserved: &'a Reserved,
    keyspace: &'a Keyspace,
    hashes: &'a [u64],
}

impl Stripes<'_> {
    /// Runs `body` with the latches of the stripes held, once none of them is reserved.
    pub fn alone<M: FullMemory, R>(&self, memory: &mut M, body: impl FnOnce(&mut M) -> R) -> R {
        let Stripes { reserved, keyspace, hashes } = *self;
        let mut body = Some(body);
        loop {
            let ran = keyspace.alone(memory, hashes, |memory| match self.first_reserved() {
                Some(stripe) => Err(stripe),
                None => Ok(body.take().map(|body| body(memory))),
            });
            match ran {
                Ok(result) => return result.expect("it runs once"),
                Err(stripe) => keyspace.wait_for(memory, stripe, || reserved.has(stripe)),
            }
        }
    }

    /// Reserves the stripes while `body` runs.
    pub fn reserved<M: FullMemory, R>(&self, memory: &mut M, body: impl FnOnce(&mut M) -> R) -> R {
        let Stripes { keyspace, hashes, .. } = *self;
        self.alone(memory, |_| self.set(true));
        // Others wait until the stripes are free again, so it does not give up from here on.
        limit_patience(memory, false);
        // A device error ends a job with a panic. Its reservation must end too.
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(memory)));
        keyspace.alone(memory, hashes, |_| self.set(false));
        keyspace.wake(memory, hashes);
        ran.unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    }

    fn set(&self, reserved: bool) {
        self.hashes.iter().for_each(|hash| {
            self.reserved.0[(hash % STRIPES) as usize].store(reserved, Ordering::SeqCst);
        });
    }

    /// Returns the first of these stripes that is reserved.
    fn first_reserved(&self) -> Option<u64> {
        match self.hashes {
            [] => (0..STRIPES).find(|stripe| self.reserved.has(*stripe)),
            hashes => {
                let mut stripes = hashes.iter().map(|hash| hash % STRIPES);
                stripes.find(|stripe| self.reserved.has(*stripe))
            }
        }
    }
}
