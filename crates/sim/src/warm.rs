//! [`warm_up`]: an untimed warm-up until the memory is in steady state.

use ebbtide_core::{PAGE_BYTES, Watch};
use serde::{Deserialize, Serialize};

use crate::calibration::{WARM_BATCH, WINDOW_JOBS_MAX, is_rare, is_steady, window_misses};
use crate::config::Config;
use crate::machine::{Machine, SimError};
use crate::plan::Plan;
use crate::stages;

/// The end of an untimed warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Steady {
    /// Untimed jobs.
    pub untimed_jobs: u64,
    /// Evictions over arrived pages in the last window of those jobs.
    pub evictions_per_miss: f64,
}

/// Runs untimed jobs in `machine`, which `config` describes, until evictions keep up with arriving
/// pages, missed or read ahead. Where pages are promoted, demotions must keep up with promotions
/// too, because host DRAM is full then. Host DRAM may never fill if few pages are promoted. Eight
/// arrived pages a frame therefore count as full.
///
/// A cache nearly as large as the data may never fill. So the warm-up also ends at fewer than one
/// arriving page in 512 jobs, or after 4,096 jobs without one.
///
/// `watch` receives the completed share of a warm-up of usual length.
///
/// # Errors
/// [`SimError`].
pub fn warm_up(
    machine: &mut Machine,
    config: &Config,
    watch: Watch<'_>,
) -> Result<Steady, SimError> {
    let frames = config.memory_size().1.0 / PAGE_BYTES as u64;
    let (mut untimed_jobs, mut filled) = (0, 0);
    loop {
        let (mut came, mut left) = (0, 0);
        let (mut promoted, mut demoted) = (0, 0);
        let (mut window, mut quiet) = (0, 0);
        let mut rare = false;
        while came < window_misses(frames)
            && window < WINDOW_JOBS_MAX
            && quiet < QUIET_JOBS
            && !rare
        {
            let share = (filled + came) as f64 / (PAGES_A_FRAME * frames) as f64;
            watch.tell("warming up", share.min(1.0))?;
            machine.warm(WARM_BATCH, None)?;
            window += WARM_BATCH;
            let batch = machine.take_counters();
            quiet = if batch.came() == 0 { quiet + WARM_BATCH } else { 0 };
            (came, left) = (came + batch.came(), left + batch.left());
            rare = is_rare(came, window);
            (promoted, demoted) =
                (promoted + batch.promotion.promotions, demoted + batch.promotion.demotions);
        }
        (untimed_jobs, filled) = (untimed_jobs + window, filled + came);
        let full = promoted == 0 || is_steady(demoted, promoted) || filled >= FILLS_MAX * frames;
        if (is_steady(left, came) && full) || quiet >= QUIET_JOBS || rare {
            let evictions_per_miss = left as f64 / (came as f64).max(1.0);
            return Ok(Steady { untimed_jobs, evictions_per_miss });
        }
    }
}

/// Warms `machine` up. It is the machine of `plan`, and `watch` is the watch of the whole run.
pub(crate) fn warmed_up(
    machine: &mut Machine,
    plan: &Plan,
    watch: Watch<'_>,
) -> Result<Steady, SimError> {
    watch.within(stages::CALIBRATED, stages::WARM, |watch| warm_up(machine, &plan.config, watch))
}

/// After this many pages a frame, the warm-up ends even if promotions have not filled host DRAM. A
/// whole run of the FlatFlash paper (§5.4, claim FL24) moves 7.5 pages a frame.
const FILLS_MAX: u64 = 8;

/// After this many jobs without an arriving page, all pages that the program touches are present.
const QUIET_JOBS: u64 = 4_096;

/// Arrived pages a frame when the memory is usually in steady state.
const PAGES_A_FRAME: u64 = 3;
