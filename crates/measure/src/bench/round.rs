//! [`Round`]: all memories measured once, one after the other, and which rounds a result is made
//! of.

use std::collections::BTreeMap;

use super::options::Mode;
use super::protocol::Window;
use crate::disturbance::Disturbance;

/// One measurement of one memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Turn {
    /// Counts of the child.
    pub(super) window: Window,
    /// CPU time of the kernel's own threads during the round, in seconds.
    pub(super) kernel_cpu_s: f64,
    /// Time that other programs and the host took from it.
    pub(super) disturbance: Disturbance,
}

impl Turn {
    pub(super) fn jobs_per_s(&self) -> f64 {
        self.window.jobs as f64 / self.window.seconds
    }

    pub(super) fn misses_per_job(&self) -> f64 {
        self.window.misses as f64 / self.window.jobs as f64
    }

    pub(super) fn cpu_s(&self) -> f64 {
        self.window.cpu_s + self.kernel_cpu_s
    }

    /// Returns the CPU time of a page read, for a miss or ahead of demand, in microseconds. It is
    /// what this turn took beyond DRAM-only's turn `dram` for the same jobs.
    pub(super) fn cpu_us_beyond(&self, dram: &Turn) -> f64 {
        let dram_cpu_per_job = dram.cpu_s() / dram.window.jobs as f64;
        let extra = self.cpu_s() - self.window.jobs as f64 * dram_cpu_per_job;
        extra * 1e6 / self.window.reads_started() as f64
    }
}

/// One measurement of every memory. Ratios are taken within a round.
pub(super) type Round = BTreeMap<Mode, Turn>;

/// The rounds of one workload at one load.
#[derive(Debug, Clone, Default)]
pub(super) struct Rounds {
    rounds: Vec<Round>,
    wished: usize,
}

impl Rounds {
    /// None yet, of `wished`.
    pub(super) fn new(wished: usize) -> Rounds {
        Rounds { rounds: Vec::new(), wished }
    }

    /// Returns whether another round must be measured. The bench ends with the wished number of
    /// undisturbed rounds, or after twice as many rounds as wished.
    pub(super) fn go_on(&self) -> bool {
        let undisturbed = self.rounds.iter().filter(|round| severity(round) == 0.0).count();
        undisturbed < self.wished && self.rounds.len() < 2 * self.wished
    }

    /// Rounds measured so far.
    pub(super) fn measured(&self) -> usize {
        self.rounds.len()
    }

    pub(super) fn push(&mut self, round: Round) {
        self.rounds.push(round);
    }

    /// Removes a memory that failed.
    pub(super) fn remove(&mut self, mode: Mode) {
        for round in &mut self.rounds {
            round.remove(&mode);
        }
    }

    /// Returns the wished number of rounds, in the order of measurement. The least disturbed rounds
    /// are kept; among equals, the earliest. Their figures have no influence.
    pub(super) fn kept(&self) -> Vec<&Round> {
        let mut order: Vec<usize> = (0..self.rounds.len()).collect();
        order.sort_by(|&a, &b| {
            severity(&self.rounds[a]).total_cmp(&severity(&self.rounds[b])).then(a.cmp(&b))
        });
        order.truncate(self.wished);
        order.sort_unstable();
        order.into_iter().map(|index| &self.rounds[index]).collect()
    }
}

/// The largest share of its CPUs that a measurement of this round lost.
fn severity(round: &Round) -> f64 {
    round.values().map(|turn| turn.disturbance.severity()).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(jobs: u64, others_share: f64) -> Round {
        let disturbance = Disturbance { others_share, cpu_s: 1.0, ..Disturbance::default() };
        let window = Window { jobs, ..Window::default() };
        let turn = Turn { window, disturbance, ..Turn::default() };
        Round::from([(Mode::Dram, Turn::default()), (Mode::Ebbtide, turn)])
    }

    fn jobs(rounds: &Rounds) -> Vec<u64> {
        rounds.kept().iter().map(|round| round[&Mode::Ebbtide].window.jobs).collect()
    }

    #[test]
    fn a_disturbed_round_is_measured_again() {
        let mut rounds = Rounds::new(2);
        for (jobs, others) in [(1, 0.0), (2, 0.5)] {
            assert!(rounds.go_on());
            rounds.push(round(jobs, others));
        }
        assert!(rounds.go_on(), "one of two is disturbed");
        rounds.push(round(3, 0.0));
        assert!(!rounds.go_on());
        assert_eq!(jobs(&rounds), [1, 3]);
    }

    #[test]
    fn a_busy_machine_costs_at_most_twice_the_rounds() {
        let mut rounds = Rounds::new(3);
        while rounds.go_on() {
            let number = rounds.measured() as u64;
            rounds.push(round(number, 0.9 - number as f64 / 10.0));
        }
        assert_eq!(jobs(&rounds), [3, 4, 5], "the least disturbed are kept");
    }

    #[test]
    fn what_was_measured_does_not_choose_the_rounds() {
        let mut rounds = Rounds::new(2);
        [9, 1, 8].into_iter().for_each(|jobs| rounds.push(round(jobs, 0.0)));
        assert_eq!(jobs(&rounds), [9, 1]);
    }
}
