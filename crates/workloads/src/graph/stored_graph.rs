//! [`StoredGraph`]: the layout of a graph in memory, and how jobs read it.

use std::ops::Range;
use std::sync::Arc;

use ebbtide_core::{Addr, FullMemory, Hint, LINE_BYTES, PAGE_BYTES, PageId};

use super::WORDS_PER_PAGE;
use super::csr::{Csr, Summary};
use super::generator::Generator;
use crate::kind::Kind;
use crate::permutation::Permutation;
use crate::search::greatest;
use crate::shape::Shape;
use crate::{Corrupt, PageBytes};
use ebbtide_structures::checksum::{Checksums, NUMBER_MAX};
use ebbtide_structures::hash::mix;

/// Vertices that a job updates in a loaded graph. In a generated graph, a job updates vertices with
/// about the same total degree.
const VERTICES_PER_JOB: u64 = 16;

const WORDS_PER_LINE: u64 = LINE_BYTES as u64 / 8;

/// A row is two words: the first entry of the list, and the out-degree.
const ROW_WORDS: u64 = 2;

/// The least size of a graph: about a hundred vertices and their lists.
pub(super) const MIN_BYTES: u64 = 8 * PAGE_BYTES as u64;

/// A graph in memory: rows, one more than vertices; entries; values. Each begins on a page.
#[derive(Debug, Clone)]
pub struct StoredGraph {
    source: Source,
    sizes: Sizes,
    checksums: Checksums,
    /// The order of the blocks in a pass.
    blocks: Permutation,
}

/// The source of the initial contents.
#[derive(Debug, Clone)]
enum Source {
    Generated(Arc<Generator>),
    Loaded(Arc<Csr>),
    /// The contents are in memory already.
    Elsewhere,
}

/// The numbers of vertices and entries. They determine the layout.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    vertices: u64,
    entries: u64,
}

impl Sizes {
    fn row_pages(self) -> u64 {
        ((self.vertices + 1) * ROW_WORDS).div_ceil(WORDS_PER_PAGE)
    }

    fn entry_pages(self) -> u64 {
        self.entries.div_ceil(WORDS_PER_PAGE)
    }

    fn pages(self) -> u64 {
        self.row_pages() + self.entry_pages() + self.vertices.div_ceil(WORDS_PER_PAGE)
    }

    fn row_address(self, vertex: u64) -> Addr {
        Addr(vertex * ROW_WORDS * 8)
    }

    fn entry_address(self, entry: u64) -> Addr {
        PageId(self.row_pages()).start() + entry * 8
    }

    fn value_address(self, place: u64) -> Addr {
        PageId(self.row_pages() + self.entry_pages()).start() + place * 8
    }
}

/// The number of vertices of the largest generated graph that fits into `bytes` and whose entries
/// can be counted in a word.
fn vertices_within(bytes: u64, undirected: bool) -> u64 {
    let fits = |vertices| {
        let sizes = Sizes { vertices, entries: Generator::entries_of(vertices, undirected) };
        sizes.entries <= NUMBER_MAX && sizes.pages() <= bytes / PAGE_BYTES as u64
    };
    greatest(1, bytes.min(NUMBER_MAX) - 1, fits)
}

/// The row of a vertex.
pub(super) struct Row {
    /// The entries of its list.
    entries: Range<u64>,
    /// Its out-degree.
    pub(super) out_degree: u64,
}

impl StoredGraph {
    /// The largest generated graph that fits in `shape`, for the program `kind`.
    pub(super) fn generated(kind: Kind, shape: &Shape, undirected: bool) -> StoredGraph {
        let vertices = vertices_within(shape.dataset_bytes, undirected);
        let generator = Generator::new(vertices, undirected, shape.scatter, shape.seed);
        let sizes = Sizes { vertices: generator.vertices(), entries: generator.entries() };
        StoredGraph::new(kind, sizes, Source::Generated(Arc::new(generator)), shape.seed)
    }

    /// The graph `csr`, and its summary.
    pub(super) fn loaded(kind: Kind, csr: Csr, seed: u64) -> (StoredGraph, Summary) {
        let summary = csr.summary();
        (StoredGraph::of_summary(kind, summary, Source::Loaded(Arc::new(csr)), seed), summary)
    }

    /// The loaded graph with this `summary`, which is in memory already.
    pub(super) fn elsewhere(kind: Kind, summary: Summary, seed: u64) -> StoredGraph {
        StoredGraph::of_summary(kind, summary, Source::Elsewhere, seed)
    }

    fn of_summary(kind: Kind, summary: Summary, source: Source, seed: u64) -> StoredGraph {
        let Summary { vertices, entries, checksum } = summary;
        assert!(vertices > 0, "a graph without vertices");
        StoredGraph::new(kind, Sizes { vertices, entries }, source, mix(seed ^ checksum))
    }

    fn new(kind: Kind, sizes: Sizes, source: Source, seed: u64) -> StoredGraph {
        let checksums = Checksums::new(kind as u64, sizes.pages(), seed);
        let blocks = match &source {
            Source::Generated(generator) => generator.blocks(),
            Source::Loaded(_) | Source::Elsewhere => sizes.vertices.div_ceil(VERTICES_PER_JOB),
        };
        let blocks = Permutation::new(blocks, !seed);
        StoredGraph { source, sizes, checksums, blocks }
    }

    /// The number of vertices.
    pub(super) fn vertices(&self) -> u64 {
        self.sizes.vertices
    }

    /// How many entries all lists have.
    pub(super) fn entries(&self) -> u64 {
        self.sizes.entries
    }

    /// Size in bytes.
    pub(super) fn size_bytes(&self) -> u64 {
        self.sizes.pages() * PAGE_BYTES as u64
    }

    /// How many jobs are a pass over all vertices.
    pub(super) fn jobs_per_pass(&self) -> u64 {
        self.blocks.len()
    }

    /// The vertices that job `job` updates.
    #[inline]
    pub(super) fn job(&self, job: u64) -> Range<u64> {
        let block = self.blocks.apply(job % self.blocks.len());
        if let Source::Generated(generator) = &self.source {
            return generator.block(block);
        }
        let first = block * VERTICES_PER_JOB;
        first..(first + VERTICES_PER_JOB).min(self.sizes.vertices)
    }

    /// The address of the value of `vertex`.
    #[inline]
    pub(super) fn value_address(&self, vertex: u64) -> Addr {
        self.sizes.value_address(self.place(vertex))
    }

    /// Returns the place of the value of `vertex` among all values.
    #[inline]
    pub(super) fn place(&self, vertex: u64) -> u64 {
        match &self.source {
            Source::Generated(generator) => generator.place(vertex),
            Source::Loaded(_) | Source::Elsewhere => vertex,
        }
    }

    /// Reads the row of `vertex`.
    #[inline]
    pub(super) fn row<M: FullMemory>(&self, memory: &mut M, vertex: u64) -> Result<Row, Corrupt> {
        let at = self.sizes.row_address(vertex);
        let [first, out_degree]: [u64; 2] = memory.load(at);
        let entries = self.checksums.check_number(at, first)?
            ..self.checksums.read_number(memory, self.sizes.row_address(vertex + 1))?;
        if entries.start > entries.end || entries.end > self.sizes.entries {
            return Err(Corrupt(format!("the list of vertex {vertex} is at {entries:?}")));
        }
        Ok(Row { entries, out_degree: self.checksums.check_number(at + 8, out_degree)? })
    }

    /// Reads the values of the neighbours in the list of `row` and calls `sees` with the place and
    /// the value of each.
    #[inline]
    pub(super) fn for_neighbours<M: FullMemory>(
        &self,
        memory: &mut M,
        row: &Row,
        mut sees: impl FnMut(u64, u64) -> Result<(), Corrupt>,
    ) -> Result<(), Corrupt> {
        let Range { mut start, end } = row.entries;
        while start < end {
            // Entries are read a line at a time.
            let line = memory.line(self.sizes.entry_address(start));
            let stop = end.min((start / WORDS_PER_LINE + 1) * WORDS_PER_LINE);
            let mut places = [0; WORDS_PER_LINE as usize];
            let mut at = [Addr(0); WORDS_PER_LINE as usize];
            for ((entry, place), value_at) in (start..stop).zip(&mut places).zip(&mut at) {
                let at = self.sizes.entry_address(entry);
                *place =
                    self.checksums.check_number(at, line[(entry % WORDS_PER_LINE) as usize])?;
                if *place >= self.sizes.vertices {
                    return Err(Corrupt(format!("the entry at {at:?} names no vertex: {place}")));
                }
                *value_at = self.sizes.value_address(*place);
                memory.hint(Hint::WillNeed(*value_at));
            }
            // No value depends on another.
            let count = (stop - start) as usize;
            let mut words = [0; WORDS_PER_LINE as usize];
            memory.load_all(&at[..count], &mut words[..count]);
            for ((&place, &at), &word) in places.iter().zip(&at).zip(&words).take(count) {
                sees(place, self.checksums.check_number(at, word)?)?;
            }
            start = stop;
        }
        Ok(())
    }

    /// Reads the value at `at`.
    #[inline]
    pub(super) fn read<M: FullMemory>(&self, memory: &mut M, at: Addr) -> Result<u64, Corrupt> {
        self.checksums.read_number(memory, at)
    }

    /// Writes the value at `at`.
    #[inline]
    pub(super) fn write<M: FullMemory>(&self, memory: &mut M, at: Addr, value: u64) {
        self.checksums.write_number(memory, at, value);
    }

    /// Replaces the value `current` at `at` by `new` in one atomic step; `false` if another value
    /// was there.
    #[inline]
    pub(super) fn exchange<M: FullMemory>(
        &self,
        memory: &mut M,
        at: Addr,
        current: u64,
        new: u64,
    ) -> bool {
        let [current, new] = [current, new].map(|value| self.checksums.number_word(at, value));
        memory.compare_exchange(at, current, new).is_ok()
    }

    /// Writes the initial contents of `lines` of `page` to their places in `out`. `value(place,
    /// out_degree)` is the initial value of the vertex with this place and out-degree.
    ///
    /// # Panics
    /// When the graph is [`elsewhere`](StoredGraph::elsewhere), or `page` lies beyond it.
    pub(super) fn image_lines(
        &self,
        page: PageId,
        lines: Range<usize>,
        out: &mut PageBytes,
        value: impl Fn(u64, u64) -> u64,
    ) {
        let sizes = self.sizes;
        assert!(page.0 < sizes.pages(), "{page:?} of {}", sizes.pages());
        let number: &dyn Fn(u64) -> Option<u64> = if page.0 < sizes.row_pages() {
            &|word| self.image_of_row(page.0 * WORDS_PER_PAGE + word)
        } else if let Some(page) = page.0.checked_sub(sizes.row_pages() + sizes.entry_pages()) {
            &move |word| {
                let place = page * WORDS_PER_PAGE + word;
                (place < sizes.vertices).then(|| value(place, self.out_degree_at(place)))
            }
        } else {
            let page = page.0 - sizes.row_pages();
            &move |word| {
                let entry = page * WORDS_PER_PAGE + word;
                (entry < sizes.entries).then(|| self.neighbour(entry))
            }
        };
        let bytes = lines.start * LINE_BYTES..lines.end * LINE_BYTES;
        let first = bytes.start as u64 / 8;
        for (word, bytes) in (first..).zip(out[bytes].as_chunks_mut::<8>().0) {
            let at = page.start() + word * 8;
            let word = number(word).map_or(0, |number| self.checksums.number_word(at, number));
            *bytes = word.to_ne_bytes();
        }
    }

    /// The number in word `word` of the rows, if there is one.
    fn image_of_row(&self, word: u64) -> Option<u64> {
        let vertex = word / ROW_WORDS;
        match word % ROW_WORDS {
            _ if vertex > self.sizes.vertices => None,
            0 => Some(self.first_entry(vertex)),
            // After the last vertex there is only where its list ends.
            _ if vertex == self.sizes.vertices => None,
            _ => Some(self.out_degree(vertex)),
        }
    }

    fn first_entry(&self, vertex: u64) -> u64 {
        match &self.source {
            Source::Generated(generator) => generator.first_entry(vertex),
            Source::Loaded(csr) => csr.first_entry(vertex),
            Source::Elsewhere => nowhere(),
        }
    }

    fn neighbour(&self, entry: u64) -> u64 {
        match &self.source {
            Source::Generated(generator) => generator.neighbour(entry),
            Source::Loaded(csr) => csr.neighbour(entry),
            Source::Elsewhere => nowhere(),
        }
    }

    fn out_degree(&self, vertex: u64) -> u64 {
        match &self.source {
            Source::Generated(generator) => generator.out_degree(vertex),
            Source::Loaded(csr) => csr.out_degree(vertex),
            Source::Elsewhere => nowhere(),
        }
    }

    fn out_degree_at(&self, place: u64) -> u64 {
        match &self.source {
            Source::Generated(generator) => generator.out_degree(generator.vertex_at(place)),
            Source::Loaded(_) | Source::Elsewhere => self.out_degree(place),
        }
    }
}

#[cold]
fn nowhere() -> ! {
    panic!("the image of a graph that was not loaded here");
}
