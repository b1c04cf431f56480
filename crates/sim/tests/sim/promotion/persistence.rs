//! Tests the persist region: the place of its pages, the cost of its stores, and power cuts.

use ebbtide_core::{FullMemory, PAGE_BYTES, PageId, Span, Time};
use ebbtide_sim::Machine;
use ebbtide_sim::designs::compose;
use ebbtide_sim::memory_side::{Answer, DeviceCache, MemorySide, Promotion, Warm};
use ebbtide_workloads::{Corrupt, Workload};

use super::driven::{Driven, FLASH, MAP, MMIO_READ, MOVE, POSTED_WRITE, config, request};

#[test]
fn a_persist_page_is_never_promoted_and_its_stores_are_verified() {
    let mut driven = Driven::new(&[("promotion.persist", "512KiB")]);
    let (volatile, persist) = (127, 128);
    driven.memory.warm(request(volatile, 0, false));
    driven.memory.warm(request(persist, 0, false));
    for _ in 0..50 {
        assert_eq!(driven.write(persist, 0), Answer::Posted(driven.now + POSTED_WRITE + MMIO_READ));
        driven.pass(Span::from_us(20));
    }
    assert!(driven.waits_for_ssd(persist, 0));
    assert_eq!(driven.memory.take_counters().promotion.promotions, 0);
    for _ in 0..7 {
        driven.write(volatile, 0);
    }
    assert_eq!(driven.memory.take_counters().promotion.promotions, 1);
}

/// Stores to one word of the last page, many times.
#[derive(Clone)]
struct Log {
    pages: u64,
    stores: u64,
}

impl Workload for Log {
    fn size_bytes(&self) -> u64 {
        self.pages * PAGE_BYTES as u64
    }

    fn image(&self, _page: PageId, out: &mut [u8; PAGE_BYTES]) {
        out.fill(0);
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        let at = PageId(self.pages - 1).start();
        (0..self.stores).for_each(|_| memory.store(at, job));
        if memory.load::<u64>(at) == job { Ok(()) } else { Err(Corrupt("a lost store".into())) }
    }

    fn writes(&self) -> bool {
        true
    }
}

#[test]
fn every_store_to_the_persist_region_is_flushed_and_verified() {
    const STORES: u64 = 8;
    let time = |persist: &str| {
        let config = config(&[
            ("promotion.persist", persist),
            ("cores.count", "1"),
            ("llc.size", "128KiB"),
            ("l1.size", "32KiB"),
            ("dataset.size", "1MiB"),
        ]);
        let pages = config.dataset.size.0 / PAGE_BYTES as u64;
        let program = Log { pages, stores: STORES };
        let mut machine = Machine::new(&config, compose(&config).unwrap(), program).unwrap();
        machine.warm(1, None).unwrap();
        machine.take_measured();
        let time = machine.run(10).unwrap();
        (time, machine.take_measured().counters.durability.durable_writes)
    };
    let (cached, none) = time("0B");
    let (durable, all) = time("512KiB");
    // The core may have begun the next job.
    assert!(none == 0 && (10 * STORES..11 * STORES).contains(&all), "{none} {all}");
    // Without persistence all but the first stay in the core's cache.
    let flushed = Span::from_ps(10 * STORES * (POSTED_WRITE + MMIO_READ).as_ps());
    assert!(durable >= flushed && cached < MMIO_READ + FLASH, "{durable:?} {cached:?}");
}

#[test]
fn a_power_cut_takes_what_was_written_in_host_dram_and_never_a_persist_page() {
    for battery_backed in [true, false] {
        let persist = if battery_backed { "512KiB" } else { "0B" };
        let battery = battery_backed.to_string();
        let config = config(&[
            ("promotion.persist", persist),
            ("promotion.battery_backed", &battery),
            ("promotion.threshold_max", "1"),
        ]);
        let mut memory = Promotion::new(&config, DeviceCache::new(&config).unwrap()).unwrap();
        let (mut now, mut events) = (Time::from_ns(1_000_000), Vec::new());
        let mut write = |memory: &mut Promotion, page: u64, times: u64| {
            for _ in 0..times {
                memory.access(now, request(page, 0, true));
                now += FLASH + MOVE + MAP;
                memory.advance(now, &mut events);
            }
        };
        // A write promotes each page that may move. The next write is done in DRAM.
        let (volatile, persistent) = (3, 200);
        write(&mut memory, volatile, 2);
        write(&mut memory, persistent, 2);
        let lost = memory.lost_in_power_cut();
        assert!(lost.contains(&PageId(volatile)));
        // Without a persist region that page is an ordinary page.
        assert_eq!(lost.contains(&PageId(persistent)), !battery_backed);
    }
}

#[test]
fn without_a_battery_a_power_cut_takes_what_was_written_in_the_cache() {
    for (battery, lost) in [("true", vec![]), ("false", vec![PageId(3)])] {
        let config = config(&[("promotion.battery_backed", battery)]);
        let mut memory = Promotion::new(&config, DeviceCache::new(&config).unwrap()).unwrap();
        memory.warm(request(3, 0, true));
        memory.warm(request(4, 0, false));
        assert_eq!(memory.lost_in_power_cut(), lost);
    }
}
