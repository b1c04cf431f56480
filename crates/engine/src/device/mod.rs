//! The device seam: whole pages to and from flash, asynchronously, in batches.
//!
//! A [`Device`] is opened once and makes a [`Queue`] for every core. A queue takes requests
//! ([`Queue::push`]) without a system call, and hands them to the kernel together
//! ([`Queue::submit`]). It returns completions from shared memory ([`Queue::reap`]). Every test of
//! a failing disk injects its faults at this seam ([`faulty`]).

pub mod aio;
pub mod dma;
pub mod faulty;
mod nvme;
pub mod page_reads;
pub mod path;
mod polled;
pub mod ram;
pub mod threads;
pub mod uring;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use ebbtide_core::PAGE_BYTES;
use smallvec::SmallVec;

pub use crate::net::SocketQueue;

/// The direction in which a page moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From flash to memory.
    Read,
    /// From memory to flash.
    Write,
}

/// The memory of all frames of a cache.
#[derive(Clone, Copy, Debug)]
pub struct FrameMemory {
    /// Where it begins.
    pub base: *mut u8,
    /// How many bytes it has.
    pub bytes: usize,
}

/// The memory of the pages of a request; one, nearly always.
pub type PageList = SmallVec<[*mut u8; 1]>;

/// Pages to move between any places in memory and neighbouring places on flash.
#[derive(Clone, Debug)]
pub struct Request {
    direction: Direction,
    offset: u64,
    pages: PageList,
    token: u64,
}

impl Request {
    /// Moves `pages` in this direction. The first page lies `offset` bytes from the start of the
    /// device, a multiple of the page size. `token` comes back with the completion.
    ///
    /// # Safety
    /// Every page must be valid memory of [`PAGE_BYTES`] bytes, until the completion of a queue
    /// that the request was pushed to. It must stay in place, and no other code may write it. While
    /// a request reads into it, no other code may read it.
    pub unsafe fn new(direction: Direction, offset: u64, pages: PageList, token: u64) -> Request {
        Request { direction, offset, pages, token }
    }

    /// The direction in which the pages move.
    pub fn direction(&self) -> Direction {
        self.direction
    }

    /// Where the first page lies on the device, in bytes from its start; a multiple of the page
    /// size.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The memory of each page.
    pub fn pages(&self) -> &[*mut u8] {
        &self.pages
    }

    /// Comes back with the completion.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Bytes in the request.
    pub fn bytes(&self) -> usize {
        self.pages.len() * PAGE_BYTES
    }

    /// The request's memory in the kernel's format.
    fn iovecs(&self) -> IoVecs {
        let iovec = |page: &*mut u8| libc::iovec { iov_base: page.cast(), iov_len: PAGE_BYTES };
        IoVecs(self.pages.iter().map(iovec).collect())
    }
}

/// Pieces of memory in the kernel's format.
struct IoVecs(Box<[libc::iovec]>);

// SAFETY: as for `Request`, whose pointers these are.
unsafe impl Send for IoVecs {}

// SAFETY: a request is a message. Only the device uses the pointers in it, on any thread, under the
// contract that `Request::new` states.
unsafe impl Send for Request {}

/// The end of a request.
#[derive(Debug)]
pub struct Completion {
    /// The request's token.
    pub token: u64,
    /// Bytes moved (all of the request unless the device was short), or the error.
    pub result: io::Result<usize>,
}

/// A core's queue to a device. Other cores may drive it too, one at a time.
///
/// A dropped queue first waits for the requests that it has handed over. After that their pages
/// belong to the caller again.
pub trait Queue: Send {
    /// Registers the memory that holds the pages of nearly all requests. The kernel then need not
    /// look it up for each of them. Requests work the same without it.
    ///
    /// # Errors
    /// When the kernel refuses it, mostly because of the limit on locked memory.
    fn register(&mut self, _memory: FrameMemory) -> io::Result<()> {
        Ok(())
    }

    /// Sets whether the owner has jobs to run, or only waits for its requests. A queue that can
    /// work without interrupts does so for a busy owner.
    fn set_busy(&mut self, _busy: bool) {}

    /// The most pages in a request. One with more may fail.
    fn run_pages_max(&self) -> usize {
        usize::MAX
    }

    /// Takes a request without handing it over yet.
    fn push(&mut self, request: Request);

    /// Hands over the pushed requests. Some may stay behind when the device is full: submit again
    /// after a completion.
    fn submit(&mut self);

    /// Appends the completions there are, without waiting.
    fn reap(&mut self, completions: &mut Vec<Completion>);

    /// Whether completions may be held back until the next [`submit`](Queue::submit).
    fn has_held_back(&mut self) -> bool {
        false
    }

    /// Requests pushed but not handed over.
    fn unsubmitted(&self) -> usize;

    /// Requests handed over but not completed.
    fn in_flight(&self) -> usize;

    /// The sockets that this queue drives as well, if it can.
    fn sockets(&mut self) -> Option<&mut dyn SocketQueue> {
        None
    }

    /// How the owner of the queue sleeps and is woken.
    fn sleeper(&self) -> Arc<dyn Sleeper>;
}

/// Lets the owner of a queue sleep until something completes, time is up, or another thread calls.
pub trait Sleeper: Send + Sync {
    /// Sleeps until a completion is there, [`wake`](Sleeper::wake) is called (also if it was called
    /// before), or `at_most` is over. May return early.
    fn sleep(&self, at_most: Duration);
    /// Ends the sleep, from any thread.
    fn wake(&self);
}

/// How the log reaches flash: by one write or flush at a time, which the caller waits for.
pub trait LogWrites: Send {
    /// Writes `bytes`, whole pages, at byte `offset`. With `through`, they must get past a volatile
    /// cache, and a flush follows. A drive that can write through makes these bytes survive a loss
    /// of power at once, so the flush has less to do.
    ///
    /// # Errors
    /// When the device fails; it may then hold any part of it.
    fn write(&mut self, offset: u64, bytes: &[u8], through: bool) -> io::Result<()>;

    /// Makes all that was written to the device survive a loss of power.
    ///
    /// # Errors
    /// When the device fails.
    fn flush(&mut self) -> io::Result<()>;
}

impl LogWrites for Arc<File> {
    fn write(&mut self, offset: u64, bytes: &[u8], _through: bool) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Flash: where pages live.
pub trait Device: Send + Sync {
    /// A queue for one core with room for `depth` requests at once.
    ///
    /// # Errors
    /// When the kernel refuses it.
    fn queue(&self, depth: usize) -> io::Result<Box<dyn Queue>>;

    /// Returns a separate writer for the log, or `None` if writes and flushes of the file suffice.
    ///
    /// # Errors
    /// When the kernel or the drive refuses it.
    fn log_writes(&self) -> io::Result<Option<Box<dyn LogWrites>>> {
        Ok(None)
    }

    /// What this device is called in notices: "io_uring", "threads", …
    fn name(&self) -> &'static str;

    /// Bytes that a queue of this depth takes beyond the ring of an ordinary one.
    fn polled_ring_bytes(&self, _depth: usize) -> usize {
        0
    }
}
