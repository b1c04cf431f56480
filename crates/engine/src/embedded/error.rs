//! [`Error`]: why a store cannot be opened or used.

use std::path::PathBuf;

use ebbtide_core::durability::TransactionError;
use ebbtide_structures::keyspace::{
    Full, KEY_BYTES_MAX, NotKeyspace, VALUE_BYTES_MAX, WHOLE_BYTES_MAX,
};
use ebbtide_structures::{CatalogueError, Corrupt, MapFull, TreeError};
use thiserror::Error as ThisError;

use super::limits::{MAPS_MAX, NAME_BYTES_MAX, TAG};
use crate::api::engine_error::EngineError;
use crate::core::job_error::JobError;
use crate::store::StoreError;

/// Why a [`Store`](super::Store) cannot be opened or used. The text is one line.
///
/// ```
/// # use ebbtide_engine::embedded as ebbtide;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// # let store = ebbtide::Store::builder(path).size("4MiB").dram("8MiB").open()?;
/// use ebbtide::Error;
///
/// let users = store.map("users")?;
/// match users.insert("x".repeat(2_000), "a value") {
///     Err(Error::LongKey(bytes)) => assert_eq!(bytes, 2_000),
///     other => panic!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, ThisError)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum Error {
    #[error("{option}: {problem}")]
    Option { option: &'static str, problem: String },
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("{}: holds '{found}', expected '{TAG}': a store of this version's Store::builder", path.display())]
    Other { path: PathBuf, found: String },
    #[error("{}: {error}", path.display())]
    Damaged { path: PathBuf, error: NotKeyspace },
    #[error("a map has a name of 1 to {NAME_BYTES_MAX} bytes, not '{0}'")]
    BadName(String),
    #[error("'{name}' is {found}, expected {expected}")]
    OtherMap { name: String, found: &'static str, expected: &'static str },
    #[error("a store has at most {MAPS_MAX} maps")]
    TooManyMaps,
    #[error("a key of {0} bytes, expected at most {KEY_BYTES_MAX}")]
    LongKey(usize),
    #[error("a value of {0} bytes, expected at most {VALUE_BYTES_MAX}")]
    LongValue(usize),
    #[error("an element of {0} bytes, expected at most {WHOLE_BYTES_MAX} in a list")]
    LongElement(usize),
    #[error("a {what} that is no {expected}: {problem}")]
    OtherType { what: &'static str, expected: &'static str, problem: String },
    #[error("the store is full: nothing of the change took place; expected a larger one: grow it")]
    Full,
    #[error(transparent)]
    Structure(#[from] Corrupt),
    #[error(transparent)]
    Catalogue(#[from] CatalogueError),
    #[error(transparent)]
    MapFull(#[from] MapFull),
    #[error(transparent)]
    Transaction(#[from] TransactionError),
    #[error(transparent)]
    Job(#[from] JobError),
    #[error("opened by process {0}, before a fork: expected to be opened again after it")]
    Forked(u32),
    #[error("the store was stopped, or could not be opened again when it had grown")]
    Closed,
    /// The program's own, from a job or a transaction.
    #[error(transparent)]
    Program(#[from] Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// An error of the program's own, for a job or a transaction that gives up.
    pub fn program(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Program(error.into())
    }

    /// True if the program's or the user's input is at fault, rather than the device or a job.
    pub fn is_input(&self) -> bool {
        match self {
            Error::Engine(EngineError::Store(error)) => error.is_input(),
            Error::Transaction(error) => error.is_input(),
            Error::Engine(EngineError::Io { .. } | EngineError::Stuck { .. }) => false,
            Error::Job(_) | Error::Program(_) | Error::Closed => false,
            _ => true,
        }
    }

    /// The error that `option` is wrong.
    pub(super) fn option(option: &'static str, problem: impl ToString) -> Error {
        Error::Option { option, problem: problem.to_string() }
    }

    /// An error of the engine, with the option that it is about.
    pub(super) fn of_engine(error: EngineError) -> Error {
        match &error {
            EngineError::BudgetTooSmall { .. } => Error::option("dram", error),
            EngineError::BadOption { .. } | EngineError::TooManyStacks { .. } => {
                Error::option("cores", error)
            }
            EngineError::BadPages(_) => Error::option("size", error),
            _ => Error::Engine(error),
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        Error::Engine(error.into())
    }
}

/// The order of keys has no room: the store is full, whatever other pages it has.
impl From<TreeError> for Error {
    fn from(error: TreeError) -> Error {
        match error {
            TreeError::Corrupt(corrupt) => Error::Structure(corrupt),
            TreeError::Full { .. } => Error::Full,
        }
    }
}

impl From<Full> for Error {
    fn from(_: Full) -> Error {
        Error::Full
    }
}
