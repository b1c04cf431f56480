//! [`Demand`]: the memory accesses of a program as miss-ratio curves, from a trace or from a run.

use std::path::Path;

use ebbtide_core::replacement::PolicyKind;
use ebbtide_core::{PAGE_BYTES, PageId, Time, Watch};
use ebbtide_sim::{Contents, run_traced};
use ebbtide_trace::curve::{
    Curve, PolicyCaches, Sample, SampledDistances, StackDistances, in_parts, pages_of,
};
use ebbtide_trace::{Access, Format, Op, ReadAhead, Source, open_as};
use ebbtide_workloads::{Program, Scatter, Shape, Workload};
use serde::Serialize;

use super::{Input, SizeError};

/// The accesses of a program: jobs, execution time and miss ratio by size of DRAM.
#[derive(Debug, Clone, Serialize)]
pub struct Demand {
    /// Name of the program or trace.
    pub source: String,
    /// Pages of 4 KiB of its data. For a trace, the pages that it touches.
    pub dataset_pages: u64,
    /// Accesses that the curves count.
    pub accesses: u64,
    /// Mean accesses of a job. For a trace, those in the given time of a job.
    pub accesses_per_job: f64,
    /// Distinct pages that a job touches.
    pub pages_per_job: u64,
    /// Execution time of a job without misses, in microseconds.
    pub job_us: f64,
    /// Share of accesses that are the first to their page. They miss with any size of DRAM.
    pub first_touches: f64,
    /// The sample, and the error of the sampled LRU curve.
    pub sampling: Sampling,
    /// The curve of each policy, at least one. LRU's is the first.
    pub curves: Vec<PolicyCurve>,
}

/// The miss-ratio curve of a policy, and points of it.
#[derive(Debug, Clone, Serialize)]
pub struct PolicyCurve {
    /// The replacement policy.
    pub policy: PolicyKind,
    /// Points `(share of the data in DRAM, miss ratio, write-backs an access)`, by rising share.
    pub points: Vec<(f64, f64, f64)>,
    /// The curve itself.
    #[serde(skip)]
    pub curve: Curve,
}

/// The sample for the curves of other policies, and its error as measured under LRU.
///
/// An error is `(largest, mean)`: the differences from the exact miss ratio over all sizes. It is
/// `None` above 16 Mi pages. LRU's curve is then sampled too.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Sampling {
    /// The share of pages in the sample. 1 if all curves are exact.
    pub rate: f64,
    /// Error of LRU's curve from a sample in one pass.
    pub error: Option<(f64, f64)>,
    /// Error of LRU on small caches that hold only sampled pages. Such caches yield the other
    /// policies' curves. The ratio of LRU's two curves corrects them. `None` also without such
    /// caches.
    pub small_caches_error: Option<(f64, f64)>,
}

impl Demand {
    /// Returns the curve of LRU.
    pub fn lru(&self) -> &Curve {
        &self.curves[0].curve
    }

    /// Returns the curve of `policy`, or of LRU if `policy` was not measured.
    pub fn curve(&self, policy: PolicyKind) -> &Curve {
        let found = self.curves.iter().find(|curve| curve.policy == policy);
        &found.unwrap_or(&self.curves[0]).curve
    }

    /// Returns the mean execution between two accesses, in microseconds.
    pub fn access_us(&self) -> f64 {
        self.job_us / self.accesses_per_job
    }

    /// Returns the sizes of DRAM for points of curves and charts, in pages: three an octave, up to
    /// all data.
    pub fn sizes(&self) -> Vec<u64> {
        sizes(self.dataset_pages)
    }
}

/// Sizes from a 4096th of `pages` up to all of them, three an octave.
fn sizes(pages: u64) -> Vec<u64> {
    let size = |step: i32| (pages as f64 / 2_f64.powf(f64::from(step) / 3.0)).ceil() as u64;
    let mut sizes: Vec<u64> = (0..=36).rev().map(size).filter(|size| *size > 0).collect();
    sizes.dedup();
    sizes
}

/// The most pages of an exact curve. It takes 40 bytes a page: 640 MiB.
const EXACT_PAGES_MAX: u64 = 16 << 20;

/// Measures `input` under LRU and `policies`.
pub(super) fn measure(
    input: &Input,
    policies: &[PolicyKind],
    watch: Watch<'_>,
    notices: &mut Vec<String>,
) -> Result<Demand, SizeError> {
    match input {
        Input::Trace { path, format, job_us } => {
            trace((path, *format), *job_us, policies, watch, notices)
        }
        Input::Workload { .. } => workload(input, policies, watch),
    }
}

/// LRU curves: exact up to [`EXACT_PAGES_MAX`] pages, and sampled.
struct Lru {
    exact: Option<StackDistances>,
    sampled: SampledDistances,
}

impl Lru {
    fn new() -> Lru {
        let sampled = SampledDistances::new(SampledDistances::PAGES);
        Lru { exact: Some(StackDistances::new()), sampled }
    }

    fn touch(&mut self, page: PageId, write: bool) {
        if let Some(exact) = &mut self.exact {
            exact.touch(page, write);
        }
        self.sampled.touch(page, write);
    }

    /// Drops the exact curve if it has grown too large.
    fn bound(&mut self) {
        self.exact = self.exact.take().filter(|exact| exact.pages() <= EXACT_PAGES_MAX);
    }

    fn curves(&self) -> (Option<Curve>, Curve) {
        (self.exact.as_ref().map(StackDistances::curve), self.sampled.curve())
    }
}

/// The curves of both passes.
struct MeasuredCurves {
    exact: Option<Curve>,
    sampled: Curve,
    sample: Sample,
    others: Vec<(PolicyKind, Curve)>,
}

impl MeasuredCurves {
    fn lru(&self) -> &Curve {
        self.exact.as_ref().unwrap_or(&self.sampled)
    }

    fn demand(
        self,
        source: String,
        dataset_pages: u64,
        accesses_per_job: f64,
        job_us: f64,
    ) -> Demand {
        let sizes = sizes(dataset_pages);
        let off = |curve: &Curve| Some(curve.error(self.exact.as_ref()?, &sizes));
        let small_caches = self.others.iter().find(|(policy, _)| *policy == PolicyKind::Lru);
        let sampling = Sampling {
            rate: self.sample.rate(),
            error: off(&self.sampled),
            small_caches_error: small_caches.and_then(|(_, curve)| off(curve)),
        };
        let (accesses, first_touches) = (self.lru().accesses(), self.lru().cold_ratio());
        let pages_per_job = self.lru().working_set(accesses_per_job).min(dataset_pages);
        let small_lru = small_caches.map(|(_, curve)| curve.clone());
        let others = self.others.into_iter().filter(|(policy, _)| *policy != PolicyKind::Lru);
        let lru = self.exact.unwrap_or(self.sampled);
        // LRU has a better curve. The error of the sample under LRU corrects the other policies.
        let corrected = |curve: Curve| match &small_lru {
            Some(small) => curve.corrected(&lru, small),
            None => curve,
        };
        let others: Vec<(PolicyKind, Curve)> =
            others.map(|(policy, curve)| (policy, corrected(curve))).collect();
        let curve = |(policy, curve): (PolicyKind, Curve)| {
            let share = |&pages: &u64| pages as f64 / dataset_pages as f64;
            let point = |pages: &u64| {
                (share(pages), curve.miss_ratio(*pages), curve.write_back_ratio(*pages))
            };
            PolicyCurve { policy, points: sizes.iter().map(point).collect(), curve }
        };
        let curves = std::iter::once((PolicyKind::Lru, lru)).chain(others).map(curve);
        Demand {
            source,
            dataset_pages,
            accesses,
            accesses_per_job,
            pages_per_job,
            job_us,
            first_touches,
            sampling,
            curves: curves.collect(),
        }
    }
}

/// Caches of every size under each of `policies`. For a sample, LRU is added: its exact curve
/// measures their error.
fn caches(policies: &[PolicyKind], pages: u64, sample: Sample) -> Vec<(PolicyKind, PolicyCaches)> {
    let sizes = sizes(pages);
    let measure = (sample.rate() < 1.0).then_some(PolicyKind::Lru);
    let kinds = policies.iter().copied().chain(measure);
    kinds.map(|kind| (kind, PolicyCaches::new(kind, &sizes, sample, 1))).collect()
}

fn trace(
    (path, format): (&Path, Option<Format>),
    job_us: f64,
    policies: &[PolicyKind],
    watch: Watch<'_>,
    notices: &mut Vec<String>,
) -> Result<Demand, SizeError> {
    let name = path.display().to_string();
    let unfit = |problem| SizeError::Unfit { name: name.clone(), problem };
    let mut lru = Lru::new();
    let (mut first, mut last) = (None, Time::ZERO);
    watch.tell("reading the trace", 0.0)?;
    let remark = each_batch((path, format), watch, |batch| {
        first = first.or(batch.first().map(|access| access.at));
        last = batch.last().map_or(last, |access| access.at);
        pages_of(batch, |page, write| lru.touch(page, write));
        lru.bound();
    })?;
    notices.extend(remark);
    let first = first.ok_or_else(|| unfit("no access in it, expected a trace of at least two"))?;
    let span_us = last.since(first).as_ps() as f64 / 1e6;
    let (exact, sampled) = lru.curves();
    let mut measured =
        MeasuredCurves { exact, sampled, sample: lru.sampled.sample(), others: Vec::new() };
    let accesses = measured.lru().accesses();
    if span_us <= 0.0 || accesses < 2 {
        return Err(unfit("all its accesses are at one time, expected times that go on"));
    }
    let pages = measured.lru().pages().ceil() as u64;
    if path.as_os_str() == "-" && !policies.is_empty() {
        notices.push("standard input is read once: LRU stands for all other policies".to_string());
    } else {
        watch.tell("reading the trace again", 0.4)?;
        let mut caches = caches(policies, pages, measured.sample);
        each_batch((path, format), watch, |batch| {
            caches.iter_mut().for_each(|(_, caches)| caches.read(batch));
        })?;
        measured.others = caches.iter().map(|(kind, caches)| (*kind, caches.curve())).collect();
    }
    let accesses_per_job = job_us / span_us * accesses as f64;
    let demand = measured.demand(name.clone(), pages, accesses_per_job, job_us);
    if demand.first_touches > demand.lru().miss_ratio(pages / 32) / 2.0 {
        notices.push(format!(
            "{:.2}% of the accesses are the first to their page and miss at any size: a longer \
             trace would have fewer",
            demand.first_touches * 100.0
        ));
    }
    Ok(demand)
}

/// Touched pages between checks for a stop.
const PAGES_AT_ONCE: u64 = 1 << 16;

/// Calls `read` with all accesses of the trace. Returns a remark on the parts of its input that it
/// skips.
fn each_batch(
    (path, format): (&Path, Option<Format>),
    watch: Watch<'_>,
    mut read: impl FnMut(&[Access]),
) -> Result<Option<String>, SizeError> {
    let (mut batch, mut accesses) = (Vec::new(), 0);
    let counted = |batch: &[Access]| batch.iter().filter(|access| access.op != Op::Hint).count();
    let source = open_as(path, format).map_err(|error| SizeError::Trace { error, accesses })?;
    let remark = source.remark();
    let mut source = ReadAhead::new(source);
    loop {
        let more = source.fill(&mut batch);
        accesses += counted(&batch) as u64;
        if !more.map_err(|error| SizeError::Trace { error, accesses })? {
            return Ok(remark);
        }
        in_parts(&batch, PAGES_AT_ONCE, |part| {
            watch.go_on()?;
            read(part);
            Ok::<(), SizeError>(())
        })?;
    }
}

/// Accesses per page of the warm-up. The measurement has as many.
const ACCESSES_PER_PAGE: u64 = 16;

/// The most accesses of either.
const ACCESSES_MAX: u64 = 40_000_000;

/// The share of the data in DRAM at which the miss interval of a program is set (AstriFlash §II-A,
/// §V-A).
pub(super) const INTERVAL_SHARE: f64 = 0.03;

fn workload(input: &Input, policies: &[PolicyKind], watch: Watch<'_>) -> Result<Demand, SizeError> {
    let Input::Workload { name, dataset_bytes, theta, miss_interval_us, seed } = *input else {
        unreachable!("only called with a program");
    };
    let shape = Shape { dataset_bytes, theta, scatter: Scatter::Pages, seed, work_instructions: 0 };
    let program = name.build(&shape)?;
    let pages = program.size_bytes() / PAGE_BYTES as u64;
    let stretch = (pages * ACCESSES_PER_PAGE).clamp(1 << 20, ACCESSES_MAX);
    let mut lru = Lru::new();
    let mut run = ProgramRun::new(&program, watch);
    let show =
        |stage: &'static str, from: f64| move |share: f64| watch.show(stage, from + 0.2 * share);
    run.stretch(stretch, show("warming up", 0.0), |page, write| lru.touch(page, write))?;
    lru.bound();
    let (before, warm_jobs) = (lru.curves(), run.job);
    run.stretch(stretch, show("counting", 0.2), |page, write| lru.touch(page, write))?;
    let (after, jobs) = (lru.curves(), (run.job - warm_jobs) as f64);
    let mut others = Vec::new();
    if !policies.is_empty() {
        let mut caches = caches(policies, pages, lru.sampled.sample());
        let mut run = ProgramRun::new(&program, watch);
        let mut touch = |page, write| {
            caches.iter_mut().for_each(|(_, caches)| caches.touch(page, write));
        };
        run.jobs(warm_jobs, show("warming up policies", 0.4), &mut touch)?;
        let before: Vec<Curve> = caches.iter().map(|(_, caches)| caches.curve()).collect();
        let mut touch = |page, write| {
            caches.iter_mut().for_each(|(_, caches)| caches.touch(page, write));
        };
        run.jobs(jobs as u64, show("counting policies", 0.6), &mut touch)?;
        let since = caches.iter().zip(&before);
        others =
            since.map(|((kind, caches), before)| (*kind, caches.curve().since(before))).collect();
    }
    let exact = after.0.zip(before.0).map(|(after, before)| after.since(&before));
    let sampled = after.1.since(&before.1);
    let measured = MeasuredCurves { exact, sampled, sample: lru.sampled.sample(), others };
    let accesses_per_job = measured.lru().accesses() as f64 / jobs;
    let usual = (pages as f64 * INTERVAL_SHARE) as u64;
    let misses_per_job = measured.lru().miss_ratio(usual) * accesses_per_job;
    // A job of a program that does not miss lasts one interval.
    let intervals = if misses_per_job > 0.0 { misses_per_job } else { 1.0 };
    Ok(measured.demand(name.to_string(), pages, accesses_per_job, intervals * miss_interval_us))
}

/// A run of a program, job by job.
struct ProgramRun<'a> {
    program: &'a Program,
    contents: Contents,
    watch: Watch<'a>,
    job: u64,
}

/// Jobs between checks for a stop.
const JOBS_AT_ONCE: u64 = 1024;

impl<'a> ProgramRun<'a> {
    fn new(program: &'a Program, watch: Watch<'a>) -> ProgramRun<'a> {
        ProgramRun { program, contents: Contents::new(program.clone()), watch, job: 0 }
    }

    /// Runs jobs until they have made `accesses`.
    fn stretch(
        &mut self,
        accesses: u64,
        progress: impl Fn(f64),
        mut touch: impl FnMut(PageId, bool),
    ) -> Result<(), SizeError> {
        let mut made = 0;
        while made < accesses {
            progress(made as f64 / accesses as f64);
            let mut counted = |page, write| {
                made += 1;
                touch(page, write);
            };
            self.some(JOBS_AT_ONCE, &mut counted)?;
        }
        Ok(())
    }

    /// Runs `jobs` jobs.
    fn jobs(
        &mut self,
        jobs: u64,
        progress: impl Fn(f64),
        touch: &mut dyn FnMut(PageId, bool),
    ) -> Result<(), SizeError> {
        let end = self.job + jobs;
        while self.job < end {
            progress(1.0 - (end - self.job) as f64 / jobs as f64);
            self.some((end - self.job).min(JOBS_AT_ONCE), touch)?;
        }
        Ok(())
    }

    fn some(&mut self, jobs: u64, touch: &mut dyn FnMut(PageId, bool)) -> Result<(), SizeError> {
        self.watch.go_on()?;
        for _ in 0..jobs {
            run_traced(self.program, self.job, &mut self.contents, touch)
                .map_err(SizeError::Corrupt)?;
            self.job += 1;
        }
        Ok(())
    }
}
