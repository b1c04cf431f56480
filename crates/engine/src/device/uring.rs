//! The device over io_uring: submissions in batches, completions from shared memory.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::squeue::EntryMarker;
use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};

use ebbtide_core::PAGE_BYTES;

use super::{
    Completion, Device, Direction, FrameMemory, IoVecs, Queue, Request, Sleeper, SocketQueue,
};
use crate::host::wake_event::WakeEvent;
use crate::net::on_ring::{self, Buffers};
use crate::net::sockets::{Operation, Sockets};

/// The conversion of requests to entries of a ring, and of its completions to results. Requests go
/// to the ring's first file.
pub(super) trait Entries: Send + Sync + 'static {
    type Submission: squeue::EntryMarker;
    type Completion: cqueue::EntryMarker;
    /// The name of a device with polled reads in notices.
    const POLLED_NAME: &'static str;
    /// The name where the kernel does not poll for it.
    const UNPOLLED_NAME: &'static str;
    /// True if a completion reports how many bytes were moved.
    const COUNTS_BYTES: bool;

    /// The file that requests go to.
    fn descriptor(&self) -> RawFd;

    /// Moves the page at byte `offset` from or to `page`, which lies in the registered buffer
    /// `buffer`.
    fn page(
        &self,
        direction: Direction,
        offset: u64,
        page: *mut u8,
        buffer: Option<u16>,
    ) -> Self::Submission;

    /// Moves neighbouring pages between `iovecs` and the device, from byte `offset` on. The iovecs
    /// stay where they are until the completion, and lie in the registered buffer `buffer`.
    fn run(
        &self,
        direction: Direction,
        offset: u64,
        iovecs: &[libc::iovec],
        buffer: Option<u16>,
    ) -> Self::Submission;

    /// The error that the result of a completion means, if it is one.
    fn error(&self, result: i32) -> Option<io::Error>;

    /// The most pages in a request.
    fn run_pages_max(&self) -> usize {
        usize::MAX
    }

    /// Called for every write that has ended well, before its owner learns of it.
    fn note_written(&self) {}
}

/// Requests through the kernel's file systems and block layer.
pub(super) struct FileEntries {
    file: Arc<File>,
    /// Whether runs of pages may lie in registered memory (Linux 6.15 and later).
    registered_runs: bool,
}

impl FileEntries {
    /// For `file`.
    ///
    /// # Errors
    /// When this kernel or container refuses io_uring.
    pub(super) fn new(file: Arc<File>) -> io::Result<FileEntries> {
        let ring = ring::<FileEntries>(2)?;
        let mut probe = Probe::new();
        // A kernel too old to be asked knows neither.
        let registered_runs = ring.submitter().register_probe(&mut probe).is_ok()
            && probe.is_supported(opcode::ReadvFixed::CODE)
            && probe.is_supported(opcode::WritevFixed::CODE);
        Ok(FileEntries { file, registered_runs })
    }
}

impl Entries for FileEntries {
    type Submission = squeue::Entry;
    type Completion = cqueue::Entry;
    const POLLED_NAME: &'static str = "io_uring with polled reads";
    const UNPOLLED_NAME: &'static str = "io_uring";
    const COUNTS_BYTES: bool = true;

    fn descriptor(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    fn page(
        &self,
        direction: Direction,
        offset: u64,
        page: *mut u8,
        buffer: Option<u16>,
    ) -> squeue::Entry {
        let (file, bytes) = (types::Fixed(0), PAGE_BYTES as u32);
        match (direction, buffer) {
            (Direction::Read, Some(buffer)) => {
                opcode::ReadFixed::new(file, page, bytes, buffer).offset(offset).build()
            }
            (Direction::Write, Some(buffer)) => {
                opcode::WriteFixed::new(file, page, bytes, buffer).offset(offset).build()
            }
            (Direction::Read, None) => opcode::Read::new(file, page, bytes).offset(offset).build(),
            (Direction::Write, None) => {
                opcode::Write::new(file, page, bytes).offset(offset).build()
            }
        }
    }

    fn run(
        &self,
        direction: Direction,
        offset: u64,
        iovecs: &[libc::iovec],
        buffer: Option<u16>,
    ) -> squeue::Entry {
        let (file, start, count) = (types::Fixed(0), iovecs.as_ptr(), iovecs.len() as u32);
        match (direction, buffer.filter(|_| self.registered_runs)) {
            (Direction::Read, Some(buffer)) => {
                opcode::ReadvFixed::new(file, start, count, buffer).offset(offset).build()
            }
            (Direction::Write, Some(buffer)) => {
                opcode::WritevFixed::new(file, start, count, buffer).offset(offset).build()
            }
            (Direction::Read, None) => {
                opcode::Readv::new(file, start, count).offset(offset).build()
            }
            (Direction::Write, None) => {
                opcode::Writev::new(file, start, count).offset(offset).build()
            }
        }
    }

    fn error(&self, result: i32) -> Option<io::Error> {
        (result < 0).then(|| io::Error::from_raw_os_error(-result))
    }
}

/// A file or block device, opened with `O_DIRECT`, driven by one ring a core.
pub struct Uring {
    entries: Arc<FileEntries>,
}

impl Uring {
    /// The device over `file`.
    ///
    /// # Errors
    /// When this kernel or container refuses io_uring; [`threads`](super::threads) works anywhere.
    pub fn new(file: Arc<File>) -> io::Result<Uring> {
        Ok(Uring { entries: Arc::new(FileEntries::new(file)?) })
    }

    /// Bytes of the rings of a queue of `depth` requests. Each submission takes 64, and 4 for its
    /// index (`struct io_uring_sqe`). There are twice as many completions, of 16 each
    /// (`io_uring_cqe`).
    pub fn ring_bytes(depth: usize) -> usize {
        (depth + 1).next_power_of_two() * (64 + 4 + 2 * 16)
    }
}

impl Device for Uring {
    fn queue(&self, depth: usize) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(UringQueue::new(self.entries.clone(), depth)?))
    }

    fn name(&self) -> &'static str {
        FileEntries::UNPOLLED_NAME
    }
}

/// A ring. Any thread may submit and reap, one at a time.
///
/// With COOP_TASKRUN, completions wait for the owner's next system call instead of interrupting it.
/// With TASKRUN_FLAG, the ring shows that they wait. So a busy core gets many for one entry.
/// SINGLE_ISSUER is not set, because other cores help a core that computes for long.
fn ring<E: Entries>(depth: usize) -> io::Result<IoUring<E::Submission, E::Completion>> {
    let entries = u32::try_from(depth.max(2).next_power_of_two()).unwrap_or(u32::MAX);
    let cooperative = IoUring::builder()
        .setup_coop_taskrun()
        .setup_taskrun_flag()
        .setup_cqsize(entries.saturating_mul(2))
        .build(entries);
    // Kernels before 5.19 know neither flag.
    cooperative.or_else(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => IoUring::builder().build(entries),
        _ => Err(error),
    })
}

pub(super) struct UringQueue<E: Entries> {
    ring: IoUring<E::Submission, E::Completion>,
    depth: usize,
    /// Beyond `depth`, oldest first.
    overflow: VecDeque<Request>,
    /// Entries in the submission ring that the kernel has not taken yet.
    staged: usize,
    /// Requests pushed into the submission ring and not completed.
    outstanding: Outstanding<E>,
    /// The frames, if the kernel has registered their pages.
    registered: Option<FrameMemory>,
    sleeper: Arc<UringSleeper>,
    wakeup_armed: bool,
    /// After the ring: the kernel uses these until the ring is closed.
    receive_buffers: Option<Buffers>,
    sockets: Sockets,
}

/// The requests of a ring that were not seen to end.
struct Outstanding<E> {
    entries: Arc<E>,
    count: usize,
    /// Requests under way, except reads of a single page.
    kept: Vec<Option<Kept>>,
    /// The places in `kept` that are free.
    idle: Vec<u32>,
}

/// The data of a request until its completion.
struct Kept {
    token: u64,
    direction: Direction,
    bytes: usize,
    /// The description of several pages, which the kernel may look at late.
    _iovecs: Option<IoVecs>,
}

/// Marks a place in [`Outstanding::kept`] in place of a token.
const KEPT: u64 = 1 << 62;

impl<E: Entries> Outstanding<E> {
    /// The entry for `request`, which counts from now on.
    fn begin(&mut self, request: &Request, registered: Option<FrameMemory>) -> E::Submission {
        let &Request { direction, offset, token, .. } = request;
        self.count += 1;
        let buffer = buffer_of_all(registered, &request.pages);
        let (mut entry, iovecs) = if let [page] = request.pages[..] {
            (self.entries.page(direction, offset, page, buffer), None)
        } else {
            let iovecs = request.iovecs();
            (self.entries.run(direction, offset, &iovecs.0, buffer), Some(iovecs))
        };
        if direction == Direction::Read && iovecs.is_none() {
            entry.set_user_data(token);
        } else {
            let kept = Kept { token, direction, bytes: request.bytes(), _iovecs: iovecs };
            entry.set_user_data(KEPT | self.keep(kept));
        }
        entry
    }

    fn keep(&mut self, kept: Kept) -> u64 {
        let place = self.idle.pop().unwrap_or_else(|| {
            self.kept.push(None);
            self.kept.len() as u32 - 1
        });
        self.kept[place as usize] = Some(kept);
        u64::from(place)
    }

    /// Returns the completion of the request whose entry had this token, with this result.
    fn end(&mut self, token: u64, result: i32) -> Completion {
        self.count -= 1;
        if token & KEPT == 0 {
            return Completion { token, result: moved(&*self.entries, result, PAGE_BYTES) };
        }
        let place = (token & !KEPT) as u32;
        self.idle.push(place);
        let kept = self.kept[place as usize].take().expect("it is under way");
        let result = moved(&*self.entries, result, kept.bytes);
        if kept.direction == Direction::Write && result.is_ok() {
            self.entries.note_written();
        }
        Completion { token: kept.token, result }
    }
}

/// Bytes moved of the `bytes` requested, from the result in a completion.
pub(super) fn moved<E: Entries>(entries: &E, result: i32, bytes: usize) -> io::Result<usize> {
    match entries.error(result) {
        Some(error) => Err(error),
        None if E::COUNTS_BYTES => Ok(result as usize),
        None => Ok(bytes),
    }
}

/// The largest buffer that the kernel registers in one piece.
const BUFFER_BYTES_MAX: usize = 1 << 30;

/// The token of the poll on the wake-up descriptor; no request has it.
const WAKEUP: u64 = u64::MAX;

/// Splits `memory` into the pieces that the kernel registers.
pub(super) fn buffers(memory: FrameMemory) -> Vec<libc::iovec> {
    let piece = |offset| libc::iovec {
        iov_base: memory.base.wrapping_add(offset).cast(),
        iov_len: BUFFER_BYTES_MAX.min(memory.bytes - offset),
    };
    (0..memory.bytes).step_by(BUFFER_BYTES_MAX).map(piece).collect()
}

/// The number of the buffer of `registered` memory that contains `page`.
pub(super) fn buffer_of(registered: Option<FrameMemory>, page: *mut u8) -> Option<u16> {
    let frames = registered?;
    let offset = (page as usize).checked_sub(frames.base as usize)?;
    (offset < frames.bytes).then_some((offset / BUFFER_BYTES_MAX) as u16)
}

/// The number of the buffer of `registered` memory that contains all of `pages`.
fn buffer_of_all(registered: Option<FrameMemory>, pages: &[*mut u8]) -> Option<u16> {
    let buffer = buffer_of(registered, *pages.first()?)?;
    let others = &pages[1..];
    others.iter().all(|&page| buffer_of(registered, page) == Some(buffer)).then_some(buffer)
}

impl<E: Entries> UringQueue<E> {
    pub(super) fn new(entries: Arc<E>, depth: usize) -> io::Result<UringQueue<E>> {
        // One entry more for the poll on the wake-up descriptor.
        let ring = ring::<E>(depth + 1)?;
        ring.submitter().register_files(&[entries.descriptor()])?;
        let sleeper = Arc::new(UringSleeper::new(&ring)?);
        let mut queue = UringQueue {
            ring,
            depth,
            overflow: VecDeque::new(),
            staged: 0,
            outstanding: Outstanding { entries, count: 0, kept: Vec::new(), idle: Vec::new() },
            registered: None,
            sleeper,
            wakeup_armed: false,
            receive_buffers: None,
            sockets: Sockets::default(),
        };
        queue.arm_wakeup();
        queue.submit();
        Ok(queue)
    }

    fn arm_wakeup(&mut self) {
        let event = types::Fd(self.sleeper.event.as_raw_fd());
        let poll = opcode::PollAdd::new(event, libc::POLLIN as u32).build().user_data(WAKEUP);
        // SAFETY: the entry holds no pointer, and the descriptor lives as long as the ring.
        self.wakeup_armed = unsafe { self.ring.submission().push(&poll.into()) }.is_ok();
        self.staged += usize::from(self.wakeup_armed);
    }

    /// Puts operations on sockets into the submission ring, as many as there is room for.
    fn stage_sockets(&mut self) {
        while !self.ring.submission().is_full()
            && let Some(operation) = self.sockets.next_operation()
        {
            if let Operation::Receive(_) = operation
                && self.receive_buffers.is_none()
            {
                self.receive_buffers = Buffers::register(&self.ring.submitter()).ok();
                if self.receive_buffers.is_none() {
                    let error = io::Error::other("no buffers for receives");
                    self.sockets.complete(operation, Err(error), &[]);
                    continue;
                }
            }
            let entry = on_ring::entry(&self.sockets, operation);
            // SAFETY: the memory of a send belongs to `sockets`, which keeps it and the descriptor
            // until the completion. That of a receive lies in `receive_buffers`.
            let pushed = unsafe { self.ring.submission().push(&entry.into()) };
            pushed.expect("there is room");
            self.staged += 1;
        }
    }

    /// Puts a request into the submission ring if there is room for it.
    fn stage(&mut self, request: &Request) -> bool {
        if self.outstanding.count == self.depth || self.ring.submission().is_full() {
            return false;
        }
        let entry = self.outstanding.begin(request, self.registered);
        // SAFETY: the pages stay valid until the completion, as `Request::pages` demands, and their
        // description is kept until then.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("there is room");
        self.staged += 1;
        true
    }
}

// SAFETY: the memory that `registered` points to is only named to the kernel, never accessed here.
unsafe impl<E: Entries> Send for UringQueue<E> {}

impl<E: Entries> Queue for UringQueue<E> {
    fn register(&mut self, memory: FrameMemory) -> io::Result<()> {
        // SAFETY: the kernel holds the pages of registered memory for itself until the ring is
        // gone, and refuses memory that is not mapped.
        unsafe { self.ring.submitter().register_buffers(&buffers(memory)) }?;
        self.registered = Some(memory);
        Ok(())
    }

    fn push(&mut self, request: Request) {
        debug_assert!(request.token < KEPT, "this token is taken");
        if !self.overflow.is_empty() || !self.stage(&request) {
            self.overflow.push_back(request);
        }
    }

    fn submit(&mut self) {
        while let Some(request) = self.overflow.pop_front() {
            if !self.stage(&request) {
                self.overflow.push_front(request);
                break;
            }
        }
        // Entering with GETEVENTS also runs the completion work that the kernel held back.
        loop {
            self.stage_sockets();
            // SAFETY: every entry in the ring was pushed under the contract of `push`; no argument
            // structure is passed.
            let entered = unsafe {
                let count = self.staged as u32;
                self.ring.submitter().enter::<libc::sigset_t>(count, 0, ENTER_GETEVENTS, None)
            };
            match entered {
                Ok(taken) => {
                    self.staged -= taken.min(self.staged);
                    // A short submission is tried again as long as it gets anywhere.
                    if taken == 0 || self.staged == 0 {
                        return;
                    }
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // The kernel is short of memory or of completion room: later.
                    Some(libc::EAGAIN | libc::EBUSY) => return,
                    // Everything else the kernel documents is a misuse of the ring.
                    _ => panic!("io_uring_enter: {error}"),
                },
            }
        }
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        let mut woken = false;
        for entry in self.ring.completion() {
            let entry: cqueue::Entry = entry.into();
            let token = entry.user_data();
            if token == WAKEUP {
                woken = true;
            } else if let Some(operation) = Operation::of(token) {
                let buffers = &mut self.receive_buffers;
                on_ring::complete(&mut self.sockets, buffers, operation, &entry);
            } else {
                completions.push(self.outstanding.end(token, entry.result()));
            }
        }
        if woken || !self.wakeup_armed {
            self.sleeper.event.drain();
            self.arm_wakeup();
        }
    }

    fn has_held_back(&mut self) -> bool {
        self.ring.submission().taskrun()
    }

    fn run_pages_max(&self) -> usize {
        self.outstanding.entries.run_pages_max()
    }

    fn unsubmitted(&self) -> usize {
        self.staged + self.overflow.len() + self.sockets.waiting()
    }

    fn sockets(&mut self) -> Option<&mut dyn SocketQueue> {
        Some(&mut self.sockets)
    }

    fn in_flight(&self) -> usize {
        self.outstanding.count.saturating_sub(self.staged)
    }

    fn sleeper(&self) -> Arc<dyn Sleeper> {
        self.sleeper.clone()
    }
}

/// Waits for all requests: the kernel goes on moving pages after the ring is closed.
impl<E: Entries> Drop for UringQueue<E> {
    fn drop(&mut self) {
        self.overflow.clear();
        self.sockets.shut_down();
        let mut ended = Vec::new();
        while self.outstanding.count + self.sockets.under_way() > 0 {
            // SAFETY: every entry in the ring was pushed under the contract of `push`; no argument
            // structure is passed.
            let entered = unsafe {
                let count = self.staged as u32;
                self.ring.submitter().enter::<libc::sigset_t>(count, 1, ENTER_GETEVENTS, None)
            };
            match entered {
                Ok(taken) => self.staged -= taken.min(self.staged),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR | libc::EAGAIN | libc::EBUSY) => {}
                    // No way left to learn of completions.
                    _ => {
                        std::mem::forget(self.receive_buffers.take());
                        return self.sockets.leak();
                    }
                },
            }
            self.reap(&mut ended);
        }
    }
}

pub(super) const ENTER_GETEVENTS: u32 = 1;
const ENTER_EXT_ARG: u32 = 1 << 3;

/// `struct io_uring_getevents_arg` of the kernel's interface.
#[repr(C)]
struct GetEventsArgument {
    sigmask: u64,
    sigmask_bytes: u32,
    min_wait_us: u32,
    timeout: *const types::Timespec,
}

/// Sleeps inside the ring without touching its shared memory, so the sleeper holds no lock.
struct UringSleeper {
    ring: OwnedFd,
    event: WakeEvent,
}

impl UringSleeper {
    fn new(ring: &impl AsRawFd) -> io::Result<UringSleeper> {
        // SAFETY: the descriptor belongs to `ring`, which outlives this borrow.
        let ring = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) }.try_clone_to_owned()?;
        let event = WakeEvent::new()?;
        Ok(UringSleeper { ring, event })
    }
}

impl Sleeper for UringSleeper {
    fn sleep(&self, at_most: Duration) {
        let timeout = types::Timespec::from(at_most);
        let argument = GetEventsArgument {
            sigmask: 0,
            sigmask_bytes: 0,
            min_wait_us: 0,
            timeout: &raw const timeout,
        };
        // SAFETY: the descriptor is our own duplicate of the ring's, and the argument and what it
        // points to outlive the call. Every reason to return early is allowed, errors included.
        unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.ring.as_raw_fd(),
                0u32,
                1u32,
                ENTER_GETEVENTS | ENTER_EXT_ARG,
                &raw const argument,
                size_of::<GetEventsArgument>(),
            );
        }
    }

    fn wake(&self) {
        self.event.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[repr(align(4096))]
    struct Pages([[u8; PAGE_BYTES]; 3]);

    fn queue() -> Box<dyn Queue> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 2 * PAGE_BYTES]).unwrap();
        Uring::new(Arc::new(file)).unwrap().queue(4).unwrap()
    }

    /// Reads the file's pages from byte `offset` on into `pages`, in one request.
    fn read_pages(queue: &mut dyn Queue, offset: u64, pages: &[*mut u8]) {
        // SAFETY: the callers' pages are theirs alone, and this waits for the completion.
        queue.push(unsafe { Request::new(Direction::Read, offset, pages.into(), 1) });
        queue.submit();
        let mut ended = Vec::new();
        while ended.is_empty() {
            queue.sleeper().sleep(Duration::from_secs(10));
            queue.reap(&mut ended);
        }
        assert_eq!(*ended[0].result.as_ref().unwrap(), pages.len() * PAGE_BYTES);
    }

    /// Reads the file's second page into `page`.
    fn read(queue: &mut dyn Queue, page: &mut [u8; PAGE_BYTES]) {
        read_pages(queue, PAGE_BYTES as u64, &[page.as_mut_ptr()]);
        assert_eq!(*page, [7; PAGE_BYTES]);
    }

    /// Reads the file's two pages into the pages of `memory` at `places`, in one request.
    fn read_run(queue: &mut dyn Queue, memory: &mut Pages, places: [usize; 2]) {
        memory.0 = [[0; PAGE_BYTES]; 3];
        let pages = places.map(|place| memory.0[place].as_mut_ptr());
        read_pages(queue, 0, &pages);
        for (place, page) in memory.0.iter().enumerate() {
            let byte = if places.contains(&place) { 7 } else { 0 };
            assert_eq!(*page, [byte; PAGE_BYTES], "page {place} of {places:?}");
        }
    }

    #[test]
    fn a_run_is_read_within_registered_memory_and_partly_or_wholly_beside_it() {
        let mut memory = Box::new(Pages([[0; PAGE_BYTES]; 3]));
        let mut queue = queue();
        read_run(&mut *queue, &mut memory, [0, 1]);
        let base = memory.0.as_mut_ptr().cast();
        queue.register(FrameMemory { base, bytes: 2 * PAGE_BYTES }).unwrap();
        for places in [[0, 1], [1, 0], [1, 2], [2, 0]] {
            read_run(&mut *queue, &mut memory, places);
        }
    }

    #[test]
    fn a_run_lies_in_a_buffer_only_if_all_its_pages_do() {
        let page = |number: usize| std::ptr::without_provenance_mut::<u8>(number * PAGE_BYTES);
        let frames = FrameMemory { base: page(4), bytes: BUFFER_BYTES_MAX + 2 * PAGE_BYTES };
        let second = 4 + BUFFER_BYTES_MAX / PAGE_BYTES;
        let of = |pages: &[usize]| {
            let pages: Vec<_> = pages.iter().copied().map(page).collect();
            buffer_of_all(Some(frames), &pages)
        };
        assert_eq!((of(&[4, 9]), of(&[second, second + 1])), (Some(0), Some(1)));
        assert_eq!((of(&[4, second]), of(&[4, 3]), of(&[second + 2, 4])), (None, None, None));
        assert_eq!(buffer_of_all(None, &[page(4)]), None);
    }

    #[test]
    fn pages_are_read_within_registered_memory_and_beside_it() {
        let mut memory = Box::new(Pages([[0; PAGE_BYTES]; 3]));
        let mut queue = queue();
        let base = memory.0.as_mut_ptr().cast();
        queue.register(FrameMemory { base, bytes: 2 * PAGE_BYTES }).unwrap();
        memory.0.iter_mut().for_each(|page| read(&mut *queue, page));
    }

    #[test]
    fn pages_are_read_where_the_kernel_refuses_to_register_memory() {
        let mut memory = Box::new(Pages([[0; PAGE_BYTES]; 3]));
        let mut queue = queue();
        let nowhere = FrameMemory { base: std::ptr::null_mut(), bytes: PAGE_BYTES };
        queue.register(nowhere).unwrap_err();
        memory.0.iter_mut().for_each(|page| read(&mut *queue, page));
    }
}
