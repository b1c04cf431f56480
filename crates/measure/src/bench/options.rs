//! [`BenchOptions`]: the workloads, memories and conditions of a bench.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use ebbtide_core::durability::Policy;
use ebbtide_core::{Bytes, Span, UnknownName, choice, find_by_name};
use ebbtide_engine::Tuning;
use ebbtide_engine::device::path::DevicePath;
use ebbtide_trace::Format;
use ebbtide_workloads::{Kind, Scatter};
use serde::{Deserialize, Serialize};

/// A memory to run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// All data in DRAM, without residency checks: the upper bound.
    Dram,
    /// The kernel's paging: the data file mapped, in a cgroup limited to Ebbtide's budget.
    Paging,
    /// The DRAM cache, with a blocking O_DIRECT read on a miss.
    Sync,
    /// Ebbtide's engine.
    Ebbtide,
    /// Ebbtide's mapped regions: plain loads and stores, a miss by SIGBUS.
    Mapped,
    /// Ebbtide without the techniques that are [tried](BenchOptions::tries), for comparison.
    Plain,
    /// Ebbtide over a store that survives crashes ([`BenchOptions::durability`]).
    Durable,
}

impl Mode {
    /// The modes that run by default.
    pub const USUAL: [Mode; 4] = [Mode::Dram, Mode::Paging, Mode::Sync, Mode::Ebbtide];

    /// Every mode that users choose.
    pub const ALL: [Mode; 5] = [Mode::Dram, Mode::Paging, Mode::Sync, Mode::Ebbtide, Mode::Mapped];

    /// Returns the name in options and results.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Dram => "dram",
            Mode::Paging => "paging",
            Mode::Sync => "sync",
            Mode::Ebbtide => "ebbtide",
            Mode::Mapped => "mapped",
            Mode::Plain => "plain",
            Mode::Durable => "durable",
        }
    }
}

impl FromStr for Mode {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Mode, UnknownName> {
        find_by_name("mode", name, &Mode::ALL.map(|mode| (mode.name(), mode)))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The DRAM budget of every memory but DRAM-only.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dram {
    /// A share of the dataset, from 0 to 1. Parsed from `3%`.
    Share(f64),
    /// A number of bytes. Parsed from `64MiB`.
    Bytes(u64),
}

impl FromStr for Dram {
    type Err = String;

    fn from_str(text: &str) -> Result<Dram, String> {
        let Some(percent) = text.strip_suffix('%') else {
            return text.parse().map(|Bytes(bytes)| Dram::Bytes(bytes)).map_err(|_| {
                format!("'{text}' is not a share or a size; expected something like 3% or 64MiB")
            });
        };
        match percent.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(Dram::Share(percent / 100.0)),
            _ => Err(format!("'{text}' is not a share; expected something like 3% or 64MiB")),
        }
    }
}

/// Storage of the pages of Ebbtide and of blocking reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Flash {
    /// The data file or block device.
    Data,
    /// Memory that answers after this time without cost to the cores
    /// ([`Dma`](ebbtide_engine::device::dma::Dma)). It leaves only the engine's own cost. Parsed
    /// from `ram:50us`.
    Ram(Span),
}

impl FromStr for Flash {
    type Err = String;

    fn from_str(text: &str) -> Result<Flash, String> {
        if text == "data" {
            return Ok(Flash::Data);
        }
        let latency = text.strip_prefix("ram:").and_then(|latency| latency.parse::<Span>().ok());
        match latency.filter(|latency| (Span::from_us(1)..=LATENCY_MAX).contains(latency)) {
            Some(latency) => Ok(Flash::Ram(latency)),
            None => Err(format!(
                "'{text}' is not a device; expected data, or ram: and a latency of 1us to 1s such as \
                 ram:50us"
            )),
        }
    }
}

/// Latency limit of memory in place of a drive.
const LATENCY_MAX: Span = Span::from_us(1_000_000);

impl fmt::Display for Flash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flash::Data => f.write_str("data"),
            Flash::Ram(latency) => write!(f, "ram:{latency}"),
        }
    }
}

impl From<Flash> for String {
    fn from(flash: Flash) -> String {
        flash.to_string()
    }
}

impl TryFrom<String> for Flash {
    type Error = String;

    fn try_from(text: String) -> Result<Flash, String> {
        text.parse()
    }
}

choice! {
    /// How jobs arrive.
    pub enum Arrivals as "arrivals" {
        /// Closed loop: a job is always waiting, which gives the maximum throughput.
        Closed = "closed",
        /// Open loop: Poisson arrivals at several loads.
        Open = "poisson",
    }
}

/// The options of a bench.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BenchOptions {
    /// Workloads by name.
    pub workloads: Vec<&'static str>,
    /// Memories. DRAM-only always runs, as the baseline.
    pub modes: Vec<Mode>,
    /// The data file or block device.
    pub data: PathBuf,
    /// Ebbtide's way to the drive; `None` takes the one that suits `data`.
    pub device_path: Option<DevicePath>,
    /// Storage of the pages of Ebbtide and of blocking reads.
    pub device: Flash,
    /// Size of each workload's data in bytes. With a graph or a trace from a file, the size of its
    /// data.
    pub dataset_bytes: u64,
    /// A file with the graph to run on, for `GRAPH_WORKLOADS` alone.
    pub graph: Option<PathBuf>,
    /// A trace to replay instead of workloads; `-` is standard input.
    pub trace: Option<PathBuf>,
    /// The format of the trace; `None` if the ending of its name determines it.
    pub trace_format: Option<Format>,
    /// DRAM for Ebbtide, blocking reads and paging.
    pub dram: Dram,
    /// Number of cores.
    pub cores: usize,
    /// Mean execution between misses of plain LRU to calibrate for, in microseconds.
    pub miss_interval_us: f64,
    /// Number of undisturbed rounds. At most twice as many are measured.
    pub rounds: usize,
    /// Length of a window in seconds.
    pub seconds: f64,
    /// How jobs arrive.
    pub arrivals: Arrivals,
    /// Offered loads of the open loop, as shares of DRAM-only's throughput. Not used in a closed
    /// loop.
    pub loads: Vec<f64>,
    /// How Ebbtide treats misses.
    #[serde(flatten)]
    pub tuning: Tuning,
    /// Zipf skew of the keys; 0 is uniform.
    pub theta: f64,
    /// With a policy, Ebbtide also runs over a store that survives crashes ([`Mode::Durable`]). The
    /// policy states when a transaction is acknowledged.
    pub durability: Option<Policy>,
    /// Placement of keys on pages.
    pub scatter: Scatter,
    /// Seed of layouts and job streams.
    pub seed: u64,
    /// True if existing contents of `data` may be overwritten.
    pub force: bool,
    /// True if the run also returns the conditions of each outcome for a prediction.
    pub predict: bool,
    /// File of a [`Profile`](super::Profile) to predict with. With `None`, the profile is measured
    /// first.
    pub machine: Option<PathBuf>,
}

impl BenchOptions {
    /// Returns the options of the default bench over the data file or block device `data`.
    pub fn new(data: PathBuf) -> BenchOptions {
        BenchOptions {
            workloads: Kind::ASTRIFLASH.map(Kind::name).to_vec(),
            modes: Mode::USUAL.to_vec(),
            data,
            device_path: None,
            device: Flash::Data,
            dataset_bytes: 2 << 30,
            graph: None,
            trace: None,
            trace_format: None,
            dram: Dram::Share(0.03),
            cores: 1,
            miss_interval_us: 10.0,
            rounds: 5,
            seconds: 0.4,
            arrivals: Arrivals::Closed,
            loads: vec![0.1, 0.3, 0.5, 0.7, 0.8, 0.9],
            tuning: Tuning::default(),
            theta: 0.99,
            durability: None,
            scatter: Scatter::Pages,
            seed: 1,
            force: false,
            predict: false,
            machine: None,
        }
    }

    /// Returns the techniques tried beyond the engine's defaults, as options of the command; empty
    /// without any.
    pub fn tries(&self) -> String {
        let (usual, own) = (Tuning::default(), &self.tuning);
        let tried = [
            (own.prefetch != usual.prefetch).then(|| format!("--prefetch {}", own.prefetch)),
            (own.admission != usual.admission).then(|| format!("--admission {}", own.admission)),
            (own.hints != usual.hints).then(|| "--hints off".to_string()),
        ];
        tried.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// Returns the DRAM budget in bytes.
    pub fn dram_bytes(&self) -> u64 {
        match self.dram {
            Dram::Share(share) => (self.dataset_bytes as f64 * share) as u64,
            Dram::Bytes(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_the_data_or_memory_with_a_latency() {
        assert_eq!("ram:50us".parse(), Ok(Flash::Ram(Span::from_us(50))));
        assert_eq!("data".parse(), Ok(Flash::Data));
        for flash in [Flash::Data, Flash::Ram(Span::from_us(1500))] {
            assert_eq!(flash.to_string().parse(), Ok(flash));
        }
        for text in ["ram", "ram:", "ram:0", "ram:2s", "file", ""] {
            let error = text.parse::<Flash>().unwrap_err();
            assert!(error.contains("ram:50us"), "{error}");
        }
    }

    #[test]
    fn dram_is_a_share_or_a_size() {
        assert_eq!("3%".parse(), Ok(Dram::Share(0.03)));
        assert_eq!("64MiB".parse(), Ok(Dram::Bytes(64 << 20)));
        for text in ["0%", "101%", "x%", "x"] {
            assert!(text.parse::<Dram>().is_err(), "{text}");
        }
    }
}
