//! [`Slowest`]: where the slowest jobs spend their time, without a list of all jobs.

use super::protocol::SlowestJobs;

/// Classes for each doubling of the response time.
const CLASSES: u32 = 4;

/// Responses up to this power of two nanoseconds, a microsecond, are in one class.
const EXPONENT_MIN: u32 = 10;

/// Responses from this power of two nanoseconds on, about a minute, are in the last class.
const EXPONENT_MAX: u32 = 36;

const COUNT: usize = ((EXPONENT_MAX - EXPONENT_MIN) * CLASSES + 1) as usize;

/// Jobs with similar response times.
#[derive(Clone, Copy, Default)]
struct Class {
    jobs: u64,
    response_ns: u64,
    queueing_ns: u64,
}

/// Response times in classes, with the time that the jobs of a class waited for their start.
pub(super) struct Slowest {
    classes: Box<[Class; COUNT]>,
}

impl Slowest {
    pub(super) fn new() -> Slowest {
        Slowest { classes: Box::new([Class::default(); COUNT]) }
    }

    /// Notes a job that ended `response_ns` after its arrival and began `queueing_ns` after it.
    pub(super) fn note(&mut self, response_ns: u64, queueing_ns: u64) {
        self.classes[class_of(response_ns)].add(&Class { jobs: 1, response_ns, queueing_ns });
    }

    /// Adds the jobs of `other`.
    pub(super) fn add(&mut self, other: &Slowest) {
        self.classes.iter_mut().zip(&*other.classes).for_each(|(class, other)| class.add(other));
    }

    /// Returns the mean times of the slowest hundredth of the jobs, in whole classes.
    pub(super) fn hundredth(&self) -> SlowestJobs {
        let jobs: u64 = self.classes.iter().map(|class| class.jobs).sum();
        let mut slowest = Class::default();
        for class in self.classes.iter().rev() {
            if slowest.jobs * 100 >= jobs {
                break;
            }
            slowest.add(class);
        }
        let mean_us = |ns: u64| ns as f64 / slowest.jobs.max(1) as f64 / 1e3;
        SlowestJobs {
            response_us: mean_us(slowest.response_ns),
            queueing_us: mean_us(slowest.queueing_ns),
        }
    }
}

impl Class {
    fn add(&mut self, other: &Class) {
        self.jobs += other.jobs;
        self.response_ns += other.response_ns;
        self.queueing_ns += other.queueing_ns;
    }
}

fn class_of(ns: u64) -> usize {
    let ns = ns.clamp(1 << EXPONENT_MIN, 1 << EXPONENT_MAX);
    let exponent = ns.ilog2();
    let part = (ns >> (exponent - CLASSES.ilog2())) as u32 % CLASSES;
    ((exponent - EXPONENT_MIN) * CLASSES + part) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_rise_with_the_time_and_none_is_beyond_the_last() {
        let classes = [0, 1 << 10, 1279, 1280, 2047, 2048, 1 << 36, u64::MAX].map(class_of);
        assert_eq!(classes, [0, 0, 0, 1, 3, 4, COUNT - 1, COUNT - 1]);
    }

    #[test]
    fn the_slowest_hundredth_has_the_mean_times_of_its_jobs() {
        let (mut all, mut other) = (Slowest::new(), Slowest::new());
        for _ in 0..198 {
            all.note(20_000, 1_000);
        }
        all.note(900_000, 600_000);
        other.note(1_000_000, 400_000);
        all.add(&other);
        let expected = SlowestJobs { response_us: 950.0, queueing_us: 500.0 };
        assert_eq!(all.hundredth(), expected);
        assert_eq!(Slowest::new().hundredth(), SlowestJobs::default());
    }
}
