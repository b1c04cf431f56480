//! [`warm_up`]: an untimed warm-up until the memory is in steady state.

use ebbtide_core::{PAGE_BYTES, Watch};
use serde::{Deserialize, Serialize};

use crate::calibration::{
    Count, WARM_BATCH, WINDOW_JOBS_MAX, is_rare, is_steady, plain_lru, window_misses,
};
use crate::config::Config;
use crate::machine::{Machine, SimError};
use crate::plan::Plan;

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
    Warming::new(config).finish(machine, watch)
}

/// An untimed warm-up, batch by batch.
#[derive(Default)]
pub(crate) struct Warming {
    frames: u64,
    untimed_jobs: u64,
    /// Pages that arrived in the windows before this one.
    filled: u64,
    window: Window,
    steady: Option<Steady>,
}

/// A window of a warm-up.
#[derive(Default)]
struct Window {
    jobs: u64,
    /// Jobs since the last arriving page.
    quiet: u64,
    came: u64,
    left: u64,
    promoted: u64,
    demoted: u64,
}

impl Warming {
    /// The warm-up of a machine that `config` describes and that has run nothing.
    pub(crate) fn new(config: &Config) -> Warming {
        let frames = config.memory_size().1.0 / PAGE_BYTES as u64;
        Warming { frames, ..Warming::default() }
    }

    /// Counts the jobs of `plan` as [`plain_lru`] does, and returns the misses per job. `in_dram`
    /// is its machine in DRAM, and `machine` its machine, which has run nothing. If both chips see
    /// the same accesses, one pass over the jobs counts and warms `machine` up. Afterwards
    /// `in_dram` is as if it had run the jobs of the count.
    ///
    /// # Errors
    /// [`SimError`].
    pub(crate) fn counting(
        &mut self,
        plan: &Plan,
        in_dram: &mut Machine,
        machine: &mut Machine,
        watch: Watch<'_>,
    ) -> Result<f64, SimError> {
        // Stored contents would be in host memory twice.
        if !machine.warms_as_in_dram() || machine.stores_in_warm_up() {
            return plain_lru(plan, in_dram, watch);
        }
        let mut count = Count::new(plan);
        let mut misses_per_job = None;
        while misses_per_job.is_none() && self.steady.is_none() {
            misses_per_job = count.batch(machine, watch)?;
            self.note(machine);
        }
        in_dram.continue_from(machine);
        loop {
            if let Some(misses_per_job) = misses_per_job {
                return Ok(misses_per_job);
            }
            misses_per_job = count.batch(in_dram, watch)?;
        }
    }

    /// Warms `machine` up to the end.
    ///
    /// # Errors
    /// [`SimError`].
    pub(crate) fn finish(
        mut self,
        machine: &mut Machine,
        watch: Watch<'_>,
    ) -> Result<Steady, SimError> {
        loop {
            if let Some(steady) = self.steady {
                return Ok(steady);
            }
            let share = (self.filled + self.window.came) as f64;
            watch.tell("warming up", (share / (PAGES_A_FRAME * self.frames) as f64).min(1.0))?;
            machine.warm(WARM_BATCH, None)?;
            self.note(machine);
        }
    }

    /// Notes the counters of a batch that `machine` has run.
    fn note(&mut self, machine: &mut Machine) {
        let (batch, window) = (machine.take_counters(), &mut self.window);
        window.jobs += WARM_BATCH;
        window.quiet = if batch.came() == 0 { window.quiet + WARM_BATCH } else { 0 };
        window.came += batch.came();
        window.left += batch.left();
        window.promoted += batch.promotion.promotions;
        window.demoted += batch.promotion.demotions;
        let Window { jobs, quiet, came, left, promoted, demoted } = *window;
        let rare = is_rare(came, jobs);
        let is_quiet = quiet >= QUIET_JOBS;
        if came < window_misses(self.frames) && jobs < WINDOW_JOBS_MAX && !is_quiet && !rare {
            return;
        }
        self.untimed_jobs += jobs;
        self.filled += came;
        let full =
            promoted == 0 || is_steady(demoted, promoted) || self.filled >= FILLS_MAX * self.frames;
        if (is_steady(left, came) && full) || is_quiet || rare {
            let evictions_per_miss = left as f64 / (came as f64).max(1.0);
            self.steady = Some(Steady { untimed_jobs: self.untimed_jobs, evictions_per_miss });
        }
        self.window = Window::default();
    }
}

/// After this many pages a frame, the warm-up ends even if promotions have not filled host DRAM. A
/// whole run of the FlatFlash paper (§5.4, claim FL24) moves 7.5 pages a frame.
const FILLS_MAX: u64 = 8;

/// After this many jobs without an arriving page, all pages that the program touches are present.
const QUIET_JOBS: u64 = 4_096;

/// Arrived pages a frame when the memory is usually in steady state.
const PAGES_A_FRAME: u64 = 3;

#[cfg(test)]
mod tests {
    use ebbtide_core::Archive;
    use ebbtide_workloads::Kind;

    use super::*;
    use crate::calibration::in_dram;
    use crate::designs::{compose, resolve};
    use crate::offered::Offered;

    #[test]
    fn one_pass_leaves_machines_and_count_as_two_passes_do() {
        for (design, workload) in [
            ("astriflash", Kind::HashTable),
            ("astriflash", Kind::ArraySwap),
            ("astriflash-nodp", Kind::RedBlackTree),
            ("cxl-flash", Kind::Tatp),
            // The warm-up ends long before the count.
            ("dram-only", Kind::HashTable),
            // Two passes: pages take their lines with them; contents are stored.
            ("os-swap", Kind::HashTable),
            ("astriflash", Kind::Tpcc),
        ] {
            let config = resolve(design, &[]).unwrap().scaled(1, 1024);
            let plan = Plan { config, workload, jobs: 1, seed: 1, arrivals: Offered::Saturating };
            let program = plan.program().unwrap();
            let machine = || {
                let parts = compose(&plan.config).unwrap();
                Machine::of_program(&plan.config, parts, program.clone()).unwrap()
            };
            let state = |machine: &mut Machine| Archive::bytes_of(|archive| machine.state(archive));
            let watch = Watch::unattended();
            let (mut one, mut dram) = (machine(), in_dram(&plan, &program).unwrap());
            let mut warming = Warming::new(&plan.config);
            let misses = warming.counting(&plan, &mut dram, &mut one, watch).unwrap();
            let steady = warming.finish(&mut one, watch).unwrap();
            let (mut other, mut other_dram) = (machine(), in_dram(&plan, &program).unwrap());
            assert_eq!(misses, plain_lru(&plan, &mut other_dram, watch).unwrap(), "{design}");
            assert_eq!(steady, warm_up(&mut other, &plan.config, watch).unwrap(), "{design}");
            assert!(state(&mut one) == state(&mut other), "{design} under {workload}");
            assert!(state(&mut dram) == state(&mut other_dram), "{design} under {workload}");
        }
    }
}
