//! The service of a core: connections, their commands as jobs, and upkeep.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use ebbtide_core::durability::Lsn;
use ebbtide_core::{Addr, Memory, PAGE_BYTES, Span, Stop, Time};
use ebbtide_engine::{
    FlashMemory, JobError, NetEvent, Network, Offer, Progress, Service, SocketId, Timing,
};
use ebbtide_structures::keyspace::{HashSecret, Keyspace};
use rustls::ServerConfig;

use crate::client::{Client, REPLY_BYTES_MAX, now_ms};
use crate::command::{forget, leave_all};
use crate::session::{ClientId, Session};
use crate::state::{ClientInfo, Message, State, add};
use crate::tls::{TLS_BYTES, Tls};
use crate::upkeep::Upkeep;

/// Time between two rounds of upkeep.
const UPKEEP_EVERY: Span = Span::from_us(100_000);

/// What misses cost is looked at once in so many rounds of upkeep: every second.
const ROUNDS_PER_SAMPLE: u64 = 10;

/// Time after which a failed accept is tried again, such as when descriptors are short.
const ACCEPT_AGAIN_AFTER: Span = Span::from_us(100_000);

/// A connection may always hold this; beyond, all share what is left of the budget.
const BUFFERS_EACH: usize = 96 << 10;

/// What the kernel may hold of all sockets' bytes, whatever clients do, while there are not too many for its least.
const SOCKETS_BYTES: usize = 16 << 20;

/// The most bytes that the kernel buffers of a socket each way.
pub(crate) const SOCKET_BYTES_MAX: usize = 64 << 10;

/// What the kernel takes for a byte each way.
const PER_SOCKET_BYTE: usize = 4;

/// The listener of TCP: it is the first.
const TCP: u32 = 0;

/// What a job of a core does.
pub(crate) enum Job {
    /// Makes or opens the keyspace.
    Open,
    /// Runs a client's requests.
    Requests { index: usize, client: Box<Client> },
    /// A round of upkeep.
    Upkeep,
}

/// A connection, by the number of its socket.
struct Connection {
    socket: SocketId,
    id: ClientId,
    /// Its TLS, if the socket speaks that.
    tls: Option<Box<Tls>>,
    /// Its requests and replies, unless a job has them.
    client: Option<Box<Client>>,
    receiving: bool,
    /// Bytes of the send under way.
    sending: Option<usize>,
    /// An empty buffer for replies.
    spare: Vec<u8>,
    /// Messages that came while a job had the client.
    messages: Vec<Message>,
    /// Whether it waits for a job.
    queued: bool,
    /// The client has closed its side, or the connection has failed.
    ended: bool,
    /// It is closed without another reply.
    killed: bool,
    /// What it is counted for in the bytes of all buffers.
    counted: usize,
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

    fn accepted(&self, listener: u32, socket: SocketId) {
        let settings = self.state.settings.borrow();
        let statistics = &self.state.statistics;
        let id = self.next_id.replace(self.next_id.get() + 1);
        add(&statistics.connections, 1);
        let authenticated = settings.password.is_none();
        let mut client = Box::new(Client::new(Session { id, authenticated, ..Session::default() }));
        if statistics.clients.get() >= settings.clients_max as u64 {
            add(&statistics.rejected, 1);
            client.reply.error("ERR max number of clients reached");
            client.session.closing = true;
        }
        drop(settings);
        add(&statistics.clients, 1);
        let tls = self.tls.as_ref().filter(|_| listener == TCP);
        let tls = tls.map(Tls::new).transpose();
        let mut connections = self.connections.borrow_mut();
        let index = socket.index();
        if connections.len() <= index {
            connections.resize_with(index + 1, || None);
        }
        connections[index] = Some(Connection {
            socket,
            id,
            killed: tls.is_err(),
            tls: tls.ok().flatten().map(Box::new),
            client: Some(client),
            receiving: false,
            sending: None,
            spare: Vec::new(),
            messages: Vec::new(),
            queued: false,
            ended: false,
            counted: 0,
        });
        drop(connections);
        self.by_id.borrow_mut().insert(id, index);
        self.limit_sockets(socket);
        let info = ClientInfo { since_ms: now_ms(), command: "NULL", ..ClientInfo::default() };
        self.state.clients.borrow_mut().insert(id, info);
        self.advance(index);
    }

    /// Sees to it that the kernel's buffers of all sockets stay within [`SOCKETS_BYTES`]: those of the one that
    /// was just accepted, and of all each time that they have doubled.
    fn limit_sockets(&self, accepted: SocketId) {
        let network = self.network();
        let clients = self.state.statistics.clients.get().max(1) as usize;
        let bytes = SOCKETS_BYTES / PER_SOCKET_BYTE / clients.next_power_of_two();
        let bytes = bytes.min(SOCKET_BYTES_MAX) as u32;
        network.limit_buffers(accepted, bytes);
        let fewest = SOCKETS_BYTES / PER_SOCKET_BYTE / SOCKET_BYTES_MAX;
        if clients > fewest && (clients - 1).is_power_of_two() {
            for connection in self.connections.borrow().iter().flatten() {
                network.limit_buffers(connection.socket, bytes);
            }
        }
    }

    /// Changes the connection of a socket, if it is open, and does what follows.
    fn with(&self, socket: SocketId, change: impl FnOnce(&mut Connection)) {
        let index = socket.index();
        let mut connections = self.connections.borrow_mut();
        let connection = connections.get_mut(index).and_then(Option::as_mut);
        if let Some(connection) = connection.filter(|connection| connection.socket == socket) {
            change(connection);
            drop(connections);
            self.advance(index);
        }
    }

    /// Does what can be done for a connection now: sends, runs, receives or closes.
    fn advance(&self, index: usize) {
        let mut connections = self.connections.borrow_mut();
        let Some(connection) = connections.get_mut(index).and_then(Option::as_mut) else { return };
        let network = self.network();
        let stopping = self.is_stopping();
        self.count(connection);
        let Some(client) = &mut connection.client else { return };
        for message in connection.messages.drain(..) {
            client.deliver(&message);
        }
        let may_reply = connection.tls.as_ref().is_none_or(|tls| tls.is_ready());
        if self.waits(client) && !connection.killed && may_reply {
            self.held.borrow_mut().insert(index);
            return;
        }
        if connection.sending.is_none() && !connection.killed {
            let mut bytes = match client.reply.ready() {
                1.. if may_reply => client.reply.take(std::mem::take(&mut connection.spare)),
                _ => Vec::new(),
            };
            if let Some(tls) = &mut connection.tls {
                bytes = tls.encrypt(&bytes);
                if client.session.closing && client.reply.is_empty() {
                    bytes.append(&mut tls.end());
                }
            }
            if !bytes.is_empty() {
                add(&self.state.statistics.output_bytes, bytes.len() as u64);
                connection.sending = Some(bytes.len());
                network.send(connection.socket, bytes);
            }
        }
        let quiet = connection.sending.is_none() && !client.reply.has_large();
        let over = client.session.closing || connection.ended && !client.has_more();
        if connection.killed || over && quiet {
            let closed = connections[index].take().expect("it is there");
            drop(connections);
            self.closed(closed);
            return;
        }
        let on_flash = client.reply.has_large();
        if client.session.closing && !on_flash || connection.queued {
            return;
        }
        let unsent = connection.sending.unwrap_or(0) + client.reply.len();
        if on_flash && client.reply.ready() == 0 {
            connection.queued = true;
            self.ready.borrow_mut().push_back(index);
        } else if on_flash || unsent >= REPLY_BYTES_MAX {
            // It is read again once it has taken some.
        } else if client.has_more() {
            connection.queued = true;
            self.ready.borrow_mut().push_back(index);
        } else if !connection.receiving && !connection.ended && !stopping {
            connection.receiving = true;
            network.receive(connection.socket);
        }
    }

    /// Counts the bytes of a connection's buffers. One that grows when nothing is left is closed.
    fn count(&self, connection: &mut Connection) {
        let Some(client) = &connection.client else { return };
        let messages: usize = connection.messages.iter().map(|m| m.text.len() + 64).sum();
        let bytes = client.buffered()
            + connection.spare.capacity()
            + connection.sending.unwrap_or(0)
            + connection.tls.as_ref().map_or(0, |_| TLS_BYTES)
            + messages;
        let all = self.buffered.get() - connection.counted + bytes;
        if bytes > BUFFERS_EACH && bytes > connection.counted && all > self.buffers_max {
            add(&self.state.statistics.rejected, 1);
            connection.killed = true;
        }
        self.buffered.set(all);
        self.state.statistics.buffers.set(all as u64);
        connection.counted = bytes;
    }

    /// Sends the replies that what is durable by now allows.
    fn release(&self) {
        if self.held.borrow().is_empty() && self.state.saving.get().is_none() {
            return;
        }
        let Some(progress) = (self.progress)() else { return };
        let ended = progress.ended.map(|error| error.to_string());
        let news = progress.acknowledged > self.acknowledged.get()
            || progress.durable > self.durable.get();
        self.acknowledged.set(progress.acknowledged);
        self.durable.set(progress.durable);
        // What a save waits for may have been durable before it was asked for.
        if self.state.saving.get().is_some_and(|lsn| lsn <= progress.durable) {
            self.state.saving.set(None);
            self.state.saved_ms.set(now_ms());
        }
        if !news && ended.is_none() {
            return;
        }
        let held = std::mem::take(&mut *self.held.borrow_mut());
        for index in held {
            if let Some(reason) = &ended {
                self.give_up(index, reason);
            }
            self.advance(index);
        }
    }

    /// Fails the replies of a connection that wait for what will never be durable.
    fn give_up(&self, index: usize, reason: &str) {
        let mut connections = self.connections.borrow_mut();
        let connection = connections.get_mut(index).and_then(Option::as_mut);
        let client = connection.and_then(|connection| connection.client.as_mut());
        if let Some(client) = client.filter(|client| self.waits(client)) {
            client.fail_all(reason);
            client.session.written = Lsn::ZERO;
            client.session.saved = Lsn::ZERO;
        }
    }

    /// Whether a client's replies have to wait for the log.
    fn waits(&self, client: &Client) -> bool {
        let session = &client.session;
        session.written > self.acknowledged.get() || session.saved > self.durable.get()
    }

    /// Forgets a connection, and closes its socket.
    fn closed(&self, connection: Connection) {
        self.network().close(connection.socket);
        self.buffered.set(self.buffered.get() - connection.counted);
        self.by_id.borrow_mut().remove(&connection.id);
        self.state.clients.borrow_mut().remove(&connection.id);
        let clients = &self.state.statistics.clients;
        clients.set(clients.get() - 1);
        if let Some(mut client) = connection.client {
            forget(&self.state, &mut client.session);
            leave_all(&self.state, &mut client.session);
        }
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

    fn with_id(&self, id: ClientId, change: impl FnOnce(&mut Connection)) {
        let Some(index) = self.by_id.borrow().get(&id).copied() else { return };
        if let Some(connection) = &mut self.connections.borrow_mut()[index] {
            change(connection);
        }
        self.advance(index);
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
