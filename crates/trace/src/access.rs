//! [`Access`]: one access to memory, or a hint of one.

use ebbtide_core::{Addr, PageId, Time};

/// The kinds of entries of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// Bytes are read.
    Read,
    /// Bytes are written.
    Write,
    /// No access: the host hints that the page will be needed (CXL-flash, ATC'23, observation 7).
    Hint,
}

/// One access to memory, or a hint of one, as a trace records it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// The time of the access. A trace is in the order of time.
    pub at: Time,
    /// The address of its first byte: virtual if `frame` is known, otherwise virtual or physical,
    /// as the trace has it.
    pub address: Addr,
    /// The physical page of its first byte, if the trace has it.
    pub frame: Option<PageId>,
    /// The number of the device; 0 if there is only one.
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

    /// The physical address of its first byte, if the trace has it.
    pub fn physical(&self) -> Option<Addr> {
        self.frame.map(|frame| frame.start() + self.address.page_offset() as u64)
    }
}
