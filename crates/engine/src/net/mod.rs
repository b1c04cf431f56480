//! Sockets on the core loop: the requests of a service to its core's ring, and their results.
//!
//! A core accepts, receives and sends on the ring that it also uses for reads of flash. So one
//! entry into the kernel serves both. A service pushes requests ([`Network`]). The core hands them
//! to the ring when it next drives it, and returns the results ([`NetEvent`]) between jobs.
//!
//! A socket has at most one receive and one send under way. The core receives only when the service
//! asks. So the service can stop reading from a client that does not read its replies.

pub(crate) mod epoll;
pub(crate) mod on_ring;
mod shares;
mod socket_options;
pub(crate) mod sockets;

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// A connected socket of one core. The number of a closed socket is never used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SocketId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

impl SocketId {
    /// A small number that no other open socket of the core has. A later socket may get it.
    pub fn index(self) -> usize {
        self.slot as usize
    }
}

/// A request of a service to its core's ring, on its way to the [`Queue`](crate::device::Queue).
#[derive(Debug)]
pub enum NetRequest {
    /// [`Network::listen`].
    Listen {
        /// The number of the listener.
        listener: u32,
        /// The socket that listens.
        socket: OwnedFd,
    },
    /// [`Network::accept`].
    Accept {
        /// The number of the listener.
        listener: u32,
    },
    /// [`Network::open`].
    Open {
        /// The number that the event reports.
        listener: u32,
        /// The socket.
        socket: OwnedFd,
    },
    /// [`Network::receive`].
    Receive(SocketId),
    /// [`Network::send`].
    Send(SocketId, Vec<u8>),
    /// [`Network::balance`].
    Balance {
        /// Bytes of memory that the kernel may use in each direction.
        pool_bytes: usize,
    },
    /// [`Network::close`].
    Close(SocketId),
}

/// The result of a request.
#[derive(Debug)]
pub enum NetEvent {
    /// A client has connected to this listener, or could not. The next client is accepted after
    /// another [`Network::accept`].
    Accepted {
        /// The number that [`Network::listen`] gave.
        listener: u32,
        /// The socket, for [`Network::open`] on this core or on another.
        socket: io::Result<OwnedFd>,
    },
    /// The core has taken a socket over.
    Opened {
        /// The number of a listener that was passed to [`Network::open`].
        listener: u32,
        /// The socket, with nothing under way.
        socket: SocketId,
    },
    /// Bytes have come; none when the client has closed its side.
    Received {
        /// The socket.
        socket: SocketId,
        /// The received bytes, or the error of the connection.
        bytes: io::Result<Vec<u8>>,
    },
    /// All bytes of a send are with the kernel, or the connection has failed.
    Sent {
        /// The socket.
        socket: SocketId,
        /// The buffer of the send, empty, for the next one.
        buffer: Vec<u8>,
        /// An error if the kernel did not take all bytes.
        result: io::Result<()>,
    },
    /// The client takes none of the sent bytes, and others need its room in the kernel.
    Stalled {
        /// The socket.
        socket: SocketId,
    },
}

/// The sockets of a [`Queue`](crate::device::Queue). Its next `submit` hands their operations over,
/// together with requests for pages. Its `reap` finds their results.
pub trait SocketQueue {
    /// Takes the requests of a service.
    fn request(&mut self, requests: &mut Vec<NetRequest>);

    /// True if there are events that were not taken.
    fn has_events(&self) -> bool;

    /// Appends the events since the last call.
    fn take_events(&mut self, into: &mut Vec<NetEvent>);
}

/// A core's handle of the network, for its service. Every call returns at once.
#[derive(Clone, Debug)]
pub struct Network {
    port: Rc<Port>,
}

#[derive(Debug)]
struct Port {
    available: bool,
    listeners: Cell<u32>,
    requests: RefCell<Vec<NetRequest>>,
}

impl Network {
    /// Bytes of the receive buffers on a core with sockets, independent of its clients.
    pub const BUFFERS_BYTES: usize = on_ring::BUFFERS_BYTES;

    /// Initial bytes of a socket's buffers in the kernel. A listener should have them too, because
    /// a client can fill them before it is accepted.
    pub const SOCKET_BYTES: usize = shares::LEAST_BYTES;

    pub(crate) fn new(available: bool) -> Network {
        let requests = RefCell::default();
        Network { port: Rc::new(Port { available, listeners: Cell::new(0), requests }) }
    }

    /// Whether this core has a ring that takes sockets. Without one no event ever comes.
    pub fn is_available(&self) -> bool {
        self.port.available
    }

    /// Takes over a socket that listens, and gives it a number. Accepts nothing yet.
    pub fn listen(&self, socket: OwnedFd) -> u32 {
        let listener = self.port.listeners.get();
        self.port.listeners.set(listener + 1);
        self.push(NetRequest::Listen { listener, socket });
        listener
    }

    /// Accepts one client.
    pub fn accept(&self, listener: u32) {
        self.push(NetRequest::Accept { listener });
    }

    /// Takes over a connected socket that any core may have accepted. Reports
    /// [`Opened`](NetEvent::Opened) with this number of a listener.
    pub fn open(&self, listener: u32, socket: OwnedFd) {
        self.push(NetRequest::Open { listener, socket });
    }

    /// Receives the next bytes, once. Holds no buffer until they come.
    pub fn receive(&self, socket: SocketId) {
        self.push(NetRequest::Receive(socket));
    }

    /// Sends all of `bytes`, which are not empty.
    pub fn send(&self, socket: SocketId, bytes: Vec<u8>) {
        self.push(NetRequest::Send(socket, bytes));
    }

    /// Begins a round of sharing the kernel's memory for sockets, about every 100 ms. All sockets
    /// with large transfers share `pool_bytes` in each direction. Others have a few kilobytes.
    pub fn balance(&self, pool_bytes: usize) {
        self.push(NetRequest::Balance { pool_bytes });
    }

    /// Closes a socket. Its operations under way end without an event.
    pub fn close(&self, socket: SocketId) {
        self.push(NetRequest::Close(socket));
    }

    fn push(&self, request: NetRequest) {
        self.port.requests.borrow_mut().push(request);
    }

    /// Whether requests wait for the core.
    pub(crate) fn has_requests(&self) -> bool {
        !self.port.requests.borrow().is_empty()
    }

    /// The requests so far, in order. The emptied list comes back by [`recycle`](Network::recycle).
    pub(crate) fn take_requests(&self) -> Vec<NetRequest> {
        std::mem::take(&mut self.port.requests.borrow_mut())
    }

    /// Keeps an empty list for the next requests.
    pub(crate) fn recycle(&self, mut list: Vec<NetRequest>) {
        list.clear();
        let mut requests = self.port.requests.borrow_mut();
        if requests.capacity() == 0 {
            *requests = list;
        }
    }
}
