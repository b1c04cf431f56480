//! [`Program`]: programs that are chosen by name at run time.

use std::ops::Range;

use ebbtide_core::{FullMemory, PageId, UnknownName, brief, find_by_name, serde};
use thiserror::Error;

use crate::{
    Accesses, ArraySwap, Corrupt, HashTable, Kind, Named, PageBytes, RedBlackTree, Replay, SKEWS,
    Shape, Tatp, Workload,
};

/// An error of building a program.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ShapeError {
    /// No program has this name.
    #[error(transparent)]
    UnknownProgram(#[from] UnknownName),
    /// The dataset is too small for the structure, or too large for its links.
    #[error(
        "workload '{program}' needs a dataset of {min_bytes} to {max_bytes} bytes, not \
         {given_bytes}"
    )]
    DatasetBytes {
        /// The program.
        program: &'static str,
        /// `dataset_bytes` as given.
        given_bytes: u64,
        /// The least size that holds the structure, in bytes.
        min_bytes: u64,
        /// The greatest size that its links can address, in bytes.
        max_bytes: u64,
    },
    /// The skew is out of its range.
    #[error("Zipf theta must be a number from 0 to 10, not {}", brief(*.0))]
    Theta(f64),
}

/// Implements [`Kind`] and [`Program`] from the list of programs.
macro_rules! programs {
    ($($program:ident: $workload:ty),+ $(,)?) => {
        /// Any of the programs, or a replay: a [`Workload`] that is chosen at run time.
        #[derive(Debug, Clone)]
        pub enum Program {
            $(#[doc = concat!("A [`", stringify!($workload), "`].")] $program($workload),)+
            /// A [`Replay`], which is made of a trace and so has no [`Kind`].
            Replay(Replay),
        }

        impl Kind {
            /// Every program.
            pub const ALL: [Kind; [$(Kind::$program),+].len()] = [$(Kind::$program),+];

            /// Returns the name in options and results.
            pub fn name(self) -> &'static str {
                match self { $(Kind::$program => <$workload as Named>::NAME),+ }
            }

            /// Returns a description of the program, in one line.
            pub fn description(self) -> &'static str {
                match self { $(Kind::$program => <$workload as Named>::DESCRIPTION),+ }
            }

            /// Returns the work of one job, in one line.
            pub fn mix(self) -> &'static str {
                match self { $(Kind::$program => <$workload as Named>::MIX),+ }
            }

            /// Returns the source of its definition.
            pub fn source(self) -> &'static str {
                match self { $(Kind::$program => <$workload as Named>::SOURCE),+ }
            }

            /// Returns the least [`Shape::dataset_bytes`] that holds the structure.
            pub fn min_bytes(self) -> u64 {
                match self { $(Kind::$program => <$workload as Named>::MIN_BYTES),+ }
            }

            /// Returns the stack size that a job needs, in bytes.
            pub fn stack_bytes(self) -> usize {
                match self { $(Kind::$program => <$workload as Named>::STACK_BYTES),+ }
            }

            fn build_checked(self, shape: &Shape) -> Program {
                match self {
                    $(Kind::$program => Program::$program(Named::with_shape(shape))),+
                }
            }
        }

        impl std::str::FromStr for Kind {
            type Err = UnknownName;

            fn from_str(name: &str) -> Result<Kind, UnknownName> {
                find_by_name("workload", name, &Kind::ALL.map(|kind| (kind.name(), kind)))
            }
        }

        impl serde::Serialize for Kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl std::fmt::Display for Kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl Program {
            /// Returns the kind of the program; `None` for a replay.
            pub fn kind(&self) -> Option<Kind> {
                match self {
                    $(Program::$program(_) => Some(Kind::$program),)+
                    Program::Replay(_) => None,
                }
            }
        }

        /// Evaluates an expression for any program.
        macro_rules! each {
            ($any:expr, $one:ident => $does:expr) => {
                match $any {
                    $(Program::$program($one) => $does,)+
                    Program::Replay($one) => $does,
                }
            };
        }
    };
}

programs! {
    ArraySwap: ArraySwap,
    HashTable: HashTable,
    RedBlackTree: RedBlackTree,
    Tatp: Tatp,
    Gups: crate::Gups,
    PageRank: crate::PageRank,
    ConnectedComponents: crate::ConnectedComponents,
    TatpMix: crate::TatpMix,
    YcsbA: crate::ycsb::YcsbA,
    YcsbB: crate::ycsb::YcsbB,
    YcsbC: crate::ycsb::YcsbC,
    YcsbD: crate::ycsb::YcsbD,
    YcsbF: crate::ycsb::YcsbF,
    YcsbB64: crate::ycsb::YcsbB64,
    YcsbD64: crate::ycsb::YcsbD64,
    Tpcb: crate::Tpcb,
    Tpcc: crate::Tpcc,
    TpccMix: crate::TpccMix,
    Masstree: crate::masstree::Masstree,
    Silo: crate::silo_tpcc::SiloTpcc,
    YcsbE: crate::ycsb::YcsbE,
    SeqRead: crate::SeqRead,
    SeqWrite: crate::SeqWrite,
    RandomRead: crate::RandomRead,
    RandomWrite: crate::RandomWrite,
    SqlSeqSelect: crate::sql::SqlSeqSelect,
    SqlRandomSelect: crate::sql::SqlRandomSelect,
    SqlSeqInsert: crate::sql::SqlSeqInsert,
    SqlRandomInsert: crate::sql::SqlRandomInsert,
    SqlUpdate: crate::sql::SqlUpdate,
    GupsFromOne: crate::GupsFromOne,
    PageRankShards: crate::PageRankShards,
    ConnectedComponentsShards: crate::ConnectedComponentsShards,
}

impl Kind {
    /// The seven programs of AstriFlash (HPCA'23, §V-A).
    pub const ASTRIFLASH: [Kind; 7] = [
        Kind::ArraySwap,
        Kind::HashTable,
        Kind::RedBlackTree,
        Kind::Tatp,
        Kind::Tpcc,
        Kind::Masstree,
        Kind::Silo,
    ];

    /// The greatest dataset of any program in bytes: 64 TiB, 2⁴⁰ lines.
    pub const MAX_BYTES: u64 = 64 << 40;

    /// Builds the program, in constant time and memory for any size.
    ///
    /// # Errors
    /// [`ShapeError`] when the program cannot have this shape.
    pub fn build(self, shape: &Shape) -> Result<Program, ShapeError> {
        if !SKEWS.contains(&shape.theta) {
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
        Ok(self.build_checked(shape))
    }
}

impl Program {
    /// Builds the program called `name`.
    ///
    /// # Errors
    /// [`ShapeError`] when there is no such program, or it cannot have this shape.
    pub fn new(name: &str, shape: &Shape) -> Result<Program, ShapeError> {
        name.parse::<Kind>()?.build(shape)
    }

    /// Returns the name in options and results, or `replay`.
    pub fn name(&self) -> &'static str {
        self.kind().map_or(Replay::NAME, Kind::name)
    }

    /// Returns the stack size that a job needs, in bytes.
    pub fn stack_bytes(&self) -> usize {
        self.kind().map_or(Replay::STACK_BYTES, Kind::stack_bytes)
    }

    /// Returns the number of jobs in a pass over all vertices; `None` unless it is a graph program.
    pub fn jobs_per_pass(&self) -> Option<u64> {
        match self {
            Program::PageRank(program) => Some(program.jobs_per_pass()),
            Program::ConnectedComponents(program) => Some(program.jobs_per_pass()),
            Program::PageRankShards(program) => Some(program.jobs_per_pass()),
            Program::ConnectedComponentsShards(program) => Some(program.jobs_per_pass()),
            _ => None,
        }
    }

    /// Returns the same program with `instructions` of added computing per job.
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

    fn image(&self, page: PageId, out: &mut PageBytes) {
        each!(self, workload => workload.image(page, out));
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        each!(self, workload => workload.image_lines(page, lines, out))
    }

    #[inline]
    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        each!(self, workload => workload.run(job, memory))
    }

    #[inline]
    fn accesses(&self, job: u64, accesses: &mut Accesses) -> bool {
        each!(self, workload => workload.accesses(job, accesses))
    }

    fn writes(&self) -> bool {
        each!(self, workload => workload.writes())
    }

    fn commits(&self) -> bool {
        each!(self, workload => workload.commits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_builds_its_program_at_its_least_size_and_no_smaller() {
        for kind in Kind::ALL {
            let name = kind.name();
            let mut shape = Shape { dataset_bytes: kind.min_bytes(), ..Shape::default() };
            let program = Program::new(name, &shape).unwrap();
            assert_eq!((program.kind(), program.name()), (Some(kind), name));
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
    fn a_skew_out_of_range_is_refused() {
        for theta in [-0.1, 1e308, f64::NAN, f64::INFINITY] {
            let shape = Shape { theta, ..Shape::default() };
            assert!(matches!(Program::new("array-swap", &shape), Err(ShapeError::Theta(_))));
        }
    }

    #[test]
    fn nearly_all_of_a_dataset_is_filled() {
        for kind in Kind::ALL {
            let name = kind.name();
            let shape = Shape { dataset_bytes: (1 << 30) + 12_345, ..Shape::default() };
            let filled = kind.build(&shape).unwrap().size_bytes();
            assert!(filled <= shape.dataset_bytes && filled > (1 << 30) / 100 * 97, "{name}");
        }
    }
}
