//! `ebbtide load`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use ebbtide_core::Bytes;
use ebbtide_core::durability::Policy;
use ebbtide_measure::load::against::{self, AgainstOptions};
use ebbtide_measure::load::{self, Kind, LoadError, LoadOptions, Server};

use crate::exit::Failure;
use crate::output::Output;
use crate::{names, numbers, progress};

/// Options that a comparison chooses itself or does not use.
const ALONE: [&str; 9] = [
    "server",
    "password",
    "tls",
    "no_fill",
    "writes",
    "deletes",
    "pipeline",
    "survive",
    "check_all",
];

/// Server to compare with.
#[derive(Clone, Copy, ValueEnum)]
enum Against {
    /// `redis-server`
    Redis,
}

#[derive(Args)]
pub(crate) struct Arguments {
    /// Compare Ebbtide's server with a stock Redis that has all data in DRAM. Starts both on this
    /// machine, fills both, and measures them in turns. Takes about two minutes and 2 GiB of disk,
    /// in the current folder
    #[arg(long, value_name = "SERVER", conflicts_with_all = ALONE)]
    against: Option<Against>,
    /// Rounds of a comparison
    #[arg(long, default_value = "3", requires = "against")]
    rounds: usize,
    /// DRAM of Ebbtide's server in a comparison [default: a twentieth of the data, and at least 8
    /// MiB]
    #[arg(long, value_name = "SIZE", requires = "against")]
    dram: Option<Bytes>,
    /// Durability of Ebbtide's server in a comparison. Redis keeps nothing; with always it flushes
    /// a log as often
    #[arg(long, default_value = "every:1s", requires = "against")]
    durability: Policy,
    /// The `redis-server` of a comparison
    #[arg(long, value_name = "PROGRAM", default_value = "redis-server", requires = "against")]
    redis: PathBuf,
    /// The server: an address with a port, or the path of a Unix socket
    #[arg(long, value_name = "SERVER", default_value = "127.0.0.1:6379")]
    server: Server,
    /// Password of the server
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,
    /// Speak TLS, and trust the certificates in this PEM file
    #[arg(long, value_name = "FILE")]
    tls: Option<PathBuf>,
    /// Type of the values: string (GET, SET), hash (HGET, HSET), set (SISMEMBER, SADD), sorted-set
    /// (ZRANGEBYSCORE, ZADD), list (BRPOP, LPUSH) or script (GET, EVALSHA). A script is a counter
    /// that limits a rate. A range has at most ten members
    #[arg(
        long = "type",
        value_name = "TYPE",
        default_value_t = Kind::default(),
        value_parser = names::of::<Kind>(Kind::ALL.map(Kind::name)),
        hide_possible_values = true
    )]
    kind: Kind,
    /// Fields, members or places of a collection [default: 10 for a hash, else 100]
    #[arg(long)]
    elements: Option<usize>,
    /// Keys, or elements of collections; all are written first [default: 100000; 2000000 in a
    /// comparison]
    #[arg(long, value_parser = numbers::at_least_one)]
    keys: Option<u64>,
    /// Do not write all keys first
    #[arg(long)]
    no_fill: bool,
    /// Bytes of a value: a size, or a range such as 100..4KiB
    #[arg(long, value_name = "SIZE", default_value = "230", value_parser = value_bytes)]
    value: (usize, usize),
    /// Skew of the keys' popularity (Zipf); 0 is uniform
    #[arg(long, value_parser = numbers::number, default_value = "0.99")]
    zipf: f64,
    /// Share of commands that write
    #[arg(long, value_parser = numbers::number, default_value = "0.1")]
    writes: f64,
    /// Share of writes that delete
    #[arg(long, value_parser = numbers::number, default_value = "0")]
    deletes: f64,
    /// Connections
    #[arg(long, default_value = "50")]
    clients: usize,
    /// Commands that a connection sends together before it waits for replies
    #[arg(long, default_value = "1")]
    pipeline: usize,
    /// Commands a second that arrive at random times, independently of replies. Response times
    /// count from the intended arrival. A comparison then compares response times, and probes the
    /// disk
    #[arg(long, value_parser = numbers::number)]
    rate: Option<f64>,
    /// Seconds before the measurement [default: 2; 1 in a comparison]
    #[arg(long, value_parser = numbers::number)]
    warm_up: Option<f64>,
    /// Seconds to measure [default: 10; 2 in a comparison]
    #[arg(long, value_parser = numbers::number)]
    seconds: Option<f64>,
    /// If the server goes away, wait this many seconds for it to answer again, then check every
    /// acknowledged write
    #[arg(long, value_name = "SECONDS", value_parser = numbers::number)]
    survive: Option<f64>,
    /// Read and check every key at the end
    #[arg(long)]
    check_all: bool,
    /// Also read a page of this file, such as the server's store, each millisecond. Prints how long
    /// these reads take: the disk's own latency
    #[arg(long, value_name = "FILE", conflicts_with = "against")]
    probe: Option<PathBuf>,
    /// Seed of keys and arrivals
    #[arg(long, default_value = "1")]
    seed: u64,
    #[command(flatten)]
    output: Output,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    arguments.output.check()?;
    let compares = arguments.against.is_some();
    let (keys, warm_up, duration) =
        if compares { (2_000_000, 1.0, 2.0) } else { (100_000, 2.0, 10.0) };
    let options = LoadOptions {
        server: arguments.server,
        password: arguments.password,
        trust: arguments.tls,
        kind: arguments.kind,
        keys: arguments.keys.unwrap_or(keys) as usize,
        elements: arguments.elements,
        fill: !arguments.no_fill,
        value_bytes: arguments.value,
        zipf: arguments.zipf,
        writes: arguments.writes,
        deletes: arguments.deletes,
        clients: arguments.clients,
        pipeline: arguments.pipeline,
        rate: arguments.rate,
        warm_up: seconds("--warm-up", arguments.warm_up.unwrap_or(warm_up))?,
        duration: seconds("--seconds", arguments.seconds.unwrap_or(duration))?,
        survive: arguments.survive.map(|time| seconds("--survive", time)).transpose()?,
        check_all: arguments.check_all,
        probe: arguments.probe,
        seed: arguments.seed,
    };
    let failed = |error: LoadError| {
        Failure::of(
            matches!(
                error,
                LoadError::Option { .. } | LoadError::Trust { .. } | LoadError::Probe { .. }
            ),
            error,
        )
    };
    if let Some(Against::Redis) = arguments.against {
        let options = AgainstOptions {
            load: options,
            rounds: arguments.rounds,
            dram_bytes: arguments.dram.map(|bytes| bytes.0),
            durability: arguments.durability,
            ebbtide: std::env::current_exe()?,
            redis: arguments.redis,
            folder: ".".into(),
        };
        let report = progress::watched(|watch| against::run(&options, watch))?.map_err(failed)?;
        arguments.output.finish(&report)?;
        return if report.is_right() { Ok(()) } else { Err(Failure::silent(1)) };
    }
    let report = progress::watched(|watch| load::run(&options, watch))?.map_err(failed)?;
    arguments.output.finish(&report)?;
    if report.is_right() { Ok(()) } else { Err(Failure::silent(1)) }
}

fn seconds(option: &str, given: f64) -> Result<Duration, Failure> {
    if (0.0..=1e6).contains(&given) {
        return Ok(Duration::from_secs_f64(given));
    }
    Err(Failure::input(format!("{option} {given}: expected 0 to 1000000 seconds")))
}

/// `230`, `4KiB` or `100..4KiB`.
fn value_bytes(text: &str) -> Result<(usize, usize), String> {
    let size = |text: &str| -> Result<usize, String> {
        Ok(text.parse::<Bytes>().map_err(|error| error.to_string())?.0 as usize)
    };
    match text.split_once("..") {
        Some((least, most)) => Ok((size(least)?, size(most)?)),
        None => size(text).map(|bytes| (bytes, bytes)),
    }
}
