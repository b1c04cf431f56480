//! [`ConnectedComponents`]: minimum-label propagation (FlatFlash, ASPLOS'19, Fig. 10).

use ebbtide_core::FullMemory;

use super::stored_graph::StoredGraph;
use super::vertex_program::{Rule, VertexProgram};
use crate::Corrupt;
use crate::kind::Kind;

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
pub type ConnectedComponents = VertexProgram<LeastLabel>;

/// Lowers the label of a vertex to the least of its neighbours'.
#[derive(Debug, Clone)]
pub struct LeastLabel;

impl Rule for LeastLabel {
    const KIND: Kind = Kind::ConnectedComponents;
    const NAME: &'static str = "connected-components";
    const DESCRIPTION: &'static str = "spreads the least label through a power-law graph";
    const MIX: &'static str =
        "about 16 vertices: lists of 800 edges together, as many labels read, lower ones written";
    const UNDIRECTED: bool = true;

    fn first(place: u64, _out_degree: u64) -> u64 {
        place
    }

    #[inline]
    fn update<M: FullMemory>(
        graph: &StoredGraph,
        memory: &mut M,
        vertex: u64,
    ) -> Result<(), Corrupt> {
        let row = graph.row(memory, vertex)?;
        let mut least = u64::MAX;
        graph.for_neighbours(memory, &row, |place, label| {
            check(place, label)?;
            least = least.min(label);
            Ok(())
        })?;
        let at = graph.value_address(vertex);
        loop {
            let label = label_of(graph, memory, vertex)?;
            if label <= least || graph.exchange(memory, at, label, least) {
                return Ok(());
            }
        }
    }
}

impl ConnectedComponents {
    /// Reads the current label of `vertex`. In the end it is the same for all vertices of a
    /// component.
    ///
    /// # Errors
    /// [`Corrupt`] if it reads invalid data.
    pub fn label<M: FullMemory>(&self, memory: &mut M, vertex: u64) -> Result<u64, Corrupt> {
        label_of(&self.graph, memory, vertex)
    }
}

fn label_of<M: FullMemory>(
    graph: &StoredGraph,
    memory: &mut M,
    vertex: u64,
) -> Result<u64, Corrupt> {
    let label = graph.read(memory, graph.value_address(vertex))?;
    check(graph.place(vertex), label).map(|()| label)
}

/// Returns an error if a label is above the place where it began.
#[inline]
pub(super) fn check(place: u64, label: u64) -> Result<(), Corrupt> {
    if label <= place {
        return Ok(());
    }
    Err(Corrupt(format!("the label at place {place} has risen to {label}")))
}
