//! Options of a server, and errors that end it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ebbtide_core::durability::Policy;
use ebbtide_core::{Span, counted};
use ebbtide_engine::EngineError;
use ebbtide_engine::device::path::DevicePath;
use ebbtide_engine::store::StoreError;
use rustls::ClientConfig;
use thiserror::Error;

use crate::events::Classes;
use crate::eviction::EvictionPolicy;
use crate::following::Master;
use crate::log::Log;

/// The capacity in bytes of a new store.
pub const CAPACITY_BYTES: u64 = 4 << 30;

/// Files of a server's certificate and key.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate and its chain, in PEM.
    pub certificate: PathBuf,
    /// The private key, in PEM.
    pub key: PathBuf,
}

/// The file of a cluster, and the node that the server is.
#[derive(Debug, Clone)]
pub struct ClusterFile {
    /// The file. [`cluster::read`](crate::cluster::read) has its form.
    pub path: PathBuf,
    /// Name of the node.
    pub node: String,
}

/// Options of a server.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// File or block device of the store.
    pub data: PathBuf,
    /// The I/O path to the drive; `None` takes the default for `data`.
    pub device_path: Option<DevicePath>,
    /// Bytes for keys, values and the index.
    /// `None` keeps the capacity of an existing store and gives a new one [`CAPACITY_BYTES`]. A
    /// store in a file grows to a larger capacity.
    pub capacity_bytes: Option<u64>,
    /// The keys that a full store gives up.
    pub policy: EvictionPolicy,
    /// The DRAM budget in bytes, buffers and metadata included.
    pub dram_bytes: u64,
    /// The address to listen on.
    pub bind: IpAddr,
    /// The TCP port; 0 lets the kernel choose.
    pub port: u16,
    /// Path of an additional Unix socket.
    pub unix: Option<PathBuf>,
    /// When a change is acknowledged. With [`Policy::None`] the server starts empty, and its data
    /// end with it.
    pub durability: Policy,
    /// The password of the default user.
    pub password: Option<String>,
    /// A file of users. Its default user comes before `password`.
    pub acl_file: Option<PathBuf>,
    /// The most connections at once.
    pub clients_max: usize,
    /// True to listen beyond loopback without a password.
    pub allow_open: bool,
    /// True to overwrite a file that is not a server's store.
    pub force: bool,
    /// Number of cores. Each is a thread.
    pub cores: usize,
    /// CPUs to pin the cores to, one for each. If empty, the kernel decides.
    pub cpus: Vec<usize>,
    /// Address for Prometheus.
    pub metrics: Option<SocketAddr>,
    /// Certificate and key. With them the TCP port speaks TLS; the Unix socket does not.
    pub tls: Option<TlsFiles>,
    /// Seconds after which a silent client is closed; 0 for never.
    pub timeout_s: u64,
    /// Seconds after which the kernel probes a silent client (TCP keepalive); 0 for never.
    pub keepalive_s: u64,
    /// The Redis to follow from the start.
    pub master: Option<Master>,
    /// User and password for the master.
    pub master_user: Option<String>,
    /// See `master_user`.
    pub master_password: Option<String>,
    /// The authorities that a master's certificate must come from. With it, masters speak TLS.
    pub master_tls: Option<Arc<ClientConfig>>,
    /// The cluster that the server is a node of.
    pub cluster: Option<ClusterFile>,
    /// The classes of events of keys that are published.
    pub events: Classes,
    /// Receiver of events while the server runs.
    pub log: Log,
}

/// Default of [`ServeOptions::keepalive_s`], as in Redis.
pub const KEEPALIVE_S: u64 = 300;

impl Default for ServeOptions {
    fn default() -> ServeOptions {
        ServeOptions {
            data: "ebbtide-store".into(),
            device_path: None,
            capacity_bytes: None,
            policy: EvictionPolicy::NoEviction,
            dram_bytes: 256 << 20,
            bind: Ipv4Addr::LOCALHOST.into(),
            port: 6379,
            unix: None,
            durability: Policy::Every(Span::from_us(1_000_000)),
            password: None,
            acl_file: None,
            clients_max: 10_000,
            allow_open: false,
            force: false,
            cores: 1,
            cpus: Vec::new(),
            metrics: None,
            tls: None,
            timeout_s: 0,
            keepalive_s: KEEPALIVE_S,
            master: None,
            master_user: None,
            master_password: None,
            master_tls: None,
            cluster: None,
            events: Classes::default(),
            log: Log::default(),
        }
    }
}

/// Reason why a server does not start or has ended.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum ServeError {
    #[error(
        "--bind {0} can be reached from other machines and there is no password: expected \
         --requirepass, or --allow-open if that is meant"
    )]
    Open(IpAddr),
    #[error("--acl-file {0}")]
    AclFile(String),
    #[error("--cluster-slots {0}")]
    Cluster(String),
    #[error("--replicaof copies the keys of all slots: expected it without --cluster-slots")]
    ClusterFollows,
    #[error("the kernel has no random numbers")]
    Random,
    #[error("--cores {0} is out of range: expected 1 to 256")]
    Cores(usize),
    #[error(
        "--cpu names {} for {}: expected one for each, or none",
        counted(cpus, "CPU"),
        counted(cores, "core")
    )]
    Cpus { cores: usize, cpus: usize },
    #[error("{}: {reason}", path.display())]
    Tls { path: PathBuf, reason: String },
    #[error(
        "--metrics needs a socket of the server without TLS: expected --unix PATH beside --tls-cert"
    )]
    MetricsOverTls,
    #[error("cannot listen on {at}: {source}")]
    Listen { at: String, source: std::io::Error },
    #[error(
        "{}: holds '{tag}'; expected '{expected}', no file, or --force, which empties it",
        path.display()
    )]
    OtherStore { path: PathBuf, tag: String, expected: &'static str },
    #[error(
        "--capacity of {given_bytes} bytes is out of range: expected {least_bytes} to {most_bytes}"
    )]
    Capacity { given_bytes: u64, least_bytes: u64, most_bytes: u64 },
    #[error(
        "--capacity of {given_bytes} bytes: {} has {found_bytes}; nothing shrinks, and only a store in a file grows: \
         expected more than that for a file, or no --capacity",
        path.display()
    )]
    OtherCapacity { path: PathBuf, given_bytes: u64, found_bytes: u64 },
    #[error("--dram: {0}")]
    Dram(EngineError),
    #[error(
        "sockets need io_uring or Linux AIO, and both are refused here; `ebbtide doctor` says how to permit io_uring"
    )]
    NoRing,
    #[error("the keys cannot be opened: {0}")]
    Keyspace(String),
    #[error("not all changes are saved: {0}")]
    Unsaved(String),
    #[error(
        "jobs have not ended within {within:?} of the stop, so their clients have no answer: {jobs}"
    )]
    Stuck { within: Duration, jobs: String },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

impl ServeError {
    /// True if the user's input is wrong.
    pub fn is_input(&self) -> bool {
        match self {
            ServeError::Store(error) => error.is_input(),
            ServeError::Engine(EngineError::NoCpu { .. } | EngineError::LockedMemory { .. }) => {
                true
            }
            ServeError::Engine(_)
            | ServeError::Random
            | ServeError::NoRing
            | ServeError::Keyspace(_)
            | ServeError::Unsaved(_)
            | ServeError::Stuck { .. } => false,
            _ => true,
        }
    }

    /// True if a stop request ended the start, and nothing failed.
    pub(crate) fn is_stop(&self) -> bool {
        match self {
            ServeError::Store(error) | ServeError::Engine(EngineError::Store(error)) => {
                error.is_stop()
            }
            _ => false,
        }
    }
}
