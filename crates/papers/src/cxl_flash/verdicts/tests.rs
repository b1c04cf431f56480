//! Every claim that runs decide has a verdict.

use ebbtide_study::claims::{Findings, Verdict};

use super::findings;
use crate::cxl_flash::CxlFlash;
use crate::cxl_flash::claims::CLAIMS;
use crate::cxl_flash::experiments::{Row, Run, Scale, all};

#[test]
fn every_claim_that_runs_decide_finds_them_and_has_a_verdict() {
    let scale = Scale { synthetic: 8, accesses_max: 1 };
    let row = |run: &Run| Row {
        figure: run.figure,
        program: run.program(),
        setup: run.setup.clone(),
        accesses: 1,
        ..Row::default()
    };
    let mut study = CxlFlash {
        synthetic_scale_denominator: 8,
        accesses_max: Some(1),
        seed: 1,
        runs: all(scale).iter().map(row).collect(),
        traces: Vec::new(),
        findings: Findings::default(),
    };
    let names: Vec<_> =
        study.runs.iter().map(|row| (row.figure, row.program, &row.setup)).collect();
    let different: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(different.len(), names.len(), "two runs have one name");
    study.findings = findings(&study);
    // Statistics of traces are measured on traces.
    for claim in CLAIMS.iter().filter(|claim| claim.id != "CX28") {
        let found = study.findings.claims.iter().filter(|finding| finding.id == claim.id);
        assert_eq!(found.count(), claim.parts().len(), "{}", claim.id);
    }
    assert!(study.findings.count(Verdict::Within) > 0 && !study.figures().0.is_empty());
}
