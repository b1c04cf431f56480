//! [`ConnectedComponents`]: minimum-label propagation (FlatFlash, ASPLOS'19, Fig. 10).

use ebbtide_core::{Addr, Memory, PageId};

use super::csr::{Csr, EdgeList, Summary};
use super::stored_graph::{MIN_BYTES, StoredGraph};
use crate::keys::share;
use crate::kind::Kind;
use crate::shape::{Named, Shape};
use crate::{PageBytes, Workload, Wrong};

/// Connected components by minimum-label propagation: `label ← min(label, labels of neighbours)`,
/// until all vertices of a component have the label of one of them.
///
/// Edges count in both directions (*weakly* connected components). An edge is in the lists of both
/// its ends, so a vertex only reads its neighbours' labels. A vertex's first label is the place of
/// its value, which in a loaded graph is its number.
///
/// Labels only fall: a job lowers one by compare-exchange, so that a slow job cannot overwrite a
/// newer label with an older one. A label above its own place is therefore detected as wrong. An
/// outdated page is not detected, and the next pass lowers its labels again.
///
/// The graph does not depend on the skew.
#[derive(Debug, Clone)]
pub struct ConnectedComponents {
    graph: StoredGraph,
    work: u64,
}

impl ConnectedComponents {
    /// The components of `graph`, with the seed and the work of `shape`. Also returns the summary
    /// for [`elsewhere`](ConnectedComponents::elsewhere).
    ///
    /// # Panics
    /// When the graph has no vertex.
    pub fn of(graph: &EdgeList, shape: &Shape) -> (ConnectedComponents, Summary) {
        let csr = Csr::undirected(graph);
        let (graph, summary) = StoredGraph::loaded(Kind::ConnectedComponents, csr, shape.seed);
        (ConnectedComponents { graph, work: shape.work_instructions }, summary)
    }

    /// The components of the graph with this `summary`, whose image is in memory already. The
    /// result has no image of its own and takes no memory.
    ///
    /// # Panics
    /// When the graph has no vertex, and later when its image is requested.
    pub fn elsewhere(summary: Summary, shape: &Shape) -> ConnectedComponents {
        let graph = StoredGraph::elsewhere(Kind::ConnectedComponents, summary, shape.seed);
        ConnectedComponents { graph, work: shape.work_instructions }
    }

    /// The number of vertices.
    pub fn vertices(&self) -> u64 {
        self.graph.vertices()
    }

    /// The number of edges.
    pub fn edges(&self) -> u64 {
        self.graph.entries() / 2
    }

    /// The number of jobs in a pass over all vertices.
    pub fn jobs_per_pass(&self) -> u64 {
        self.graph.jobs_per_pass()
    }

    /// The address of the word that holds the label of `vertex`.
    pub fn address(&self, vertex: u64) -> Addr {
        self.graph.value_address(vertex)
    }

    /// The current label of `vertex`: in the end, the same for all vertices of a component.
    ///
    /// # Errors
    /// [`Wrong`] when it reads invalid data.
    pub fn label<M: Memory>(&self, memory: &mut M, vertex: u64) -> Result<u64, Wrong> {
        let label = self.graph.read(memory, self.graph.value_address(vertex))?;
        check(self.graph.place(vertex), label).map(|()| label)
    }

    /// Lowers the label of `vertex` to the least of its neighbours'.
    ///
    /// # Errors
    /// [`Wrong`] when it reads invalid data. Nothing is then stored.
    #[inline]
    pub fn update<M: Memory>(&self, memory: &mut M, vertex: u64) -> Result<(), Wrong> {
        let row = self.graph.row(memory, vertex)?;
        let mut least = u64::MAX;
        self.graph.for_neighbours(memory, &row, |place, label| {
            check(place, label)?;
            least = least.min(label);
            Ok(())
        })?;
        let at = self.graph.value_address(vertex);
        loop {
            let label = self.label(memory, vertex)?;
            if label <= least || self.graph.exchange(memory, at, label, least) {
                return Ok(());
            }
        }
    }
}

/// Labels are at most their place.
#[inline]
fn check(place: u64, label: u64) -> Result<(), Wrong> {
    if label <= place {
        return Ok(());
    }
    Err(Wrong(format!("the label at place {place} has risen to {label}")))
}

impl Named for ConnectedComponents {
    const NAME: &'static str = "connected-components";
    const DESCRIPTION: &'static str = "spreads the least label through a power-law graph";
    const MIX: &'static str =
        "about 16 vertices: lists of 800 edges together, as many labels read, lower ones written";
    const SOURCE: &'static str = "FlatFlash (ASPLOS'19) Fig. 10; a graph like Twitter's, generated";
    const MIN_BYTES: u64 = MIN_BYTES;

    fn with_shape(shape: &Shape) -> ConnectedComponents {
        let graph = StoredGraph::generated(Kind::ConnectedComponents, shape, true);
        ConnectedComponents { graph, work: shape.work_instructions }
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl Workload for ConnectedComponents {
    fn size_bytes(&self) -> u64 {
        self.graph.size_bytes()
    }

    /// # Panics
    /// When `page` lies beyond the image, or the graph is
    /// [`elsewhere`](ConnectedComponents::elsewhere).
    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.graph.image(page, out, |place, _| place);
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
