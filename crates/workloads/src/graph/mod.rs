//! Programs over graphs that are stored in memory: [`PageRank`] and [`ConnectedComponents`]
//! (FlatFlash, ASPLOS'19, Fig. 10).
//!
//! A graph is generated, at any size and without a table, or read from a file with [`read`]. In
//! memory it is three arrays. *Rows* has the start of the list of each vertex, and its out-degree.
//! *Entries* has the lists of neighbours one after the other (compressed sparse rows). The third
//! array has one *value* for each vertex, the only data that jobs change. An entry is the *place*
//! of the neighbour's value, so values can lie in another order than lists.
//!
//! As in GraphChi (Kyrola, Blelloch and Guestrin, OSDI'12), updates are asynchronous: a job reads
//! the current values of its vertices' neighbours. A pass has `b` blocks in a shuffled order that
//! is the same in every pass. Job `n` updates block `n mod b` in pass `n / b`. Jobs of neighbouring
//! passes may interleave. A block has 16 vertices in a loaded graph, and 16 on average in a
//! generated one. There, blocks of hubs have fewer vertices, so that jobs are about equally long.
//! The stream is endless: passes after convergence change nothing.
//!
//! [`PageRankShards`] and [`ConnectedComponentsShards`] are the same programs in GraphChi's layout:
//! edges have values and lie in shards, and a pass slides windows over them.

mod components;
mod csr;
mod degrees;
mod float;
mod generator;
mod loader;
mod matrix_market;
mod numbering;
mod pagerank;
mod shards;
mod sliding_windows;
mod stored_graph;
mod text_lines;
mod vertex_program;

pub use components::ConnectedComponents;
pub use csr::{EdgeList, Summary};
pub use loader::read;
pub use pagerank::PageRank;
pub use sliding_windows::{ConnectedComponentsShards, PageRankShards};
pub use text_lines::GraphError;

/// Words on a page.
const WORDS_PER_PAGE: u64 = ebbtide_core::PAGE_BYTES as u64 / 8;
