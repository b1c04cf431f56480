//! Tickets are small, and as good for a task as for a thread.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use ebbtide_core::{Memory, PageId};
use ebbtide_engine::device::ram::{Latency, Ram};
use ebbtide_engine::{Engine, JobError, Options, Ticket};

const PAGES: u64 = 64;

/// Counts the bytes that are allocated and not freed, with what the allocator adds to each piece.
struct Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

fn with_header(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(with_header(layout), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(with_header(layout), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test at a time: all allocations of the process are counted.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn engine() -> Arc<Engine> {
    let device = Ram::new(PAGES as usize, Latency::Looks(0), |_, page| page.fill(0));
    let mut options = Options::new(8 << 20);
    options.tuning.threads = Some(4);
    let engine = Arc::new(Engine::over_device(Arc::new(device), PAGES, &options).unwrap());
    common::watch(&engine);
    engine
}

struct Unparks(Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest executor there is.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unparks(std::thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn a_ticket_that_is_kept_takes_little_memory() {
    const KEPT: usize = 10_000;
    let _alone = ALONE.lock();
    let jobs = engine().start().unwrap();
    let mut tickets: Vec<Ticket<u64>> = Vec::with_capacity(KEPT);
    let submit = |n: u64| jobs.submit(move |memory| memory.load::<u64>(PageId(n % PAGES).start()));
    tickets.push(submit(0));
    let before = ALLOCATED.load(Ordering::Relaxed);
    tickets.extend((1..KEPT as u64).map(submit));
    assert_eq!(submit(0).wait(), Ok(0));
    let each = (ALLOCATED.load(Ordering::Relaxed).saturating_sub(before)) / KEPT;
    println!("{each} bytes a ticket");
    assert!(each <= 144, "{each} bytes a ticket");
    assert!(tickets.into_iter().all(|ticket| ticket.wait() == Ok(0)));
    jobs.stop().unwrap();
}

#[test]
fn a_task_awaits_results_before_and_after_they_are_there() {
    let _alone = ALONE.lock();
    let jobs = engine().start().unwrap();
    let (go, start) = channel::<()>();
    let late = jobs.submit(move |_| start.recv().map(|()| 7));
    let early = jobs.submit(|_| 8);
    let broken = jobs.submit(|_| -> u64 { panic!("on purpose") });
    let opener = std::thread::spawn(move || go.send(()));
    assert_eq!(block_on(late), Ok(Ok(7)));
    assert_eq!(block_on(async { (early.await, broken.await) }), {
        (Ok(8), Err(JobError::Panicked("on purpose".into())))
    });
    opener.join().unwrap().unwrap();
    jobs.stop().unwrap();
}

#[test]
fn a_task_that_was_polled_may_still_be_waited_for_by_a_thread() {
    let _alone = ALONE.lock();
    let jobs = engine().start().unwrap();
    let (go, start) = channel::<()>();
    let mut ticket = jobs.submit(move |_| start.recv().map(|()| 7));
    let mut context = Context::from_waker(Waker::noop());
    assert!(pin!(&mut ticket).poll(&mut context).is_pending());
    go.send(()).unwrap();
    assert_eq!(ticket.wait(), Ok(Ok(7)));
    jobs.stop().unwrap();
}
