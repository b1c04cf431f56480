//! Gaps in which the host or another program takes the processors away. A virtual machine may not
//! count them as stolen time. A request that arrives during a gap waits for its end.

use std::time::{Duration, Instant};

use ebbtide_engine::affinity;

use super::diagnosis::Diagnosis;

/// A longer time between two reads of the clock is a gap. Interrupts take less.
const GAP_MIN: Duration = Duration::from_micros(50);

/// Share of the time in gaps above which gaps set the slowest hundredth of requests.
const SHARE_MAX: f64 = 0.005;

/// The most processors that are looked at.
const PROCESSORS_MAX: usize = 64;

/// The gaps of some processors, all busy at once.
#[derive(Debug, Default, PartialEq)]
struct Gaps {
    count: usize,
    longest: Duration,
    /// In gaps, and in all.
    lost: Duration,
    watched: Duration,
}

impl Gaps {
    /// Adds the time between two reads of the clock.
    fn note(&mut self, between: Duration) {
        self.watched += between;
        if between > GAP_MIN {
            self.count += 1;
            self.lost += between;
            self.longest = self.longest.max(between);
        }
    }

    fn and(self, other: Gaps) -> Gaps {
        Gaps {
            count: self.count + other.count,
            longest: self.longest.max(other.longest),
            lost: self.lost + other.lost,
            watched: self.watched + other.watched,
        }
    }

    fn share(&self) -> f64 {
        self.lost.as_secs_f64() / self.watched.as_secs_f64().max(1e-9)
    }
}

/// Reads the clock on all processors that this process may use, for `duration`.
pub(super) fn finding(duration: Duration) -> Diagnosis {
    match affinity::allowed() {
        Ok(mut cpus) => {
            cpus.truncate(PROCESSORS_MAX);
            judge(&watch(&cpus, duration), cpus.len())
        }
        Err(error) => Diagnosis::limited(NAME, format!("unknown: {error}")),
    }
}

const NAME: &str = "gaps";

fn watch(cpus: &[usize], duration: Duration) -> Gaps {
    std::thread::scope(|scope| {
        let look = |cpu: usize| {
            move || {
                // On another processor it sees gaps as well.
                let _ = affinity::pin(cpu);
                let (mut gaps, began) = (Gaps::default(), Instant::now());
                let mut last = began;
                while last - began < duration {
                    let now = Instant::now();
                    gaps.note(now - last);
                    last = now;
                }
                gaps
            }
        };
        let threads: Vec<_> = cpus.iter().map(|&cpu| scope.spawn(look(cpu))).collect();
        let looked =
            threads.into_iter().map(|thread| thread.join().expect("looking does not panic"));
        looked.fold(Gaps::default(), Gaps::and)
    })
}

fn judge(gaps: &Gaps, processors: usize) -> Diagnosis {
    let found = format!(
        "{processors} processors busy at once: {} gaps of more than {} µs, the longest {:.1} ms, {:.2}% of the time",
        gaps.count,
        GAP_MIN.as_micros(),
        gaps.longest.as_secs_f64() * 1e3,
        gaps.share() * 100.0,
    );
    if gaps.share() < SHARE_MAX {
        return Diagnosis::good(NAME, found);
    }
    Diagnosis::limited(NAME, found)
        .costs("what arrives in a gap waits for its end: p99 and longer tails are the machine's")
        .fix("end other programs; if there are none, the host runs others: use processors of your own")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn gaps_are_long_times_between_looks_and_a_limit_from_half_a_hundredth_on() {
        let of = |longs: usize| {
            let mut gaps = Gaps::default();
            (0..1_000_000 - 100 * longs).for_each(|_| gaps.note(Duration::from_micros(10)));
            (0..longs).for_each(|_| gaps.note(Duration::from_millis(1)));
            gaps
        };
        let few = of(49);
        assert_eq!(
            (few.count, few.longest, few.watched.as_secs()),
            (49, Duration::from_millis(1), 10)
        );
        assert_eq!(judge(&few, 2).status, Status::Good);
        let many = judge(&of(51).and(Gaps::default()), 2);
        assert_eq!(many.status, Status::Limited);
        assert!(
            many.found.contains("51 gaps of more than 50 µs, the longest 1.0 ms, 0.51%"),
            "{many:?}"
        );
    }

    #[test]
    fn every_processor_is_looked_at_for_as_long_as_was_asked() {
        let cpus = affinity::allowed().expect("some");
        let gaps = watch(&cpus[..1], Duration::from_millis(2));
        assert!(gaps.watched >= Duration::from_millis(2), "{gaps:?}");
    }
}
