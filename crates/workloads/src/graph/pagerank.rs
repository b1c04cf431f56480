//! [`PageRank`]: the ranks of the vertices of a graph (FlatFlash, ASPLOS'19, Fig. 10).

use ebbtide_core::{Addr, Memory, PageId};

use super::csr::{Csr, EdgeList, Summary};
use super::float::{from_f64, to_f64};
use super::stored_graph::{MIN_BYTES, StoredGraph};
use crate::keys::share;
use crate::kind::Kind;
use crate::shape::{Named, Shape};
use crate::{PageBytes, Workload, Wrong};

/// The rank of a vertex without incoming edges.
const BASE: f64 = 0.15;

/// The damping factor: the share of its rank that a vertex passes on.
const DAMPING: f64 = 0.85;

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
///
/// The graph does not depend on the skew.
#[derive(Debug, Clone)]
pub struct PageRank {
    graph: StoredGraph,
    work: u64,
}

impl PageRank {
    /// PageRank over `graph`, with the seed and the work of `shape`. Also returns the summary for
    /// [`elsewhere`](PageRank::elsewhere).
    ///
    /// # Panics
    /// When the graph has no vertex.
    pub fn of(graph: &EdgeList, shape: &Shape) -> (PageRank, Summary) {
        let (graph, summary) =
            StoredGraph::loaded(Kind::PageRank, Csr::incoming(graph), shape.seed);
        (PageRank { graph, work: shape.work_instructions }, summary)
    }

    /// PageRank over the graph with this `summary`, whose image is in memory already. The result
    /// has no image of its own and takes no memory.
    ///
    /// # Panics
    /// When the graph has no vertex, and later when its image is requested.
    pub fn elsewhere(summary: Summary, shape: &Shape) -> PageRank {
        let graph = StoredGraph::elsewhere(Kind::PageRank, summary, shape.seed);
        PageRank { graph, work: shape.work_instructions }
    }

    /// The number of vertices.
    pub fn vertices(&self) -> u64 {
        self.graph.vertices()
    }

    /// The number of edges.
    pub fn edges(&self) -> u64 {
        self.graph.entries()
    }

    /// The number of jobs in a pass over all vertices.
    pub fn jobs_per_pass(&self) -> u64 {
        self.graph.jobs_per_pass()
    }

    /// The address of the word that holds the rank of `vertex`.
    pub fn address(&self, vertex: u64) -> Addr {
        self.graph.value_address(vertex)
    }

    /// The current rank of `vertex`.
    ///
    /// # Errors
    /// [`Wrong`] when it reads invalid data.
    pub fn rank<M: Memory>(&self, memory: &mut M, vertex: u64) -> Result<f64, Wrong> {
        let row = self.graph.row(memory, vertex)?;
        let value = self.graph.read(memory, self.graph.value_address(vertex))?;
        Ok(to_f64(value) * divisor(row.out_degree))
    }

    /// Computes the rank of `vertex` from those of its neighbours.
    ///
    /// # Errors
    /// [`Wrong`] when it reads invalid data. Nothing is then stored.
    #[inline]
    pub fn update<M: Memory>(&self, memory: &mut M, vertex: u64) -> Result<(), Wrong> {
        let row = self.graph.row(memory, vertex)?;
        let mut sum = 0.0;
        self.graph.for_neighbours(memory, &row, |_, value| {
            sum += to_f64(value);
            Ok(())
        })?;
        let rank = BASE + DAMPING * sum;
        let at = self.graph.value_address(vertex);
        self.graph.write(memory, at, from_f64(rank / divisor(row.out_degree)));
        Ok(())
    }
}

/// Returns the divisor of a rank before it is passed on.
fn divisor(out_degree: u64) -> f64 {
    out_degree.max(1) as f64
}

impl Named for PageRank {
    const NAME: &'static str = "pagerank";
    const DESCRIPTION: &'static str = "ranks the vertices of a power-law graph, pass after pass";
    const MIX: &'static str =
        "about 16 vertices: lists of 400 edges together, as many ranks read, 16 ranks written";
    const SOURCE: &'static str = "FlatFlash (ASPLOS'19) Fig. 10; a graph like Twitter's, generated";
    const MIN_BYTES: u64 = MIN_BYTES;

    fn with_shape(shape: &Shape) -> PageRank {
        let graph = StoredGraph::generated(Kind::PageRank, shape, false);
        PageRank { graph, work: shape.work_instructions }
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl Workload for PageRank {
    fn size_bytes(&self) -> u64 {
        self.graph.size_bytes()
    }

    /// # Panics
    /// When `page` lies beyond the image, or the graph is [`elsewhere`](PageRank::elsewhere).
    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.graph.image(page, out, |_, out_degree| from_f64(1.0 / divisor(out_degree)));
    }

    fn run<M: Memory>(&self, job: u64, memory: &mut M) -> Result<(), Wrong> {
        let vertices = self.graph.job(job);
        let parts = vertices.end - vertices.start;
        for (part, vertex) in (0..).zip(vertices) {
            memory.work(share(self.work, part, parts));
            self.update(memory, vertex)?;
        }
        Ok(())
    }

    fn writes(&self) -> bool {
        true
    }
}
