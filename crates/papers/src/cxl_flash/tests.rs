//! Tests that every claim that runs decide has a verdict.

use std::path::Path;

use ebbtide_core::Watch;
use ebbtide_study::claims::{Claim, Findings, Verdict};

use super::CxlFlash;
use super::claims::{CLAIMS, RECORDS};
use super::experiments::{self, Given, Open, Row, Run, STAND_INS, Scale, file_name};
use crate::record::{findings, needed};
use crate::{ReproduceOptions, Selection};

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
        runs: experiments::needed(scale, &needed(&RECORDS, selection), &Given::default())
            .iter()
            .map(row)
            .collect(),
        given: Given::default(),
        traces: Vec::new(),
        findings: Findings::default(),
    };
    study.findings = findings(CLAIMS, &RECORDS, &study, selection);
    study
}

/// The parts of `claim` with a finding, which is aside for captured programs. The stand-ins'
/// findings are beside those of the same parts.
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

/// Writes a trace in the form of the study's simulator.
fn write_trace(folder: &Path, program: usize, physical: bool) {
    let mut trace = STAND_INS[program].trace(3_000, Open::Fixed, 7);
    let path = folder.join(file_name(program, physical));
    ebbtide_trace::copy_to(&mut trace, &path, None, "").expect("there is room");
}

#[test]
fn a_claim_without_its_trace_names_the_file_and_the_command() {
    let study = study(&Selection::Claims(vec!["CX18", "CX26"]));
    let notes = study.findings.claims.iter().map(|finding| {
        assert_eq!((finding.verdict, &finding.ours), (Verdict::NeedsInput, &None));
        finding.note.as_str()
    });
    let notes: Vec<&str> = notes.collect();
    assert!(notes[0].starts_with("Needs radiosity_p.trace of Zenodo's record"), "{notes:?}");
    assert!(notes[0].contains("--traces DIR --claim CX18`"), "{notes:?}");
    assert!(notes[2].starts_with("Needs page_rank_v.trace of"), "{notes:?}");
}

#[test]
fn the_studys_own_traces_decide_what_is_claimed_of_real_programs() {
    let folder = tempfile::tempdir().expect("there is room");
    for program in 0..STAND_INS.len() {
        [true, false].into_iter().for_each(|space| write_trace(folder.path(), program, space));
    }
    let options = ReproduceOptions {
        selection: Selection::Claims(vec!["CX18", "CX20", "CX23"]),
        quick: true,
        seed: 1,
        real: false,
        threads: 1,
        traces: Some(folder.path().to_path_buf()),
    };
    let reproduced = (super::PAPER.reproduce)(&options, Watch::unattended());
    let found = reproduced.expect("traces are whole").findings;
    assert_eq!(found.claims.len(), 5);
    assert!(found.claims.iter().all(|finding| finding.ours.is_some()), "{found}");
    assert!(found.asides.is_empty(), "no stand-in is left: {found}");
}
