//! A device without cost for its host: memory that answers after a set time. A thread of its own
//! moves the bytes in place of a drive's DMA engine.
//!
//! The core that misses makes no system call, takes no interrupt and copies nothing. So the
//! remaining cost is the engine's own. The thread spins while requests are under way, so it needs a
//! CPU in addition to the cores.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ebbtide_core::{PAGE_BYTES, PageId};
use parking_lot::{Condvar, Mutex};

use super::{Completion, Device, Direction, Queue, Request, Sleeper};
use crate::host::affinity;
use crate::host::mapping::Mapping;

/// The name of the thread that moves pages.
pub const MOVER: &str = "dma-device";

/// Memory behind the device seam, moved by a thread of its own.
pub struct Dma {
    mover: Arc<Mover>,
}

/// The thread that moves pages; it ends with the last queue, which may outlive the device.
struct Mover {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    memory: Mapping,
    pages: usize,
    latency: Duration,
    links: Mutex<Vec<Arc<Link>>>,
    /// Requests under way in all queues.
    under_way: AtomicUsize,
    parked: Mutex<bool>,
    work: Condvar,
    closing: AtomicBool,
}

/// The state that a queue and the mover share.
#[derive(Default)]
struct Link {
    submitted: Mutex<Vec<(Request, Instant)>>,
    completions: Mutex<Vec<Completion>>,
    sleeper: Arc<LinkSleeper>,
}

impl Dma {
    /// A device of `pages` pages, each with the contents that `image` writes. It answers `latency`
    /// after a request was handed over. Its thread runs on `cpus`. If there are none, the kernel
    /// decides.
    ///
    /// # Errors
    /// When there is too little memory, or no thread can be started.
    pub fn new(
        pages: u64,
        latency: Duration,
        cpus: &[usize],
        image: &(dyn Fn(PageId, &mut [u8; PAGE_BYTES]) + Sync),
    ) -> io::Result<Dma> {
        let memory = Mapping::filled(pages, image)?;
        let shared = Arc::new(Shared {
            memory,
            pages: pages as usize,
            latency,
            links: Mutex::default(),
            under_way: AtomicUsize::new(0),
            parked: Mutex::new(false),
            work: Condvar::new(),
            closing: AtomicBool::new(false),
        });
        let (serving, cpus) = (shared.clone(), cpus.to_vec());
        let serve = move || {
            // Refused, it costs speed only.
            let _ = affinity::confine(&cpus);
            serving.serve();
        };
        let thread = std::thread::Builder::new().name(MOVER.into()).spawn(serve)?;
        Ok(Dma { mover: Arc::new(Mover { shared, thread: Some(thread) }) })
    }

    /// Memory that the pages take, in bytes. It represents the drive, not used DRAM.
    pub fn bytes(&self) -> u64 {
        (self.mover.shared.pages * PAGE_BYTES) as u64
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        self.shared.rouse();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the mover does not panic");
        }
    }
}

impl Device for Dma {
    fn queue(&self, _depth: usize) -> io::Result<Box<dyn Queue>> {
        let link = Arc::new(Link::default());
        self.mover.shared.links.lock().push(link.clone());
        let mover = self.mover.clone();
        Ok(Box::new(DmaQueue { mover, link, staged: Vec::new(), in_flight: 0 }))
    }

    fn name(&self) -> &'static str {
        "memory with a latency"
    }
}

impl Shared {
    fn rouse(&self) {
        let mut parked = self.parked.lock();
        if *parked {
            *parked = false;
            self.work.notify_one();
        }
    }

    /// Moves pages until the device is closed and nothing is under way.
    fn serve(&self) {
        let mut pending: VecDeque<(Arc<Link>, Request, Instant)> = VecDeque::new();
        loop {
            if self.under_way.load(Ordering::Acquire) == 0 {
                if self.closing.load(Ordering::Acquire) {
                    return;
                }
                let mut parked = self.parked.lock();
                if self.under_way.load(Ordering::Acquire) == 0
                    && !self.closing.load(Ordering::Acquire)
                {
                    *parked = true;
                    self.work.wait(&mut parked);
                }
                continue;
            }
            for link in self.links.lock().iter() {
                let Some(mut submitted) = link.submitted.try_lock() else { continue };
                pending
                    .extend(submitted.drain(..).map(|(request, at)| (link.clone(), request, at)));
            }
            match pending.front() {
                Some((_, _, at)) if at.elapsed() >= self.latency => {
                    let (link, request, _) = pending.pop_front().expect("it was there just now");
                    let completion = self.transfer(&request);
                    link.completions.lock().push(completion);
                    self.under_way.fetch_sub(1, Ordering::AcqRel);
                    link.sleeper.completed();
                }
                _ => std::hint::spin_loop(),
            }
        }
    }

    fn transfer(&self, request: &Request) -> Completion {
        let first = request.offset as usize / PAGE_BYTES;
        let count = request.pages.len().min(self.pages.saturating_sub(first));
        for (&memory, page) in request.pages.iter().zip(first..first + count) {
            // SAFETY: the page lies within the mapping, which only this thread touches.
            let stored = unsafe { self.memory.base().add(page * PAGE_BYTES) };
            // SAFETY: the request's pages are valid and ours until the completion, as
            // `Request::pages` demands, and they are not part of this device.
            unsafe {
                match request.direction {
                    Direction::Read => memory.copy_from_nonoverlapping(stored, PAGE_BYTES),
                    Direction::Write => stored.copy_from_nonoverlapping(memory, PAGE_BYTES),
                }
            }
        }
        Completion { token: request.token, result: Ok(count * PAGE_BYTES) }
    }
}

struct DmaQueue {
    mover: Arc<Mover>,
    link: Arc<Link>,
    staged: Vec<Request>,
    in_flight: usize,
}

impl Queue for DmaQueue {
    fn push(&mut self, request: Request) {
        self.staged.push(request);
    }

    fn submit(&mut self) {
        if self.staged.is_empty() {
            return;
        }
        let (now, count) = (Instant::now(), self.staged.len());
        self.in_flight += count;
        self.link.submitted.lock().extend(self.staged.drain(..).map(|request| (request, now)));
        if self.mover.shared.under_way.fetch_add(count, Ordering::AcqRel) == 0 {
            self.mover.shared.rouse();
        }
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        let news_there = &self.link.sleeper.news_there;
        // A swap takes the line from the mover also when there is nothing.
        if news_there.load(Ordering::Relaxed) && news_there.swap(false, Ordering::AcqRel) {
            let mut ended = self.link.completions.lock();
            self.in_flight -= ended.len();
            completions.append(&mut ended);
        }
    }

    fn unsubmitted(&self) -> usize {
        self.staged.len()
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn sleeper(&self) -> Arc<dyn Sleeper> {
        self.link.sleeper.clone()
    }
}

impl Drop for DmaQueue {
    fn drop(&mut self) {
        // The memory of a request under way is the caller's again only after the request has ended.
        let mut ended = Vec::new();
        while self.in_flight > 0 {
            self.reap(&mut ended);
            std::thread::yield_now();
        }
        self.mover.shared.links.lock().retain(|link| !Arc::ptr_eq(link, &self.link));
    }
}

/// How a queue's owner sleeps until a completion or a call.
#[derive(Default)]
struct LinkSleeper {
    /// True if there are completions. Read without a lock.
    news_there: AtomicBool,
    asleep: AtomicBool,
    called: Mutex<bool>,
    call: Condvar,
}

impl LinkSleeper {
    fn completed(&self) {
        self.news_there.store(true, Ordering::SeqCst);
        // Either this sees the sleeper, or the sleeper sees the news.
        if self.asleep.load(Ordering::SeqCst) {
            self.wake();
        }
    }
}

impl Sleeper for LinkSleeper {
    fn sleep(&self, at_most: Duration) {
        let mut called = self.called.lock();
        self.asleep.store(true, Ordering::SeqCst);
        if !*called && !self.news_there.load(Ordering::SeqCst) {
            self.call.wait_for(&mut called, at_most);
        }
        *called = false;
        self.asleep.store(false, Ordering::SeqCst);
    }

    fn wake(&self) {
        *self.called.lock() = true;
        self.call.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    #[repr(align(4096))]
    struct Page([u8; PAGE_BYTES]);

    #[test]
    fn pages_move_both_ways_after_the_latency_though_the_device_is_gone() {
        let latency = Duration::from_millis(2);
        let image = |page: PageId, out: &mut [u8; PAGE_BYTES]| out.fill(page.0 as u8);
        let device = Dma::new(8, latency, &[], &image).unwrap();
        assert_eq!(device.bytes(), 8 * 4096);
        let mut queue = device.queue(4).unwrap();
        drop(device);
        let mut memory = Box::new(Page([9; PAGE_BYTES]));
        let mut transfer = |direction, page: u64| {
            let pages = smallvec![memory.0.as_mut_ptr()];
            // SAFETY: the memory outlives the queue, and is looked at after the completion.
            queue.push(unsafe { Request::new(direction, page * 4096, pages, page) });
            assert_eq!((queue.unsubmitted(), queue.in_flight()), (1, 0));
            let start = Instant::now();
            queue.submit();
            let mut ended = Vec::new();
            while ended.is_empty() {
                queue.sleeper().sleep(Duration::from_secs(10));
                queue.reap(&mut ended);
            }
            assert!(start.elapsed() >= latency && start.elapsed() < Duration::from_secs(5));
            assert_eq!((ended[0].token, ended[0].result.as_ref().unwrap()), (page, &4096));
            memory.0[0]
        };
        assert_eq!(transfer(Direction::Read, 7), 7);
        assert_eq!(transfer(Direction::Write, 3), 7);
        assert_eq!(transfer(Direction::Read, 4), 4);
        assert_eq!(transfer(Direction::Read, 3), 7);
    }
}
