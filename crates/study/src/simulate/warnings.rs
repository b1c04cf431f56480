//! Warnings that a reader needs before using the figures of a run.

use ebbtide_core::counted;
use ebbtide_sim::memory_side::CacheCounters;
use ebbtide_sim::{Outcome, Replay};

use crate::convergence::{self, LONG_ENOUGH};

/// The least number of measurements beyond a percentile.
const BEYOND: u64 = 10;

/// A cache is still filling while evictions per miss are below this.
const STEADY: f64 = 0.9;

/// The least number of misses for a meaningful share of evictions.
const MISSES: u64 = 100;

/// The warnings about a run of a program.
pub(super) fn of_run(outcome: &Outcome) -> Vec<String> {
    let mut warnings = Vec::new();
    let lasts = convergence::lasts(outcome);
    if lasts < LONG_ENOUGH {
        warnings.push(format!(
            "the run lasts {lasts:.1} times its p99 of {:.1} us, so that some of the longest jobs do \
             not end in it: tails are too low; run more --jobs",
            outcome.service_ns.p99 as f64 / 1e3
        ));
    }
    if outcome.jobs / 100 < BEYOND {
        warnings.push(format!(
            "a p99 of {} rests on {} of them: run more --jobs",
            counted(outcome.jobs, "job"),
            outcome.jobs / 100
        ));
    }
    warnings.extend(still_filling(&outcome.memory.cache));
    warnings.extend(overloaded(outcome));
    warnings.extend(unsteady(outcome));
    warnings.extend(early_wakeups(outcome));
    warnings.extend(of_flash(&outcome.config));
    warnings
}

/// Returns a warning if jobs arrive faster than they end.
fn overloaded(outcome: &Outcome) -> Option<String> {
    let offered = outcome.offered_jobs_per_s.filter(|_| outcome.is_overloaded())?;
    Some(format!(
        "overloaded: {offered:.0} jobs come in a second and {:.0} end, so that the queue grows for as \
         long as the run lasts; time from arrival has no mean and no percentile",
        outcome.jobs_per_s
    ))
}

/// Halves of a run are alike if they differ by at most this share.
const ALIKE: f64 = 0.1;

/// The factor of the proposed length of an unsteady run.
const LONGER: u64 = 4;

/// Returns a warning if the halves of a run differ.
fn unsteady(outcome: &Outcome) -> Option<String> {
    let Outcome { halves: [first, second], jobs, flash, .. } = outcome;
    let differ = |a: f64, b: f64| (a - b).abs() / a.max(b).max(f64::MIN_POSITIVE);
    let (rates, amplified) = (
        differ(first.jobs_per_s, second.jobs_per_s),
        differ(first.write_amplification, second.write_amplification),
    );
    let writes = first.flash_writes.min(second.flash_writes);
    let fresh = flash.writes > 0 && flash.erases == 0 && wears(outcome);
    // Jobs differ in length, so short halves differ by chance.
    let chance = 4.0 / (*jobs as f64).sqrt();
    let what = if writes >= MISSES && amplified > ALIKE {
        format!(
            "its halves have a write amplification of {:.2} and {:.2}",
            first.write_amplification, second.write_amplification
        )
    } else if rates > ALIKE + chance {
        format!("its halves run {:.0} and {:.0} jobs/s", first.jobs_per_s, second.jobs_per_s)
    } else if fresh {
        "no block was erased, so that writes are those of a drive with room".to_string()
    } else {
        return None;
    };
    Some(format!("not steady: {what}; try --jobs {}", LONGER * jobs))
}

/// Whether the flash of a run collects garbage.
fn wears(outcome: &Outcome) -> bool {
    let device = outcome.config.flash_device();
    device.is_ok_and(|device| device.operations().erase_us > 0.0)
}

/// Returns a warning if threads are resumed before their pages can have arrived.
fn early_wakeups(outcome: &Outcome) -> Option<String> {
    let ripe_us = outcome.config.switch.ripe_after_us?;
    let idle_us = outcome.config.flash_device().ok()?.idle_read_us();
    (ripe_us < idle_us).then(|| {
        format!(
            "switch.ripe_after_us = {ripe_us}, but flash needs {idle_us} us for a read: threads are \
             resumed before their pages have come, and block their cores"
        )
    })
}

/// The warnings about a replay of a trace.
pub(super) fn of_replay(replay: &Replay) -> Vec<String> {
    let filling = still_filling(&replay.memory.cache).map(|warning| {
        format!(
            "{warning}; --scale makes the machine smaller, and `ebbtide compare --trace` takes one as \
             large as what the trace touches"
        )
    });
    filling.into_iter().chain(behind(replay)).chain(of_flash(&replay.config)).collect()
}

/// The maximum delay of memory at the end of a trace, as a share of the trace's time.
const BEHIND: f64 = 0.05;

/// Returns a warning if accesses of a trace come faster than they are served.
fn behind(replay: &Replay) -> Option<String> {
    let share = replay.behind_ns as f64 / replay.simulated_ns.max(1) as f64;
    (share > BEHIND).then(|| {
        format!(
            "overloaded: the last access entered memory {:.1} us after its time, {:.0}% of the whole \
             run, so that time from an access's time grows with the trace and has no percentile",
            replay.behind_ns as f64 / 1e3,
            100.0 * share
        )
    })
}

/// Returns a warning if `shared` regions of a trace were moved onto another region.
pub(super) fn of_folding(shared: u64) -> Option<String> {
    (shared > 0).then(|| {
        format!(
            "{shared} regions of 2 MiB of the trace lie where another does, so that pages hit that \
             would miss: set dataset.size larger"
        )
    })
}

/// Returns a warning if a cache is still filling.
fn still_filling(cache: &CacheCounters) -> Option<String> {
    let evictions = cache.evictions_clean + cache.evictions_dirty;
    let share = evictions as f64 / cache.misses.max(1) as f64;
    (cache.misses >= MISSES && share < STEADY).then(|| {
        format!(
            "still warming: {:.0}% of the misses evicted a page, so that the cache was filling and \
             misses will not stay as they are",
            100.0 * share
        )
    })
}

/// The warnings about the flash device's parameters.
fn of_flash(config: &ebbtide_sim::config::Config) -> Vec<String> {
    config.flash_device().map_or_else(|_| Vec::new(), |device| device.warnings())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_still_fills_is_told_of() {
        let cache = |misses, evictions_clean| CacheCounters {
            misses,
            evictions_clean,
            ..CacheCounters::default()
        };
        assert_eq!(still_filling(&cache(1_000, 950)), None);
        assert_eq!(still_filling(&cache(50, 0)), None, "too few to say");
        let said = still_filling(&cache(1_000, 250)).expect("a warning");
        assert!(said.contains("25% of the misses"), "{said}");
    }
}
