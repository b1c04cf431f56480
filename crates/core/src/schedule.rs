//! The job scheduler (AstriFlash §IV-D): which job a core runs next.
//!
//! A job runs to completion except on a miss. A core asks at every miss and after every finished
//! job. The core keeps new jobs in its own queue. This scheduler holds the *pending* jobs, which a
//! miss has halted.

use std::collections::VecDeque;

use crate::choice;
use crate::time::{Span, Time};

choice! {
    /// The order of jobs.
    pub enum Discipline as "scheduler" {
        /// AstriFlash's. A pending job goes before a new one if its page has arrived, or if it is
        /// older than the mean flash response. Otherwise new jobs go first.
        Priority = "priority",
        /// The ablation noPS (AstriFlash §VI-B). New jobs go first while a thread is free. Only
        /// when none is free, the oldest pending job is considered. So a halted job waits for about
        /// `threads − 1` misses of others, even if its page has arrived.
        Fifo = "fifo",
    }
}

/// How the scheduler learns that a page has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wakeup {
    /// The scheduler is told by [`Scheduler::arrived`], and never resumes a job whose page is not
    /// there. These are the queue pairs of AstriFlash §IV-D, and the engine does the same.
    Notified,
    /// The scheduler guesses from the job's age. A job resumed too early blocks its core until the
    /// page comes.
    Guessed {
        /// The age when a page is assumed to have arrived: the mean flash response.
        ripe_after: Span,
    },
}

/// The next action of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next<J> {
    /// Resume this pending job.
    Resume(J),
    /// Start a new job.
    Start,
    /// Nothing can run before a page arrives or a new job comes.
    Wait,
}

/// A core's pending jobs, and the choice between them and a new one.
#[derive(Debug)]
pub struct Scheduler<J> {
    discipline: Discipline,
    arrivals: Wakeup,
    threads: usize,
    /// Jobs not known to be resumable, oldest first. Only counted when arrivals are notified.
    halted: VecDeque<(J, Time)>,
    halted_unlisted: usize,
    /// Jobs known to be resumable, in the order of arrival.
    ripe: VecDeque<J>,
}

impl<J> Scheduler<J> {
    /// A scheduler for a core of `threads` user-level threads. While that many jobs are pending, it
    /// starts no new one.
    ///
    /// # Panics
    /// If `threads` is zero.
    pub fn new(discipline: Discipline, arrivals: Wakeup, threads: usize) -> Scheduler<J> {
        assert!(threads > 0, "a core needs a thread");
        Scheduler {
            discipline,
            arrivals,
            threads,
            halted: VecDeque::with_capacity(threads),
            halted_unlisted: 0,
            ripe: VecDeque::with_capacity(threads),
        }
    }

    /// Notes that the running job halted on a miss. With notified arrivals `job` comes back through
    /// [`arrived`](Scheduler::arrived).
    pub fn halted(&mut self, job: J, now: Time) {
        match self.arrivals {
            Wakeup::Notified => self.halted_unlisted += 1,
            Wakeup::Guessed { .. } => self.halted.push_back((job, now)),
        }
        debug_assert!(self.pending() <= self.threads, "more jobs pending than there are threads");
    }

    /// Notes that the page of a halted job has arrived.
    ///
    /// # Panics
    /// If arrivals are guessed, or nothing is halted.
    pub fn arrived(&mut self, job: J) {
        assert_eq!(self.arrivals, Wakeup::Notified, "arrivals are guessed, not notified");
        assert!(self.halted_unlisted > 0, "an arrival for a job that is not halted");
        self.halted_unlisted -= 1;
        self.ripe.push_back(job);
    }

    /// Returns what to run now. `new_job` is true if a new job is at hand.
    pub fn next(&mut self, now: Time, new_job: bool) -> Next<J> {
        let start = new_job && self.pending() < self.threads;
        if start && self.discipline == Discipline::Fifo {
            return Next::Start;
        }
        if let Some(job) = self.ripe.pop_front() {
            return Next::Resume(job);
        }
        let aged = match (self.arrivals, self.halted.front()) {
            (Wakeup::Guessed { ripe_after }, Some((_, since))) => now.since(*since) > ripe_after,
            _ => false,
        };
        if start && !aged {
            return Next::Start;
        }
        match self.halted.pop_front() {
            Some((job, _)) => Next::Resume(job),
            None => Next::Wait,
        }
    }

    /// Returns what to run on a core that leaves its pending jobs alone until the next miss.
    /// `new_job` is true if a new job is at hand. After a job has ended, noPS does not look at
    /// pending ones (AstriFlash §VI-B).
    pub fn next_new(&self, new_job: bool) -> Next<J> {
        if new_job && self.pending() < self.threads { Next::Start } else { Next::Wait }
    }

    /// Returns how this scheduler learns that a page has arrived.
    pub fn arrivals(&self) -> Wakeup {
        self.arrivals
    }

    /// Returns true if a job that is known to be ready goes before a new one now.
    pub fn resumes_first(&self) -> bool {
        self.discipline == Discipline::Priority && !self.ripe.is_empty()
    }

    /// Returns the number of jobs that are halted or ready.
    pub fn pending(&self) -> usize {
        self.halted.len() + self.halted_unlisted + self.ripe.len()
    }

    /// Returns the job that is resumed next, if one is known to be ready.
    pub fn next_ripe(&self) -> Option<&J> {
        self.ripe.front()
    }

    /// Returns the number of jobs known to be ready.
    pub fn ripe(&self) -> usize {
        self.ripe.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FLASH: Span = Span::from_us(50);

    fn guessing(discipline: Discipline, threads: usize) -> Scheduler<u32> {
        Scheduler::new(discipline, Wakeup::Guessed { ripe_after: FLASH }, threads)
    }

    fn at_us(us: u64) -> Time {
        Time::from_ns(us * 1_000)
    }

    #[test]
    fn a_new_job_goes_before_a_young_pending_one_and_after_an_aged_one() {
        let mut scheduler = guessing(Discipline::Priority, 4);
        scheduler.halted(1, at_us(0));
        assert_eq!(scheduler.next(at_us(50), true), Next::Start);
        assert_eq!(scheduler.next(at_us(51), true), Next::Resume(1));
    }

    #[test]
    fn an_unripe_head_runs_when_nothing_else_is_ready() {
        let mut scheduler = guessing(Discipline::Priority, 4);
        assert_eq!(scheduler.next(at_us(0), false), Next::Wait);
        scheduler.halted(1, at_us(0));
        scheduler.halted(2, at_us(1));
        assert_eq!(scheduler.next(at_us(2), false), Next::Resume(1));
    }

    #[test]
    fn with_every_thread_pending_the_oldest_is_resumed_however_young() {
        let mut scheduler = guessing(Discipline::Priority, 2);
        scheduler.halted(1, at_us(0));
        scheduler.halted(2, at_us(1));
        assert_eq!(scheduler.next(at_us(2), true), Next::Resume(1));
    }

    #[test]
    fn fifo_starts_new_jobs_even_when_a_page_is_there() {
        let mut scheduler = Scheduler::new(Discipline::Fifo, Wakeup::Notified, 2);
        scheduler.halted(1, at_us(0));
        scheduler.arrived(1);
        assert_eq!(scheduler.next(at_us(900), true), Next::Start);
        scheduler.halted(2, at_us(900));
        assert_eq!(scheduler.next(at_us(900), true), Next::Resume(1));
    }

    #[test]
    fn the_job_that_is_resumed_next_is_known_beforehand() {
        let mut scheduler = Scheduler::new(Discipline::Priority, Wakeup::Notified, 3);
        assert_eq!(scheduler.next_ripe(), None);
        [1, 2, 3].into_iter().for_each(|job| scheduler.halted(job, at_us(0)));
        [3, 1].into_iter().for_each(|job| scheduler.arrived(job));
        for job in [3, 1] {
            assert_eq!(scheduler.next_ripe(), Some(&job));
            assert_eq!(scheduler.next(at_us(1), true), Next::Resume(job));
        }
        assert_eq!(scheduler.next_ripe(), None);
    }

    #[test]
    fn pending_jobs_can_be_left_alone_until_the_next_miss() {
        let mut scheduler = guessing(Discipline::Fifo, 2);
        scheduler.halted(1, at_us(0));
        assert_eq!(scheduler.next_new(true), Next::Start);
        assert_eq!(scheduler.next_new(false), Next::Wait);
        assert_eq!(scheduler.next(at_us(900), false), Next::Resume(1), "at a miss");
    }

    #[test]
    fn a_notified_job_goes_first_and_an_absent_one_is_never_resumed() {
        let mut scheduler = Scheduler::new(Discipline::Priority, Wakeup::Notified, 2);
        scheduler.halted(1, at_us(0));
        scheduler.halted(2, at_us(0));
        assert_eq!(scheduler.next(at_us(9_000), true), Next::Wait);
        scheduler.arrived(2);
        assert_eq!(scheduler.next(at_us(9_000), true), Next::Resume(2));
        assert_eq!(scheduler.next(at_us(9_000), true), Next::Start);
    }

    proptest! {
        /// Starvation: with endless new jobs, a guessed job is resumed at the first decision after
        /// it is ripe and everyone older has run.
        #[test]
        fn no_pending_job_starves_under_endless_new_jobs(
            misses in prop::collection::vec(any::<bool>(), 1..300),
            threads in 1usize..20,
        ) {
            let mut scheduler = guessing(Discipline::Priority, threads);
            let mut now = Time::ZERO;
            let mut halted: VecDeque<(u32, Time)> = VecDeque::new();
            for (id, miss) in misses.into_iter().enumerate() {
                now += Span::from_us(10);
                if miss && scheduler.pending() < threads {
                    scheduler.halted(id as u32, now);
                    halted.push_back((id as u32, now));
                }
                match scheduler.next(now, true) {
                    Next::Resume(job) => {
                        prop_assert_eq!(halted.pop_front().map(|(j, _)| j), Some(job));
                    }
                    Next::Start => {
                        if let Some((_, since)) = halted.front() {
                            prop_assert!(now - *since <= FLASH);
                        }
                    }
                    Next::Wait => prop_assert!(false, "a new job was at hand"),
                }
            }
        }
    }
}
