//! Changed pages that a flush writes to their places in the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ebbtide_core::PageId;

use super::error::RowError;
use super::part::Asked;
use crate::api::job_queue::Jobs;
use crate::api::ticket::Ticket;
use crate::core::flash_memory::FlashMemory;

/// Writes all changed pages, by at most `threads` jobs. Returns a page that cannot be written. No
/// other job may store to the memory meanwhile.
pub(super) fn write_changed(
    jobs: &Jobs,
    threads: usize,
    asked: &mut Asked<'_>,
) -> Result<Option<PageId>, RowError> {
    loop {
        let pages = jobs.engine().state().pool.cache.changed_pages();
        if pages.is_empty() {
            return Ok(None);
        }
        // A page may be on its way out again by the end: the next round finds it.
        let failed = Writing::begin(jobs, threads, pages, asked)?.end(asked)?;
        if failed.is_some() {
            return Ok(failed);
        }
    }
}

/// The pages of a flush.
struct Pages {
    pages: Vec<PageId>,
    next: AtomicUsize,
}

impl Pages {
    /// Writes pages until all are taken. Returns the first that cannot be written.
    fn run(&self, memory: &mut FlashMemory<'_>) -> Option<PageId> {
        loop {
            let page = *self.pages.get(self.next.fetch_add(1, Ordering::Relaxed))?;
            if !memory.write_out(page) {
                self.stop();
                return Some(page);
            }
        }
    }

    fn stop(&self) {
        self.next.store(self.pages.len(), Ordering::Relaxed);
    }
}

/// The jobs of a flush. Dropped, it stops them and waits for their end.
struct Writing {
    pages: Arc<Pages>,
    tickets: Vec<Ticket<Option<PageId>>>,
}

impl Writing {
    fn begin(
        jobs: &Jobs,
        threads: usize,
        pages: Vec<PageId>,
        asked: &mut Asked<'_>,
    ) -> Result<Writing, RowError> {
        let count = pages.len().min(threads);
        let pages = Arc::new(Pages { pages, next: AtomicUsize::new(0) });
        let mut begun = Writing { pages, tickets: Vec::with_capacity(count) };
        while begun.tickets.len() < count {
            let pages = begun.pages.clone();
            let job = move |memory: &mut FlashMemory<'_>| pages.run(memory);
            if let Ok(ticket) = jobs.submit_within(asked.until_next(), job) {
                begun.tickets.push(ticket);
            }
            asked.whether_to_go_on()?;
        }
        Ok(begun)
    }

    /// Waits for all pages. Returns one that cannot be written.
    fn end(mut self, asked: &mut Asked<'_>) -> Result<Option<PageId>, RowError> {
        let mut failed = None;
        while let Some(ticket) = self.tickets.pop() {
            match ticket.wait_for(asked.until_next()) {
                Ok(ended) => failed = failed.or(ended?),
                Err(ticket) => self.tickets.push(ticket),
            }
            asked.whether_to_go_on()?;
        }
        Ok(failed)
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.pages.stop();
        for ticket in self.tickets.drain(..) {
            // The flush has failed or was given up already.
            let _ = ticket.wait();
        }
    }
}
