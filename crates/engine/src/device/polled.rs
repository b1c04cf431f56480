//! Reads without interrupts: a second ring, in addition to the ring of [`uring`](super::uring). A
//! busy core looks for its completions when it enters the kernel anyway.
//!
//! Only page reads of a core that has jobs to run go there. A core with nothing to run uses the
//! first ring, which wakes it. Writes use the first ring too. A polled ring returns completions in
//! the order of submission, so a read would wait for the write before it.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use io_uring::squeue::EntryMarker;
use io_uring::{IoUring, cqueue, squeue};
use smallvec::smallvec;

use ebbtide_core::PAGE_BYTES;

use super::uring::{ENTER_GETEVENTS, Entries, Uring, UringQueue, buffer_of, buffers, moved};
use super::{Completion, Device, Direction, FrameMemory, Queue, Request, Sleeper, SocketQueue};
use crate::host::mapping::Mapping;

/// A drive with polled queues.
pub(super) struct Polled<E> {
    entries: Arc<E>,
    /// Whether the kernel may be asked to poll.
    polls: bool,
    takes_registered: bool,
}

impl<E: Entries> Polled<E> {
    /// The drive that `entries` asks, with interrupts alone unless it `polls`. Reads a page to see
    /// that it works.
    ///
    /// # Errors
    /// When io_uring is refused, or, if it `polls`, the drive has no polled queues.
    pub(super) fn new(entries: E, polls: bool) -> io::Result<Polled<E>> {
        let mut device = Polled { entries: Arc::new(entries), polls, takes_registered: true };
        device.takes_registered = device.try_read().is_ok();
        if !device.takes_registered {
            device.try_read()?;
        }
        Ok(device)
    }

    /// True if pages in registered memory are read without a look-up. Kernels before 6.12 refuse
    /// passthrough to a part of large registered memory.
    pub(super) fn takes_registered(&self) -> bool {
        self.takes_registered
    }

    /// Reads the first page of the drive.
    fn try_read(&self) -> io::Result<()> {
        let memory = Mapping::zeroed(TRIED_BYTES)?;
        let mut queue = PolledQueue::new(self, 1)?;
        // Where the kernel refuses this, it refuses the frames as well, and says so then.
        let _ = queue.register(FrameMemory { base: memory.base(), bytes: TRIED_BYTES });
        let (direction, pages) = (Direction::Read, smallvec![memory.base()]);
        queue.set_busy(true);
        // SAFETY: the mapping outlives the queue, and nothing else uses it.
        queue.push(unsafe { Request::new(direction, 0, pages, 0) });
        let mut ended = Vec::new();
        while ended.is_empty() {
            queue.submit();
            queue.reap(&mut ended);
        }
        ended.pop().map_or(Ok(()), |completion| completion.result.map(drop))
    }
}

impl<E: Entries> Device for Polled<E> {
    fn queue(&self, depth: usize) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(PolledQueue::new(self, depth)?))
    }

    fn name(&self) -> &'static str {
        if self.polls { E::POLLED_NAME } else { E::UNPOLLED_NAME }
    }

    fn polled_ring_bytes(&self, depth: usize) -> usize {
        // Entries of passthrough are twice as large, on both rings.
        let times = size_of::<E::Submission>() / size_of::<squeue::Entry>();
        (2 * times - 1) * Uring::ring_bytes(depth)
    }
}

/// Size of the registered memory that tests whether reads into large registered memory work. Some
/// kernels accept only as many pages behind the read page as a request of the drive has segments,
/// mostly 127.
const TRIED_BYTES: usize = 4 << 20;

struct PolledQueue<E: Entries> {
    /// Takes everything but the polled reads.
    calm: UringQueue<E>,
    ring: IoUring<E::Submission, E::Completion>,
    entries: Arc<E>,
    polls: bool,
    takes_registered: bool,
    depth: usize,
    /// Whether the core has jobs to run.
    busy: bool,
    /// Reads that were pushed, oldest first.
    pushed: VecDeque<Request>,
    /// Entries in the submission ring that the kernel has not taken yet.
    staged: usize,
    /// The frames, if the kernel has registered their pages.
    registered: Option<FrameMemory>,
    sleeper: Arc<PolledSleeper>,
}

impl<E: Entries> PolledQueue<E> {
    fn new(device: &Polled<E>, depth: usize) -> io::Result<PolledQueue<E>> {
        let count = u32::try_from(depth.max(2).next_power_of_two()).unwrap_or(u32::MAX);
        let ring = IoUring::<E::Submission, E::Completion>::builder()
            .setup_iopoll()
            .setup_cqsize(count.saturating_mul(2))
            .build(count)?;
        ring.submitter().register_files(&[device.entries.descriptor()])?;
        let calm = UringQueue::new(device.entries.clone(), depth)?;
        let sleeper = Arc::new(PolledSleeper {
            calm: calm.sleeper(),
            polled: AtomicUsize::new(0),
            looks_in_vain: AtomicUsize::new(0),
        });
        Ok(PolledQueue {
            calm,
            ring,
            entries: device.entries.clone(),
            polls: device.polls,
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

    /// Moves pushed requests into the polled ring, as many as there is room for.
    fn stage(&mut self) {
        while self.staged + self.polled() < self.depth {
            let Some(request) = self.pushed.pop_front() else { return };
            let page = request.pages[0];
            let buffer = buffer_of(self.registered, page);
            let mut entry = self.entries.page(Direction::Read, request.offset, page, buffer);
            entry.set_user_data(request.token);
            // SAFETY: the page stays valid until the completion, as `Request::pages` demands.
            if unsafe { self.ring.submission().push(&entry) }.is_err() {
                return self.pushed.push_front(request);
            }
            self.staged += 1;
        }
    }

    /// Submits the staged entries, polls the device for completions, and waits for `at_least` of
    /// them.
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

    /// Hands over the staged entries and polls the device.
    fn look(&mut self) {
        // Every error that is left is a misuse of the ring.
        self.enter(0).unwrap_or_else(|error| panic!("io_uring_enter: {error}"));
    }
}

// SAFETY: the memory that `registered` points to is only named to the kernel, never accessed here.
unsafe impl<E: Entries> Send for PolledQueue<E> {}

impl<E: Entries> Queue for PolledQueue<E> {
    fn register(&mut self, memory: FrameMemory) -> io::Result<()> {
        if !self.takes_registered {
            return Ok(());
        }
        self.calm.register(memory)?;
        // SAFETY: the kernel holds the pages of registered memory for itself until the ring is
        // gone, and refuses memory that is not mapped.
        unsafe { self.ring.submitter().register_buffers(&buffers(memory)) }?;
        self.registered = Some(memory);
        Ok(())
    }

    fn set_busy(&mut self, busy: bool) {
        self.busy = busy && self.polls;
    }

    fn run_pages_max(&self) -> usize {
        self.calm.run_pages_max()
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
        for entry in self.ring.completion() {
            let entry: cqueue::Entry = entry.into();
            let result = moved(&*self.entries, entry.result(), PAGE_BYTES);
            completions.push(Completion { token: entry.user_data(), result });
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

    fn sockets(&mut self) -> Option<&mut dyn SocketQueue> {
        self.calm.sockets()
    }

    fn sleeper(&self) -> Arc<dyn Sleeper> {
        self.sleeper.clone()
    }
}

/// Waits for the polled reads: their pages are the caller's again afterwards.
impl<E: Entries> Drop for PolledQueue<E> {
    fn drop(&mut self) {
        self.busy = true;
        self.pushed.clear();
        let mut ended = Vec::new();
        while self.staged + self.polled() > 0 && self.enter(1).is_ok() {
            self.reap(&mut ended);
        }
    }
}

/// A core that ran out of jobs looks for its polled reads this often before it takes naps. Each
/// look takes some microseconds, so that by then the device is slow.
const LOOKS: usize = 64;

/// A nap between looks at a slow device.
const NAP: Duration = Duration::from_micros(50);

/// Sleeps on the first ring, but not for long while polled reads are under way: nothing announces
/// them.
struct PolledSleeper {
    calm: Arc<dyn Sleeper>,
    polled: AtomicUsize,
    /// How often in a row the owner was about to sleep and no request had ended.
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
