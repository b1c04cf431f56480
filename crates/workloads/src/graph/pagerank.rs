//! [`PageRank`]: the ranks of the vertices of a graph (FlatFlash, ASPLOS'19, Fig. 10).

use ebbtide_core::FullMemory;

use super::float::{from_f64, to_f64};
use super::stored_graph::StoredGraph;
use super::vertex_program::{Rule, VertexProgram};
use crate::Corrupt;
use crate::kind::Kind;

/// The rank of a vertex without incoming edges.
pub(super) const BASE: f64 = 0.15;

/// The damping factor: the share of its rank that a vertex passes on.
pub(super) const DAMPING: f64 = 0.85;

/// PageRank by pulling: `rank ← 0.15 + 0.85 · Σ rank / degree` over the sources of incoming edges,
/// with their out-degrees (Brin and Page, 1998, without dividing by the number of vertices).
///
/// A vertex's value is its rank divided by its out-degree, or by 1 if the out-degree is 0. So a
/// neighbour reads one word. Updates are asynchronous. A slow job may overwrite a newer rank with
/// an older one. The next pass corrects this. In any order of updates, the error of every rank
/// shrinks to 0.85 of the greatest error it was computed from (chaotic relaxation: Chazan and
/// Miranker, 1969). So an outdated page is not detected, and costs a pass.
///
/// Ranks are kept to 28 binary digits, which at the fixpoint leaves them within 3 parts in 10⁸.
pub type PageRank = VertexProgram<Rank>;

/// Computes the rank of a vertex from those of its neighbours.
#[derive(Debug, Clone)]
pub struct Rank;

impl Rule for Rank {
    const KIND: Kind = Kind::PageRank;
    const NAME: &'static str = "pagerank";
    const DESCRIPTION: &'static str = "ranks the vertices of a power-law graph, pass after pass";
    const MIX: &'static str =
        "about 16 vertices: lists of 400 edges together, as many ranks read, 16 ranks written";
    const UNDIRECTED: bool = false;

    fn first(_place: u64, out_degree: u64) -> u64 {
        from_f64(1.0 / divisor(out_degree))
    }

    #[inline]
    fn update<M: FullMemory>(
        graph: &StoredGraph,
        memory: &mut M,
        vertex: u64,
    ) -> Result<(), Corrupt> {
        let row = graph.row(memory, vertex)?;
        let mut sum = 0.0;
        graph.for_neighbours(memory, &row, |_, value| {
            sum += to_f64(value);
            Ok(())
        })?;
        let rank = BASE + DAMPING * sum;
        let at = graph.value_address(vertex);
        graph.write(memory, at, from_f64(rank / divisor(row.out_degree)));
        Ok(())
    }
}

impl PageRank {
    /// Reads the current rank of `vertex`.
    ///
    /// # Errors
    /// [`Corrupt`] if it reads invalid data.
    pub fn rank<M: FullMemory>(&self, memory: &mut M, vertex: u64) -> Result<f64, Corrupt> {
        let row = self.graph.row(memory, vertex)?;
        let value = self.graph.read(memory, self.graph.value_address(vertex))?;
        Ok(to_f64(value) * divisor(row.out_degree))
    }
}

/// Returns the divisor of a rank before it is passed on.
pub(super) fn divisor(out_degree: u64) -> f64 {
    out_degree.max(1) as f64
}
