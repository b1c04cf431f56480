//! From the rounds of one memory to its [`ModeOutcome`].

use ebbtide_core::durability::Policy;

use super::doubts::doubts;
use super::durable::Durable;
use super::options::Mode;
use super::protocol::{Calibration, Latency};
use super::results::{AheadSpread, ByRound, LatencySpread, ModeOutcome, SlowestSpread};
use super::round::{Round, Turn};
use super::spread::Spread;
use crate::disturbance::Disturbance;

/// Measurements from which the figures of an outcome are computed.
pub(super) struct Measured<'a> {
    pub(super) workload: &'static str,
    pub(super) mode: Mode,
    pub(super) cores: usize,
    /// Offered load as a share of DRAM-only's throughput; `None` in a closed loop.
    pub(super) load: Option<f64>,
    pub(super) calibration: &'a Calibration,
    /// The rounds of this memory.
    pub(super) rounds: &'a [&'a Round],
    /// The rounds of DRAM-only for the comparison, repeated if there are fewer.
    pub(super) dram: &'a [&'a Round],
    /// All measured rounds, including replaced ones.
    pub(super) rounds_measured: usize,
    pub(super) threads_per_core: Option<usize>,
    pub(super) page_cache_bytes: Option<u64>,
    /// The most memory that it used in the rounds, with the kernel's, where a group counted it.
    pub(super) peak_bytes: Option<u64>,
    /// The DRAM budget.
    pub(super) budget_bytes: u64,
    /// When a transaction is acknowledged in [`Mode::Durable`].
    pub(super) durability: Option<Policy>,
}

impl Measured<'_> {
    /// Returns the figures of a store that survives crashes, compared with extend memory; `None`
    /// for other stores.
    fn durable(&self, turns: &[&Turn]) -> Option<Durable> {
        let policy = self.durability.filter(|_| self.mode == Mode::Durable)?;
        let extend: Option<Vec<&Turn>> =
            self.rounds.iter().map(|round| round.get(&Mode::Ebbtide)).collect();
        Some(Durable::of(policy, turns, &extend?))
    }

    /// By how much its peak exceeds the budget. DRAM-only has none.
    fn over_budget_bytes(&self) -> Option<u64> {
        let over = self.peak_bytes?.saturating_sub(self.budget_bytes);
        (self.mode != Mode::Dram && over > 0).then_some(over)
    }

    pub(super) fn outcome(&self) -> ModeOutcome {
        let turns: Vec<&Turn> = self.rounds.iter().filter_map(|one| one.get(&self.mode)).collect();
        let dram: Vec<&Turn> = self.dram.iter().filter_map(|one| one.get(&Mode::Dram)).collect();
        let cores = self.cores as f64;
        let dram_of = |round: usize| dram[round % dram.len()];
        let job_us = |round: usize| cores * 1e6 / dram_of(round).jobs_per_s();
        let ratio = |round: usize, turn: &Turn| turn.jobs_per_s() / dram_of(round).jobs_per_s();
        let spread =
            |figure: &dyn Fn(&Turn) -> f64| Spread::of(turns.iter().map(|turn| figure(turn)));
        let values = |figure: &dyn Fn(usize, &Turn) -> f64| -> Vec<f64> {
            turns.iter().enumerate().map(|(number, turn)| figure(number, turn)).collect()
        };
        let each = |figure: &dyn Fn(usize, &Turn) -> f64| Spread::of(values(figure));
        let missed = |figure: &dyn Fn(usize, &Turn) -> f64| {
            let missed = |turn: &Turn| self.mode != Mode::Dram && turn.window.misses > 0;
            let values = turns.iter().enumerate().filter(|(_, turn)| missed(turn));
            let mut values = values.map(|(number, turn)| figure(number, turn)).peekable();
            values.peek().is_some().then(|| Spread::of(values))
        };
        let engine = !matches!(self.mode, Mode::Dram | Mode::Paging);
        let per_s = |count: u64, turn: &Turn| count as f64 / turn.window.seconds;
        let service: Vec<Latency> = turns.iter().map(|turn| turn.window.service_us).collect();
        let response: Vec<Latency> = turns.iter().map(|turn| turn.window.response_us).collect();
        let calibration = self.calibration;
        let mut outcome = ModeOutcome {
            workload: self.workload,
            mode: self.mode,
            cores: self.cores,
            load: self.load,
            jobs_per_s: spread(&Turn::jobs_per_s),
            ratio_to_dram: each(&ratio),
            lru_miss_interval_us: (calibration.lru_misses_per_job > 0.0)
                .then(|| each(&|number, _| job_us(number) / calibration.lru_misses_per_job)),
            miss_interval_us: missed(&|number, turn| {
                job_us(number) * turn.window.jobs as f64 / turn.window.misses as f64
            }),
            misses_per_job: missed(&|_, turn| turn.misses_per_job()),
            kernel_cpu_us_per_miss: missed(&|_, turn| {
                let kernel_s = turn.window.system_s + turn.kernel_cpu_s;
                kernel_s * 1e6 / turn.window.reads_started() as f64
            }),
            cpu_us_per_miss: missed(&|number, turn| turn.cpu_us_beyond(dram_of(number))),
            service_us: LatencySpread::of(&service),
            response_us: LatencySpread::of(&response),
            slowest: self.load.is_some().then(|| SlowestSpread {
                response_us: spread(&|turn| turn.window.slowest.response_us),
                queueing_us: spread(&|turn| turn.window.slowest.queueing_us),
            }),
            flash_reads_per_s: spread(&|turn| per_s(turn.window.flash_reads, turn)),
            flash_writes_per_s: spread(&|turn| per_s(turn.window.flash_writes, turn)),
            flash_read_us: engine.then(|| spread(&|turn| turn.window.flash_read_us.p50)),
            flash_read_p99_us: engine.then(|| spread(&|turn| turn.window.flash_read_us.p99)),
            flash_read_held_us: engine.then(|| {
                spread(&|turn| turn.window.held_s * 1e6 / turn.window.flash_reads.max(1) as f64)
            }),
            pages_per_write: turns.iter().all(|turn| turn.window.write_requests > 0).then(|| {
                spread(&|turn| turn.window.flash_writes as f64 / turn.window.write_requests as f64)
            }),
            requests_per_submission: engine.then(|| {
                spread(&|turn| {
                    let window = &turn.window;
                    let requests = window.flash_reads + window.flash_writes;
                    requests as f64 / window.submissions.max(1) as f64
                })
            }),
            ahead: AheadSpread::of(turns.iter().map(|turn| &turn.window)),
            idle_share: engine
                .then(|| spread(&|turn| turn.window.idle_s / (turn.window.seconds * cores))),
            rss_mib: spread(&|turn| turn.window.rss_bytes as f64 / (1 << 20) as f64),
            stack_used_bytes: turns
                .iter()
                .map(|turn| turn.window.stack_used_bytes)
                .max()
                .filter(|_| engine),
            page_cache_bytes: self.page_cache_bytes,
            peak_bytes: self.peak_bytes,
            over_budget_bytes: self.over_budget_bytes(),
            durable: self.durable(&turns),
            ratio_without_work: None,
            raw_ring: None,
            threads_per_core: self.threads_per_core,
            by_round: ByRound {
                jobs_per_s: values(&|_, turn| turn.jobs_per_s()),
                ratio_to_dram: values(&ratio),
                p99_us: values(&|_, turn| match self.load {
                    None => turn.window.service_us.p99,
                    Some(_) => turn.window.response_us.p99,
                }),
            },
            others_cpu_share: spread(&|turn| turn.disturbance.others_share),
            steal_share: spread(&|turn| turn.disturbance.steal_share),
            rounds_measured: self.rounds_measured,
            doubts: Vec::new(),
            predicted_jobs_per_s: None,
            predicted_misses_per_job: None,
            prediction_error: None,
        };
        let compared = if self.mode == Mode::Dram { [].iter() } else { dram.iter() };
        let disturbances: Vec<&Disturbance> =
            turns.iter().chain(compared).map(|turn| &turn.disturbance).collect();
        outcome.doubts = doubts(&outcome, disturbances.iter().copied());
        outcome
    }
}
