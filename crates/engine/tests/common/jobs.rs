//! Jobs as closures, and the devices and helpers that most tests of the engine need.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::mpsc;

use ebbtide_core::{Addr, Memory, PageId, Time};
use ebbtide_engine::{Engine, FlashMemory, JobError, Offer, Service, Timing};

/// The body of a job.
pub type Work = Box<dyn FnOnce(&mut FlashMemory<'_>)>;

/// A job, from a closure.
pub fn job(work: impl FnOnce(&mut FlashMemory<'_>) + 'static) -> Work {
    Box::new(work)
}

/// A job that loads the first word of `page`.
pub fn loads(page: u64) -> Work {
    job(move |memory| {
        memory.load::<u64>(word(page));
    })
}

/// The first word of `page`.
pub fn word(page: u64) -> Addr {
    PageId(page).start()
}

/// How a core's jobs went.
#[derive(Default)]
pub struct Ended {
    /// Number and result of every job, in the order of their ends.
    pub jobs: Vec<(usize, Result<(), JobError>)>,
    /// The most jobs that were under way at once.
    pub under_way_max: usize,
}

impl Ended {
    /// Returns the numbers of the jobs in the order of their ends. All of them must have succeeded.
    pub fn order(&self) -> Vec<usize> {
        self.jobs
            .iter()
            .map(|(number, result)| {
                result.as_ref().unwrap_or_else(|error| panic!("job {number}: {error}"));
                *number
            })
            .collect()
    }
}

/// One core's list of jobs, handed out in order.
struct List {
    waiting: RefCell<VecDeque<(usize, Work)>>,
    under_way: Cell<usize>,
    ended: RefCell<Ended>,
}

impl Service for List {
    type Job = (usize, Option<Work>);

    fn next(&self, _now: Time) -> Offer<Self::Job> {
        match self.waiting.borrow_mut().pop_front() {
            Some((number, work)) => Offer::Job((number, Some(work))),
            None => Offer::End,
        }
    }

    fn run(&self, (_, work): &mut Self::Job, memory: &mut FlashMemory<'_>) {
        self.under_way.set(self.under_way.get() + 1);
        let mut ended = self.ended.borrow_mut();
        ended.under_way_max = ended.under_way_max.max(self.under_way.get());
        drop(ended);
        work.take().expect("a job runs once")(memory);
    }

    fn done(&self, (number, _): Self::Job, result: Result<(), JobError>, _timing: Timing) {
        self.under_way.set(self.under_way.get() - 1);
        self.ended.borrow_mut().jobs.push((number, result));
    }
}

/// Runs the jobs that `make` returns for each core to their end.
pub fn run_jobs(engine: &Engine, make: impl Fn(usize) -> Vec<Work> + Sync) -> Vec<Ended> {
    let list = |core| List {
        waiting: RefCell::new(make(core).into_iter().enumerate().collect()),
        under_way: Cell::new(0),
        ended: RefCell::default(),
    };
    super::watched(engine, || engine.run(list, |list| list.ended.into_inner()).unwrap())
}

/// As [`run_jobs`], on the one core there is.
pub fn run_alone(engine: &Engine, make: impl Fn() -> Vec<Work> + Sync) -> Ended {
    run_jobs(engine, |_| make()).remove(0)
}

/// Runs `body`, which must end, so that a hanging test fails on its own. A watched engine in it has
/// the time to print its waiting fibers first.
pub fn ends(body: impl FnOnce() + Send + 'static) {
    let (tell, told) = mpsc::channel();
    let body = std::thread::spawn(move || {
        body();
        let _ = tell.send(());
    });
    match told.recv_timeout(2 * super::HANGS_AFTER) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => body.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
    }
}
