//! The sockets of one core: their operations under way, and the results. It decides only. A queue
//! hands the operations to the kernel, through io_uring ([`on_ring`](super::on_ring)) or by
//! readiness ([`epoll`](super::epoll)).

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::shares::{LEAST_BYTES, MOST_BYTES, Owner, Share, Shares, Sharing, Way};
use super::socket_options::{set_option, untaken_bytes};
use super::{NetEvent, NetRequest, SocketId, SocketQueue};

/// Marks the token of an operation on a socket; no request for pages has it.
const NETWORK: u64 = 1 << 63;

/// The kind of operation, in bits 60–62 of a token.
const ACCEPT: u64 = 0;
const RECEIVE: u64 = 1;
const SEND: u64 = 2;

/// Bits of a socket's generation in a token. The slot is in the low 32.
const GENERATION_BITS: u32 = 28;

/// An operation of the kernel on a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    /// Accepts a client of this listener. The result is its descriptor.
    Accept(u32),
    /// Receives bytes. The result is their number.
    Receive(SocketId),
    /// Sends [`Sockets::unsent`]. The result is the number of bytes taken.
    Send(SocketId),
}

impl Operation {
    /// The number that stands for it in the kernel.
    pub(crate) fn token(self) -> u64 {
        let (kind, SocketId { slot, generation }) = match self {
            Operation::Accept(listener) => (ACCEPT, SocketId { slot: listener, generation: 0 }),
            Operation::Receive(id) => (RECEIVE, id),
            Operation::Send(id) => (SEND, id),
        };
        let generation = u64::from(generation) & ((1 << GENERATION_BITS) - 1);
        NETWORK | kind << 60 | generation << 32 | u64::from(slot)
    }

    /// The operation that `token` stands for. `None` if it stands for something else.
    pub(crate) fn of(token: u64) -> Option<Operation> {
        let generation = (token >> 32) as u32 & ((1 << GENERATION_BITS) - 1);
        let id = SocketId { slot: token as u32, generation };
        match (token & NETWORK != 0 && token != u64::MAX, (token >> 60) & 7) {
            (false, _) => None,
            (true, ACCEPT) => Some(Operation::Accept(id.slot)),
            (true, RECEIVE) => Some(Operation::Receive(id)),
            (true, _) => Some(Operation::Send(id)),
        }
    }
}

/// The kernel's memory for sockets in each direction, until the first [`Sockets::balance`].
const POOL_BYTES: usize = 8 << 20;

/// Rounds between two looks for clients that take nothing: about a second.
const ROUNDS_PER_LOOK: u64 = 10;

/// A client that takes fewer bytes between two looks counts as taking nothing. After [`STILL_MAX`]
/// such looks it is stalled.
const TAKEN_BYTES_MIN: u64 = 4 << 10;
const STILL_MAX: u32 = 5;

/// A connection's place.
#[derive(Default)]
struct Slot {
    generation: u32,
    socket: Option<OwnedFd>,
    receiving: bool,
    /// The buffer of the send under way, and the number of bytes sent so far.
    sending: Option<(Vec<u8>, usize)>,
    /// Bytes that the kernel has taken of all sends, and the client as of the last look that found
    /// some.
    sent_bytes: u64,
    taken_bytes: u64,
    /// Looks since then.
    still: u32,
    /// The kernel's buffers, by [`Way`].
    shares: [Share; 2],
    closing: bool,
}

impl Owner for Vec<Slot> {
    fn sharing(&mut self, way: Way, slot: u32) -> Sharing<'_> {
        let slot = &mut self[slot as usize];
        let socket = slot.socket.as_ref().expect("an open slot has a socket");
        Sharing { socket, share: &mut slot.shares[way as usize] }
    }
}

impl Slot {
    /// Looks how much the client has taken. Returns true if it has taken nothing for long.
    fn is_stalled(&mut self) -> bool {
        let socket = self.socket.as_ref().expect("an open slot has a socket");
        let taken_bytes = self.sent_bytes.saturating_sub(untaken_bytes(socket));
        let moves = self.sending.is_none() || taken_bytes >= self.taken_bytes + TAKEN_BYTES_MIN;
        if moves {
            (self.taken_bytes, self.still) = (taken_bytes, 0);
        } else {
            self.still += 1;
        }
        self.still >= STILL_MAX
    }
}

/// The listening and connected sockets of one core.
pub(crate) struct Sockets {
    listeners: Vec<OwnedFd>,
    slots: Vec<Slot>,
    idle_slots: Vec<u32>,
    /// Operations that were not handed over yet, oldest first.
    waiting: VecDeque<Operation>,
    /// Operations that have not ended.
    under_way: usize,
    events: Vec<NetEvent>,
    /// By [`Way`].
    shares: [Shares; 2],
    /// Rounds of [`balance`](Sockets::balance).
    round: u64,
}

impl Default for Sockets {
    fn default() -> Sockets {
        Sockets {
            listeners: Vec::new(),
            slots: Vec::new(),
            idle_slots: Vec::new(),
            waiting: VecDeque::new(),
            under_way: 0,
            events: Vec::new(),
            shares: [Way::In, Way::Out].map(|way| Shares::new(way, POOL_BYTES)),
            round: 0,
        }
    }
}

impl SocketQueue for Sockets {
    fn request(&mut self, requests: &mut Vec<NetRequest>) {
        requests.drain(..).for_each(|request| self.begin(request));
    }

    fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    fn take_events(&mut self, into: &mut Vec<NetEvent>) {
        into.append(&mut self.events);
    }
}

impl Sockets {
    /// Performs requests that need no waiting, and queues operations for
    /// [`next_operation`](Sockets::next_operation).
    fn begin(&mut self, request: NetRequest) {
        match request {
            NetRequest::Listen { listener, socket } => {
                assert_eq!(listener as usize, self.listeners.len(), "listeners come in order");
                self.listeners.push(socket);
            }
            NetRequest::Accept { listener } => self.accept(listener),
            NetRequest::Open { listener, socket } => {
                let socket = self.open(socket);
                self.events.push(NetEvent::Opened { listener, socket });
            }
            NetRequest::Receive(id) => self.receive(id),
            NetRequest::Send(id, bytes) => {
                let is_large = bytes.len() > LEAST_BYTES;
                if let Some(slot) = self.slot(id) {
                    assert!(slot.sending.is_none(), "one send of a socket at a time");
                    slot.sending = Some((bytes, 0));
                    if is_large {
                        self.uses(Way::Out, id.slot);
                    }
                    self.send(id);
                }
            }
            NetRequest::Balance { pool_bytes } => self.balance(pool_bytes),
            NetRequest::Close(id) => {
                if let Some(slot) = self.slot(id) {
                    slot.closing = true;
                    let socket = slot.socket.as_ref().expect("an open slot has a socket");
                    // SAFETY: a descriptor we own. Its requests under way end soon after; an error
                    // says that they have ended.
                    unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
                    self.free_if_unused(id.slot);
                }
            }
        }
    }

    /// The next operation to hand over.
    pub(crate) fn next_operation(&mut self) -> Option<Operation> {
        self.waiting.pop_front()
    }

    /// The descriptor of an operation that has not ended.
    pub(crate) fn descriptor(&self, operation: Operation) -> RawFd {
        match operation {
            Operation::Accept(listener) => self.listeners[listener as usize].as_raw_fd(),
            Operation::Receive(id) | Operation::Send(id) => {
                let socket = self.slots[id.slot as usize].socket.as_ref();
                socket.expect("an open slot has a socket").as_raw_fd()
            }
        }
    }

    /// The bytes that a send has yet to hand over. They stay in place until it has ended.
    pub(crate) fn unsent(&self, id: SocketId) -> &[u8] {
        let (bytes, sent) =
            self.slots[id.slot as usize].sending.as_ref().expect("a send is under way");
        &bytes[*sent..]
    }

    /// Operations that were not handed over yet.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Operations that have not ended.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    /// An operation has ended. A receive has got the bytes `received`.
    pub(crate) fn complete(
        &mut self,
        operation: Operation,
        result: io::Result<usize>,
        received: &[u8],
    ) {
        self.under_way -= 1;
        match operation {
            Operation::Accept(listener) => self.accepted(listener, result),
            Operation::Receive(id) => self.received(id, result.map(|_| received.to_vec())),
            Operation::Send(id) => self.sent(id, result),
        }
    }

    /// Shuts all sockets down, so that their operations under way end.
    pub(crate) fn shut_down(&mut self) {
        self.under_way -= self.waiting.len();
        self.waiting.clear();
        let open = self.slots.iter().filter_map(|slot| slot.socket.as_ref());
        for socket in self.listeners.iter().chain(open) {
            // SAFETY: a descriptor we own; an error says that nothing is under way on it.
            unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
        }
    }

    /// Leaks all memory that the kernel may still use, when the kernel cannot be waited for.
    pub(crate) fn leak(&mut self) {
        for slot in &mut self.slots {
            std::mem::forget(slot.sending.take());
        }
    }

    /// The slot of an open socket.
    fn slot(&mut self, id: SocketId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        (slot.generation == id.generation && slot.socket.is_some() && !slot.closing).then_some(slot)
    }

    /// Begins a round. Looks for clients that take nothing while others need their room.
    fn balance(&mut self, pool_bytes: usize) {
        self.round += 1;
        self.shares.iter_mut().for_each(|shares| shares.set_pool(pool_bytes));
        if !self.round.is_multiple_of(ROUNDS_PER_LOOK) {
            return;
        }
        let short = self.shares.iter().filter(|shares| shares.is_short());
        let mut holders: Vec<u32> = short.flat_map(|shares| shares.users()).copied().collect();
        holders.sort_unstable();
        holders.dedup();
        for slot in holders {
            let place = &mut self.slots[slot as usize];
            if !place.closing && place.is_stalled() {
                let socket = SocketId { slot, generation: place.generation };
                self.events.push(NetEvent::Stalled { socket });
            }
        }
    }

    /// A socket has a large transfer.
    fn uses(&mut self, way: Way, number: u32) {
        self.shares[way as usize].uses(number, self.round, &mut self.slots);
    }

    fn accept(&mut self, listener: u32) {
        self.push(Operation::Accept(listener));
    }

    fn receive(&mut self, id: SocketId) {
        let Some(slot) = self.slot(id) else { return };
        assert!(!slot.receiving, "one receive of a socket at a time");
        slot.receiving = true;
        self.push(Operation::Receive(id));
    }

    fn send(&mut self, id: SocketId) {
        self.push(Operation::Send(id));
    }

    fn push(&mut self, operation: Operation) {
        self.under_way += 1;
        self.waiting.push_back(operation);
    }

    fn accepted(&mut self, listener: u32, result: io::Result<usize>) {
        let socket = result.map(|descriptor| {
            // SAFETY: the kernel has just opened this descriptor for us; it has no other owner.
            let socket = unsafe { OwnedFd::from_raw_fd(descriptor as RawFd) };
            set_option(&socket, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
            socket
        });
        self.events.push(NetEvent::Accepted { listener, socket });
    }

    fn open(&mut self, socket: OwnedFd) -> SocketId {
        let slot = self.idle_slots.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        place.socket = Some(socket);
        (place.sent_bytes, place.taken_bytes, place.still) = (0, 0, 0);
        let (generation, window) = (place.generation, MOST_BYTES as libc::c_int);
        if let Some(socket) = &place.socket {
            // The kernel takes the buffer that a socket begins with for its largest.
            set_option(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, window);
        }
        for way in [Way::In, Way::Out] {
            self.shares[way as usize].begin(self.slots.sharing(way, slot));
        }
        SocketId { slot, generation }
    }

    fn received(&mut self, id: SocketId, bytes: io::Result<Vec<u8>>) {
        let slot = &mut self.slots[id.slot as usize];
        slot.receiving = false;
        let out_of_buffers =
            matches!(&bytes, Err(error) if error.raw_os_error() == Some(libc::ENOBUFS));
        let is_large = matches!(&bytes, Ok(bytes) if bytes.len() >= LEAST_BYTES / 2);
        if is_large && !slot.closing {
            self.uses(Way::In, id.slot);
        }
        let slot = &mut self.slots[id.slot as usize];
        if slot.closing {
            self.free_if_unused(id.slot);
        } else if out_of_buffers || interrupted(&bytes) {
            // Buffers come back as fast as completions are reaped.
            self.receive(id);
        } else {
            self.events.push(NetEvent::Received { socket: id, bytes });
        }
    }

    fn sent(&mut self, id: SocketId, result: io::Result<usize>) {
        let slot = &mut self.slots[id.slot as usize];
        let (bytes, done) = slot.sending.as_mut().expect("a send was under way");
        if slot.closing {
            slot.sending = None;
            self.free_if_unused(id.slot);
            return;
        }
        let result = match result {
            Ok(moved) if moved > 0 => {
                *done += moved;
                slot.sent_bytes += moved as u64;
                if *done < bytes.len() {
                    return self.send(id);
                }
                Ok(())
            }
            Ok(_) => Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return self.send(id),
            Err(error) => Err(error),
        };
        let (mut buffer, _) = slot.sending.take().expect("a send was under way");
        buffer.clear();
        self.events.push(NetEvent::Sent { socket: id, buffer, result });
    }

    /// Closes a socket that is marked as closing and has nothing under way.
    fn free_if_unused(&mut self, number: u32) {
        let slot = &mut self.slots[number as usize];
        if slot.closing && !slot.receiving && slot.sending.is_none() {
            slot.socket = None;
            slot.closing = false;
            for way in [Way::In, Way::Out] {
                self.shares[way as usize].end(number, &mut slot.shares[way as usize]);
            }
            slot.generation = (slot.generation + 1) & ((1 << GENERATION_BITS) - 1);
            self.idle_slots.push(number);
        }
    }
}

fn interrupted<T>(result: &io::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_is_found_by_its_token_and_a_wake_up_is_none() {
        let id = SocketId { slot: 7, generation: (1 << GENERATION_BITS) - 1 };
        for operation in [Operation::Accept(3), Operation::Receive(id), Operation::Send(id)] {
            assert_eq!(Operation::of(operation.token()), Some(operation));
        }
        assert_eq!((Operation::of(u64::MAX), Operation::of(5)), (None, None));
    }
}
