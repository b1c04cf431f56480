//! Options of a load, and the reasons why it may not run.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ebbtide_core::Stopped;
use ebbtide_workloads::SKEWS;
use serde::{Serialize, Serializer};
use thiserror::Error;

use super::kind::Kind;
use super::ledger::VALUE_BYTES_MIN;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Server {
    /// `host:port`.
    Tcp(String),
    /// The path of a Unix socket, which contains a `/`.
    Unix(PathBuf),
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Server, String> {
        if text.contains('/') {
            Ok(Server::Unix(text.into()))
        } else if text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
            Ok(Server::Tcp(text.to_string()))
        } else {
            Err(format!("'{text}' is no server; expected 127.0.0.1:6379 or the path of a socket"))
        }
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Server::Tcp(address) => f.write_str(address),
            Server::Unix(path) => path.display().fmt(f),
        }
    }
}

impl Serialize for Server {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Options of a load.
#[derive(Debug, Clone, Serialize)]
pub struct LoadOptions {
    /// The server.
    pub server: Server,
    /// The password for `AUTH`. Reports leave it out.
    #[serde(skip)]
    pub password: Option<String>,
    /// PEM file of certificate authorities. With it, the load speaks TLS over TCP and trusts only
    /// servers with a certificate from them.
    pub trust: Option<PathBuf>,
    /// The type of the values.
    pub kind: Kind,
    /// Number of keys, from 1 to 2³⁰; of fields, members or places if the type is a collection.
    pub keys: usize,
    /// Elements of a collection, at least 1. With `None`, [`Kind::elements`]. It is not used for
    /// strings and counters.
    pub elements: Option<usize>,
    /// True if all keys are written before the load.
    pub fill: bool,
    /// The least and the most bytes of a value, from 16 to 512 MiB.
    pub value_bytes: (usize, usize),
    /// The skew of Zipf's distribution of keys, from 0 (uniform) to 10.
    pub zipf: f64,
    /// The share of commands that write, from 0 to 1. The others read.
    pub writes: f64,
    /// The share of writes that delete, from 0 to 1.
    pub deletes: f64,
    /// Number of connections, from 1 to 60,000.
    pub clients: usize,
    /// Commands that a connection sends together, from 1 to 10,000. It waits for all replies before
    /// it sends more. Not used with a `rate`.
    pub pipeline: usize,
    /// Commands per second that arrive at random times, independently of replies. With `None`, each
    /// connection sends its next commands after the replies.
    pub rate: Option<f64>,
    /// Time of load before the measurement.
    pub warm_up: Duration,
    /// Time of load that is measured.
    pub duration: Duration,
    /// Longest time to wait for a server that has gone away. Once it is back, every key is checked.
    /// With `None`, a broken connection is an error.
    pub survive: Option<Duration>,
    /// True if every key is read and checked at the end.
    pub check_all: bool,
    /// A file on the server's disk, such as its store, that a probe reads while the load is
    /// measured.
    pub probe: Option<PathBuf>,
    /// The seed of keys and arrivals.
    pub seed: u64,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            server: Server::Tcp("127.0.0.1:6379".into()),
            password: None,
            trust: None,
            kind: Kind::String,
            keys: 100_000,
            elements: None,
            fill: true,
            value_bytes: (230, 230),
            zipf: 0.99,
            writes: 0.1,
            deletes: 0.0,
            clients: 50,
            pipeline: 1,
            rate: None,
            warm_up: Duration::from_secs(2),
            duration: Duration::from_secs(10),
            survive: None,
            check_all: false,
            probe: None,
            seed: 1,
        }
    }
}

/// An error that ends a load.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum LoadError {
    #[error("{option}: {given}, expected {expected}")]
    Option { option: &'static str, given: String, expected: &'static str },
    #[error("cannot connect to {server}: {source}")]
    Connect { server: Server, source: std::io::Error },
    #[error("{}: {reason}", path.display())]
    Trust { path: PathBuf, reason: String },
    #[error("{}: {reason}", path.display())]
    Probe { path: PathBuf, reason: String },
    #[error("the connection to {server} broke: {reason}")]
    Broken { server: Server, reason: String },
    #[error("{server} refused the password: {reply}")]
    Password { server: Server, reply: String },
    #[error("cannot start {}: {source}; {hint}", program.display())]
    Start { program: PathBuf, source: std::io::Error, hint: &'static str },
    #[error("{name} did not start: {reason}")]
    Ended { name: &'static str, reason: String },
    #[error("{}: no folder can be made: {source}", folder.display())]
    Folder { folder: PathBuf, source: std::io::Error },
    #[error("{name} does not answer INFO: {reason}")]
    Info { name: &'static str, reason: String },
    #[error("cannot choose CPUs: {0}")]
    Cpus(std::io::Error),
    #[error("cannot wait for sockets: {0}")]
    Wait(std::io::Error),
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl LoadOptions {
    /// Elements of a collection.
    pub(super) fn per_collection(&self) -> usize {
        match self.kind.elements() {
            1 => 1,
            usual => self.elements.unwrap_or(usual),
        }
    }

    pub(super) fn check(&self) -> Result<(), LoadError> {
        let bad =
            |option, given: String, expected| Err(LoadError::Option { option, given, expected });
        let (least, most) = self.value_bytes;
        if !(1..=1 << 30).contains(&self.keys) {
            return bad("--keys", self.keys.to_string(), "1 to 2^30");
        }
        if least < VALUE_BYTES_MIN || least > most || most > 512 << 20 {
            let given = format!("{least} to {most}");
            return bad("--value", given, "at least 16 bytes and at most 512 MiB, the least first");
        }
        if !SKEWS.contains(&self.zipf) {
            return bad("--zipf", self.zipf.to_string(), "0 to 10");
        }
        for (option, share) in [("--writes", self.writes), ("--deletes", self.deletes)] {
            if !(0.0..=1.0).contains(&share) {
                return bad(option, share.to_string(), "0 to 1");
            }
        }
        if self.elements == Some(0) {
            return bad("--elements", "0".to_string(), "at least 1");
        }
        if self.deletes > 0.0 && !self.kind.deletes() {
            let expected = "0 with a list or a script, whose elements cannot be deleted one by one";
            return bad("--deletes", self.deletes.to_string(), expected);
        }
        if (self.check_all || self.survive.is_some()) && !self.kind.shows_versions() {
            let expected = "another type with --check-all or --survive: its reads show no versions";
            return bad("--type", self.kind.to_string(), expected);
        }
        if !(1..=60_000).contains(&self.clients) {
            return bad("--clients", self.clients.to_string(), "1 to 60000");
        }
        if !(1..=10_000).contains(&self.pipeline) {
            return bad("--pipeline", self.pipeline.to_string(), "1 to 10000");
        }
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1e8)) {
            return bad("--rate", format!("{:?}", self.rate), "above 0");
        }
        Ok(())
    }
}
