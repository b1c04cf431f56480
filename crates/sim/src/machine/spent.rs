//! [`Spent`]: the parts of the service time of jobs, for all jobs and for the slowest.

use std::collections::BTreeMap;

use ebbtide_core::{Span, Time};
use serde::Serialize;

/// The parts of a job's time from its start to its end, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Breakdown {
    /// The job runs on its core, with switches to and from it.
    pub running_ns: f64,
    /// The job waits for a page, or until memory accepts its access. This may block its core.
    pub memory_ns: f64,
    /// The job could continue, but its core runs another job.
    pub core_ns: f64,
    /// The job waits until another job changes a word, mostly a latch.
    pub latch_ns: f64,
}

impl Breakdown {
    /// The total time.
    pub fn total_ns(&self) -> f64 {
        self.running_ns + self.memory_ns + self.core_ns + self.latch_ns
    }
}

/// The parts of the time of jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ServiceParts {
    /// The mean over all jobs.
    pub mean: Breakdown,
    /// The mean over jobs at or above the 99th percentile.
    pub slowest: Breakdown,
}

/// The reason why a thread does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    Memory,
    Word,
}

/// Times that a job has waited, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Waited {
    memory: Span,
    core: Span,
    word: Span,
}

impl Waited {
    /// Adds a wait that ends at `now`. The job waited since `since` for something that arrived at
    /// `over`. A job that is resumed before `over` did not wait for its core.
    pub(crate) fn add(&mut self, what: WaitsFor, since: Time, over: Option<Time>, now: Time) {
        let over = over.unwrap_or(now).clamp(since, now.max(since));
        let waited = match what {
            WaitsFor::Memory => &mut self.memory,
            WaitsFor::Word => &mut self.word,
        };
        *waited = *waited + over.since(since);
        self.core = self.core + now.since(over);
    }
}

/// Waiting times of jobs, by the buckets of their service time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spent(BTreeMap<u64, Sum>);

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    jobs: u64,
    total: Span,
    waited: Waited,
}

impl Sum {
    fn add(&mut self, other: &Sum) {
        self.jobs += other.jobs;
        self.total = self.total.saturating_add(other.total);
        let (to, from) = (&mut self.waited, &other.waited);
        to.memory = to.memory.saturating_add(from.memory);
        to.core = to.core.saturating_add(from.core);
        to.word = to.word.saturating_add(from.word);
    }

    fn a_job(&self) -> Breakdown {
        let ns = |span: Span| span.as_ps() as f64 / 1e3 / self.jobs.max(1) as f64;
        let Waited { memory, core, word } = self.waited;
        let waited = memory.saturating_add(core).saturating_add(word);
        Breakdown {
            running_ns: ns(self.total) - ns(waited),
            memory_ns: ns(memory),
            core_ns: ns(core),
            latch_ns: ns(word),
        }
    }
}

impl Spent {
    /// Adds a job that took `total`, in the bucket up to `bucket` nanoseconds.
    pub(crate) fn job(&mut self, bucket: u64, total: Span, waited: Waited) {
        self.0.entry(bucket).or_default().add(&Sum { jobs: 1, total, waited });
    }

    /// The parts of all jobs, and of those from the bucket up to `p99` nanoseconds on.
    pub(crate) fn parts(&self, p99: u64) -> ServiceParts {
        let over = |from: u64| {
            let mut sum = Sum::default();
            self.0.range(from..).for_each(|(_, bucket)| sum.add(bucket));
            sum.a_job()
        };
        ServiceParts { mean: over(0), slowest: over(p99) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_when_what_was_waited_for_is_there_and_the_rest_is_for_the_core() {
        let at = |us: u64| Time::from_ns(us * 1_000);
        let mut waited = Waited::default();
        waited.add(WaitsFor::Memory, at(10), Some(at(60)), at(75));
        waited.add(WaitsFor::Word, at(80), Some(at(81)), at(81));
        // Resumed on a guess, before the page arrived.
        waited.add(WaitsFor::Memory, at(90), None, at(100));
        let expected =
            Waited { memory: Span::from_us(60), core: Span::from_us(15), word: Span::from_us(1) };
        assert_eq!(waited, expected);
    }

    #[test]
    fn the_slowest_are_looked_at_by_themselves() {
        let mut spent = Spent::default();
        let waited = |us| Waited { memory: Span::from_us(us), ..Waited::default() };
        (0..99).for_each(|_| spent.job(10_000, Span::from_us(10), waited(4)));
        spent.job(100_000, Span::from_us(100), waited(90));
        let parts = spent.parts(100_000);
        let nearly = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(nearly(parts.slowest.memory_ns, 90e3) && nearly(parts.slowest.running_ns, 10e3));
        assert!(nearly(parts.mean.memory_ns, 4_860.0), "{parts:?}");
        assert!(nearly(parts.mean.total_ns(), 10_900.0), "{parts:?}");
    }
}
