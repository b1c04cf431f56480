//! The device over Linux AIO (io_submit(2)), and sockets by readiness, for systems that refuse
//! io_uring, as containers do by default.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use super::{Completion, Device, Direction, IoVecs, Queue, Request, Sleeper, SocketQueue};
use crate::host::wake_event::WakeEvent;
use crate::net::epoll::Epoll;
use crate::net::sockets::Sockets;

/// A file or block device, opened with `O_DIRECT`, driven by one context of Linux AIO a core.
pub struct Aio {
    file: Arc<File>,
}

impl Aio {
    /// The device over `file`.
    ///
    /// # Errors
    /// When this kernel or container refuses Linux AIO; [`threads`](super::threads) works anywhere.
    pub fn new(file: Arc<File>) -> io::Result<Aio> {
        Context::new(1)?;
        Ok(Aio { file })
    }
}

impl Device for Aio {
    fn queue(&self, depth: usize) -> io::Result<Box<dyn Queue>> {
        let epoll = Epoll::new()?;
        let sleeper = Arc::new(ReadinessSleeper::new(&epoll)?);
        Ok(Box::new(AioQueue {
            file: self.file.clone(),
            context: Context::new(depth)?,
            depth,
            staged: VecDeque::new(),
            in_flight: 0,
            refused: Vec::new(),
            sleeper,
            epoll,
            sockets: Sockets::default(),
        }))
    }

    fn name(&self) -> &'static str {
        "Linux AIO"
    }
}

/// `struct iocb` of the kernel's interface (linux/aio_abi.h), on little-endian machines.
#[repr(C)]
struct ControlBlock {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    count: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_descriptor: u32,
}

/// `IOCB_CMD_PREADV` and `IOCB_CMD_PWRITEV`.
const READ: u16 = 7;
const WRITE: u16 = 8;

/// `IOCB_FLAG_RESFD`: an eventfd counts the completion.
const NOTIFIES: u32 = 1;

/// `struct io_event` of the kernel's interface.
#[repr(C)]
#[derive(Clone, Copy)]
struct Event {
    data: u64,
    block: u64,
    result: i64,
    result2: i64,
}

/// Completions taken from the kernel in one call.
const EVENTS: usize = 64;

/// A context of Linux AIO. When it is dropped, the kernel waits for the requests under way.
struct Context(libc::c_ulong);

impl Context {
    fn new(depth: usize) -> io::Result<Context> {
        let mut context: libc::c_ulong = 0;
        let depth = libc::c_uint::try_from(depth).unwrap_or(libc::c_uint::MAX);
        // SAFETY: the kernel writes the context's number, which must be zero before.
        match unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut context) } {
            0 => Ok(Context(context)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Hands over requests, and returns how many the kernel has taken.
    ///
    /// # Safety
    /// The memory that the blocks name must be as [`Request::new`] demands.
    unsafe fn submit(&self, blocks: &[ControlBlock]) -> io::Result<usize> {
        let pointers: Vec<*const ControlBlock> = blocks.iter().map(std::ptr::from_ref).collect();
        let count = pointers.len() as libc::c_long;
        // SAFETY: the kernel copies the blocks and their iovecs, which outlive the call.
        let taken = unsafe { libc::syscall(libc::SYS_io_submit, self.0, count, pointers.as_ptr()) };
        usize::try_from(taken).map_err(|_| io::Error::last_os_error())
    }

    /// Takes completions without waiting, and returns their number.
    fn events(&self, events: &mut [Event; EVENTS]) -> usize {
        let mut at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let (least, most) = (0 as libc::c_long, EVENTS as libc::c_long);
        // SAFETY: the kernel writes at most as many events as there is room for.
        let found = unsafe {
            let events = events.as_mut_ptr();
            libc::syscall(libc::SYS_io_getevents, self.0, least, most, events, &raw mut at_once)
        };
        // Its only error here is an interruption, after which the next call finds the events.
        usize::try_from(found).unwrap_or(0)
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: nothing uses the context any more. An error would mean that it does not exist.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

struct AioQueue {
    file: Arc<File>,
    context: Context,
    depth: usize,
    /// Pushed and not handed over, oldest first.
    staged: VecDeque<Request>,
    in_flight: usize,
    /// Completions of requests that the kernel did not take.
    refused: Vec<Completion>,
    sleeper: Arc<ReadinessSleeper>,
    epoll: Epoll,
    sockets: Sockets,
}

impl AioQueue {
    fn block(&self, request: &Request, iovecs: &IoVecs) -> ControlBlock {
        ControlBlock {
            data: request.token,
            key: 0,
            rw_flags: 0,
            opcode: if request.direction == Direction::Read { READ } else { WRITE },
            priority: 0,
            descriptor: self.file.as_raw_fd() as u32,
            buffer: iovecs.0.as_ptr() as u64,
            count: iovecs.0.len() as u64,
            offset: request.offset as i64,
            reserved: 0,
            flags: NOTIFIES,
            event_descriptor: self.sleeper.event.as_raw_fd() as u32,
        }
    }

    /// Hands over requests for pages, as many as there is room for.
    fn submit_pages(&mut self) {
        while self.in_flight < self.depth && !self.staged.is_empty() {
            let batch = self.staged.len().min(self.depth - self.in_flight);
            let requests = self.staged.iter().take(batch);
            let iovecs: Vec<IoVecs> = requests.clone().map(Request::iovecs).collect();
            let blocks: Vec<ControlBlock> = requests
                .zip(&iovecs)
                .map(|(request, iovecs)| self.block(request, iovecs))
                .collect();
            // SAFETY: the pages stay valid until the completion, as `Request::new` demands.
            match unsafe { self.context.submit(&blocks) } {
                Ok(taken) => {
                    self.staged.drain(..taken);
                    self.in_flight += taken;
                    if taken == 0 {
                        return;
                    }
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // The kernel is short of memory or of room: later.
                    Some(libc::EAGAIN) => return,
                    // The first request alone is refused.
                    _ => {
                        let request = self.staged.pop_front().expect("a request was handed over");
                        self.in_flight += 1;
                        self.refused.push(Completion { token: request.token, result: Err(error) });
                    }
                },
            }
        }
    }
}

impl Queue for AioQueue {
    fn push(&mut self, request: Request) {
        self.staged.push_back(request);
    }

    fn submit(&mut self) {
        self.submit_pages();
        self.epoll.perform(&mut self.sockets);
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        let before = completions.len();
        completions.append(&mut self.refused);
        let mut count = if completions.len() - before < self.in_flight { EVENTS } else { 0 };
        while count == EVENTS {
            let mut events = [Event { data: 0, block: 0, result: 0, result2: 0 }; EVENTS];
            count = self.context.events(&mut events);
            completions.extend(events[..count].iter().map(|event| {
                let result = usize::try_from(event.result);
                let result = result.map_err(|_| io::Error::from_raw_os_error(-event.result as i32));
                Completion { token: event.data, result }
            }));
        }
        self.in_flight -= completions.len() - before;
        self.epoll.poll(&mut self.sockets);
    }

    fn unsubmitted(&self) -> usize {
        self.staged.len() + self.sockets.waiting()
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn sockets(&mut self) -> Option<&mut dyn SocketQueue> {
        Some(&mut self.sockets)
    }

    fn sleeper(&self) -> Arc<dyn Sleeper> {
        self.sleeper.clone()
    }
}

/// Sleeps until a socket is ready or the eventfd of completions and calls counts.
struct ReadinessSleeper {
    sockets: OwnedFd,
    event: WakeEvent,
}

impl ReadinessSleeper {
    fn new(epoll: &Epoll) -> io::Result<ReadinessSleeper> {
        let sockets = epoll.readiness().try_clone_to_owned()?;
        Ok(ReadinessSleeper { sockets, event: WakeEvent::new()? })
    }
}

impl Sleeper for ReadinessSleeper {
    fn sleep(&self, at_most: Duration) {
        let watch = |watched: &dyn AsRawFd| {
            let fd = watched.as_raw_fd();
            libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
        };
        let mut watched = [watch(&self.event), watch(&self.sockets)];
        let timeout = libc::timespec {
            tv_sec: at_most.as_secs().try_into().unwrap_or(libc::time_t::MAX),
            tv_nsec: at_most.subsec_nanos().into(),
        };
        let (first, number) = (watched.as_mut_ptr(), watched.len() as libc::nfds_t);
        // SAFETY: the descriptors are our own, and the kernel reads the timeout and writes into
        // `watched`. Every reason to return early is allowed. The events of sockets stay for the
        // queue, because poll takes none.
        unsafe { libc::ppoll(first, number, &raw const timeout, std::ptr::null()) };
        if watched[0].revents != 0 {
            self.event.drain();
        }
    }

    fn wake(&self) {
        self.event.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;
    use crate::net::{NetEvent, NetRequest};

    /// Sleeps and reaps until there is an event, and returns it.
    fn next_event(queue: &mut dyn Queue) -> NetEvent {
        let mut events = Vec::new();
        while events.is_empty() {
            queue.submit();
            queue.sleeper().sleep(Duration::from_millis(10));
            queue.reap(&mut Vec::new());
            queue.sockets().expect("it has sockets").take_events(&mut events);
        }
        events.pop().expect("an event")
    }

    #[test]
    fn bytes_that_no_receive_waits_for_end_one_sleep_and_not_the_next() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let mut queue = Aio::new(file).unwrap().queue(4).unwrap();
        let (mut client, served) = UnixStream::pair().unwrap();
        let ask = |queue: &mut dyn Queue, request| {
            queue.sockets().expect("it has sockets").request(&mut vec![request]);
        };
        ask(&mut *queue, NetRequest::Open { listener: 0, socket: served.into() });
        let NetEvent::Opened { socket, .. } = next_event(&mut *queue) else { panic!("not opened") };
        for byte in [1u8, 2] {
            ask(&mut *queue, NetRequest::Receive(socket));
            client.write_all(&[byte]).unwrap();
            let NetEvent::Received { bytes, .. } = next_event(&mut *queue) else {
                panic!("not received");
            };
            assert_eq!(bytes.unwrap(), [byte]);
        }
        client.write_all(&[3]).unwrap();
        queue.sleeper().sleep(Duration::from_secs(10));
        queue.reap(&mut Vec::new());
        let (before, least) = (Instant::now(), Duration::from_millis(30));
        queue.sleeper().sleep(least);
        assert!(before.elapsed() >= least);
        ask(&mut *queue, NetRequest::Receive(socket));
        let NetEvent::Received { bytes, .. } = next_event(&mut *queue) else { panic!("nothing") };
        assert_eq!(bytes.unwrap(), [3]);
    }
}
