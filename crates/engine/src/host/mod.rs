//! The machine below the engine: memory maps, CPUs, file extents, wake-ups, words in raw memory.

pub(crate) mod adaptive_spin;
pub mod affinity;
pub(crate) mod atomic_words;
pub(crate) mod clock;
pub(crate) mod extent;
pub(crate) mod mapping;
pub(crate) mod of_process;
pub(crate) mod panics;
pub(crate) mod prefetched;
pub(crate) mod wake_event;
