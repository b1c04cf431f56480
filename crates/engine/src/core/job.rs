//! A core's source of jobs, and when a job ran.

use ebbtide_core::Time;

use crate::core::flash_memory::FlashMemory;
use crate::core::job_error::JobError;
use crate::net::{NetEvent, Network};

/// The answer of a service to a core that can start a job.
#[derive(Debug)]
pub enum Offer<J> {
    /// This job, now.
    Job(J),
    /// Nothing before this time.
    At(Time),
    /// Nothing for now. A thread that brings a job later calls
    /// [`Engine::rouse`](crate::Engine::rouse).
    Empty,
    /// No more jobs will come. The core stops once all its jobs have ended.
    End,
}

/// When a job ran, in time since the engine was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// When it was started on a fiber.
    pub started: Time,
    /// When it ended.
    pub finished: Time,
}

/// The jobs of one core. It lives on the core's thread, with many of its jobs under way at once. So
/// no method may keep a borrow of the service's own cells across a memory call.
pub trait Service: 'static {
    /// A job.
    type Job: 'static;

    /// Passes the core's handle of the network, once before any other call.
    fn attach(&self, _network: &Network) {}

    /// Reports an event on a socket of this core. Called between jobs.
    fn network(&self, _event: NetEvent) {}

    /// Hands out the next job.
    fn next(&self, now: Time) -> Offer<Self::Job>;

    /// Runs a job on a fiber, to its end. A device error or a panic unwinds out of it.
    fn run(&self, job: &mut Self::Job, memory: &mut FlashMemory<'_>);

    /// A job has ended.
    fn done(&self, job: Self::Job, result: Result<(), JobError>, timing: Timing);

    /// Reports that the core resumes a job under way before it asks for a new one.
    fn passes(&self) {}

    /// True if [`next`](Service::next) has a job now. Called by a core about to sleep.
    fn has_more(&self) -> bool {
        false
    }
}
