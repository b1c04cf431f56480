//! The children of a bench: how they are started, calibrated and warmed up.

use std::time::Instant;

use ebbtide_core::PAGE_BYTES;
use ebbtide_workloads::{Program, Workload};

use super::child::Child;
use super::data::{self, DataPlaces};
use super::error::BenchError;
use super::memory_server::PAGING_THREADS;
use super::options::Mode;
use super::protocol::{Calibration, Command, Reply, Setup, WindowArrivals};
use super::runner::{Bench, Runner};
use super::steady::SteadyWrites;
use super::{BenchReport, WARM_UP_WINDOWS_MAX, setup, stored_modes, warm_up_s};
use crate::cgroup::MemoryCgroup;
use crate::disturbance::{Activity, Disturbance};

/// A disturbed calibration is repeated at most this often.
const CALIBRATIONS: usize = 3;

/// Result of setting up a child.
enum Attempt {
    /// The child is ready, with notes for the user.
    Ready(Runner, Vec<String>),
    /// The machine does not permit the mode, for this reason.
    LeftOut(String),
    /// The kernel killed it at its memory limit.
    OutOfMemory,
}

impl Bench<'_> {
    /// Starts a child for every mode, calibrates, and warms up.
    pub(super) fn start(
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
        let calibration = self.calibrate(&mut dram, frames, report)?;
        let (mut runners, mut failed) = (vec![dram], Vec::new());
        for mode in stored_modes(self.options) {
            self.watch.tell(&format!("starting {mode}"), 0.28)?;
            let work = calibration.work_instructions;
            match self.runner(mode, (program, places), work, report) {
                Ok(runner) => runners.extend(runner),
                Err(error) => failed.push((mode, error)),
            }
        }
        let mut warm = Vec::new();
        for mut runner in runners {
            match self.warm_up(&mut runner, calibration.work_instructions, report) {
                Ok(()) => warm.push(runner),
                Err(error) => failed.push((runner.mode, error)),
            }
        }
        for (mode, error) in failed {
            // Without another memory, nothing is left to compare with DRAM-only.
            if warm.len() <= 1 {
                return Err(error);
            }
            self.give_up(mode, error, report)?;
        }
        Ok((warm, calibration))
    }

    /// Runs jobs until the memory is warm, and its pages a write are steady.
    fn warm_up(
        &self,
        runner: &mut Runner,
        work_instructions: u64,
        report: &mut BenchReport,
    ) -> Result<(), BenchError> {
        let mode = runner.mode;
        let seconds = warm_up_s(mode, self.options);
        if seconds > 0.0 {
            let program = &self.subject.program;
            let pages = program.size_bytes() / PAGE_BYTES as u64;
            let mut writes = SteadyWrites::new(data::spare_pages(pages, program.writes()));
            for window in 0..WARM_UP_WINDOWS_MAX {
                let stage = match writes.pages_per_write() {
                    Some(pages) => format!("warming up {mode}: {pages:.1} pages a write"),
                    None => format!("warming up {mode}"),
                };
                let share = 0.35 + 0.05 * window as f64 / WARM_UP_WINDOWS_MAX as f64;
                self.watch.tell(&stage, share)?;
                let closed = WindowArrivals::Closed;
                let window = self.turn(runner, seconds, closed, work_instructions)?.window;
                runner.warm_up_s += seconds;
                writes.push(window.flash_writes, window.write_requests);
                if mode == Mode::Dram || writes.is_steady() {
                    break;
                }
            }
            let is_steady = mode == Mode::Dram || writes.is_steady();
            if let Some(pages) = writes.pages_per_write().filter(|_| !is_steady) {
                report.notices.push(format!(
                    "{}, {mode}: {pages:.1} pages a write and not steady after a warm-up of {:.1} s: \
                     its figures are of a store that is still new",
                    program.name(),
                    runner.warm_up_s,
                ));
            }
        }
        runner.forget_peak();
        Ok(())
    }

    /// Calibrates the work of a job. Repeats a disturbed calibration, and adds a notice if it stays
    /// disturbed.
    fn calibrate(
        &self,
        dram: &mut Runner,
        frames: u64,
        report: &mut BenchReport,
    ) -> Result<Calibration, BenchError> {
        let interval_ns = self.options.miss_interval_us * 1e3;
        let mut best: Option<(Disturbance, Calibration)> = None;
        for _ in 0..CALIBRATIONS {
            self.watch.tell("calibrating", 0.25)?;
            let (before, since) = (Activity::now(self.cpus), Instant::now());
            let reply = dram.child.ask(&Command::Calibrate { frames, interval_ns }, self.watch);
            let calibration = match reply {
                Ok(Reply::Calibrated(calibration)) => calibration,
                other => return Err(self.unexpected(Mode::Dram, other)),
            };
            let (wall_s, own) = (since.elapsed().as_secs_f64(), dram.child.id());
            let after = Activity::now(self.cpus);
            let disturbance = after.disturbance(&before, own, wall_s, self.cpus.len());
            let severity = disturbance.severity();
            if best.as_ref().is_none_or(|(least, _)| severity < least.severity()) {
                best = Some((disturbance, calibration));
            }
            if severity == 0.0 {
                break;
            }
        }
        let (disturbance, calibration) = best.expect("at least one calibration ran");
        if let Some(reason) = Disturbance::reason([&disturbance].into_iter()) {
            report.notices.push(format!(
                "{}: the calibration of its jobs is doubtful: {reason}",
                self.subject.program.name()
            ));
        }
        Ok(calibration)
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
        let mut child = Child::spawn()
            .map_err(|error| self.child_error(mode, &format!("cannot start a process: {error}")))?;
        // The steps to replay belong to the load, not to the memory under test.
        let beside_bytes = self.subject.replay.as_ref().map_or(0, |kept| kept.bytes);
        let group = match mode {
            Mode::Paging => MemoryCgroup::create(self.options.dram_bytes() + beside_bytes),
            _ => MemoryCgroup::unlimited(),
        };
        let group = match group.and_then(|group| group.join(child.id()).map(|()| group)) {
            Ok(group) => Some(group),
            Err(error) if mode == Mode::Paging => return Ok(Attempt::LeftOut(error.to_string())),
            // Its memory is then told as what is resident.
            Err(_) => None,
        };
        match child.ask(&Command::Setup(Box::new(setup.clone())), self.watch) {
            Ok(Reply::Ready { threads_per_core, notices, .. }) => {
                let warm_up_s = 0.0;
                let runner =
                    Runner { mode, child, threads_per_core, warm_up_s, group, beside_bytes };
                Ok(Attempt::Ready(runner, notices))
            }
            Ok(Reply::Unavailable(reason)) => Ok(Attempt::LeftOut(reason)),
            Err(_) if mode == Mode::Paging && child.was_killed() && !self.watch.is_stopped() => {
                Ok(Attempt::OutOfMemory)
            }
            other => Err(self.unexpected(mode, other)),
        }
    }

    pub(super) fn out_of_memory(&self) -> String {
        let limit = data::mib(self.options.dram_bytes());
        format!("the kernel killed it at its memory limit of {limit}")
    }
}
