//! HAMS's claims by arithmetic: HM6, HM8.

use crate::claims::Finding;
use crate::formulas::finding;

/// A read of Z-NAND.
const Z_NAND_US: f64 = 3.0;

/// From a column's address to its data in DDR4-1600.
const CAS_NS: f64 = 13.0;

/// A burst of 64 B in DDR4-1600: eight beats.
const BURST_NS: f64 = 8.0 * 0.625;

/// All of them.
pub fn findings() -> Vec<Finding> {
    vec![
        finding("HM6", "least", 15.0 / Z_NAND_US),
        finding("HM6", "most", 20.0 / Z_NAND_US),
        finding("HM8", "", CAS_NS + BURST_NS)
            .note("An open row and one burst; the timing of DDR4-1600 is assumed."),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Verdict;

    #[test]
    fn every_claim_comes_out_as_computed_by_hand() {
        let findings = findings();
        assert!(findings.iter().all(|finding| finding.verdict == Verdict::Within), "{findings:?}");
        let ours: Vec<_> = findings.into_iter().filter_map(|finding| finding.ours).collect();
        assert_eq!(ours, ["5.00×", "6.67×", "18.0 ns"]);
    }
}
