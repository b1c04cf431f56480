//! Tests that every claim that runs decide has a verdict.

use ebbtide_study::claims::{Findings, Verdict};

use super::CxlFlash;
use super::claims::{CLAIMS, RECORDS};
use super::experiments::{self, Row, Run, Scale};
use crate::Selection;
use crate::record::{findings, needed};

/// The study with the runs that `selection` needs. Each has its own row.
fn study(selection: &Selection) -> CxlFlash {
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
        runs: experiments::needed(scale, &needed(&RECORDS, selection)).iter().map(row).collect(),
        traces: Vec::new(),
        findings: Findings::default(),
    };
    study.findings = findings(CLAIMS, &RECORDS, &study, selection);
    study
}

#[test]
fn a_claim_alone_finds_the_runs_that_it_needs() {
    for claim in CLAIMS.iter().filter(|claim| claim.id != "CX28") {
        let alone = study(&Selection::Claims(vec![claim.id]));
        let found = alone.findings.claims.iter().map(|finding| finding.id);
        assert_eq!(found.collect::<Vec<_>>(), vec![claim.id; claim.parts().len()]);
    }
    let formulas = study(&Selection::Claims(vec!["CX29"]));
    assert!(formulas.runs.is_empty(), "nothing runs for what needs no run");
}

#[test]
fn every_claim_that_runs_decide_finds_them_and_has_a_verdict() {
    let study = study(&Selection::All);
    let names: Vec<_> =
        study.runs.iter().map(|row| (row.figure, row.program, &row.setup)).collect();
    let different: std::collections::HashSet<_> = names.iter().collect();
    assert_eq!(different.len(), names.len(), "two runs have one name");
    // The statistics of traces need real traces.
    for claim in CLAIMS.iter().filter(|claim| claim.id != "CX28") {
        let found = study.findings.claims.iter().filter(|finding| finding.id == claim.id);
        assert_eq!(found.count(), claim.parts().len(), "{}", claim.id);
    }
    assert!(study.findings.count(Verdict::Within) > 0 && !study.figures().0.is_empty());
}
