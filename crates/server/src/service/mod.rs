//! The service of a core: connections, their commands as jobs, and upkeep.

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
use ebbtide_structures::keyspace::{HashSecret, Keyspace};
use rustls::ServerConfig;

use crate::client::Client;
use crate::session::ClientId;
use crate::state::{State, add};
use crate::upkeep::Upkeep;
use connection::Connection;
pub(crate) use connection::SOCKET_BYTES_MAX;

/// Time between two rounds of upkeep.
const UPKEEP_EVERY: Span = Span::from_us(100_000);

/// What misses cost is looked at once in so many rounds of upkeep: every second.
const ROUNDS_PER_SAMPLE: u64 = 10;

/// Time after which a failed accept is tried again, such as when descriptors are short.
const ACCEPT_AGAIN_AFTER: Span = Span::from_us(100_000);

/// What a job of a core does.
pub(crate) enum Job {
    /// Makes or opens the keyspace.
    Open,
    /// Runs a client's requests.
    Requests { index: usize, client: Box<Client> },
    /// A round of upkeep.
    Upkeep,
}

/// The service of one core.
pub(crate) struct Front {
    pub(crate) state: Rc<State>,
    stop: &'static Stop,
    listeners: RefCell<Vec<OwnedFd>>,
    network: RefCell<Option<Network>>,
    connections: RefCell<Vec<Option<Connection>>>,
    by_id: RefCell<BTreeMap<ClientId, usize>>,
    ready: RefCell<VecDeque<usize>>,
    next_id: Cell<ClientId>,
    buffered: Cell<usize>,
    buffers_max: usize,
    /// What connections over TCP speak TLS with.
    tls: Option<Arc<ServerConfig>>,
    opened: Cell<bool>,
    failed: RefCell<Option<String>>,
    upkeep: Upkeep,
    upkeep_at: Cell<Time>,
    upkeep_runs: Cell<bool>,
    accept_again: RefCell<Vec<(Time, u32)>>,
    /// Jobs under way, by number, and the number of the next.
    running: RefCell<BTreeSet<u64>>,
    jobs: Cell<u64>,
    now: Cell<Time>,
    secret: HashSecret,
    ready_tell: Box<dyn Fn()>,
    progress: Box<dyn Fn() -> Option<Progress>>,
    /// Connections whose replies wait until what they tell of is durable.
    held: RefCell<BTreeSet<usize>>,
    /// Changes up to here are known to be acknowledged.
    acknowledged: Cell<Lsn>,
    /// Changes up to here are known to survive a crash.
    durable: Cell<Lsn>,
    /// Rounds of upkeep so far.
    rounds: Cell<u64>,
}

/// How a [`Front`] is set up.
pub(crate) struct Setup {
    pub(crate) state: Rc<State>,
    pub(crate) stop: &'static Stop,
    pub(crate) listeners: Vec<OwnedFd>,
    pub(crate) buffers_max: usize,
    /// With it connections over TCP, the first of the listeners, speak TLS.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    pub(crate) secret: HashSecret,
    /// Called once the keyspace is open.
    pub(crate) ready: Box<dyn Fn()>,
    /// Asks for a flush of what is committed, and tells how far the log is.
    pub(crate) progress: Box<dyn Fn() -> Option<Progress>>,
}

impl Front {
    pub(crate) fn new(setup: Setup) -> Front {
        let Setup { state, stop, listeners, buffers_max, tls, secret, ready, progress } = setup;
        Front {
            state,
            stop,
            listeners: RefCell::new(listeners),
            network: RefCell::default(),
            connections: RefCell::default(),
            by_id: RefCell::default(),
            ready: RefCell::default(),
            next_id: Cell::new(1),
            buffered: Cell::new(0),
            buffers_max,
            tls,
            opened: Cell::new(false),
            failed: RefCell::default(),
            upkeep: Upkeep::default(),
            upkeep_at: Cell::new(Time::ZERO),
            upkeep_runs: Cell::new(false),
            accept_again: RefCell::default(),
            running: RefCell::default(),
            jobs: Cell::new(0),
            now: Cell::new(Time::ZERO),
            secret,
            ready_tell: ready,
            progress,
            held: RefCell::default(),
            acknowledged: Cell::new(Lsn::ZERO),
            durable: Cell::new(Lsn::ZERO),
            rounds: Cell::new(0),
        }
    }

    /// Why the keyspace could not be opened, if so.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failed.borrow().clone()
    }

    fn is_stopping(&self) -> bool {
        self.stop.is_stopped() || self.state.shutdown.get()
    }

    fn network(&self) -> Network {
        self.network.borrow().clone().expect("attached before anything else")
    }

    /// Hands out messages to subscribers, and closes connections that clients want closed.
    fn deliver(&self) {
        let messages = std::mem::take(&mut *self.state.messages.borrow_mut());
        let kills = std::mem::take(&mut *self.state.kills.borrow_mut());
        for (id, message) in messages {
            self.with_id(id, |connection| connection.messages.push(message));
        }
        for id in kills {
            self.with_id(id, |connection| connection.killed = true);
        }
    }

    /// Opens the keyspace in memory, or makes one in all of a blank memory. What is not blank is never
    /// overwritten.
    fn open(&self, memory: &mut FlashMemory<'_>) {
        let pages = (memory.size_bytes() / PAGE_BYTES as u64).min(1 << 32);
        let keyspace = if memory.load::<u64>(Addr(0)) == 0 {
            let made =
                memory.transaction(|memory| Keyspace::format(memory, Addr(0), pages, self.secret));
            made.map(|(keyspace, _)| keyspace).map_err(|error| error.to_string())
        } else {
            Keyspace::open(memory, Addr(0)).map_err(|error| error.to_string())
        };
        match keyspace {
            Ok(keyspace) => self.state.keys.set(Some(keyspace)),
            Err(error) => *self.failed.borrow_mut() = Some(error),
        }
    }

    /// The next job, if there is one.
    fn next_job(&self, now: Time) -> Option<Job> {
        if !self.opened.get() {
            self.opened.set(true);
            return Some(Job::Open);
        }
        self.state.keys.get()?;
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
        if now >= self.upkeep_at.get() && !self.upkeep_runs.get() {
            self.upkeep_at.set(now + UPKEEP_EVERY);
            self.upkeep_runs.set(true);
            return Some(Job::Upkeep);
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

impl Service for Front {
    type Job = (u64, Job);

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
            }
            NetEvent::Accepted { listener, socket: Err(_) } => {
                let at = self.now.get() + ACCEPT_AGAIN_AFTER;
                self.accept_again.borrow_mut().push((at, listener));
            }
            NetEvent::Received { socket, bytes } => self.with(socket, |connection| {
                connection.receiving = false;
                match (bytes, &mut connection.client) {
                    (Ok(bytes), Some(client)) if !bytes.is_empty() => {
                        add(&self.state.statistics.input_bytes, bytes.len() as u64);
                        match connection.tls.as_mut().map(|tls| tls.receive(&bytes)) {
                            None => client.receive(&bytes),
                            Some(Ok(said)) if said.is_empty() => {}
                            Some(Ok(said)) => client.receive(&said),
                            // It is told so, and closed.
                            Some(Err(_)) => client.session.closing = true,
                        }
                    }
                    _ => connection.ended = true,
                }
            }),
            NetEvent::Sent { socket, buffer, result } => self.with(socket, |connection| {
                connection.sending = None;
                if buffer.capacity() <= 4 << 10 {
                    connection.spare = buffer;
                }
                connection.killed |= result.is_err();
            }),
        }
    }

    fn next(&self, now: Time) -> Offer<(u64, Job)> {
        self.now.set(now);
        self.accept_again(now);
        self.release();
        if self.is_stopping() || self.failed.borrow().is_some() {
            return Offer::End;
        }
        match self.next_job(now) {
            Some(job) => {
                let number = self.jobs.replace(self.jobs.get() + 1);
                self.running.borrow_mut().insert(number);
                Offer::Job((number, job))
            }
            None => Offer::Empty,
        }
    }

    fn run(&self, (_, job): &mut (u64, Job), memory: &mut FlashMemory<'_>) {
        match job {
            Job::Open => self.open(memory),
            Job::Requests { client, .. } => client.run(memory, &self.state),
            Job::Upkeep => {
                let oldest = self.running.borrow().first().copied();
                self.upkeep.run(memory, &self.state, oldest.unwrap_or(0), self.jobs.get());
                if self.rounds.replace(self.rounds.get() + 1).is_multiple_of(ROUNDS_PER_SAMPLE) {
                    self.state.storage.borrow().sample(&self.state.statistics);
                }
            }
        }
    }

    fn done(&self, (number, job): (u64, Job), result: Result<(), JobError>, _timing: Timing) {
        self.running.borrow_mut().remove(&number);
        match (job, result) {
            (Job::Open, Ok(())) if self.state.keys.get().is_none() => {}
            (Job::Open, Ok(())) => (self.ready_tell)(),
            (Job::Open, Err(error)) => *self.failed.borrow_mut() = Some(error.to_string()),
            (Job::Requests { index, mut client }, result) => {
                if let Err(error) = result {
                    client.fail(&error.to_string());
                }
                if let Some(connection) = &mut self.connections.borrow_mut()[index] {
                    connection.client = Some(client);
                }
                self.advance(index);
                self.deliver();
            }
            // Upkeep is tried again at its next time.
            (Job::Upkeep, _) => self.upkeep_runs.set(false),
        }
    }

    fn has_more(&self) -> bool {
        !self.ready.borrow().is_empty() || self.is_stopping()
    }
}
