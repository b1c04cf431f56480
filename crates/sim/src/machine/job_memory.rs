//! [`JobMemory`]: the memory that the real code of a job uses in virtual time.

use std::cell::RefCell;
use std::rc::Rc;

use ebbtide_core::{Addr, Hint, LINE_BYTES, Memory, Time, Value, check_access};
use ebbtide_fiber::Suspend;
use ebbtide_workloads::{Workload, Wrong};

use super::chip::{Chip, Op, Reach};
use crate::memory_side::{PlainLru, Request, Waiter};

/// A program as the machine runs it: any [`Workload`], whatever its type.
pub(crate) trait Jobs {
    /// Runs a job in virtual time.
    fn run(&self, job: u64, memory: &mut JobMemory<'_>) -> Result<(), Wrong>;
    /// Runs a job that takes no time.
    fn warm(&self, job: u64, memory: &mut WarmMemory<'_>) -> Result<(), Wrong>;
}

impl<W: Workload> Jobs for W {
    fn run(&self, job: u64, memory: &mut JobMemory<'_>) -> Result<(), Wrong> {
        Workload::run(self, job, memory)
    }

    fn warm(&self, job: u64, memory: &mut WarmMemory<'_>) -> Result<(), Wrong> {
        Workload::run(self, job, memory)
    }
}

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
    /// The core's own registers or its store buffer accept no access now.
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
    /// needed.
    #[inline]
    fn reach<T: Value, R>(&mut self, at: Addr, op: Op, access: impl FnOnce(&mut Chip) -> R) -> R {
        let request = self.request(at, op);
        loop {
            let mut chip = self.chip.borrow_mut();
            let leave = match chip.reach(request, op, words::<T>(at)) {
                Reach::Done => {
                    let result = access(&mut chip);
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

    /// Issues the loads at `at`, and leaves the fiber as often as needed until every line is there.
    fn reach_all<T: Value>(&mut self, at: &[Addr]) {
        let core = self.waiter.core as usize;
        for (number, &one) in at.iter().enumerate() {
            let request = self.request(one, Op::Batched);
            loop {
                let mut chip = self.chip.borrow_mut();
                let leave = match chip.reach(request, Op::Batched, words::<T>(one)) {
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

/// The words of its line that a value at `at` has, one bit each.
#[inline]
fn words<T: Value>(at: Addr) -> u8 {
    let (first, count) = (at.0 as usize % LINE_BYTES / 8, size_of::<T>() / 8);
    ((0xff_u16 >> (8 - count)) << first) as u8
}

impl Memory for JobMemory<'_> {
    fn size_bytes(&self) -> u64 {
        self.chip.borrow().contents.size_bytes()
    }

    #[inline]
    fn load<T: Value>(&mut self, at: Addr) -> T {
        check_access::<T>(at);
        self.reach::<T, _>(at, Op::Load, |chip| chip.contents.load(at))
    }

    fn load_all<T: Value>(&mut self, at: &[Addr], out: &mut [T]) {
        assert_eq!(at.len(), out.len(), "a value for each address");
        at.iter().for_each(|at| check_access::<T>(*at));
        self.reach_all::<T>(at);
        let mut chip = self.chip.borrow_mut();
        for (at, out) in at.iter().zip(out) {
            *out = chip.contents.load(*at);
        }
        let core = &chip.cores[self.waiter.core as usize];
        let ran_ahead = core.now > core.limit;
        drop(chip);
        if ran_ahead {
            self.suspend.suspend(Leave::RanAhead);
        }
    }

    #[inline]
    fn store<T: Value>(&mut self, at: Addr, value: T) {
        check_access::<T>(at);
        self.reach::<T, _>(at, Op::Store, |chip| chip.contents.store(at, value));
    }

    #[inline]
    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        check_access::<u64>(at);
        self.reach::<u64, _>(at, Op::Exchange, |chip| {
            let found: u64 = chip.contents.load(at);
            if found != current {
                return Err(found);
            }
            chip.contents.store(at, new);
            Ok(found)
        })
    }

    #[inline]
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

/// The same memory for warming up, where accesses take no time and one job runs at a time.
pub(crate) struct WarmMemory<'a> {
    pub(crate) chip: &'a mut Chip,
    pub(crate) core: usize,
    /// Accesses that the job has made.
    pub(crate) accesses: u32,
    /// A plain LRU cache that receives the same accesses.
    pub(crate) lru: Option<&'a mut PlainLru>,
}

impl WarmMemory<'_> {
    #[inline]
    fn touch(&mut self, at: Addr, write: bool) {
        if let Some(lru) = &mut self.lru {
            lru.access(at.page());
        }
        self.accesses = self.accesses.wrapping_add(1);
        let waiter = Waiter { core: self.core as u32, thread: 0, slot: 0 };
        let request = Request { site: self.accesses, ..Request::new(at, write, waiter) };
        self.chip.warm(request);
    }
}

impl Memory for WarmMemory<'_> {
    fn size_bytes(&self) -> u64 {
        self.chip.contents.size_bytes()
    }

    fn load<T: Value>(&mut self, at: Addr) -> T {
        check_access::<T>(at);
        self.touch(at, false);
        self.chip.contents.load(at)
    }

    fn store<T: Value>(&mut self, at: Addr, value: T) {
        check_access::<T>(at);
        self.touch(at, true);
        self.chip.contents.store(at, value);
    }

    fn compare_exchange(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        check_access::<u64>(at);
        self.touch(at, true);
        let found: u64 = self.chip.contents.load(at);
        if found != current {
            return Err(found);
        }
        self.chip.contents.store(at, new);
        Ok(found)
    }

    fn work(&mut self, _instructions: u64) {}

    fn wait(&mut self, _at: Addr, _seen: u64) {}

    fn wake(&mut self, _at: Addr) {}
}
