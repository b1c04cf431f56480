//! Programs over [`Memory`]: what they do, what their data looks like, and how jobs arrive.
//!
//! A program is written once, in plain direct style, and does not know which memory it runs on.
//! AstriFlash's seven (HPCA'23 §V-A) are [`ArraySwap`], [`HashTable`], [`RedBlackTree`], [`Tatp`],
//! [`Tpcc`], [`Masstree`] and [`SiloTpcc`](silo_tpcc::SiloTpcc); FlatFlash's (ASPLOS'19) are
//! [`Gups`], [`PageRank`], [`ConnectedComponents`], [`ycsb`] and the whole mixes of [`tpcc`],
//! [`tpcb`] and [`tatp`]; HAMS's (ISCA'21) are the four that only [`LineAccess`] and [`sql`].
//! [`Program`] is any of them, chosen by name, or the [`Replay`] of a trace.
//!
//! Two promises let one program run on many memories and on datasets of any size:
//!
//! * The initial image is a **pure function of the page**. Nothing is tabulated: where a key lies,
//!   and which key lies there, follow from arithmetic and from a [`Permutation`] that can be run
//!   backwards.
//! * Job `n` is a **pure function of the seed and `n`**. Every memory runs the same jobs, and any
//!   thread may run any of them.
//!
//! Jobs interleave at every access and across cores. Every line they touch carries enough to tell
//! a wrong, torn or rotten one from a right one, and is checked in every run ([`Wrong`]).

#![forbid(unsafe_code)]

mod array_swap;
pub mod graph;
mod gups;
mod hash_table;
mod keys;
mod kind;
mod line_access;
pub mod load;
mod masstree;
mod observed;
mod permutation;
mod program;
mod red_black_tree;
mod replay;
mod search;
mod shape;
pub mod silo_tpcc;
pub mod sql;
pub mod tatp;
pub mod tpcb;
pub mod tpcc;
pub mod ycsb;

pub use array_swap::{ArraySwap, Element, Swap};
pub use graph::{ConnectedComponents, PageRank};
pub use gups::Gups;
pub use hash_table::{Entry, HashTable};
pub use keys::Scatter;
pub use kind::Kind;
pub use line_access::{AccessedLine, LineAccess, RandomRead, RandomWrite, SeqRead, SeqWrite};
pub use masstree::{Masstree, Operation, Record};
pub use observed::{Observed, Work};
pub use program::{Program, ShapeError};
pub use red_black_tree::{RedBlackTree, TreeNode};
pub use replay::{Replay, Step};
pub use shape::{Named, Shape};
pub use tatp::{SubscriberData, Tatp, TatpMix, UpdateSubscriberData, Updated};
pub use tpcb::Tpcb;
pub use tpcc::{Tpcc, TpccMix};

use std::ops::Range;

use ebbtide_core::{Memory, PageId};
pub use ebbtide_structures::{ALL_LINES, PageBytes, Wrong};

/// A program: an initial image and an endless, numbered stream of jobs over it.
pub trait Workload: Send + Sync {
    /// Size of the image in bytes: a whole number of pages.
    fn size_bytes(&self) -> u64;

    /// Writes the initial contents of `page`, a pure function of the page, into `out` (which may
    /// hold anything).
    ///
    /// # Panics
    /// When `page` lies beyond the image.
    fn image(&self, page: PageId, out: &mut PageBytes);

    /// Writes at least the lines `lines` of what [`image`](Workload::image) writes, in their places
    /// in `out`, and tells which it wrote. Whoever needs a line here and there is spared the rest
    /// of the page by programs that can make a line by itself.
    ///
    /// # Panics
    /// As [`image`](Workload::image).
    fn image_lines(&self, page: PageId, _lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        self.image(page, out);
        ALL_LINES
    }

    /// Runs job `job` to its end.
    ///
    /// # Errors
    /// [`Wrong`] when memory holds what the program cannot have stored there.
    fn run<M: Memory>(&self, job: u64, memory: &mut M) -> Result<(), Wrong>;

    /// Whether jobs change the data (latches aside).
    fn writes(&self) -> bool;
}
