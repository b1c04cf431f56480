//! [`Degrees`]: the degree of each vertex of a generated graph, computed and not stored.

use std::ops::Range;

/// The least degree. It makes the mean degree 24, as in Twitter's graph (1.5 billion edges between
/// 61.5 million vertices, FlatFlash, ASPLOS'19, Fig. 10).
const DEGREE_MIN: u64 = 6;

/// The greatest degree, which is Friendster's (SNAP, com-Friendster).
const DEGREE_MAX: u64 = 5214;

/// A vertex has degree `d` or more with probability `∝ d^-1.276`: Twitter's followers (Kwak, Lee,
/// Park and Moon, WWW'10: a power law of exponent 2.276).
const TAIL_EXPONENT: f64 = 1.276;

/// Degrees above fifty differ by this factor, which makes 254 different degrees.
const STEP_SHARE: f64 = 0.02;

/// The approximate number of stubs of a block: 16 vertices of average degree.
pub(super) const BLOCK_STUBS: u64 = 384;

/// Shares of vertices are in parts of 2³².
const SHARE_BITS: u32 = 32;

/// The degrees of vertices `0..vertices()` in decreasing order. A vertex has as many *stubs* (ends
/// of edges) as its degree; stubs are numbered in the order of their vertices.
///
/// Vertices of one degree are a class. A graph of any size has a few hundred classes. So a search
/// among classes and a division find the first stub of a vertex and the vertex of a stub.
#[derive(Debug, Clone)]
pub(super) struct Degrees {
    classes: Vec<Class>,
    vertices: u64,
    stubs: u64,
    blocks: u64,
}

/// Vertices of one degree.
#[derive(Debug, Clone, Copy)]
struct Class {
    first_vertex: u64,
    first_stub: u64,
    first_block: u64,
    degree: u64,
}

impl Class {
    fn vertices_per_block(self) -> u64 {
        (BLOCK_STUBS / self.degree).max(1)
    }
}

impl Degrees {
    /// A power law over `vertices` vertices.
    pub(super) fn power_law(vertices: u64) -> Degrees {
        let mut degrees = Degrees { classes: Vec::new(), vertices: 0, stubs: 0, blocks: 0 };
        for (degree, upto) in upto_each_degree(vertices) {
            let count = upto - degrees.vertices;
            if count > 0 {
                let Degrees {
                    vertices: first_vertex, stubs: first_stub, blocks: first_block, ..
                } = degrees;
                let class = Class { first_vertex, first_stub, first_block, degree };
                degrees.classes.push(class);
                degrees.blocks += count.div_ceil(class.vertices_per_block());
            }
            degrees.vertices = upto;
            degrees.stubs += count * degree;
        }
        degrees
    }

    /// The number of stubs of a power law over `vertices` vertices, which increases with every
    /// vertex.
    pub(super) fn stubs_of(vertices: u64) -> u64 {
        let mut before = 0;
        let stubs_of_degree =
            |(degree, upto)| (upto - std::mem::replace(&mut before, upto)) * degree;
        upto_each_degree(vertices).map(stubs_of_degree).sum()
    }

    /// The number of vertices.
    pub(super) fn vertices(&self) -> u64 {
        self.vertices
    }

    /// The number of stubs: the sum of all degrees.
    pub(super) fn stubs(&self) -> u64 {
        self.stubs
    }

    /// The number of blocks.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The vertices of a block: consecutive vertices of one degree with about as many stubs
    /// together as any other block. A hub with more stubs is a block of its own.
    #[inline]
    pub(super) fn block(&self, block: u64) -> Range<u64> {
        debug_assert!(block < self.blocks);
        let after = self.classes.partition_point(|class| class.first_block <= block);
        let class = self.classes[after - 1];
        let first = class.first_vertex + (block - class.first_block) * class.vertices_per_block();
        let class_end = self.classes.get(after).map_or(self.vertices, |next| next.first_vertex);
        first..(first + class.vertices_per_block()).min(class_end)
    }

    /// The degree of `vertex`.
    #[inline]
    pub(super) fn degree(&self, vertex: u64) -> u64 {
        self.class_of_vertex(vertex).degree
    }

    /// The first stub of `vertex`. For the vertex after the last, the number of stubs.
    #[inline]
    pub(super) fn first_stub(&self, vertex: u64) -> u64 {
        let class = self.class_of_vertex(vertex);
        class.first_stub + (vertex - class.first_vertex) * class.degree
    }

    /// The vertex that `stub` belongs to.
    #[inline]
    pub(super) fn owner(&self, stub: u64) -> u64 {
        let class = self.class_of_stub(stub);
        class.first_vertex + (stub - class.first_stub) / class.degree
    }

    /// All stubs of the vertex that `stub` belongs to.
    #[inline]
    pub(super) fn siblings(&self, stub: u64) -> Range<u64> {
        let class = self.class_of_stub(stub);
        let first = stub - (stub - class.first_stub) % class.degree;
        first..first + class.degree
    }

    #[inline]
    fn class_of_stub(&self, stub: u64) -> Class {
        debug_assert!(stub < self.stubs);
        let after = self.classes.partition_point(|class| class.first_stub <= stub);
        self.classes[after - 1]
    }

    #[inline]
    fn class_of_vertex(&self, vertex: u64) -> Class {
        debug_assert!(vertex <= self.vertices);
        let after = self.classes.partition_point(|class| class.first_vertex <= vertex);
        self.classes[after - 1]
    }
}

/// Every degree in decreasing order, with the number of vertices of at least this degree.
fn upto_each_degree(vertices: u64) -> impl Iterator<Item = (u64, u64)> {
    let next = |&degree: &u64| {
        let lower = ((degree as f64 * (1.0 - STEP_SHARE)) as u64).min(degree - 1);
        (degree > DEGREE_MIN).then_some(lower.max(DEGREE_MIN))
    };
    std::iter::successors(Some(DEGREE_MAX), next).map(move |degree| {
        let share = (degree as f64 / DEGREE_MIN as f64).powf(-TAIL_EXPONENT);
        // Rounded, so that the last bits of the power do not matter.
        let parts = (share * (1u64 << SHARE_BITS) as f64).round() as u128;
        (degree, ((u128::from(vertices) * parts) >> SHARE_BITS) as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stubs_are_what_the_degrees_add_up_to() {
        for vertices in [1, 2, 10, 100, 1234, 30_000] {
            let degrees = Degrees::power_law(vertices);
            let mut stub = 0;
            for vertex in 0..vertices {
                assert_eq!(degrees.first_stub(vertex), stub);
                let stubs = stub..stub + degrees.degree(vertex);
                for _ in stubs.clone() {
                    assert_eq!(
                        (degrees.owner(stub), degrees.siblings(stub)),
                        (vertex, stubs.clone())
                    );
                    stub += 1;
                }
            }
            assert_eq!((degrees.vertices(), degrees.stubs()), (vertices, stub));
            assert_eq!(degrees.first_stub(vertices), stub);
            assert_eq!(Degrees::stubs_of(vertices), stub);
        }
    }

    #[test]
    fn blocks_hold_every_vertex_once_and_no_great_share_of_the_stubs() {
        for vertices in [1, 2, 100, 30_000] {
            let degrees = Degrees::power_law(vertices);
            let mut next = 0;
            for block in (0..degrees.blocks()).map(|block| degrees.block(block)) {
                assert!(block.start == next && block.end > next, "{block:?} after {next}");
                let stubs = degrees.first_stub(block.end) - degrees.first_stub(block.start);
                assert!(stubs <= BLOCK_STUBS || block.end - block.start == 1, "{block:?}");
                next = block.end;
            }
            assert_eq!(next, vertices);
        }
    }

    proptest! {
        #[test]
        fn a_vertex_more_has_at_least_the_fewest_stubs_more(vertices in 1u64..1 << 36) {
            let more = Degrees::stubs_of(vertices + 1) - Degrees::stubs_of(vertices);
            prop_assert!(more >= DEGREE_MIN);
        }

        #[test]
        fn great_graphs_are_searched_right(vertices in 1u64..1 << 36, part in 0.0..1.0f64) {
            let degrees = Degrees::power_law(vertices);
            let stub = (degrees.stubs() as f64 * part) as u64;
            let owner = degrees.owner(stub);
            prop_assert!((degrees.first_stub(owner)..degrees.first_stub(owner + 1)).contains(&stub));
        }
    }

    #[test]
    fn degrees_follow_the_power_law_of_twitter() {
        let vertices = 61_500_000;
        let degrees = Degrees::power_law(vertices);
        let mean = degrees.stubs() as f64 / vertices as f64;
        assert!((23.5..24.5).contains(&mean), "{mean} edges a vertex");
        assert_eq!((degrees.degree(0), degrees.degree(vertices - 1)), (DEGREE_MAX, DEGREE_MIN));
        assert!((1..vertices).step_by(997).all(|v| degrees.degree(v) <= degrees.degree(v - 1)));
        // Of vertices with degree d or more there are (d / 6)^-1.276: the slope of the tail.
        let at_least = |degree: u64| {
            let (mut low, mut high) = (0, vertices);
            while low < high {
                let middle = (low + high) / 2;
                if degrees.degree(middle) >= degree { low = middle + 1 } else { high = middle }
            }
            low as f64
        };
        let slope = (at_least(3000) / at_least(30)).ln() / 100f64.ln();
        assert!((slope + 1.276).abs() < 0.01, "{slope}");
        assert!(degrees.classes.len() < 300);
    }
}
