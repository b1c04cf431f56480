//! [`JobScope`]: jobs that borrow what lives longer than their scope. The scope ends when all of
//! them are gone.

use std::any::Any;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::api::job_queue::{Closure, Job, Jobs};
use crate::api::ticket::{Ticket, ticket};
use crate::core::flash_memory::FlashMemory;
use crate::core::job_error::JobError;
use crate::core::worker::check_not_in_a_job;

/// A scope of jobs, as [`std::thread::Scope`] is one of threads.
pub(crate) struct JobScope<'scope, 'env: 'scope> {
    alive: Arc<Alive>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// The number of jobs of a scope that are not gone yet.
#[derive(Default)]
struct Alive {
    jobs: Mutex<usize>,
    news: Condvar,
}

/// Counts one job, until it is dropped.
struct Counted(Arc<Alive>);

impl Counted {
    fn new(alive: &Arc<Alive>) -> Counted {
        *alive.jobs.lock() += 1;
        Counted(alive.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut jobs = self.0.jobs.lock();
        *jobs -= 1;
        if *jobs == 0 {
            self.0.news.notify_all();
        }
    }
}

/// A job of a scope. Its count is dropped after all else: fields are dropped in this order.
struct Scoped<J> {
    job: Box<J>,
    counted: Counted,
}

impl<J: Job> Job for Scoped<J> {
    fn run(&mut self, memory: &mut FlashMemory<'_>) {
        self.job.run(memory);
    }

    fn finish(self: Box<Self>, result: Result<(), JobError>) {
        let Scoped { job, counted } = *self;
        job.finish(result);
        drop(counted);
    }
}

/// Runs `body` with a scope, and waits until all jobs of the scope are gone.
///
/// # Panics
/// Inside a job, and when `body` panics.
pub(crate) fn scope<'env, R>(
    body: impl for<'scope> FnOnce(&'scope JobScope<'scope, 'env>) -> R,
) -> R {
    check_not_in_a_job("waiting for the jobs of a scope");
    let scope = JobScope { alive: Arc::default(), scope: PhantomData, env: PhantomData };
    let result: Result<R, Box<dyn Any + Send>> = catch_unwind(AssertUnwindSafe(|| body(&scope)));
    let mut jobs = scope.alive.jobs.lock();
    while *jobs > 0 {
        scope.alive.news.wait(&mut jobs);
    }
    drop(jobs);
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

impl<'scope> JobScope<'scope, '_> {
    /// Submits a job to `jobs`; waits while too many are queued.
    pub(crate) fn submit<T, F>(&'scope self, jobs: &Jobs, job: F) -> Ticket<T>
    where
        T: Send + 'scope,
        F: FnOnce(&mut FlashMemory<'_>) -> T + Send + 'scope,
    {
        let (sender, ticket) = ticket();
        let job = Box::new(Closure::new(job, sender));
        let job: Box<dyn Job + 'scope> =
            Box::new(Scoped { job, counted: Counted::new(&self.alive) });
        // SAFETY: the types differ in the lifetime alone. `scope` does not return before the count
        // of this job is dropped, which is after the job and its result, whether it has run, has
        // unwound or was discarded. All that the job borrows outlives 'scope, and so the call of
        // `scope`.
        let job = unsafe { std::mem::transmute::<Box<dyn Job + 'scope>, Box<dyn Job>>(job) };
        jobs.push_waiting(job);
        ticket
    }
}
