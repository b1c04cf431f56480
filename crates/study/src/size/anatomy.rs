//! [`Anatomy`]: the costs of a miss on a design.

use ebbtide_core::replacement::PolicyKind;
use ebbtide_core::schedule::Discipline;
use ebbtide_core::{PageId, Span, Time};
use ebbtide_sim::config::{Config, ConfigError};
use ebbtide_sim::designs::resolve;
use ebbtide_sim::memory_side::{Answer, Event, MemorySide, Request, Waiter};
use ebbtide_sim::{CoreSide, designs};
use serde::Serialize;

use crate::analytic::event_model::Order;
use ebbtide_measure::bench::{Mode, Profile};

/// The costs of a miss on an otherwise idle design.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Anatomy {
    /// The design's name.
    pub design: String,
    /// True if all data is in DRAM, so nothing misses.
    pub all_dram: bool,
    /// True if the core waits for flash. Otherwise it runs other jobs during a read.
    pub blocks: bool,
    /// The order of jobs on a core that does not wait, for the event model.
    pub order: Order,
    /// Core time of a miss without the flash read, in microseconds.
    pub overhead_us: f64,
    /// Time of the flash read, in addition to `overhead_us`.
    pub flash: FlashLatency,
    /// The replacement policy of the design's DRAM.
    pub policy: PolicyKind,
    /// The design's configuration, if the simulator has the design. A recommendation is then
    /// confirmed on it.
    #[serde(skip)]
    pub simulated: Option<Box<Config>>,
}

/// Time of a read of a page from flash.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlashLatency {
    /// A constant time in microseconds, at any load.
    Fixed(f64),
    /// Measured times by load: `(reads a second, mean microseconds)`, by rising load. The last load
    /// is the maximum.
    Measured(Vec<(f64, f64)>),
}

impl FlashLatency {
    /// Returns the mean time of a read, in microseconds, at `reads_per_s`. `None` if flash cannot
    /// serve that many.
    pub fn read_us(&self, reads_per_s: f64) -> Option<f64> {
        let points = match self {
            FlashLatency::Fixed(us) => return Some(*us),
            FlashLatency::Measured(points) => points,
        };
        let above = points.iter().position(|(rate, _)| *rate >= reads_per_s)?;
        let (rate, us) = points[above];
        let Some((rate_below, us_below)) = above.checked_sub(1).map(|below| points[below]) else {
            return Some(us);
        };
        let share = (reads_per_s - rate_below) / (rate - rate_below);
        Some(us_below + share * (us - us_below))
    }

    /// The most reads a second. Infinite if there is no limit.
    pub(crate) fn reads_per_s_max(&self) -> f64 {
        match self {
            FlashLatency::Fixed(_) => f64::INFINITY,
            FlashLatency::Measured(points) => points.last().map_or(0.0, |(rate, _)| *rate),
        }
    }
}

/// Every design of the simulator with the parameters of its file. Also the names of the designs
/// that answer single lines in place (FlatFlash, CXL-flash). The number of missed pages does not
/// determine their times.
pub(super) fn published() -> Result<(Vec<Anatomy>, Vec<&'static str>), ConfigError> {
    let (mut anatomies, mut left_out) = (Vec::new(), Vec::new());
    for design in designs::ALL {
        match of_design(&resolve(design.name, &[])?)? {
            Some(anatomy) => anatomies.push(anatomy),
            None => left_out.push(design.name),
        }
    }
    Ok((anatomies, left_out))
}

/// The memories of the bench on the machine of `profile`.
pub(super) fn measured(profile: &Profile) -> Vec<Anatomy> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for at in &profile.reads {
        // A deeper queue may have no more reads a second. Then the reads only wait longer.
        if points.last().is_none_or(|(most, _)| at.reads_per_s > *most) {
            points.push((at.reads_per_s, at.mean_us));
        }
    }
    let flash = FlashLatency::Measured(points);
    let anatomy = |mode: Mode| {
        let costs = profile.mode(mode);
        let blocks = mode == Mode::Sync;
        let policy = match mode {
            Mode::Paging => PolicyKind::Clock,
            _ => PolicyKind::MiniSim,
        };
        (costs.is_some() || mode == Mode::Dram).then(|| Anatomy {
            design: mode.to_string(),
            all_dram: mode == Mode::Dram,
            blocks,
            order: Order::ReturnedFirst,
            overhead_us: costs.map_or(0.0, |costs| costs.miss_us),
            // If the core waits for the read, the cost of the miss includes it.
            flash: if blocks { FlashLatency::Fixed(0.0) } else { flash.clone() },
            policy,
            simulated: None,
        })
    };
    Mode::USUAL.into_iter().filter_map(anatomy).collect()
}

/// Measures a miss on the memory that `config` describes. `None` if the memory answers single
/// lines.
fn of_design(config: &Config) -> Result<Option<Anatomy>, ConfigError> {
    let mut parts = designs::compose(config)?;
    let memory = parts.memory_side.as_mut();
    if memory.capabilities().byte_addressable {
        return Ok(None);
    }
    let request = Request::new(PageId(1).start(), false, Waiter { core: 0, thread: 0, slot: 0 });
    let (reply, arrived) = match memory.access(Time::ZERO, request) {
        // The core waits for the line, from any source.
        Answer::Hit(ready) | Answer::Posted(ready) => (ready, ready),
        Answer::Miss(reply) | Answer::Brief(reply) => (reply, arrival(memory).max(reply)),
        Answer::Stalled => (Time::ZERO, arrival(memory)),
    };
    let all_dram = memory.flash().is_none();
    let (software, order) = match &parts.core_side {
        CoreSide::Block => (Span::ZERO, Order::ReturnedFirst),
        CoreSide::Switch(switching) => {
            let order = match switching.discipline {
                Discipline::Priority => Order::ReturnedFirst,
                Discipline::Fifo => Order::NewFirst,
            };
            (switching.flush + switching.switch_out, order)
        }
    };
    let us = |span: Span| span.as_ps() as f64 / 1e6;
    Ok(Some(Anatomy {
        design: config.design.clone(),
        all_dram,
        blocks: parts.core_side == CoreSide::Block,
        order,
        overhead_us: if all_dram { 0.0 } else { us(reply.since(Time::ZERO) + software) },
        flash: FlashLatency::Fixed(us(arrived.since(reply))),
        policy: config.dram_cache.policy,
        simulated: Some(Box::new(config.clone())),
    }))
}

/// The most events of a memory for one page.
const EVENTS_MAX: usize = 1 << 16;

/// The arrival time of the page that was requested from `memory`.
///
/// # Panics
/// When the page never arrives, which is a bug of the design.
fn arrival(memory: &mut dyn MemorySide) -> Time {
    let mut events = Vec::new();
    for _ in 0..EVENTS_MAX {
        let Some(due) = memory.next_event() else { break };
        memory.advance(due, &mut events);
        let arrived = events.drain(..).find_map(|event| match event {
            Event::Arrived(_, at) => Some(at),
            _ => None,
        });
        if let Some(at) = arrived {
            return at;
        }
    }
    panic!("a page that was asked for did not come within {EVENTS_MAX} events");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str) -> Anatomy {
        let (all, _) = published().expect("the shipped files resolve");
        all.into_iter().find(|anatomy| anatomy.design == name).expect("it is shipped")
    }

    #[test]
    fn designs_take_what_their_papers_say() {
        let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 0.05;
        let astriflash = find("astriflash");
        // 50 us of flash, its link, tag probe, flush and switch.
        let read_us = astriflash.flash.read_us(1.0).expect("it is not limited");
        assert!(!astriflash.blocks && near(read_us, 50.0), "{astriflash:?}");
        assert!((0.1..0.25).contains(&astriflash.overhead_us), "{astriflash:?}");
        let os_swap = find("os-swap");
        assert!(!os_swap.blocks && near(os_swap.overhead_us, 10.0), "{os_swap:?}");
        assert!(find("flash-sync").blocks && find("dram-only").all_dram);
        // Without priorities, new jobs run before those whose page has arrived.
        let orders = ["astriflash", "astriflash-nops"].map(|name| find(name).order);
        assert_eq!(orders, [Order::ReturnedFirst, Order::NewFirst]);
        let (_, left_out) = published().expect("the shipped files resolve");
        let skybyte = ["base", "p", "c", "w", "cp", "wp", "full"];
        let skybyte = skybyte.map(|part| format!("skybyte-{part}"));
        let all = ["cxl-flash".to_string()].into_iter().chain(skybyte);
        let all: Vec<String> = all.chain(["flatflash".to_string()]).collect();
        assert_eq!(left_out, all);
    }

    #[test]
    fn measured_flash_slows_down_with_load_up_to_its_limit() {
        let flash = FlashLatency::Measured(vec![(10e3, 100.0), (50e3, 200.0)]);
        assert_eq!(flash.read_us(1e3), Some(100.0));
        assert_eq!(flash.read_us(30e3), Some(150.0));
        assert_eq!(flash.read_us(60e3), None);
        assert_eq!(flash.reads_per_s_max(), 50e3);
    }
}
