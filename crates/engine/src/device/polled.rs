//! Reads without interrupts: a second ring, beside that of [`uring`](super::uring), whose completions a
//! busy core looks for when it enters the kernel anyway.
//!
//! Only reads of a page go there, and only those of a core that has jobs to run. A core with nothing to
//! run asks by the first ring, which wakes it. Writes go by the first ring too: a polled ring gives
//! completions back in the order of submission, so that a read would wait for the write before it.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ebbtide_core::PAGE_BYTES;
use io_uring::{IoUring, cqueue, opcode, squeue, types};
use smallvec::smallvec;

use super::uring::{ENTER_GETEVENTS, Uring, UringQueue, buffer_of, buffers};
use super::{Completion, Device, Direction, FrameMemory, Queue, Request, Sleeper};
use crate::mapping::Mapping;
use crate::net::{NetEvent, NetRequest};

/// How a page is asked for on a ring without interrupts. The ring's first file is the one asked.
pub(super) trait PageRead: Send + Sync + 'static {
    type Submission: squeue::EntryMarker;
    type Completion: cqueue::EntryMarker;
    /// What the device is called in notices.
    const NAME: &'static str;

    /// The file that is asked.
    fn descriptor(&self) -> RawFd;

    /// Reads the page at byte `offset` into `page`, which lies in the registered buffer `buffer`.
    fn entry(&self, page: *mut u8, offset: u64, buffer: Option<u16>) -> Self::Submission;

    /// The bytes moved, from the result in the completion.
    fn moved(&self, result: i32) -> io::Result<usize>;
}

/// Reads through the kernel's block layer.
pub(super) struct BlockRead(Arc<File>);

impl PageRead for BlockRead {
    type Submission = squeue::Entry;
    type Completion = cqueue::Entry;
    const NAME: &'static str = "io_uring with polled reads";

    fn descriptor(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    fn entry(&self, page: *mut u8, offset: u64, buffer: Option<u16>) -> squeue::Entry {
        let (file, bytes) = (types::Fixed(0), PAGE_BYTES as u32);
        match buffer {
            Some(buffer) => {
                opcode::ReadFixed::new(file, page, bytes, buffer).offset(offset).build()
            }
            None => opcode::Read::new(file, page, bytes).offset(offset).build(),
        }
    }

    fn moved(&self, result: i32) -> io::Result<usize> {
        usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
    }
}

/// A block device with polled queues, or what is asked in its place.
pub(super) struct Polled<R> {
    uring: Uring,
    read: Arc<R>,
    takes_registered: bool,
}

impl Polled<BlockRead> {
    /// The device over the block device `file`, which was opened with `O_DIRECT`.
    ///
    /// # Errors
    /// When io_uring is refused, or the device has no polled queues.
    pub(super) fn block(file: Arc<File>) -> io::Result<impl Device> {
        Polled::new(file.clone(), BlockRead(file))
    }
}

impl<R: PageRead> Polled<R> {
    /// Asks by `read`, and otherwise `file`. Reads a page to see that it works.
    pub(super) fn new(file: Arc<File>, read: R) -> io::Result<Polled<R>> {
        let (uring, read) = (Uring::new(file)?, Arc::new(read));
        let mut device = Polled { uring, read, takes_registered: true };
        device.takes_registered = device.try_read().is_ok();
        if !device.takes_registered {
            device.try_read()?;
        }
        Ok(device)
    }

    /// Whether pages in registered memory are read without looking them up. Kernels before 6.12 refuse
    /// passthrough to a part of much registered memory.
    pub(super) fn takes_registered(&self) -> bool {
        self.takes_registered
    }

    /// Reads the first page of the drive.
    fn try_read(&self) -> io::Result<()> {
        let memory = Mapping::zeroed(TRIED_BYTES)?;
        let mut queue = PolledQueue::new(self, 1)?;
        queue.register(FrameMemory { base: memory.base(), bytes: TRIED_BYTES })?;
        let (direction, pages) = (Direction::Read, smallvec![memory.base()]);
        queue.set_busy(true);
        queue.push(Request { direction, offset: 0, pages, token: 0 });
        let mut ended = Vec::new();
        while ended.is_empty() {
            queue.submit();
            queue.reap(&mut ended);
        }
        ended.pop().map_or(Ok(()), |completion| completion.result.map(drop))
    }
}

impl<R: PageRead> Device for Polled<R> {
    fn queue(&self, depth: usize) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(PolledQueue::new(self, depth)?))
    }

    fn name(&self) -> &'static str {
        R::NAME
    }

    fn polled_ring_bytes(&self, depth: usize) -> usize {
        // Entries of passthrough are twice as large.
        2 * Uring::ring_bytes(depth)
    }
}

/// As much registered memory as shows whether a page of much of it is read: some kernels take as many
/// pages behind it as a request of the drive has segments, mostly 127, and no more.
const TRIED_BYTES: usize = 4 << 20;

struct PolledQueue<R: PageRead> {
    /// Takes everything but the polled reads.
    calm: UringQueue,
    ring: IoUring<R::Submission, R::Completion>,
    read: Arc<R>,
    takes_registered: bool,
    depth: usize,
    /// Whether the core has jobs to run.
    busy: bool,
    /// Reads that were pushed, oldest first.
    pushed: VecDeque<Request>,
    /// Entries in the submission ring that the kernel has not taken yet.
    staged: usize,
    /// The frames, if the kernel has their pages at hand.
    registered: Option<FrameMemory>,
    sleeper: Arc<PolledSleeper>,
}

impl<R: PageRead> PolledQueue<R> {
    fn new(device: &Polled<R>, depth: usize) -> io::Result<PolledQueue<R>> {
        let entries = u32::try_from(depth.max(2).next_power_of_two()).unwrap_or(u32::MAX);
        let ring = IoUring::<R::Submission, R::Completion>::builder()
            .setup_iopoll()
            .setup_cqsize(entries.saturating_mul(2))
            .build(entries)?;
        ring.submitter().register_files(&[device.read.descriptor()])?;
        let calm = device.uring.ring_queue(depth)?;
        let sleeper = Arc::new(PolledSleeper {
            calm: calm.sleeper(),
            polled: AtomicUsize::new(0),
            looks_in_vain: AtomicUsize::new(0),
        });
        Ok(PolledQueue {
            calm,
            ring,
            read: device.read.clone(),
            takes_registered: device.takes_registered,
            depth,
            busy: false,
            pushed: VecDeque::new(),
            staged: 0,
            registered: None,
            sleeper,
        })
    }

    /// Polled reads that the kernel has and that were not seen to end.
    fn polled(&self) -> usize {
        self.sleeper.polled.load(Ordering::Relaxed)
    }

    /// Puts what was pushed into the polled ring, as much as there is room for.
    fn stage(&mut self) {
        while self.staged + self.polled() < self.depth {
            let Some(request) = self.pushed.pop_front() else { return };
            let page = request.pages[0];
            let mut entry = self.read.entry(page, request.offset, buffer_of(self.registered, page));
            squeue::EntryMarker::set_user_data(&mut entry, request.token);
            // SAFETY: the page stays valid until the completion, as `Request::pages` demands.
            if unsafe { self.ring.submission().push(&entry) }.is_err() {
                return self.pushed.push_front(request);
            }
            self.staged += 1;
        }
    }

    /// Hands over what is staged, looks at the device for what it has completed, and waits for
    /// `at_least` completions.
    fn enter(&mut self, at_least: u32) -> io::Result<()> {
        loop {
            // SAFETY: every entry in the ring was pushed under the contract of `push`; no argument
            // structure is passed.
            let entered = unsafe {
                let count = self.staged as u32;
                let submitter = self.ring.submitter();
                submitter.enter::<libc::sigset_t>(count, at_least, ENTER_GETEVENTS, None)
            };
            match entered {
                Ok(taken) => {
                    let taken = taken.min(self.staged);
                    self.staged -= taken;
                    self.sleeper.polled.fetch_add(taken, Ordering::Relaxed);
                    // A short submission is tried again as long as it gets anywhere.
                    if taken == 0 || self.staged == 0 {
                        return Ok(());
                    }
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // The kernel is short of memory or of completion room: later.
                    Some(libc::EAGAIN | libc::EBUSY) => return Ok(()),
                    _ => return Err(error),
                },
            }
        }
    }

    /// Hands over what is staged and looks at the device.
    fn look(&mut self) {
        // Every error that is left is a misuse of the ring.
        self.enter(0).unwrap_or_else(|error| panic!("io_uring_enter: {error}"));
    }
}

// SAFETY: the memory that `registered` points to is only named to the kernel, never accessed here.
unsafe impl<R: PageRead> Send for PolledQueue<R> {}

impl<R: PageRead> Queue for PolledQueue<R> {
    fn register(&mut self, memory: FrameMemory) -> io::Result<()> {
        self.calm.register(memory)?;
        if !self.takes_registered {
            return Ok(());
        }
        // SAFETY: the kernel holds the pages of registered memory for itself until the ring is gone,
        // and refuses memory that is not mapped.
        unsafe { self.ring.submitter().register_buffers(&buffers(memory)) }?;
        self.registered = Some(memory);
        Ok(())
    }

    fn set_busy(&mut self, busy: bool) {
        self.busy = busy;
    }

    fn push(&mut self, request: Request) {
        if request.direction == Direction::Read && request.pages.len() == 1 {
            self.pushed.push_back(request);
        } else {
            self.calm.push(request);
        }
    }

    fn submit(&mut self) {
        if self.busy {
            self.stage();
        } else {
            self.pushed.drain(..).for_each(|request| self.calm.push(request));
        }
        if self.staged + self.polled() > 0 {
            self.look();
        }
        if self.calm.unsubmitted() > 0 || self.calm.has_held_back() {
            self.calm.submit();
        }
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        if !self.busy && self.polled() > 0 {
            // Nothing else would look for them soon.
            self.look();
        }
        let before = completions.len();
        for completion in self.ring.completion() {
            let token = cqueue::EntryMarker::user_data(&completion);
            let entry: cqueue::Entry = completion.into();
            completions.push(Completion { token, result: self.read.moved(entry.result()) });
        }
        let ended = completions.len() - before;
        if ended > 0 {
            self.sleeper.polled.fetch_sub(ended, Ordering::Relaxed);
            self.sleeper.looks_in_vain.store(0, Ordering::Relaxed);
        }
        self.calm.reap(completions);
    }

    fn has_held_back(&mut self) -> bool {
        // A core that is not busy has looked when it reaped.
        self.calm.has_held_back() || (self.busy && self.polled() > 0)
    }

    fn unsubmitted(&self) -> usize {
        self.pushed.len() + self.staged + self.calm.unsubmitted()
    }

    fn in_flight(&self) -> usize {
        self.polled() + self.calm.in_flight()
    }

    fn has_network(&self) -> bool {
        self.calm.has_network()
    }

    fn request_network(&mut self, requests: &mut Vec<NetRequest>) {
        self.calm.request_network(requests);
    }

    fn has_network_events(&self) -> bool {
        self.calm.has_network_events()
    }

    fn take_network_events(&mut self, into: &mut Vec<NetEvent>) {
        self.calm.take_network_events(into);
    }

    fn sleeper(&self) -> Arc<dyn Sleeper> {
        self.sleeper.clone()
    }
}

/// Waits for the polled reads: their pages are the caller's again afterwards.
impl<R: PageRead> Drop for PolledQueue<R> {
    fn drop(&mut self) {
        self.busy = true;
        self.pushed.clear();
        let mut ended = Vec::new();
        while self.staged + self.polled() > 0 && self.enter(1).is_ok() {
            self.reap(&mut ended);
        }
    }
}

/// A core that ran out of jobs looks for its polled reads this often before it takes naps. Each look
/// takes some microseconds, so that by then the device is slow.
const LOOKS: usize = 64;

/// A nap between looks at a slow device.
const NAP: Duration = Duration::from_micros(50);

/// Sleeps on the first ring, but not for long while polled reads are under way: nothing announces them.
struct PolledSleeper {
    calm: Arc<dyn Sleeper>,
    polled: AtomicUsize,
    /// How often in a row the owner was about to sleep and nothing had been completed.
    looks_in_vain: AtomicUsize,
}

impl Sleeper for PolledSleeper {
    fn sleep(&self, at_most: Duration) {
        if self.polled.load(Ordering::Relaxed) == 0 {
            self.calm.sleep(at_most);
        } else if self.looks_in_vain.fetch_add(1, Ordering::Relaxed) >= LOOKS {
            self.calm.sleep(at_most.min(NAP));
        }
    }

    fn wake(&self) {
        self.calm.wake();
    }
}
