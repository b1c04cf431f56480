//! [`Access`]: one access to memory.

use ebbtide_core::{Addr, Time};

/// One access to memory, as a trace records it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// When it was made; a trace is in the order of time.
    pub at: Time,
    /// Its first byte, virtual or physical: the trace does not say.
    pub address: Addr,
    /// The device it went to; 0 where there is one.
    pub device: u32,
    /// Bytes accessed, at least one.
    pub bytes: u32,
    /// A write; otherwise a read.
    pub write: bool,
}
