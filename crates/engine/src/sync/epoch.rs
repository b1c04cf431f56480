//! Grace periods: from when on does no core use a frame that was taken from its page?
//!
//! The hit path takes no lock and no reference count. Instead, at the start of each memory call,
//! every core publishes the global epoch that it has seen. At the end it publishes that it is
//! outside. An eviction unpublishes the page's state, then advances the epoch. It reuses the frame
//! only after a *grace period* (epoch-based reclamation, Fraser 2004). That is over when every
//! other core has since been seen
//!
//! * at the new epoch or later: it loaded that epoch after the state was unpublished, so this call
//!   and all later ones find the page gone, and all earlier ones are over; or
//! * asleep; or
//! * outside any call, after a barrier on all cores (`membarrier`). So a core that computes for
//!   long without a memory call delays no other.

#[cfg(all(test, loom))]
use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(all(test, loom)))]
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crossbeam_utils::CachePadded;

const INSIDE: u64 = 1;
const ASLEEP: u64 = u64::MAX;

/// The epochs of all cores.
pub(crate) struct Epochs {
    global: CachePadded<AtomicU64>,
    /// A core's last seen epoch, shifted by one, with [`INSIDE`]; or [`ASLEEP`].
    cores: Box<[CachePadded<AtomicU64>]>,
    /// Makes every core run a barrier. Returns true if all did.
    barrier: Option<fn() -> bool>,
}

/// The moment when a grace period begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    epoch: u64,
    barrier_run: bool,
}

impl Epochs {
    pub(crate) fn new(cores: usize) -> Epochs {
        let works = cores > 1 && membarrier::register();
        Epochs::with_barrier(cores, works.then_some(membarrier::run))
    }

    /// Makes epochs with `barrier`, if any, in place of the kernel's.
    pub(crate) fn with_barrier(cores: usize, barrier: Option<fn() -> bool>) -> Epochs {
        Epochs {
            global: CachePadded::new(AtomicU64::new(1)),
            cores: (0..cores).map(|_| CachePadded::new(AtomicU64::new(ASLEEP))).collect(),
            barrier,
        }
    }

    /// Whether a core that computes without memory calls can be passed over.
    pub(crate) fn barrier_works(&self) -> bool {
        self.barrier.is_some() || self.alone()
    }

    /// Whether there is only one core. No other can see what it unpublishes between two calls.
    pub(crate) fn alone(&self) -> bool {
        self.cores.len() == 1
    }

    /// The marks of one core, for its hit path.
    pub(crate) fn core(&self, core: usize) -> Presence<'_> {
        Presence {
            global: &self.global,
            seen: &self.cores[core],
            #[cfg(all(test, loom))]
            runs_barriers: self.barrier.is_some(),
        }
    }

    /// Whether `core`, which asks, is inside a memory call.
    pub(crate) fn is_inside(&self, core: usize) -> bool {
        self.cores[core].load(Ordering::Relaxed) & INSIDE != 0
    }

    /// Starts a grace period for the pages unpublished before this call.
    pub(crate) fn begin_grace(&self) -> Moment {
        let epoch = self.global.fetch_add(1, Ordering::SeqCst) + 1;
        fence(Ordering::SeqCst);
        Moment { epoch, barrier_run: false }
    }

    /// Whether every core but `me` (which is outside any call) has passed the moment.
    pub(crate) fn is_over(&self, moment: Moment, me: usize) -> bool {
        self.cores.iter().enumerate().filter(|(core, _)| *core != me).all(|(_, seen)| {
            let seen = seen.load(Ordering::Acquire);
            seen == ASLEEP
                || seen >> 1 >= moment.epoch
                || (moment.barrier_run && seen & INSIDE == 0)
        })
    }

    /// Makes every core of the process run a barrier now. Cores outside any call then count for all
    /// these moments, which have begun.
    pub(crate) fn run_barrier<'a>(&self, moments: impl IntoIterator<Item = &'a mut Moment>) {
        let run = self.interrupt_all();
        moments.into_iter().for_each(|moment| moment.barrier_run |= run);
    }

    /// Interrupts every core of the process, so that the kernel delivers the completions that it
    /// holds back. Returns true if all cores have run a barrier.
    pub(crate) fn interrupt_all(&self) -> bool {
        self.barrier.is_some_and(|run| run())
    }
}

/// One core's marks.
#[derive(Clone, Copy)]
pub(crate) struct Presence<'a> {
    global: &'a AtomicU64,
    seen: &'a AtomicU64,
    #[cfg(all(test, loom))]
    runs_barriers: bool,
}

impl Presence<'_> {
    /// Starts a memory call. States loaded after this are current for the published epoch.
    #[inline(always)]
    pub(crate) fn enter(self) {
        let epoch = self.global.load(Ordering::Acquire);
        self.seen.store(epoch << 1 | INSIDE, Ordering::Release);
        self.meet_barrier();
    }

    /// Orders earlier stores before later loads, as seen by a core that runs a barrier. The barrier
    /// interrupts this core, so this only has to keep the compiler from exchanging the two.
    #[inline(always)]
    fn meet_barrier(self) {
        #[cfg(not(all(test, loom)))]
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
        // No model can interrupt a thread: there, each runs every barrier itself.
        #[cfg(all(test, loom))]
        if self.runs_barriers {
            fence(Ordering::SeqCst);
        }
    }

    /// Ends a memory call: nothing obtained in it is used any more.
    #[inline(always)]
    pub(crate) fn exit(self) {
        let epoch = self.global.load(Ordering::Relaxed);
        // A later epoch than `enter` saw may be published here: the call is over either way.
        self.seen.store(epoch << 1, Ordering::Release);
    }

    /// The core goes to sleep, outside any call.
    pub(crate) fn sleep(self) {
        self.seen.store(ASLEEP, Ordering::Release);
    }

    /// The core is back.
    pub(crate) fn awake(self) {
        self.exit();
        // A core that saw this one asleep has unpublished before; this orders our next loads after
        // that.
        fence(Ordering::SeqCst);
    }
}

mod membarrier {
    pub(super) fn call(command: libc::c_int) -> bool {
        // SAFETY: membarrier takes two integers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    pub(super) fn register() -> bool {
        call(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
    }

    pub(super) fn run() -> bool {
        call(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_core_inside_a_call_from_before_holds_the_grace_period() {
        let epochs = Epochs::new(2);
        epochs.core(1).enter();
        let moment = epochs.begin_grace();
        assert!(!epochs.is_over(moment, 0));
        epochs.core(1).exit();
        assert!(epochs.is_over(moment, 0), "its call has ended since");
        epochs.core(1).enter();
        assert!(epochs.is_over(moment, 0), "its next call sees the new epoch");
    }

    #[test]
    fn a_sleeping_core_and_the_asking_core_hold_nobody_up() {
        let epochs = Epochs::new(2);
        epochs.core(1).awake();
        epochs.core(1).sleep();
        let moment = epochs.begin_grace();
        assert!(epochs.is_over(moment, 0));
    }

    #[test]
    fn a_core_that_computes_outside_is_passed_over_after_a_barrier() {
        let epochs = Epochs::new(2);
        epochs.core(1).enter();
        epochs.core(1).exit();
        let mut moment = epochs.begin_grace();
        assert!(!epochs.is_over(moment, 0), "it may be loading an old state right now");
        epochs.run_barrier([&mut moment]);
        assert_eq!(epochs.is_over(moment, 0), epochs.barrier_works());
    }

    #[test]
    fn a_barrier_that_the_kernel_refuses_ends_no_grace_period() {
        let epochs = Epochs::with_barrier(2, Some(|| false));
        epochs.core(1).enter();
        epochs.core(1).exit();
        let mut moment = epochs.begin_grace();
        epochs.run_barrier([&mut moment]);
        assert!(!epochs.is_over(moment, 0));
    }

    #[test]
    fn a_core_inside_holds_the_grace_period_even_after_a_barrier() {
        let epochs = Epochs::new(2);
        epochs.core(1).enter();
        let mut moment = epochs.begin_grace();
        epochs.run_barrier([&mut moment]);
        assert!(!epochs.is_over(moment, 0));
    }

    #[test]
    fn only_one_core_is_alone_and_needs_no_barrier() {
        assert!(Epochs::new(1).alone() && Epochs::new(1).barrier_works());
        assert!(!Epochs::new(2).alone() && !Epochs::with_barrier(2, None).barrier_works());
    }

    #[test]
    fn a_barrier_works_where_the_kernel_has_one() {
        // SAFETY: membarrier takes two integers and touches no memory of ours.
        let known =
            unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_QUERY, 0, 0) };
        let wanted = libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED
            | libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED;
        let has_it = known >= 0 && known & libc::c_long::from(wanted) == libc::c_long::from(wanted);
        assert_eq!(Epochs::new(2).barrier_works(), has_it);
        assert_eq!(Epochs::new(2).interrupt_all(), has_it);
    }

    #[test]
    fn a_barrier_that_the_kernel_does_not_know_is_no_barrier() {
        assert!(!membarrier::call(-1));
    }
}
