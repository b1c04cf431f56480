//! [`Space`]: a range of addresses over pages of an engine, and how its faults are resolved.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use ebbtide_core::{PAGE_BYTES, PageId};
use parking_lot::Mutex;

use super::error::MappedError;
use super::exceptions::{Aside, is_unwinding};
use super::fatal::fatal;
use super::page_table::PageTable;
use super::protocol::{Next, Protocol};
use super::recent::Recent;
use super::registry::{self, Access, RANGES_MAX};
use super::signal;
use super::tokens::Tokens;
use super::uffd::MappedRange;
use crate::api::engine::Engine;
use crate::api::job_queue::Jobs;
use crate::core::flash_memory::{FiberContext, FlashMemory};
use crate::core::worker::in_a_job;
use crate::sync::mailbox::Outcome;

/// Pages that stay for threads outside of the engine, which have no place to note theirs.
pub(super) const GUEST_PAGES: usize = 64;

/// Whose fault it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The fiber's own.
    Fiber,
    /// That of a thread which waits for the fiber.
    Guest,
}

/// What mapped pages have done since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MappedCounts {
    /// Loads and stores that faulted.
    pub faults: u64,
    /// Pages that were read.
    pub reads: u64,
    /// Pages that have left DRAM.
    pub evictions: u64,
    /// Pages that were changed and given to the engine.
    pub cleaned: u64,
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) faults: AtomicU64,
    pub(super) reads: AtomicU64,
    pub(super) cleaned: AtomicU64,
}

/// A range of addresses over pages of an engine.
pub(super) struct Space {
    pub(super) protocol: Protocol<MappedRange>,
    pub(super) engine: Arc<Engine>,
    /// The engine's page behind the first page of the range.
    first_page: u64,
    /// By core and fiber: the pages that stay for it.
    recents: Box<[Mutex<Recent>]>,
    guests: Mutex<VecDeque<u32>>,
    /// True while a fiber evicts pages ahead of need.
    pub(super) evicting: AtomicBool,
    /// Pages that programs have pinned.
    pub(super) pinned: AtomicUsize,
    pub(super) counters: Counters,
    jobs: OnceLock<Weak<Jobs>>,
    this: Weak<Space>,
}

impl Space {
    /// Maps `pages` pages of `engine` from `first_page` on, of which `tokens` may be in DRAM at
    /// once.
    pub(super) fn new(
        engine: Arc<Engine>,
        first_page: u64,
        pages: u64,
        tokens: usize,
    ) -> Result<Arc<Space>, MappedError> {
        if engine.persist().is_some() {
            return Err(MappedError::Persistent);
        }
        let io = |doing| move |source| MappedError::Io { doing, source };
        signal::install().map_err(io("install the handler of SIGBUS"))?;
        let protocol = Protocol {
            table: PageTable::new(pages as usize),
            tokens: Tokens::new(tokens),
            mapper: MappedRange::new(pages as usize * PAGE_BYTES)?,
        };
        let fibers = engine.options().cores * engine.options().threads_per_core();
        let space = Arc::new_cyclic(|this| Space {
            protocol,
            engine,
            first_page,
            recents: (0..fibers).map(|_| Mutex::default()).collect(),
            guests: Mutex::default(),
            evicting: AtomicBool::new(false),
            pinned: AtomicUsize::new(0),
            counters: Counters::default(),
            jobs: OnceLock::new(),
            this: this.clone(),
        });
        if !registry::add(space.addresses(), space.owner(), resolve) {
            return Err(MappedError::TooManyStores(RANGES_MAX));
        }
        Ok(space)
    }

    /// Lets threads outside of the engine use the range, by jobs of `jobs`.
    pub(super) fn serve_guests(&self, jobs: &Arc<Jobs>) {
        let _ = self.jobs.set(Arc::downgrade(jobs));
    }

    /// The addresses of the range.
    pub(super) fn addresses(&self) -> Range<usize> {
        let start = self.protocol.mapper.base() as usize;
        start..start + self.protocol.mapper.bytes()
    }

    /// Its name in the registry.
    fn owner(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// The engine's page behind `page` of the range.
    pub(super) fn page_id(&self, page: u32) -> PageId {
        PageId(self.first_page + u64::from(page))
    }

    pub(super) fn counts(&self) -> MappedCounts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MappedCounts {
            faults: count(&self.counters.faults),
            reads: count(&self.counters.reads),
            evictions: self.protocol.tokens.evictions(),
            cleaned: count(&self.counters.cleaned),
        }
    }

    /// Brings the page of an access that faulted. The access can be made again then.
    pub(super) fn resolve(&self, access: Access) {
        self.counters.faults.fetch_add(1, Ordering::Relaxed);
        let state = self.engine.state();
        let on_fiber = FiberContext::with_current(|context| {
            if !context.is_of(Arc::as_ptr(state)) {
                return false;
            }
            if context.is_in_call() {
                fatal(format_args!(
                    "a call on the engine's memory was given a pointer into a mapped region, and its page \
                     is not in DRAM: expected memory outside of regions"
                ));
            }
            self.resolve_on(context, access, Origin::Fiber);
            true
        });
        if on_fiber != Some(true) {
            self.resolve_for_guest(access);
        }
    }

    /// Lets a job bring the page, and blocks this thread until it is there.
    #[cold]
    fn resolve_for_guest(&self, access: Access) {
        if in_a_job() {
            fatal(format_args!(
                "a mapped page was used on a thread of the engine, outside of its jobs: expected a job \
                 that drops its own values"
            ));
        }
        let (Some(jobs), Some(this)) =
            (self.jobs.get().and_then(Weak::upgrade), self.this.upgrade())
        else {
            fatal(format_args!("a mapped page was used after its store was closed"));
        };
        let done = jobs.submit(move |_| {
            FiberContext::with_current(|context| this.resolve_on(context, access, Origin::Guest));
        });
        // The last handle of the jobs must not be dropped by a thread that waits for one of them.
        if let Err(error) = done.wait() {
            fatal(format_args!("a mapped page cannot be read: {error}"));
        }
    }

    /// Brings the page for the fiber of `context`, or for the guest that it works for.
    fn resolve_on(&self, context: &FiberContext<'_>, access: Access, origin: Origin) {
        let blocks = context.no_switch().get() > 0 || is_unwinding();
        let _aside = (!blocks).then(Aside::put);
        let mut memory = context.memory(blocks);
        let page = (access.offset / PAGE_BYTES) as u32;
        let waiter = (!blocks).then(|| context.waiter());
        let mut token = None;
        loop {
            match self.protocol.fault(page, access.store, waiter, token) {
                Next::Retry => break,
                Next::Writable(pinned) => {
                    self.keep(context, access, origin, pinned);
                    break;
                }
                Next::TakeToken => token = Some(self.take_token(&mut memory)),
                Next::Wait => memory.park(),
                Next::Pause => std::thread::yield_now(),
                Next::Read => {
                    let arrived = self.read(&mut memory, page, token.take(), access.store);
                    arrived.inspect(|pinned| self.keep(context, access, origin, *pinned));
                    break;
                }
                Next::ReadToo => {
                    let arrived = self.read(&mut memory, page, None, access.store);
                    arrived.inspect(|pinned| self.keep(context, access, origin, *pinned));
                }
            }
        }
        self.protocol.tokens.put(token);
    }

    /// Reads `page` through the engine and maps it. Returns its token, which is pinned, unless
    /// another fiber was faster.
    fn read(
        &self,
        memory: &mut FlashMemory<'_>,
        page: u32,
        token: Option<u32>,
        store: bool,
    ) -> Option<u32> {
        self.counters.reads.fetch_add(1, Ordering::Relaxed);
        let install = |from| self.protocol.arrived(page, token, store, from);
        let (pinned, waiting) = memory.with_page(self.page_id(page), install)?;
        let mailboxes = &self.engine.state().pool.mailboxes;
        waiting.into_iter().for_each(|waiter| mailboxes.wake(waiter, Outcome::Retry));
        Some(pinned)
    }

    /// Keeps the page of `token`, which is pinned, until the fiber or guest has moved on.
    fn keep(&self, context: &FiberContext<'_>, access: Access, origin: Origin, token: u32) {
        let tokens = &self.protocol.tokens;
        if origin == Origin::Guest {
            let mut guests = self.guests.lock();
            guests.push_back(token);
            if guests.len() > GUEST_PAGES {
                guests.pop_front().into_iter().for_each(|token| tokens.unpin(token));
            }
            return;
        }
        let waiter = context.waiter();
        let threads = self.engine.options().threads_per_core();
        let number = waiter.core as usize * threads + waiter.fiber as usize;
        let mut recent = self.recents[number].lock();
        recent.add(access.instruction, token, |token| tokens.unpin(token));
    }
}

/// Brings the page of an access to the space `owner`.
///
/// # Safety
/// `owner` is the name of a space that is alive.
unsafe fn resolve(owner: *const (), access: Access) {
    // SAFETY: as the caller promises.
    unsafe { &*owner.cast::<Space>() }.resolve(access);
}

impl Drop for Space {
    fn drop(&mut self) {
        registry::remove(self.owner());
    }
}
