//! [`EdgeList`] and [`Csr`]: a graph in host memory, as a list of edges and as compressed sparse
//! rows.

use ebbtide_structures::hash::mix;

/// A directed graph of vertices `0..vertices()` as a list of its edges.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EdgeList {
    vertices: u32,
    edges: Vec<[u32; 2]>,
}

/// The properties of a loaded graph that jobs need without having its edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// The number of vertices.
    pub vertices: u64,
    /// The number of entries of all lists of neighbours: one per edge, or two in an undirected
    /// graph.
    pub entries: u64,
    /// The checksum of all lists in their order.
    pub checksum: u64,
}

impl EdgeList {
    /// Returns the graph of `vertices` vertices with these edges, each from its first to its second
    /// vertex. Loops and double edges stay.
    ///
    /// # Panics
    /// If a vertex of an edge is not below `vertices`.
    pub fn new(vertices: u32, edges: Vec<[u32; 2]>) -> EdgeList {
        let ends = edges.iter().flatten().max();
        assert!(ends.is_none_or(|&end| end < vertices), "an edge beyond {vertices} vertices");
        EdgeList { vertices, edges }
    }

    /// Returns the number of vertices.
    pub fn vertices(&self) -> u32 {
        self.vertices
    }

    /// Returns the edges, each from its first vertex to its second.
    pub fn edges(&self) -> &[[u32; 2]] {
        &self.edges
    }
}

/// The lists of neighbours of all vertices, one after the other (compressed sparse rows).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Csr {
    /// The first entry of each vertex's list, and the end of the last list.
    first_entries: Vec<u64>,
    neighbours: Vec<u32>,
    out_degrees: Vec<u32>,
}

impl Csr {
    /// The lists of the sources of incoming edges.
    pub(super) fn incoming(graph: &EdgeList) -> Csr {
        Csr::sorted(graph.vertices, || graph.edges.iter().copied())
    }

    /// The lists of neighbours in both directions.
    pub(super) fn undirected(graph: &EdgeList) -> Csr {
        let both_ways = |&[from, to]: &[u32; 2]| [[from, to], [to, from]];
        Csr::sorted(graph.vertices, || graph.edges.iter().flat_map(both_ways))
    }

    /// Sorts `edges` by their second vertex, in the order they come.
    fn sorted<I: Iterator<Item = [u32; 2]>>(vertices: u32, edges: impl Fn() -> I) -> Csr {
        let mut ends = vec![0u64; vertices as usize + 1];
        let mut out_degrees = vec![0u32; vertices as usize];
        for [from, to] in edges() {
            ends[to as usize + 1] += 1;
            out_degrees[from as usize] += 1;
        }
        let mut total = 0;
        for end in &mut ends {
            total += *end;
            *end = total;
        }
        // `ends[v]` is now where the list of `v` begins; it moves to its end as the list fills.
        let mut neighbours = vec![0; total as usize];
        for [from, to] in edges() {
            let entry = &mut ends[to as usize];
            neighbours[*entry as usize] = from;
            *entry += 1;
        }
        ends.rotate_right(1);
        ends[0] = 0;
        Csr { first_entries: ends, neighbours, out_degrees }
    }

    /// How many vertices, how many entries, and the checksum of them.
    pub(super) fn summary(&self) -> Summary {
        let numbers = self.first_entries.iter().copied();
        let numbers = numbers.chain(self.neighbours.iter().map(|&vertex| u64::from(vertex)));
        Summary {
            vertices: self.out_degrees.len() as u64,
            entries: self.neighbours.len() as u64,
            checksum: numbers.fold(0, |sum, number| mix(sum ^ number)),
        }
    }

    /// The first entry of the list of `vertex`. For the vertex after the last, the end of the last
    /// list.
    pub(super) fn first_entry(&self, vertex: u64) -> u64 {
        self.first_entries[vertex as usize]
    }

    /// The vertex in entry `entry`.
    pub(super) fn neighbour(&self, entry: u64) -> u64 {
        u64::from(self.neighbours[entry as usize])
    }

    /// The out-degree of `vertex`.
    pub(super) fn out_degree(&self, vertex: u64) -> u64 {
        u64::from(self.out_degrees[vertex as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lists(csr: &Csr) -> Vec<Vec<u64>> {
        let list = |vertex| csr.first_entry(vertex)..csr.first_entry(vertex + 1);
        let vertices = 0..csr.summary().vertices;
        vertices.map(|vertex| list(vertex).map(|entry| csr.neighbour(entry)).collect()).collect()
    }

    #[test]
    fn lists_hold_sources_in_order_with_loops_and_double_edges() {
        let graph = EdgeList::new(4, vec![[0, 1], [3, 1], [0, 1], [2, 2], [1, 0]]);
        let incoming = Csr::incoming(&graph);
        assert_eq!(lists(&incoming), [vec![1], vec![0, 3, 0], vec![2], vec![]]);
        assert_eq!((0..4).map(|v| incoming.out_degree(v)).collect::<Vec<_>>(), [2, 1, 1, 1]);
        let undirected = Csr::undirected(&graph);
        assert_eq!(lists(&undirected), [vec![1, 1, 1], vec![0, 3, 0, 0], vec![2, 2], vec![1]]);
        assert!(
            (0..4).all(|v| undirected.out_degree(v) == lists(&undirected)[v as usize].len() as u64)
        );
    }

    proptest! {
        #[test]
        fn any_other_graph_has_another_checksum(
            edges in prop::collection::vec([0u32..50, 0u32..50], 1..100), at: prop::sample::Index,
        ) {
            let summary = |edges: Vec<[u32; 2]>| Csr::incoming(&EdgeList::new(50, edges)).summary();
            let mut other = edges.clone();
            let changed = &mut other[at.index(edges.len())];
            changed[0] = (changed[0] + 1) % 50;
            prop_assert_ne!(summary(edges), summary(other));
        }
    }

    #[test]
    #[should_panic(expected = "beyond 3 vertices")]
    fn an_edge_to_nowhere_is_a_bug() {
        EdgeList::new(3, vec![[0, 3]]);
    }
}
