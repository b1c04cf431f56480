//! [`JobMemory`]: the memory that a job's real code uses in virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use ebbtide_core::{Addr, Hint, LINE_BYTES, Time};
use ebbtide_fiber::Suspend;

use super::chip::{Chip, Op, Reach};
use crate::any_memory::AnyMemory;
use crate::contents::Contents;
use crate::memory_side::{PlainLru, Request, Waiter};

/// Why a job left its fiber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// The job is done.
    Done,
    /// Its core has run ahead far enough.
    RanAhead,
    /// A page is absent, and the core learns that at this time.
    Missed(Time),
    /// Memory accepts no access now.
    Stalled,
    /// The core's miss registers or its store buffer accept no access now.
    Held,
    /// The job waits for a word to change.
    Waits,
}

/// The memory of the simulated machine for one thread of one core.
pub(crate) struct JobMemory<'a> {
    pub(crate) chip: &'a Rc<RefCell<Chip>>,
    pub(crate) waiter: Waiter,
    pub(crate) suspend: &'a Suspend<'a, u64, Leave>,
    /// Accesses that the job has made.
    pub(crate) accesses: u32,
}

impl JobMemory<'_> {
    /// Charges `op` until its line is there, then does `access`. Leaves the fiber as often as
    /// necessary.
    #[inline]
    fn reach<R>(
        &mut self,
        at: Addr,
        bytes: usize,
        op: Op,
        access: impl FnOnce(&mut Contents) -> R,
    ) -> R {
        let request = self.request(at, op);
        loop {
            let mut chip = self.chip.borrow_mut();
            let leave = match chip.reach(request, op, words(at, bytes)) {
                Reach::Done => {
                    let result = access(&mut chip.contents);
                    let core = &chip.cores[self.waiter.core as usize];
                    let ran_ahead = core.now > core.limit;
                    drop(chip);
                    if ran_ahead {
                        self.suspend.suspend(Leave::RanAhead);
                    }
                    return result;
                }
                Reach::Missed(reply) => Leave::Missed(reply),
                Reach::Stalled => Leave::Stalled,
                Reach::Held => Leave::Held,
            };
            drop(chip);
            self.suspend.suspend(leave);
        }
    }

    #[inline]
    fn request(&mut self, at: Addr, op: Op) -> Request {
        self.accesses = self.accesses.wrapping_add(1);
        Request { site: self.accesses, ..Request::new(at, op.writes(), self.waiter) }
    }

    /// Issues the loads at `at`, and leaves the fiber until every line is there.
    fn reach_all(&mut self, at: &[Addr], bytes: usize) {
        let core = self.waiter.core as usize;
        for (number, &one) in at.iter().enumerate() {
            let request = self.request(one, Op::Batched);
            loop {
                let mut chip = self.chip.borrow_mut();
                let leave = match chip.reach(request, Op::Batched, words(one, bytes)) {
                    Reach::Done => break,
                    Reach::Missed(reply) => {
                        let rest = at[number + 1..].iter();
                        let rest = rest.map(|at| Request::new(*at, false, self.waiter));
                        chip.asked_already(core, rest);
                        Leave::Missed(reply)
                    }
                    Reach::Stalled => Leave::Stalled,
                    Reach::Held => Leave::Held,
                };
                drop(chip);
                self.suspend.suspend(leave);
            }
        }
        while self.chip.borrow_mut().end_batch(core) != Reach::Done {
            self.suspend.suspend(Leave::Held);
        }
    }
}

/// The words of their line that `bytes` bytes at `at` cover, one bit each.
#[inline]
fn words(at: Addr, bytes: usize) -> u8 {
    let (first, count) = (at.0 as usize % LINE_BYTES / 8, bytes / 8);
    ((0xff_u16 >> (8 - count)) << first) as u8
}

impl AnyMemory for JobMemory<'_> {
    fn size_bytes(&self) -> u64 {
        self.chip.borrow().contents.size_bytes()
    }

    fn load(&mut self, at: Addr, out: &mut [u8]) {
        self.reach(at, out.len(), Op::Load, |contents| contents.read(at, out));
    }

    fn load_all(&mut self, at: &[Addr], out: &mut [u8]) {
        let bytes = out.len() / at.len();
        self.reach_all(at, bytes);
        let mut chip = self.chip.borrow_mut();
        for (at, out) in at.iter().zip(out.chunks_exact_mut(bytes)) {
            chip.contents.read(*at, out);
        }
        let core = &chip.cores[self.waiter.core as usize];
        let ran_ahead = core.now > core.limit;
        drop(chip);
        if ran_ahead {
            self.suspend.suspend(Leave::RanAhead);
        }
    }

    fn store(&mut self, at: Addr, value: &[u8]) {
        self.reach(at, value.len(), Op::Store, |contents| contents.write(at, value));
    }

    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        let exchange = |contents: &mut Contents| contents.compare_exchange(at, current, new);
        self.reach(at, size_of::<u64>(), Op::Exchange, exchange)
    }

    fn work(&mut self, instructions: u64) {
        let mut chip = self.chip.borrow_mut();
        chip.work(self.waiter.core as usize, instructions);
        let core = &chip.cores[self.waiter.core as usize];
        let ran_ahead = core.now > core.limit;
        drop(chip);
        if ran_ahead {
            self.suspend.suspend(Leave::RanAhead);
        }
    }

    fn wait(&mut self, at: Addr, seen: u64) {
        let mut chip = self.chip.borrow_mut();
        if chip.contents.load::<u64>(at) != seen {
            return;
        }
        chip.park(self.waiter, at);
        drop(chip);
        self.suspend.suspend(Leave::Waits);
    }

    fn wake(&mut self, at: Addr) {
        self.chip.borrow_mut().wake(self.waiter.core as usize, at);
    }

    fn hint(&mut self, hint: Hint) {
        if let Hint::WillNeed(at) = hint {
            self.chip.borrow_mut().hint(self.waiter.core as usize, at.page());
        }
    }
}

/// The memory of a job in a warm-up. Accesses take no time, and one job runs at a time.
pub(crate) struct WarmMemory<'a> {
    pub(crate) chip: &'a mut Chip,
    pub(crate) core: usize,
    /// Accesses that the job has made.
    pub(crate) accesses: u32,
    /// A plain LRU cache that receives the same accesses.
    pub(crate) lru: Option<&'a mut PlainLru>,
}

impl WarmMemory<'_> {
    /// Does an access without its value.
    #[inline]
    pub(crate) fn touch(&mut self, at: Addr, write: bool) {
        if let Some(lru) = &mut self.lru {
            lru.access(at.page());
        }
        self.accesses = self.accesses.wrapping_add(1);
        let waiter = Waiter { core: self.core as u32, thread: 0, slot: 0 };
        let request = Request { site: self.accesses, ..Request::new(at, write, waiter) };
        self.chip.warm(request);
    }
}

impl AnyMemory for WarmMemory<'_> {
    fn size_bytes(&self) -> u64 {
        self.chip.contents.size_bytes()
    }

    fn load(&mut self, at: Addr, out: &mut [u8]) {
        self.touch(at, false);
        self.chip.contents.read(at, out);
    }

    fn store(&mut self, at: Addr, value: &[u8]) {
        self.touch(at, true);
        self.chip.contents.write(at, value);
    }

    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.touch(at, true);
        self.chip.contents.compare_exchange(at, current, new)
    }
}
