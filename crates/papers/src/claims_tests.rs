//! Tests that the tables of claims are complete and consistent.

use std::collections::HashSet;

use ebbtide_study::claims::{Accept, Finding, Findings, Method, Ours, Part, Verdict};

use super::*;
use crate::record::by_formulas;

#[test]
fn every_id_is_there_once_and_in_order() {
    let families = [("AS", 47), ("FL", 30), ("HM", 12), ("CX", 30)];
    let expected: Vec<String> = families
        .iter()
        .flat_map(|(prefix, last)| (1..=*last).map(move |number| format!("{prefix}{number}")))
        .collect();
    let found: Vec<&str> = all().map(|claim| claim.id).collect();
    assert_eq!(found, expected);
    assert!(expected.iter().all(|id| find(id).is_some_and(|claim| claim.id == id)));
    assert_eq!(find("AS48"), None);
}

#[test]
fn parts_of_a_claim_have_different_names() {
    for claim in all() {
        let names: HashSet<&str> = claim.parts().iter().map(|part| part.name).collect();
        assert_eq!(names.len(), claim.parts().len(), "{}", claim.id);
        assert!(names.len() == 1 || !names.contains(""), "{}", claim.id);
    }
}

/// The ids of the claims with the verdict `verdict` for every part, before any run.
fn settled(verdict: Verdict) -> Vec<&'static str> {
    let all_parts = |claim: &&Claim| {
        claim.parts().iter().all(|part| part.accept.verdict_beforehand() == Some(verdict))
    };
    all().filter(all_parts).map(|claim| claim.id).collect()
}

#[test]
fn only_the_claims_so_listed_are_inputs_or_cannot_be_tested() {
    let inputs = [
        "AS1", "AS2", "AS8", "AS9", "AS17", "AS21", "AS23", "AS25", "AS36", "AS41", "AS42", "AS43",
        "AS45", "AS46", "FL6", "FL7", "FL9", "FL26", "HM5", "HM7", "CX29", "CX30",
    ];
    assert_eq!(settled(Verdict::Input), inputs);
    assert_eq!(settled(Verdict::NotTestable), ["AS31", "HM3", "CX4"]);
    let partly = all().filter(|claim| {
        let settled = claim.findings_beforehand().count();
        settled > 0 && settled < claim.parts().len()
    });
    assert_eq!(
        partly.map(|claim| claim.id).collect::<Vec<_>>(),
        ["FL30", "HM12"],
        "prices, an energy"
    );
}

#[test]
fn what_can_be_tested_says_how_and_by_what() {
    for claim in all() {
        let testable = claim.parts().iter().any(|part| part.accept.verdict_beforehand().is_none());
        // The software time of a fault is an input that a real machine can also measure.
        let expected = testable || claim.id == "HM5";
        assert_eq!(!claim.by.is_empty(), expected, "{}", claim.id);
        assert_eq!(!claim.experiment.is_empty(), expected, "{}", claim.id);
    }
}

/// The numbers in `text`. A K after a number multiplies it by a thousand.
fn numbers(text: &str) -> Vec<f64> {
    let mut numbers = Vec::new();
    for word in text.split(|letter: char| !(letter.is_ascii_digit() || ".K".contains(letter))) {
        let digits = word.trim_end_matches('.');
        numbers.extend(digits.trim_end_matches('K').parse::<f64>());
        if let Some(Ok(thousands)) = digits.strip_suffix('K').map(str::parse::<f64>) {
            numbers.push(1000.0 * thousands);
        }
    }
    numbers
}

#[test]
fn what_is_accepted_is_built_on_the_number_printed() {
    // Its number is the product of printed numbers.
    let derived = ["FL8"];
    for claim in all().filter(|claim| !derived.contains(&claim.id)) {
        for part in claim.parts() {
            let printed = numbers(part.theirs);
            let expected = match part.accept {
                Accept::Rounds(of, _) | Accept::Near(of, _) | Accept::Relative(of, _) => vec![of],
                Accept::Ends(from, to, _) => vec![from, to],
                _ => continue,
            };
            for number in expected {
                assert!(printed.contains(&number), "{}: {number} in '{}'", claim.id, part.theirs);
            }
            // A range is one claim.
            let whole = match part.accept {
                Accept::Ends(from, to, _) => part.accept.judge(Ours::Range(from, to)),
                Accept::Rounds(of, _) | Accept::Near(of, _) | Accept::Relative(of, _) => {
                    part.accept.judge(of)
                }
                _ => continue,
            };
            assert_eq!(whole, Verdict::Within, "{}", claim.id);
        }
    }
}

#[test]
fn every_claim_can_fail() {
    let fails = |part: &Part| match part.accept {
        Accept::Holds(_) => part.accept.judge(false) == Verdict::Outside,
        _ => [0.0, 1e12].iter().any(|&ours| part.accept.judge(ours) == Verdict::Outside),
    };
    for claim in all() {
        for part in claim.parts() {
            let settled = part.accept.verdict_beforehand().is_some();
            assert!(settled != fails(part), "{}: {part:?}", claim.id);
        }
    }
}

/// The findings of every formula.
fn of_formulas() -> Findings {
    let papers: [Vec<Finding>; 4] = [
        by_formulas(&astriflash::claims::RECORDS),
        by_formulas(&flatflash::claims::RECORDS),
        by_formulas(&hams::claims::RECORDS),
        cxl_flash::formulas::findings(),
    ];
    papers.into_iter().flatten().collect()
}

#[test]
fn the_analytic_findings_are_those_of_claims_that_formulas_decide() {
    let findings = of_formulas();
    for finding in &findings.claims {
        let claim = find(finding.id).expect("it is in the tables");
        assert!(claim.by.contains(&Method::Analytic), "{}", claim.id);
    }
    let evaluated: HashSet<&str> = findings.claims.iter().map(|finding| finding.id).collect();
    let mut left: Vec<&str> = all()
        .filter(|claim| claim.by.contains(&Method::Analytic) && !evaluated.contains(claim.id))
        .map(|claim| claim.id)
        .collect();
    left.sort_unstable();
    assert_eq!(left, ["AS6", "CX13", "CX2", "FL29", "FL5"], "these need curves or runs");
    assert_eq!(findings.count(Verdict::Outside), 0);
    assert_eq!(findings.count(Verdict::NeedsInput), 1, "the saving of FL30");
    let within = "AS44's signs, and CX3 and CX5 with what is printed";
    assert_eq!(findings.count(Verdict::Within), 5, "{within}");
}

#[test]
fn findings_are_written_as_the_json_of_reproduce() {
    let findings: Findings = [
        find("AS4").expect("it is in the table").finding("", 20.0),
        find("AS1").expect("it is in the table").findings_beforehand().next().expect("an input"),
    ]
    .into_iter()
    .collect();
    let found = serde_json::to_value(&findings).expect("plain data");
    let expected = serde_json::json!({ "claims": [
        {
            "id": "AS4", "source": "abstract, §II-A", "quantity": "memory cost reduction",
            "theirs": "20×", "ours": "20.0×", "tolerance": "±0.5×", "verdict": "by construction",
            "note": "Both sides are the same formula.",
            "aside": false,
        },
        {
            "id": "AS1", "source": "§I, slide 3",
            "quantity": "price of DRAM over that of flash, a GB",
            "theirs": "50×", "ours": null, "tolerance": "–", "verdict": "input", "note": "",
            "aside": false,
        },
    ]});
    assert_eq!(found, expected);
}

#[test]
fn what_is_an_input_or_a_formula_is_by_construction() {
    let all_constructed =
        |claim: &&Claim| claim.parts().iter().all(|part| claim.constructed(part).is_some());
    let ids: Vec<&str> = all().filter(all_constructed).map(|claim| claim.id).collect();
    assert_eq!(
        ids,
        [
            "AS4", "AS7", "AS12", "AS16", "AS18", "AS19", "AS20", "AS22", "AS24", "AS38", "FL4",
            "FL8", "FL10", "FL11", "FL13", "FL25", "FL30", "HM4", "HM6", "HM8",
        ]
    );
    let partly = all().filter(|claim| {
        let count = claim.parts().iter().filter(|part| claim.constructed(part).is_some()).count();
        count > 0 && count < claim.parts().len()
    });
    let partly: Vec<&str> = partly.map(|claim| claim.id).collect();
    let expected = ["FL15", "FL17", "HM11", "HM12", "CX5", "CX28"];
    assert_eq!(partly, expected, "AS10 is so by what was run");
}

#[test]
fn claims_are_selected_by_their_ids() {
    let of = |ids: &[&str]| {
        crate::Selection::of(&ids.iter().map(|id| id.to_string()).collect::<Vec<_>>())
    };
    let some = of(&["as3", "FL19"]).expect("both are claims");
    assert!(some.takes("AS3") && some.takes("FL19") && !some.takes("AS4"));
    assert!(crate::Selection::All.takes("AS4"));
    let error = of(&["AS3", "AS99"]).expect_err("there is no such claim").to_string();
    assert!(error.contains("AS99"), "{error}");
}

#[test]
fn the_list_has_every_claim_and_fits() {
    for paper in crate::ALL {
        let text = paper.claims.to_string();
        for claim in paper.claims.iter() {
            assert!(text.lines().any(|line| line.split(' ').next() == Some(claim.id)), "{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
    }
}

#[test]
fn the_geometric_mean_of_table_two_is_not_the_one_printed() {
    let claim = find("AS34").expect("it is in the table");
    let cells: Vec<f64> = numbers(claim.note).into_iter().take(7).collect();
    assert_eq!(cells, [2.43, 1.57, 1.84, 2.03, 1.26, 2.01, 2.96]);
    let mean = (cells.iter().map(|cell| cell.ln()).sum::<f64>() / 7.0).exp();
    assert_eq!(format!("{mean:.2}"), "1.95");
    assert!(claim.note.contains("is 1.95") && claim.parts()[0].theirs.contains("1.76"));
}

#[test]
#[should_panic(expected = "AS3 has no part 'Silo'")]
fn a_part_that_is_not_there_is_not_judged() {
    find("AS3").expect("it is in the table").judge("Silo", 95.0);
}

/// Columns of the printed table, and the start of the notes below a row.
const COLUMNS: usize = 100;
const INDENT: usize = 7;

#[test]
fn the_whole_table_is_aligned_and_fits() {
    let findings: Findings = all().flat_map(|claim| claim.findings_beforehand()).collect();
    let text = findings.to_string();
    assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
    let rows = text.lines().position(|line| line.contains("parts of claims")).expect("a summary");
    for line in text.lines().take(rows).skip(2).filter(|line| !line.starts_with(' ')) {
        let cut: String = line.chars().skip(INDENT - 2).take(2).collect();
        assert_eq!(cut, "  ", "{line}");
    }
}

#[test]
fn a_finding_is_a_row_with_its_source_and_note_below() {
    let claim = find("AS4").expect("it is in the table");
    let findings: Findings = [claim.finding("", 20.0).note("As computed.")].into_iter().collect();
    let text = findings.to_string();
    let row = text.lines().nth(2).expect("a row");
    let cells: Vec<&str> = row.split("  ").filter(|cell| !cell.is_empty()).collect();
    let cells: Vec<&str> = cells.into_iter().map(str::trim).collect();
    assert_eq!(cells, ["AS4", "memory cost reduction", "20×", "20.0×", "±0.5×", "by construction"]);
    assert_eq!(
        text.lines().nth(3),
        Some("       abstract, §II-A. Both sides are the same formula. As computed.")
    );
}

#[test]
fn what_parts_have_in_common_stands_once() {
    let claim = find("AS44").expect("it is in the table");
    let parts = ["as the objective loosens", "as servers are added"];
    let text =
        parts.map(|part| claim.finding(part, true)).into_iter().collect::<Findings>().to_string();
    assert_eq!(text.matches("AS44").count(), 1, "{text}");
    assert_eq!(text.matches("gap to DRAM-only").count(), 1, "{text}");
    assert_eq!(text.matches("§III-A").count(), 1, "{text}");
    assert!(text.contains("       – as servers are added"), "{text}");
}
