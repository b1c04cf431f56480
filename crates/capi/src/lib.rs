//! The C interface of the engine. `include/ebbtide.h` is made from this crate by cbindgen, and
//! `include/ebbtide.hpp` wraps it for C++. `docs/C.md` is the guide.
//!
//! Nothing here computes a result. Every function returns an [`EbbtideCode`], and a failure has a
//! text ([`ebbtide_error`]). Nothing unwinds into C. If a memory call unwinds, its payload becomes
//! the code of that call, and the callback returns as usual.
//!
//! * `code`: codes, the text of the last failure, and the guard around every function.
//! * `handles`: checked handles. Closed ones and handles from before a fork are refused.
//! * `options`: structures of options, which carry their size.
//! * `engine`: engines, jobs and tickets.
//! * `memory`: the address space as a job sees it.
//! * `store`: stores of maps by name.
//! * `map`, `update`, `iterator`, `bytes`: maps from bytes to bytes.
//! * `transaction`: transactions and durable waits.
//! * `region`, `system_calls`: mapped regions, which programs use by plain pointers.
//! * `typed_map`: structures that are found by name, and maps of values of one size.

mod bytes;
mod code;
mod engine;
mod handles;
mod iterator;
mod map;
mod memory;
mod options;
mod region;
mod store;
mod system_calls;
mod transaction;
mod typed_map;
mod update;

pub use bytes::*;
pub use code::*;
pub use engine::*;
pub use iterator::*;
pub use map::*;
pub use memory::*;
pub use options::*;
pub use region::*;
pub use store::*;
pub use system_calls::*;
pub use transaction::*;
pub use typed_map::*;
pub use update::*;
