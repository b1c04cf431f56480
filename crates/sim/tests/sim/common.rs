//! Machines of every design that are small enough for a test, and requests to their memory.

use ebbtide_core::{PageId, Time};
use ebbtide_sim::config::Config;
use ebbtide_sim::designs::resolve;
use ebbtide_sim::memory_side::{Event, MemorySide, Request, Waiter};

/// `design` with `keys`, and with `dram` for its pages. A design that promotes pages has
/// `promoted` of host DRAM instead, and a device's cache of 20 ways.
pub fn machine(design: &str, keys: &[(&str, &str)], dram: &str, promoted: &str) -> Config {
    let own = resolve(design, &[]).expect("a design");
    let of_dram: &[(&str, &str)] = if own.promotion.is_some() {
        // 20 ways and a power of two of sets.
        &[("dram_cache.size", "640KiB"), ("promotion.size", promoted)]
    } else {
        &[("dram_cache.size", dram)]
    };
    resolve(design, &[of_dram, keys].concat()).expect("a machine that can be built")
}

/// `thread` of the first core reads the first line of `page`.
pub fn read(page: u64, thread: u32) -> Request {
    Request::new(PageId(page).start(), false, Waiter { core: 0, thread, slot: 0 })
}

/// `thread` of the first core writes the first line of `page`.
pub fn write(page: u64, thread: u32) -> Request {
    Request { write: true, ..read(page, thread) }
}

/// Handles all events of `memory`, and returns them in order of time.
pub fn settle(memory: &mut impl MemorySide) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(due) = memory.next_event() {
        memory.advance(due, &mut events);
    }
    events
}

/// When the page that `thread` waits for arrives, if it does.
pub fn arrival(events: &[Event], thread: u32) -> Option<Time> {
    events.iter().find_map(|event| match event {
        Event::Arrived(waiter, at) if waiter.thread == thread => Some(*at),
        _ => None,
    })
}
