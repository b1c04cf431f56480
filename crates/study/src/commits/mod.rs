//! Predicts the rate of durable transactions and their writes on a modelled SSD.
//!
//! A run is the engine's own protocol (`ebbtide_core::durability`) in virtual time: its log, map,
//! slots, checkpoints and bounds. The model has a core, jobs, a cache of frames, and the SSD. Jobs
//! are like TPC-B's: an account drawn evenly, a teller, a branch and a row of a history. A job
//! stores 104 bytes on four pages.
//!
//! With *capacitors* the SSD's write buffer survives a loss of power, so a write is done when it is
//! in the buffer. Without them it is done when it is programmed. The time of a flush is added to
//! that.

mod machine;

use std::fmt::{self, Display, Formatter};

use ebbtide_core::durability::{Policy, RecoveryError};
use ebbtide_core::{Bytes, PAGE_BYTES, Span, Stopped, Watch};
use ebbtide_flash::{Config, ConfigError, Flash, Lifetime, WriteDone};
use ebbtide_report::{Table, bytes, microseconds, years};
use serde::Serialize;
use thiserror::Error;

use machine::{Machine, Setting};

/// The preset whose write buffer is used for a device without one.
const BUFFERED: &str = "astriflash-256g";

/// The fewest pages of data.
const PAGES_MIN: u64 = 1024;

/// The options of a prediction.
#[derive(Debug, Clone)]
pub struct CommitOptions {
    /// The preset of the SSD.
    pub device: String,
    /// Size of the data.
    pub dataset: Bytes,
    /// Size of the DRAM cache.
    pub dram: Bytes,
    /// Size of the log.
    pub log: Bytes,
    /// Jobs at once.
    pub jobs: usize,
    /// Computing time of a transaction.
    pub cpu: Span,
    /// When a transaction is acknowledged. Each policy is tried.
    pub policies: Vec<Policy>,
    /// Time of a flush in addition to the writes before it. Each is tried.
    pub flushes: Vec<Span>,
    /// Counted transactions. As many run before them.
    pub transactions: u64,
    /// Seed of the accounts.
    pub seed: u64,
}

/// The reason why there is no prediction.
#[derive(Debug, Error)]
pub enum CommitError {
    /// The SSD is impossible.
    #[error(transparent)]
    Device(#[from] ConfigError),
    /// The model of the SSD has no write buffer.
    #[error("{0} has fixed latencies and no buffer: expected an SSD such as {BUFFERED}")]
    Flat(String),
    /// A size is out of its range.
    #[error("{what} is {given}: expected {expected}")]
    Size {
        /// The size.
        what: &'static str,
        /// Its value.
        given: String,
        /// The possible values.
        expected: String,
    },
    /// The store is impossible.
    #[error(transparent)]
    Store(#[from] RecoveryError),
    /// The prediction was stopped.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

/// The prediction for one policy, one flush, with or without capacitors.
#[derive(Debug, Clone, Serialize)]
pub struct Predicted {
    /// When a transaction is acknowledged.
    pub policy: Policy,
    /// Whether the write buffer survives a loss of power.
    pub capacitors: bool,
    /// Time of a flush in addition to the writes before it.
    pub flush_us: f64,
    /// Acknowledged transactions a second.
    pub commits_per_s: f64,
    /// Median time from the beginning to the acknowledgement.
    pub p50_us: f64,
    /// 99th percentile of that time.
    pub p99_us: f64,
    /// Transactions that one flush makes durable.
    pub commits_per_flush: f64,
    /// Bytes of log, base maps and superblocks for each transaction.
    pub log_bytes: f64,
    /// Pages written back for each transaction.
    pub pages_written: f64,
    /// Pages read for each transaction.
    pub pages_read: f64,
    /// Bytes programmed to flash for each transaction, with those of garbage collections.
    pub flash_bytes: f64,
    /// Lifetime of the flash at this rate, in years.
    pub years: f64,
}

/// All predictions.
#[derive(Debug, Clone, Serialize)]
pub struct Commits {
    /// The preset of the SSD.
    pub device: String,
    /// Size of the data.
    pub dataset_bytes: u64,
    /// Size of the DRAM cache.
    pub dram_bytes: u64,
    /// Jobs at once.
    pub jobs: usize,
    /// Computing time of a transaction.
    pub cpu_us: f64,
    /// Each policy with each flush, with capacitors and without.
    pub predicted: Vec<Predicted>,
}

/// Predicts for all policies and flushes of `options`.
///
/// # Errors
/// When a size or the SSD is impossible, or when the prediction was stopped.
pub fn predict(options: &CommitOptions, watch: Watch<'_>) -> Result<Commits, CommitError> {
    let combinations: Vec<(Policy, Span, bool)> = options
        .policies
        .iter()
        .flat_map(|policy| options.flushes.iter().map(move |flush| (*policy, *flush)))
        .flat_map(|(policy, flush)| [true, false].map(|capacitors| (policy, flush, capacitors)))
        .collect();
    let mut predicted = Vec::new();
    for (done, &(policy, flush, capacitors)) in combinations.iter().enumerate() {
        watch.tell("predicting", done as f64 / combinations.len() as f64)?;
        predicted.push(run(options, policy, flush, capacitors)?);
    }
    Ok(Commits {
        device: options.device.clone(),
        dataset_bytes: options.dataset.0,
        dram_bytes: options.dram.0,
        jobs: options.jobs,
        cpu_us: options.cpu.as_us_f64(),
        predicted,
    })
}

/// The SSD with or without capacitors.
fn device(name: &str, capacitors: bool) -> Result<Flash, CommitError> {
    let (mut config, buffered) = (Config::preset(name)?, Config::preset(BUFFERED)?);
    let (Config::Ssd(ssd), Config::Ssd(buffered)) = (&mut config, buffered) else {
        return Err(CommitError::Flat(name.into()));
    };
    ssd.write_done = if capacitors { WriteDone::Buffered } else { WriteDone::Programmed };
    if ssd.write_buffer_pages == 0 {
        ssd.write_buffer_pages = buffered.write_buffer_pages;
        ssd.buffered_write_us = buffered.buffered_write_us;
    }
    Ok(Flash::new(&config)?)
}

fn run(
    options: &CommitOptions,
    policy: Policy,
    flush: Span,
    capacitors: bool,
) -> Result<Predicted, CommitError> {
    let page = PAGE_BYTES as u64;
    let (pages, log_blocks) = (options.dataset.0 / page, options.log.0 / page);
    let flash = device(&options.device, capacitors)?;
    let pages_max =
        flash.logical_pages().map_or(u64::MAX, |all| all / 2).saturating_sub(log_blocks);
    let size = |what, given: u64, least: u64, most: u64| {
        if (least..=most).contains(&given) {
            return Ok(());
        }
        let (given, expected) =
            (bytes(given as f64), format!("{} to {}", bytes(least as f64), bytes(most as f64)));
        Err(CommitError::Size { what, given, expected })
    };
    size("the data", options.dataset.0, PAGES_MIN * page, pages_max * page)?;
    // Each job may use four pages at a time.
    size("the DRAM cache", options.dram.0, 8 * options.jobs as u64 * page, u64::MAX)?;
    // A quarter of the log is kept for map records, and a job may reserve two blocks.
    size("the log", options.log.0, (64 + 8 * options.jobs as u64) * page, u64::MAX)?;
    let setting = Setting {
        pages,
        frames: (options.dram.0 / page).min(pages) as usize,
        log_blocks,
        jobs: options.jobs,
        cpu: options.cpu,
        policy,
        flush,
        seed: options.seed,
    };
    let mut machine = Machine::new(setting, flash)?;
    let stalled = || CommitError::Size {
        what: "the log",
        given: bytes(options.log.0 as f64),
        expected: "more: jobs wait for room for ever".into(),
    };
    if !machine.run(options.transactions) {
        return Err(stalled());
    }
    let (began, before) = (machine.now(), *machine.flash().counters());
    machine.forget();
    if !machine.run(options.transactions) {
        return Err(stalled());
    }
    let elapsed = machine.now().since(began);
    let (after, tally) = (machine.flash().counters(), &machine.tally);
    let commits = tally.commits as f64;
    let programmed = after.host_pages_programmed + after.gc_pages_programmed
        - before.host_pages_programmed
        - before.gc_pages_programmed;
    let Config::Ssd(ssd) = Config::preset(&options.device)? else {
        return Err(CommitError::Flat(options.device.clone()));
    };
    let planes = ssd.channels * ssd.chips_per_channel * ssd.dies_per_chip * ssd.planes_per_die;
    let raw_bytes = u64::from(planes)
        * u64::from(ssd.blocks_per_plane)
        * u64::from(ssd.pages_per_block)
        * u64::from(ssd.page_bytes);
    let lifetime = Lifetime::new(raw_bytes, ssd.endurance_cycles, programmed, elapsed);
    let us = |ns: u64| ns as f64 / 1e3;
    Ok(Predicted {
        policy,
        capacitors,
        flush_us: flush.as_us_f64(),
        commits_per_s: commits / (elapsed.as_us_f64() * 1e-6),
        p50_us: us(machine.latencies.value_at_quantile(0.5)),
        p99_us: us(machine.latencies.value_at_quantile(0.99)),
        commits_per_flush: commits / tally.flushes.max(1) as f64,
        log_bytes: (tally.log_blocks * page) as f64 / commits,
        pages_written: tally.page_writes as f64 / commits,
        pages_read: tally.page_reads as f64 / commits,
        flash_bytes: (programmed * page) as f64 / commits,
        years: lifetime.years(),
    })
}

impl Display for Commits {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} of data and {} of DRAM on {}, {} jobs that compute for {}; transactions store 104 bytes \
             on four pages\n",
            bytes(self.dataset_bytes as f64),
            bytes(self.dram_bytes as f64),
            self.device,
            self.jobs,
            microseconds(self.cpu_us),
        )?;
        let header = [
            "durability",
            "capacitors",
            "flush",
            "flash lasts",
            "commits/s",
            "p50 us",
            "p99 us",
            "commits a flush",
            "log B",
            "pages read",
            "pages written",
            "flash B",
        ];
        let rows = self.predicted.iter().fold(Table::new("Predicted", header), |table, one| {
            let capacitors = if one.capacitors { "yes" } else { "no" };
            let text = [
                one.policy.to_string(),
                capacitors.into(),
                microseconds(one.flush_us),
                years(one.years),
            ];
            let numbers = [
                one.commits_per_s,
                one.p50_us,
                one.p99_us,
                one.commits_per_flush,
                one.log_bytes,
                one.pages_read,
                one.pages_written,
                one.flash_bytes,
            ];
            table.numbers(text, numbers)
        });
        write!(f, "{rows}")
    }
}
