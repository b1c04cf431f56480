//! [`LoadedWorkload`]: a program with generated data, with a graph from a file (`--graph`), or with
//! a trace (`--trace`).
//!
//! Only the bench itself and the DRAM-only child hold a loaded graph. The other children have a
//! DRAM budget: they hold its size and read everything else from the data file.

use std::path::{Path, PathBuf};

use ebbtide_workloads::graph::{self, EdgeList, Summary};
use ebbtide_workloads::{ConnectedComponents, Kind, PageRank, Program, Shape, Workload};
use serde::{Deserialize, Serialize};

use super::error::BenchError;
use super::options::BenchOptions;
use super::replay::{self, StoredSteps};
use super::shape;

/// The workloads that can run on a graph from a file.
pub const GRAPH_WORKLOADS: [Kind; 2] = [Kind::PageRank, Kind::ConnectedComponents];

/// The workloads that run over a store that survives crashes, unless others are named.
pub const DURABLE_WORKLOADS: [Kind; 5] =
    [Kind::Tpcb, Kind::TatpMix, Kind::TpccMix, Kind::YcsbA, Kind::YcsbF];

/// A workload to measure.
pub(super) struct LoadedWorkload {
    /// The program, with its image.
    pub(super) program: Program,
    /// The graph, if it is from a file.
    pub(super) graph: Option<GraphFile>,
    /// The steps, if it replays a trace.
    pub(super) replay: Option<StoredSteps>,
}

/// A graph from a file, as one workload stores it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraphFile {
    /// The file.
    pub path: PathBuf,
    /// Number of vertices.
    pub vertices: u64,
    /// Number of entries in all lists of neighbours.
    pub entries: u64,
    /// Checksum of all that is stored.
    pub checksum: u64,
}

impl GraphFile {
    fn new(path: &Path, summary: Summary) -> GraphFile {
        let Summary { vertices, entries, checksum } = summary;
        GraphFile { path: path.to_path_buf(), vertices, entries, checksum }
    }

    /// The program `kind` on this graph, over memory that holds its image already.
    ///
    /// # Errors
    /// When `kind` does not run on graphs.
    pub(super) fn elsewhere(&self, kind: Kind, shape: &Shape) -> Result<Program, BenchError> {
        let GraphFile { vertices, entries, checksum, .. } = *self;
        let summary = Summary { vertices, entries, checksum };
        match kind {
            Kind::PageRank => Ok(Program::PageRank(PageRank::elsewhere(summary, shape))),
            Kind::ConnectedComponents => {
                Ok(Program::ConnectedComponents(ConnectedComponents::elsewhere(summary, shape)))
            }
            other => Err(no_graph_program(other)),
        }
    }

    /// The program `kind` on this graph, with its image. Reads the file again.
    ///
    /// # Errors
    /// When the graph cannot be read or has changed.
    pub(super) fn load(&self, kind: Kind, shape: &Shape) -> Result<Program, BenchError> {
        let (program, graph) = on_graph(kind, &graph::read(&self.path)?, &self.path, shape)?;
        if graph != *self {
            let path = self.path.display();
            return Err(BenchError::BadInput(format!("{path}: changed while the bench ran")));
        }
        Ok(program)
    }
}

/// Loads the workloads of `options`. With a graph or a trace from a file, sets the size of the
/// dataset to that of the largest image.
///
/// # Errors
/// When a program cannot have its shape, or the file cannot be read.
pub(super) fn subjects(options: &mut BenchOptions) -> Result<Vec<LoadedWorkload>, BenchError> {
    if let Some(path) = &options.trace {
        let (program, kept) = replay::read(path, options.trace_format, options.seed)?;
        options.dataset_bytes = program.size_bytes();
        return Ok(vec![LoadedWorkload { program, graph: None, replay: Some(kept) }]);
    }
    let kinds = options.workloads.iter().map(|name| Ok(name.parse::<Kind>()?));
    let kinds = kinds.collect::<Result<Vec<Kind>, BenchError>>()?;
    let Some(path) = options.graph.clone() else {
        let shape = shape(options);
        let generated = |kind: Kind| {
            Ok(LoadedWorkload { program: kind.build(&shape)?, graph: None, replay: None })
        };
        return kinds.into_iter().map(generated).collect();
    };
    if let Some(&other) = kinds.iter().find(|kind| !GRAPH_WORKLOADS.contains(kind)) {
        return Err(no_graph_program(other));
    }
    let edges = graph::read(&path)?;
    let mut subjects = Vec::new();
    for kind in kinds {
        let (program, graph) = on_graph(kind, &edges, &path, &shape(options))?;
        subjects.push(LoadedWorkload { program, graph: Some(graph), replay: None });
    }
    let largest = subjects.iter().map(|subject| subject.program.size_bytes()).max();
    options.dataset_bytes = largest.unwrap_or(options.dataset_bytes);
    Ok(subjects)
}

/// The program `kind` on the graph of `edges`, which was read from `path`.
fn on_graph(
    kind: Kind,
    edges: &EdgeList,
    path: &Path,
    shape: &Shape,
) -> Result<(Program, GraphFile), BenchError> {
    let (program, summary) = match kind {
        Kind::PageRank => {
            let (program, summary) = PageRank::of(edges, shape);
            (Program::PageRank(program), summary)
        }
        Kind::ConnectedComponents => {
            let (program, summary) = ConnectedComponents::of(edges, shape);
            (Program::ConnectedComponents(program), summary)
        }
        other => return Err(no_graph_program(other)),
    };
    Ok((program, GraphFile::new(path, summary)))
}

fn no_graph_program(kind: Kind) -> BenchError {
    let programs = GRAPH_WORKLOADS.map(Kind::name).join(" and ");
    BenchError::BadInput(format!("--graph: '{}' runs on no graph, only {programs} do", kind.name()))
}
