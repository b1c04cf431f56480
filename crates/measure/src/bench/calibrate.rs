//! Calibrates the work that is added to a job, so that plain LRU misses at the given interval.
//!
//! Only the amount of computing is calibrated. Accesses, keys and sizes are those of the workload.

use std::time::Duration;

use ebbtide_core::replacement::PolicyKind;
use ebbtide_core::{FullMemory, Memory, PAGE_BYTES, PageId};
use ebbtide_engine::MappedMemory;
use ebbtide_trace::curve::{PolicyCaches, Sample};
use ebbtide_workloads::{Observed, Program, Work, Workload};

use super::protocol::Calibration;
use super::spread::Spread;

/// Turnovers of the LRU cache before its misses are counted.
const WARM_TURNOVERS: u64 = 3;

/// Turnovers over which its misses are counted.
const COUNTED_TURNOVERS: u64 = 4;

/// Returns the work per job with which plain LRU misses once every `interval_ns` of execution.
/// Measures `program` without added work over its memory, with a simulated LRU cache of `frames`
/// frames. Executes jobs, and undoes their stores page by page before it returns. Jobs are timed
/// for `share` of the usual length.
///
/// # Errors
/// When a job reads a wrong value.
pub(super) fn calibrate(
    program: &dyn Fn(u64) -> Program,
    memory: &mut MappedMemory,
    frames: u64,
    interval_ns: f64,
    share: f64,
) -> Result<Calibration, String> {
    let stretch = STRETCH.mul_f64(share);
    let plain = program(0);
    let mut written = vec![false; (memory.size_bytes() / PAGE_BYTES as u64) as usize];
    let counted = count_misses(&plain, memory, frames as usize, &mut written)?;
    let base_ns = job_ns(&plain, memory, counted.jobs, stretch, &mut written)?;
    let wanted_ns = interval_ns * counted.lru_misses_per_job;
    let (mut work_instructions, mut measured_ns) = (0, base_ns);
    // Work and outstanding loads overlap, so the work is approached in a few steps.
    for _ in 0..STEPS_MAX {
        let more_ns = wanted_ns - measured_ns;
        if more_ns.abs() < wanted_ns / 100.0 || (more_ns < 0.0 && work_instructions == 0) {
            break;
        }
        let more = (more_ns / instruction_ns(memory)).round() as i64;
        work_instructions = (work_instructions as i64 + more).max(0) as u64;
        let worked = program(work_instructions);
        measured_ns = job_ns(&worked, memory, counted.jobs, stretch, &mut written)?;
    }
    restore(&plain, memory, &written);
    Ok(Calibration {
        work_instructions,
        work_share: (1.0 - base_ns / measured_ns).max(0.0),
        lru_misses_per_job: counted.lru_misses_per_job,
        accesses_per_job: counted.accesses_per_job,
        job_ns: measured_ns,
    })
}

/// The maximum of steps. The interval is within a percent after two or three.
const STEPS_MAX: u32 = 8;

struct Counted {
    lru_misses_per_job: f64,
    accesses_per_job: f64,
    jobs: u64,
}

fn count_misses(
    program: &Program,
    memory: &mut MappedMemory,
    frames: usize,
    written: &mut [bool],
) -> Result<Counted, String> {
    let sample = Sample::all(written.len() as u64);
    let mut lru = PolicyCaches::new(PolicyKind::Lru, &[frames as u64], sample, 0);
    let mut misses = 0.0;
    let (mut job, mut first_counted, mut misses_before, mut accesses) = (0, None, 0.0, 0u64);
    let turnovers = |count: u64| (count * frames as u64) as f64;
    let enough = turnovers(WARM_TURNOVERS + COUNTED_TURNOVERS);
    // A program whose data fits into the cache never misses: count a fixed number of jobs.
    while misses < enough && job < 4_000_000 {
        if first_counted.is_none() && misses >= turnovers(WARM_TURNOVERS) {
            (first_counted, misses_before, accesses) = (Some(job), misses, 0);
        }
        let mut observed = Observed::new(memory, Work::Skipped, |page, store| {
            accesses += 1;
            written[page.index()] |= store;
            lru.touch(page, store);
        });
        program.run(job, &mut observed).map_err(|wrong| wrong.to_string())?;
        misses = lru.curve().steps()[0].misses;
        job += 1;
    }
    let counted_jobs = (job - first_counted.unwrap_or(0)).max(1) as f64;
    Ok(Counted {
        lru_misses_per_job: (misses - misses_before) / counted_jobs,
        accesses_per_job: accesses as f64 / counted_jobs,
        jobs: job,
    })
}

/// Returns the CPU time of this thread so far. Other programs on the machine do not add to it.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The length of a stretch over which jobs are timed.
const STRETCH: Duration = Duration::from_millis(40);

/// Returns the execution time of a job in nanoseconds over the memory itself, the median of several
/// stretches. Runs only jobs below `jobs`. Marks the pages they write, because a job's place may
/// depend on earlier jobs (a TPC-C order goes into the next slot of its ring).
fn job_ns(
    program: &Program,
    memory: &mut MappedMemory,
    jobs: u64,
    stretch: Duration,
    written: &mut [bool],
) -> Result<f64, String> {
    let mut job = 0;
    let mut stretches = Vec::new();
    for _ in 0..5 {
        let start = cpu_time();
        let mut done = 0;
        while cpu_time() - start < stretch {
            for _ in 0..64 {
                let mut observed = Observed::new(memory, Work::Done, |page, store| {
                    written[page.index()] |= store;
                });
                program.run(job, &mut observed).map_err(|wrong| wrong.to_string())?;
                job = (job + 1) % jobs;
                done += 1;
            }
        }
        stretches.push((cpu_time() - start).as_nanos() as f64 / f64::from(done));
    }
    Ok(Spread::of(stretches).median)
}

/// Time of one instruction of work in nanoseconds.
fn instruction_ns(memory: &mut MappedMemory) -> f64 {
    const INSTRUCTIONS: u64 = 5_000_000;
    let stretch = |_| {
        let start = cpu_time();
        memory.work(INSTRUCTIONS);
        (cpu_time() - start).as_nanos() as f64 / INSTRUCTIONS as f64
    };
    Spread::of((0..5).map(stretch)).median
}

fn restore(program: &Program, memory: &mut MappedMemory, written: &[bool]) {
    let mut image = [0; PAGE_BYTES];
    for page in written.iter().enumerate().filter(|(_, written)| **written) {
        let page = PageId(page.0 as u64);
        program.image(page, &mut image);
        for (index, bytes) in image.chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
            memory.store(page.start() + index as u64 * 8, word);
        }
    }
}
