//! Traces captured from real programs with `ebbtide trace`. They are small runs behind a small
//! last-level cache, by virtual and physical addresses. The binary contains them.

use ebbtide_trace::{Input, TraceError, WithFrames, native::NativeReader};

/// A trace in the folder `traces`.
pub(crate) struct Captured {
    /// The program.
    pub(crate) name: &'static str,
    bytes: &'static [u8],
}

macro_rules! captured {
    ($name:literal) => {
        Captured {
            name: concat!($name, ", captured"),
            bytes: include_bytes!(concat!("../../../traces/", $name, ".ebt")),
        }
    };
}

/// All traces, as in `traces/README.md`.
pub(crate) const CAPTURED: [Captured; 9] = [
    captured!("sort"),
    captured!("xz"),
    captured!("perl"),
    captured!("sqlite"),
    captured!("transformer"),
    captured!("pagerank"),
    captured!("components"),
    captured!("povray"),
    captured!("redis"),
];

/// The captured programs of the same kinds as the study's real ones, by name, in the order of
/// [`super::REAL`]. They are a transformer for BERT, PageRank, radiosity, xz, and a store under
/// YCSB.
pub(crate) const COUNTERPARTS: [&str; 5] =
    [CAPTURED[4].name, CAPTURED[5].name, CAPTURED[7].name, CAPTURED[1].name, CAPTURED[8].name];

impl Captured {
    /// The accesses with a known physical address, which are nearly all. So both kinds of addresses
    /// have the same accesses.
    ///
    /// # Errors
    /// When the trace is damaged.
    pub(crate) fn trace(&self) -> Result<WithFrames<NativeReader>, TraceError> {
        Ok(WithFrames::new(NativeReader::new(Input::new(self.name, self.bytes)?)?))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ebbtide_trace::{Physical, Source, Wrapped};

    use super::*;

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
