//! [`serve`]: opens the store and the sockets, and runs the server until it is stopped.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use ebbtide_core::{PAGE_BYTES, Stop};
use ebbtide_engine::store::{Access, NewStore, Store, StoreError};
use ebbtide_engine::{Engine, EngineError, Network, Options, Snapshot};
use ebbtide_structures::keyspace::{HashSecret, PAGES_MIN};

use crate::client::now_ms;
use crate::options::{Durability, ServeError, ServeOptions};
use crate::service::{Front, Setup};
use crate::state::{AnswerAfter, Settings, State};

/// What the tag of a server's store begins with.
const TAG: &str = "ebbtide serve";

/// Pages of a store at most: page numbers have 32 bits, and spare places need some of them.
const PAGES_MAX: u64 = 1 << 31;

/// The longest argument of a command, as a share of the budget and at most.
const ARGUMENT_BYTES_MAX: u64 = 64 << 20;

/// The least budget for the buffers of connections.
const BUFFERS_BYTES_MIN: u64 = 4 << 20;

/// What a server says once it answers.
#[derive(Debug, Clone)]
pub struct Started {
    /// Where it listens.
    pub address: SocketAddr,
    /// Limits of this machine that the user should know of, a sentence each.
    pub notices: Vec<String>,
}

/// Serves until `stop`, or until a client sends `SHUTDOWN`. Calls `started` once it answers.
///
/// # Errors
/// When it cannot start, or the store fails.
pub fn serve(
    options: &ServeOptions,
    stop: &'static Stop,
    started: impl Fn(&Started) + Send + Sync,
) -> Result<(), ServeError> {
    check(options)?;
    let buffers_bytes = (options.dram_bytes / 8).max(BUFFERS_BYTES_MIN);
    let (address, listeners) = listen(options)?;
    let engine = Arc::new(open(options, buffers_bytes)?);
    let settings = settings(options, address.port(), buffers_bytes);
    let seed = u64::from(std::process::id()) ^ now_ms() << 20;
    let secret = secret(seed);
    let told = Started { address, notices: engine.notices().to_vec() };
    let listeners = Mutex::new(Some(listeners));
    let failures = std::thread::scope(|scope| {
        let (told, started, engine, listeners) = (&told, &started, &engine, &listeners);
        let (send, receive) = std::sync::mpsc::channel();
        scope.spawn(move || {
            if receive.recv().is_ok() {
                started(told);
            }
        });
        let send = Mutex::new(Some(send));
        let make = move |_core| {
            let state = State::new(settings.clone(), now_ms());
            let shared = engine.clone();
            *state.engine_info.borrow_mut() = Box::new(move || engine_section(&shared));
            let send = send.lock().ok().and_then(|mut send| send.take());
            Front::new(Setup {
                state: Rc::new(state),
                stop,
                listeners: listeners.lock().ok().and_then(|mut l| l.take()).unwrap_or_default(),
                buffers_max: buffers_bytes as usize,
                secret,
                // Nobody waits when the server has stopped meanwhile.
                ready: Box::new(move || {
                    if let Some(send) = &send {
                        let _ = send.send(());
                    }
                }),
            })
        };
        engine.run(make, |front| front.failure())
    })?;
    if let Some(path) = &options.unix {
        // Gone already is as good.
        let _ = std::fs::remove_file(path);
    }
    match failures.into_iter().flatten().next() {
        Some(failure) => Err(ServeError::Keyspace(failure)),
        None => Ok(()),
    }
}

fn check(options: &ServeOptions) -> Result<(), ServeError> {
    if options.durability != Durability::None {
        return Err(ServeError::NotDurable(options.durability));
    }
    if !options.bind.is_loopback() && options.password.is_none() && !options.allow_open {
        return Err(ServeError::Open(options.bind));
    }
    let (least_bytes, most_bytes) = (PAGES_MIN * PAGE_BYTES as u64, PAGES_MAX * PAGE_BYTES as u64);
    if !(least_bytes..=most_bytes).contains(&options.capacity_bytes) {
        let given_bytes = options.capacity_bytes;
        return Err(ServeError::Capacity { given_bytes, least_bytes, most_bytes });
    }
    Ok(())
}

fn settings(options: &ServeOptions, port: u16, buffers_bytes: u64) -> Settings {
    Settings {
        password: options.password.as_ref().map(|password| password.clone().into_bytes()),
        clients_max: options.clients_max,
        argument_bytes_max: (buffers_bytes / 2).min(ARGUMENT_BYTES_MAX) as usize,
        dram_bytes: options.dram_bytes,
        capacity_bytes: options.capacity_bytes,
        port,
        durability: options.durability.to_string(),
        answer_after: match options.durability {
            Durability::Always => AnswerAfter::Durable,
            Durability::None | Durability::EverySecond => AnswerAfter::Applied,
        },
        data: options.data.display().to_string(),
    }
}

/// The sockets that listen, and the address of TCP.
fn listen(options: &ServeOptions) -> Result<(SocketAddr, Vec<OwnedFd>), ServeError> {
    let at = SocketAddr::new(options.bind, options.port);
    let failed = |at: String| move |source| ServeError::Listen { at, source };
    let tcp = TcpListener::bind(at).map_err(failed(at.to_string()))?;
    let address = tcp.local_addr().map_err(failed(at.to_string()))?;
    let mut listeners = vec![OwnedFd::from(tcp)];
    if let Some(path) = &options.unix {
        remove_stale(path);
        let unix = UnixListener::bind(path).map_err(failed(path.display().to_string()))?;
        listeners.push(unix.into());
    }
    Ok((address, listeners))
}

/// Removes the socket of a server that is gone: nobody answers on it.
fn remove_stale(path: &Path) {
    let refused = std::os::unix::net::UnixStream::connect(path)
        .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused);
    if refused {
        // An error shows when the path is bound.
        let _ = std::fs::remove_file(path);
    }
}

/// The engine over the store, which is made anew.
fn open(options: &ServeOptions, buffers_bytes: u64) -> Result<Engine, ServeError> {
    refuse_other(options)?;
    let pages = options.capacity_bytes / PAGE_BYTES as u64;
    let new = NewStore {
        path: options.data.clone(),
        offset: 0,
        pages,
        spare_pages: pages / 4,
        tag: format!("{TAG}, durability {}", options.durability),
        force: options.force,
    };
    let beside = buffers_bytes + Network::BUFFERS_BYTES as u64;
    let dram_bytes = options.dram_bytes.saturating_sub(beside);
    let mut engine = Options::new(dram_bytes as usize);
    engine.cpus = options.cpu.into_iter().collect();
    let too_small = |needed: usize| ServeError::Dram {
        given_bytes: options.dram_bytes,
        needed_bytes: needed as u64 + beside,
    };
    let failed = |error| match error {
        EngineError::BudgetTooSmall { needed_bytes, .. } => too_small(needed_bytes),
        other => ServeError::Engine(other),
    };
    ebbtide_engine::Budget::divide(&engine, pages).map_err(failed)?;
    let store = Arc::new(Store::create_blank(&new)?);
    let engine = Engine::open(&store, &engine).map_err(failed)?;
    if engine.device_name() != "io_uring" {
        return Err(ServeError::NoRing);
    }
    Ok(engine)
}

/// Refuses a store that is not a server's.
fn refuse_other(options: &ServeOptions) -> Result<(), ServeError> {
    if options.force || !options.data.exists() {
        return Ok(());
    }
    match Store::open(&options.data, 0, Access::SharedReadOnly) {
        Ok(store) if store.header().tag.starts_with(TAG) => Ok(()),
        Ok(store) => {
            let (path, tag) = (options.data.clone(), store.header().tag);
            Err(ServeError::OtherStore { path, tag })
        }
        // Making the store says what to do about anything else.
        Err(StoreError::InUse(path)) => Err(StoreError::InUse(path).into()),
        Err(_) => Ok(()),
    }
}

/// A secret that clients cannot guess, from the kernel if it gives one.
fn secret(seed: u64) -> HashSecret {
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

/// The section of `INFO` on the engine.
fn engine_section(engine: &Engine) -> String {
    let Snapshot { accesses, hits, misses, flash_reads, flash_writes, jobs, .. } =
        engine.counters().snapshot();
    let budget = engine.budget();
    let ratio = misses as f64 / accesses.max(1) as f64;
    format!(
        "device:{}\r\nmemory_accesses:{accesses}\r\nmemory_hits:{hits}\r\nmemory_misses:{misses}\r\n\
         memory_miss_ratio:{ratio:.6}\r\nflash_reads:{flash_reads}\r\nflash_writes:{flash_writes}\r\n\
         jobs:{jobs}\r\ndram_frames_bytes:{}\r\ndram_states_bytes:{}\r\ndram_policy_bytes:{}\r\n\
         dram_cores_bytes:{}\r\n",
        engine.device_name(),
        budget.frames_bytes,
        budget.states_bytes,
        budget.policy_bytes,
        budget.cores_bytes,
    )
}
