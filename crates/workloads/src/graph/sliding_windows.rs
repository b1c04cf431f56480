//! [`SlidingWindows`]: programs over shards as GraphChi runs them (Kyrola, Blelloch and Guestrin,
//! OSDI'12, §3: parallel sliding windows).
//!
//! A pass executes the intervals in order. An interval has two phases:
//!
//! 1. Load jobs read the interval's own shard, targets and values, from its beginning to its end.
//! 2. Update jobs take the interval's blocks in order. A job reads the targets of the edges that
//!    leave its vertices, a part of the window of every shard. For each vertex, it reads the values
//!    of the edges into it, at random places of the interval's shard, and its own. Then it writes
//!    the value of the vertex, and those of its edges.
//!
//! The first pass writes the first values, and reads no value of an edge to compute them
//! (GraphChi's `pagerank.cpp` and `connectedcomponents.cpp`).
//!
//! Jobs run in this order, and those of two phases may overlap on several cores. GraphChi waits
//! between phases. Left out: the lists of edges that GraphChi makes of a loaded interval in DRAM.
//! They are computed.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::ops::Range;

use ebbtide_core::{Addr, FullMemory, PageId};

use super::components::check;
use super::degrees::BLOCK_STUBS;
use super::float::{from_f64, to_f64};
use super::pagerank::{BASE, DAMPING, divisor};
use super::shards::{Edge, MIN_BYTES, Shards};
use crate::keys::share;
use crate::kind::Kind;
use crate::shape::{Named, Shape};
use crate::{ALL_LINES, Corrupt, PageBytes, Workload};

/// Edges that a load job reads: as many as enter the vertices of an update job.
const EDGES_PER_LOAD: u64 = BLOCK_STUBS;

/// The update of a vertex, whose edges have values.
pub trait EdgeRule: Debug + Clone + Send + Sync + 'static {
    /// The program.
    const KIND: Kind;
    /// The name in options and results.
    const NAME: &'static str;
    /// Description of the program, in one line.
    const DESCRIPTION: &'static str;
    /// Work of one job, in one line.
    const MIX: &'static str;

    /// The first value of an edge from `source`.
    fn first_of_edge(source: u64, out_degree: u64) -> u64;

    /// The first value of `vertex`.
    fn first_of_vertex(vertex: u64) -> u64;

    /// Writes the values of `vertex` of `interval`, and of the edges that leave it, in the first
    /// pass.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads invalid data.
    fn begin<M: FullMemory>(
        shards: &Shards,
        memory: &mut M,
        interval: u64,
        vertex: u64,
    ) -> Result<(), Corrupt>;

    /// Computes the value of `vertex` of `interval`, and those of its edges, in a later pass.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads invalid data.
    fn update<M: FullMemory>(
        shards: &Shards,
        memory: &mut M,
        interval: u64,
        vertex: u64,
    ) -> Result<(), Corrupt>;
}

/// A graph in shards whose vertices follow an [`EdgeRule`]. The graph does not depend on skew and
/// scatter.
#[derive(Debug, Clone)]
pub struct SlidingWindows<R> {
    shards: Shards,
    /// The first job of each interval in a pass, and the number of jobs of a pass.
    first_jobs: Vec<u64>,
    work: u64,
    rule: PhantomData<R>,
}

impl<R: EdgeRule> SlidingWindows<R> {
    /// Returns the number of vertices.
    pub fn vertices(&self) -> u64 {
        self.shards.vertices()
    }

    /// Returns the number of edges.
    pub fn edges(&self) -> u64 {
        self.shards.edges()
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> u64 {
        self.shards.shards()
    }

    /// Returns the number of jobs in a pass over all vertices.
    pub fn jobs_per_pass(&self) -> u64 {
        self.first_jobs[self.first_jobs.len() - 1]
    }

    /// Returns the mean number of jobs of an interval.
    pub fn jobs_per_interval(&self) -> u64 {
        self.jobs_per_pass() / self.shards()
    }

    /// Returns the address of the word that holds the value of `vertex`.
    pub fn address(&self, vertex: u64) -> Addr {
        self.shards.vertex_address(vertex)
    }

    fn load_jobs(&self) -> u64 {
        self.shards.edges_per_shard().div_ceil(EDGES_PER_LOAD)
    }
}

impl<R: EdgeRule> Named for SlidingWindows<R> {
    const NAME: &'static str = R::NAME;
    const DESCRIPTION: &'static str = R::DESCRIPTION;
    const MIX: &'static str = R::MIX;
    const SOURCE: &'static str =
        "FlatFlash (ASPLOS'19) Fig. 10, as GraphChi (OSDI'12) runs it; a graph like Twitter's";
    const MIN_BYTES: u64 = MIN_BYTES;

    fn with_shape(shape: &Shape) -> SlidingWindows<R> {
        let shards = Shards::generated(R::KIND, shape);
        let (work, rule) = (shape.work_instructions, PhantomData);
        let mut program = SlidingWindows { shards, first_jobs: vec![0], work, rule };
        for interval in 0..program.shards() {
            let blocks = program.shards.blocks(interval);
            let jobs = program.load_jobs() + blocks.end - blocks.start;
            program.first_jobs.push(program.jobs_per_pass() + jobs);
        }
        program
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl<R: EdgeRule> Workload for SlidingWindows<R> {
    fn size_bytes(&self) -> u64 {
        self.shards.size_bytes()
    }

    /// # Panics
    /// When `page` lies beyond the image.
    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.image_lines(page, ALL_LINES, out);
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        let of_edge = |edge: Edge| {
            let source = self.shards.source(edge);
            R::first_of_edge(source, self.shards.out_degree(source))
        };
        self.shards.image_lines(page, lines.clone(), out, of_edge, R::first_of_vertex);
        lines
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        let (pass, job) = (job / self.jobs_per_pass(), job % self.jobs_per_pass());
        let interval = self.first_jobs.partition_point(|&first| first <= job) as u64 - 1;
        let part = job - self.first_jobs[interval as usize];
        let Some(block) = part.checked_sub(self.load_jobs()) else {
            memory.work(self.work);
            let first = part * EDGES_PER_LOAD;
            let end = (first + EDGES_PER_LOAD).min(self.shards.edges_per_shard());
            return self.shards.load(memory, interval, first..end);
        };
        let vertices = self.shards.block(self.shards.blocks(interval).start + block);
        self.shards.slide(memory, vertices.clone())?;
        let parts = vertices.end - vertices.start;
        for (part, vertex) in (0..).zip(vertices) {
            memory.work(share(self.work, part, parts));
            match pass {
                0 => R::begin(&self.shards, memory, interval, vertex)?,
                _ => R::update(&self.shards, memory, interval, vertex)?,
            }
        }
        Ok(())
    }

    fn writes(&self) -> bool {
        true
    }
}

/// [`PageRank`](super::PageRank) over shards. In the first pass every vertex and edge gets its
/// first value, which it has in the image, too. In every later pass a vertex reads the values of
/// the edges into it. Then it writes its rank, divided by its out-degree, to all edges that leave
/// it.
///
/// A slow job may overwrite newer values with older ones. The next pass corrects this.
pub type PageRankShards = SlidingWindows<RankOfEdges>;

/// Computes the rank of a vertex from the values of the edges into it.
#[derive(Debug, Clone)]
pub struct RankOfEdges;

impl EdgeRule for RankOfEdges {
    const KIND: Kind = Kind::PageRankShards;
    const NAME: &'static str = "pagerank-shards";
    const DESCRIPTION: &'static str = "ranks the vertices of a graph in shards, edges written";
    const MIX: &'static str =
        "384 edges of a shard read, or about 16 vertices: 384 edges each way, half of them written";

    fn first_of_edge(_source: u64, out_degree: u64) -> u64 {
        from_f64(FIRST_RANK / divisor(out_degree))
    }

    fn first_of_vertex(_vertex: u64) -> u64 {
        from_f64(FIRST_RANK)
    }

    fn begin<M: FullMemory>(
        shards: &Shards,
        memory: &mut M,
        _interval: u64,
        vertex: u64,
    ) -> Result<(), Corrupt> {
        write_rank(shards, memory, vertex, FIRST_RANK)
    }

    fn update<M: FullMemory>(
        shards: &Shards,
        memory: &mut M,
        interval: u64,
        vertex: u64,
    ) -> Result<(), Corrupt> {
        let mut sum = 0.0;
        shards.for_values(memory, shards.in_edges(interval, vertex), |_, _, value| {
            sum += to_f64(value);
            Ok(())
        })?;
        write_rank(shards, memory, vertex, BASE + DAMPING * sum)
    }
}

/// The rank of every vertex before it is computed.
const FIRST_RANK: f64 = 1.0;

/// Writes the rank of `vertex`, and its share to each edge that leaves it.
fn write_rank<M: FullMemory>(
    shards: &Shards,
    memory: &mut M,
    vertex: u64,
    rank: f64,
) -> Result<(), Corrupt> {
    let at = shards.vertex_address(vertex);
    shards.read(memory, at)?;
    shards.write(memory, at, from_f64(rank));
    let share = from_f64(rank / divisor(shards.out_degree(vertex)));
    for edge in shards.out_edges(vertex) {
        shards.write(memory, shards.edge_address(edge), share);
    }
    Ok(())
}

impl PageRankShards {
    /// Reads the current rank of `vertex`.
    ///
    /// # Errors
    /// [`Corrupt`] if it reads invalid data.
    pub fn rank<M: FullMemory>(&self, memory: &mut M, vertex: u64) -> Result<f64, Corrupt> {
        self.shards.read(memory, self.address(vertex)).map(to_f64)
    }
}

/// [`ConnectedComponents`](super::ConnectedComponents) over shards. In the first pass a vertex
/// takes the least number of itself and its neighbours, and lowers the labels of the edges that
/// leave it. In every later pass it reads the labels of all its edges, takes the least, and lowers
/// the labels of its edges to it. A label is at first the number of a vertex, on an edge that of
/// its source. Labels only fall.
pub type ConnectedComponentsShards = SlidingWindows<LeastLabelOfEdges>;

/// Lowers the labels of a vertex and of its edges to the least of them.
#[derive(Debug, Clone)]
pub struct LeastLabelOfEdges;

impl EdgeRule for LeastLabelOfEdges {
    const KIND: Kind = Kind::ConnectedComponentsShards;
    const NAME: &'static str = "connected-components-shards";
    const DESCRIPTION: &'static str = "spreads the least label through the edges of shards";
    const MIX: &'static str =
        "384 edges of a shard read, or about 16 vertices: 384 edges each way, higher ones lowered";

    fn first_of_edge(source: u64, _out_degree: u64) -> u64 {
        source
    }

    fn first_of_vertex(vertex: u64) -> u64 {
        vertex
    }

    fn begin<M: FullMemory>(
        shards: &Shards,
        memory: &mut M,
        interval: u64,
        vertex: u64,
    ) -> Result<(), Corrupt> {
        let sources = shards.in_edges(interval, vertex).map(|edge| shards.source(edge));
        let targets = shards.out_edges(vertex).map(|edge| shards.target(edge));
        let least = sources.chain(targets).fold(vertex, u64::min);
        let at = shards.vertex_address(vertex);
        let label = shards.read(memory, at)?;
        check(vertex, label)?;
        shards.lower(memory, at, label, least)?;
        shards.for_values(memory, shards.out_edges(vertex), |memory, edge, label| {
            check(vertex, label)?;
            shards.lower(memory, shards.edge_address(edge), label, least)
        })
    }

    fn update<M: FullMemory>(
        shards: &Shards,
        memory: &mut M,
        interval: u64,
        vertex: u64,
    ) -> Result<(), Corrupt> {
        let at = shards.vertex_address(vertex);
        let label = shards.read(memory, at)?;
        check(vertex, label)?;
        let mut least = label;
        let edges = || shards.in_edges(interval, vertex).chain(shards.out_edges(vertex));
        shards.for_values(memory, edges(), |_, edge, label| {
            check(shards.source(edge), label)?;
            least = least.min(label);
            Ok(())
        })?;
        shards.lower(memory, at, label, least)?;
        shards.for_values(memory, edges(), |memory, edge, label| {
            shards.lower(memory, shards.edge_address(edge), label, least)
        })
    }
}

impl ConnectedComponentsShards {
    /// Reads the current label of `vertex`. In the end it is the same for all vertices of a
    /// component.
    ///
    /// # Errors
    /// [`Corrupt`] if it reads invalid data.
    pub fn label<M: FullMemory>(&self, memory: &mut M, vertex: u64) -> Result<u64, Corrupt> {
        let label = self.shards.read(memory, self.address(vertex))?;
        check(vertex, label).map(|()| label)
    }
}
