//! Stand-ins for the study's five real programs (ATC'23 Table 5). We do not have their traces.

use ebbtide_workloads::StandIn;

/// All five: interval in ns, million accesses, reads, GiB, spatial and temporal locality.
pub(crate) const STAND_INS: [StandIn; 5] = [
    stand_in("BERT", 297.0, 41, 0.73, 0.5, 0.64, 0.66),
    stand_in("Page Rank", 51.0, 435, 0.68, 3.7, 0.40, 0.42),
    stand_in("Radiosity", 1863.0, 61, 0.84, 1.6, 0.93, 0.87),
    stand_in("XZ", 237.0, 71, 0.55, 0.9, 0.31, 0.38),
    stand_in("YCSB", 1137.0, 110, 0.65, 1.8, 0.56, 0.55),
];

const fn stand_in(
    name: &'static str,
    interval_ns: f64,
    million_accesses: u64,
    reads: f64,
    gib: f64,
    spatial: f64,
    temporal: f64,
) -> StandIn {
    let accesses = million_accesses * 1_000_000;
    StandIn { name, interval_ns, accesses, reads, gib, spatial, temporal }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ebbtide_trace::Source;
    use ebbtide_workloads::Open;

    use super::*;

    /// Distinct pages in the second half of the first stand-in's first `accesses` accesses.
    fn pages(accesses: u64, open: Open) -> BTreeSet<u64> {
        let mut trace = STAND_INS[0].trace(accesses, open, 1);
        let (mut batch, mut pages, mut seen) = (Vec::new(), BTreeSet::new(), 0);
        while trace.fill(&mut batch).unwrap() {
            for access in &batch {
                seen += 1;
                if seen > accesses / 2 {
                    pages.insert(access.address.page().0);
                }
            }
        }
        pages
    }

    #[test]
    fn a_working_set_holds_the_pages_gone_to_anew_and_moves_on() {
        let all = pages(400_000, Open::Fixed);
        let some = pages(400_000, Open::WorkingSet(16));
        // 4096 pages, some 620 that they move on by, and lines that cross the end of a page.
        assert!(some.len() < 5_000 && all.len() > 3 * some.len(), "{} {}", some.len(), all.len());
        let (first, last) = (some.first().unwrap(), some.last().unwrap());
        assert!(*first > 0 && last - first < 5_000, "{first} to {last}");
    }

    #[test]
    fn so_many_accesses_go_to_so_many_pages_anew() {
        let accesses = STAND_INS[0].accesses_to_fill(10_000);
        // In order, all pages are different.
        let reached = pages(2 * accesses, Open::InOrder(1.0)).len();
        assert!((9_500..12_000).contains(&reached), "{reached}");
    }
}
