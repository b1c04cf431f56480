//! [`VertexProgram`]: a rule that updates the vertices of a stored graph, pass after pass.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::Range;

use ebbtide_core::{Addr, FullMemory, PageId};

use super::csr::{Csr, EdgeList, Summary};
use super::stored_graph::{MIN_BYTES, StoredGraph};
use crate::keys::share;
use crate::kind::Kind;
use crate::shape::{Named, Shape};
use crate::{ALL_LINES, Corrupt, PageBytes, Workload};

/// The update of a vertex by a job.
pub trait Rule: Debug + Clone + Send + Sync + 'static {
    /// The program.
    const KIND: Kind;
    /// The name in options and results.
    const NAME: &'static str;
    /// Description of the program, in one line.
    const DESCRIPTION: &'static str;
    /// Work of one job, in one line.
    const MIX: &'static str;
    /// True if an edge is in the lists of both its ends.
    const UNDIRECTED: bool;

    /// The first value of the vertex at `place`.
    fn first(place: u64, out_degree: u64) -> u64;

    /// Computes the value of `vertex` from those of its neighbours.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads invalid data. Nothing is then stored.
    fn update<M: FullMemory>(
        graph: &StoredGraph,
        memory: &mut M,
        vertex: u64,
    ) -> Result<(), Corrupt>;
}

/// A graph in memory whose vertices follow a [`Rule`]. The graph does not depend on the skew.
#[derive(Debug, Clone)]
pub struct VertexProgram<R> {
    pub(super) graph: StoredGraph,
    work: u64,
    rule: PhantomData<R>,
}

impl<R: Rule> VertexProgram<R> {
    fn new(graph: StoredGraph, shape: &Shape) -> VertexProgram<R> {
        VertexProgram { graph, work: shape.work_instructions, rule: PhantomData }
    }

    /// Returns the program over `graph`, with the seed and the work of `shape`. Also returns the
    /// summary for [`elsewhere`](VertexProgram::elsewhere).
    ///
    /// # Panics
    /// If the graph has no vertex.
    pub fn of(graph: &EdgeList, shape: &Shape) -> (VertexProgram<R>, Summary) {
        let csr = if R::UNDIRECTED { Csr::undirected(graph) } else { Csr::incoming(graph) };
        let (graph, summary) = StoredGraph::loaded(R::KIND, csr, shape.seed);
        (VertexProgram::new(graph, shape), summary)
    }

    /// Returns the program over the graph with this `summary`, whose image is in memory already.
    /// The result has no image of its own and takes no memory.
    ///
    /// # Panics
    /// If the graph has no vertex. [`image`](Workload::image) panics on the result.
    pub fn elsewhere(summary: Summary, shape: &Shape) -> VertexProgram<R> {
        VertexProgram::new(StoredGraph::elsewhere(R::KIND, summary, shape.seed), shape)
    }

    /// Returns the number of vertices.
    pub fn vertices(&self) -> u64 {
        self.graph.vertices()
    }

    /// Returns the number of edges.
    pub fn edges(&self) -> u64 {
        self.graph.entries() / if R::UNDIRECTED { 2 } else { 1 }
    }

    /// Returns the number of jobs in a pass over all vertices.
    pub fn jobs_per_pass(&self) -> u64 {
        self.graph.jobs_per_pass()
    }

    /// Returns the address of the word that holds the value of `vertex`.
    pub fn address(&self, vertex: u64) -> Addr {
        self.graph.value_address(vertex)
    }

    /// Computes the value of `vertex` from those of its neighbours.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads invalid data. Nothing is then stored.
    #[inline]
    pub fn update<M: FullMemory>(&self, memory: &mut M, vertex: u64) -> Result<(), Corrupt> {
        R::update(&self.graph, memory, vertex)
    }
}

impl<R: Rule> Named for VertexProgram<R> {
    const NAME: &'static str = R::NAME;
    const DESCRIPTION: &'static str = R::DESCRIPTION;
    const MIX: &'static str = R::MIX;
    const SOURCE: &'static str = "FlatFlash (ASPLOS'19) Fig. 10; a graph like Twitter's, generated";
    const MIN_BYTES: u64 = MIN_BYTES;

    fn with_shape(shape: &Shape) -> VertexProgram<R> {
        VertexProgram::new(StoredGraph::generated(R::KIND, shape, R::UNDIRECTED), shape)
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl<R: Rule> Workload for VertexProgram<R> {
    fn size_bytes(&self) -> u64 {
        self.graph.size_bytes()
    }

    /// # Panics
    /// When `page` lies beyond the image, or the graph is
    /// [`elsewhere`](VertexProgram::elsewhere).
    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.image_lines(page, ALL_LINES, out);
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        self.graph.image_lines(page, lines.clone(), out, R::first);
        lines
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
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
