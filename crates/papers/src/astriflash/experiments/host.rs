//! AstriFlash's statements about real hosts (AS5, AS13 to AS15), measured on this machine.

use std::hint::{black_box, spin_loop};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ebbtide_core::Watch;
use ebbtide_engine::affinity;
use ebbtide_fiber::{Fiber, StackPool};
use ebbtide_measure::doctor::costs::reads_a_call;
use ebbtide_measure::doctor::probe::{ProbeError, Target, random_reads};
use ebbtide_study::claims::{Claim, Finding};
use serde::Serialize;

/// Times of this machine's hardware and kernel, each a median.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Host {
    /// A switch between user-level threads, in nanoseconds.
    pub user_switch_ns: f64,
    /// A switch between kernel threads on one core, in microseconds. System calls are not included.
    pub os_switch_us: f64,
    /// Processor time of a blocking read of 4 KiB that bypasses the page cache, in microseconds.
    pub storage_stack_us: f64,
    /// The same for a read among many in flight, which share calls and interrupts.
    pub shared_stack_us: f64,
    /// Pairs of a number of other cores that run threads of the process, and the extra time of
    /// unmapping a page in microseconds.
    pub shootdown_us: Vec<(usize, f64)>,
}

/// Size of the test file: large enough to spread reads, small enough for quick creation.
const FILE_BYTES: u64 = 64 << 20;

/// Reads in flight that share calls and interrupts.
const MANY: u32 = 64;

const READS_FOR: Duration = Duration::from_millis(1500);

/// Repetitions for a median, and the operations in each repetition.
const ROUNDS: usize = 31;
const SWITCHES: u32 = 20_000;
const HANDOVERS: u32 = 2_000;
const UNMAPS: u32 = 100;

/// Size of a block that the allocator does not keep. It unmaps the block when it is freed.
const UNMAPPED_BYTES: usize = 64 << 20;

impl Host {
    /// Measures this machine. Reads come from an unnamed file in `folder`.
    ///
    /// # Errors
    /// [`ProbeError`] when the file cannot be made or read, or threads cannot be pinned.
    pub(super) fn measure(folder: &Path) -> Result<Host, ProbeError> {
        let target = Target::temporary(folder, FILE_BYTES, Watch::unattended())?;
        let storage_stack_us = random_reads(&target, 1, READS_FOR)?.cpu_us_per_read;
        let shared_stack_us = random_reads(&target, MANY, READS_FOR)?.cpu_us_per_read;
        let failed = |source| ProbeError::Read { queue_depth: 0, source };
        Ok(Host {
            user_switch_ns: user_switch().map_err(failed)?.as_secs_f64() * 1e9,
            os_switch_us: os_switch().map_err(failed)?.as_secs_f64() * 1e6,
            storage_stack_us,
            shared_stack_us,
            shootdown_us: shootdowns().map_err(failed)?,
        })
    }

    /// The finding on AS5.
    pub(crate) fn user_switch(&self, claim: &Claim) -> Finding {
        let ratio = 1e3 * self.os_switch_us / self.user_switch_ns;
        claim.finding("", self.user_switch_ns).note(format!(
            "Measured on this machine; its OS's switch takes {ratio:.0} times as long."
        ))
    }

    /// The finding on AS13.
    pub(crate) fn storage_stack(&self, claim: &Claim) -> Finding {
        claim.finding("", self.storage_stack_us).note(format!(
            "Processor time of a read of 4 KiB past the page cache on this machine, one at a time; \
             of one among {MANY} in flight, {} to a call, {:.1} us. What is beyond that is calls, \
             sleeps and interrupts of its own.",
            reads_a_call(MANY),
            self.shared_stack_us,
        ))
    }

    /// The finding on AS14.
    pub(crate) fn shootdowns(&self, claim: &Claim) -> Finding {
        let steps = |(cores, us): &(usize, f64)| format!("{cores}: {us:.1} us");
        let steps: Vec<String> = self.shootdown_us.iter().map(steps).collect();
        let most = self.shootdown_us.last().map_or(0.0, |(_, us)| *us);
        claim.finding("", most).note(format!(
            "What unmapping takes longer on this machine with other cores busy: {}; the paper's \
             machine has more cores.",
            steps.join(", ")
        ))
    }

    /// The finding on AS15.
    pub(crate) fn os_switch(&self, claim: &Claim) -> Finding {
        let note =
            "Between two threads on one core of this machine, the pipe's system calls apart.";
        claim.finding("", self.os_switch_us).note(note)
    }
}

fn median(mut values: Vec<Duration>) -> Duration {
    values.sort_unstable();
    values[values.len() / 2]
}

/// The median over rounds of the time of one operation. A round has `operations` of them.
fn timed(operations: u32, mut round: impl FnMut() -> io::Result<()>) -> io::Result<Duration> {
    let mut took = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let start = Instant::now();
        round()?;
        took.push(start.elapsed() / operations);
    }
    Ok(median(took))
}

fn user_switch() -> io::Result<Duration> {
    let mut stacks = StackPool::new(1, 16 << 10)?;
    let Some(stack) = stacks.take() else { return Ok(Duration::ZERO) };
    let mut fiber: Fiber<(), ()> = Fiber::new(stack, |suspend, ()| {
        loop {
            suspend.suspend(());
        }
    });
    // A duration is in whole nanoseconds, so the division happens in seconds.
    let round = timed(1, || {
        (0..SWITCHES / 2).for_each(|_| {
            black_box(fiber.resume(()));
        });
        Ok(())
    })?;
    Ok(Duration::from_secs_f64(round.as_secs_f64() / f64::from(SWITCHES))
        .max(Duration::from_nanos(1)))
}

/// The time of a switch. Two threads on one core exchange a byte. The time of the system calls is
/// subtracted. A thread that sends bytes to itself measures it.
fn os_switch() -> io::Result<Duration> {
    let cpu = *affinity::allowed()?.first().unwrap_or(&0);
    let (mut there, mut back) = (io::pipe()?, io::pipe()?);
    let mut own = io::pipe()?;
    let mut byte = [0];
    thread::scope(|scope| {
        let other = scope.spawn(move || {
            affinity::pin(cpu)?;
            let mut byte = [0];
            while there.0.read(&mut byte)? == 1 && byte[0] != 0 {
                back.1.write_all(&byte)?;
            }
            Ok::<(), io::Error>(())
        });
        let mine = scope.spawn(move || {
            affinity::pin(cpu)?;
            let pair = timed(2 * HANDOVERS, || {
                for _ in 0..HANDOVERS {
                    there.1.write_all(&[1])?;
                    back.0.read_exact(&mut byte)?;
                }
                Ok(())
            });
            there.1.write_all(&[0])?;
            let alone = timed(HANDOVERS, || {
                for _ in 0..HANDOVERS {
                    own.1.write_all(&[1])?;
                    own.0.read_exact(&mut byte)?;
                }
                Ok(())
            })?;
            Ok::<Duration, io::Error>(pair?.saturating_sub(alone))
        });
        let took = mine.join().expect("it does not panic");
        other.join().expect("it does not panic")?;
        took
    })
}

/// Extra time of unmapping, by the number of other busy cores.
fn shootdowns() -> io::Result<Vec<(usize, f64)>> {
    let cpus = affinity::allowed()?;
    let mut steps = Vec::new();
    let alone = unmapping(&cpus, 0)?;
    let mut others = 1;
    while others < cpus.len() {
        let longer = unmapping(&cpus, others)?.saturating_sub(alone);
        steps.push((others, longer.as_secs_f64() * 1e6));
        others = (2 * others).min(cpus.len() - 1).max(others + 1);
    }
    Ok(steps)
}

/// The time to unmap memory with one touched page while `others` other cores run threads.
fn unmapping(cpus: &[usize], others: usize) -> io::Result<Duration> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for &cpu in cpus.iter().skip(1).take(others) {
            let stop = &stop;
            scope.spawn(move || {
                let pinned = affinity::pin(cpu);
                while pinned.is_ok() && !stop.load(Ordering::Relaxed) {
                    spin_loop();
                }
            });
        }
        let measured = scope.spawn(|| {
            affinity::pin(cpus[0])?;
            let mut took = Vec::new();
            for _ in 0..ROUNDS as u32 * UNMAPS {
                let mut memory = vec![0u8; UNMAPPED_BYTES];
                black_box(&mut memory)[0] = 1;
                let start = Instant::now();
                drop(memory);
                took.push(start.elapsed());
            }
            Ok::<Duration, io::Error>(median(took))
        });
        let took = measured.join().expect("it does not panic");
        stop.store(true, Ordering::Relaxed);
        took
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_claim_about_hosts_is_measured() {
        let host =
            Host::measure(&std::env::temp_dir()).expect("this machine runs threads and files");
        assert!(host.user_switch_ns > 0.0 && host.storage_stack_us > 0.0);
        let claim = |id| crate::astriflash::claims::CLAIMS.get(id);
        let found = [
            host.user_switch(claim("AS5")),
            host.storage_stack(claim("AS13")),
            host.shootdowns(claim("AS14")),
            host.os_switch(claim("AS15")),
        ];
        assert!(found.iter().all(|finding| finding.ours.is_some()), "{found:?}");
    }
}
