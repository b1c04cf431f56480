//! `ebbtide serve`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use ebbtide_core::Bytes;
use ebbtide_core::durability::Policy;
use ebbtide_engine::device::path::{self, DevicePath};
use ebbtide_measure::load::trust;
use ebbtide_server::events::Classes;
use ebbtide_server::following::Master;
use ebbtide_server::log::Log as ServerLog;
use ebbtide_server::{
    ClusterFile, EvictionPolicy, KEEPALIVE_S, ServeOptions, Started, TlsFiles, serve,
};
use serde_json::json;

use crate::exit::{Failure, print, say};
use crate::progress;

#[derive(Args)]
pub(crate) struct Arguments {
    /// File or block device of the keys
    #[arg(long, value_name = "PATH", default_value = "ebbtide-store")]
    data: PathBuf,
    /// Way to the drive: file, block (polled where the drive has polled queues), nvme (passthrough)
    /// or aio. Where io_uring is refused, it is aio [default: by what --data is]
    #[arg(long, value_name = "PATH")]
    device_path: Option<DevicePath>,
    /// Flash for keys, values and the index. A larger value than the file's grows the file
    /// [default: 4GiB for a new file, else the file's]
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,
    /// What a full store gives up: noeviction, or as a cache allkeys-lru, allkeys-lfu,
    /// allkeys-random, volatile-lru, volatile-lfu, volatile-random or volatile-ttl
    #[arg(long, value_name = "POLICY", default_value = "noeviction")]
    maxmemory_policy: EvictionPolicy,
    /// DRAM for everything: cache, index, buffers of connections
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    dram: Bytes,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    bind: IpAddr,
    /// TCP port; 0 selects a free one
    #[arg(long, default_value = "6379")]
    port: u16,
    /// Unix socket to listen on as well
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
    /// When a change is acknowledged: always (once it survives a crash), every:TIME or none (at
    /// once). A crash loses at most TIME. With none, the server always starts empty
    #[arg(long, default_value = "every:1s")]
    durability: Policy,
    /// Password of the default user, which clients must give
    #[arg(long, value_name = "PASSWORD")]
    requirepass: Option<String>,
    /// File of users and their rules, in the form of Redis's ACL files. Its default user comes
    /// before --requirepass
    #[arg(long, value_name = "FILE")]
    acl_file: Option<PathBuf>,
    /// Follow a Redis: copy its keys, then make its changes until REPLICAOF NO ONE. The keys here
    /// are lost
    #[arg(long, num_args = 1..=2, value_names = ["HOST", "PORT"])]
    replicaof: Vec<String>,
    /// Publish events of keys of these classes, by the letters of Redis, such as KEA
    #[arg(long, value_name = "CLASSES", default_value = "", hide_default_value = true, value_parser = classes)]
    notify_keyspace_events: Classes,
    /// User for the Redis that is followed
    #[arg(long, value_name = "USER", requires = "masterauth")]
    masteruser: Option<String>,
    /// Password for the Redis that is followed
    #[arg(long, value_name = "PASSWORD")]
    masterauth: Option<String>,
    /// Speak TLS with the Redis that is followed, and trust the authorities in this PEM file
    #[arg(long, value_name = "FILE")]
    master_tls: Option<PathBuf>,
    /// Be a node of the cluster in this TOML file, which has the address and the slots of each node
    #[arg(long, value_name = "FILE", requires = "cluster_node")]
    cluster_slots: Option<PathBuf>,
    /// Name of this node in the file of the cluster
    #[arg(long, value_name = "NAME", requires = "cluster_slots")]
    cluster_node: Option<String>,
    /// Certificate chain in PEM: the TCP port then speaks TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The most connections at once
    #[arg(long, default_value = "10000")]
    maxclients: usize,
    /// Close a client that sends nothing for this many seconds; 0 for never
    #[arg(long, value_name = "SECONDS", default_value = "0")]
    timeout: u64,
    /// Probe a silent client after this many seconds; 0 for never
    #[arg(long, value_name = "SECONDS", default_value_t = KEEPALIVE_S)]
    tcp_keepalive: u64,
    /// Listen on addresses beyond this machine even without a password
    #[arg(long)]
    allow_open: bool,
    /// Cores to run on; each takes its own part of the DRAM for connections
    #[arg(long, default_value = "1")]
    cores: usize,
    /// CPUs to pin the cores to, one for each
    #[arg(long, value_name = "CPU,...", value_delimiter = ',')]
    cpu: Vec<usize>,
    /// Overwrite a data file with other contents
    #[arg(long)]
    force: bool,
    /// Serve the figures of INFO to Prometheus, as http://ADDRESS/metrics
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<SocketAddr>,
    /// Format of the server's log on standard error: text, or a JSON object a line
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log: Log,
    /// Take options from a TOML file, by their long names; the command line overrides it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Format of the server's log.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Log {
    Text,
    Json,
}

impl Log {
    /// Reports an event: its name, a sentence, and further facts for a program.
    fn tell(self, event: &str, text: &str, facts: serde_json::Value) {
        if self == Log::Text {
            return say(text);
        }
        let at = humantime::format_rfc3339_millis(std::time::SystemTime::now());
        let line = serde_json::json!({
            "time": at.to_string(), "event": event, "message": text, "facts": facts,
        });
        eprintln!("{line}");
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let (data, device_path) = path::resolve(&arguments.data, arguments.device_path);
    let log = arguments.log;
    let options = ServeOptions {
        data,
        device_path,
        capacity_bytes: arguments.capacity.map(|bytes| bytes.0),
        policy: arguments.maxmemory_policy,
        dram_bytes: arguments.dram.0,
        bind: arguments.bind,
        port: arguments.port,
        unix: arguments.unix,
        durability: arguments.durability,
        password: arguments.requirepass,
        acl_file: arguments.acl_file,
        clients_max: arguments.maxclients,
        allow_open: arguments.allow_open,
        force: arguments.force,
        cores: arguments.cores,
        cpus: arguments.cpu,
        metrics: arguments.metrics,
        tls: arguments
            .tls_cert
            .zip(arguments.tls_key)
            .map(|(certificate, key)| TlsFiles { certificate, key }),
        master: master(&arguments.replicaof)?,
        master_user: arguments.masteruser,
        master_password: arguments.masterauth,
        master_tls: arguments
            .master_tls
            .as_deref()
            .map(trust)
            .transpose()
            .map_err(Failure::input)?,
        cluster: arguments
            .cluster_slots
            .zip(arguments.cluster_node)
            .map(|(path, node)| ClusterFile { path, node }),
        timeout_s: arguments.timeout,
        keepalive_s: arguments.tcp_keepalive,
        events: arguments.notify_keyspace_events,
        log: ServerLog::to(move |event| log.tell(event.name, &event.text, json!({}))),
    };
    let stop = progress::on_interrupt()?;
    let told = |started: &Started| tell(&options, started, log);
    let ended = serve(&options, stop, told);
    if log == Log::Json {
        let text =
            ended.as_ref().map_or_else(ToString::to_string, |()| "the server has ended".into());
        log.tell("ended", &text, json!({ "failed": ended.is_err() }));
    }
    ended.map_err(|error| Failure::of(error.is_input(), error))
}

/// Parses letters of classes of events.
fn classes(letters: &str) -> Result<Classes, String> {
    let expected = "expected letters among Ag$lshzxeKEtmdn";
    Classes::parse(letters).ok_or_else(|| expected.to_string())
}

/// Parses `HOST PORT`, in one word or in two.
fn master(words: &[String]) -> Result<Option<Master>, Failure> {
    if words.is_empty() {
        return Ok(None);
    }
    let text = words.join(" ");
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        [host, port] if port.parse::<u16>().is_ok_and(|port| port > 0) => {
            let port = port.parse().unwrap_or_default();
            Ok(Some(Master { host: host.into(), port }))
        }
        _ => Err(Failure::input(format!("--replicaof {text}: expected a host and a port"))),
    }
}

/// Reports the server's address, and its limits.
fn tell(options: &ServeOptions, started: &Started, log: Log) {
    started.notices.iter().for_each(|notice| log.tell("notice", notice, json!({})));
    if options.durability == Policy::None {
        let text = "--durability none keeps nothing: the keys are gone when the server ends";
        log.tell("notice", text, json!({}));
    }
    if let Some((transactions, damaged)) = started.recovered {
        let seconds = started.opening.as_secs_f64();
        let text = format!(
            "recovered {transactions} transactions from the log in {seconds:.1} s, {damaged} damaged pages"
        );
        let facts = json!({
            "transactions": transactions, "seconds": seconds, "damaged_pages": damaged,
        });
        log.tell("recovered", &text, facts);
    }
    let text = format!(
        "ready on {}: {} of flash in {}, {} of DRAM",
        started.address,
        Bytes(started.capacity_bytes),
        options.data.display(),
        Bytes(options.dram_bytes),
    );
    if log == Log::Json {
        let facts = json!({
            "address": started.address.to_string(),
            "metrics": started.metrics.map(|address| address.to_string()),
            "capacity_bytes": started.capacity_bytes,
            "dram_bytes": options.dram_bytes,
            "durability": options.durability.to_string(),
        });
        return log.tell("ready", &text, facts);
    }
    let metrics =
        started.metrics.map_or(String::new(), |at| format!("metrics on http://{at}/metrics\n"));
    // Nobody may be reading.
    let _ = print(&format!("{text}\n{metrics}"));
}
