//! Where the DRAM budget of an engine goes.

use ebbtide_core::Placement;
use ebbtide_core::prefetch::{PrefetcherKind, Prefetching, Preset};

use crate::api::engine_error::EngineError;
use crate::api::options::{Options, check};
use crate::cache::{Cache, Division, FRAME_BYTES, FRAMES_MAX, PAGE_STATE_BYTES, SLOTS_MAX};
use crate::device::uring::Uring;
use crate::persist::Persist;
use crate::store::{Header, NewStore};

/// Bytes of a core that do not depend on its threads and batches: its kernel thread, histogram and
/// lists.
const CORE_BYTES: usize = 144 << 10;

/// Bytes of a request under way: its operation, the description of its memory, and its completion.
const REQUEST_BYTES: usize = 200;

/// A budget beyond this is as good as this: no machine has more.
const DRAM_BYTES_MAX: usize = 1 << 52;

/// The fewest frames a core can work with.
const FRAMES_PER_CORE_MIN: usize = 4;

/// The parts of a budget, in bytes and frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Frames of the DRAM cache.
    pub frames: usize,
    /// Bytes for frames, their marks and the table of resident pages.
    pub frames_bytes: usize,
    /// Bytes for the state of every page and slot.
    pub states_bytes: usize,
    /// Bytes for the replacement policy.
    pub policy_bytes: usize,
    /// Bytes for stacks, rings, the lists of waiting threads, queued jobs, buffers and prefetchers.
    pub cores_bytes: usize,
}

/// What a budget must hold besides the engine. `frames` is the least number of frames. `beside`
/// returns the bytes of other parts under given options.
#[derive(Clone, Copy)]
struct Needs<'a> {
    frames: usize,
    beside: &'a dyn Fn(&Options) -> usize,
}

impl Budget {
    /// Divides the budget of `options` for an address space of `pages` pages.
    ///
    /// # Errors
    /// When the budget does not hold even the required parts.
    pub fn divide(options: &Options, pages: u64) -> Result<Budget, EngineError> {
        Budget::divide_beside(options, pages, Needs { frames: 0, beside: &|_| 0 })
    }

    /// As [`divide`](Budget::divide), for a new store with a log of `log_bytes` and with at least
    /// `frames` frames. A store with 0 bytes of log does not survive crashes.
    ///
    /// # Errors
    /// As [`divide`](Budget::divide).
    pub fn of_new(
        options: &Options,
        new: &NewStore,
        log_bytes: u64,
        frames: usize,
    ) -> Result<Budget, EngineError> {
        Budget::of_store(options, &new.persistent_header(log_bytes), frames)
    }

    /// As [`divide`](Budget::divide), for the store with this header and with at least `frames`
    /// frames. A log has its part of the budget.
    ///
    /// # Errors
    /// As [`divide`](Budget::divide).
    pub(crate) fn of_store(
        options: &Options,
        header: &Header,
        frames: usize,
    ) -> Result<Budget, EngineError> {
        let beside = |options: &Options| {
            let fibers = options.cores * options.threads_per_core();
            let log = |geometry| Persist::dram_bytes(&geometry, fibers, options.dram_bytes);
            header.persist().map_or(0, log)
        };
        Budget::divide_beside(options, header.pages, Needs { frames, beside: &beside })
    }

    fn divide_beside(
        options: &Options,
        pages: u64,
        needs: Needs<'_>,
    ) -> Result<Budget, EngineError> {
        check(options)?;
        if !(1..=SLOTS_MAX).contains(&pages) {
            return Err(EngineError::BadPages(pages));
        }
        // A store has at most half as many spare slots as pages.
        let states_bytes =
            pages as usize * PAGE_STATE_BYTES + Placement::memory_bytes(pages * 3 / 2);
        let prefetching = match options.tuning.prefetch {
            PrefetcherKind::None => 0,
            kind => Prefetching::memory_bytes(pages) + kind.memory_bytes(Preset::Original, pages),
        };
        let depth = queue_depth(options);
        let requests = Uring::ring_bytes(depth) + depth * REQUEST_BYTES;
        let threads = options.threads_per_core() * options.thread_bytes();
        let core = CORE_BYTES + threads + requests + prefetching;
        let fibers = options.cores * options.threads_per_core();
        let cores_bytes = options.cores * core + Cache::wait_lists_bytes(fibers);
        let policy_bytes = |frames| {
            let tuning = &options.tuning;
            division(options, frames, pages).memory_bytes(tuning.admission, tuning.replacement)
        };
        let fixed_bytes = states_bytes + cores_bytes + (needs.beside)(options);
        let needed =
            |frames: usize| fixed_bytes + policy_bytes(frames) + Cache::frames_bytes(frames);
        let frames_min = needs.frames.max(options.cores * FRAMES_PER_CORE_MIN);
        if needed(frames_min) > options.dram_bytes {
            // More DRAM has more threads and a larger log, which take some of it.
            let more = Options { dram_bytes: needed(frames_min), ..options.clone() };
            return Err(match Budget::divide_beside(&more, pages, needs) {
                Err(EngineError::BudgetTooSmall { needed_bytes, .. }) => {
                    too_small(options, needed_bytes, pages)
                }
                Err(error) => error,
                Ok(_) => too_small(options, more.dram_bytes, pages),
            });
        }
        // The most frames that fit, by bisection: only the policy knows how its memory grows. There
        // is more to hold than frames, so that as many as fill the budget are too many.
        let (mut fits, mut too_many) =
            (frames_min, options.dram_bytes.min(DRAM_BYTES_MAX) / FRAME_BYTES);
        while too_many - fits > 1 {
            let middle = fits + (too_many - fits) / 2;
            if needed(middle) <= options.dram_bytes { fits = middle } else { too_many = middle }
        }
        // More frames than pages would never be used.
        let frames = fits.min(pages as usize).clamp(frames_min, FRAMES_MAX - 1);
        Ok(Budget {
            frames,
            frames_bytes: Cache::frames_bytes(frames),
            states_bytes,
            policy_bytes: policy_bytes(frames),
            cores_bytes,
        })
    }
}

/// The error that the budget of `options` should have `needed_bytes` for `pages` pages.
fn too_small(options: &Options, needed_bytes: usize, pages: u64) -> EngineError {
    let Options { dram_bytes: given_bytes, cores, .. } = *options;
    EngineError::BudgetTooSmall { given_bytes, needed_bytes, pages, cores }
}

/// How the replacement policy is divided.
pub(crate) fn division(options: &Options, frames: usize, pages: u64) -> Division {
    Division::new(options.tuning.policy_parts, options.cores, frames, pages)
}

/// The most requests of a core at once: misses, pages fetched ahead, and runs of pages on their way
/// out.
pub(crate) fn queue_depth(options: &Options) -> usize {
    options.threads_per_core() + options.ahead_max() + 2 * options.tuning.batch_max
}

/// Free frames that a core keeps ahead of need, when there are `frames` in all. Small caches keep a
/// small reserve: most frames should hold pages.
pub(crate) fn reserve(options: &Options, frames: usize) -> usize {
    (frames / (8 * options.cores)).clamp(1, 2 * options.tuning.batch_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A budget of each kind: cores, threads, batches and a prefetcher.
    fn drawn_up() -> Vec<Options> {
        let usual = Options::new(64 << 20);
        let mut options = Options { cores: 3, stack_bytes: 16 << 10, ..Options::new(96 << 20) };
        (options.tuning.threads, options.tuning.batch_max) = (Some(100), 40);
        options.tuning.prefetch = PrefetcherKind::Leap;
        vec![usual, options]
    }

    #[test]
    fn a_core_keeps_its_share_of_an_eighth_of_all_frames_free_but_at_most_two_batches() {
        let mut options = Options { cores: 3, ..Options::new(0) };
        options.tuning.batch_max = 40;
        for (frames, kept) in [(12, 1), (24, 1), (47, 1), (48, 2), (1920, 80), (1 << 20, 80)] {
            assert_eq!(reserve(&options, frames), kept, "of {frames} frames");
        }
    }

    #[test]
    fn no_budget_gives_more_frames_than_can_be_numbered() {
        let budget = Budget::divide(&Options::new(usize::MAX), SLOTS_MAX).expect("it fits");
        assert_eq!(budget.frames, FRAMES_MAX - 1);
    }

    fn sum_of(budget: &Budget) -> usize {
        budget.frames_bytes + budget.states_bytes + budget.policy_bytes + budget.cores_bytes
    }

    #[test]
    fn a_budget_is_used_up_to_its_last_frame() {
        const PAGES: u64 = 1 << 20;
        for mut options in drawn_up() {
            // Else their number would follow the budget.
            options.tuning.threads = Some(options.threads_per_core());
            let budget = Budget::divide(&options, PAGES).expect("it fits");
            assert!(budget.frames > 4 * options.cores && budget.frames < PAGES as usize);
            options.dram_bytes = sum_of(&budget);
            assert_eq!(Budget::divide(&options, PAGES).expect("it fits"), budget);
            options.dram_bytes -= 1;
            let less = Budget::divide(&options, PAGES).expect("it fits");
            assert_eq!(less.frames, budget.frames - 1);

            options.dram_bytes = 0;
            let error = Budget::divide(&options, PAGES).expect_err("it does not fit");
            let EngineError::BudgetTooSmall { needed_bytes, .. } = error else { panic!("{error}") };
            options.dram_bytes = needed_bytes;
            let least = Budget::divide(&options, PAGES).expect("it fits");
            assert_eq!((least.frames, sum_of(&least)), (4 * options.cores, needed_bytes));
            options.dram_bytes -= 1;
            Budget::divide(&options, PAGES).expect_err("it does not fit");
        }
    }
}
