//! [`Shards`]: a generated graph as shards of edges, in memory.

use std::ops::Range;

use ebbtide_core::{Addr, FullMemory, Hint, LINE_BYTES, PAGE_BYTES, PageId};
use ebbtide_structures::checksum::{Checksums, NUMBER_MAX};
use ebbtide_structures::hash::mix;

use super::WORDS_PER_PAGE;
use super::degrees::Degrees;
use crate::kind::Kind;
use crate::permutation::Permutation;
use crate::search::greatest;
use crate::shape::Shape;
use crate::{Corrupt, PageBytes};

/// The number of shards of Twitter's graph in GraphChi (Kyrola, Blelloch and Guestrin, OSDI'12).
/// Small graphs have fewer.
const SHARDS: u64 = 20;

/// A shard has at least as many edges as this many of its greatest hubs.
const HUBS_PER_SHARD: u64 = 2;

/// The least size of a graph in bytes.
pub(super) const MIN_BYTES: u64 = 16 * PAGE_BYTES as u64;

const WORDS_PER_LINE: u64 = LINE_BYTES as u64 / 8;

/// Values that are read together.
const TOGETHER: usize = 8;

/// A directed graph in GraphChi's layout.
///
/// Vertices `0..vertices()` are divided into *intervals* with about as many incoming edges each.
/// The *shard* of an interval has all edges into it, in the order of their sources. So the edges
/// that leave an interval are one run of edges in each shard, its *window*. An edge is a word with
/// its target and a word with its value. The targets of all shards lie one after the other, then
/// the values of all, then one value for each vertex.
///
/// The graph is computed and not stored. Outgoing stubs are in the order of their vertices. Of as
/// many consecutive stubs as there are shards, each shard has one. A permutation joins the edges of
/// a shard to the incoming stubs of its interval.
#[derive(Debug, Clone)]
pub struct Shards {
    degrees: Degrees,
    intervals: Vec<Interval>,
    /// Edges of each shard.
    edges_per_shard: u64,
    seed: u64,
    checksums: Checksums,
}

/// An interval of vertices, and what joins its shard to it.
#[derive(Debug, Clone)]
struct Interval {
    blocks: Range<u64>,
    vertices: Range<u64>,
    /// Incoming stubs.
    stubs: Range<u64>,
    joins: Permutation,
}

/// An edge: its place in the shard of its target's interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Edge {
    shard: u64,
    place: u64,
}

/// The number of shards of a graph with these degrees.
fn shards_of(degrees: &Degrees) -> u64 {
    let hub = degrees.degree(0).max(super::degrees::BLOCK_STUBS);
    (degrees.stubs() / (HUBS_PER_SHARD * hub)).clamp(1, SHARDS)
}

/// Pages of the targets of a shard, or of its values.
fn pages_per_shard(stubs: u64, shards: u64) -> u64 {
    (stubs / shards).div_ceil(WORDS_PER_PAGE)
}

/// Pages of a graph with these degrees.
fn pages(degrees: &Degrees) -> u64 {
    let shards = shards_of(degrees);
    2 * shards * pages_per_shard(degrees.stubs(), shards)
        + degrees.vertices().div_ceil(WORDS_PER_PAGE)
}

impl Shards {
    /// The largest graph that fits in `shape`, for the program `kind`.
    pub(super) fn generated(kind: Kind, shape: &Shape) -> Shards {
        let fits = |vertices| {
            let degrees = Degrees::power_law(vertices);
            degrees.stubs() <= NUMBER_MAX
                && pages(&degrees) <= shape.dataset_bytes / PAGE_BYTES as u64
        };
        let most = shape.dataset_bytes.min(NUMBER_MAX) - 1;
        let degrees = Degrees::power_law(greatest(1, most, fits));
        let shards = shards_of(&degrees);
        let intervals = intervals(&degrees, shards, shape.seed);
        let edges_per_shard = degrees.stubs() / shards;
        let checksums = Checksums::new(kind as u64, degrees.vertices(), shape.seed);
        Shards { degrees, intervals, edges_per_shard, seed: shape.seed, checksums }
    }

    /// The number of vertices.
    pub(super) fn vertices(&self) -> u64 {
        self.degrees.vertices()
    }

    /// The number of edges.
    pub(super) fn edges(&self) -> u64 {
        self.edges_per_shard * self.shards()
    }

    /// The number of shards, and of intervals.
    pub(super) fn shards(&self) -> u64 {
        self.intervals.len() as u64
    }

    /// The number of edges of each shard.
    pub(super) fn edges_per_shard(&self) -> u64 {
        self.edges_per_shard
    }

    /// The blocks of vertices of `interval`.
    pub(super) fn blocks(&self, interval: u64) -> Range<u64> {
        self.intervals[interval as usize].blocks.clone()
    }

    /// The vertices of `block`.
    pub(super) fn block(&self, block: u64) -> Range<u64> {
        self.degrees.block(block)
    }

    /// Size in bytes.
    pub(super) fn size_bytes(&self) -> u64 {
        self.vertex_page() * PAGE_BYTES as u64
            + self.vertices().div_ceil(WORDS_PER_PAGE) * PAGE_BYTES as u64
    }

    /// Pages of a shard's targets, or of its values.
    fn pages_per_shard(&self) -> u64 {
        pages_per_shard(self.edges(), self.shards())
    }

    /// The first page of the values of vertices.
    fn vertex_page(&self) -> u64 {
        2 * self.shards() * self.pages_per_shard()
    }

    /// The address of the value of `vertex`.
    pub(super) fn vertex_address(&self, vertex: u64) -> Addr {
        PageId(self.vertex_page()).start() + vertex * 8
    }

    fn target_address(&self, edge: Edge) -> Addr {
        PageId(edge.shard * self.pages_per_shard()).start() + edge.place * 8
    }

    /// The address of the value of `edge`.
    pub(super) fn edge_address(&self, edge: Edge) -> Addr {
        PageId((self.shards() + edge.shard) * self.pages_per_shard()).start() + edge.place * 8
    }

    /// The outgoing stubs of `vertices`.
    fn out_stubs(&self, vertices: Range<u64>) -> Range<u64> {
        let [start, end] = [vertices.start, vertices.end]
            .map(|vertex| self.degrees.first_stub(vertex).min(self.edges()));
        start..end
    }

    /// The out-degree of `vertex`.
    pub(super) fn out_degree(&self, vertex: u64) -> u64 {
        let stubs = self.out_stubs(vertex..vertex + 1);
        stubs.end - stubs.start
    }

    /// The shard of the first of the stubs at `place`.
    fn first_shard(&self, place: u64) -> u64 {
        mix(self.seed ^ mix(place)) % self.shards()
    }

    fn edge_of_stub(&self, stub: u64) -> Edge {
        let (place, slot) = (stub / self.shards(), stub % self.shards());
        Edge { shard: (self.first_shard(place) + slot) % self.shards(), place }
    }

    /// The vertex that `edge` leaves.
    pub(super) fn source(&self, edge: Edge) -> u64 {
        let shards = self.shards();
        let slot = (edge.shard + shards - self.first_shard(edge.place)) % shards;
        self.degrees.owner(edge.place * shards + slot)
    }

    /// The vertex that `edge` enters.
    pub(super) fn target(&self, edge: Edge) -> u64 {
        let Interval { stubs, joins, .. } = &self.intervals[edge.shard as usize];
        let joined = joins.apply(edge.place);
        let stub = joined * (stubs.end - stubs.start) / self.edges_per_shard;
        self.degrees.owner(stubs.start + stub)
    }

    /// The edges that leave `vertex`, in the order of shards from one on.
    pub(super) fn out_edges(&self, vertex: u64) -> impl Iterator<Item = Edge> {
        self.out_stubs(vertex..vertex + 1).map(|stub| self.edge_of_stub(stub))
    }

    /// The edges into `vertex` of `interval`.
    pub(super) fn in_edges(&self, interval: u64, vertex: u64) -> impl Iterator<Item = Edge> {
        let Interval { stubs, joins, .. } = &self.intervals[interval as usize];
        let joined = |vertex| {
            let stub = self.degrees.first_stub(vertex) - stubs.start;
            (stub * self.edges_per_shard).div_ceil(stubs.end - stubs.start)
        };
        let joined = joined(vertex)..joined(vertex + 1);
        joined.map(move |joined| Edge { shard: interval, place: joins.invert(joined) })
    }

    /// Reads edges `places` of `shard`: targets and values, line by line.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads invalid data.
    pub(super) fn load<M: FullMemory>(
        &self,
        memory: &mut M,
        shard: u64,
        places: Range<u64>,
    ) -> Result<(), Corrupt> {
        self.read_targets(memory, shard, places.clone())?;
        let address = |place| self.edge_address(Edge { shard, place });
        self.read_run(memory, places, address, |_, _| Ok(()))
    }

    /// Reads the targets of the edges that leave `vertices`: a part of each window.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads invalid data.
    pub(super) fn slide<M: FullMemory>(
        &self,
        memory: &mut M,
        vertices: Range<u64>,
    ) -> Result<(), Corrupt> {
        let stubs = self.out_stubs(vertices);
        let places = stubs.start / self.shards()..stubs.end.div_ceil(self.shards());
        (0..self.shards()).try_for_each(|shard| self.read_targets(memory, shard, places.clone()))
    }

    fn read_targets<M: FullMemory>(
        &self,
        memory: &mut M,
        shard: u64,
        places: Range<u64>,
    ) -> Result<(), Corrupt> {
        let address = |place| self.target_address(Edge { shard, place });
        let vertices = &self.intervals[shard as usize].vertices;
        self.read_run(memory, places, address, |at, target| match vertices.contains(&target) {
            true => Ok(()),
            false => Err(Corrupt(format!("the edge at {at:?} leaves its shard, to {target}"))),
        })
    }

    /// Reads the words at consecutive addresses, a line at a time.
    fn read_run<M: FullMemory>(
        &self,
        memory: &mut M,
        places: Range<u64>,
        address: impl Fn(u64) -> Addr,
        sees: impl Fn(Addr, u64) -> Result<(), Corrupt>,
    ) -> Result<(), Corrupt> {
        let Range { mut start, end } = places;
        while start < end {
            let line = memory.line(address(start));
            let stop = end.min((start / WORDS_PER_LINE + 1) * WORDS_PER_LINE);
            for place in start..stop {
                let at = address(place);
                let number = line[(place % WORDS_PER_LINE) as usize];
                sees(at, self.checksums.check_number(at, number)?)?;
            }
            start = stop;
        }
        Ok(())
    }

    /// Reads the values of `edges` and calls `sees` with each edge's address and value.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads invalid data.
    pub(super) fn for_values<M: FullMemory>(
        &self,
        memory: &mut M,
        edges: impl Iterator<Item = Edge>,
        mut sees: impl FnMut(&mut M, Edge, u64) -> Result<(), Corrupt>,
    ) -> Result<(), Corrupt> {
        let mut edges = edges.peekable();
        while edges.peek().is_some() {
            let mut taken = [Edge { shard: 0, place: 0 }; TOGETHER];
            let mut at = [Addr(0); TOGETHER];
            let mut count = 0;
            for edge in edges.by_ref().take(TOGETHER) {
                (taken[count], at[count]) = (edge, self.edge_address(edge));
                memory.hint(Hint::WillNeed(at[count]));
                count += 1;
            }
            let mut words = [0; TOGETHER];
            memory.load_all(&at[..count], &mut words[..count]);
            for ((&edge, &at), &word) in taken.iter().zip(&at).zip(&words).take(count) {
                sees(memory, edge, self.checksums.check_number(at, word)?)?;
            }
        }
        Ok(())
    }

    /// Reads the value at `at`.
    ///
    /// # Errors
    /// [`Corrupt`] when it is invalid.
    pub(super) fn read<M: FullMemory>(&self, memory: &mut M, at: Addr) -> Result<u64, Corrupt> {
        self.checksums.read_number(memory, at)
    }

    /// Writes the value at `at`.
    pub(super) fn write<M: FullMemory>(&self, memory: &mut M, at: Addr, value: u64) {
        self.checksums.write_number(memory, at, value);
    }

    /// Lowers the value at `at` from `value`, which was read there, to `new`.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads invalid data.
    pub(super) fn lower<M: FullMemory>(
        &self,
        memory: &mut M,
        at: Addr,
        mut value: u64,
        new: u64,
    ) -> Result<(), Corrupt> {
        while value > new {
            let [current, lower] = [value, new].map(|word| self.checksums.number_word(at, word));
            match memory.compare_exchange(at, current, lower) {
                Ok(_) => return Ok(()),
                Err(found) => value = self.checksums.check_number(at, found)?,
            }
        }
        Ok(())
    }

    /// Writes the initial contents of `lines` of `page` to their places in `out`, with the initial
    /// values of edges and vertices.
    ///
    /// # Panics
    /// When `page` lies beyond the graph.
    pub(super) fn image_lines(
        &self,
        page: PageId,
        lines: Range<usize>,
        out: &mut PageBytes,
        of_edge: impl Fn(Edge) -> u64,
        of_vertex: impl Fn(u64) -> u64,
    ) {
        let pages = self.size_bytes() / PAGE_BYTES as u64;
        assert!(page.0 < pages, "{page:?} of {pages}");
        let bytes = lines.start * LINE_BYTES..lines.end * LINE_BYTES;
        let first = bytes.start as u64 / 8;
        for (word, bytes) in (first..).zip(out[bytes].as_chunks_mut::<8>().0) {
            let number = match page.0.checked_sub(self.vertex_page()) {
                Some(page) => {
                    let vertex = page * WORDS_PER_PAGE + word;
                    (vertex < self.vertices()).then(|| of_vertex(vertex))
                }
                None => self.image_of_edge(page.0, word, &of_edge),
            };
            let at = page.start() + word * 8;
            let word = number.map_or(0, |number| self.checksums.number_word(at, number));
            *bytes = word.to_ne_bytes();
        }
    }

    /// The target or the value in word `word` of `page`, if there is one.
    fn image_of_edge(&self, page: u64, word: u64, of_edge: impl Fn(Edge) -> u64) -> Option<u64> {
        let per_shard = self.pages_per_shard();
        let (run, place) = (page / per_shard, page % per_shard * WORDS_PER_PAGE + word);
        let edge = Edge { shard: run % self.shards(), place };
        (place < self.edges_per_shard).then(|| match run < self.shards() {
            true => self.target(edge),
            false => of_edge(edge),
        })
    }
}

/// Divides the vertices into `shards` intervals of whole blocks with about as many stubs each.
fn intervals(degrees: &Degrees, shards: u64, seed: u64) -> Vec<Interval> {
    let first_stub = |block| match block < degrees.blocks() {
        true => degrees.first_stub(degrees.block(block).start),
        false => degrees.stubs(),
    };
    let first_block = |interval: u64| {
        let wanted = degrees.stubs() / shards * interval;
        match interval == shards {
            true => degrees.blocks(),
            false => greatest(0, degrees.blocks() - 1, |block| first_stub(block) <= wanted),
        }
    };
    let interval = |number: u64| {
        let blocks = first_block(number)..first_block(number + 1);
        let vertices = degrees.block(blocks.start).start..degrees.block(blocks.end - 1).end;
        let stubs = first_stub(blocks.start)..first_stub(blocks.end);
        let joins = Permutation::new(degrees.stubs() / shards, mix(seed ^ number));
        Interval { blocks, vertices, stubs, joins }
    };
    (0..shards).map(interval).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(dataset_bytes: u64) -> Shards {
        Shards::generated(Kind::PageRankShards, &Shape { dataset_bytes, ..Shape::default() })
    }

    #[test]
    fn a_graph_fits_into_its_size_and_nearly_fills_it() {
        for bytes in [MIN_BYTES, 1 << 20, (1 << 26) + 5000, 1 << 34] {
            let shards = shards(bytes);
            assert!(shards.size_bytes() <= bytes, "{} of {bytes}", shards.size_bytes());
            let unused = bytes - shards.size_bytes();
            assert!(unused < bytes / 50 + 2 * SHARDS * PAGE_BYTES as u64, "{unused} of {bytes}");
        }
    }

    #[test]
    fn great_graphs_have_the_shards_of_the_paper_and_small_ones_fewer() {
        let graphs = [MIN_BYTES, 1 << 27, 1 << 34].map(shards);
        for graph in &graphs {
            assert!(graph.edges_per_shard() >= HUBS_PER_SHARD * graph.degrees.degree(0));
        }
        assert_eq!(graphs.map(|graph| graph.shards()), [3, 20, 20]);
    }

    #[test]
    fn every_edge_is_found_from_both_its_ends_and_lies_in_the_shard_of_its_target() {
        let shards = shards(1 << 22);
        assert!(shards.shards() > 1);
        let mut out = Vec::new();
        for vertex in 0..shards.vertices() {
            for edge in shards.out_edges(vertex) {
                assert_eq!(shards.source(edge), vertex);
                out.push((edge.shard, edge.place));
            }
        }
        let mut into = Vec::new();
        for interval in 0..shards.shards() {
            let mut sources = 0..shards.vertices();
            for place in 0..shards.edges_per_shard() {
                let source = shards.source(Edge { shard: interval, place });
                assert!(sources.contains(&source), "sources of a shard are sorted");
                sources.start = source;
            }
            for vertex in shards.intervals[interval as usize].vertices.clone() {
                for edge in shards.in_edges(interval, vertex) {
                    assert_eq!((edge.shard, shards.target(edge)), (interval, vertex));
                    into.push((edge.shard, edge.place));
                }
            }
        }
        out.sort_unstable();
        into.sort_unstable();
        let all = |shard| (0..shards.edges_per_shard()).map(move |place| (shard, place));
        let all: Vec<_> = (0..shards.shards()).flat_map(all).collect();
        assert_eq!(out, all);
        assert_eq!(into, all);
    }

    #[test]
    fn intervals_have_every_block_once_and_about_as_many_edges() {
        let shards = shards(1 << 27);
        let mut next = 0;
        for interval in &shards.intervals {
            assert_eq!(interval.blocks.start, next);
            next = interval.blocks.end;
            let stubs = (interval.stubs.end - interval.stubs.start) as f64;
            let share = stubs / shards.edges_per_shard() as f64;
            assert!((0.9..1.1).contains(&share), "{share}");
        }
        assert_eq!(next, shards.degrees.blocks());
    }
}
