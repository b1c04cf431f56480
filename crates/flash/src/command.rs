//! Commands to a device and their completions.

use ebbtide_core::{PageId, Span, Time};

/// The operation of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Reads a page.
    Read,
    /// Writes a page.
    Write,
}

/// A command to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// Value that the caller chooses. The completion returns it.
    pub tag: u64,
    /// The operation.
    pub kind: Kind,
    /// The logical page of 4 KiB. Below [`Flash::logical_pages`](crate::Flash::logical_pages).
    pub page: PageId,
}

/// The completion of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// The tag of the command.
    pub tag: u64,
    /// The operation of the command.
    pub kind: Kind,
    /// When the command completed.
    pub at: Time,
    /// True if the command waited for garbage collection. A buffered write counts only if it waited
    /// for room in the buffer, and a write blocked by garbage collection made that room.
    pub blocked_by_gc: bool,
    /// How much longer the command took than on an idle device. Includes the wait of a write for
    /// others that fill its physical page.
    pub queued: Span,
}
