//! A device made of memory, for tests and for measuring the engine with a free device. It answers
//! after a set time. In tests it can answer after a set number of looks instead, independent of the
//! clock.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebbtide_core::PAGE_BYTES;
use parking_lot::{Condvar, Mutex};

use super::{Completion, Device, Direction, Queue, Request, Sleeper};

/// When a request completes.
#[derive(Clone, Copy, Debug)]
pub enum Latency {
    /// This time after it was submitted.
    Time(Duration),
    /// At this look for completions after it was submitted; 0 is the first.
    Looks(u32),
}

/// Pages in memory behind the device seam.
pub struct Ram {
    pages: Arc<Vec<Mutex<[u8; PAGE_BYTES]>>>,
    latency: Latency,
}

impl Ram {
    /// A device of `pages` pages, each with the contents that `image` writes.
    pub fn new(
        pages: usize,
        latency: Latency,
        mut image: impl FnMut(usize, &mut [u8; PAGE_BYTES]),
    ) -> Ram {
        let filled = |number| {
            let mut page = [0; PAGE_BYTES];
            image(number, &mut page);
            Mutex::new(page)
        };
        Ram { pages: Arc::new((0..pages).map(filled).collect()), latency }
    }

    /// The contents of page `number` now.
    pub fn page(&self, number: usize) -> [u8; PAGE_BYTES] {
        *self.pages[number].lock()
    }
}

impl Device for Ram {
    fn queue(&self, _depth: usize) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(RamQueue {
            pages: self.pages.clone(),
            latency: self.latency,
            staged: Vec::new(),
            in_flight: Vec::new(),
            sleeper: Arc::new(RamSleeper::default()),
        }))
    }

    fn name(&self) -> &'static str {
        "memory"
    }
}

struct RamQueue {
    pages: Arc<Vec<Mutex<[u8; PAGE_BYTES]>>>,
    latency: Latency,
    staged: Vec<Request>,
    in_flight: Vec<(Request, Instant, u32)>,
    sleeper: Arc<RamSleeper>,
}

impl RamQueue {
    fn transfer(&self, request: &Request) -> Completion {
        let first = request.offset as usize / PAGE_BYTES;
        let mut moved = 0;
        for (&memory, page) in request.pages.iter().zip(self.pages.iter().skip(first)) {
            let mut stored = page.lock();
            let stored = stored.as_mut_ptr();
            // SAFETY: the request's pages are valid and ours until the completion, as
            // `Request::pages` demands, and they are not part of this device.
            unsafe {
                match request.direction {
                    Direction::Read => memory.copy_from_nonoverlapping(stored, PAGE_BYTES),
                    Direction::Write => stored.copy_from_nonoverlapping(memory, PAGE_BYTES),
                }
            }
            moved += PAGE_BYTES;
        }
        let result = Ok(moved);
        Completion { token: request.token, result }
    }
}

impl Queue for RamQueue {
    fn push(&mut self, request: Request) {
        self.staged.push(request);
    }

    fn submit(&mut self) {
        let now = Instant::now();
        self.in_flight.extend(self.staged.drain(..).map(|request| (request, now, 0)));
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        let now = Instant::now();
        let mut in_flight = std::mem::take(&mut self.in_flight);
        in_flight.retain_mut(|(request, since, looks)| {
            let done = match self.latency {
                Latency::Time(latency) => now.duration_since(*since) >= latency,
                Latency::Looks(needed) => *looks >= needed,
            };
            *looks += 1;
            if done {
                completions.push(self.transfer(request));
            }
            !done
        });
        self.in_flight = in_flight;
    }

    fn unsubmitted(&self) -> usize {
        self.staged.len()
    }

    fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    fn sleeper(&self) -> Arc<dyn Sleeper> {
        self.sleeper.clone()
    }
}

#[derive(Default)]
struct RamSleeper {
    woken: Mutex<bool>,
    news: Condvar,
}

impl Sleeper for RamSleeper {
    fn sleep(&self, at_most: Duration) {
        // Nothing announces a completion here, so never sleep for long.
        let at_most = at_most.min(Duration::from_micros(20));
        let mut woken = self.woken.lock();
        if !*woken {
            self.news.wait_for(&mut woken, at_most);
        }
        *woken = false;
    }

    fn wake(&self) {
        *self.woken.lock() = true;
        self.news.notify_one();
    }
}
