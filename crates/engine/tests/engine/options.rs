//! Options that no machine can satisfy are refused with what was expected. Nothing panics on them,
//! and nothing is mapped.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ebbtide_core::PAGE_BYTES;
use ebbtide_core::replacement::PolicyKind;
use ebbtide_engine::device::ram::{Latency, Ram};
use ebbtide_engine::device::{Device, Queue};
use ebbtide_engine::{Budget, Engine, EngineError, Options, check_replacement};

use crate::common::{image, small_cache};

const PAGES: u64 = 128;

fn refused(options: &Options, pages: u64) -> EngineError {
    let device = Arc::new(Ram::new(PAGES as usize, Latency::Looks(0), image));
    match Engine::over_device(device, pages, options) {
        Err(error) => error,
        Ok(_) => panic!("accepted"),
    }
}

fn changed(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = small_cache(16, 1, 8, PAGES);
    change(&mut options);
    options
}

#[test]
fn absurd_options_are_refused_with_what_is_expected() {
    for (options, reason) in [
        (changed(|o| o.cores = 0), "the number of cores must be 1 to 1024"),
        (changed(|o| o.cores = usize::MAX), "the number of cores must be 1 to 1024"),
        (
            changed(|o| o.tuning.threads = Some(0)),
            "the number of threads per core must be 1 to 65536",
        ),
        (
            changed(|o| o.tuning.threads = Some(usize::MAX)),
            "the number of threads per core must be",
        ),
        (
            changed(|o| (o.cores, o.tuning.threads) = (65, Some(65536))),
            "the number of threads of all cores must be at most 4194303",
        ),
        (changed(|o| o.stack_bytes = usize::MAX), "the stack of a job must be 8 KiB to 1 GiB"),
        (changed(|o| o.stack_bytes = 0), "the stack of a job must be 8 KiB to 1 GiB"),
        (changed(|o| o.tuning.batch_max = 0), "the submission batch must be 1 to 4096 requests"),
        (
            changed(|o| o.tuning.batch_max = usize::MAX),
            "the submission batch must be 1 to 4096 requests",
        ),
        (changed(|o| o.hold = Some(Duration::MAX)), "the time a request waits for others must be"),
        (changed(|o| o.cpus = vec![0; 9]), "the list of CPUs must be empty, or one for every core"),
    ] {
        for error in [refused(&options, PAGES), Budget::divide(&options, PAGES).unwrap_err()] {
            assert!(error.to_string().starts_with(reason), "{error}");
        }
    }
}

#[test]
fn more_threads_than_the_kernel_has_mappings_for_are_refused() {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let mappings_max: usize = text.trim().parse().unwrap();
    let threads = 1 << 16;
    let cores = mappings_max / (2 * threads) + 1;
    let options = changed(|options| {
        (options.cores, options.stack_bytes) = (cores, 8192);
        options.tuning.threads = Some(threads);
        options.dram_bytes = usize::MAX;
    });
    let error = refused(&options, PAGES);
    assert!(matches!(error, EngineError::TooManyStacks { .. }), "{error}");
    assert!(error.to_string().contains("vm.max_map_count"), "{error}");
}

#[test]
fn address_spaces_that_cannot_be_numbered_are_refused() {
    for pages in [0, (1 << 30) + 1, u64::MAX] {
        let error = refused(&changed(|options| options.dram_bytes = usize::MAX), pages);
        assert!(matches!(error, EngineError::BadPages(_)), "{error}");
        assert!(error.to_string().contains(&format!("not {pages}")), "{error}");
    }
}

#[test]
fn a_budget_beyond_all_machines_gives_every_page_a_frame() {
    let options = changed(|options| options.dram_bytes = usize::MAX);
    assert_eq!(Budget::divide(&options, PAGES).unwrap().frames, PAGES as usize);
}

/// A device whose polled rings take memory.
struct WithPolledRings(Ram);

const RING_BYTES: usize = 8 * PAGE_BYTES;

impl Device for WithPolledRings {
    fn queue(&self, depth: usize) -> io::Result<Box<dyn Queue>> {
        self.0.queue(depth)
    }

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn polled_ring_bytes(&self, _depth: usize) -> usize {
        RING_BYTES
    }
}

#[test]
fn memory_of_polled_rings_comes_out_of_the_budget() {
    let options = small_cache(64, 2, 8, PAGES);
    let device = WithPolledRings(Ram::new(PAGES as usize, Latency::Looks(0), image));
    let engine = Engine::over_device(Arc::new(device), PAGES, &options).unwrap();
    let mut rest = options.clone();
    rest.dram_bytes -= 2 * RING_BYTES;
    assert_eq!(engine.budget().frames, Budget::divide(&rest, PAGES).unwrap().frames);
    assert!(engine.budget().frames < 64 - 2 * 7, "{} frames", engine.budget().frames);
}

#[test]
fn the_largest_options_are_accepted() {
    for options in [
        changed(|options| options.cores = 1024),
        changed(|options| options.tuning.threads = Some(1 << 16)),
        changed(|options| options.stack_bytes = 1 << 30),
        changed(|options| options.tuning.batch_max = 4096),
        changed(|options| options.hold = Some(Duration::from_secs(24 * 3600))),
    ] {
        let options = Options { dram_bytes: usize::MAX, ..options };
        assert!(Budget::divide(&options, PAGES).is_ok(), "{options:?}");
    }
}

#[test]
fn policies_that_the_hit_path_cannot_serve_are_refused() {
    for kind in PolicyKind::ALL {
        let mut options = Options { dram_bytes: usize::MAX, ..changed(|_| ()) };
        options.tuning.replacement = kind;
        let unfit = kind.needs_every_hit() || kind.searches_set();
        assert_eq!(Budget::divide(&options, PAGES).is_err(), unfit, "{kind}");
    }
    let refused = PolicyKind::ALL.into_iter().filter(|&kind| check_replacement(kind).is_err());
    assert!(refused.count() > 0);
}
