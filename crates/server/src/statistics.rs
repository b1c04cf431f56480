//! [`Statistics`]: counters of a core.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that one core changes and all cores may read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Subtracts `count`.
    pub fn subtract(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }

    /// Returns the count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the count.
    pub fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }
}

/// Counters of a core.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Commands run.
    pub commands: Counter,
    /// Connections accepted.
    pub connections: Counter,
    /// Connections refused because there were too many.
    pub rejected: Counter,
    /// Lookups that found the key.
    pub hits: Counter,
    /// Lookups that did not find the key.
    pub misses: Counter,
    /// Keys removed after their expiry.
    pub expired: Counter,
    /// Fields of hashes that upkeep removed after their expiry.
    pub expired_fields: Counter,
    /// Keys removed because the store was full.
    pub evicted: Counter,
    /// Changes of keys. A transaction that runs again counts again.
    pub changes: Counter,
    /// Error replies.
    pub errors: Counter,
    /// Bytes received.
    pub input_bytes: Counter,
    /// Bytes sent.
    pub output_bytes: Counter,
    /// Open connections, and connections on their way to this core.
    pub clients: Counter,
    /// Bytes of the buffers of its connections.
    pub buffers: Counter,
}

impl Statistics {
    /// Resets the counters that `CONFIG RESETSTAT` resets.
    pub fn reset(&self) {
        let Statistics {
            commands,
            connections,
            rejected,
            hits,
            misses,
            expired,
            expired_fields,
            evicted,
            changes: _,
            errors,
            input_bytes: _,
            output_bytes: _,
            clients: _,
            buffers: _,
        } = self;
        let looked_up = [hits, misses, expired, expired_fields, evicted];
        for counter in [commands, connections, rejected, errors].into_iter().chain(looked_up) {
            counter.set(0);
        }
    }
}
