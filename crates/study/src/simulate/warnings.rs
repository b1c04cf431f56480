//! What a reader of a run must know before its figures are trusted.

use ebbtide_sim::memory_side::CacheCounters;
use ebbtide_sim::{Outcome, Replay};

/// A run shorter than this many times its p99 misses some of the longest jobs, which do not end in it.
const LONG_ENOUGH: f64 = 10.0;

/// A percentile rests on this many measurements beyond it, at least.
const BEYOND: u64 = 10;

/// While fewer evictions than this come with a miss, a cache is still filling.
const STEADY: f64 = 0.9;

/// Misses from which the share of evictions says something.
const MISSES: u64 = 100;

/// The warnings about a run of a program.
pub(super) fn of_run(outcome: &Outcome) -> Vec<String> {
    let mut warnings = Vec::new();
    let p99 = outcome.service_ns.p99.max(1);
    let lasts = outcome.simulated_ns as f64 / p99 as f64;
    if lasts < LONG_ENOUGH {
        warnings.push(format!(
            "the run lasts {lasts:.1} times its p99 of {:.1} us, so that some of the longest jobs do \
             not end in it: tails are too low; run more --jobs",
            p99 as f64 / 1e3
        ));
    }
    if outcome.jobs / 100 < BEYOND {
        warnings.push(format!(
            "a p99 of {} jobs rests on {} of them: run more --jobs",
            outcome.jobs,
            outcome.jobs / 100
        ));
    }
    warnings.extend(still_filling(&outcome.memory.cache));
    warnings.extend(of_flash(&outcome.config));
    warnings
}

/// The warnings about a replay of a trace.
pub(super) fn of_replay(replay: &Replay) -> Vec<String> {
    let filling = still_filling(&replay.memory.cache).map(|warning| {
        format!(
            "{warning}; --scale makes the machine smaller, and `ebbtide compare --trace` takes one as \
             large as what the trace touches"
        )
    });
    filling.into_iter().chain(of_flash(&replay.config)).collect()
}

/// Says if `shared` regions of a trace lie where another does.
pub(super) fn of_folding(shared: u64) -> Option<String> {
    (shared > 0).then(|| {
        format!(
            "{shared} regions of 2 MiB of the trace lie where another does, so that pages hit that \
             would miss: set dataset.size larger"
        )
    })
}

/// Says if a cache still fills.
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

/// What the device's own thresholds do to it.
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
