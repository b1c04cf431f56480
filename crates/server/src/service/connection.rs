//! Connections: how they are accepted, what is done for each, what they cost, and their end.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use ebbtide_engine::SocketId;

use super::Front;
use crate::channels::Message;
use crate::client::{Client, REPLY_BYTES_MAX, now_ms};
use crate::command::{forget, leave_all};
use crate::session::{ClientId, Session};
use crate::shared::{ClientInfo, Note};
use crate::statistics::Counter;
use crate::tls::{TLS_BYTES, Tls};

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

/// A connection, by the number of its socket.
pub(super) struct Connection {
    pub(super) socket: SocketId,
    pub(super) id: ClientId,
    /// Its TLS, if the socket speaks that.
    pub(super) tls: Option<Box<Tls>>,
    /// Its requests and replies, unless a job has them.
    pub(super) client: Option<Box<Client>>,
    pub(super) receiving: bool,
    /// Bytes of the send under way.
    pub(super) sending: Option<usize>,
    /// An empty buffer for replies.
    pub(super) spare: Vec<u8>,
    /// Messages that came while a job had the client.
    pub(super) messages: Vec<Message>,
    /// Whether it waits for a job.
    pub(super) queued: bool,
    /// The client has closed its side, or the connection has failed.
    pub(super) ended: bool,
    /// It is closed without another reply.
    pub(super) killed: bool,
    /// What it is counted for in the bytes of all buffers.
    pub(super) counted: usize,
    /// Where others see that.
    pub(super) shown: Arc<[Counter; 3]>,
}

/// A connection whose socket this core takes over.
pub(super) struct Arriving {
    id: ClientId,
    refused: bool,
    info: ClientInfo,
}

/// What is known of a connection before its socket is taken over, which is given back.
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
        // As in Redis, a client of a Unix socket is called by its path.
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

impl Front {
    /// A client has connected to the first core: the core with the fewest connections gets it.
    pub(super) fn accepted(&self, listener: u32, socket: OwnedFd) {
        let shared = &self.state.shared;
        let id = self.next_id.replace(self.next_id.get() + 1);
        let clients = shared.total(|core| &core.clients);
        let refused = clients >= self.state.settings().clients_max as u64;
        let statistics = shared.cores.iter().map(|core| &core.statistics).enumerate();
        let fewest = statistics.min_by_key(|(_, statistics)| statistics.clients.get());
        let (core, statistics) = fewest.expect("there are cores");
        statistics.clients.add(1);
        shared.tell(core, Note::Connection { listener, socket, id, refused }, self.state.core);
        if clients.is_power_of_two() {
            let cores = 0..shared.cores.len();
            cores.for_each(|core| shared.tell(core, Note::LimitSockets, self.state.core));
        }
    }

    /// Takes a connection over.
    pub(super) fn open_socket(&self, listener: u32, socket: OwnedFd, id: ClientId, refused: bool) {
        let (socket, info) = look_at(listener, socket);
        self.arriving.borrow_mut().push_back(Arriving { id, refused, info });
        self.network().open(listener, socket);
    }

    /// A socket is taken over. Those that come first are opened first.
    pub(super) fn opened(&self, listener: u32, socket: SocketId) {
        let arriving = self.arriving.borrow_mut().pop_front();
        let Arriving { id, refused, info } = arriving.expect("it was asked for");
        let statistics = self.state.statistics();
        statistics.connections.add(1);
        let authenticated = self.state.settings().password.is_none();
        let mut client = Box::new(Client::new(Session { id, authenticated, ..Session::default() }));
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
            ended: false,
            counted: 0,
            shown: info.buffers.clone(),
        });
        drop(connections);
        self.by_id.borrow_mut().insert(id, index);
        self.network().limit_buffers(socket, self.socket_bytes());
        let clients = &self.state.shared.cores[self.state.core].clients;
        clients.lock().insert(id, info);
        self.advance(index);
    }

    /// What the kernel may buffer of a socket each way, so that those of all sockets stay within [`SOCKETS_BYTES`]:
    /// half as much whenever clients have doubled.
    fn socket_bytes(&self) -> u32 {
        let clients = self.state.shared.total(|core| &core.clients).max(1) as usize;
        let bytes = SOCKETS_BYTES / PER_SOCKET_BYTE / clients.next_power_of_two();
        bytes.min(SOCKET_BYTES_MAX) as u32
    }

    /// Limits the kernel's buffers of all sockets of this core anew.
    pub(super) fn limit_sockets(&self) {
        let (network, bytes) = (self.network(), self.socket_bytes());
        if bytes < SOCKET_BYTES_MAX as u32 {
            for connection in self.connections.borrow().iter().flatten() {
                network.limit_buffers(connection.socket, bytes);
            }
        }
    }

    /// Changes the connection of a socket, if it is open, and does what follows.
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

    /// Does what can be done for a connection now: sends, runs, receives or closes.
    pub(super) fn advance(&self, index: usize) {
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
                self.state.statistics().output_bytes.add(bytes.len() as u64);
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
            self.state.statistics().rejected.add(1);
            connection.killed = true;
        }
        self.buffered.set(all);
        self.state.statistics().buffers.set(all as u64);
        connection.counted = bytes;
        let unsent = connection.sending.unwrap_or(0) + client.reply.len();
        for (shown, bytes) in connection.shown.iter().zip([client.unread(), unsent, bytes]) {
            shown.set(bytes as u64);
        }
    }

    /// Forgets a connection, and closes its socket.
    fn closed(&self, connection: Connection) {
        self.network().close(connection.socket);
        self.buffered.set(self.buffered.get() - connection.counted);
        self.by_id.borrow_mut().remove(&connection.id);
        self.state.shared.cores[self.state.core].clients.lock().remove(&connection.id);
        self.state.statistics().clients.subtract(1);
        if let Some(mut client) = connection.client {
            forget(&self.state, &mut client.session);
            leave_all(&self.state, &mut client.session);
        }
    }
}
