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
    /// The profile for predictions, if they were requested.
    pub(super) profile: Option<&'a Profile>,
    pub(super) watch: Watch<'a>,
}

impl Runner {
    /// Returns whether it is limited to the budget.
    pub(super) fn is_limited(&self) -> bool {
        self.mode == Mode::Paging && self.group.is_some()
    }

    /// Returns the most memory that it has used since [`Runner::forget_peak`], in bytes, with the
    /// kernel's on its behalf. `None` without a group.
    pub(super) fn peak_bytes(&self) -> Option<u64> {
        let group = self.group.as_ref()?;
        let peak = group.peak_bytes().or_else(|| group.usage_bytes().ok())?;
        Some(peak.saturating_sub(self.beside_bytes))
    }

    /// Resets the peak and drops cached files that were read during set-up. Cached pages of the
    /// data stay, because paging measures them.
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
    /// Its memory cgroup, where permitted. It limits paging to the budget, and only counts for
    /// other modes. It is removed after the child has ended.
    pub(super) group: Option<MemoryCgroup>,
    /// Memory of the child that is not the budget's: the steps of a replay.
    pub(super) beside_bytes: u64,
}
