//! The sockets of one ring: their operations under way, and the results.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use io_uring::{Submitter, cqueue, opcode, squeue, types};

use super::shares::{LEAST_BYTES, MOST_BYTES, Owner, Share, Shares, Sharing, Way};
use super::socket_options::{set_option, untaken_bytes};
use super::{NetEvent, NetRequest, SocketId};
use crate::host::mapping::Mapping;

/// Marks the token of an operation on a socket; no request for pages has it.
const NETWORK: u64 = 1 << 63;

/// The kind of operation, in bits 60–62 of a token.
const ACCEPT: u64 = 0;
const RECEIVE: u64 = 1;
const SEND: u64 = 2;

/// Bits of a socket's generation in a token. The slot is in the low 32.
const GENERATION_BITS: u32 = 28;

/// Buffers for receives of one core. A buffer is in use only from a completion to its reaping.
const BUFFERS: u16 = 64;

/// Bytes in each.
const BUFFER_BYTES: usize = 16 << 10;

/// The bytes that the buffers of a core take once it has a socket.
pub(crate) const BUFFERS_BYTES: usize = BUFFERS as usize * (BUFFER_BYTES + 16);

/// The number of the group of buffers in its ring.
const GROUP: u16 = 0;

/// A receive waits for its socket before it tries to read (`IORING_RECVSEND_POLL_FIRST`, since
/// Linux 5.19; io_uring_enter(2)). A client seldom sends its next command before it has its answer.
const RECEIVE_WAITS: u16 = 1;

/// The kernel's memory for sockets in each direction, until the first [`Sockets::balance`].
const POOL_BYTES: usize = 8 << 20;

/// Rounds between two looks for clients that take nothing: about a second.
const ROUNDS_PER_LOOK: u64 = 10;

/// A client that takes fewer bytes between two looks counts as taking nothing. After [`STILL_MAX`]
/// such looks it is stalled.
const TAKEN_BYTES_MIN: u64 = 4 << 10;
const STILL_MAX: u32 = 5;

/// Whether a completion belongs to a socket.
pub(crate) fn is_network(token: u64) -> bool {
    token & NETWORK != 0 && token != u64::MAX
}

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

/// The listening and connected sockets of one ring.
pub(crate) struct Sockets {
    listeners: Vec<OwnedFd>,
    slots: Vec<Slot>,
    idle_slots: Vec<u32>,
    buffers: Option<Buffers>,
    /// Operations that the ring has no room for, oldest first.
    waiting: VecDeque<squeue::Entry>,
    /// Operations with the ring or on their way to it.
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
            buffers: None,
            waiting: VecDeque::new(),
            under_way: 0,
            events: Vec::new(),
            shares: [Way::In, Way::Out].map(|way| Shares::new(way, POOL_BYTES)),
            round: 0,
        }
    }
}

impl Sockets {
    /// Performs requests that need no waiting, and queues operations for
    /// [`next_entry`](Sockets::next_entry).
    pub(crate) fn request(&mut self, ring: &Submitter<'_>, request: NetRequest) {
        match request {
            NetRequest::Listen { listener, socket } => {
                assert_eq!(listener as usize, self.listeners.len(), "listeners come in order");
                self.listeners.push(socket);
            }
            NetRequest::Accept { listener } => self.accept(listener),
            NetRequest::Open { listener, socket } => {
                if self.buffers.is_none() {
                    self.buffers = Buffers::register(ring).ok();
                }
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
    pub(crate) fn next_entry(&mut self) -> Option<squeue::Entry> {
        self.waiting.pop_front()
    }

    /// Puts back the operation just taken.
    pub(crate) fn put_back(&mut self, entry: squeue::Entry) {
        self.waiting.push_front(entry);
    }

    /// Operations that wait for room in the ring.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Operations with the ring or on their way to it.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    /// True if there are events that the service has not taken.
    pub(crate) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Takes the events, in order.
    pub(crate) fn take_events(&mut self, into: &mut Vec<NetEvent>) {
        into.append(&mut self.events);
    }

    /// An operation has ended.
    pub(crate) fn complete(&mut self, entry: &cqueue::Entry) {
        self.under_way -= 1;
        let (kind, id) = decode(entry.user_data());
        let result = match entry.result() {
            code if code < 0 => Err(io::Error::from_raw_os_error(-code)),
            value => Ok(value as usize),
        };
        match kind {
            ACCEPT => self.accepted(id.slot, result),
            RECEIVE => self.received(id, result, entry.flags()),
            _ => self.sent(id, result),
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
        std::mem::forget(self.buffers.take());
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
        let socket = self.listeners[listener as usize].as_raw_fd();
        let accept =
            opcode::Accept::new(types::Fd(socket), std::ptr::null_mut(), std::ptr::null_mut());
        let accept = accept.flags(libc::SOCK_CLOEXEC).build();
        let id = SocketId { slot: listener, generation: 0 };
        self.push(accept, ACCEPT, id);
    }

    fn receive(&mut self, id: SocketId) {
        let Some(slot) = self.slot(id) else { return };
        assert!(!slot.receiving, "one receive of a socket at a time");
        slot.receiving = true;
        let socket = descriptor(slot);
        if self.buffers.is_none() {
            let bytes = Err(io::Error::other("no buffers for receives"));
            self.slots[id.slot as usize].receiving = false;
            self.events.push(NetEvent::Received { socket: id, bytes });
            return;
        }
        let receive = opcode::Recv::new(types::Fd(socket), std::ptr::null_mut(), 0);
        let receive = receive.buf_group(GROUP).ioprio(RECEIVE_WAITS).build();
        let receive = receive.flags(squeue::Flags::BUFFER_SELECT);
        self.push(receive, RECEIVE, id);
    }

    fn send(&mut self, id: SocketId) {
        let slot = &self.slots[id.slot as usize];
        let (bytes, sent) = slot.sending.as_ref().expect("a send is under way");
        let rest = &bytes[*sent..];
        let length = u32::try_from(rest.len()).unwrap_or(u32::MAX);
        let send = opcode::Send::new(types::Fd(descriptor(slot)), rest.as_ptr(), length);
        let send = send.flags(libc::MSG_NOSIGNAL).build();
        self.push(send, SEND, id);
    }

    fn push(&mut self, entry: squeue::Entry, kind: u64, id: SocketId) {
        let generation = u64::from(id.generation) & ((1 << GENERATION_BITS) - 1);
        let token = NETWORK | kind << 60 | generation << 32 | u64::from(id.slot);
        self.under_way += 1;
        self.waiting.push_back(entry.user_data(token));
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

    fn received(&mut self, id: SocketId, result: io::Result<usize>, flags: u32) {
        let buffer = cqueue::buffer_select(flags);
        let bytes = result.map(|length| match (buffer, &self.buffers) {
            (Some(buffer), Some(buffers)) => buffers.bytes(buffer, length).to_vec(),
            _ => Vec::new(),
        });
        if let (Some(buffer), Some(buffers)) = (buffer, &mut self.buffers) {
            buffers.give(buffer);
        }
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

fn descriptor(slot: &Slot) -> RawFd {
    slot.socket.as_ref().expect("an open slot has a socket").as_raw_fd()
}

fn decode(token: u64) -> (u64, SocketId) {
    let generation = (token >> 32) as u32 & ((1 << GENERATION_BITS) - 1);
    ((token >> 60) & 7, SocketId { slot: token as u32, generation })
}

fn interrupted<T>(result: &io::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::Interrupted)
}

/// Buffers that the kernel picks from when bytes come, so that idle connections hold none
/// (`IORING_REGISTER_PBUF_RING`).
struct Buffers {
    /// Entries of 16 bytes, whose last two of the first hold the tail.
    ring: Mapping,
    memory: Mapping,
    tail: u16,
}

impl Buffers {
    fn register(ring: &Submitter<'_>) -> io::Result<Buffers> {
        let entries = Mapping::zeroed(BUFFERS as usize * size_of::<types::BufRingEntry>())?;
        let memory = Mapping::zeroed(BUFFERS as usize * BUFFER_BYTES)?;
        let mut buffers = Buffers { ring: entries, memory, tail: 0 };
        // SAFETY: the mapping is page-aligned and large enough for the entries. It lives until the
        // ring is closed: its owner drops the ring first or leaks the buffers.
        unsafe {
            let entries = buffers.ring.base() as u64;
            ring.register_buf_ring_with_flags(entries, BUFFERS, GROUP, 0)?;
        }
        (0..BUFFERS).for_each(|buffer| buffers.give(buffer));
        Ok(buffers)
    }

    /// The bytes that the kernel has put into a buffer that it has handed over.
    fn bytes(&self, buffer: u16, length: usize) -> &[u8] {
        assert!(buffer < BUFFERS && length <= BUFFER_BYTES);
        // SAFETY: within the mapping, as checked; the kernel does not touch a buffer that it has
        // handed over until it is given back.
        unsafe {
            let start = self.memory.base().add(buffer as usize * BUFFER_BYTES);
            std::slice::from_raw_parts(start, length)
        }
    }

    /// Hands a buffer to the kernel.
    fn give(&mut self, buffer: u16) {
        assert!(buffer < BUFFERS);
        let entries: *mut types::BufRingEntry = self.ring.base().cast();
        // SAFETY: the entry at the tail is ours until the tail moves past it. Indices are masked to
        // the ring, whose size is a power of two. The tail is an aligned word in the mapping, and
        // the kernel only reads it.
        unsafe {
            let entry = &mut *entries.add((self.tail & (BUFFERS - 1)) as usize);
            entry.set_addr(self.memory.base().add(buffer as usize * BUFFER_BYTES) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(buffer);
            self.tail = self.tail.wrapping_add(1);
            let tail = types::BufRingEntry::tail(entries).cast_mut();
            std::sync::atomic::AtomicU16::from_ptr(tail)
                .store(self.tail, std::sync::atomic::Ordering::Release);
        }
    }
}
