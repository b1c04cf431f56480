//! [`BenchError`]: why a bench could not run.

use ebbtide_core::{Stopped, UnknownName};
use ebbtide_engine::store::StoreError;
use ebbtide_trace::TraceError;
use ebbtide_workloads::ShapeError;
use ebbtide_workloads::graph::GraphError;
use thiserror::Error;

use super::options::Mode;
use crate::doctor::probe::ProbeError;

/// An error that ends a bench.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum BenchError {
    #[error("{0}")]
    BadInput(String),
    #[error(transparent)]
    Name(#[from] UnknownName),
    #[error(transparent)]
    Shape(#[from] ShapeError),
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error("cannot keep what is replayed in a temporary file: {0}")]
    Replay(std::io::Error),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot measure the device: {0}")]
    Probe(#[from] ProbeError),
    #[error("the {mode} run of {workload} failed: {reason}")]
    Child { mode: Mode, workload: &'static str, reason: String },
    #[error("cannot measure what a switch between threads costs: {0}")]
    Switches(std::io::Error),
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl BenchError {
    /// Returns true if the user's input, rather than the run, is at fault.
    pub fn is_input(&self) -> bool {
        match self {
            BenchError::BadInput(_) | BenchError::Name(_) => true,
            BenchError::Shape(_) | BenchError::Graph(_) => true,
            BenchError::Store(error) => error.is_input(),
            BenchError::Trace(error) => error.is_input(),
            BenchError::Replay(_) => false,
            BenchError::Probe(_) | BenchError::Child { .. } => false,
            BenchError::Switches(_) | BenchError::Stopped(_) => false,
        }
    }
}
