//! The durability protocol of `ebbtide-core` with mistakes, and tests that find each of them.
//!
//! The build script copies `core/src/durability` and applies every patch of `mistakes` to the copy.
//! A patch makes its mistake only where [`plant`] asks for it, so that one build has them all.

#![forbid(unsafe_code)]

use std::cell::Cell;

pub use ebbtide_core::{Addr, PageId, Watch};

// The modules that the copy imports.
mod addr {
    pub(crate) use ebbtide_core::{Addr, LINE_BYTES, PAGE_BYTES, PageId};
}
mod checksum {
    pub(crate) use ebbtide_core::{crc32c, crc32c_append};
}
mod placement {
    pub(crate) use ebbtide_core::{Placement, Run};
}
mod time {
    pub(crate) use ebbtide_core::{NotSpan, Span};
}
mod watch {
    pub(crate) use ebbtide_core::{Stopped, Watch};
}

/// The copy of `ebbtide_core::durability`, with the mistakes.
#[allow(clippy::all, reason = "the lints of `ebbtide-core` check the source")]
#[allow(rustdoc::broken_intra_doc_links, reason = "the links are to items of `ebbtide-core`")]
pub mod durability {
    include!(concat!(env!("OUT_DIR"), "/durability/mod.rs"));
}

/// The names of the mistakes whose patches apply to the source as it is now.
pub const MISTAKES: &[&str] = include!(concat!(env!("OUT_DIR"), "/planted.in"));

thread_local! {
    static PLANTED: Cell<&'static str> = const { Cell::new("") };
}

/// Makes the protocol make the mistake `name` from now on, on this thread.
///
/// # Panics
/// If no patch of that name applies: the code around the mistake has changed, and the patch must
/// follow.
pub fn plant(name: &'static str) {
    assert!(MISTAKES.contains(&name), "mistakes/{name}.patch does not apply; renew it");
    PLANTED.set(name);
}

/// Returns true if this thread makes the mistake `name`.
fn planted(name: &str) -> bool {
    PLANTED.get() == name
}
