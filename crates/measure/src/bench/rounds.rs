//! The bench of one workload: its children, its calibration, its rounds, and what comes of them.

use std::collections::BTreeMap;

use crate::cgroup::MemoryCgroup;
use ebbtide_core::{PAGE_BYTES, Stopped, Watch};
use ebbtide_workloads::{Program, Workload};

use super::child::Child;
use super::conditions::Conditions;
use super::data::{self, DataPlaces};
use super::error::BenchError;
use super::loaded_workload::LoadedWorkload;
use super::memory_server::{PAGING_THREADS, PAGING_TRIAL_S};
use super::options::{Arrivals, BenchOptions, Flash, Mode};
use super::protocol::{Calibration, Command, Latency, Reply, Setup, Window, WindowArrivals};
use super::usage;
use super::{
    AheadSpread, BenchMachine, BenchReport, Effect, LatencySpread, ModeOutcome, Profile, Spread,
    Tried, WorkloadFacts, places, setup, stored_modes, warm_up_s,
};
use crate::doctor::machine::MachineSummary;

/// The bench of one workload.
pub(super) struct Bench<'a> {
    pub(super) options: &'a BenchOptions,
    pub(super) subject: &'a LoadedWorkload,
    pub(super) cpus: &'a [usize],
    /// To predict with, if that is wished for.
    pub(super) profile: Option<&'a Profile>,
    pub(super) watch: Watch<'a>,
}

/// A child that takes part in the rounds.
struct Runner {
    mode: Mode,
    child: Child,
    threads_per_core: Option<usize>,
    /// Outlives the child: removed after it is gone.
    limit: Option<MemoryCgroup>,
}

/// What became of setting up a child.
enum Attempt {
    /// The child is ready, with notes for the user.
    Ready(Runner, Vec<String>),
    /// The machine does not permit the mode, for this reason.
    LeftOut(String),
    /// The kernel killed it at its memory limit.
    OutOfMemory,
}

/// One round of one mode, with the CPU time of the kernel's own threads.
#[derive(Clone, Copy)]
struct Round {
    window: Window,
    kernel_cpu_s: f64,
}

impl Round {
    fn jobs_per_s(&self) -> f64 {
        self.window.jobs as f64 / self.window.seconds
    }

    fn misses_per_job(&self) -> f64 {
        self.window.misses as f64 / self.window.jobs as f64
    }

    fn cpu_s(&self) -> f64 {
        self.window.cpu_s + self.kernel_cpu_s
    }
}

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

    fn make_data(&self, program: &Program, places: &DataPlaces) -> Result<(), BenchError> {
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
        let summary = MachineSummary::quick(&places.place(mode).0)?;
        report.machine = BenchMachine::new(&summary, self.cpus);
        Ok(())
    }

    /// Starts a child for every mode, calibrates, and warms up.
    fn start(
        &self,
        program: &Program,
        places: &DataPlaces,
        report: &mut BenchReport,
    ) -> Result<(Vec<Runner>, Calibration), BenchError> {
        self.watch.tell("loading DRAM", 0.22)?;
        let mut dram = self
            .runner(Mode::Dram, (program, places), 0, report)?
            .ok_or_else(|| self.child_error(Mode::Dram, "the dataset does not fit into DRAM"))?;
        let frames = (program.size_bytes() as f64 / self.options.dataset_bytes as f64
            * self.options.dram_bytes() as f64) as u64
            / PAGE_BYTES as u64;
        self.watch.tell("calibrating", 0.25)?;
        let interval_ns = self.options.miss_interval_us * 1e3;
        let reply = dram.child.ask(&Command::Calibrate { frames, interval_ns }, self.watch);
        let calibration = match reply {
            Ok(Reply::Calibrated(calibration)) => calibration,
            other => return Err(self.unexpected(Mode::Dram, other)),
        };
        let mut runners = vec![dram];
        for mode in stored_modes(self.options) {
            self.watch.tell(&format!("starting {mode}"), 0.28)?;
            runners.extend(self.runner(
                mode,
                (program, places),
                calibration.work_instructions,
                report,
            )?);
        }
        for runner in &mut runners {
            let seconds = warm_up_s(runner.mode, self.options);
            if seconds > 0.0 {
                self.watch.tell(&format!("warming up {}", runner.mode), 0.35)?;
                self.round(runner, seconds, WindowArrivals::Closed, calibration.work_instructions)?;
            }
        }
        Ok((runners, calibration))
    }

    /// A child set up as `mode`; `None`, with a notice, if this machine does not permit it.
    fn runner(
        &self,
        mode: Mode,
        (program, places): (&Program, &DataPlaces),
        work_instructions: u64,
        report: &mut BenchReport,
    ) -> Result<Option<Runner>, BenchError> {
        let mut notice = |text: String| {
            let notice = format!("{mode}: {text}");
            if !report.notices.contains(&notice) {
                report.notices.push(notice);
            }
        };
        let mut setup = setup(self.options, self.subject, mode, self.cpus, places.place(mode));
        setup.work_instructions = work_instructions;
        let mut paging_threads = PAGING_THREADS[PAGING_THREADS.len() - 1];
        loop {
            if mode == Mode::Paging {
                setup.tuning.threads = Some(paging_threads);
            }
            match self.attempt(&setup)? {
                Attempt::Ready(runner, notices) => {
                    notices.into_iter().for_each(notice);
                    return Ok(Some(runner));
                }
                Attempt::LeftOut(reason) => {
                    notice(format!("left out: {reason}"));
                    return Ok(None);
                }
                // Fewer threads leave more of its memory to the data.
                Attempt::OutOfMemory if paging_threads > PAGING_THREADS[0] => {
                    notice(format!(
                        "{paging_threads} threads a core do not fit into its DRAM; tried fewer"
                    ));
                    paging_threads /= 2;
                    // The killed process may have changed a part of its data.
                    self.make_data(program, places)?;
                }
                Attempt::OutOfMemory => {
                    notice(format!("left out: {}", self.out_of_memory()));
                    return Ok(None);
                }
            }
        }
    }

    fn attempt(&self, setup: &Setup) -> Result<Attempt, BenchError> {
        let mode = setup.mode;
        let mut limit = None;
        let mut child = Child::spawn()
            .map_err(|error| self.child_error(mode, &format!("cannot start a process: {error}")))?;
        if mode == Mode::Paging {
            // The steps to replay belong to the load, not to the memory under test.
            let beside = self.subject.replay.as_ref().map_or(0, |kept| kept.bytes);
            let group = MemoryCgroup::create(self.options.dram_bytes() + beside)
                .and_then(|group| group.join(child.id()).map(|()| group));
            match group {
                Ok(group) => limit = Some(group),
                Err(error) => return Ok(Attempt::LeftOut(error.to_string())),
            }
        }
        match child.ask(&Command::Setup(Box::new(setup.clone())), self.watch) {
            Ok(Reply::Ready { threads_per_core, notices, .. }) => {
                let runner = Runner { mode, child, threads_per_core, limit };
                Ok(Attempt::Ready(runner, notices))
            }
            Ok(Reply::Unavailable(reason)) => Ok(Attempt::LeftOut(reason)),
            Err(_) if limit.is_some() && child.was_killed() && !self.watch.is_stopped() => {
                Ok(Attempt::OutOfMemory)
            }
            other => Err(self.unexpected(mode, other)),
        }
    }

    fn out_of_memory(&self) -> String {
        let limit = data::mib(self.options.dram_bytes());
        format!("the kernel killed it at its memory limit of {limit}")
    }

    fn round(
        &self,
        runner: &mut Runner,
        seconds: f64,
        arrivals: WindowArrivals,
        work_instructions: u64,
    ) -> Result<Round, BenchError> {
        let kernel_before = usage::kernel_threads_cpu_s();
        let command = Command::Run { seconds, arrivals, work_instructions };
        match runner.child.ask(&command, self.watch) {
            Ok(Reply::Window(window)) => {
                let kernel_cpu_s = usage::kernel_threads_cpu_s() - kernel_before;
                Ok(Round { window: *window, kernel_cpu_s })
            }
            Err(_) if runner.limit.is_some() && runner.child.was_killed() => {
                Err(self.child_error(runner.mode, &self.out_of_memory()))
            }
            other => Err(self.unexpected(runner.mode, other)),
        }
    }

    /// All modes, round by round, each round starting with another mode.
    fn rounds(
        &self,
        runners: &mut [Runner],
        calibration: &Calibration,
        arrivals: WindowArrivals,
        rounds: usize,
        (from, to): (f64, f64),
    ) -> Result<BTreeMap<Mode, Vec<Round>>, BenchError> {
        let mut results: BTreeMap<Mode, Vec<Round>> = BTreeMap::new();
        for round in 0..rounds {
            self.watch.tell(
                &format!("round {} of {rounds}", round + 1),
                from + (to - from) * round as f64 / rounds as f64,
            )?;
            let count = runners.len();
            for turn in 0..count {
                let runner = &mut runners[(turn + round) % count];
                let work = calibration.work_instructions;
                let measured = self.round(runner, self.options.seconds, arrivals, work)?;
                results.entry(runner.mode).or_default().push(measured);
            }
        }
        Ok(results)
    }

    fn closed(
        &self,
        runners: &mut [Runner],
        calibration: &Calibration,
        report: &mut BenchReport,
        conditions: &mut Vec<Conditions>,
    ) -> Result<(), BenchError> {
        let rounds = self.options.rounds;
        let span = (0.4, 0.95);
        let results = self.rounds(runners, calibration, WindowArrivals::Closed, rounds, span)?;
        self.watch.tell("without added work", 0.95)?;
        let mut without_work = BTreeMap::new();
        for runner in runners.iter_mut() {
            if matches!(runner.mode, Mode::Dram | Mode::Ebbtide) {
                let round = self.round(runner, self.options.seconds, WindowArrivals::Closed, 0)?;
                without_work.insert(runner.mode, round.jobs_per_s());
            }
        }
        let ratio_without_work = without_work
            .get(&Mode::Ebbtide)
            .zip(without_work.get(&Mode::Dram))
            .map(|(ebbtide, dram)| ebbtide / dram);
        let dram = results[&Mode::Dram].clone();
        for runner in runners.iter() {
            let mut outcome =
                self.outcome(runner, &results[&runner.mode], &dram, calibration, None);
            outcome.response_us = outcome.service_us;
            if runner.mode == Mode::Ebbtide {
                outcome.ratio_without_work = ratio_without_work;
            }
            conditions.extend(self.conditions(report.results.len(), runner, calibration));
            report.results.push(outcome);
        }
        report.tried.extend(self.tried(&results));
        Ok(())
    }

    /// The effect of the techniques that were tried, if any.
    fn tried(&self, results: &BTreeMap<Mode, Vec<Round>>) -> Option<Tried> {
        let (plain, tried) = (results.get(&Mode::Plain)?, results.get(&Mode::Ebbtide)?);
        let misses = |rounds: &[Round]| Spread::of(rounds.iter().map(Round::misses_per_job)).median;
        let pairs = plain.iter().zip(tried);
        let measured = Effect {
            misses_per_job_without: misses(plain),
            misses_per_job_with: misses(tried),
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
    ) -> Option<Conditions> {
        let nowhere = (self.options.data.clone(), 0);
        Some(Conditions {
            outcome,
            program: self.subject.program.clone(),
            calibration: *calibration,
            setup: setup(self.options, self.subject, runner.mode, self.cpus, nowhere),
            threads_per_core: runner.threads_per_core,
            warm_up_s: match runner.mode {
                Mode::Paging => PAGING_THREADS.len() as f64 * PAGING_TRIAL_S,
                mode => warm_up_s(mode, self.options),
            },
            measured_s: self.options.rounds as f64 * self.options.seconds,
            profile: self.profile?.clone(),
        })
    }

    fn open(
        &self,
        runners: &mut [Runner],
        calibration: &Calibration,
        report: &mut BenchReport,
    ) -> Result<(), BenchError> {
        // Loads are shares of the maximum throughput of DRAM-only.
        let full =
            self.rounds(&mut runners[..1], calibration, WindowArrivals::Closed, 3, (0.4, 0.45))?;
        let full = &full[&Mode::Dram];
        let capacity = Spread::of(full.iter().map(Round::jobs_per_s)).median;
        let count = self.options.loads.len() as f64;
        for (number, &load) in self.options.loads.iter().enumerate() {
            let arrivals = WindowArrivals::Poisson { jobs_per_s: capacity * load };
            let at = |step: f64| 0.45 + 0.55 * step / count;
            let span = (at(number as f64), at(number as f64 + 1.0));
            let results = self.rounds(runners, calibration, arrivals, self.options.rounds, span)?;
            for runner in runners.iter() {
                let rounds = &results[&runner.mode];
                report.results.push(self.outcome(runner, rounds, full, calibration, Some(load)));
            }
        }
        Ok(())
    }

    fn outcome(
        &self,
        runner: &Runner,
        rounds: &[Round],
        dram: &[Round],
        calibration: &Calibration,
        load: Option<f64>,
    ) -> ModeOutcome {
        let spread = |figure: &dyn Fn(&Round) -> f64| Spread::of(rounds.iter().map(figure));
        let cores = self.options.cores as f64;
        let dram_of = |round: usize| &dram[round % dram.len()];
        let job_us = |round: usize| cores * 1e6 / dram_of(round).jobs_per_s();
        let each = |figure: &dyn Fn(usize, &Round) -> f64| {
            Spread::of(rounds.iter().enumerate().map(|(number, round)| figure(number, round)))
        };
        let missed = |figure: &dyn Fn(usize, &Round) -> f64| {
            let missed = |round: &Round| runner.mode != Mode::Dram && round.window.misses > 0;
            let values = rounds.iter().enumerate().filter(|(_, round)| missed(round));
            let mut values = values.map(|(number, round)| figure(number, round)).peekable();
            values.peek().is_some().then(|| Spread::of(values))
        };
        let engine = matches!(runner.mode, Mode::Sync | Mode::Ebbtide | Mode::Plain);
        let per_s = |count: u64, round: &Round| count as f64 / round.window.seconds;
        let service: Vec<Latency> = rounds.iter().map(|round| round.window.service_us).collect();
        let response: Vec<Latency> = rounds.iter().map(|round| round.window.response_us).collect();
        ModeOutcome {
            workload: self.subject.program.name(),
            mode: runner.mode,
            cores: self.options.cores,
            load,
            jobs_per_s: spread(&Round::jobs_per_s),
            ratio_to_dram: each(&|number, round| round.jobs_per_s() / dram_of(number).jobs_per_s()),
            lru_miss_interval_us: (calibration.lru_misses_per_job > 0.0)
                .then(|| each(&|number, _| job_us(number) / calibration.lru_misses_per_job)),
            miss_interval_us: missed(&|number, round| {
                job_us(number) * round.window.jobs as f64 / round.window.misses as f64
            }),
            misses_per_job: missed(&|_, round| round.misses_per_job()),
            kernel_cpu_us_per_miss: missed(&|_, round| {
                let kernel_s = round.window.system_s + round.kernel_cpu_s;
                kernel_s * 1e6 / round.window.reads_started() as f64
            }),
            cpu_us_per_miss: missed(&|number, round| {
                let dram = dram_of(number);
                let dram_cpu_per_job = dram.cpu_s() / dram.window.jobs as f64;
                let extra = round.cpu_s() - round.window.jobs as f64 * dram_cpu_per_job;
                extra * 1e6 / round.window.reads_started() as f64
            }),
            service_us: LatencySpread::of(&service),
            response_us: LatencySpread::of(&response),
            flash_reads_per_s: spread(&|round| per_s(round.window.flash_reads, round)),
            flash_writes_per_s: spread(&|round| per_s(round.window.flash_writes, round)),
            flash_read_us: engine.then(|| spread(&|round| round.window.flash_read_us)),
            pages_per_write: rounds.iter().all(|round| round.window.write_requests > 0).then(
                || {
                    spread(&|round| {
                        round.window.flash_writes as f64 / round.window.write_requests as f64
                    })
                },
            ),
            requests_per_submission: engine.then(|| {
                spread(&|round| {
                    let window = &round.window;
                    let requests = window.flash_reads + window.flash_writes;
                    requests as f64 / window.submissions.max(1) as f64
                })
            }),
            ahead: AheadSpread::of(rounds.iter().map(|round| &round.window)),
            idle_share: engine
                .then(|| spread(&|round| round.window.idle_s / (round.window.seconds * cores))),
            rss_mib: spread(&|round| round.window.rss_bytes as f64 / (1 << 20) as f64),
            page_cache_bytes: runner.limit.as_ref().and_then(MemoryCgroup::file_bytes),
            ratio_without_work: None,
            threads_per_core: runner.threads_per_core,
            predicted_jobs_per_s: None,
            predicted_misses_per_job: None,
            prediction_error: None,
        }
    }

    fn child_error(&self, mode: Mode, reason: &str) -> BenchError {
        if self.watch.is_stopped() {
            return Stopped.into();
        }
        BenchError::Child {
            mode,
            workload: self.subject.program.name(),
            reason: reason.to_string(),
        }
    }

    fn unexpected(&self, mode: Mode, reply: std::io::Result<Reply>) -> BenchError {
        match reply {
            Ok(Reply::Failed(reason)) | Ok(Reply::Unavailable(reason)) => {
                self.child_error(mode, &reason)
            }
            Ok(_) => self.child_error(mode, "it answered something else than it was asked"),
            Err(error) => self.child_error(mode, &error.to_string()),
        }
    }
}
