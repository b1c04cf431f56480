//! [`Bench`], the bench of one workload, and [`Runner`], a child that takes part in it.

use ebbtide_core::Watch;

use super::child::Child;
use super::loaded_workload::LoadedWorkload;
use super::options::{BenchOptions, Mode};
use super::profile::Profile;
use crate::cgroup::MemoryCgroup;

/// The bench of one workload.
pub(super) struct Bench<'a> {
    pub(super) options: &'a BenchOptions,
    pub(super) subject: &'a LoadedWorkload,
    pub(super) cpus: &'a [usize],
    /// To predict with, if that is wished for.
    pub(super) profile: Option<&'a Profile>,
    pub(super) watch: Watch<'a>,
}

/// A child that takes part in the rounds.
pub(super) struct Runner {
    pub(super) mode: Mode,
    pub(super) child: Child,
    pub(super) threads_per_core: Option<usize>,
    /// Outlives the child: removed after it is gone.
    pub(super) limit: Option<MemoryCgroup>,
}
