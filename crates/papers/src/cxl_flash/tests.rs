//! Tests that every claim that runs decide has a verdict.

use ebbtide_study::claims::{Claim, Findings, Verdict};

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

/// The parts of `claim` with a finding, which is aside for captured programs. The stand-ins' findings
/// are beside those of the same parts.
fn parts_decided(study: &CxlFlash, claim: &Claim) -> usize {
    let Findings { claims, asides } = &study.findings;
    let captured = asides.iter().filter(|finding| finding.quantity.contains("captured"));
    claims.iter().chain(captured).filter(|finding| finding.id == claim.id).count()
}

#[test]
fn a_claim_alone_finds_the_runs_that_it_needs() {
    for claim in CLAIMS.iter().filter(|claim| claim.id != "CX28") {
        let alone = study(&Selection::Claims(vec![claim.id]));
        assert_eq!(parts_decided(&alone, claim), claim.parts().len(), "{}", claim.id);
        assert!(alone.findings.claims.iter().all(|finding| finding.id == claim.id));
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
        assert_eq!(parts_decided(&study, claim), claim.parts().len(), "{}", claim.id);
    }
    assert!(study.findings.count(Verdict::Within) > 0 && !study.figures().0.is_empty());
}
