//! [`Log`]: events that a running server reports to its operator.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lines of one event within [`PERIOD`]. Further events are counted, and the next line has their
/// number.
const LINES_MAX: u32 = 10;
const PERIOD: Duration = Duration::from_secs(1);

/// An event for the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The event's kind, for programs.
    pub name: &'static str,
    /// A sentence for people.
    pub text: String,
}

/// Receiver of a running server's events. The default drops them.
#[derive(Clone, Default)]
pub struct Log(Option<Arc<dyn Fn(Event) + Send + Sync>>);

impl Log {
    /// Calls `tell` for every event, on a separate thread.
    pub fn to(tell: impl Fn(Event) + Send + Sync + 'static) -> Log {
        Log(Some(Arc::new(tell)))
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Log").field(&self.0.is_some()).finish()
    }
}

/// Events in the queue to the log. Further events are dropped.
const WAITING_MAX: usize = 256;

/// The longest time that the server waits at its end for the last events to be logged.
const LAST_TOLD_WITHIN: Duration = Duration::from_secs(1);

/// Starts the thread that passes events of the journal to `log`.
pub(crate) fn start(log: &Log) -> (Journal, Teller) {
    let (send, events) = sync_channel::<Option<Event>>(WAITING_MAX);
    let (tell_end, ended) = sync_channel(1);
    if let Some(tell) = log.0.clone() {
        std::thread::spawn(move || {
            while let Ok(Some(event)) = events.recv() {
                tell(event);
            }
            drop(tell_end);
        });
    }
    let end = send.clone();
    // Without a thread or with a full channel the event is dropped.
    let journal = Journal::new(move |event| drop(send.try_send(Some(event))));
    (journal, Teller { end, ended })
}

/// The thread that calls the log. It may be stuck in a log that takes no more.
pub(crate) struct Teller {
    end: SyncSender<Option<Event>>,
    ended: Receiver<()>,
}

impl Teller {
    /// Waits until all events so far are logged, at most [`LAST_TOLD_WITHIN`].
    pub(crate) fn end(self) {
        if self.end.try_send(None).is_ok() {
            // An error means that the thread has ended or is stuck.
            let _ = self.ended.recv_timeout(LAST_TOLD_WITHIN);
        }
    }
}

/// Queue from all cores to the [`Log`]. A client that causes many events neither blocks a core nor
/// floods the log.
pub struct Journal {
    send: Box<dyn Fn(Event) + Send + Sync>,
    kinds: Mutex<Vec<Kind>>,
}

/// Recent lines of one event.
struct Kind {
    name: &'static str,
    since: Instant,
    lines: u32,
    left_out: u64,
}

impl Journal {
    /// Passes events to `send`, which must return at once.
    pub fn new(send: impl Fn(Event) + Send + Sync + 'static) -> Journal {
        Journal { send: Box::new(send), kinds: Mutex::default() }
    }

    /// Reports an event.
    pub fn tell(&self, name: &'static str, text: impl Into<String>) {
        let mut text = text.into();
        match self.admit(name, Instant::now()) {
            None => return,
            Some(0) => {}
            Some(left_out) => text.push_str(&format!(" ({left_out} more of this kind left out)")),
        }
        (self.send)(Event { name, text });
    }

    /// Returns the number of dropped events if this one may be logged now, `None` if not.
    fn admit(&self, name: &'static str, now: Instant) -> Option<u64> {
        let mut kinds = self.kinds.lock();
        let place = kinds.iter().position(|kind| kind.name == name).unwrap_or_else(|| {
            kinds.push(Kind { name, since: now, lines: 0, left_out: 0 });
            kinds.len() - 1
        });
        let kind = &mut kinds[place];
        if now.duration_since(kind.since) >= PERIOD {
            (kind.since, kind.lines) = (now, 0);
        }
        if kind.lines == LINES_MAX {
            kind.left_out += 1;
            return None;
        }
        kind.lines += 1;
        Some(std::mem::take(&mut kind.left_out))
    }
}

impl Default for Journal {
    fn default() -> Journal {
        Journal::new(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_events_of_a_kind_become_a_few_lines_and_a_count() {
        let journal = Journal::default();
        let start = Instant::now();
        let told = (0..25).filter(|_| journal.admit("flood", start).is_some()).count();
        assert_eq!(told, LINES_MAX as usize);
        assert_eq!(journal.admit("other", start), Some(0));
        assert_eq!(journal.admit("flood", start + PERIOD), Some(15));
        assert_eq!(journal.admit("flood", start + PERIOD), Some(0));
    }
}
