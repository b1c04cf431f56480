//! HAMS's claims by arithmetic: HM6, HM8.

use ebbtide_study::claims::Finding;

use super::claims::CLAIMS;

/// A read of Z-NAND.
const Z_NAND_US: f64 = 3.0;

/// From a column's address to its data in DDR4-1600.
const CAS_NS: f64 = 13.0;

/// A burst of 64 B in DDR4-1600: eight beats.
const BURST_NS: f64 = 8.0 * 0.625;

/// The findings.
pub(crate) fn findings() -> Vec<Finding> {
    vec![
        CLAIMS.found("HM6", "least", 15.0 / Z_NAND_US),
        CLAIMS.found("HM6", "most", 20.0 / Z_NAND_US),
        CLAIMS
            .found("HM8", "", CAS_NS + BURST_NS)
            .note("An open row and one burst; the timing of DDR4-1600 is assumed."),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_study::claims::Verdict;

    #[test]
    fn every_claim_comes_out_as_computed_by_hand() {
        let findings = findings();
        assert!(
            findings.iter().all(|finding| finding.verdict == Verdict::ByConstruction),
            "{findings:?}"
        );
        let ours: Vec<_> = findings.into_iter().filter_map(|finding| finding.ours).collect();
        assert_eq!(ours, ["5.00×", "6.67×", "18.0 ns"]);
    }
}
