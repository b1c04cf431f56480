//! The papers' programs over [`FullMemory`]: their jobs, their data, and the arrival of jobs.
//!
//! A program is written once, in plain direct style, and does not know on which memory it runs. It
//! implements [`Workload`]: an initial image, and an endless, numbered stream of jobs over it.
//! Users choose a program by name: [`Kind`] lists them, [`Shape`] has their parameters, and
//! [`Program`] is any of them, or the [`Replay`] of a trace.
//!
//! | paper | programs |
//! |---|---|
//! | AstriFlash (HPCA'23) | [`ArraySwap`], [`HashTable`], [`RedBlackTree`], [`Tatp`], [`Tpcc`], [`Masstree`], [`SiloTpcc`](silo_tpcc::SiloTpcc) |
//! | FlatFlash (ASPLOS'19) | [`Gups`], [`PageRank`] and [`ConnectedComponents`], also in shards, [`ycsb`], and the full mixes of [`tpcc`], [`tpcb`] and [`tatp`] |
//! | HAMS (ISCA'21) | [`LineAccess`] in four variants, and [`sql`] |
//!
//! The crate also has streams of accesses and commits: FlatFlash's [`Lines`], [`logging`] and
//! [`file_metadata`], and the CXL-flash study's (ATC'23) [`Synthetic`] programs and [`StandIn`]s.
//!
//! Two properties let one program run on many memories and on datasets of any size:
//!
//! * The initial image is a **pure function of the page**. There are no tables of keys: where a key
//!   lies, and which key lies at a place, are computed with an invertible permutation.
//! * Job `n` is a **pure function of the seed and `n`**. Every memory runs the same jobs, and any
//!   thread may run any of them.
//!
//! Jobs interleave at every access and across cores. Every line they read has enough redundancy to
//! recognise a wrong, torn or damaged one. It is checked in every run ([`Corrupt`]).
//!
//! ```
//! use ebbtide_testbed::{Plain, words_of_pages};
//! use ebbtide_workloads::{Program, Shape, Workload};
//!
//! let shape = Shape { dataset_bytes: 1 << 20, ..Shape::default() };
//! let program = Program::new("array-swap", &shape)?;
//! let pages = program.size_bytes() / 4096;
//! let mut memory = Plain::new(words_of_pages(pages, |page, out| program.image(page, out)));
//! for job in 0..100 {
//!     program.run(job, &mut memory)?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`load`] has the arrivals of jobs, in a closed or an open loop. Some programs
//! are made of the index [`masstree`] and the transactions of [`silo`].

#![forbid(unsafe_code)]

mod accesses;
mod array_swap;
mod commit;
pub mod file_metadata;
pub mod graph;
mod gups;
mod hash_table;
mod keys;
mod kind;
mod line_access;
mod line_benchmark;
pub mod load;
pub mod logging;
pub mod masstree;
mod observed;
mod permutation;
mod program;
mod red_black_tree;
mod replay;
mod search;
mod shape;
pub mod silo;
pub mod silo_tpcc;
pub mod sql;
mod stand_in;
mod synthetic;
pub mod tatp;
pub mod tpcb;
pub mod tpcc;
pub mod ycsb;

pub use accesses::{Accesses, Touched};
pub use array_swap::{ArraySwap, Element, Swap};
pub use graph::{ConnectedComponents, ConnectedComponentsShards, PageRank, PageRankShards};
pub use gups::{Gups, GupsFromOne};
pub use hash_table::{Entry, HashTable};
pub use keys::{SKEWS, Scatter};
pub use kind::Kind;
pub use line_access::{AccessedLine, LineAccess, RandomRead, RandomWrite, SeqRead, SeqWrite};
pub use line_benchmark::Lines;
pub use masstree::{Masstree, Operation, Record};
pub use observed::{Observed, Work};
pub use program::{Program, ShapeError};
pub use red_black_tree::{RedBlackTree, TreeNode};
pub use replay::{Replay, Step};
pub use shape::{Named, Shape};
pub use stand_in::{MadeUp, Open, REUSED, StandIn};
pub use synthetic::Synthetic;
pub use tatp::{SubscriberData, Tatp, TatpMix, UpdateSubscriberData, Updated};
pub use tpcb::Tpcb;
pub use tpcc::{Tpcc, TpccMix};

use std::ops::Range;

use ebbtide_core::{FullMemory, PageId};
pub use ebbtide_structures::{ALL_LINES, Corrupt, PageBytes};

/// A program: an initial image and an endless, numbered stream of jobs over it.
pub trait Workload: Send + Sync {
    /// Returns the size of the image in bytes: a whole number of pages.
    fn size_bytes(&self) -> u64;

    /// Writes the initial contents of `page` into `out`. They depend only on the program and the
    /// page. The old contents of `out` do not matter.
    ///
    /// # Panics
    /// If `page` lies beyond the image.
    fn image(&self, page: PageId, out: &mut PageBytes);

    /// Writes at least the lines `lines` of the [`image`](Workload::image) of `page`, at their
    /// places in `out`. Returns the lines that it wrote. By default, this is the whole page.
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
    /// [`Corrupt`] when memory holds values that the program cannot have stored there.
    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt>;

    /// Adds the accesses that [`run`](Workload::run) of job `job` makes when the job runs alone.
    /// Returns false and adds nothing if stored values decide them. This is the default.
    ///
    /// A program that returns true must also run if the stores of earlier jobs are left out. Its
    /// jobs then read the values of the image.
    fn accesses(&self, _job: u64, _accesses: &mut Accesses) -> bool {
        false
    }

    /// Returns true if jobs change the data, apart from latches.
    fn writes(&self) -> bool;

    /// Returns true if jobs change the data within
    /// [transactions](ebbtide_core::Memory::transaction). Such a job ends when its transactions are
    /// durable. False by default.
    fn commits(&self) -> bool {
        false
    }
}
