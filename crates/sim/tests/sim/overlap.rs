//! Tests the overlap of a core's accesses: buffered stores, independent loads, and lines of a
//! stream.

use ebbtide_core::{Addr, FullMemory, PAGE_BYTES, PageId, Span};
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Machine, designs};
use ebbtide_workloads::{Corrupt, Workload};

/// The operation of a job on a word of each of its own cold pages.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    /// Loads them one after another.
    Loads,
    /// Loads them together.
    LoadsTogether,
    /// Stores to them.
    Stores,
    /// Stores to them, and loads each word again.
    StoresAndLoads,
    /// Stores to them, with an exchange in DRAM after each.
    StoresAndExchanges,
    /// Loads the first lines of one page, one after another.
    LoadsLines,
    /// Loads the last lines of one page, one after another.
    LoadsLastLines,
}

const PAGES: u64 = 16;

/// The hot page of exchanges.
const HOT: u64 = 0;

#[derive(Clone)]
struct Program(Does);

impl Workload for Program {
    fn size_bytes(&self) -> u64 {
        64 << 20
    }

    fn image(&self, _page: PageId, out: &mut [u8; PAGE_BYTES]) {
        out.fill(0);
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        let first = 1 + job * PAGES;
        // A different line of each page, so that accesses spread over the sets of the caches.
        let at = |number: u64| Addr((first + number) * PAGE_BYTES as u64 + number * 64);
        let all: Vec<Addr> = (0..PAGES).map(at).collect();
        let mut found = vec![0u64; all.len()];
        match self.0 {
            Does::Loads => all.iter().zip(&mut found).for_each(|(at, out)| *out = memory.load(*at)),
            Does::LoadsTogether => memory.load_all(&all, &mut found),
            Does::Stores => all.iter().for_each(|at| memory.store(*at, 7u64)),
            Does::StoresAndLoads => {
                for at in &all {
                    memory.store(*at, 7u64);
                    if memory.load::<u64>(*at) != 7 {
                        return Err(Corrupt("a load does not see the store before it".to_string()));
                    }
                }
            }
            Does::StoresAndExchanges => {
                for at in &all {
                    memory.store(*at, 7u64);
                    let _ = memory.compare_exchange(Addr(HOT), 0, 0);
                }
            }
            Does::LoadsLines | Does::LoadsLastLines => {
                let page = first * PAGE_BYTES as u64;
                let from = if self.0 == Does::LoadsLines { 0 } else { 64 - PAGES };
                for line in from..from + PAGES {
                    found[0] += memory.load::<u64>(Addr(page + line * 64));
                }
            }
        }
        match found.iter().sum::<u64>() {
            0 => Ok(()),
            _ => Err(Corrupt("what was never stored to is zero".to_string())),
        }
    }

    fn writes(&self) -> bool {
        true
    }
}

/// The time of a job on one core of `design`.
fn time(design: &str, does: Does, keys: &[(&str, &str)]) -> Span {
    let small = [
        ("cores.count", "1"),
        ("noc.columns", "1"),
        ("llc.size", "1MiB"),
        ("dataset.size", "64MiB"),
        ("dram_cache.size", "32MiB"),
        ("dram_cache.ways", "4"),
        ("flash.read_us", "50"),
    ];
    let config = resolve(design, &[&small, keys].concat()).expect("a design and its keys");
    let parts = designs::compose(&config).expect("a valid configuration");
    let mut machine = Machine::new(&config, parts, Program(does)).expect("a machine");
    // The first jobs warm the hot data. A job ends when its last store is in the buffer, and the
    // next job waits for room. Over many jobs the buffer hides only overlapped time.
    machine.run(4).expect("jobs end");
    let jobs = 32;
    let time = machine.run(jobs).expect("jobs end");
    Span::from_ps(time.as_ps() / jobs)
}

/// `time` in flash reads.
fn reads(time: Span) -> f64 {
    time.as_ps() as f64 / Span::from_us(50).as_ps() as f64
}

#[test]
fn a_core_that_waits_for_its_misses_takes_one_after_another() {
    let one_by_one = reads(time("flash-sync", Does::Loads, &[]));
    assert!((one_by_one / PAGES as f64 - 1.0).abs() < 0.05, "{one_by_one}");
    let without = [("cores.store_buffer", "0")];
    let stores = reads(time("flash-sync", Does::Stores, &without));
    assert!((stores / PAGES as f64 - 1.0).abs() < 0.05, "{stores}");
}

#[test]
fn independent_loads_overlap_up_to_the_miss_registers() {
    let together = |registers| {
        let keys = [("cores.miss_registers", registers)];
        reads(time("flash-sync", Does::LoadsTogether, &keys))
    };
    let all = together("32");
    assert!((0.95..1.2).contains(&all), "all at once: {all}");
    let four = together("4");
    assert!((PAGES as f64 / 4.0 * 0.95..PAGES as f64 / 4.0 * 1.3).contains(&four), "{four}");
}

#[test]
fn stores_go_past_misses_until_their_buffer_is_full() {
    let stores = |entries| {
        let keys = [("cores.store_buffer", entries)];
        reads(time("flash-sync", Does::Stores, &keys))
    };
    // The buffer never holds more pages' reads than it has entries.
    let (many, few) = (stores("32"), stores("4"));
    assert!(many < 1.0, "two jobs' stores are under way at a time: {many}");
    assert!((3.5..5.0).contains(&few), "four stores at a time: {few}");
}

#[test]
fn a_load_gets_what_the_buffer_holds_without_waiting() {
    let forwarded = reads(time("flash-sync", Does::StoresAndLoads, &[]));
    assert!(forwarded < 1.0, "{forwarded}");
}

#[test]
fn an_exchange_waits_for_the_stores_before_it() {
    let drained = reads(time("flash-sync", Does::StoresAndExchanges, &[]));
    assert!((drained / PAGES as f64 - 1.0).abs() < 0.1, "{drained}");
}

#[test]
fn nothing_goes_past_a_page_fault() {
    for does in [Does::LoadsTogether, Does::Stores] {
        let keys = [("parts.core_side", "flash-sync")];
        let faults = reads(time("os-swap", does, &keys));
        assert!(faults > PAGES as f64, "each fault waits: {faults}");
    }
}

#[test]
fn loads_in_flight_behind_a_miss_have_asked_for_their_pages() {
    // A core that switches drops them, and finds their pages when it switches back.
    let keys = [("switch.threads", "1"), ("switch.arrivals", "notified")];
    let together = reads(time("astriflash", Does::LoadsTogether, &keys));
    assert!((0.95..1.5).contains(&together), "{together}");
    let apart = reads(time("astriflash", Does::Loads, &keys));
    assert!(apart > PAGES as f64 * 0.95, "{apart}");
}

#[test]
fn a_stream_prefetcher_hides_the_latency_of_lines_behind_mmio() {
    // Without promotion, because it would move the page to DRAM during the test.
    let with = |lines| {
        let keys =
            [("cores.prefetch_lines", lines), ("link.latency_ns", "2377"), ("flash.read_us", "5")];
        time("cxl-flash", Does::LoadsLines, &keys)
    };
    let (without, with) = (with("0"), with("20"));
    assert!(with.as_ps() * 2 < without.as_ps(), "{with:?} against {without:?}");
}

#[test]
fn a_stream_prefetcher_does_not_delay_lines_of_a_page_that_moves_to_dram() {
    // The first lines that are prefetched over MMIO arrive later than with the page's own move. The
    // last lines arrive sooner.
    let with = |does, lines| {
        let keys = [
            ("cores.prefetch_lines", lines),
            ("promotion.size", "16MiB"),
            ("dram_cache.size", "4MiB"),
            ("flash.read_us", "5"),
        ];
        time("flatflash", does, &keys)
    };
    let first = [with(Does::LoadsLines, "0"), with(Does::LoadsLines, "20")];
    assert!(first[1] <= first[0], "{first:?}");
    let last = [with(Does::LoadsLastLines, "0"), with(Does::LoadsLastLines, "20")];
    assert!(last[1] < last[0], "{last:?}");
}
