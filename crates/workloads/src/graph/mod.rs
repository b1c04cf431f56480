//! Programs over graphs that lie in memory whole: [`PageRank`] and [`ConnectedComponents`]
//! (FlatFlash, ASPLOS'19 Fig. 10; SPEC claims FL19 to FL21).
//!
//! A graph is generated, by arithmetic and at any size, or read from a file with [`read`]. In
//! memory it is three arrays: *rows* (where the list of a vertex begins, and how many edges leave
//! it), *entries* (the lists of neighbours, one behind the other: compressed sparse rows), and one
//! *value* a vertex, which is all that jobs change. An entry names its neighbour by the *place* of
//! its value, so that values can lie in another order than lists.
//!
//! As in GraphChi (Kyrola, Blelloch and Guestrin, OSDI'12) updates are asynchronous: a job reads
//! whatever values its vertices' neighbours have at the moment. Job `n` updates block `n mod b` in
//! pass `n / b`, with `b` blocks in a pass, taken in a shuffled order that is the same in every
//! pass; jobs of neighbouring passes may interleave. A block is 16 vertices, in a generated graph
//! on average: fewer hubs, more of the others, so that jobs are about equally long. (A hub of a
//! loaded graph makes its job as long as its list.) The stream is endless: passes after the last
//! that changes anything only confirm what is there.

mod components;
mod csr;
mod degrees;
mod float;
mod generator;
mod loader;
mod matrix_market;
mod numbering;
mod pagerank;
mod stored_graph;
mod text_lines;

pub use components::ConnectedComponents;
pub use csr::{EdgeList, Summary};
pub use loader::read;
pub use pagerank::PageRank;
pub use text_lines::GraphError;

/// Words on a page.
const WORDS_PER_PAGE: u64 = ebbtide_core::PAGE_BYTES as u64 / 8;
