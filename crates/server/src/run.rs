//! [`serve`]: opens the store and the sockets, and runs the server until it is stopped.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ebbtide_core::durability::Policy;
use ebbtide_core::{PAGE_BYTES, Stop, Watch};
use ebbtide_engine::store::{Access, NewStore, Store, StoreError};
use ebbtide_engine::{Budget, Engine, EngineError, Larger, Network, Options};
use ebbtide_structures::keyspace::{HashSecret, PAGES_MIN};
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::acl::Acl;
use crate::acl_file;
use crate::clock::now_ms;
use crate::cluster::{self, Cluster};
use crate::command::catalogue;
use crate::eviction::table_bytes;
use crate::follower::Follower;
use crate::log;
use crate::metrics::{Asked, Metrics, Way};
use crate::options::{CAPACITY_BYTES, ServeError, ServeOptions};
use crate::secret;
use crate::service::{CoreService, Setup};
use crate::shared::{Settings, Shared};
use crate::state::State;
use crate::storage::Storage;
use crate::supervisor::{self, JOBS_END_WITHIN, Supervisor};
use crate::tls;

/// The tag of a server's store.
pub const STORE_TAG: &str = "keys of ebbtide serve";

/// The tag of a store without durability. Its contents do not outlive the server.
const TAG_GONE: &str = "keys of ebbtide serve, gone after it ended";

/// Size of a store's log: a share of the capacity, within these bytes.
const LOG_SHARE: u64 = 16;
const LOG_BYTES: std::ops::RangeInclusive<u64> = 16 << 20..=1 << 30;

/// Maximum number of pages of a store. Page numbers have 32 bits, and spare places need some of
/// them.
const PAGES_MAX: u64 = 1 << 31;

/// Minimum number of spare places. A large store has a quarter of its pages.
const SPARE_PAGES_MIN: u64 = 1024;

/// The fewest frames of a core. A transaction stores to at most an eighth of all frames. One that
/// puts a member into a sorted set may split three pages at each of three levels of two trees.
const FRAMES_PER_CORE_MIN: usize = 8 * (3 * 3 * 2 + 2);

/// The most cores.
const CORES_MAX: usize = 256;

/// The longest argument of a command in bytes. A small budget lowers it.
const ARGUMENT_BYTES_MAX: u64 = 64 << 20;

/// Minimum bytes for the buffers of a core's connections.
const BUFFERS_BYTES_MIN: u64 = 2 << 20;

/// The same with TLS, enough for about 100 connections of 40 KiB.
const TLS_BUFFERS_BYTES_MIN: u64 = 4 << 20;

/// Stack bytes of a command: twice the 9.5 KiB that the deepest command of the server's tests uses.
/// With a small budget the engine's default would leave room for a few threads only.
const STACK_BYTES: usize = 20 << 10;

/// Connections that wait to be accepted. Beyond that the kernel makes clients retry after a
/// second.
const BACKLOG: i32 = 1024;

/// Hexadecimal digits of the password of the server's own connections.
const SECRET_DIGITS: usize = 64;

/// Open files that are not connections.
const DESCRIPTORS_BESIDE: u64 = 64;

/// Facts about a server that has started.
#[derive(Debug, Clone)]
pub struct Started {
    /// Address of the TCP port.
    pub address: SocketAddr,
    /// Bytes for keys, values and the index.
    pub capacity_bytes: u64,
    /// For a durable store: transactions recovered from the log, and damaged pages.
    pub recovered: Option<(u64, usize)>,
    /// Time to open the store.
    pub opening: Duration,
    /// Address for Prometheus.
    pub metrics: Option<SocketAddr>,
    /// Limits of this machine that the user should know, one sentence each.
    pub notices: Vec<String>,
}

/// Serves until `stop`, or until a client sends `SHUTDOWN`. Calls `started` once it answers. A stop
/// request during recovery or growth ends it before that, and leaves the store as it was.
///
/// # Errors
/// Returns an error if it cannot start, or the store fails.
#[expect(clippy::too_many_lines, reason = "the start and the end of a server, in order")]
pub fn serve(
    options: &ServeOptions,
    stop: &'static Stop,
    started: impl Fn(&Started) + Send + Sync,
) -> Result<(), ServeError> {
    let (acl, secret_of_metrics) = users(options)?;
    check(options, &acl)?;
    let cluster = cluster_of(options)?;
    let tls = options.tls.as_ref().map(tls::load).transpose()?;
    let least = if tls.is_some() { TLS_BUFFERS_BYTES_MIN } else { BUFFERS_BYTES_MIN };
    let buffers_bytes = (options.dram_bytes / 8 / options.cores as u64).max(least);
    let (address, listeners) = patiently(|| listen(options))?;
    let metrics = match options.metrics {
        Some(at) => Some(Metrics::listen(at, options, acl.open_default().is_some())?),
        None => None,
    };
    let way = Way::to(options, address);
    if metrics.is_some() && way.is_none() {
        return Err(ServeError::MetricsOverTls);
    }
    let opening = Instant::now();
    let (engine, capacity_bytes) = match open(options, buffers_bytes, stop) {
        Err(error) if error.is_stop() => return Ok(()),
        opened => opened?,
    };
    let engine = Arc::new(engine);
    let settings =
        Settings { cluster, ..settings(options, address.port(), capacity_bytes, buffers_bytes) };
    let seed = u64::from(std::process::id()) ^ now_ms() << 20;
    let secret = hash_secret(seed);
    let recovered = engine.recovered().map(|found| (found.transactions, found.poisoned.len()));
    let mut notices = engine.notices().to_vec();
    notices.extend(descriptors(options.clients_max));
    let told = Started {
        address,
        capacity_bytes,
        recovered,
        opening: opening.elapsed(),
        metrics: metrics.as_ref().map(Metrics::address),
        notices,
    };
    let listeners = Mutex::new(Some(listeners));
    let over = Stop::new();
    let storage = Storage::new(engine.clone(), capacity_bytes);
    let (journal, teller) = log::start(&options.log);
    let shared = Arc::new(Shared::new(settings, acl, storage, journal, now_ms()));
    shared.following.follow(options.master.clone());
    let always = options.durability == Policy::Always;
    let (tell, news) = channel();
    let make = {
        let (shared, log, tell) = (shared.clone(), engine.clone(), tell.clone());
        let send = Mutex::new(Some(tell));
        move |core| {
            let log = log.clone();
            let state = State::new(shared.clone(), core, now_ms());
            let send = send.lock().ok().filter(|_| core == 0).and_then(|mut send| send.take());
            let listeners = listeners.lock().ok().filter(|_| core == 0);
            CoreService::new(Setup {
                state: Rc::new(state),
                stop,
                listeners: listeners.and_then(|mut l| l.take()).unwrap_or_default(),
                buffers_max: buffers_bytes as usize,
                tls: tls.clone(),
                secret,
                progress: Box::new(move || {
                    if always {
                        log.flush_soon();
                    }
                    log.progress()
                }),
                // Sending fails if the server has already given up its jobs.
                ready: Box::new(move || {
                    if let Some(send) = &send {
                        let _ = send.send(());
                    }
                }),
            })
        }
    };
    let cores = {
        let engine = engine.clone();
        let run = move || {
            // After this drop the supervisor knows that the cores have ended.
            let _runs = tell;
            engine.run(make, drop).map(drop)
        };
        std::thread::Builder::new().name("ebbtide-cores".into()).spawn(run)
    };
    let doing = "start the thread of the cores";
    let cores = cores.map_err(|source| EngineError::Io { doing, source })?;
    let follower = Follower {
        shared: &shared,
        over: &over,
        user: options.master_user.clone(),
        password: options.master_password.clone(),
        tls: options.master_tls.clone(),
        sockets: parking_lot::Mutex::default(),
    };
    let watched = std::thread::scope(|scope| {
        let answers = metrics.as_ref().zip(way).map(|(metrics, way)| {
            let (over, secret) = (&over, secret_of_metrics);
            let asked = Arc::new(Asked { way, secret, shared: Arc::downgrade(&shared) });
            scope.spawn(move || metrics.answer(&asked, over))
        });
        scope.spawn(|| follower.run());
        let stops = || stop.is_stopped() || shared.is_shut_down();
        let watched = Supervisor::new(&engine, &shared, &stops).watch(&news, || started(&told));
        over.stop();
        follower.end();
        if let (Some(metrics), Some(_)) = (&metrics, answers) {
            metrics.rouse();
        }
        watched
    });
    let ended = watched.and_then(|()| {
        cores.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))?;
        Ok(checkpoint(&engine)?)
    });
    teller.end();
    if let Some(path) = &options.unix {
        // It may be gone already.
        let _ = std::fs::remove_file(path);
    }
    ended?;
    if let Some(failure) = shared.failure.get() {
        return Err(ServeError::Keyspace(failure.clone()));
    }
    unsaved(&engine).map_or(Ok(()), |reason| Err(ServeError::Unsaved(reason)))
}

/// Returns the reason if some changes do not survive the end of the server.
fn unsaved(engine: &Engine) -> Option<String> {
    supervisor::flush(engine);
    let progress = engine.progress()?;
    let unsaved = progress.durable < progress.committed;
    let refused = progress.refused.filter(|_| unsaved).map(|error| error.to_string());
    let ended = progress.ended.map(|error| error.to_string());
    let slow = unsaved.then(|| "the device does not take them".to_string());
    ended.or(refused).or(slow)
}

/// Writes a checkpoint, so that the next start needs no recovery. No client is connected.
fn checkpoint(engine: &Arc<Engine>) -> Result<(), EngineError> {
    let jobs = engine.start()?;
    // If it fails, the log still holds all acknowledged changes.
    let _ = jobs.checkpoint_within(JOBS_END_WITHIN);
    jobs.stop()
}

/// The kernel closes the sockets of a killed server a moment after the process ends. A new server
/// waits this long for its address. Opening the store waits for its lock separately.
const PREDECESSOR_ENDS: Duration = Duration::from_secs(5);

/// Repeats `what` while its address is in use, at most [`PREDECESSOR_ENDS`].
fn patiently<T>(what: impl Fn() -> Result<T, ServeError>) -> Result<T, ServeError> {
    let since = Instant::now();
    loop {
        let outcome = what();
        let taken = matches!(&outcome, Err(ServeError::Listen { source, .. })
            if source.kind() == std::io::ErrorKind::AddrInUse);
        if !taken || since.elapsed() >= PREDECESSOR_ENDS {
            return outcome;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns the users at the start, and the password of the server's own connections.
fn users(options: &ServeOptions) -> Result<(Acl, String), ServeError> {
    let secret = secret::digits(SECRET_DIGITS).ok_or(ServeError::Random)?;
    let password = options.password.as_ref().map(String::as_bytes);
    let acl = Acl::new(catalogue(), password, secret.as_bytes());
    if let Some(path) = &options.acl_file {
        let text = acl_file::read(path).map_err(ServeError::AclFile)?;
        acl.load(&text, &path.display().to_string()).map_err(ServeError::AclFile)?;
    }
    Ok((acl, secret))
}

/// Returns the cluster that the server is a node of.
fn cluster_of(options: &ServeOptions) -> Result<Option<Arc<Cluster>>, ServeError> {
    let Some(file) = &options.cluster else { return Ok(None) };
    if options.master.is_some() {
        return Err(ServeError::ClusterFollows);
    }
    let cluster = cluster::read(&file.path, &file.node).map_err(ServeError::Cluster)?;
    Ok(Some(Arc::new(cluster)))
}

fn check(options: &ServeOptions, acl: &Acl) -> Result<(), ServeError> {
    let is_open = acl.open_default().is_some();
    if !options.bind.is_loopback() && is_open && !options.allow_open {
        return Err(ServeError::Open(options.bind));
    }
    if !(1..=CORES_MAX).contains(&options.cores) {
        return Err(ServeError::Cores(options.cores));
    }
    if !options.cpus.is_empty() && options.cpus.len() != options.cores {
        return Err(ServeError::Cpus { cores: options.cores, cpus: options.cpus.len() });
    }
    let (least_bytes, most_bytes) = (PAGES_MIN * PAGE_BYTES as u64, PAGES_MAX * PAGE_BYTES as u64);
    let given_bytes = options.capacity_bytes.unwrap_or(CAPACITY_BYTES);
    if !(least_bytes..=most_bytes).contains(&given_bytes) {
        return Err(ServeError::Capacity { given_bytes, least_bytes, most_bytes });
    }
    Ok(())
}

/// Raises the limit of open files to its maximum. Returns a notice if that is too low for
/// `clients_max`.
fn descriptors(clients_max: usize) -> Option<String> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, the limit stays as it is.
    let _ = setrlimit(Resource::Nofile, limit);
    let most = getrlimit(Resource::Nofile).current?;
    let needed = clients_max as u64 + DESCRIPTORS_BESIDE;
    (most < needed).then(|| {
        format!(
            "--maxclients {clients_max} needs {needed} open files, and {most} are permitted: \
             raise the limit (ulimit -n, LimitNOFILE), or connections beyond it wait"
        )
    })
}

fn settings(
    options: &ServeOptions,
    port: u16,
    capacity_bytes: u64,
    buffers_bytes: u64,
) -> Settings {
    Settings {
        cores: options.cores,
        acl_file: options.acl_file.clone(),
        clients_max: options.clients_max,
        argument_bytes_max: (buffers_bytes / 2).min(ARGUMENT_BYTES_MAX) as usize,
        dram_bytes: options.dram_bytes,
        capacity_bytes,
        policy: options.policy,
        uses_bytes: table_bytes(options.policy, capacity_bytes, options.dram_bytes),
        port,
        durability: options.durability.to_string(),
        data: options.data.display().to_string(),
        timeout_s: options.timeout_s,
        keepalive_s: options.keepalive_s,
        events: options.events,
        has_tls: options.tls.is_some(),
        cluster: None,
    }
}

/// Opens the listening sockets, TCP first. Returns the address of the TCP port too.
fn listen(options: &ServeOptions) -> Result<(SocketAddr, Vec<OwnedFd>), ServeError> {
    let at = SocketAddr::new(options.bind, options.port);
    let failed = |at: String| move |source| ServeError::Listen { at, source };
    let tcp = TcpListener::bind(at).map_err(failed(at.to_string()))?;
    // Limits what the kernel receives before a client is accepted.
    set_socket_recv_buffer_size(&tcp, Network::SOCKET_BYTES)
        .map_err(|error| failed(at.to_string())(error.into()))?;
    // The standard library sets a short queue.
    rustix::net::listen(&tcp, BACKLOG).map_err(|error| failed(at.to_string())(error.into()))?;
    let address = tcp.local_addr().map_err(failed(at.to_string()))?;
    let mut listeners = vec![OwnedFd::from(tcp)];
    if let Some(path) = &options.unix {
        remove_stale(path);
        let unix = UnixListener::bind(path).map_err(failed(path.display().to_string()))?;
        listeners.push(unix.into());
    }
    Ok((address, listeners))
}

/// Removes a Unix socket that refuses connections because its server is gone.
fn remove_stale(path: &Path) {
    let refused = std::os::unix::net::UnixStream::connect(path)
        .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused);
    if refused {
        // If this fails, binding the path fails too.
        let _ = std::fs::remove_file(path);
    }
}

/// Opens the store, or creates it if it is missing or not durable. Returns its engine and its
/// capacity in bytes.
fn open(
    options: &ServeOptions,
    buffers_bytes: u64,
    stop: &Stop,
) -> Result<(Engine, u64), ServeError> {
    let watch = Watch::new(&|_, _| (), stop);
    let keeps = options.durability != Policy::None;
    let (found, other) = look(options, if keeps { STORE_TAG } else { TAG_GONE })?;
    let given = options.capacity_bytes.map(|bytes| bytes / PAGE_BYTES as u64 * PAGE_BYTES as u64);
    let kept = found.filter(|_| keeps);
    let capacity_bytes = given.or(kept).unwrap_or(CAPACITY_BYTES);
    let pages = capacity_bytes / PAGE_BYTES as u64;
    let beside = (buffers_bytes + Network::BUFFERS_BYTES as u64) * options.cores as u64
        + table_bytes(options.policy, capacity_bytes, options.dram_bytes);
    let dram_bytes = options.dram_bytes.saturating_sub(beside);
    let mut engine = Options::new(dram_bytes as usize);
    engine.cores = options.cores;
    engine.cpus.clone_from(&options.cpus);
    engine.durability = Some(options.durability);
    engine.device_path = options.device_path;
    engine.stack_bytes = STACK_BYTES;
    let failed = |error| match error {
        EngineError::BudgetTooSmall { needed_bytes, pages, cores, .. } => {
            let (given_bytes, needed_bytes) =
                (options.dram_bytes as usize, needed_bytes + beside as usize);
            ServeError::Dram(EngineError::BudgetTooSmall {
                given_bytes,
                needed_bytes,
                pages,
                cores,
            })
        }
        other => ServeError::Engine(other),
    };
    let new = NewStore {
        path: options.data.clone(),
        offset: 0,
        pages,
        spare_pages: spare_pages(pages),
        tag: if keeps { STORE_TAG } else { TAG_GONE }.into(),
        force: options.force || other,
    };
    let log_bytes = match keeps {
        true => (capacity_bytes / LOG_SHARE).clamp(*LOG_BYTES.start(), *LOG_BYTES.end()),
        false => 0,
    };
    let frames_min = FRAMES_PER_CORE_MIN * options.cores;
    Budget::of_new(&engine, &new, log_bytes, frames_min).map_err(failed)?;
    if let Some(found_bytes) = kept {
        grow(&options.data, (found_bytes, capacity_bytes), watch)?;
    }
    let store = match (keeps, found) {
        (true, Some(_)) => Store::open(&options.data, 0, Access::Exclusive)?,
        (true, None) => Store::create_persistent(&new, log_bytes)?,
        (false, _) => Store::create_blank(&new)?,
    };
    let store = Arc::new(store);
    let engine = Engine::open_watched(&store, &engine, watch).inspect_err(|_| store.discard_new());
    let engine = engine.map_err(failed)?;
    if !engine.has_network() {
        store.discard_new();
        return Err(ServeError::NoRing);
    }
    Ok((engine, capacity_bytes))
}

/// Spare places for a store of `pages` pages. Changed pages are written to them.
fn spare_pages(pages: u64) -> u64 {
    (pages / 4).max(SPARE_PAGES_MIN)
}

/// Grows a store to a larger capacity. A store never shrinks, and one on a raw drive does not
/// grow.
fn grow(
    path: &Path,
    (found_bytes, given_bytes): (u64, u64),
    watch: Watch<'_>,
) -> Result<(), ServeError> {
    if given_bytes == found_bytes {
        return Ok(());
    }
    if given_bytes < found_bytes || !path.is_file() {
        let path = path.to_path_buf();
        return Err(ServeError::OtherCapacity { path, given_bytes, found_bytes });
    }
    let pages = given_bytes / PAGE_BYTES as u64;
    let larger = Larger { pages, spare_pages: spare_pages(pages), gap: None };
    Ok(Store::grow(path, larger, watch)?)
}

/// Returns the capacity of the existing store if its tag is `expected`. The second result is true
/// if another store is there and may be overwritten.
fn look(options: &ServeOptions, expected: &'static str) -> Result<(Option<u64>, bool), ServeError> {
    if !options.data.exists() {
        return Ok((None, false));
    }
    match Store::open(&options.data, 0, Access::SharedReadOnly) {
        Ok(store) if store.header().tag == expected => {
            Ok((Some(store.header().pages * PAGE_BYTES as u64), false))
        }
        Ok(_) if options.force => Ok((None, true)),
        Ok(store) => {
            let (path, tag) = (options.data.clone(), store.header().tag);
            Err(ServeError::OtherStore { path, tag, expected })
        }
        Err(error @ (StoreError::InUse(_) | StoreError::HasEngine(_))) => Err(error.into()),
        // Creating the store reports any other error.
        Err(_) => Ok((None, false)),
    }
}

/// Returns a hash secret that clients cannot guess: from the kernel, or else from `seed`.
fn hash_secret(seed: u64) -> HashSecret {
    let mut bytes = [0; 16];
    let read = std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes));
    let [low, high] = [0, 8].map(|at| {
        let word = bytes[at..at + 8].try_into().expect("eight bytes");
        u64::from_ne_bytes(word)
    });
    match read {
        Ok(()) => HashSecret([low, high]),
        Err(_) => HashSecret([seed, ebbtide_structures::hash::mix(seed)]),
    }
}
