//! HAMS's claims by arithmetic: HM6, HM8.

use ebbtide_study::claims::{Claim, Finding};

/// A read of Z-NAND.
const Z_NAND_US: f64 = 3.0;

/// Time from a column's address to its data in DDR4-1600.
const CAS_NS: f64 = 13.0;

/// A burst of 64 B in DDR4-1600: eight beats.
const BURST_NS: f64 = 8.0 * 0.625;

/// Judges HM6: software time of a fault over Z-NAND's 3 µs.
pub(super) fn over_z_nand(claim: &Claim) -> Vec<Finding> {
    vec![claim.finding("least", 15.0 / Z_NAND_US), claim.finding("most", 20.0 / Z_NAND_US)]
}

/// Judges HM8: lookup in the mapping table.
pub(super) fn lookup(claim: &Claim) -> Vec<Finding> {
    let note = "An open row and one burst; the timing of DDR4-1600 is assumed.";
    vec![claim.finding("", CAS_NS + BURST_NS).note(note)]
}

#[cfg(test)]
mod tests {
    use crate::hams::claims::RECORDS;
    use crate::record::by_formulas;
    use ebbtide_study::claims::Verdict;

    #[test]
    fn every_claim_comes_out_as_computed_by_hand() {
        let findings = by_formulas(&RECORDS);
        assert!(
            findings.iter().all(|finding| finding.verdict == Verdict::ByConstruction),
            "{findings:?}"
        );
        let ours: Vec<_> = findings.into_iter().filter_map(|finding| finding.ours).collect();
        assert_eq!(ours, ["5.00×", "6.67×", "18.0 ns"]);
    }
}
