//! [`Epoll`]: the operations on sockets by readiness, where io_uring is refused.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::sockets::{Operation, Sockets};

/// Most bytes of a receive.
const RECEIVE_BYTES: usize = 16 << 10;

/// Events taken from the kernel in one call.
const EVENTS: usize = 64;

/// Marks the data of an event that belongs to a listener.
const LISTENER: u64 = 1 << 63;

/// Performs operations without blocking. One that would wait is parked until its socket is ready.
///
/// A socket is registered once, for both ways and edge-triggered, and stays so until it is closed.
/// Then only an operation that is done costs a system call.
pub(crate) struct Epoll {
    epoll: OwnedFd,
    listeners: Vec<Place>,
    connections: Vec<Place>,
    buffer: Box<[u8; RECEIVE_BYTES]>,
}

/// What is known of a socket.
#[derive(Default)]
struct Place {
    /// The generation of the socket that is registered.
    registered: Option<u32>,
    receives: Way,
    sends: Way,
    /// The client has closed its side, or the connection has failed. The kernel reports it once.
    ended: bool,
}

/// A direction of a socket.
#[derive(Default)]
struct Way {
    /// Whether an operation may succeed at once.
    ready: bool,
    parked: Option<Operation>,
}

impl Place {
    fn way(&mut self, operation: Operation) -> &mut Way {
        match operation {
            Operation::Accept(_) | Operation::Receive(_) => &mut self.receives,
            Operation::Send(_) => &mut self.sends,
        }
    }
}

impl Epoll {
    /// For the sockets of one core.
    ///
    /// # Errors
    /// When the process has too many open files.
    pub(crate) fn new() -> io::Result<Epoll> {
        // SAFETY: epoll_create1 has no preconditions; its result is checked.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor just opened that has no other owner.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        Ok(Epoll {
            epoll,
            listeners: Vec::new(),
            connections: Vec::new(),
            buffer: Box::new([0; RECEIVE_BYTES]),
        })
    }

    /// A descriptor that is readable while sockets have become ready.
    pub(crate) fn readiness(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.epoll.as_fd()
    }

    /// Performs the operations that `sockets` hands over.
    pub(crate) fn perform(&mut self, sockets: &mut Sockets) {
        while let Some(operation) = sockets.next_operation() {
            self.attempt(sockets, operation);
        }
    }

    /// Performs parked operations whose sockets have become ready. Takes all events, so that those
    /// which no operation waits for do not end the next sleep.
    pub(crate) fn poll(&mut self, sockets: &mut Sockets) {
        let is_used = !self.listeners.is_empty() || !self.connections.is_empty();
        let mut count = if is_used { EVENTS } else { 0 };
        while count == EVENTS {
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
            // SAFETY: the kernel writes at most as many events as there is room for.
            let found = unsafe {
                let (room, at_once) = (EVENTS as libc::c_int, 0);
                libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), room, at_once)
            };
            // An error of epoll_wait is an interruption, so the next call finds the events.
            count = usize::try_from(found).unwrap_or(0);
            for event in &events[..count] {
                self.note(sockets, event.u64, event.events);
            }
        }
        self.perform(sockets);
    }

    /// A socket has become ready.
    fn note(&mut self, sockets: &mut Sockets, data: u64, events: u32) {
        let has = |flags: libc::c_int| events & flags as u32 != 0;
        let number = data as u32 as usize;
        let is_listener = data & LISTENER != 0;
        let places = if is_listener { &mut self.listeners } else { &mut self.connections };
        let Some(place) = places.get_mut(number) else { return };
        if place.registered != Some(((data & !LISTENER) >> 32) as u32) {
            return;
        }
        place.ended |= has(libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR);
        place.receives.ready |= has(libc::EPOLLIN) || place.ended;
        place.sends.ready |= has(libc::EPOLLOUT) || place.ended;
        let ready = [&mut place.receives, &mut place.sends].map(|way| {
            let ready = way.ready;
            way.parked.take_if(|_| ready)
        });
        for operation in ready.into_iter().flatten() {
            self.attempt(sockets, operation);
        }
    }

    /// Performs an operation, or parks it.
    fn attempt(&mut self, sockets: &mut Sockets, operation: Operation) {
        let socket = sockets.descriptor(operation);
        let place = match self.place(socket, operation) {
            Ok(place) => place,
            Err(error) => return sockets.complete(operation, Err(error), &[]),
        };
        let ended = place.ended;
        if !place.way(operation).ready {
            place.way(operation).parked = Some(operation);
            return;
        }
        let result = match operation {
            Operation::Accept(_) => accept(socket),
            Operation::Receive(_) => receive(socket, &mut *self.buffer),
            Operation::Send(id) => send(socket, sockets.unsent(id)),
        };
        let place = self.place(socket, operation).expect("it is registered");
        match result {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                *place.way(operation) = Way { ready: false, parked: Some(operation) };
            }
            result => {
                let is_receive = matches!(operation, Operation::Receive(_));
                let bytes = if is_receive { *result.as_ref().unwrap_or(&0) } else { 0 };
                // A short receive has emptied the socket: epoll(7). Then only an event tells of
                // more, except of an end that it has reported.
                if is_receive && bytes < RECEIVE_BYTES && !ended {
                    place.receives.ready = false;
                }
                sockets.complete(operation, result, &self.buffer[..bytes]);
            }
        }
    }

    /// The place of an operation's socket, which is registered on first use.
    fn place(&mut self, socket: RawFd, operation: Operation) -> io::Result<&mut Place> {
        let (places, number, generation, mark) = match operation {
            Operation::Accept(listener) => (&mut self.listeners, listener, 0, LISTENER),
            Operation::Receive(id) | Operation::Send(id) => {
                (&mut self.connections, id.slot, id.generation, 0)
            }
        };
        let at = number as usize;
        if places.len() <= at {
            places.resize_with(at + 1, Place::default);
        }
        if places[at].registered != Some(generation) {
            let data = mark | u64::from(generation) << 32 | u64::from(number);
            register(self.epoll.as_raw_fd(), socket, data)?;
            if mark == LISTENER {
                forbid_blocking(socket)?;
            }
            // The first attempts find out. The kernel reports what is ready now, too.
            let way = || Way { ready: true, parked: None };
            let registered = Some(generation);
            places[at] = Place { registered, receives: way(), sends: way(), ended: false };
        }
        Ok(&mut places[at])
    }
}

/// Registers a socket. The kernel forgets it when it is closed.
fn register(epoll: RawFd, socket: RawFd, data: u64) -> io::Result<()> {
    let events = libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;
    let mut event = libc::epoll_event { events: events as u32, u64: data };
    // SAFETY: both descriptors are open, and the kernel only reads `event`.
    match unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, socket, &raw mut event) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets accept(2) return where it would wait.
fn forbid_blocking(listener: RawFd) -> io::Result<()> {
    // SAFETY: changes a flag of an open descriptor.
    let done = unsafe {
        let flags = libc::fcntl(listener, libc::F_GETFL);
        flags >= 0 && libc::fcntl(listener, libc::F_SETFL, flags | libc::O_NONBLOCK) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn accept(listener: RawFd) -> io::Result<usize> {
    let (address, length) = (std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: an open descriptor; the address of the client is not asked for.
    let socket = unsafe { libc::accept4(listener, address, length, libc::SOCK_CLOEXEC) };
    usize::try_from(socket).map_err(|_| io::Error::last_os_error())
}

fn receive(socket: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the kernel writes at most the buffer's length.
    let received =
        unsafe { libc::recv(socket, buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT) };
    usize::try_from(received).map_err(|_| io::Error::last_os_error())
}

fn send(socket: RawFd, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads at most the length of `bytes`.
    let sent = unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}
