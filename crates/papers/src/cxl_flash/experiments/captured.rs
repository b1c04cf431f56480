//! Traces captured from real programs with `ebbtide trace`. They are small runs behind a small
//! last-level cache, by virtual and physical addresses. The binary contains them.

use ebbtide_trace::{Input, Stretched, TraceError, WithFrames, native::NativeReader};

/// A trace in the folder `traces`.
pub(crate) struct Captured {
    /// The program.
    pub(crate) name: &'static str,
    bytes: &'static [u8],
    /// The whole number by which its times are multiplied. It brings the mean interval next to that
    /// of the study's program of the same kind, which also rescales the times of each program.
    times: u64,
}

macro_rules! captured {
    ($name:literal, $times:literal) => {
        Captured {
            name: concat!($name, ", captured"),
            bytes: include_bytes!(concat!("../../../traces/", $name, ".ebt")),
            times: $times,
        }
    };
}

/// All traces, as in `traces/README.md`.
pub(crate) const CAPTURED: [Captured; 9] = [
    captured!("sort", 1),
    captured!("xz", 3),
    captured!("perl", 1),
    captured!("sqlite", 1),
    captured!("transformer", 11),
    captured!("pagerank", 4),
    captured!("components", 1),
    captured!("povray", 7),
    captured!("redis", 6),
];

/// The captured programs of the same kinds as the study's real ones, by name, in the order of
/// [`super::REAL`]. They are a transformer for BERT, PageRank, radiosity, xz, and a store under
/// YCSB.
pub(crate) const COUNTERPARTS: [&str; 5] =
    [CAPTURED[4].name, CAPTURED[5].name, CAPTURED[7].name, CAPTURED[1].name, CAPTURED[8].name];

impl Captured {
    /// The accesses with a known physical address, which are nearly all, at rescaled times. So both
    /// kinds of addresses have the same accesses.
    ///
    /// # Errors
    /// When the trace is damaged.
    pub(crate) fn trace(&self) -> Result<Stretched<WithFrames<NativeReader>>, TraceError> {
        Ok(Stretched::new(self.at_own_times()?, self.times))
    }

    /// The same at the times of the capture.
    ///
    /// # Errors
    /// When the trace is damaged.
    pub(crate) fn at_own_times(&self) -> Result<WithFrames<NativeReader>, TraceError> {
        Ok(WithFrames::new(NativeReader::new(Input::new(self.name, self.bytes)?)?))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ebbtide_trace::{Physical, Source, Wrapped};

    use super::*;

    #[test]
    fn counterparts_come_at_about_the_intervals_of_the_studys_programs() {
        for (name, program) in COUNTERPARTS.iter().zip(super::super::stand_ins::STAND_INS) {
            let captured = CAPTURED.iter().find(|captured| captured.name == *name).unwrap();
            let (mut trace, mut batch) = (captured.trace().unwrap(), Vec::new());
            // A window of a program does not begin at time zero.
            let mut times_ps = Vec::new();
            while trace.fill(&mut batch).unwrap() {
                times_ps.extend(batch.iter().map(|access| access.at.as_ps()));
            }
            let lasts_ps = times_ps[times_ps.len() - 1] - times_ps[0];
            let interval_ns = lasts_ps as f64 / 1e3 / times_ps.len() as f64;
            let ratio = interval_ns / program.interval_ns;
            assert!((0.85..1.18).contains(&ratio), "{name}: {interval_ns} ns");
        }
    }

    fn pages(mut source: impl Source) -> BTreeSet<u64> {
        let (mut batch, mut pages) = (Vec::new(), BTreeSet::new());
        while source.fill(&mut batch).unwrap() {
            pages.extend(batch.iter().map(|access| access.address.page().0));
        }
        pages
    }

    #[test]
    fn every_access_has_a_physical_address_and_no_two_pages_fall_on_one_of_the_device() {
        for captured in CAPTURED {
            let device = 1 << 22;
            for physical in [false, true] {
                let trace = || -> Box<dyn Source> {
                    let trace = captured.trace().unwrap();
                    if physical { Box::new(Physical::new(trace)) } else { Box::new(trace) }
                };
                let wrapped = pages(Wrapped::new(trace(), device));
                assert!(wrapped.iter().all(|page| *page < device));
                assert_eq!(pages(trace()).len(), wrapped.len(), "{}, {physical}", captured.name);
            }
        }
    }
}
