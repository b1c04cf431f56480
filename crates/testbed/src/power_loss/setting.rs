//! [`Setting`]: the parameters of the simulated store.

use ebbtide_core::durability::{Geometry, Limits, RecoveryOptions};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The most bytes that a transaction may store.
pub(super) const TRANSACTION_BYTES_MAX: usize = 4096;

/// The sizes of the simulated store, and its faults.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The store.
    pub geometry: Geometry,
    /// Frames of the cache.
    pub frames: usize,
    /// Jobs at once.
    pub jobs: usize,
    /// The share of device writes and flushes that fail for good.
    pub errors: f64,
    /// The mistake that the simulated engine makes on purpose.
    pub engine_mistake: Option<EngineMistake>,
}

/// A mistake of the engine, which drives the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineMistake {
    /// A transaction's stores reach memory some time after its record reaches the log.
    AppliesLater,
    /// Stores of two transactions reach memory in another order than their records reach the log.
    AppliesOutOfOrder,
    /// Latches are released before the stores under them are committed.
    ReleasesLatchesEarly,
    /// Words that were read without a latch are not checked again at the end.
    SkipsSecondLook,
    /// Stores go on while a page is written, and its dirty mark is cleared after that.
    WritesLivePages,
}

impl Setting {
    /// A small store, so that every event is frequent.
    pub const SMALL: Setting = Setting {
        geometry: Geometry { id: 0x0e_bb, pages: 6, slots: 11, log_blocks: 16 },
        frames: 5,
        jobs: 3,
        errors: 0.0,
        engine_mistake: None,
    };

    /// The same with enough spare slots that a copy may take long.
    pub const ROOMY: Setting =
        Setting { geometry: Geometry { slots: 40, ..Setting::SMALL.geometry }, ..Setting::SMALL };

    /// A small store whose sizes are drawn from `seed`. If `seed` is a multiple of 4, the device
    /// has errors.
    pub fn drawn(seed: u64) -> Setting {
        let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x517e);
        let pages = random.random_range(2..9);
        let geometry = Geometry {
            id: random.random(),
            pages,
            slots: pages + random.random_range(pages..pages + 6),
            log_blocks: random.random_range(16..28),
        };
        let frames = random.random_range(4..8).max(pages as usize / 2);
        let errors = if seed.is_multiple_of(4) { 0.003 } else { 0.0 };
        Setting { geometry, frames, jobs: random.random_range(1..6), errors, engine_mistake: None }
    }

    /// Returns the options of recovery.
    pub fn recovery(&self) -> RecoveryOptions {
        let limits = Limits {
            transaction_bytes_max: TRANSACTION_BYTES_MAX,
            transaction_bound: "the bound of the test",
            buffer_blocks_max: 12,
            unmapped_pages_max: self.geometry.pages as usize,
            dirty_pages_max: self.geometry.pages as usize / 2,
        };
        RecoveryOptions { pages_at_once: 2, limits }
    }
}
