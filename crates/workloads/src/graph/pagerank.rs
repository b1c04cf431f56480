//! [`PageRank`]: rank flows along edges until it stands (FlatFlash, ASPLOS'19 Fig. 10).

use ebbtide_core::{Addr, Memory, PageId};

use super::csr::{Csr, EdgeList, Summary};
use super::float::{from_f64, to_f64};
use super::stored_graph::{MIN_BYTES, StoredGraph};
use crate::keys::share;
use crate::kind::Kind;
use crate::shape::{Named, Shape};
use crate::{PageBytes, Workload, Wrong};

/// Rank that every vertex has of itself.
const BASE: f64 = 0.15;

/// The share of its rank that a vertex hands on.
const DAMPING: f64 = 0.85;

/// PageRank by pulling: `rank ← 0.15 + 0.85 · Σ rank / degree` over the vertices whose edges come
/// here, with their number of edges out (SPEC part D; Page and Brin's, without dividing by the
/// number of vertices).
///
/// A vertex's value is its rank divided by its edges out (or by 1, if there are none: what it does
/// not hand on is lost), so that a neighbour reads one word. Updates are asynchronous. An update
/// that a slow job makes late may put an older rank over a newer one; the next pass makes up for
/// it, since the error of every rank shrinks to 0.85 of the greatest it was computed from,
/// whatever the order (chaotic relaxation: Chazan and Miranker, 1969). So a page that comes back
/// old is not noticed: it costs a pass.
///
/// Ranks are kept to 28 binary digits, which at the fixpoint leaves them within 3 parts in 10⁸.
///
/// The graph is the same for every skew.
#[derive(Debug, Clone)]
pub struct PageRank {
    graph: StoredGraph,
    work: u64,
}

impl PageRank {
    /// PageRank over `graph`; of `shape` only seed and work count. Also gives the summary that
    /// [`elsewhere`](PageRank::elsewhere) wants.
    ///
    /// # Panics
    /// When the graph has no vertex.
    pub fn of(graph: &EdgeList, shape: &Shape) -> (PageRank, Summary) {
        let (graph, summary) =
            StoredGraph::loaded(Kind::PageRank, Csr::incoming(graph), shape.seed);
        (PageRank { graph, work: shape.work_instructions }, summary)
    }

    /// PageRank over memory that holds the image of the graph that `summary` tells of. It has no
    /// image of its own, nor needs it: it takes no memory.
    ///
    /// # Panics
    /// When the graph has no vertex; later, when the image is asked for.
    pub fn elsewhere(summary: Summary, shape: &Shape) -> PageRank {
        let graph = StoredGraph::elsewhere(Kind::PageRank, summary, shape.seed);
        PageRank { graph, work: shape.work_instructions }
    }

    /// How many vertices there are.
    pub fn vertices(&self) -> u64 {
        self.graph.vertices()
    }

    /// How many edges there are.
    pub fn edges(&self) -> u64 {
        self.graph.entries()
    }

    /// How many jobs are a pass over all vertices.
    pub fn jobs_per_pass(&self) -> u64 {
        self.graph.jobs_per_pass()
    }

    /// The address of the word that holds the rank of `vertex`.
    pub fn address(&self, vertex: u64) -> Addr {
        self.graph.value_address(vertex)
    }

    /// The rank of `vertex` as it stands.
    ///
    /// # Errors
    /// [`Wrong`] when what it reads is not the graph.
    pub fn rank<M: Memory>(&self, memory: &mut M, vertex: u64) -> Result<f64, Wrong> {
        let row = self.graph.row(memory, vertex)?;
        let value = self.graph.read(memory, self.graph.value_address(vertex))?;
        Ok(to_f64(value) * divisor(row.out_degree))
    }

    /// Computes the rank of `vertex` from those of its neighbours.
    ///
    /// # Errors
    /// [`Wrong`] when what it reads is not the graph; then nothing is stored.
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

/// What a rank is divided by before it is handed on.
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
