//! [`Access`]: one access to memory, or a hint of one.

use ebbtide_core::{Addr, PageId, Time};

/// The kind of an entry of a trace.
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
    /// The address of the first byte. It is virtual if `frame` is known. Otherwise the trace
    /// decides whether it is virtual or physical.
    pub address: Addr,
    /// The physical page of the first byte, if the trace has it.
    pub frame: Option<PageId>,
    /// The number of the device; 0 if there is only one.
    pub device: u32,
    /// The number of the thread, from 0 in the order of the threads' first entries; 0 if the trace
    /// does not tell threads apart.
    pub thread: u32,
    /// Number of bytes, at least one.
    pub bytes: u32,
    /// Read, write or hint.
    pub op: Op,
}

impl Access {
    /// An access by the only thread to the only device, without a physical page.
    pub const fn new(at: Time, address: Addr, bytes: u32, op: Op) -> Access {
        Access { at, address, frame: None, device: 0, thread: 0, bytes, op }
    }

    /// Returns true for a write.
    pub fn is_write(&self) -> bool {
        self.op == Op::Write
    }

    /// Returns the physical address of the first byte, if the trace has it.
    pub fn physical(&self) -> Option<Addr> {
        self.frame.map(|frame| frame.start() + self.address.page_offset() as u64)
    }
}
