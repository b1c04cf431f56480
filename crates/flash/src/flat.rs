//! [`Flat`]: a device of fixed latencies and unlimited parallelism, such as the 50/100 µs SSD of
//! AstriFlash (HPCA'23) Table I.

use std::collections::VecDeque;

use ebbtide_core::{PageId, Span, Time};

use crate::command::{Command, Done, Kind};
use crate::config::FlatConfig;
use crate::counters::Counters;
use crate::timing::span_us;

/// The device. Commands in flight wait in one queue for each kind, in the order of their
/// completion.
#[derive(Debug, Clone)]
pub(crate) struct Flat {
    latencies: [Span; 2],
    under_way: [VecDeque<Done>; 2],
    /// Pages that were written, if moves are watched: a write always moves its page in flash.
    pub moved: Option<Vec<PageId>>,
    pub counters: Counters,
}

impl Flat {
    pub(crate) fn new(config: &FlatConfig) -> Flat {
        Flat {
            latencies: [span_us(config.read_us), span_us(config.write_us)],
            under_way: Default::default(),
            moved: None,
            counters: Counters::default(),
        }
    }

    pub(crate) fn submit(&mut self, now: Time, command: Command) {
        let Command { tag, kind, page } = command;
        if let (Kind::Write, Some(moved)) = (kind, &mut self.moved) {
            moved.push(page);
        }
        let at = now + self.latencies[kind as usize];
        let done = Done { tag, kind, at, blocked_by_gc: false, queued: Span::ZERO };
        self.under_way[kind as usize].push_back(done);
    }

    pub(crate) fn expected_read(&self) -> Span {
        self.latencies[Kind::Read as usize]
    }

    pub(crate) fn next_event(&self) -> Option<Time> {
        self.under_way.iter().filter_map(|lane| lane.front()).map(|done| done.at).min()
    }

    /// Completes the first command.
    pub(crate) fn step(&mut self, done: &mut Vec<Done>) {
        let lanes = self.under_way.iter_mut();
        let first = lanes.filter(|lane| !lane.is_empty()).min_by_key(|lane| lane[0].at);
        let Some(first) = first.and_then(VecDeque::pop_front) else { return };
        match first.kind {
            Kind::Read => self.counters.reads += 1,
            Kind::Write => {
                self.counters.writes += 1;
                self.counters.host_pages_programmed += 1;
            }
        }
        done.push(first);
    }
}
