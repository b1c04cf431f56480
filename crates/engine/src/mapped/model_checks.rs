//! Model checks of the protection protocol: no store is lost, in drawn orders of faults, evictions
//! and system calls.
//!
//! The kernel is a model, whose calls are steps of their own. Two mistakes are planted, and found.

use std::panic::catch_unwind;
use std::sync::Arc;

use shuttle::sync::Mutex;
use shuttle::thread;

use super::page_table::PageTable;
use super::protocol::{Cleaned, Mapper, Next, Protocol};
use super::states::{Event, State};
use super::tokens::Tokens;

const ORDERS: usize = 20_000;
const PAGES: usize = 2;

/// A page as the processor sees it.
#[derive(Clone, Copy, Default)]
struct Mapped {
    present: bool,
    writable: bool,
    value: u64,
}

/// The kernel's page table.
#[derive(Clone, Default)]
struct Kernel {
    pages: Arc<Mutex<[Mapped; PAGES]>>,
    /// The planted mistake: a call that makes a page writable returns before it has taken effect.
    unprotects_late: bool,
}

impl Kernel {
    fn change(&self, page: u32, change: impl FnOnce(&mut Mapped)) {
        change(&mut self.pages.lock().unwrap()[page as usize]);
    }
}

impl Mapper for Kernel {
    fn install(&self, page: u32, from: *const u8, writable: bool) {
        // SAFETY: the model passes the address of a value.
        let value = unsafe { from.cast::<u64>().read() };
        self.change(page, |mapped| *mapped = Mapped { present: true, writable, value });
    }

    fn protect(&self, page: u32) {
        self.change(page, |mapped| mapped.writable = false);
    }

    fn unprotect(&self, page: u32) {
        if self.unprotects_late {
            let kernel = self.clone();
            thread::spawn(move || kernel.change(page, |mapped| mapped.writable = mapped.present));
        } else {
            self.change(page, |mapped| mapped.writable = true);
        }
    }

    fn remove(&self, pages: &[u32]) {
        pages.iter().for_each(|&page| self.change(page, |mapped| *mapped = Mapped::default()));
    }
}

/// A range of two pages, of which one or two may be mapped, over an engine.
struct World {
    protocol: Protocol<Kernel>,
    engine: Mutex<[u64; PAGES]>,
}

impl World {
    fn new(tokens: usize, unprotects_late: bool) -> Arc<World> {
        let kernel = Kernel { unprotects_late, ..Kernel::default() };
        Arc::new(World {
            protocol: Protocol {
                table: PageTable::new(PAGES),
                tokens: Tokens::new(tokens),
                mapper: kernel,
            },
            engine: Mutex::default(),
        })
    }

    /// Makes an access when the page permits it. Returns the value if so.
    fn try_access(&self, page: u32, store: Option<u64>) -> Option<u64> {
        let mut pages = self.protocol.mapper.pages.lock().unwrap();
        let mapped = &mut pages[page as usize];
        if !mapped.present || store.is_some() && !mapped.writable {
            return None;
        }
        mapped.value = store.unwrap_or(mapped.value);
        Some(mapped.value)
    }

    fn access(&self, page: u32, store: Option<u64>) -> u64 {
        loop {
            if let Some(value) = self.try_access(page, store) {
                return value;
            }
            self.resolve(page, store.is_some());
            thread::yield_now();
        }
    }

    fn resolve(&self, page: u32, store: bool) {
        let mut token = None;
        loop {
            let next = self.protocol.fault(page, store, None, token);
            match next {
                Next::Retry => break,
                Next::Writable(pinned) => {
                    self.protocol.tokens.unpin(pinned);
                    break;
                }
                Next::TakeToken => {
                    token = self.protocol.tokens.take().0;
                    if token.is_none() {
                        self.evict();
                    }
                }
                Next::Read | Next::ReadToo => {
                    let value = self.engine.lock().unwrap()[page as usize];
                    let own = if next == Next::Read { token.take() } else { None };
                    let from = (&raw const value).cast();
                    if let Some((pinned, _)) = self.protocol.arrived(page, own, store, from) {
                        self.protocol.tokens.unpin(pinned);
                    }
                    break;
                }
                Next::Pause => thread::yield_now(),
                Next::Wait => unreachable!("nobody waits in a list"),
            }
        }
        self.protocol.tokens.put(token);
    }

    fn evict(&self) {
        for token in self.protocol.evict(&self.protocol.tokens.victims(1)) {
            let page = self.protocol.tokens.page(token) as usize;
            let copy = || {
                let value = self.protocol.mapper.pages.lock().unwrap()[page].value;
                self.engine.lock().unwrap()[page] = value;
                true
            };
            match self.protocol.clean(token, copy) {
                Cleaned::Done => self.protocol.remove(&[token]),
                _ => self.protocol.tokens.offer(token),
            }
        }
        thread::yield_now();
    }

    /// The planted mistake: looks whether the page is clean first, and removes it later without a
    /// state for that.
    fn evict_by_an_old_look(&self, page: u32) {
        if self.protocol.table.lock(page).state() != State::Clean {
            return;
        }
        self.protocol.mapper.remove(&[page]);
        let mut locked = self.protocol.table.lock(page);
        let events: &[Event] = match locked.state() {
            State::Clean => &[],
            State::Dirty => &[Event::Clean, Event::Protected, Event::Copied],
            _ => return,
        };
        let token = locked.token();
        for &event in events.iter().chain(&[Event::Evict, Event::Zapped]) {
            locked.apply(event);
        }
        locked.set(0, 1);
        drop(locked);
        self.protocol.tokens.victims(2);
        self.protocol.tokens.put([token]);
    }
}

/// A writer of each of `pages` pages stores and loads while `evictor` runs. Every load returns the
/// last value that was stored.
fn check(
    tokens: usize,
    pages: u32,
    unprotects_late: bool,
    evictor: impl Fn(&World) + Send + Sync + Copy + 'static,
) {
    let run = move || {
        let world = World::new(tokens, unprotects_late);
        let writer = |page: u32| {
            let world = world.clone();
            thread::spawn(move || {
                // The page is clean at first.
                assert_eq!(world.access(page, None), 0);
                for value in 1..4 {
                    assert_eq!(world.access(page, Some(value)), value);
                    assert_eq!(world.access(page, None), value, "a store was lost");
                }
            })
        };
        let writers: Vec<_> = (0..pages).map(writer).collect();
        let other = world.clone();
        let evicting = thread::spawn(move || (0..4).for_each(|_| evictor(&other)));
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        evicting.join().unwrap();
        (0..pages).for_each(|page| assert_eq!(world.access(page, None), 3, "a store was lost"));
    };
    shuttle::check_random(run, ORDERS);
}

#[test]
fn no_store_is_lost_beside_evictions() {
    check(2, 1, false, World::evict);
}

#[test]
fn no_store_is_lost_when_two_writers_share_one_token() {
    check(1, 2, false, World::evict);
}

#[test]
fn a_store_between_the_look_and_the_removal_would_be_found() {
    let planted = || check(2, 1, false, |world| world.evict_by_an_old_look(0));
    assert!(catch_unwind(planted).is_err(), "the mistake was not found");
}

#[test]
fn an_unprotect_that_runs_after_a_later_protect_would_be_found() {
    let planted = || check(2, 1, true, World::evict);
    assert!(catch_unwind(planted).is_err(), "the mistake was not found");
}
