//! [`Storage`]: the engine under the keys, as commands see it. It has their section of `INFO`, and
//! the CPU time of misses.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use ebbtide_core::PAGE_BYTES;
use ebbtide_core::durability::Lsn;
use ebbtide_engine::{Engine, Snapshot};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};

use crate::copying::{Copied, Copying};

/// Full writes that a flash drive survives, for the estimated lifetime. Common TLC flash has 1000.
const FULL_WRITES: f64 = 1000.0;

/// Factor on the weight of older samples of costs when a new sample comes.
const DECAY: f64 = 0.98;

/// The engine of a server.
pub struct Storage {
    engine: Arc<Engine>,
    capacity_bytes: u64,
    since: Instant,
    log_start: Lsn,
    costs: Mutex<Costs>,
    copying: Mutex<Copying>,
    /// Pages that had been read when the counters of commands began at 0.
    reads_before: AtomicU64,
}

impl Storage {
    pub(crate) fn new(engine: Arc<Engine>, capacity_bytes: u64) -> Storage {
        let (since, costs, copying) = (Instant::now(), Mutex::default(), Mutex::default());
        let (log_start, reads_before) = (Lsn::ZERO, AtomicU64::new(0));
        let mut storage =
            Storage { engine, capacity_bytes, since, log_start, costs, copying, reads_before };
        storage.log_start = storage.committed();
        storage
    }

    fn log_bytes(&self) -> u64 {
        self.committed().0.saturating_sub(self.log_start.0)
    }

    /// Returns its section of `INFO`, given the commands since the last [`reset`](Storage::reset)
    /// and the bytes of connection buffers.
    pub(crate) fn section(&self, commands: u64, buffers_bytes: u64) -> String {
        let Snapshot { accesses, hits, misses, flash_reads, flash_writes, jobs, .. } =
            self.engine.counters().snapshot();
        let budget = self.engine.budget();
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        let written_bytes = flash_writes * PAGE_BYTES as u64 + self.log_bytes();
        let days = self.since.elapsed().as_secs_f64() / 86_400.0;
        let writes_per_day = written_bytes as f64 / self.capacity_bytes as f64 / days.max(1e-9);
        let mut text = format!(
            "device:{}\r\nmemory_accesses:{accesses}\r\nmemory_hits:{hits}\r\nmemory_misses:{misses}\r\n\
             memory_miss_ratio:{:.6}\r\nflash_reads:{flash_reads}\r\nflash_reads_per_command:{:.4}\r\n\
             flash_writes:{flash_writes}\r\nflash_bytes_written:{written_bytes}\r\n\
             flash_full_writes_per_day:{writes_per_day:.4}\r\njobs:{jobs}\r\n\
             dram_frames_bytes:{}\r\ndram_states_bytes:{}\r\ndram_policy_bytes:{}\r\n\
             dram_cores_bytes:{}\r\ndram_connections_bytes:{}\r\n",
            self.engine.device_name(),
            share(misses, accesses),
            share(flash_reads.saturating_sub(self.reads_before.load(Ordering::Relaxed)), commands),
            budget.frames_bytes,
            budget.states_bytes,
            budget.policy_bytes,
            budget.cores_bytes,
            buffers_bytes,
        );
        if writes_per_day > 0.0 {
            let years = FULL_WRITES / writes_per_day / 365.0;
            let _ = write!(text, "flash_years_for_{FULL_WRITES}_full_writes:{years:.1}\r\n");
        }
        if let Some((command_us, miss_us)) = self.costs.lock().estimate() {
            let _ = write!(
                text,
                "cpu_us_per_command_without_misses:{command_us:.2}\r\ncpu_us_per_miss:{miss_us:.2}\r\n"
            );
        }
        text
    }

    /// Returns the last place in the log. If nothing more can be written, the last acknowledged
    /// place; zero without a log.
    pub(crate) fn committed(&self) -> Lsn {
        let progress = self.engine.progress();
        progress.map_or(Lsn::ZERO, |progress| match progress.gives_up() {
            // A reply about all keys must not wait for changes that may never be durable.
            Some(_) => progress.acknowledged,
            None => progress.committed,
        })
    }

    /// True if changes are refused because the device fails or is full.
    pub(crate) fn refuses(&self) -> bool {
        self.engine.progress().is_some_and(|progress| progress.refused.is_some())
    }

    /// Begins a flush of all changes. Returns the place in the log at which they are durable;
    /// `None` without a log.
    pub(crate) fn save(&self) -> Option<Lsn> {
        let progress = self.engine.progress()?;
        self.engine.flush_soon();
        Some(progress.committed)
    }

    /// Begins a copy of the store to a new file.
    ///
    /// # Errors
    /// Returns an error if a copy is under way, or the file exists.
    pub(crate) fn copy(&self, path: &Path) -> Result<(), String> {
        self.copying.lock().begin(&self.engine, path)
    }

    /// Returns the state of the last copy.
    pub(crate) fn copied(&self) -> Copied {
        self.copying.lock().state()
    }

    /// Samples the costs of commands and misses, given the commands so far. Called about once a
    /// second.
    pub(crate) fn sample(&self, commands: u64) {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        let cpu_us = time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3;
        let misses = self.engine.counters().snapshot().misses;
        self.costs.lock().sample(commands, misses, cpu_us);
    }

    /// Notes that the counters of commands begin again at 0.
    pub(crate) fn reset(&self) {
        self.reads_before.store(self.engine.counters().snapshot().flash_reads, Ordering::Relaxed);
    }

    /// Wakes a core if it sleeps.
    pub(crate) fn rouse(&self, core: usize) {
        self.engine.rouse(core);
    }
}

/// The CPU time of a command and of a miss. Least squares fit CPU time to commands and misses.
/// Newer samples count more.
#[derive(Debug, Default)]
struct Costs {
    last: Option<(u64, u64, f64)>,
    /// Sums of products of commands (c), misses (m) and CPU time (t).
    cc: f64,
    cm: f64,
    mm: f64,
    ct: f64,
    mt: f64,
}

impl Costs {
    fn sample(&mut self, commands: u64, misses: u64, cpu_us: f64) {
        let last = self.last.replace((commands, misses, cpu_us));
        let Some((commands_before, misses_before, cpu_before)) = last else { return };
        // CONFIG RESETSTAT resets the counters.
        let c = commands.saturating_sub(commands_before) as f64;
        let m = misses.saturating_sub(misses_before) as f64;
        let t = cpu_us - cpu_before;
        if c == 0.0 {
            return;
        }
        for (sum, product) in [
            (&mut self.cc, c * c),
            (&mut self.cm, c * m),
            (&mut self.mm, m * m),
            (&mut self.ct, c * t),
            (&mut self.mt, m * t),
        ] {
            *sum = *sum * DECAY + product;
        }
    }

    /// Returns microseconds of CPU for a command without misses, and for a miss. `None` while the
    /// share of misses has not changed enough to tell them apart.
    fn estimate(&self) -> Option<(f64, f64)> {
        let determinant = self.cc * self.mm - self.cm * self.cm;
        if determinant <= 1e-3 * self.cc * self.mm {
            return None;
        }
        let command_us = (self.ct * self.mm - self.mt * self.cm) / determinant;
        let miss_us = (self.cc * self.mt - self.cm * self.ct) / determinant;
        (command_us > 0.0 && miss_us > 0.0).then_some((command_us, miss_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_miss_is_found_once_the_share_of_misses_changes() {
        let (mut commands, mut misses, mut cpu_us) = (0, 0, 0.0);
        let mut costs = Costs::default();
        let mut run = |costs: &mut Costs, more: u64, missed: u64| {
            (commands, misses) = (commands + more, misses + missed);
            cpu_us += more as f64 * 8.0 + missed as f64 * 11.0;
            costs.sample(commands, misses, cpu_us);
        };
        (0..5).for_each(|_| run(&mut costs, 1000, 500));
        assert_eq!(costs.estimate(), None, "every sample is alike");
        run(&mut costs, 2000, 200);
        let (command_us, miss_us) = costs.estimate().expect("they differ");
        assert!((command_us - 8.0).abs() < 1e-6 && (miss_us - 11.0).abs() < 1e-6);
    }
}
