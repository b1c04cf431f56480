//! The bench of one workload: its children, its calibration, its rounds, and its outcomes.

use std::collections::BTreeMap;
use std::time::Instant;

use ebbtide_core::{PAGE_BYTES, Stopped};
use ebbtide_workloads::{Program, Workload};

use super::conditions::Conditions;
use super::data::{self, DataPlaces};
use super::error::BenchError;
use super::measured::{Measured, RawRingCost};
use super::memory_server::{PAGING_THREADS, PAGING_TRIAL_S};
use super::options::{Arrivals, Flash, Mode};
use super::protocol::{Calibration, Command, RawReads, Reply, WindowArrivals};
use super::results::Failure;
use super::round::{Round, Rounds, Turn};
use super::runner::{Bench, Runner};
use super::{
    BenchMachine, BenchReport, Effect, Spread, Tried, WorkloadFacts, places, setup, setup_share,
    stored_modes,
};
use crate::cgroup::MemoryCgroup;
use crate::disturbance::Activity;
use crate::doctor::machine::MachineSummary;

/// The most rounds that measure a raw ring.
const RAW_ROUNDS_MAX: usize = 3;

impl Bench<'_> {
    /// Measures the workload into `report` and, with a profile, adds to `conditions` the inputs of
    /// a prediction of each outcome.
    pub(super) fn run(
        &self,
        report: &mut BenchReport,
        conditions: &mut Vec<Conditions>,
    ) -> Result<(), BenchError> {
        let program = &self.subject.program;
        let places = places(self.options, self.subject);
        if self.options.device == Flash::Data {
            self.make_data(program, &places)?;
            if report.machine.read_us_qd1.is_none() {
                self.probe_device(&places, report)?;
            }
        }
        let (mut runners, calibration) = self.start(program, &places, report)?;
        report.workloads.push(WorkloadFacts {
            workload: self.subject.program.name(),
            pages: program.size_bytes() / PAGE_BYTES as u64,
            calibration,
        });
        match self.options.arrivals {
            Arrivals::Closed => self.closed(&mut runners, &calibration, report, conditions),
            Arrivals::Open => self.open(&mut runners, &calibration, report),
        }
    }

    pub(super) fn make_data(
        &self,
        program: &Program,
        places: &DataPlaces,
    ) -> Result<(), BenchError> {
        let modes: Vec<Mode> = stored_modes(self.options).collect();
        let missing = places.missing(&modes)?;
        let stage = format!("writing {} of data", data::mib(data::bytes(&missing)));
        let within = |_: &str, share: f64| self.watch.show(&stage, share * 0.2);
        data::write(&missing, program, self.watch.telling(&within))?;
        Ok(())
    }

    fn probe_device(
        &self,
        places: &DataPlaces,
        report: &mut BenchReport,
    ) -> Result<(), BenchError> {
        self.watch.tell("measuring the device", 0.2)?;
        let Some(mode) = stored_modes(self.options).next() else { return Ok(()) };
        let summary = MachineSummary::quick(&places.place(mode).0, setup_share(self.options))?;
        report.machine = BenchMachine::new(&summary, self.cpus);
        Ok(())
    }

    /// Measures `runner` once.
    pub(super) fn turn(
        &self,
        runner: &mut Runner,
        seconds: f64,
        arrivals: WindowArrivals,
        work_instructions: u64,
    ) -> Result<Turn, BenchError> {
        let reads = None;
        self.turn_of(runner, Command::Run { seconds, arrivals, work_instructions, reads })
    }

    /// Has `runner` obey `command`, which runs a window.
    fn turn_of(&self, runner: &mut Runner, command: Command) -> Result<Turn, BenchError> {
        let (before, since) = (Activity::now(self.cpus), Instant::now());
        match runner.child.ask(&command, self.watch) {
            Ok(Reply::Window(window)) => {
                let wall_s = since.elapsed().as_secs_f64();
                let after = Activity::now(self.cpus);
                let (own, cpus) = (runner.child.id(), self.cpus.len());
                Ok(Turn {
                    window: *window,
                    kernel_cpu_s: after.kernel_cpu_s(&before),
                    disturbance: after.disturbance(&before, own, wall_s, cpus),
                })
            }
            Err(_) if runner.is_limited() && runner.child.was_killed() => {
                Err(self.child_error(runner.mode, &self.out_of_memory()))
            }
            other => Err(self.unexpected(runner.mode, other)),
        }
    }

    /// Handles an error of one memory. An error of DRAM-only or a stop ends the bench, because all
    /// others are compared with DRAM-only. Any other memory is reported as failed, and the rest
    /// goes on without it.
    pub(super) fn give_up(
        &self,
        mode: Mode,
        error: BenchError,
        report: &mut BenchReport,
    ) -> Result<(), BenchError> {
        let BenchError::Child { reason, .. } = &error else { return Err(error) };
        if mode == Mode::Dram {
            return Err(error);
        }
        report.failures.push(Failure::of_memory(self.subject.program.name(), mode, reason));
        Ok(())
    }

    /// All modes, round by round, each round starting with another mode. Disturbed rounds are
    /// repeated. A memory that fails leaves `runners` and is among the report's failures.
    fn rounds(
        &self,
        runners: &mut Vec<Runner>,
        work: u64,
        arrivals: WindowArrivals,
        wished: usize,
        (from, to): (f64, f64),
        report: &mut BenchReport,
    ) -> Result<Rounds, BenchError> {
        let mut rounds = Rounds::new(wished);
        while rounds.go_on() {
            let number = rounds.measured();
            let (stage, share) = match number < wished {
                true => (format!("round {} of {wished}", number + 1), number as f64),
                false => {
                    let again = number - wished + 1;
                    (format!("disturbed: again, {again} of at most {wished}"), wished as f64)
                }
            };
            self.watch.tell(&stage, from + (to - from) * share / wished as f64)?;
            let mut round = Round::new();
            let modes: Vec<Mode> = runners.iter().map(|runner| runner.mode).collect();
            for turn in 0..modes.len() {
                let mode = modes[(turn + number) % modes.len()];
                let Some(index) = runners.iter().position(|runner| runner.mode == mode) else {
                    continue;
                };
                match self.turn(&mut runners[index], self.options.seconds, arrivals, work) {
                    Ok(measured) => {
                        round.insert(mode, measured);
                    }
                    Err(error) => {
                        // Without the last memory, nothing is left to compare with DRAM-only.
                        if runners.len() <= 2 {
                            return Err(error);
                        }
                        self.give_up(mode, error, report)?;
                        runners.remove(index);
                        rounds.remove(mode);
                    }
                }
            }
            rounds.push(round);
        }
        Ok(rounds)
    }

    fn closed(
        &self,
        runners: &mut Vec<Runner>,
        calibration: &Calibration,
        report: &mut BenchReport,
        conditions: &mut Vec<Conditions>,
    ) -> Result<(), BenchError> {
        let (work, closed) = (calibration.work_instructions, WindowArrivals::Closed);
        let measured =
            self.rounds(runners, work, closed, self.options.rounds, (0.4, 0.95), report)?;
        let rounds = measured.kept();
        self.watch.tell("without added work", 0.95)?;
        let ratio_without_work = self.without_work(runners, report)?;
        self.watch.tell("a raw ring", 0.97)?;
        let raw_ring = self.raw_ring(runners, calibration, (&rounds, &measured), report)?;
        for runner in runners.iter() {
            let is_ebbtide = runner.mode == Mode::Ebbtide;
            let outcome = Measured {
                raw_ring: raw_ring.filter(|_| is_ebbtide),
                ratio_without_work: ratio_without_work.filter(|_| is_ebbtide),
                ..self.measured(runner, &rounds, &rounds, calibration, &measured)
            }
            .outcome();
            conditions.extend(self.conditions(
                report.results.len(),
                runner,
                calibration,
                measured.measured(),
            ));
            report.results.push(outcome);
        }
        report.tried.extend(self.tried(&rounds));
        Ok(())
    }

    /// The cost of a read through a raw ring between the jobs of DRAM-only, in the place of the
    /// engine's misses in `rounds`. `None` without Ebbtide on a drive.
    fn raw_ring(
        &self,
        runners: &mut [Runner],
        calibration: &Calibration,
        rounds: (&[&Round], &Rounds),
        report: &mut BenchReport,
    ) -> Result<Option<RawRingCost>, BenchError> {
        let of = |mode| runners.iter().position(|runner| runner.mode == mode);
        let (Some(dram), Some(engine)) = (of(Mode::Dram), of(Mode::Ebbtide)) else {
            return Ok(None);
        };
        let (kept, all) = rounds;
        let outcome = self.measured(&runners[engine], kept, kept, calibration, all).outcome();
        let file = places(self.options, self.subject).place(Mode::Ebbtide).0;
        let reads = RawReads::as_in(&outcome, file).filter(|_| self.options.device == Flash::Data);
        let Some(reads) = reads else { return Ok(None) };
        let mut costs = Vec::new();
        for _ in 0..self.options.rounds.min(RAW_ROUNDS_MAX) {
            let mut turn = |reads| {
                let (seconds, arrivals) = (self.options.seconds, WindowArrivals::Closed);
                let work_instructions = calibration.work_instructions;
                let command = Command::Run { seconds, arrivals, work_instructions, reads };
                self.turn_of(&mut runners[dram], command)
            };
            let without = turn(None)?;
            match turn(Some(reads.clone())) {
                Ok(with) => costs.push(with.cpu_us_beyond(&without)),
                // The rounds are complete and stay.
                Err(BenchError::Child { reason, .. }) => {
                    let workload = self.subject.program.name();
                    report.notices.push(format!("{workload}: no read through a ring: {reason}"));
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        let RawReads { batch, in_flight, .. } = reads;
        Ok(Some(RawRingCost { cpu_us_per_read: Spread::of(costs), batch, in_flight }))
    }

    /// Ebbtide's throughput over DRAM-only's without added work; `None` without Ebbtide.
    fn without_work(
        &self,
        runners: &mut [Runner],
        report: &mut BenchReport,
    ) -> Result<Option<f64>, BenchError> {
        let mut jobs_per_s = BTreeMap::new();
        for mode in [Mode::Dram, Mode::Ebbtide] {
            let Some(index) = runners.iter().position(|runner| runner.mode == mode) else {
                return Ok(None);
            };
            let closed = WindowArrivals::Closed;
            match self.turn(&mut runners[index], self.options.seconds, closed, 0) {
                Ok(turn) => {
                    jobs_per_s.insert(mode, turn.jobs_per_s());
                }
                // The rounds are complete and stay.
                Err(BenchError::Child { reason, .. }) => {
                    let workload = self.subject.program.name();
                    report.failures.push(Failure::of_memory(workload, mode, &reason));
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(jobs_per_s[&Mode::Ebbtide] / jobs_per_s[&Mode::Dram]))
    }

    fn measured<'a>(
        &self,
        runner: &Runner,
        rounds: &'a [&'a Round],
        dram: &'a [&'a Round],
        calibration: &'a Calibration,
        measured: &Rounds,
    ) -> Measured<'a> {
        Measured {
            workload: self.subject.program.name(),
            mode: runner.mode,
            cores: self.options.cores,
            load: None,
            calibration,
            rounds,
            dram,
            rounds_measured: measured.measured(),
            threads_per_core: runner.threads_per_core,
            page_cache_bytes: runner
                .group
                .as_ref()
                .filter(|_| runner.mode == Mode::Paging)
                .and_then(MemoryCgroup::file_bytes),
            // Memory in place of a drive is the child's, and not the memory under test.
            peak_bytes: runner.peak_bytes().filter(|_| self.options.device == Flash::Data),
            budget_bytes: self.options.dram_bytes(),
            durability: self.options.durability,
            raw_ring: None,
            ratio_without_work: None,
        }
    }

    /// The effect of the techniques that were tried, if any.
    fn tried(&self, rounds: &[&Round]) -> Option<Tried> {
        let of = |mode: Mode| -> Option<Vec<&Turn>> {
            rounds.iter().map(|round| round.get(&mode)).collect()
        };
        let (plain, tried) = (of(Mode::Plain)?, of(Mode::Ebbtide)?);
        let misses =
            |turns: &[&Turn]| Spread::of(turns.iter().map(|turn| turn.misses_per_job())).median;
        let pairs = plain.iter().zip(&tried);
        let measured = Effect {
            misses_per_job_without: misses(&plain),
            misses_per_job_with: misses(&tried),
            speedup: Spread::of(
                pairs.map(|(plain, tried)| tried.jobs_per_s() / plain.jobs_per_s()),
            )
            .median,
        };
        let (workload, what) = (self.subject.program.name(), self.options.tries());
        Some(Tried { workload, what, measured, simulated: None })
    }

    /// The conditions of the outcome with index `outcome`, of `runner`; `None` without a profile.
    fn conditions(
        &self,
        outcome: usize,
        runner: &Runner,
        calibration: &Calibration,
        rounds: usize,
    ) -> Option<Conditions> {
        let nowhere = (self.options.data.clone(), 0);
        Some(Conditions {
            outcome,
            program: self.subject.program.clone(),
            calibration: *calibration,
            setup: setup(self.options, self.subject, runner.mode, self.cpus, nowhere),
            threads_per_core: runner.threads_per_core,
            warm_up_s: match runner.mode {
                Mode::Paging => {
                    PAGING_THREADS.len() as f64 * PAGING_TRIAL_S * setup_share(self.options)
                }
                _ => runner.warm_up_s,
            },
            measured_s: rounds as f64 * self.options.seconds,
            profile: self.profile?.clone(),
        })
    }

    fn open(
        &self,
        runners: &mut Vec<Runner>,
        calibration: &Calibration,
        report: &mut BenchReport,
    ) -> Result<(), BenchError> {
        // Loads are shares of the maximum throughput of DRAM-only.
        let work = calibration.work_instructions;
        let mut others = runners.split_off(1);
        let full = self.rounds(runners, work, WindowArrivals::Closed, 3, (0.4, 0.45), report)?;
        runners.append(&mut others);
        let full = full.kept();
        let dram = full.iter().filter_map(|round| round.get(&Mode::Dram));
        let capacity = Spread::of(dram.map(Turn::jobs_per_s)).median;
        let count = self.options.loads.len() as f64;
        for (number, &load) in self.options.loads.iter().enumerate() {
            let arrivals = WindowArrivals::Poisson { jobs_per_s: capacity * load };
            let at = |step: f64| 0.45 + 0.55 * step / count;
            let span = (at(number as f64), at(number as f64 + 1.0));
            let measured =
                self.rounds(runners, work, arrivals, self.options.rounds, span, report)?;
            let rounds = measured.kept();
            for runner in runners.iter() {
                let one = self.measured(runner, &rounds, &full, calibration, &measured);
                report.results.push(Measured { load: Some(load), ..one }.outcome());
            }
        }
        Ok(())
    }

    pub(super) fn child_error(&self, mode: Mode, reason: &str) -> BenchError {
        if self.watch.is_stopped() {
            return Stopped.into();
        }
        BenchError::Child {
            mode,
            workload: self.subject.program.name(),
            reason: reason.to_string(),
        }
    }

    pub(super) fn unexpected(&self, mode: Mode, reply: std::io::Result<Reply>) -> BenchError {
        match reply {
            Ok(Reply::Failed(reason)) | Ok(Reply::Unavailable(reason)) => {
                self.child_error(mode, &reason)
            }
            Ok(_) => self.child_error(mode, "it answered something else than it was asked"),
            Err(error) => self.child_error(mode, &error.to_string()),
        }
    }
}
