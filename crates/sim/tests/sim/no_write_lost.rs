//! Tests that written data reaches flash, on every design, as counted from outside.

use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

use ebbtide_core::{PAGE_BYTES, PageId, Span, Time};
use ebbtide_flash::Flash;
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::{self, Parts, resolve};
use ebbtide_sim::memory_side::{
    Answer, Capabilities, Counters, Event, MemorySide, Noted, Observe, Request, Stage, Warm,
};
use ebbtide_sim::{CoreSide, Machine};
use ebbtide_workloads::{Kind, Scatter, Shape};

use crate::common::machine;

/// Written pages, and the number of written pages among those that left.
#[derive(Default)]
struct Written {
    pages: HashSet<u64>,
    left: u64,
}

/// A memory and a record of its written pages. A page that was written since it last left must be
/// written to flash when it leaves.
struct Watched {
    memory: Box<dyn MemorySide>,
    written: Rc<RefCell<Written>>,
    /// Number of pages of 4 KiB that leave together.
    together: u64,
}

impl Watched {
    fn see(&mut self) {
        let notes = self.memory.keep_notes(true);
        let mut written = self.written.borrow_mut();
        for Noted { page, .. } in notes.into_iter().filter(|note| note.stage == Stage::Left) {
            written.left += u64::from(written.pages.remove(&(page.0 / self.together)));
        }
    }

    fn write(&self, page: PageId) {
        self.written.borrow_mut().pages.insert(page.0 / self.together);
    }
}

impl MemorySide for Watched {
    fn access(&mut self, now: Time, request: Request) -> Answer {
        let answer = self.memory.access(now, request);
        self.see();
        let carried = request.write && matches!(answer, Answer::Posted(_));
        if carried || request.dirties() && answer != Answer::Stalled {
            self.write(request.page);
        }
        answer
    }

    fn flat(&mut self, now: Time, page: PageId) -> Time {
        self.memory.flat(now, page)
    }

    fn write_back(&mut self, now: Time, request: Request) {
        if !self.capabilities().faults {
            self.write(request.page);
        }
        self.memory.write_back(now, request);
        self.see();
    }

    fn dirtied(&mut self, page: PageId) {
        if self.capabilities().faults {
            self.write(page);
        }
        self.memory.dirtied(page);
    }

    fn take_left(&mut self, left: &mut Vec<PageId>) {
        self.memory.take_left(left);
    }

    fn next_event(&self) -> Option<Time> {
        self.memory.next_event()
    }

    fn advance(&mut self, now: Time, events: &mut Vec<Event>) {
        self.memory.advance(now, events);
        self.see();
    }

    fn hint(&mut self, now: Time, page: PageId) -> Time {
        self.memory.hint(now, page)
    }

    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }
}

impl Warm for Watched {
    fn warm(&mut self, request: Request) {
        self.memory.warm(request);
    }

    fn warm_back(&mut self, request: Request) {
        self.memory.warm_back(request);
    }
}

impl Observe for Watched {
    fn take_counters(&mut self) -> Counters {
        self.memory.take_counters()
    }

    fn flash(&self) -> Option<&Flash> {
        self.memory.flash()
    }
}

fn small(design: &str, overrides: &[(&str, &str)]) -> Config {
    let size = [
        ("cores.count", "2"),
        ("llc.size", "512KiB"),
        ("dataset.size", "64MiB"),
        ("switch.threads", "8"),
    ];
    let own = resolve(design, &[]).expect("a design");
    let log: &[(&str, &str)] =
        if own.write_log.is_some() { &[("write_log.size", "64KiB")] } else { &[] };
    machine(design, &[&size, log, overrides].concat(), "2MiB", "1MiB")
}

/// Runs `jobs` jobs on a cold machine. Returns the written pages that left, counted here and by the
/// design.
fn written(config: &Config, workload: Kind, jobs: u64) -> (u64, u64) {
    let Parts { core_side, memory_side: memory } = designs::compose(config).expect("a machine");
    let (written, blocks) =
        (Rc::new(RefCell::new(Written::default())), core_side == CoreSide::Block);
    let page = config.mos.as_ref().map_or(PAGE_BYTES as u64, |mos| mos.page.0);
    let mut watched =
        Watched { memory, written: written.clone(), together: page / PAGE_BYTES as u64 };
    watched.see();
    let shape = Shape {
        dataset_bytes: config.dataset.size.0,
        theta: 0.5,
        scatter: Scatter::Pages,
        seed: 1,
        work_instructions: ebbtide_sim::WORK_UNITS,
    };
    let program = workload.build(&shape).expect("a program");
    let parts = Parts { core_side, memory_side: Box::new(watched) };
    let mut machine = Machine::of_program(config, parts, program).expect("a machine");
    machine.set_work(Span::from_us(if blocks { 1 } else { 20 }));
    machine.run(jobs).expect("jobs end");
    let Counters { cache, promotion, log, .. } = machine.take_counters();
    let left = written.borrow().left;
    // With a log, a page is on its way to flash when its lines are merged.
    match &config.write_log {
        Some(_) => (left, log.log_pages_written),
        None => (left, cache.evictions_dirty + promotion.demotions_written),
    }
}

#[test]
fn a_page_that_was_written_since_it_last_left_is_written_to_flash_when_it_leaves() {
    for design in designs::ALL {
        if !designs::has_flash(&small(design.name, &[])).expect("a machine") {
            continue;
        }
        for workload in [Kind::Tatp, Kind::ArraySwap] {
            let (seen, counted) = written(&small(design.name, &[]), workload, 6_000);
            let what = format!("{} under {workload}", design.name);
            assert_eq!(seen, counted, "{what}");
            assert!(seen > 300, "{what}: {seen} pages");
        }
    }
}

#[test]
fn no_write_is_lost_among_lines_few_frames_and_read_ahead() {
    let footprint: &[(&str, &str)] = &[("dram_cache.fill", "footprint")];
    let tiny: &[(&str, &str)] = &[("dram_cache.size", "64KiB")];
    let ahead: &[(&str, &str)] = &[("os.read_ahead", "128KiB")];
    let slow: &[(&str, &str)] = &[("dram_cache.backside_queue", "1"), ("dram_cache.mshr", "8")];
    for (design, keys) in [
        ("astriflash", footprint),
        ("astriflash", tiny),
        ("astriflash", slow),
        ("os-swap", tiny),
        ("os-swap", ahead),
        ("flash-sync", footprint),
        ("lhams-e", &[("dram_cache.mshr", "2"), ("dram_cache.backside_queue", "1")]),
        ("cxl-flash", &[("dram_cache.mshr", "0")]),
        ("skybyte-w", &[("write_log.size", "8KiB"), ("write_log.merges", "1")]),
        ("skybyte-w", &[("write_log.size", "8KiB"), ("write_log.stores", "fetched")]),
        ("skybyte-wp", &[("write_log.size", "8KiB")]),
        ("cxl-flash", &[("device.dram_queue", "1"), ("device.mshr_requests", "1")]),
    ] {
        let (seen, counted) = written(&small(design, keys), Kind::ArraySwap, 3_000);
        assert_eq!(seen, counted, "{design} {keys:?}");
        assert!(seen > 100, "{design} {keys:?}: {seen} pages");
    }
}
