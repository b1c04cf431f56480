//! A device that fails on purpose: seeded faults over any other device, the same for the same seed
//! and the same requests.

use std::io;
use std::sync::Arc;

use super::{Completion, Device, Direction, FrameMemory, Queue, Request, Sleeper};

/// The rate of each fault, as a share of requests in 0..=1.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Reads that answer with an I/O error.
    pub read_errors: f64,
    /// Writes that answer with an I/O error, nothing written.
    pub write_errors: f64,
    /// Transfers that report half a page.
    pub short: f64,
    /// Completions held back for a few looks, so that later ones overtake them.
    pub delays: f64,
    /// Every request to this byte offset fails, independent of the shares.
    pub broken_offset: Option<u64>,
}

/// Any device, made to fail.
pub struct Faulty<D> {
    inner: D,
    faults: Faults,
    seed: u64,
}

impl<D: Device> Faulty<D> {
    /// `inner` with `faults`, drawn from `seed`.
    pub fn new(inner: D, faults: Faults, seed: u64) -> Faulty<D> {
        Faulty { inner, faults, seed }
    }

    /// The device underneath.
    pub fn inner(&self) -> &D {
        &self.inner
    }
}

impl<D: Device> Device for Faulty<D> {
    fn queue(&self, depth: usize) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(FaultyQueue {
            inner: self.inner.queue(depth)?,
            faults: self.faults,
            random: self.seed,
            failing: Vec::new(),
            held: Vec::new(),
            reaped: Vec::new(),
        }))
    }

    fn name(&self) -> &'static str {
        self.inner.name()
    }
}

struct FaultyQueue {
    inner: Box<dyn Queue>,
    faults: Faults,
    random: u64,
    /// Requests that will fail without reaching the device.
    failing: Vec<Request>,
    /// Completions held back, with the looks left.
    held: Vec<(Completion, u32)>,
    reaped: Vec<Completion>,
}

impl FaultyQueue {
    /// The next number of the seed's sequence (SplitMix64).
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && (self.draw() >> 11) as f64 / ((1u64 << 53) as f64) < share
    }
}

impl Queue for FaultyQueue {
    fn register(&mut self, memory: FrameMemory) -> io::Result<()> {
        self.inner.register(memory)
    }

    fn set_busy(&mut self, busy: bool) {
        self.inner.set_busy(busy);
    }

    fn run_pages_max(&self) -> usize {
        self.inner.run_pages_max()
    }

    fn push(&mut self, request: Request) {
        let share = match request.direction {
            Direction::Read => self.faults.read_errors,
            Direction::Write => self.faults.write_errors,
        };
        if self.faults.broken_offset == Some(request.offset) || self.chance(share) {
            self.failing.push(request);
        } else {
            self.inner.push(request);
        }
    }

    fn submit(&mut self) {
        for request in std::mem::take(&mut self.failing) {
            let result = Err(io::Error::from_raw_os_error(libc::EIO));
            self.held.push((Completion { token: request.token, result }, 0));
        }
        self.inner.submit();
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        let mut reaped = std::mem::take(&mut self.reaped);
        self.inner.reap(&mut reaped);
        for mut completion in reaped.drain(..) {
            if self.chance(self.faults.short) {
                completion.result = completion.result.map(|bytes| bytes / 2);
            }
            let looks =
                if self.chance(self.faults.delays) { 1 + (self.draw() % 8) as u32 } else { 0 };
            self.held.push((completion, looks));
        }
        self.reaped = reaped;
        let mut index = 0;
        while index < self.held.len() {
            if self.held[index].1 == 0 {
                completions.push(self.held.swap_remove(index).0);
            } else {
                self.held[index].1 -= 1;
                index += 1;
            }
        }
    }

    fn has_held_back(&mut self) -> bool {
        self.inner.has_held_back()
    }

    fn unsubmitted(&self) -> usize {
        self.inner.unsubmitted() + self.failing.len()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight() + self.held.len()
    }

    fn sleeper(&self) -> Arc<dyn Sleeper> {
        Arc::new(ShortNaps(self.inner.sleeper()))
    }
}

/// No event announces a completion that is held back, so sleeps are short.
struct ShortNaps(Arc<dyn Sleeper>);

impl Sleeper for ShortNaps {
    fn sleep(&self, at_most: std::time::Duration) {
        self.0.sleep(at_most.min(std::time::Duration::from_micros(50)));
    }

    fn wake(&self) {
        self.0.wake();
    }
}
