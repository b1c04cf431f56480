//! [`Recording`]: the accesses of a program that reach memory, in eight bytes each.

use ebbtide_core::{Addr, LINE_BYTES, Time};

use crate::line_cache::{Evicted, LineCache, LineId};
use crate::{Access, Op, Source, TraceError};

const LINE_BITS: u32 = 39;
const WRITE: u64 = 1 << LINE_BITS;
const GAP_SHIFT: u32 = LINE_BITS + 1;
const GAP_MAX: u64 = u64::MAX >> GAP_SHIFT;

/// The recorded accesses to memory, in order. Their times follow the program's references, scaled
/// to the mean interval of the [`Recorder`].
pub struct Recording {
    /// Line, write bit, and references since the access before.
    entries: Vec<u64>,
    references: u64,
    interval_ns: f64,
}

/// Passes a program's references through a last-level cache and records the accesses to memory.
pub struct Recorder {
    llc: LineCache,
    recording: Recording,
    since: u64,
    accesses_max: usize,
    /// One access in this many is kept.
    kept: u64,
    accesses: u64,
    /// The line of the last reference, and whether it was a store.
    last: (LineId, bool),
}

/// The recording has its greatest number of accesses. The program can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enough;

impl Recorder {
    /// Returns a recorder of up to `accesses_max` accesses that miss in `llc`. In the recording,
    /// accesses are `interval_ns` nanoseconds apart on average.
    pub fn new(llc: LineCache, accesses_max: usize, interval_ns: f64) -> Recorder {
        Recorder {
            llc,
            recording: Recording { entries: Vec::new(), references: 0, interval_ns },
            since: 0,
            accesses_max,
            kept: 1,
            accesses: 0,
            last: (u64::MAX, false),
        }
    }

    /// Records from now on one access of every `kept`, which must not be 0. Time passes only for
    /// recorded accesses.
    pub fn keep_one_in(&mut self, kept: u64) {
        self.kept = kept;
    }

    /// Passes a load from the byte address `at` through the cache, or a store if `write`.
    ///
    /// # Errors
    /// [`Enough`] if the reference reaches memory and the recording is full.
    #[inline]
    pub fn touch(&mut self, at: u64, write: bool) -> Result<(), Enough> {
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

    /// Counts `count` repetitions of the last reference. They only advance time.
    pub fn again(&mut self, count: u64) {
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

    /// Ends the recording and returns it.
    pub fn finish(mut self) -> Recording {
        self.recording.entries.truncate(self.accesses_max);
        self.recording
    }
}

impl Recording {
    /// Returns the accesses as a trace.
    pub fn replay(&self) -> Replayed<'_> {
        let references = self.references.max(1) as f64;
        let ps = self.interval_ns * 1e3 * self.entries.len() as f64 / references;
        Replayed { recording: self, next: 0, references: 0, ps_per_reference: ps }
    }
}

impl Recording {
    /// Returns the accesses as the tracer and the translator of the CXL-flash study give them. The
    /// traced run is `slowdown` times as slow. Only the first access of each microsecond of the
    /// traced run is kept. A microsecond of the traced run becomes `1000 / slowdown` nanoseconds,
    /// rounded down.
    ///
    /// # Panics
    /// Unless `slowdown` is from 1 to 1,000.
    pub fn translated(&self, slowdown: u64) -> Translated<'_> {
        self.traced(slowdown, MESSAGE_NS)
    }

    /// The same if the tracer takes `message_ns` to print an access.
    fn traced(&self, slowdown: u64, message_ns: f64) -> Translated<'_> {
        assert!((1..=1000).contains(&slowdown), "{slowdown} times as slow");
        let scale_ns = 1000 / slowdown;
        let (accesses, references) = (self.entries.len() as f64, self.references.max(1) as f64);
        let of_references_ns = self.interval_ns / scale_ns as f64 * 1e3 - message_ns;
        Translated {
            recording: self,
            next: 0,
            references: 0,
            message_ns,
            ns_per_reference: (of_references_ns * accesses / references).max(0.0),
            scale_ns,
            last_us: None,
        }
    }
}

/// Time that Valgrind takes to print an access: CPU time of its memory tracer over its lines,
/// measured with Valgrind 3.19.
const MESSAGE_NS: f64 = 1_250.0;

/// A [`Recording`] as a trace at the times of the study's translator.
pub struct Translated<'a> {
    recording: &'a Recording,
    next: usize,
    references: u64,
    /// Times of a message and of a reference in the traced run.
    message_ns: f64,
    ns_per_reference: f64,
    /// Nanoseconds that a microsecond of the traced run becomes.
    scale_ns: u64,
    /// The microsecond of the last access that was kept.
    last_us: Option<u64>,
}

impl Source for Translated<'_> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        batch.clear();
        while let (true, Some(entry)) = (batch.len() < BATCH, self.recording.entries.get(self.next))
        {
            self.references += entry >> GAP_SHIFT;
            let of_references_ns = self.references as f64 * self.ns_per_reference;
            let us = ((of_references_ns + self.next as f64 * self.message_ns) / 1e3) as u64;
            self.next += 1;
            if self.last_us != Some(us) {
                self.last_us = Some(us);
                batch.push(access_of(us * self.scale_ns * 1_000, *entry));
            }
        }
        Ok(!batch.is_empty())
    }
}

/// The access of an entry, at `at_ps` picoseconds.
fn access_of(at_ps: u64, entry: u64) -> Access {
    let op = if entry & WRITE != 0 { Op::Write } else { Op::Read };
    line_access(at_ps, entry & (WRITE - 1), op)
}

/// A [`Recording`] as a trace.
pub struct Replayed<'a> {
    recording: &'a Recording,
    next: usize,
    references: u64,
    ps_per_reference: f64,
}

/// Accesses in a batch.
const BATCH: usize = 2_048;

impl Source for Replayed<'_> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        batch.clear();
        let entries = &self.recording.entries[self.next..];
        let entries = &entries[..entries.len().min(BATCH)];
        batch.extend(entries.iter().map(|entry| {
            self.references += entry >> GAP_SHIFT;
            access_of((self.references as f64 * self.ps_per_reference) as u64, *entry)
        }));
        self.next += batch.len();
        Ok(!batch.is_empty())
    }
}

/// Returns an access to all 64 bytes of the line `line` at `at_ps` picoseconds.
pub fn line_access(at_ps: u64, line: LineId, op: Op) -> Access {
    Access::new(Time::from_ps(at_ps), Addr(line * LINE_BYTES as u64), LINE_BYTES as u32, op)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: u64 = 2_048;

    fn llc() -> LineCache {
        LineCache::new(LINES, 16).expect("a power of two of sets")
    }

    #[test]
    fn a_sequence_of_stores_is_read_and_later_written_back_at_the_given_interval() {
        let mut recorder = Recorder::new(llc(), 1 << 20, 100.0);
        let lines = 1 << 14;
        for word in 0..lines * 8 {
            assert!(recorder.touch(word * 8, true).is_ok());
        }
        let recording = recorder.finish();
        // All but what the cache still holds comes back.
        assert_eq!(recording.entries.len() as u64, 2 * lines - LINES);
        let mut trace = recording.replay();
        let (mut batch, mut last, mut count) = (Vec::new(), Time::ZERO, 0u64);
        while trace.fill(&mut batch).unwrap() {
            assert!(batch.is_sorted_by_key(|access| access.at) && batch[0].at >= last);
            last = batch[batch.len() - 1].at;
            count += batch.len() as u64;
        }
        assert!((last.as_ns() as f64 / count as f64 - 100.0).abs() < 1.0);
    }

    /// The times of `trace` in picoseconds.
    fn times(mut trace: Translated<'_>) -> Vec<u64> {
        let (mut batch, mut times) = (Vec::new(), Vec::new());
        while trace.fill(&mut batch).unwrap() {
            times.extend(batch.iter().map(|access| access.at.as_ps()));
        }
        times
    }

    /// A recording of stores in order, `interval_ns` apart.
    fn in_order(interval_ns: f64) -> Recording {
        let mut recorder = Recorder::new(llc(), 1 << 20, interval_ns);
        (0..1 << 17).for_each(|word| assert!(recorder.touch(word * 8, true).is_ok()));
        recorder.finish()
    }

    #[test]
    fn translated_times_are_multiples_of_a_whole_number_and_each_has_one_access() {
        // 1,000 over 142 is 7. A message takes 1.25 us, and no access comes sooner.
        for (interval_ns, mean_ns) in [(100.0, 100.0), (5.0, 8.75)] {
            let recording = in_order(interval_ns);
            let times = times(recording.translated(142));
            assert_eq!(times.len(), recording.entries.len());
            assert!(times.iter().all(|ps| ps % 7_000 == 0));
            assert!(times.is_sorted_by(|one, next| one < next), "one access a time");
            let mean = times[times.len() - 1] as f64 / 1e3 / times.len() as f64;
            assert!((mean / mean_ns - 1.0).abs() < 0.01, "{mean} ns, expected {mean_ns}");
        }
    }

    #[test]
    fn of_accesses_in_the_same_microsecond_the_first_is_kept() {
        // 3.5 ns are half a microsecond of the traced run, and a message takes 0.25.
        let recording = in_order(3.5);
        let times = times(recording.traced(142, 250.0));
        assert!(times.is_sorted_by(|one, next| one < next), "one access a time");
        let kept = times.len() as f64 / recording.entries.len() as f64;
        assert!((0.45..0.55).contains(&kept), "{kept} of the accesses");
    }

    #[test]
    fn accesses_that_are_not_kept_and_their_time_are_left_out() {
        let record = |kept| {
            let mut recorder = Recorder::new(llc(), 1 << 20, 100.0);
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
