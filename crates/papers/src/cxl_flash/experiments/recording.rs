//! [`Recording`]: what a program's references leave behind a last-level cache, eight bytes an access.

use ebbtide_core::{Addr, LINE_BYTES, Time};
use ebbtide_trace::{Access, Evicted, LineCache, Op, Source, TraceError};

/// The study's tracer has the caches of the machine that it ran on, which the paper does not name:
/// an assumption.
const LLC_BYTES: u64 = 8 << 20;
const LLC_WAYS: usize = 16;

const LINE_BITS: u32 = 39;
const WRITE: u64 = 1 << LINE_BITS;
const GAP_SHIFT: u32 = LINE_BITS + 1;
const GAP_MAX: u64 = u64::MAX >> GAP_SHIFT;

/// Accesses to memory, in order. Time is counted in references of the program and stretched so that
/// accesses come at the wished mean interval.
pub(crate) struct Recording {
    /// Line, write bit, and references since the access before.
    entries: Vec<u64>,
    references: u64,
    interval_ns: f64,
}

/// A program's references on their way through the last-level cache.
pub(crate) struct Recorder {
    llc: LineCache,
    recording: Recording,
    since: u64,
    accesses_max: usize,
    /// One access in so many is recorded, and how many there were.
    kept: u64,
    accesses: u64,
    /// The line that was last referred to, and whether to write it.
    last: (u64, bool),
}

/// A program ends early once enough was recorded.
pub(crate) struct Enough;

impl Recorder {
    /// Records up to `accesses_max` accesses at `interval_ns`, behind a cache that is smaller by
    /// `scale`.
    pub(crate) fn new(accesses_max: usize, interval_ns: f64, scale: u64) -> Recorder {
        let lines = LLC_BYTES / scale / LINE_BYTES as u64;
        Recorder {
            llc: LineCache::new(lines, LLC_WAYS).expect("scales are powers of two"),
            recording: Recording { entries: Vec::new(), references: 0, interval_ns },
            since: 0,
            accesses_max,
            kept: 1,
            accesses: 0,
            last: (u64::MAX, false),
        }
    }

    /// Records from now on one access in `kept`, in the time that these take.
    pub(crate) fn keep_one_in(&mut self, kept: u64) {
        self.kept = kept;
    }

    /// The program loads from `at`, or stores to it.
    #[inline]
    pub(crate) fn touch(&mut self, at: u64, write: bool) -> Result<(), Enough> {
        self.since += 1;
        let line = at / LINE_BYTES as u64;
        if self.last.0 == line && (self.last.1 || !write) {
            return Ok(());
        }
        self.last = (line, write);
        if self.llc.touch(line, write).is_none() {
            self.push(line, 0);
            if let Some(Evicted { line: old, dirty: true }) = self.llc.install(line, write) {
                self.push(old, WRITE);
            }
            if self.recording.entries.len() >= self.accesses_max {
                return Err(Enough);
            }
        }
        Ok(())
    }

    /// The program refers `count` times to what it just did.
    pub(crate) fn again(&mut self, count: u64) {
        self.since += count;
    }

    fn push(&mut self, line: u64, write: u64) {
        let gap = std::mem::take(&mut self.since).min(GAP_MAX);
        self.accesses += 1;
        if !self.accesses.is_multiple_of(self.kept) {
            return;
        }
        self.recording.references += gap;
        self.recording.entries.push(line | write | gap << GAP_SHIFT);
    }

    pub(crate) fn finish(mut self) -> Recording {
        self.recording.entries.truncate(self.accesses_max);
        self.recording
    }
}

impl Recording {
    /// The accesses as a trace.
    pub(crate) fn replay(&self) -> Replayed<'_> {
        let references = self.references.max(1) as f64;
        let ps = self.interval_ns * 1e3 * self.entries.len() as f64 / references;
        Replayed { recording: self, next: 0, references: 0, ps_per_reference: ps }
    }
}

/// A [`Recording`] as a trace.
pub(crate) struct Replayed<'a> {
    recording: &'a Recording,
    next: usize,
    references: u64,
    ps_per_reference: f64,
}

/// Accesses in a batch.
pub(crate) const BATCH: usize = 2_048;

impl Source for Replayed<'_> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        batch.clear();
        let entries = &self.recording.entries[self.next..];
        let entries = &entries[..entries.len().min(BATCH)];
        batch.extend(entries.iter().map(|entry| {
            self.references += entry >> GAP_SHIFT;
            let line = entry & (WRITE - 1);
            let op = if entry & WRITE != 0 { Op::Write } else { Op::Read };
            access((self.references as f64 * self.ps_per_reference) as u64, line, op)
        }));
        self.next += batch.len();
        Ok(!batch.is_empty())
    }
}

/// An access of a whole line.
pub(crate) fn access(at_ps: u64, line: u64, op: Op) -> Access {
    Access {
        at: Time::from_ps(at_ps),
        address: Addr(line * LINE_BYTES as u64),
        frame: None,
        device: 0,
        bytes: LINE_BYTES as u32,
        op,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequence_of_stores_is_read_and_later_written_back_at_the_wished_interval() {
        let mut recorder = Recorder::new(1 << 20, 100.0, 64);
        let lines = 1 << 14;
        for word in 0..lines * 8 {
            assert!(recorder.touch(word * 8, true).is_ok());
        }
        let recording = recorder.finish();
        // All but what the cache still holds comes back.
        let cached = LLC_BYTES / 64 / 64;
        assert_eq!(recording.entries.len() as u64, 2 * lines - cached);
        let mut trace = recording.replay();
        let (mut batch, mut last, mut count) = (Vec::new(), Time::ZERO, 0u64);
        while trace.fill(&mut batch).unwrap() {
            assert!(batch.is_sorted_by_key(|access| access.at) && batch[0].at >= last);
            last = batch[batch.len() - 1].at;
            count += batch.len() as u64;
        }
        assert!((last.as_ns() as f64 / count as f64 - 100.0).abs() < 1.0);
    }

    #[test]
    fn of_one_access_in_so_many_the_others_and_their_time_are_left_out() {
        let record = |kept| {
            let mut recorder = Recorder::new(1 << 20, 100.0, 64);
            recorder.keep_one_in(kept);
            (0..1 << 14).for_each(|line| assert!(recorder.touch(line * 64, true).is_ok()));
            recorder.finish()
        };
        let (all, some) = (record(1), record(5));
        assert_eq!(some.entries.len(), all.entries.len() / 5);
        assert!(some.references <= all.references / 4, "{} {}", some.references, all.references);
        assert!(some.entries.iter().all(|entry| all.entries.contains(entry)));
    }
}
