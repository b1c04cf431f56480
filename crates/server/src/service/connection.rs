//! Connections: accepting them, serving them, limiting their memory, and closing them.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ebbtide_core::{Span, Time};
use ebbtide_engine::SocketId;
use rustix::net::sockopt;

use super::CoreService;
use crate::channels::Message;
use crate::client::{Client, REPLY_BYTES_MAX};
use crate::client_id::ClientId;
use crate::clock::now_ms;
use crate::command::{forget, leave_all, stop_waiting};
use crate::session::Session;
use crate::shared::{ClientInfo, Note};
use crate::statistics::Counter;
use crate::tls::{TLS_BYTES, Tls};

/// Maximum bytes that the kernel holds in each direction for all sockets with large transfers.
/// Every other socket has a few kilobytes in addition.
const SOCKETS_BYTES: usize = 8 << 20;

/// Time between two divisions of that memory among the sockets.
const BALANCE_EVERY: Span = Span::from_us(100_000);

/// TCP keepalive: the time between two probes, and the number of unanswered probes after which the
/// connection ends.
const PROBE_EVERY: Duration = Duration::from_secs(100);
const PROBES: u32 = 3;

/// Time between two checks for idle connections.
const IDLE_EVERY: Span = Span::from_us(1_000_000);

/// Messages for which an empty list keeps its memory.
const KEPT_MESSAGES: usize = 16;

/// The TCP listener, which is the first one.
const TCP: u32 = 0;

/// The number that stands for a listener in connections of the follower.
pub(super) const FOLLOWER: u32 = u32::MAX;

/// Bytes on their way to a client.
#[derive(Clone, Copy)]
pub(super) struct Sending {
    /// Their number.
    pub(super) bytes: usize,
    /// Bytes of DRAM that their buffer holds.
    pub(super) held_bytes: usize,
}

/// A connection. Its index is the number of its socket.
pub(super) struct Connection {
    pub(super) socket: SocketId,
    pub(super) id: ClientId,
    /// TLS state, if the socket speaks TLS.
    pub(super) tls: Option<Box<Tls>>,
    /// Requests and replies. `None` while a job has them.
    pub(super) client: Option<Box<Client>>,
    pub(super) receiving: bool,
    /// The current send.
    pub(super) sending: Option<Sending>,
    /// An empty buffer for replies.
    pub(super) spare: Vec<u8>,
    /// Messages that arrived while a job had the client.
    pub(super) messages: Vec<Message>,
    /// True if it waits for a job.
    pub(super) queued: bool,
    /// Bytes that arrived while a job had the client. A command that waited may have begun to run
    /// again.
    pub(super) early: Vec<u8>,
    /// True if its waiting command must run again.
    pub(super) woken: bool,
    /// True if its user has lost channels, so that it may have to close.
    pub(super) checks_channels: bool,
    /// Set if the waiting of its command must end; true for an error.
    pub(super) unblocked: Option<bool>,
    /// True if the client has closed its side, or the connection has failed.
    pub(super) ended: bool,
    /// True if it must close without another reply.
    pub(super) killed: bool,
    /// When the client last sent bytes or took a reply.
    pub(super) active: Time,
    /// Bytes that the client held when last counted.
    pub(super) client_bytes: usize,
    /// Bytes of this connection in the total of all buffers.
    pub(super) counted: usize,
    /// The byte counts for `CLIENT LIST`.
    pub(super) shown: Arc<[Counter; 3]>,
}

impl Connection {
    /// Takes bytes from the client.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        match &mut self.client {
            _ if bytes.is_empty() => {}
            Some(client) => client.receive(bytes),
            None => self.early.extend_from_slice(bytes),
        }
    }

    /// Hands its client what has come for it, unless a job has the client.
    fn hand_over(&mut self) {
        let Some(client) = &mut self.client else { return };
        if let Some(fails) = self.unblocked.take()
            && client.is_blocked()
        {
            client.session.unblocked = Some(fails);
            self.woken = true;
        }
        self.killed |= std::mem::take(&mut self.checks_channels) && !client.session.may_subscribe();
        for message in self.messages.drain(..) {
            client.deliver(&message);
        }
        self.messages.shrink_to(KEPT_MESSAGES);
        if !self.early.is_empty() {
            client.receive(&std::mem::take(&mut self.early));
        }
    }

    /// Ends the connection after its replies, because its bytes are no TLS.
    pub(super) fn refuse(&mut self) {
        match &mut self.client {
            Some(client) => client.session.closing = true,
            None => self.ended = true,
        }
    }
}

/// A connection whose socket this core is opening.
pub(super) struct Arriving {
    id: ClientId,
    refused: bool,
    info: ClientInfo,
}

/// Returns the socket again, with facts about its connection.
fn look_at(listener: u32, socket: OwnedFd) -> (OwnedFd, ClientInfo) {
    let descriptor = socket.as_raw_fd();
    let name = |address: io::Result<SocketAddr>| address.map_or(String::new(), |at| at.to_string());
    let (socket, addresses) = if listener == TCP {
        let socket = TcpStream::from(socket);
        let addresses = [name(socket.peer_addr()), name(socket.local_addr())];
        (OwnedFd::from(socket), addresses)
    } else {
        let socket = UnixStream::from(socket);
        let path =
            socket.local_addr().ok().and_then(|at| Some(at.as_pathname()?.display().to_string()));
        // As in Redis, the address of a Unix client is the socket's path.
        let path = path.unwrap_or_default() + ":0";
        (OwnedFd::from(socket), [path.clone(), path])
    };
    let now_ms = now_ms();
    let info = ClientInfo {
        addresses,
        descriptor,
        since_ms: now_ms,
        last_ms: now_ms,
        command: "NULL",
        ..ClientInfo::default()
    };
    (socket, info)
}

/// Sets the options of a socket. Options that the kernel refuses stay unchanged.
fn set_up(listener: u32, socket: &OwnedFd, keepalive_s: u64) {
    if listener == TCP && keepalive_s > 0 {
        let _ = sockopt::set_socket_keepalive(socket, true);
        let _ = sockopt::set_tcp_keepidle(socket, Duration::from_secs(keepalive_s));
        let _ = sockopt::set_tcp_keepintvl(socket, PROBE_EVERY);
        let _ = sockopt::set_tcp_keepcnt(socket, PROBES);
    }
}

impl CoreService {
    /// Assigns a new connection to the core with the fewest connections. Runs on the first core.
    pub(super) fn accepted(&self, listener: u32, socket: OwnedFd) {
        let shared = &self.state.shared;
        let id = self.next_id.replace(self.next_id.get() + 1);
        let clients = shared.total(|core| &core.clients);
        let is_full = clients >= self.state.settings().clients_max as u64;
        let refused = is_full && listener != FOLLOWER;
        let statistics = shared.cores.iter().map(|core| &core.statistics).enumerate();
        let fewest = statistics.min_by_key(|(_, statistics)| statistics.clients.get());
        let (core, statistics) = fewest.expect("there are cores");
        statistics.clients.add(1);
        shared.tell(core, Note::Connection { listener, socket, id, refused }, self.state.core);
    }

    /// Opens the socket of a connection on this core.
    pub(super) fn open_socket(&self, listener: u32, socket: OwnedFd, id: ClientId, refused: bool) {
        let keepalive_s = self.state.shared.keepalive_s.load(Ordering::Relaxed);
        set_up(listener, &socket, keepalive_s);
        let (socket, info) = look_at(listener, socket);
        self.arriving.borrow_mut().push_back(Arriving { id, refused, info });
        self.network().open(listener, socket);
    }

    /// Adds the connection of an opened socket. Sockets open in the order of the requests.
    pub(super) fn opened(&self, listener: u32, socket: SocketId) {
        let arriving = self.arriving.borrow_mut().pop_front();
        let Arriving { id, refused, mut info } = arriving.expect("it was asked for");
        let statistics = self.state.statistics();
        statistics.connections.add(1);
        let follows = listener == FOLLOWER;
        let user = self.state.shared.acl.open_default().filter(|_| !follows);
        info.user.clone_from(&user);
        let session = Session { id, user, follows, ..Session::default() };
        let mut client = Box::new(Client::new(session));
        if refused {
            statistics.rejected.add(1);
            client.reply.error("ERR max number of clients reached");
            client.session.closing = true;
        }
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
            early: Vec::new(),
            woken: false,
            checks_channels: false,
            unblocked: None,
            ended: false,
            active: self.now.get(),
            client_bytes: 0,
            counted: 0,
            shown: info.buffers.clone(),
        });
        drop(connections);
        self.by_id.borrow_mut().insert(id, index);
        let clients = &self.state.shared.cores[self.state.core].clients;
        clients.lock().insert(id, info);
        self.advance(index);
    }

    /// Divides the kernel's memory among the sockets again, if it is time.
    pub(super) fn balance(&self, now: Time) {
        if now >= self.balance_at.get() {
            self.balance_at.set(now + BALANCE_EVERY);
            self.network().balance(SOCKETS_BYTES / self.state.settings().cores);
            if self.is_first() {
                self.watch_log();
            }
        }
    }

    /// Closes a connection whose client does not read its replies while other sockets need the
    /// memory.
    pub(super) fn stalled(&self, socket: SocketId) {
        self.with(socket, |connection| {
            connection.killed = true;
            self.state.statistics().rejected.add(1);
            let id = connection.id;
            let text = format!(
                "closed connection {id}: its client does not read, and others need the room"
            );
            self.state.journal().tell("closed", text);
        });
    }

    /// Closes connections whose clients have sent and taken nothing for the `timeout`. Subscribed
    /// clients stay, as in Redis.
    pub(super) fn close_idle(&self, now: Time) {
        let timeout_s = self.state.shared.timeout_s.load(Ordering::Relaxed);
        if timeout_s == 0 || now < self.idle_at.get() {
            return;
        }
        self.idle_at.set(now + IDLE_EVERY);
        let timeout = Span::from_us(timeout_s.saturating_mul(1_000_000));
        let is_idle = |connection: &Connection| {
            let client = connection.client.as_ref();
            !connection.queued
                && client.is_some_and(|client| {
                    let session = &client.session;
                    session.subscriptions() == 0
                        && session.commands.is_empty()
                        && !session.follows
                        && !client.is_blocked()
                })
                && now.since(connection.active) > timeout
        };
        let connections = self.connections.borrow();
        let idle = connections.iter().flatten().filter(|connection| is_idle(connection));
        let idle: Vec<SocketId> = idle.map(|connection| connection.socket).collect();
        drop(connections);
        idle.into_iter()
            .for_each(|socket| self.with(socket, |connection| connection.killed = true));
    }

    /// Changes the connection of a socket, if it is open, and advances it.
    pub(super) fn with(&self, socket: SocketId, change: impl FnOnce(&mut Connection)) {
        let index = socket.index();
        let mut connections = self.connections.borrow_mut();
        let connection = connections.get_mut(index).and_then(Option::as_mut);
        if let Some(connection) = connection.filter(|connection| connection.socket == socket) {
            change(connection);
            drop(connections);
            self.advance(index);
        }
    }

    pub(super) fn with_id(&self, id: ClientId, change: impl FnOnce(&mut Connection)) {
        let Some(index) = self.by_id.borrow().get(&id).copied() else { return };
        if let Some(connection) = &mut self.connections.borrow_mut()[index] {
            change(connection);
        }
        self.advance(index);
    }

    /// Advances a connection. Closes others while the buffers exceed their limit.
    pub(super) fn advance(&self, index: usize) {
        self.step(index);
        // Closing advances connections too.
        if self.held_bytes() > self.buffers_max && !self.shedding.replace(true) {
            self.shed();
            self.shedding.set(false);
        }
    }

    /// Sends, runs, receives or closes.
    fn step(&self, index: usize) {
        let mut connections = self.connections.borrow_mut();
        let Some(connection) = connections.get_mut(index).and_then(Option::as_mut) else { return };
        let network = self.network();
        let stopping = self.is_stopping();
        connection.hand_over();
        self.count(connection);
        let Some(client) = &mut connection.client else { return };
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
                self.state.statistics().output_bytes.add(bytes.len() as u64);
                let held_bytes = bytes.capacity();
                connection.sending = Some(Sending { bytes: bytes.len(), held_bytes });
                network.send(connection.socket, bytes);
            }
        }
        let quiet = connection.sending.is_none() && !client.reply.has_large();
        let over = client.session.closing
            || connection.ended && (client.is_blocked() || !client.has_more());
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
        let sending_bytes = connection.sending.map_or(0, |sending| sending.bytes);
        let unsent = sending_bytes + client.reply.len();
        if on_flash && client.reply.ready() == 0 {
            connection.queued = true;
            self.ready.borrow_mut().push_back(index);
        } else if on_flash || unsent >= self.unsent_bytes_max() {
            // Receiving continues once the client has taken some replies.
        } else if client.is_blocked() {
            self.await_element(connection, index);
        } else if client.has_more() {
            connection.woken = false;
            connection.queued = true;
            self.ready.borrow_mut().push_back(index);
        } else if !connection.receiving && !connection.ended && !stopping {
            connection.receiving = true;
            network.receive(connection.socket);
        }
    }

    /// Bytes of replies at which a connection stops running requests until its client reads. Some
    /// clients send a whole pipeline before they read, so it is more while connections hold little.
    fn unsent_bytes_max(&self) -> usize {
        if self.buffered.get() < self.buffers_max / 2 {
            (self.buffers_max / 4).max(REPLY_BYTES_MAX)
        } else {
            REPLY_BYTES_MAX
        }
    }

    /// Queues a connection whose command waits for an element, if the command must run again.
    /// Otherwise receives, to notice when the client leaves.
    fn await_element(&self, connection: &mut Connection, index: usize) {
        let Some(client) = &connection.client else { return };
        let deadline_ms = client.session.blocked.as_ref().and_then(|blocked| blocked.deadline_ms);
        if std::mem::take(&mut connection.woken) {
            deadline_ms.map(|at| self.deadlines.borrow_mut().remove(&(at, connection.id)));
            connection.queued = true;
            self.ready.borrow_mut().push_back(index);
            return;
        }
        deadline_ms.map(|at| self.deadlines.borrow_mut().insert((at, connection.id)));
        let stopping = self.is_stopping();
        if !connection.receiving && client.unread() < REPLY_BYTES_MAX && !stopping {
            connection.receiving = true;
            self.network().receive(connection.socket);
        }
    }

    /// Wakes the clients whose commands have waited long enough.
    pub(super) fn wake_due(&self) {
        if self.deadlines.borrow().is_empty() {
            return;
        }
        let now_ms = now_ms();
        let mut deadlines = self.deadlines.borrow_mut();
        let due: Vec<(u64, ClientId)> =
            deadlines.iter().take_while(|(at, _)| *at <= now_ms).copied().collect();
        deadlines.retain(|due| due.0 > now_ms);
        drop(deadlines);
        due.into_iter().for_each(|(_, id)| self.with_id(id, |connection| connection.woken = true));
    }

    /// Counts the bytes that a connection holds.
    fn count(&self, connection: &mut Connection) {
        let texts = connection.messages.iter().map(|message| message.text.len());
        let messages = texts.sum::<usize>() + connection.messages.capacity() * size_of::<Message>();
        let sending = connection.sending.unwrap_or(Sending { bytes: 0, held_bytes: 0 });
        if let Some(client) = &connection.client {
            connection.client_bytes = client.held_bytes();
            let shown = [client.unread(), sending.bytes + client.reply.len(), connection.counted];
            connection.shown.iter().zip(shown).for_each(|(shown, bytes)| shown.set(bytes as u64));
        }
        let bytes = connection.client_bytes
            + connection.spare.capacity()
            + connection.early.capacity()
            + sending.held_bytes
            + connection.tls.as_ref().map_or(0, |_| TLS_BYTES)
            + messages;
        let all = self.buffered.get() - connection.counted + bytes;
        self.buffered.set(all);
        self.state.statistics().buffers.set(all as u64);
        connection.counted = bytes;
    }

    /// Bytes of all connections on this core, of lists of keys being written, and of scripts.
    fn held_bytes(&self) -> usize {
        let sources = self.state.shared.sources.size().1 / self.state.shared.cores.len();
        self.buffered.get()
            + self.state.listed_bytes.get()
            + self.state.scripts.held_bytes()
            + sources
    }

    /// Closes the largest connections while all together exceed their limit.
    fn shed(&self) {
        self.state.scripts.clear();
        while self.held_bytes() > self.buffers_max
            && let Some(index) = self.guilty()
        {
            self.close_guilty(index);
        }
    }

    /// Returns the connection that holds most; among equals, the one idle longest. `None` if
    /// connections that are closing already will free enough.
    fn guilty(&self) -> Option<usize> {
        let connections = self.connections.borrow();
        let open = || connections.iter().flatten();
        let leaving: usize = open().filter(|one| one.killed).map(|one| one.counted).sum();
        if self.held_bytes() - leaving <= self.buffers_max {
            return None;
        }
        let staying = open().filter(|one| !one.killed && one.counted > 0);
        let most = staying.max_by_key(|one| (one.counted, std::cmp::Reverse(one.active)));
        most.map(|connection| connection.socket.index())
    }

    /// Closes a connection and frees its buffers. The client gets an error, unless a send or a job
    /// is under way.
    fn close_guilty(&self, index: usize) {
        let mut connections = self.connections.borrow_mut();
        let connection = connections[index].as_mut().expect("it is open");
        let (id, bytes) = (connection.id, connection.counted);
        let all = self.buffered.get();
        self.state.statistics().rejected.add(1);
        self.state.journal().tell(
            "closed",
            format!(
                "closed connection {id}: it holds {} KiB, and the connections of its core {} of {} KiB",
                bytes >> 10,
                all >> 10,
                self.buffers_max >> 10
            ),
        );
        connection.killed = connection.sending.is_some() || connection.client.is_none();
        connection.messages = Vec::new();
        if !connection.killed
            && let Some(client) = connection.client.take()
        {
            let session = Session { id, closing: true, ..Session::default() };
            let mut last = Box::new(Client::new(session));
            last.reply
                .error("ERR connections hold more memory than they may, and this one the most");
            connection.client = Some(last);
            self.leave(*client);
        }
        drop(connections);
        self.advance(index);
    }

    /// Ends a client's watching and its subscriptions.
    fn leave(&self, mut client: Client) {
        if let Some(blocked) = client.session.blocked.take() {
            stop_waiting(&self.state, &client.session, &blocked);
        }
        forget(&self.state, &mut client.session);
        leave_all(&self.state, &mut client.session);
    }

    /// Removes a connection, and closes its socket.
    fn closed(&self, connection: Connection) {
        self.network().close(connection.socket);
        self.buffered.set(self.buffered.get() - connection.counted);
        self.by_id.borrow_mut().remove(&connection.id);
        self.state.shared.cores[self.state.core].clients.lock().remove(&connection.id);
        self.state.statistics().clients.subtract(1);
        if let Some(client) = connection.client {
            self.leave(*client);
        }
    }
}
