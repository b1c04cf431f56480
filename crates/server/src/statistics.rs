//! [`Statistics`]: what a core of the server counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count that its core changes and all may read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Takes from it.
    pub fn subtract(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }

    /// What it is.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Makes it something else.
    pub fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }
}

/// What a core of the server counts.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Commands run.
    pub commands: Counter,
    /// Connections accepted.
    pub connections: Counter,
    /// Connections refused because there were too many.
    pub rejected: Counter,
    /// Look-ups of keys that were there.
    pub hits: Counter,
    /// Look-ups of keys that were not.
    pub misses: Counter,
    /// Keys removed because they had expired.
    pub expired: Counter,
    /// Changes of keys, those of transactions that ran again counted again.
    pub changes: Counter,
    /// Error replies.
    pub errors: Counter,
    /// Bytes received.
    pub input_bytes: Counter,
    /// Bytes sent.
    pub output_bytes: Counter,
    /// Connections open now, or on their way to this core.
    pub clients: Counter,
    /// Bytes of the buffers of its connections.
    pub buffers: Counter,
}

impl Statistics {
    /// Sets to zero what `CONFIG RESETSTAT` does.
    pub fn reset(&self) {
        let Statistics {
            commands,
            connections,
            rejected,
            hits,
            misses,
            expired,
            changes: _,
            errors,
            input_bytes: _,
            output_bytes: _,
            clients: _,
            buffers: _,
        } = self;
        for counter in [commands, connections, rejected, hits, misses, expired, errors] {
            counter.set(0);
        }
    }
}
