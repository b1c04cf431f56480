//! The service of a core: connections, jobs that run their commands, and upkeep.

mod connection;
mod durable;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use ebbtide_core::durability::Lsn;
use ebbtide_core::{Addr, Memory, PAGE_BYTES, Span, Stop, Time};
use ebbtide_engine::{FlashMemory, JobError, NetEvent, Network, Offer, Progress, Service, Timing};
use ebbtide_structures::keyspace::{DATABASES, HashSecret, Keyspace};
use rustls::ServerConfig;

use crate::client::Client;
use crate::client_id::ClientId;
use crate::shared::Note;
use crate::state::State;
use crate::upkeep::Upkeep;
use connection::{Arriving, Connection, FOLLOWER};

/// Time between two samples of the costs of commands and misses.
const SAMPLE_EVERY: Span = Span::from_us(1_000_000);

/// Delay before a failed accept is tried again. It may fail for lack of descriptors.
const ACCEPT_AGAIN_AFTER: Span = Span::from_us(100_000);

/// A job of a core.
pub(crate) enum Job {
    /// Creates or opens the keyspace.
    Open,
    /// Runs a client's requests.
    Requests { index: usize, client: Box<Client> },
    /// Runs a turn of upkeep.
    Upkeep,
}

/// The service of one core.
pub(crate) struct CoreService {
    pub(crate) state: Rc<State>,
    stop: &'static Stop,
    listeners: RefCell<Vec<OwnedFd>>,
    network: RefCell<Option<Network>>,
    connections: RefCell<Vec<Option<Connection>>>,
    by_id: RefCell<BTreeMap<ClientId, usize>>,
    ready: RefCell<VecDeque<usize>>,
    /// The number of the next connection. Used on the first core.
    next_id: Cell<ClientId>,
    /// Connections whose sockets are being opened, in order.
    arriving: RefCell<VecDeque<Arriving>>,
    buffered: Cell<usize>,
    buffers_max: usize,
    /// TLS configuration of the TCP listener.
    tls: Option<Arc<ServerConfig>>,
    opened: Cell<bool>,
    upkeep: Upkeep,
    upkeep_at: Cell<Time>,
    upkeep_runs: Cell<bool>,
    accept_again: RefCell<Vec<(Time, u32)>>,
    now: Cell<Time>,
    secret: HashSecret,
    ready_tell: Box<dyn Fn()>,
    progress: Box<dyn Fn() -> Option<Progress>>,
    /// Connections whose replies wait until their changes are durable.
    held: RefCell<BTreeSet<usize>>,
    /// Last place in the log that is known to be acknowledged.
    acknowledged: Cell<Lsn>,
    /// Last place in the log that is known to be durable.
    durable: Cell<Lsn>,
    /// Time of the next sample of costs.
    sample_at: Cell<Time>,
    /// Time of the next division of the kernel's memory among sockets.
    balance_at: Cell<Time>,
    /// True while connections close because all together hold too much.
    shedding: Cell<bool>,
    /// Time of the next check for idle connections.
    idle_at: Cell<Time>,
    /// When waiting commands must end, in milliseconds since the Unix epoch, and their clients.
    deadlines: RefCell<BTreeSet<(u64, ClientId)>>,
}

/// Parts of a [`CoreService`].
pub(crate) struct Setup {
    pub(crate) state: Rc<State>,
    pub(crate) stop: &'static Stop,
    pub(crate) listeners: Vec<OwnedFd>,
    pub(crate) buffers_max: usize,
    /// TLS configuration of the first listener; `None` for plain TCP.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) secret: HashSecret,
    /// Called once the keyspace is open.
    pub(crate) ready: Box<dyn Fn()>,
    /// Begins a flush if the policy is `always`. Returns how far the log is.
    pub(crate) progress: Box<dyn Fn() -> Option<Progress>>,
}

impl CoreService {
    pub(crate) fn new(setup: Setup) -> CoreService {
        let Setup { state, stop, listeners, buffers_max, tls, secret, ready, progress } = setup;
        CoreService {
            state,
            stop,
            listeners: RefCell::new(listeners),
            network: RefCell::default(),
            connections: RefCell::default(),
            by_id: RefCell::default(),
            ready: RefCell::default(),
            next_id: Cell::new(1),
            arriving: RefCell::default(),
            buffered: Cell::new(0),
            buffers_max,
            tls,
            opened: Cell::new(false),
            upkeep: Upkeep::default(),
            upkeep_at: Cell::new(Time::ZERO),
            upkeep_runs: Cell::new(false),
            accept_again: RefCell::default(),
            now: Cell::new(Time::ZERO),
            secret,
            ready_tell: ready,
            progress,
            held: RefCell::default(),
            acknowledged: Cell::new(Lsn::ZERO),
            durable: Cell::new(Lsn::ZERO),
            sample_at: Cell::new(Time::ZERO),
            balance_at: Cell::new(Time::ZERO),
            shedding: Cell::new(false),
            idle_at: Cell::new(Time::ZERO),
            deadlines: RefCell::default(),
        }
    }

    /// True on the first core, which opens the store, listens, and does the upkeep.
    fn is_first(&self) -> bool {
        self.state.core == 0
    }

    fn is_stopping(&self) -> bool {
        self.stop.is_stopped() || self.state.shared.is_shut_down()
    }

    fn network(&self) -> Network {
        self.network.borrow().clone().expect("attached before anything else")
    }

    /// Handles the notes to this core.
    fn take_notes(&self) {
        while let Some(note) = self.state.shared.told(self.state.core) {
            match note {
                Note::Connection { listener, socket, id, refused } => {
                    self.open_socket(listener, socket, id, refused);
                }
                Note::Follower(socket) => self.accepted(FOLLOWER, socket),
                Note::Message(id, message) => {
                    self.with_id(id, |connection| connection.messages.push(message));
                }
                Note::Wake(id) => self.with_id(id, |connection| connection.woken = true),
                Note::Unblock { id, fails } => {
                    self.with_id(id, |connection| connection.unblocked = Some(fails));
                }
                Note::Channels(id) => {
                    self.with_id(id, |connection| connection.checks_channels = true);
                }
                Note::Kill(id) => self.with_id(id, |connection| connection.killed = true),
            }
        }
    }

    /// Opens the keyspace, or creates one if the memory is blank. Other contents are never
    /// overwritten.
    fn open(&self, memory: &mut FlashMemory<'_>) {
        let pages = (memory.size_bytes() / PAGE_BYTES as u64).min(1 << 32);
        let keyspace = if memory.load::<u64>(Addr(0)) == 0 {
            let made =
                memory.transaction(|memory| Keyspace::format(memory, Addr(0), pages, self.secret));
            made.map(|(keyspace, _)| keyspace).map_err(|error| error.to_string())
        } else {
            Keyspace::open(memory, Addr(0)).map_err(|error| error.to_string()).and_then(|found| {
                let updated = memory.transaction(|memory| found.updated(memory, pages));
                updated.map(|(keyspace, _)| keyspace).map_err(|error| error.to_string())
            })
        };
        match keyspace {
            Ok(keyspace) => {
                self.warn_of_unreachable(memory, &keyspace);
                self.state.shared.open(keyspace);
            }
            Err(error) => self.state.shared.fail(error),
        }
    }

    /// Tells the operator of a cluster's node about keys outside of database 0, the only one that
    /// clients of a cluster have.
    fn warn_of_unreachable(&self, memory: &mut FlashMemory<'_>, keyspace: &Keyspace) {
        if self.state.settings().cluster.is_none() {
            return;
        }
        let keys: u64 = (1..DATABASES).map(|number| keyspace.counts(memory, number).keys).sum();
        if keys > 0 {
            let text = format!(
                "{keys} keys are in databases 1 to {}, which a node of a cluster does not serve: start without \
                 --cluster-slots and move them to database 0 (MOVE KEY 0)",
                DATABASES - 1
            );
            self.state.journal().tell("databases", text);
        }
    }

    /// Returns the next job.
    fn next_job(&self, now: Time) -> Option<Job> {
        if self.is_first() && !self.opened.replace(true) {
            return Some(Job::Open);
        }
        self.state.keys()?;
        // Upkeep comes first, so that it gets its share even if connections are always ready.
        if self.is_first() && now >= self.upkeep_at.get() && !self.upkeep_runs.replace(true) {
            return Some(Job::Upkeep);
        }
        while let Some(index) = self.ready.borrow_mut().pop_front() {
            let mut connections = self.connections.borrow_mut();
            let Some(connection) = connections.get_mut(index).and_then(Option::as_mut) else {
                continue;
            };
            connection.queued = false;
            if let Some(client) = connection.client.take() {
                return Some(Job::Requests { index, client });
            }
        }
        None
    }

    fn accept_again(&self, now: Time) {
        let mut again = self.accept_again.borrow_mut();
        let network = self.network();
        again.retain(|(at, listener)| {
            let due = now >= *at;
            if due {
                network.accept(*listener);
            }
            !due
        });
    }
}

impl Service for CoreService {
    type Job = Job;

    fn attach(&self, network: &Network) {
        *self.network.borrow_mut() = Some(network.clone());
        for listener in self.listeners.borrow_mut().drain(..) {
            network.accept(network.listen(listener));
        }
    }

    fn network(&self, event: NetEvent) {
        match event {
            NetEvent::Accepted { listener, socket: Ok(socket) } => {
                self.network().accept(listener);
                self.accepted(listener, socket);
                self.take_notes();
            }
            NetEvent::Opened { listener, socket } => self.opened(listener, socket),
            NetEvent::Accepted { listener, socket: Err(_) } => {
                let at = self.now.get() + ACCEPT_AGAIN_AFTER;
                self.accept_again.borrow_mut().push((at, listener));
            }
            NetEvent::Received { socket, bytes } => self.with(socket, |connection| {
                connection.receiving = false;
                connection.active = self.now.get();
                match bytes {
                    Ok(bytes) if !bytes.is_empty() => {
                        self.state.statistics().input_bytes.add(bytes.len() as u64);
                        match connection.tls.as_mut().map(|tls| tls.receive(&bytes)) {
                            None => connection.take(&bytes),
                            Some(Ok(said)) => connection.take(&said),
                            // The client gets an alert, and the connection closes.
                            Some(Err(_)) => connection.refuse(),
                        }
                    }
                    _ => connection.ended = true,
                }
            }),
            NetEvent::Sent { socket, buffer, result } => self.with(socket, |connection| {
                connection.sending = None;
                connection.active = self.now.get();
                if buffer.capacity() <= 4 << 10 {
                    connection.spare = buffer;
                }
                connection.killed |= result.is_err();
            }),
            NetEvent::Stalled { socket } => self.stalled(socket),
        }
    }

    fn next(&self, now: Time) -> Offer<Job> {
        self.now.set(now);
        self.accept_again(now);
        self.take_notes();
        self.release();
        self.balance(now);
        self.close_idle(now);
        self.wake_due();
        if self.is_stopping() || self.state.shared.failure.get().is_some() {
            return Offer::End;
        }
        match self.next_job(now) {
            Some(job) => Offer::Job(job),
            None => Offer::Empty,
        }
    }

    fn run(&self, job: &mut Job, memory: &mut FlashMemory<'_>) {
        match job {
            Job::Open => self.open(memory),
            Job::Requests { client, .. } => {
                memory.label_job(client.session.id);
                client.run(memory, &self.state);
            }
            Job::Upkeep => {
                let pause = self.upkeep.run(memory, &self.state);
                let now = self.now.get();
                self.upkeep_at.set(now + Span::from_us(pause.as_micros() as u64));
                if now >= self.sample_at.get() {
                    self.sample_at.set(now + SAMPLE_EVERY);
                    let shared = &self.state.shared;
                    shared.storage.sample(shared.count_commands());
                }
            }
        }
    }

    fn done(&self, job: Job, result: Result<(), JobError>, _timing: Timing) {
        match (job, result) {
            (Job::Open, Ok(())) if self.state.keys().is_none() => {}
            (Job::Open, Ok(())) => (self.ready_tell)(),
            (Job::Open, Err(error)) => self.state.shared.fail(error.to_string()),
            (Job::Requests { index, mut client }, result) => {
                if let Err(error) = result {
                    client.fail(&error.into());
                }
                if let Some(connection) = &mut self.connections.borrow_mut()[index] {
                    connection.client = Some(client);
                }
                self.advance(index);
                self.take_notes();
            }
            // A failed turn of upkeep is tried again at its next time.
            (Job::Upkeep, _) => self.upkeep_runs.set(false),
        }
    }

    fn has_more(&self) -> bool {
        !self.ready.borrow().is_empty()
            || self.state.shared.was_told(self.state.core)
            || self.is_stopping()
    }
}
