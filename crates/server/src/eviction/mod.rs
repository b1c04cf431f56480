//! The server as a cache: which keys a full store gives up.
//!
//! * [`EvictionPolicy`]: the choice of the user.
//! * [`Uses`]: how recently or how often keys were used, in a table of fixed size in DRAM.
//!
//! `evict.rs` reads the keys of a few leaves, judges them by these, and removes the worst.

mod policy;
mod uses;

use std::sync::atomic::{AtomicUsize, Ordering};

pub use policy::EvictionPolicy;
pub(crate) use policy::Order;
pub use uses::Uses;

/// A cell of [`Uses`] for this many bytes of flash.
const FLASH_BYTES_OF_A_CELL: u64 = 512;

/// The least share of the DRAM budget that [`Uses`] leaves to others.
const DRAM_SHARE: u64 = 32;

/// Returns the DRAM bytes of [`Uses`] for a server that starts with this policy.
pub(crate) fn table_bytes(policy: EvictionPolicy, capacity_bytes: u64, dram_bytes: u64) -> u64 {
    match policy {
        EvictionPolicy::NoEviction => 0,
        _ => (capacity_bytes / FLASH_BYTES_OF_A_CELL).min(dram_bytes / DRAM_SHARE),
    }
}

/// The policy, and the uses of keys.
#[derive(Debug)]
pub struct Eviction {
    /// Index of the policy in [`EvictionPolicy::ALL`].
    policy: AtomicUsize,
    uses: Option<Uses>,
}

impl Eviction {
    /// Returns the state of a server that starts now, with a table of `bytes` bytes.
    pub fn new(policy: EvictionPolicy, bytes: u64, now_ms: u64) -> Eviction {
        let uses = (bytes > 0).then(|| Uses::new(bytes as usize, now_ms));
        Eviction { policy: AtomicUsize::new(policy as usize), uses }
    }

    /// The current policy.
    pub fn policy(&self) -> EvictionPolicy {
        EvictionPolicy::ALL[self.policy.load(Ordering::Relaxed)]
    }

    /// Changes the policy. Returns false if it needs the table and there is none.
    pub fn set_policy(&self, policy: EvictionPolicy) -> bool {
        if policy.order().is_by_use() && self.uses.is_none() {
            return false;
        }
        let before = self.policy();
        self.policy.store(policy as usize, Ordering::Relaxed);
        if let Some(uses) = &self.uses
            && before.order() != policy.order()
        {
            uses.clear();
        }
        true
    }

    /// The uses of keys, with what the policy keeps of them; `None` if it keeps nothing.
    pub(crate) fn uses(&self) -> Option<(&Uses, Order)> {
        let order = self.policy().order();
        self.uses.as_ref().filter(|_| order.is_by_use()).map(|uses| (uses, order))
    }

    /// DRAM bytes of the table.
    pub fn table_bytes(&self) -> usize {
        self.uses.as_ref().map_or(0, Uses::bytes)
    }
}
