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

impl Runner {
    /// Whether it may use no more than the budget.
    pub(super) fn is_limited(&self) -> bool {
        self.mode == Mode::Paging && self.group.is_some()
    }

    /// The most memory that it has used since [`Runner::forget_peak`], in bytes, with the kernel's on
    /// its behalf; `None` where that is not counted.
    pub(super) fn peak_bytes(&self) -> Option<u64> {
        let group = self.group.as_ref()?;
        let peak = group.peak_bytes().or_else(|| group.usage_bytes().ok())?;
        Some(peak.saturating_sub(self.beside_bytes))
    }

    /// Forgets what setting up took: files that were read, and the peak so far. Pages of the data are
    /// what paging is about, and stay.
    pub(super) fn forget_peak(&self) {
        let Some(group) = &self.group else { return };
        if self.mode != Mode::Paging {
            group.forget_cached_pages();
        }
        group.reset_peak();
    }
}

/// A child that takes part in the rounds.
pub(super) struct Runner {
    pub(super) mode: Mode,
    pub(super) child: Child,
    pub(super) threads_per_core: Option<usize>,
    /// Seconds for which it was warmed up.
    pub(super) warm_up_s: f64,
    /// Its memory: limited to the budget under paging, counted under any other mode where that is
    /// permitted. Outlives the child: removed after it is gone.
    pub(super) group: Option<MemoryCgroup>,
    /// Memory of the child that is not the budget's: the steps of a replay.
    pub(super) beside_bytes: u64,
}
