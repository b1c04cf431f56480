//! The traces of the study's five synthetic programs (ATC'23 Table 2).
//!
//! The tables state that random touches 4 GiB and stride 8 GiB, and that twenty million accesses
//! were simulated. A trace with the whole `memset` before the loop would spend all accesses on it
//! and touch less than 1 GiB. So these traces leave it out.
//!
//! The study's translation keeps one access a microsecond of the traced run, so its traces may
//! contain a part of it: [`Cut::Memset`]. The traces here have the times of that translation.

use ebbtide_core::LINE_BYTES;
use ebbtide_trace::{Enough, LineCache, Recorder, Recording, Source};
use ebbtide_workloads::Synthetic;

/// Simulated accesses of each program.
const ACCESSES: u64 = 20_000_000;

/// The last-level cache in front of the traces. The paper does not name its tracer's: an
/// assumption.
const LLC_BYTES: u64 = 8 << 20;
const LLC_WAYS: usize = 16;

/// A synthetic program.
pub(crate) struct Program {
    /// Its name in the paper.
    pub(crate) name: &'static str,
    /// Mean time between accesses (Table 2).
    pub(crate) interval_ns: f64,
    references: Synthetic,
    /// How many times slower the traced run is. The study's translator divides times by a number
    /// for each program. The five for synthetic programs stand in its source without their names.
    /// Their order is an assumption.
    slowdown: u64,
}

/// All five, in the order of Table 3.
pub(crate) const PROGRAMS: [Program; 5] = [
    program("hash map", 329.0, Synthetic::HashMap, 124),
    program("matrix multiply", 38.0, Synthetic::MatrixMultiply, 165),
    program("min heap", 72.0, Synthetic::MinHeap, 142),
    program("random", 76.0, Synthetic::Random, 117),
    program("stride", 146.0, Synthetic::Stride, 108),
];

const fn program(
    name: &'static str,
    interval_ns: f64,
    references: Synthetic,
    slowdown: u64,
) -> Program {
    Program { name, interval_ns, references, slowdown }
}

/// The accesses of a program that a trace has. The paper does not state them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Cut {
    /// The first twenty million of its loop.
    First,
    /// The same at times in proportion to the program's references.
    Untranslated,
    /// This many times twenty million of its loop.
    Longer(f64),
    /// One of this many of the first twenty million of its loop.
    OneIn(u64),
    /// One of this many of its `memset`, then those of its loop: twenty million in all.
    Memset(u64),
}

impl Cut {
    /// Its name in notes. Empty for [`Cut::First`].
    pub(crate) fn name(self) -> String {
        match self {
            Cut::First => String::new(),
            Cut::Untranslated => "times untranslated".to_string(),
            Cut::Longer(times) => format!("{times} times as long"),
            Cut::OneIn(kept) => format!("one access in {kept}"),
            Cut::Memset(kept) => format!("after one in {kept} of its memset"),
        }
    }

    /// Accesses of a trace with this cut, with data and cache divided by `scale`.
    pub(crate) fn accesses(self, scale: u64) -> u64 {
        let length = match self {
            Cut::Longer(times) => times,
            Cut::OneIn(kept) => 1.0 / kept as f64,
            Cut::First | Cut::Untranslated | Cut::Memset(_) => 1.0,
        };
        ((ACCESSES / scale) as f64 * length) as u64
    }
}

impl Program {
    /// The program's accesses behind a last-level cache, with data and cache divided by `scale`.
    pub(crate) fn record(&self, cut: Cut, scale: u64) -> Recording {
        let llc = LineCache::new(LLC_BYTES / scale / LINE_BYTES as u64, LLC_WAYS);
        let llc = llc.expect("scales are powers of two");
        let mut recorder = Recorder::new(llc, cut.accesses(scale) as usize, self.interval_ns);
        // The program ends, or the recorder stops it when it has enough.
        let _ = self.refer(&mut recorder, cut, scale);
        recorder.finish()
    }

    /// The accesses of `recording`, which has the cut `cut`, at the times of that cut.
    pub(crate) fn replay<'a>(&self, cut: Cut, recording: &'a Recording) -> Box<dyn Source + 'a> {
        match cut {
            Cut::Untranslated => Box::new(recording.replay()),
            _ => Box::new(recording.translated(self.slowdown)),
        }
    }

    fn refer(&self, recorder: &mut Recorder, cut: Cut, scale: u64) -> Result<(), Enough> {
        if let Cut::Memset(kept) = cut {
            recorder.keep_one_in(kept);
            self.references.set_memory(recorder, scale)?;
            recorder.keep_one_in(1);
        }
        if let Cut::OneIn(kept) = cut {
            recorder.keep_one_in(kept);
        }
        self.references.run(recorder, scale)
    }
}
