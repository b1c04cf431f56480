//! The programs by name: what there is to choose from, and how one is built.

use ebbtide_core::{Memory, PAGE_BYTES, PageId, UnknownName, find_by_name};
use thiserror::Error;

use crate::{ArraySwap, HashTable, RedBlackTree, Scatter, Tatp, Workload, Wrong};

/// What a program's data and job stream look like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Upper bound of the image in bytes; a program fills as much of it as its structure allows.
    pub dataset_bytes: u64,
    /// Zipf skew of the keys: 0 is uniform.
    pub theta: f64,
    /// How popular keys are laid over pages.
    pub scatter: Scatter,
    /// Selects the layout and the job stream.
    pub seed: u64,
    /// Simple instructions computed per job, spread over the job's accesses.
    pub work_instructions: u64,
}

impl Default for Shape {
    /// 1 GiB, Zipf θ = 0.99 (SPEC part D), hot data clustered on pages, no computing.
    fn default() -> Shape {
        Shape {
            dataset_bytes: 1 << 30,
            theta: 0.99,
            scatter: Scatter::Pages,
            seed: 1,
            work_instructions: 0,
        }
    }
}

/// Why a program cannot be built.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ShapeError {
    /// No program has this name.
    #[error(transparent)]
    UnknownProgram(#[from] UnknownName),
    /// The structure needs more room, or its links would not fit in a word.
    #[error(
        "workload '{program}' needs a dataset of {min_bytes} to {max_bytes} bytes, not \
         {given_bytes}"
    )]
    DatasetBytes {
        /// Which program.
        program: &'static str,
        /// `dataset_bytes` as given.
        given_bytes: u64,
        /// The least that holds the structure.
        min_bytes: u64,
        /// The most it can address.
        max_bytes: u64,
    },
    /// Not a skew.
    #[error("Zipf theta must be a number of at least 0, not {0}")]
    Theta(f64),
}

/// Which program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`ArraySwap`].
    ArraySwap,
    /// [`HashTable`].
    HashTable,
    /// [`RedBlackTree`].
    RedBlackTree,
    /// [`Tatp`].
    Tatp,
}

impl Kind {
    /// Every program with the name users type.
    pub const ALL: [(&str, Kind); 4] = [
        ("array-swap", Kind::ArraySwap),
        ("hash-table", Kind::HashTable),
        ("red-black-tree", Kind::RedBlackTree),
        ("tatp", Kind::Tatp),
    ];

    /// The most that any program addresses: 64 TiB, 2⁴⁰ lines.
    pub const MAX_BYTES: u64 = 64 << 40;

    /// The program called `name`.
    ///
    /// # Errors
    /// [`UnknownName`] when there is none.
    pub fn from_name(name: &str) -> Result<Kind, UnknownName> {
        find_by_name("workload", name, &Kind::ALL)
    }

    /// The name users type.
    pub fn name(self) -> &'static str {
        match self {
            Kind::ArraySwap => "array-swap",
            Kind::HashTable => "hash-table",
            Kind::RedBlackTree => "red-black-tree",
            Kind::Tatp => "tatp",
        }
    }

    /// What it is, in one line.
    pub fn description(self) -> &'static str {
        match self {
            Kind::ArraySwap => "swaps two 64-byte elements of an array",
            Kind::HashTable => "looks keys up in a chained hash table of 64-byte nodes",
            Kind::RedBlackTree => "looks keys up in a red-black tree of 64-byte nodes",
            Kind::Tatp => "updates a telecom subscriber and one of its facilities",
        }
    }

    /// What one job does, in one line.
    pub fn mix(self) -> &'static str {
        match self {
            Kind::ArraySwap => "1 swap: 2 reads, 2 writes",
            Kind::HashTable => "4 look-ups: 4 bucket heads and about 8 nodes read",
            Kind::RedBlackTree => "4 look-ups: about log2(keys) - 1 nodes read each",
            Kind::Tatp => "1 UPDATE_SUBSCRIBER_DATA: 2 rows read, both written in 62.5% of jobs",
        }
    }

    /// Where it is defined.
    pub fn source(self) -> &'static str {
        match self {
            Kind::ArraySwap => "AstriFlash (HPCA'23) section V-A; 64-byte elements are ours",
            Kind::HashTable | Kind::RedBlackTree => {
                "AstriFlash (HPCA'23) section V-A; 64-byte nodes are ours"
            }
            Kind::Tatp => "AstriFlash (HPCA'23) section V-A; columns from the TATP description",
        }
    }

    /// The least `dataset_bytes` that holds its structure.
    pub fn min_bytes(self) -> u64 {
        match self {
            Kind::ArraySwap => ArraySwap::MIN_BYTES,
            Kind::HashTable => HashTable::MIN_BYTES,
            Kind::RedBlackTree => RedBlackTree::MIN_BYTES,
            Kind::Tatp => Tatp::MIN_BYTES,
        }
    }

    /// Builds it. Takes no memory and no time, whatever the size.
    ///
    /// # Errors
    /// [`ShapeError`] when `shape` is not one this program can have.
    pub fn build(self, shape: &Shape) -> Result<Program, ShapeError> {
        if !(shape.theta.is_finite() && shape.theta >= 0.0) {
            return Err(ShapeError::Theta(shape.theta));
        }
        if !(self.min_bytes()..=Kind::MAX_BYTES).contains(&shape.dataset_bytes) {
            return Err(ShapeError::DatasetBytes {
                program: self.name(),
                given_bytes: shape.dataset_bytes,
                min_bytes: self.min_bytes(),
                max_bytes: Kind::MAX_BYTES,
            });
        }
        Ok(match self {
            Kind::ArraySwap => Program::ArraySwap(ArraySwap::new(shape)),
            Kind::HashTable => Program::HashTable(HashTable::new(shape)),
            Kind::RedBlackTree => Program::RedBlackTree(RedBlackTree::new(shape)),
            Kind::Tatp => Program::Tatp(Tatp::new(shape)),
        })
    }
}

/// Any of the programs: a [`Workload`] chosen at run time.
#[derive(Debug, Clone)]
pub enum Program {
    /// Swaps in an array.
    ArraySwap(ArraySwap),
    /// Look-ups in a hash table.
    HashTable(HashTable),
    /// Look-ups in a red-black tree.
    RedBlackTree(RedBlackTree),
    /// TATP's UPDATE_SUBSCRIBER_DATA.
    Tatp(Tatp),
}

/// Does the same with whichever program it is.
macro_rules! each {
    ($program:expr, $workload:ident => $does:expr) => {
        match $program {
            Program::ArraySwap($workload) => $does,
            Program::HashTable($workload) => $does,
            Program::RedBlackTree($workload) => $does,
            Program::Tatp($workload) => $does,
        }
    };
}

impl Program {
    /// Builds the program called `name`.
    ///
    /// # Errors
    /// [`ShapeError`] when there is no such program, or it cannot have this shape.
    pub fn new(name: &str, shape: &Shape) -> Result<Program, ShapeError> {
        Kind::from_name(name)?.build(shape)
    }

    /// Which program it is.
    pub fn kind(&self) -> Kind {
        match self {
            Program::ArraySwap(_) => Kind::ArraySwap,
            Program::HashTable(_) => Kind::HashTable,
            Program::RedBlackTree(_) => Kind::RedBlackTree,
            Program::Tatp(_) => Kind::Tatp,
        }
    }

    /// The same program computing `instructions` per job.
    #[must_use]
    pub fn with_work(mut self, instructions: u64) -> Program {
        each!(&mut self, workload => workload.set_work(instructions));
        self
    }
}

impl Workload for Program {
    fn size_bytes(&self) -> u64 {
        each!(self, workload => workload.size_bytes())
    }

    fn image(&self, page: PageId, out: &mut [u8; PAGE_BYTES]) {
        each!(self, workload => workload.image(page, out));
    }

    #[inline]
    fn run<M: Memory>(&self, job: u64, memory: &mut M) -> Result<(), Wrong> {
        each!(self, workload => workload.run(job, memory))
    }

    fn writes(&self) -> bool {
        each!(self, workload => workload.writes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_builds_its_program_at_its_least_size_and_no_smaller() {
        for (name, kind) in Kind::ALL {
            let mut shape = Shape { dataset_bytes: kind.min_bytes(), ..Shape::default() };
            let program = Program::new(name, &shape).unwrap();
            assert_eq!((program.kind(), kind.name()), (kind, name));
            assert!(program.size_bytes() <= shape.dataset_bytes);
            shape.dataset_bytes -= 1;
            let error = Program::new(name, &shape).unwrap_err().to_string();
            assert!(error.contains(&kind.min_bytes().to_string()), "{error}");
        }
    }

    #[test]
    fn a_misspelt_name_is_offered_the_nearest() {
        let error = Program::new("hashtable", &Shape::default()).unwrap_err();
        assert!(error.to_string().contains("did you mean 'hash-table'?"), "{error}");
    }

    #[test]
    fn a_skew_that_is_no_number_is_refused() {
        for theta in [-0.1, f64::NAN, f64::INFINITY] {
            let shape = Shape { theta, ..Shape::default() };
            assert!(matches!(Program::new("array-swap", &shape), Err(ShapeError::Theta(_))));
        }
    }

    #[test]
    fn nearly_all_of_a_dataset_is_filled() {
        for (name, kind) in Kind::ALL {
            let shape = Shape { dataset_bytes: (1 << 30) + 12_345, ..Shape::default() };
            let filled = kind.build(&shape).unwrap().size_bytes();
            assert!(filled <= shape.dataset_bytes && filled > (1 << 30) / 100 * 97, "{name}");
        }
    }
}
