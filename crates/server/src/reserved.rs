//! [`Reserved`]: stripes whose keys stay as they are for others to read.
//!
//! A command that reads many keys, or prepares a large value, takes long. It reserves its stripes and holds no latch:
//! others read their keys, and those that change them wait. A reservation is made and ended while the latches of all its
//! stripes are held, and a change looks for it under the same latches.

use std::sync::atomic::{AtomicBool, Ordering};

use ebbtide_core::Memory;
use ebbtide_structures::keyspace::{Keyspace, STRIPES};

/// The stripes that are reserved.
#[derive(Debug)]
pub struct Reserved([AtomicBool; STRIPES as usize]);

impl Default for Reserved {
    fn default() -> Reserved {
        Reserved([const { AtomicBool::new(false) }; STRIPES as usize])
    }
}

impl Reserved {
    /// Runs `body` with the latches of the stripes of these hashes held, once none of them is reserved. No hash
    /// stands for all stripes.
    pub fn alone<M: Memory, R>(
        &self,
        memory: &mut M,
        keyspace: &Keyspace,
        hashes: &[u64],
        body: impl FnOnce(&mut M) -> R,
    ) -> R {
        let mut body = Some(body);
        loop {
            let ran = keyspace.alone(memory, hashes, |memory| match self.first(hashes) {
                Some(stripe) => Err(stripe),
                None => Ok(body.take().map(|body| body(memory))),
            });
            match ran {
                Ok(result) => return result.expect("it runs once"),
                Err(stripe) => keyspace.wait_for(memory, stripe, || self.has(stripe)),
            }
        }
    }

    /// Runs `body` with the stripes of these hashes reserved.
    pub fn reserved<M: Memory, R>(
        &self,
        memory: &mut M,
        keyspace: &Keyspace,
        hashes: &[u64],
        body: impl FnOnce(&mut M) -> R,
    ) -> R {
        self.alone(memory, keyspace, hashes, |_| self.set(hashes, true));
        // A job that ends by a device's error ends its reservation as well.
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(memory)));
        keyspace.alone(memory, hashes, |_| self.set(hashes, false));
        keyspace.wake(memory, hashes);
        ran.unwrap_or_else(|payload| std::panic::resume_unwind(payload))
    }

    fn set(&self, hashes: &[u64], reserved: bool) {
        hashes.iter().for_each(|hash| {
            self.0[(hash % STRIPES) as usize].store(reserved, Ordering::SeqCst);
        });
    }

    fn has(&self, stripe: u64) -> bool {
        self.0[stripe as usize].load(Ordering::SeqCst)
    }

    /// A stripe of these hashes that is reserved, if there is one.
    fn first(&self, hashes: &[u64]) -> Option<u64> {
        match hashes {
            [] => (0..STRIPES).find(|stripe| self.has(*stripe)),
            hashes => hashes.iter().map(|hash| hash % STRIPES).find(|stripe| self.has(*stripe)),
        }
    }
}
