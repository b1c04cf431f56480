//! [`EvictionPolicy`]: the keys that a full store gives up, and their order.

ebbtide_core::choice! {
    /// The keys that a full store gives up, and their order. The names are those of Redis.
    #[derive(Default)]
    pub enum EvictionPolicy as "policy" {
        /// None: writes that need a page fail.
        #[default]
        NoEviction = "noeviction",
        /// The least recently used.
        AllKeysLru = "allkeys-lru",
        /// The least often used.
        AllKeysLfu = "allkeys-lfu",
        /// Random ones.
        AllKeysRandom = "allkeys-random",
        /// The least recently used of those that expire.
        VolatileLru = "volatile-lru",
        /// The least often used of those that expire.
        VolatileLfu = "volatile-lfu",
        /// Random ones of those that expire.
        VolatileRandom = "volatile-random",
        /// Those that expire next.
        VolatileTtl = "volatile-ttl",
    }
}

/// The order in which keys are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// By the time since the last use.
    Recency,
    /// By the number of uses.
    Frequency,
    /// By chance.
    Random,
    /// By the time of expiry.
    Expiry,
}

impl Order {
    /// True if it needs to know when or how often a key was used.
    pub(crate) fn is_by_use(self) -> bool {
        matches!(self, Order::Recency | Order::Frequency)
    }
}

impl EvictionPolicy {
    /// True if keys are given up at all.
    pub fn evicts(self) -> bool {
        self != EvictionPolicy::NoEviction
    }

    /// True if only keys that expire are given up.
    pub fn is_volatile(self) -> bool {
        use EvictionPolicy::{VolatileLfu, VolatileLru, VolatileRandom, VolatileTtl};
        matches!(self, VolatileLru | VolatileLfu | VolatileRandom | VolatileTtl)
    }

    pub(crate) fn order(self) -> Order {
        use EvictionPolicy::{AllKeysLfu, AllKeysLru, VolatileLfu, VolatileLru, VolatileTtl};
        match self {
            AllKeysLru | VolatileLru => Order::Recency,
            AllKeysLfu | VolatileLfu => Order::Frequency,
            VolatileTtl => Order::Expiry,
            _ => Order::Random,
        }
    }
}
