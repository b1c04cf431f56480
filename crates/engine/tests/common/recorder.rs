//! A device that notes every request, can hold writes back, and can sleep until it is really woken.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use ebbtide_core::PAGE_BYTES;
use ebbtide_engine::device::{Completion, Device, Direction, Queue, Request, Sleeper};
use parking_lot::{Condvar, Mutex};

/// The requests to a device, by all queues together.
pub struct Log {
    reads: Box<[AtomicU32]>,
    writes: Box<[AtomicU32]>,
    /// Writes that wait to reach the device.
    held: AtomicUsize,
    submissions: Mutex<Vec<usize>>,
    longest: AtomicUsize,
}

impl Log {
    /// The pages of the longest request.
    pub fn longest(&self) -> usize {
        self.longest.load(Ordering::SeqCst)
    }

    /// How often page `number` was read.
    pub fn reads(&self, number: u64) -> u32 {
        self.reads[number as usize].load(Ordering::SeqCst)
    }

    /// How often page `number` was written.
    pub fn writes(&self, number: u64) -> u32 {
        self.writes[number as usize].load(Ordering::SeqCst)
    }

    /// How often any page was read.
    pub fn all_reads(&self) -> u64 {
        (0..self.reads.len() as u64).map(|page| u64::from(self.reads(page))).sum()
    }

    /// How often any page was written.
    pub fn all_writes(&self) -> u64 {
        (0..self.writes.len() as u64).map(|page| u64::from(self.writes(page))).sum()
    }

    /// Requested writes that have not reached the device.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::SeqCst)
    }

    /// The number of requests in every submission that had some.
    pub fn submissions(&self) -> Vec<usize> {
        self.submissions.lock().clone()
    }
}

/// Any device, recorded. Its pages begin at its start.
pub struct Recorder<D> {
    inner: D,
    log: Arc<Log>,
    /// Writes reach the device only at the so-many-th look after their submission.
    write_looks: u32,
    /// True if only a call wakes a core that sleeps with nothing under way.
    deep_sleep: bool,
    fails: Option<Fails>,
    run_pages_max: usize,
}

/// Whether the next request of this direction fails.
type Fails = Arc<dyn Fn(Direction) -> bool + Send + Sync>;

impl<D: Device> Recorder<D> {
    pub fn new(inner: D, pages: u64) -> Recorder<D> {
        let counts = || (0..pages).map(|_| AtomicU32::new(0)).collect();
        let log = Log {
            reads: counts(),
            writes: counts(),
            held: AtomicUsize::new(0),
            submissions: Mutex::default(),
            longest: AtomicUsize::new(0),
        };
        Recorder {
            inner,
            log: Arc::new(log),
            write_looks: 0,
            deep_sleep: false,
            fails: None,
            run_pages_max: usize::MAX,
        }
    }

    pub fn holding_writes(mut self, looks: u32) -> Recorder<D> {
        self.write_looks = looks;
        self
    }

    pub fn sleeping_deeply(mut self) -> Recorder<D> {
        self.deep_sleep = true;
        self
    }

    pub fn taking_runs_of(mut self, pages: usize) -> Recorder<D> {
        self.run_pages_max = pages;
        self
    }

    pub fn failing(mut self, fails: impl Fn(Direction) -> bool + Send + Sync + 'static) -> Self {
        self.fails = Some(Arc::new(fails));
        self
    }

    pub fn log(&self) -> Arc<Log> {
        self.log.clone()
    }
}

impl<D: Device> Device for Recorder<D> {
    fn queue(&self, depth: usize) -> io::Result<Box<dyn Queue>> {
        let inner = self.inner.queue(depth)?;
        let under_way = Arc::new(AtomicUsize::new(0));
        let sleeper: Arc<dyn Sleeper> = if self.deep_sleep {
            let (inner, under_way) = (inner.sleeper(), under_way.clone());
            Arc::new(DeepSleeper {
                inner,
                under_way,
                woken: Mutex::default(),
                news: Condvar::new(),
            })
        } else {
            inner.sleeper()
        };
        Ok(Box::new(RecordedQueue {
            inner,
            sleeper,
            under_way,
            log: self.log.clone(),
            write_looks: self.write_looks,
            held: Vec::new(),
            fails: self.fails.clone(),
            failed: Vec::new(),
            run_pages_max: self.run_pages_max,
        }))
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }
}

struct RecordedQueue {
    inner: Box<dyn Queue>,
    sleeper: Arc<dyn Sleeper>,
    under_way: Arc<AtomicUsize>,
    log: Arc<Log>,
    write_looks: u32,
    held: Vec<(Request, u32)>,
    fails: Option<Fails>,
    failed: Vec<Completion>,
    run_pages_max: usize,
}

impl Queue for RecordedQueue {
    fn run_pages_max(&self) -> usize {
        self.run_pages_max
    }

    fn push(&mut self, request: Request) {
        self.log.longest.fetch_max(request.pages().len(), Ordering::SeqCst);
        let page = request.offset() as usize / PAGE_BYTES;
        let counts = match request.direction() {
            Direction::Read => &self.log.reads,
            Direction::Write => &self.log.writes,
        };
        counts[page].fetch_add(1, Ordering::SeqCst);
        let write = request.direction() == Direction::Write;
        if self.fails.as_ref().is_some_and(|fails| fails(request.direction())) {
            let result = Err(io::Error::from_raw_os_error(libc::EIO));
            self.failed.push(Completion { token: request.token(), result });
        } else if write && self.write_looks > 0 {
            self.held.push((request, self.write_looks));
            self.log.held.fetch_add(1, Ordering::SeqCst);
        } else {
            self.inner.push(request);
        }
    }

    fn submit(&mut self) {
        let count = self.inner.unsubmitted();
        if count > 0 {
            self.log.submissions.lock().push(count);
        }
        self.inner.submit();
        self.under_way.store(self.in_flight(), Ordering::SeqCst);
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        self.held.iter_mut().for_each(|(_, looks)| *looks -= 1);
        for (request, _) in self.held.extract_if(.., |(_, looks)| *looks == 0) {
            self.inner.push(request);
            self.log.held.fetch_sub(1, Ordering::SeqCst);
        }
        completions.append(&mut self.failed);
        self.inner.reap(completions);
        self.under_way.store(self.in_flight(), Ordering::SeqCst);
    }

    fn has_held_back(&mut self) -> bool {
        self.inner.has_held_back()
    }

    fn unsubmitted(&self) -> usize {
        self.inner.unsubmitted()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.held.len() + self.failed.len()
    }

    fn sleeper(&self) -> Arc<dyn Sleeper> {
        self.sleeper.clone()
    }
}

/// A request that was handed over is carried out even when no owner waits for it any more, as by a
/// disk.
impl Drop for RecordedQueue {
    fn drop(&mut self) {
        for (request, _) in self.held.drain(..) {
            self.inner.push(request);
        }
        self.inner.submit();
        self.inner.reap(&mut Vec::new());
    }
}

/// While nothing is under way, sleeps until it is called, without a time limit.
struct DeepSleeper {
    inner: Arc<dyn Sleeper>,
    under_way: Arc<AtomicUsize>,
    woken: Mutex<bool>,
    news: Condvar,
}

impl Sleeper for DeepSleeper {
    fn sleep(&self, at_most: Duration) {
        if self.under_way.load(Ordering::SeqCst) > 0 {
            self.inner.sleep(at_most);
            return;
        }
        let mut woken = self.woken.lock();
        self.news.wait_while(&mut woken, |woken| !*woken);
        *woken = false;
    }

    fn wake(&self) {
        self.inner.wake();
        *self.woken.lock() = true;
        self.news.notify_one();
    }
}
