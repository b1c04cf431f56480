//! The thread that writes and flushes for the journal.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ebbtide_core::PAGE_BYTES;
use ebbtide_core::durability::{Disk, DiskError, Fault, Io, Lsn};
use parking_lot::MutexGuard;

use crate::core::engine_state::EngineState;
use crate::core::job_error::discard;
use crate::persist::{Guarded, LogDisk, Persist};
use crate::sync::mailbox::Outcome;

/// While pages must be written, cores are asked again this often.
const ASK_AGAIN: Duration = Duration::from_millis(2);

/// A device without room for the log is tried again after this time, and after twice as long each
/// time.
const FULL_PAUSE_MIN: Duration = Duration::from_millis(5);
const FULL_PAUSE_MAX: Duration = Duration::from_millis(500);

/// After this time without room, transactions are refused until there is room.
const FULL_AFTER: Duration = Duration::from_secs(1);

/// The log writer of one engine. Dropping it makes all that is committed durable first.
pub(crate) struct LogWriter {
    persist: Arc<Persist>,
    thread: Option<JoinHandle<()>>,
}

impl LogWriter {
    /// Starts the thread, which writes by `disk`.
    pub(crate) fn start(
        persist: Arc<Persist>,
        state: &Arc<EngineState>,
        disk: LogDisk,
    ) -> io::Result<LogWriter> {
        let (state, shared) = (state.clone(), persist.clone());
        let thread = std::thread::Builder::new()
            .name("ebbtide-log".into())
            .spawn(move || run_to_the_end(&shared, &state, disk))?;
        Ok(LogWriter { persist, thread: Some(thread) })
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.persist.lock().stop = true;
        self.persist.news.notify_one();
        if let Some(thread) = self.thread.take() {
            // Its panic was printed when it happened.
            let _ = thread.join();
        }
    }
}

/// Writes until the log writer is dropped. If it dies before, ends writing and wakes all that wait.
fn run_to_the_end(persist: &Persist, state: &EngineState, disk: LogDisk) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(|| run(persist, state, disk))) else { return };
    discard(payload);
    persist.end_writing("the thread that writes the log has died");
    let mut guarded = persist.lock();
    wake_waiting(state, &mut guarded);
    drop(tell_tickets(persist, guarded));
}

fn run(persist: &Persist, state: &EngineState, mut disk: LogDisk) {
    let mut guarded = persist.lock();
    loop {
        if guarded.journal.wants_checkpoint() {
            guarded.journal.begin_checkpoint();
        }
        ask_cores(persist, state, &mut guarded);
        let began = Instant::now();
        let gathers = guarded.gathers_for(began).filter(|_| guarded.flush_asked);
        let flush = guarded.wants_flush(persist.flush_every(), began);
        let Some(io) = guarded.journal.next(flush) else {
            guarded.flush_asked &= gathers.is_some();
            if guarded.journal.ended().is_some() {
                guarded.behind_since = None;
                wake_waiting(state, &mut guarded);
            }
            guarded = tell_tickets(persist, guarded);
            if guarded.stop {
                if guarded.journal.close() {
                    continue;
                }
                return;
            }
            let waits_for_pages = guarded.journal.in_checkpoint()
                || !persist.to_clean.is_empty()
                || guarded.journal.wants_cleaning();
            guarded.cleaning = waits_for_pages;
            let patience = if waits_for_pages {
                ASK_AGAIN
            } else {
                let since = guarded.behind_since.map_or(Duration::ZERO, |since| since.elapsed());
                persist.flush_every().saturating_sub(since).max(Duration::from_millis(1))
            };
            let patience = gathers.map_or(patience, |left| left.min(patience));
            persist.news.wait_for(&mut guarded, patience);
            continue;
        };
        drop(guarded);
        let (is_flush, written) = match &io {
            Io::Flush => (true, 0),
            Io::Write(blocks) => (false, blocks.len() * PAGE_BYTES),
        };
        let result = perform(persist, state, &mut disk, &io, flush);
        guarded = persist.lock();
        guarded.written_bytes += written as u64;
        guarded.journal.done(result.map_err(|error| error.to_string()));
        if is_flush {
            guarded.flushed(began, Instant::now());
        }
        wake_waiting(state, &mut guarded);
        guarded = tell_tickets(persist, guarded);
    }
}

/// Performs a request of the journal. A write for which the device has no room is tried again,
/// until there is room or the log writer ends. Returns the result of the last try.
fn perform(
    persist: &Persist,
    state: &EngineState,
    disk: &mut LogDisk,
    io: &Io,
    flush: bool,
) -> Result<(), DiskError> {
    let (since, mut pause, mut is_full) = (Instant::now(), FULL_PAUSE_MIN, false);
    loop {
        let result = match io {
            Io::Write(blocks) if flush => disk.write_to_flush(blocks),
            Io::Write(blocks) => disk.write_blocks(blocks),
            Io::Flush => disk.flush(),
        };
        let waits = |error: &DiskError| error.fault == Fault::Room && !matches!(io, Io::Flush);
        let Some(error) = result.as_ref().err().filter(|error| waits(error)) else {
            if is_full {
                persist.note_log_written();
            }
            return result;
        };
        let lasts = since.elapsed() >= FULL_AFTER;
        is_full = true;
        persist.note_log_full(lasts.then(|| error.to_string()).as_deref());
        if lasts {
            let mut guarded = persist.lock();
            wake_waiting(state, &mut guarded);
            drop(tell_tickets(persist, guarded));
        }
        if !persist.pause(pause) {
            return result;
        }
        pause = (pause * 2).min(FULL_PAUSE_MAX);
    }
}

/// Completes the tickets of transactions that are durable or never will be. Programs are notified
/// without the lock.
fn tell_tickets<'a>(
    persist: &'a Persist,
    mut guarded: MutexGuard<'a, Guarded>,
) -> MutexGuard<'a, Guarded> {
    let (durable, ended) = (guarded.journal.durable(), guarded.gives_up());
    let all = std::mem::take(&mut guarded.tickets);
    let over = |lsn: Lsn| lsn <= durable || ended.is_some();
    let (told, left): (Vec<_>, Vec<_>) = all.into_iter().partition(|(lsn, _)| over(*lsn));
    guarded.tickets = left;
    if told.is_empty() {
        return guarded;
    }
    drop(guarded);
    for (lsn, tell) in told {
        let outcome = match &ended {
            Some(error) if lsn > durable => Err(error.clone()),
            _ => Ok(()),
        };
        // It may drop a value of the program's. If that panics, the log goes on.
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| tell(outcome))) {
            discard(payload);
        }
    }
    persist.lock()
}

/// Lets cores write the pages that should be written.
fn ask_cores(persist: &Persist, state: &EngineState, guarded: &mut Guarded) {
    if !persist.to_clean.is_empty() {
        return;
    }
    let pages = guarded.journal.next_to_clean();
    if pages.is_empty() {
        return;
    }
    pages.into_iter().for_each(|page| persist.to_clean.push(page));
    (0..state.backsides.len()).for_each(|core| state.pool.mailboxes.rouse(core));
}

/// Wakes the fibers whose transactions are durable or never will be, and the fibers that wait for
/// room.
fn wake_waiting(state: &EngineState, guarded: &mut Guarded) {
    let durable = guarded.journal.durable();
    let ended = guarded.gives_up().is_some();
    let mailboxes = &state.pool.mailboxes;
    guarded.waiting.retain(|&(lsn, waiter)| {
        let over = lsn <= durable || ended;
        if over {
            mailboxes.wake(waiter, Outcome::Retry);
        }
        !over
    });
    (0..state.backsides.len()).for_each(|core| mailboxes.rouse(core));
    guarded.starved.drain(..).for_each(|waiter| mailboxes.wake(waiter, Outcome::Retry));
}
