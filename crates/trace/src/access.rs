//! [`Access`]: one access to memory, or a hint of one.

use ebbtide_core::{Addr, PageId, Time};

/// What an entry of a trace does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// Nothing is accessed: the host says that the page will be needed (SPEC A4, hints).
    Hint,
}

/// One access to memory, or a hint of one, as a trace records it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// When it was made; a trace is in the order of time.
    pub at: Time,
    /// Its first byte. A virtual address where `frame` is known; otherwise the trace does not say.
    pub address: Addr,
    /// The physical page that its first byte lies in, where the trace knows it.
    pub frame: Option<PageId>,
    /// The device it went to; 0 where there is one.
    pub device: u32,
    /// Bytes accessed, at least one.
    pub bytes: u32,
    /// Read, write or hint.
    pub op: Op,
}

impl Access {
    /// Whether it writes.
    pub fn is_write(&self) -> bool {
        self.op == Op::Write
    }

    /// The physical address of its first byte, where the trace knows it.
    pub fn physical(&self) -> Option<Addr> {
        self.frame.map(|frame| frame.start() + self.address.page_offset() as u64)
    }
}
