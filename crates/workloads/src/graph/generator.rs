//! [`Generator`]: a power-law graph of any size that is computed and not stored.

use std::ops::Range;

use super::degrees::Degrees;
use crate::Scatter;
use crate::keys::Places;
use crate::permutation::Permutation;
use ebbtide_structures::hash::mix;

/// Values on a page.
const PER_PAGE: u64 = super::WORDS_PER_PAGE;

/// A directed graph whose vertices have equal in-degree and out-degree. It is modelled on the
/// social graphs of FlatFlash (see [`Degrees`]).
///
/// It is a directed configuration model. Every vertex has `degree` stubs for incoming edges and as
/// many for outgoing edges. A [`Permutation`] of all stubs joins each in-stub to an out-stub. So
/// the neighbours of a vertex are drawn in proportion to their degrees, and edges can be followed
/// in both directions without a table. Loops and double edges occur, as in that model, but are rare
/// in large graphs.
///
/// Vertices are numbered by decreasing degree; `0` is the greatest hub. The [`Scatter`] places
/// their values: hubs next to hubs on shuffled pages, or all in random order.
#[derive(Debug, Clone)]
pub(super) struct Generator {
    degrees: Degrees,
    /// In-stub to out-stub.
    joins: Permutation,
    /// Vertex to place. Vertices from `placed` on, which do not fill a page, keep their number.
    places: Option<Places>,
    placed: u64,
    /// Whether a list has the neighbours in both directions.
    undirected: bool,
}

impl Generator {
    /// The graph of `vertices` vertices that `seed` selects. With `undirected`, an edge is in the
    /// lists of both its ends.
    pub(super) fn new(vertices: u64, undirected: bool, scatter: Scatter, seed: u64) -> Generator {
        let degrees = Degrees::power_law(vertices);
        let joins = Permutation::new(degrees.stubs(), mix(seed));
        let pages = vertices / PER_PAGE;
        let places = (pages > 0).then(|| Places::new(pages, PER_PAGE, scatter, mix(mix(seed))));
        Generator { degrees, joins, places, placed: pages * PER_PAGE, undirected }
    }

    /// How many entries the lists of `vertices` vertices have together.
    pub(super) fn entries_of(vertices: u64, undirected: bool) -> u64 {
        Degrees::stubs_of(vertices) * if undirected { 2 } else { 1 }
    }

    /// The number of vertices.
    pub(super) fn vertices(&self) -> u64 {
        self.degrees.vertices()
    }

    /// How many entries all lists have.
    pub(super) fn entries(&self) -> u64 {
        self.degrees.stubs() * self.lists()
    }

    /// The number of blocks of vertices, whose lists have about the same total length.
    pub(super) fn blocks(&self) -> u64 {
        self.degrees.blocks()
    }

    /// The vertices of a block.
    #[inline]
    pub(super) fn block(&self, block: u64) -> Range<u64> {
        self.degrees.block(block)
    }

    /// The first entry of the list of `vertex`. For the vertex after the last, the end of the last
    /// list.
    pub(super) fn first_entry(&self, vertex: u64) -> u64 {
        self.degrees.first_stub(vertex) * self.lists()
    }

    /// The out-degree of `vertex`, or with `undirected` its degree.
    pub(super) fn out_degree(&self, vertex: u64) -> u64 {
        self.degrees.degree(vertex) * self.lists()
    }

    /// The place of the neighbour in entry `entry` of the lists. A list has the sources of incoming
    /// edges, then, if undirected, the targets of outgoing ones.
    pub(super) fn neighbour(&self, entry: u64) -> u64 {
        if !self.undirected {
            return self.place(self.degrees.owner(self.joins.apply(entry)));
        }
        // The list of a vertex begins at twice its first stub.
        let stubs = self.degrees.siblings(entry / 2);
        let joined = entry - stubs.start;
        let stub = if joined < stubs.end {
            self.joins.apply(joined)
        } else {
            self.joins.invert(joined - (stubs.end - stubs.start))
        };
        self.place(self.degrees.owner(stub))
    }

    /// The place of the value of `vertex`.
    #[inline]
    pub(super) fn place(&self, vertex: u64) -> u64 {
        match &self.places {
            Some(places) if vertex < self.placed => places.place(vertex),
            _ => vertex,
        }
    }

    /// The vertex whose value lies at `place`.
    pub(super) fn vertex_at(&self, place: u64) -> u64 {
        match &self.places {
            Some(places) if place < self.placed => places.rank(place),
            _ => place,
        }
    }

    fn lists(&self) -> u64 {
        if self.undirected { 2 } else { 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each vertex occurs in the lists, and every pair (vertex, neighbour), sorted.
    fn edges(graph: &Generator) -> Vec<(u64, u64)> {
        let list = |vertex| {
            let entries = graph.first_entry(vertex)..graph.first_entry(vertex + 1);
            entries.map(move |entry| (vertex, graph.vertex_at(graph.neighbour(entry))))
        };
        let mut edges: Vec<(u64, u64)> = (0..graph.vertices()).flat_map(list).collect();
        edges.sort_unstable();
        edges
    }

    #[test]
    fn every_vertex_has_as_many_edges_out_as_it_says() {
        for (vertices, undirected) in [(1, false), (300, false), (5000, false), (700, true)] {
            let graph = Generator::new(vertices, undirected, Scatter::Pages, 3);
            let mut occurs = vec![0; vertices as usize];
            edges(&graph).iter().for_each(|&(_, neighbour)| occurs[neighbour as usize] += 1);
            for vertex in 0..vertices {
                assert_eq!(occurs[vertex as usize], graph.out_degree(vertex), "vertex {vertex}");
            }
            assert_eq!(graph.entries(), Generator::entries_of(vertices, undirected));
            assert_eq!(graph.entries(), graph.first_entry(vertices));
        }
    }

    #[test]
    fn an_undirected_graph_is_the_directed_one_in_both_directions() {
        let directed = edges(&Generator::new(1500, false, Scatter::Keys, 7));
        let mut both = directed.clone();
        both.extend(directed.iter().map(|&(from, to)| (to, from)));
        both.sort_unstable();
        assert_eq!(edges(&Generator::new(1500, true, Scatter::Keys, 7)), both);
    }

    #[test]
    fn places_are_a_bijection_that_shuffles_all_full_pages() {
        for scatter in [Scatter::Pages, Scatter::Keys] {
            let graph = Generator::new(10 * PER_PAGE + 99, false, scatter, 1);
            let mut hit = vec![false; graph.vertices() as usize];
            for vertex in 0..graph.vertices() {
                let place = graph.place(vertex);
                assert_eq!(graph.vertex_at(place), vertex);
                assert!(!std::mem::replace(&mut hit[place as usize], true));
            }
            let moved =
                (0..graph.vertices()).filter(|&vertex| graph.place(vertex) != vertex).count();
            assert!(moved as u64 > 5 * PER_PAGE, "{moved} vertices moved");
        }
    }

    #[test]
    fn neighbours_are_drawn_by_degree_and_hardly_ever_twice() {
        let graph = Generator::new(1 << 20, false, Scatter::Pages, 5);
        let vertices = (0..graph.vertices()).step_by(101);
        let (mut hubs, mut entries, mut twice) = (0, 0, 0);
        for vertex in vertices {
            let list = graph.first_entry(vertex)..graph.first_entry(vertex + 1);
            let mut list: Vec<u64> = list.map(|e| graph.vertex_at(graph.neighbour(e))).collect();
            entries += list.len();
            hubs += list.iter().filter(|&&neighbour| neighbour < 1 << 13).count();
            list.sort_unstable();
            twice += list.windows(2).filter(|pair| pair[0] == pair[1]).count();
        }
        // One vertex in 128 is a hub here, and has its share of all stubs.
        let share = graph.degrees.first_stub(1 << 13) as f64 / graph.degrees.stubs() as f64;
        let found = hubs as f64 / entries as f64;
        assert!(share > 0.2 && (found - share).abs() < 0.01, "{found} against {share}");
        // Hubs meet twice: 0.6% of the edges here, and less the greater the graph.
        assert!(twice * 100 < entries, "{twice} of {entries}");
    }

    #[test]
    fn seeds_give_different_graphs() {
        let graph = |seed| edges(&Generator::new(200, false, Scatter::Pages, seed));
        assert_eq!(graph(1), graph(1));
        assert_ne!(graph(1), graph(2));
    }
}
