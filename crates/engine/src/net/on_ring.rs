//! Operations on sockets as entries of an io_uring.

use std::io;

use io_uring::{Submitter, cqueue, opcode, squeue, types};

use super::sockets::{Operation, Sockets};
use crate::host::mapping::Mapping;

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

/// The entry for an operation of `sockets`. Its memory and its descriptor belong to `sockets`,
/// which keeps them until the operation has ended. A receive takes one of the ring's [`Buffers`].
pub(crate) fn entry(sockets: &Sockets, operation: Operation) -> squeue::Entry {
    let socket = types::Fd(sockets.descriptor(operation));
    let entry = match operation {
        Operation::Accept(_) => {
            let (address, length) = (std::ptr::null_mut(), std::ptr::null_mut());
            opcode::Accept::new(socket, address, length).flags(libc::SOCK_CLOEXEC).build()
        }
        Operation::Receive(_) => {
            let receive = opcode::Recv::new(socket, std::ptr::null_mut(), 0);
            let receive = receive.buf_group(GROUP).ioprio(RECEIVE_WAITS).build();
            receive.flags(squeue::Flags::BUFFER_SELECT)
        }
        Operation::Send(id) => {
            let rest = sockets.unsent(id);
            let length = u32::try_from(rest.len()).unwrap_or(u32::MAX);
            opcode::Send::new(socket, rest.as_ptr(), length).flags(libc::MSG_NOSIGNAL).build()
        }
    };
    entry.user_data(operation.token())
}

/// Passes the end of an operation, and the bytes of a receive, from the ring to `sockets`.
pub(crate) fn complete(
    sockets: &mut Sockets,
    buffers: &mut Option<Buffers>,
    operation: Operation,
    entry: &cqueue::Entry,
) {
    let result = match entry.result() {
        code if code < 0 => Err(io::Error::from_raw_os_error(-code)),
        value => Ok(value as usize),
    };
    match (cqueue::buffer_select(entry.flags()), buffers) {
        (Some(buffer), Some(buffers)) => {
            let length = *result.as_ref().unwrap_or(&0);
            sockets.complete(operation, result, buffers.bytes(buffer, length));
            buffers.give(buffer);
        }
        _ => sockets.complete(operation, result, &[]),
    }
}

/// Buffers that the kernel picks from when bytes come, so that idle connections hold none
/// (`IORING_REGISTER_PBUF_RING`).
pub(crate) struct Buffers {
    /// Entries of 16 bytes, whose last two of the first hold the tail.
    ring: Mapping,
    memory: Mapping,
    tail: u16,
}

impl Buffers {
    pub(crate) fn register(ring: &Submitter<'_>) -> io::Result<Buffers> {
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
