//! Claims that stand-ins for real programs decide: CX1 to CX3 and CX17 to CX28.

use ebbtide_core::PAGE_BYTES;

use super::{captured, found, least, most, percent};
use crate::claims::Finding;
use crate::claims::analytic::cxl_flash as formulas;
use crate::reproduce::cxl_flash::CxlFlash;
use crate::reproduce::cxl_flash::experiments::{
    FAR_REUSED, HINTS, POLICIES, PREFETCHERS, REAL, hinted,
};
use crate::reproduce::cxl_flash::runs::Row;
use crate::reproduce::cxl_flash::stand_ins::{REUSED, STAND_INS, StandIn};
use crate::statistics::rank_correlation;

const BERT: &str = REAL[0];
const PAGE_RANK: &str = REAL[1];
const RADIOSITY: &str = REAL[2];
const XZ: &str = REAL[3];
const YCSB: &str = REAL[4];

/// The stand-in for `program`.
fn stand_in(program: &str) -> &'static StandIn {
    STAND_INS.iter().find(|stand_in| stand_in.name == program).expect("it is a real program")
}

/// Pages that the whole of `program` writes at the rate of `row`.
fn pages_written(row: &Row) -> f64 {
    row.flash_writes as f64 * stand_in(row.program).accesses as f64 / row.accesses as f64
}

/// CX17 to CX20.
pub(super) fn replacement(study: &CxlFlash) -> Vec<Finding> {
    let at = |program: &str, policy: &str, ways: u64| {
        // With one way there is nothing to decide.
        let policy = if ways == 1 { POLICIES[0] } else { policy };
        study.at("Fig. 11", program, &format!("{policy}, {ways} ways"))
    };
    let share = |program: &str, policy: &str, ways| percent(at(program, policy, ways));
    let best = |program: &str, ways| most(POLICIES.map(|policy| share(program, policy, ways)));
    let more_ways = REAL.iter().all(|program| {
        let [one, four, sixteen] = [1, 4, 16].map(|ways| best(program, ways));
        one <= four && four <= sixteen
    });
    let of_policies = |program: &str| {
        let shares = POLICIES.map(|policy| format!("{policy} {:.2}", share(program, policy, 16)));
        format!("{program}: {}", shares.join(", "))
    };
    let cflru =
        [BERT, XZ, YCSB].iter().all(|program| share(program, "cflru", 16) >= best(program, 16));
    let every = |program: &'static str| {
        [1, 4, 16]
            .into_iter()
            .flat_map(move |ways| POLICIES.map(|policy| share(program, policy, ways)))
    };
    let written = |program| {
        let row = at(program, "cflru", 16);
        found("CX20", program, pages_written(row) / 1e6).note(format!(
            "{} pages in {:.1} M accesses.",
            row.flash_writes,
            row.accesses as f64 / 1e6
        ))
    };
    let findings = vec![
        found("CX17", "more ways", more_ways),
        found("CX17", "CFLRU for BERT, XZ, YCSB", cflru).note(format!(
            "Below 1 us with 16 ways, in %: {}.",
            [BERT, XZ, YCSB].map(of_policies).join("; ")
        )),
        found("CX18", "any policy", least(every(RADIOSITY))),
        found("CX18", "best policy", most(every(RADIOSITY))),
        found("CX19", BERT, most(every(BERT))).note(far_reuse(study)),
        found("CX19", PAGE_RANK, most(every(PAGE_RANK))),
        written(BERT),
        written(RADIOSITY),
    ];
    findings.into_iter().map(Finding::stand_in).collect()
}

/// What Table 5 leaves open, shown by an experiment.
fn far_reuse(study: &CxlFlash) -> String {
    let shares = REAL.map(|program| {
        let [fifo, cflru] = ["fifo", "cflru"].map(|policy| study.at("Reuse", program, policy));
        format!("{program} {:.1} (FIFO {:.1})", percent(cflru), percent(fifo))
    });
    format!(
        "Table 5 does not say how far back accesses return, which decides what a cache and its policy \
         can do: up to {FAR_REUSED} pages instead of {REUSED}, shares are, in %: {}.",
        shares.join(", ")
    )
}

fn prefetched<'a>(study: &'a CxlFlash, program: &str, prefetcher: &str) -> &'a Row {
    study.at("Fig. 13", program, prefetcher)
}

/// The prefetchers, without none of them.
fn prefetchers() -> impl Iterator<Item = &'static str> {
    PREFETCHERS.iter().skip(1).map(|(_, name)| *name)
}

/// CX1 and CX21 to CX26.
pub(super) fn prefetching(study: &CxlFlash) -> Vec<Finding> {
    let at = |program: &str, prefetcher: &str| prefetched(study, program, prefetcher);
    let none = |program| percent(at(program, "NP"));
    let with = |program| prefetchers().map(move |name| percent(at(program, name)));
    let best = |program| most(with(program));
    let shares = |program: &str| {
        let shares =
            PREFETCHERS.map(|(_, name)| format!("{name} {:.1}", percent(at(program, name))));
        format!("In %: {}.", shares.join(", "))
    };
    let hurts = |program| {
        found("CX21", program, with(program).all(|share| share < none(program)))
            .note(shares(program))
    };
    let helps =
        |program| found("CX21", program, best(program) > none(program)).note(shares(program));
    let merged = |name| at(RADIOSITY, name).hits_under_miss as f64;
    let became_hits = 100.0 * (merged("NP") - merged("BO")) / merged("NP").max(1.0);
    let accuracy = |program, name| 100.0 * at(program, name).accuracy;
    let points: Vec<(f64, f64)> = [BERT, YCSB]
        .iter()
        .flat_map(|program| prefetchers().map(|name| at(program, name)))
        .map(|row| (row.accuracy, row.pollution))
        .collect();
    let correlation = rank_correlation(&points);
    let virtually = |program| study.at("Fig. 13", program, "BO, virtual");
    let findings = vec![
        found("CX1", "least (Page Rank)", most([best(PAGE_RANK), none(PAGE_RANK)])),
        found("CX1", "most", most(REAL.map(|program| most([best(program), none(program)])))),
        hurts(BERT),
        hurts(XZ),
        hurts(YCSB),
        helps(PAGE_RANK),
        helps(RADIOSITY),
        found("CX22", "requests below 1 µs", percent(at(RADIOSITY, "BO")) > none(RADIOSITY)),
        found("CX22", "hits under miss that become hits", became_hits),
        found("CX23", "", best(PAGE_RANK)),
        found("CX24", "Leap on Radiosity, accuracy", accuracy(RADIOSITY, "LP")),
        found("CX24", "Leap on BERT, accuracy", accuracy(BERT, "LP")),
        found("CX24", "best offset on XZ, accuracy", accuracy(XZ, "BO")),
        found("CX24", "best offset on XZ, coverage", 100.0 * at(XZ, "BO").coverage),
        found("CX25", "BERT, YCSB", correlation < 0.0)
            .note(format!("Rank correlation of accuracy and pollution {correlation:.2}.")),
        found("CX26", "Page Rank, accuracy, virtual", 100.0 * virtually(PAGE_RANK).accuracy),
        found("CX26", "Page Rank, accuracy, physical", accuracy(PAGE_RANK, "BO")),
        found("CX26", "BERT, coverage, virtual", 100.0 * virtually(BERT).coverage),
        found("CX26", "BERT, coverage, physical", 100.0 * at(BERT, "BO").coverage),
    ];
    findings.into_iter().map(Finding::stand_in).collect()
}

/// CX2 and CX3: by the prefetcher that is best for the program.
pub(super) fn lifetimes(study: &CxlFlash) -> Vec<Finding> {
    let written = |program| {
        let all = PREFETCHERS.map(|(_, name)| prefetched(study, program, name));
        let best = all.into_iter().max_by(|a, b| a.sub_us.total_cmp(&b.sub_us));
        pages_written(best.expect("there are prefetchers"))
    };
    let page_rank = formulas::page_rank_lifetime(written(PAGE_RANK)).stand_in();
    vec![
        page_rank.note(captured::lifetimes(study)),
        formulas::radiosity_lifetime(written(RADIOSITY)).stand_in(),
    ]
}

/// CX27.
pub(super) fn hints(study: &CxlFlash) -> Vec<Finding> {
    let at =
        |top, chance, lead_us| percent(study.at("Obs. 7", BERT, &hinted((top, chance, lead_us))));
    let all = HINTS.map(|(top, chance, lead)| at(top, chance, lead));
    let findings = vec![
        found("CX27", "without hints", percent(prefetched(study, BERT, "NP"))),
        found("CX27", "at a chance of 10%", at(0.05, 0.10, 10)).note(format!(
            "Hints to the 5% of the pages that are accessed most, 10 us ahead; {:.1}% at 1 us ahead, \
             {:.1}% at 100.",
            at(0.05, 0.10, 1),
            at(0.05, 0.10, 100)
        )),
        found("CX27", "plateau", most(all)),
    ];
    findings.into_iter().map(Finding::stand_in).collect()
}

/// CX28.
pub(super) fn traces(study: &CxlFlash) -> Vec<Finding> {
    let mut findings = Vec::new();
    for trace in &study.traces {
        let found =
            |what: &str, ours: f64| found("CX28", &format!("{}, {what}", trace.program), ours);
        let interval = found("interval", trace.interval_ns);
        let reads = found("reads", 100.0 * trace.reads);
        let Some(stand_in) = STAND_INS.iter().find(|stand_in| stand_in.name == trace.program)
        else {
            findings.extend([interval, reads]);
            continue;
        };
        let cut = "An input: runs may be cut short.";
        let gib = (stand_in.pages() * PAGE_BYTES as u64) as f64 / (1u64 << 30) as f64;
        let of_stand_in = [
            interval,
            found("accesses", stand_in.accesses as f64 / 1e6).note(cut),
            reads,
            found("footprint", gib).note(cut),
            found("spatial locality", trace.spatial),
            found("temporal locality", trace.temporal),
        ];
        findings.extend(of_stand_in.map(Finding::stand_in));
    }
    findings
}
