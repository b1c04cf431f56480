//! What becomes of each claim of the CXL-flash study.

use ebbtide_core::PAGE_BYTES;

use super::CxlFlash;
use super::runs::{
    FAR_REUSED, FLASH, FRAGMENTS, HINTS, POLICIES, PREFETCHERS, REAL, Row, SYNTHETIC, hinted,
};
use super::stand_ins::{REUSED, STAND_INS, StandIn};
use crate::analytic::lifetime::{Wear, endurance};
use crate::claims::analytic::cxl_flash as formulas;
use crate::claims::{self, Finding, Findings};
use crate::reproduce::of_every_claim;
use crate::statistics::rank_correlation;

/// Programs of which most accesses follow each other.
const SEQUENTIAL: [&str; 3] = [SYNTHETIC[0], SYNTHETIC[1], SYNTHETIC[2]];
const MATRIX_MULTIPLY: &str = SYNTHETIC[1];
const RANDOM: &str = SYNTHETIC[3];
const STRIDE: &str = SYNTHETIC[4];
const BERT: &str = REAL[0];
const PAGE_RANK: &str = REAL[1];
const RADIOSITY: &str = REAL[2];
const XZ: &str = REAL[3];
const YCSB: &str = REAL[4];

/// Shares closer than this are alike.
const ALIKE_PP: f64 = 5.0;

/// Every claim, in order.
pub(super) fn all(study: &CxlFlash) -> Findings {
    let formulas = formulas::findings().into_iter().filter(|finding| finding.id == "CX5").collect();
    let found = [
        caches(study),
        next_line(study),
        flash(study),
        addresses(study),
        replacement(study),
        prefetching(study),
        lifetimes(study),
        hints(study),
        traces(study),
        formulas,
    ]
    .concat();
    of_every_claim(claims::cxl_flash::CLAIMS, found.into_iter())
}

fn found(id: &str, part: &str, ours: impl Into<claims::Ours>) -> Finding {
    claims::find(id).expect("it is in the table").finding(part, ours)
}

fn percent(row: &Row) -> f64 {
    100.0 * row.sub_us
}

fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

fn most(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::NEG_INFINITY, f64::max)
}

fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) =
        values.into_iter().fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    sum / count
}

/// CX6 to CX9.
fn caches(study: &CxlFlash) -> Vec<Finding> {
    let at = |program: &str, setup: &str| study.at("Fig. 5", program, setup);
    let bare = || SYNTHETIC.map(|program| at(program, "no cache"));
    let cached = SYNTHETIC.map(|program| at(program, "8 GiB"));
    let helps = bare().iter().zip(cached).all(|(bare, cached)| {
        cached.mean_us < bare.mean_us && cached.flash_interval_us() > bare.flash_interval_us()
    });
    let intervals = SYNTHETIC.map(|program| {
        let [bare, cached] = ["no cache", "8 GiB"].map(|setup| at(program, setup));
        let registers = at(program, "8 GiB, registers").flash_interval_us();
        let (bare, cached) = (bare.flash_interval_us(), cached.flash_interval_us());
        format!("{program} {bare:.2}, {cached:.2}, {registers:.2}")
    });
    let intervals = format!(
        "Interval at flash in us without a cache, with 8 GiB, and with registers too, which end \
         repeated reads: {}.",
        intervals.join("; ")
    );
    let far_above = |program: &str| found("CX7", program, at(program, "8 GiB").mean_us > 0.46);
    let repeated = |row: &Row| 100.0 * row.repeated_reads as f64 / row.flash_reads.max(1) as f64;
    let shortened =
        |program: &str| at(program, "8 GiB").p99_us / at(program, "8 GiB, registers").p99_us;
    let strongly = least(SEQUENTIAL.map(shortened));
    let a_little = most([RANDOM, STRIDE].map(shortened));
    let gains = format!(
        "p99 without registers over p99 with them: {}.",
        SYNTHETIC.map(|program| format!("{program} {:.1}", shortened(program))).join(", ")
    );
    let mut findings = vec![
        found("CX6", "mean latency without a cache", mean(bare().map(|row| row.mean_us))),
        found(
            "CX6",
            "interval at flash without a cache",
            most(bare().map(|row| row.flash_interval_us())),
        ),
        found("CX6", "a cache", helps).note(intervals),
        far_above(MATRIX_MULTIPLY).note(format!(
            "{:.1} us in the device, ten times 46 ns being far.",
            at(MATRIX_MULTIPLY, "8 GiB").mean_us
        )),
        far_above("min heap")
            .note(format!("{:.1} us in the device.", at("min heap", "8 GiB").mean_us)),
        found("CX9", "hash map, matrix multiply, min heap", strongly > a_little.max(1.0))
            .note(&gains),
        found("CX9", "random, stride", a_little >= 1.0 && a_little < strongly).note(gains),
    ];
    let repeats = SEQUENTIAL.map(|program| found("CX8", program, repeated(at(program, "8 GiB"))));
    findings.extend(repeats);
    findings
}

/// CX10 and CX11.
fn next_line(study: &CxlFlash) -> Vec<Finding> {
    let at = |program: &str, degree: u64, offset: u64| {
        percent(study.at("Fig. 8", program, &format!("degree {degree}, offset {offset}")))
    };
    let offsets = |program: &str| [4, 16, 64].map(|offset| at(program, 4, offset));
    let shown = |program: &str| {
        let [near, middle, far] = offsets(program);
        format!("{program} {near:.1}, {middle:.1}, {far:.1}%")
    };
    let peaks = SEQUENTIAL.iter().all(|program| {
        let [near, middle, far] = offsets(program);
        middle >= near && middle > far
    });
    let [near, middle, far] = offsets(STRIDE);
    let shares = format!("At offsets 4, 16, 64: {}.", SEQUENTIAL.map(shown).join("; "));
    let without = study.at("Fig. 5", MATRIX_MULTIPLY, "8 GiB, registers");
    vec![
        found("CX10", "without a prefetcher", percent(without)),
        found("CX10", "next line, degree 1, offset 16", at(MATRIX_MULTIPLY, 1, 16)),
        found("CX11", "hash map, matrix multiply, min heap", peaks).note(shares),
        found("CX11", "stride", near <= middle && middle <= far)
            .note(format!("At offsets 4, 16, 64: {}.", shown(STRIDE))),
    ]
}

/// CX12 to CX14.
fn flash(study: &CxlFlash) -> Vec<Finding> {
    let at = |flash: &str, gib: u64| study.at("Fig. 9", STRIDE, &format!("{flash}, {gib} GiB"));
    let gap = |one: &str, other: &str, gib| percent(at(one, gib)) - percent(at(other, gib));
    let cached = [1, 2, 4];
    let alike = cached.iter().all(|gib| gap("ull", "slc", *gib).abs() < ALIKE_PP);
    let worse =
        cached.iter().all(|gib| least(["mlc", "tlc"].map(|f| gap("slc", f, *gib))) > ALIKE_PP);
    let shares = FLASH.map(|flash| {
        let shares = cached.map(|gib| format!("{:.1}", percent(at(flash, gib)))).join(", ");
        format!("{flash} {shares}")
    });
    let in_time = FLASH.map(|flash| {
        let setup = format!("{flash}, 4 GiB, offset 64");
        format!("{flash} {:.1}", percent(study.at("Fig. 9", STRIDE, &setup)))
    });
    let shares = format!(
        "Below 1 us with 1, 2, 4 GiB, in %: {}. At offset 16 a prefetch comes some 23 us ahead of its \
         use; at offset 64, with 4 GiB: {}.",
        shares.join("; "),
        in_time.join(", ")
    );
    let cycles = |flash: &str| match flash {
        "ull" => endurance::ULL,
        "slc" => endurance::SLC,
        "mlc" => endurance::MLC,
        _ => endurance::TLC,
    };
    let years = |flash: &str, gib| wear(at(flash, gib), cycles(flash)).working_years();
    let tough = least(["ull", "slc"].iter().flat_map(|f| cached.map(|gib| years(f, gib))));
    let weak = most(["mlc", "tlc"].map(|flash| years(flash, 1)));

    let chips = |program: &str, chips: &str, gib: u64| {
        percent(study.at("Fig. 10", program, &format!("{chips}, {gib} GiB")))
    };
    let few_suffice = ["hash map", "min heap"]
        .map(|program| chips(program, "32 x 32", 8) - chips(program, "8 x 4", 8));
    let more_cache = |program| chips(program, "8 x 4", 8) - chips(program, "8 x 4", 1);
    let more_chips = |program| chips(program, "32 x 32", 1) - chips(program, "8 x 4", 1);
    let gains = |program| {
        format!(
            "From 8 x 4 chips and 1 GiB, 8 GiB gain {:.1} pp and 32 x 32 chips {:.1} pp.",
            more_cache(program),
            more_chips(program)
        )
    };
    vec![
        found("CX12", "ULL and SLC", alike).note(&shares),
        found("CX12", "MLC and TLC", worse).note(shares),
        found("CX13", "ULL and SLC with a cache", tough),
        found("CX13", "MLC and TLC with 1 GB", weak),
        found("CX14", "enough cache", most(few_suffice) < ALIKE_PP).note(format!(
            "With 8 GiB, 32 x 32 chips gain {:.1} pp for hash map and {:.1} for min heap.",
            few_suffice[0], few_suffice[1]
        )),
        found("CX14", "random", more_cache(RANDOM) > more_chips(RANDOM)).note(gains(RANDOM)),
        found("CX14", "stride", more_chips(STRIDE) > more_cache(STRIDE).max(0.0))
            .note(gains(STRIDE)),
    ]
}

/// The wear of a device of 1 TiB by a run.
fn wear(row: &Row, cycles: f64) -> Wear {
    let device_bytes = (1_u64 << 40) as f64;
    Wear { cycles, device_bytes, pages_written: row.flash_writes as f64, seconds: row.seconds }
}

/// CX15 and CX16.
fn addresses(study: &CxlFlash) -> Vec<Finding> {
    let virtually = |program| percent(study.at("Table 3", program, "virtual"));
    let physical = |program: &str| -> Vec<f64> {
        let at = |number| study.at("Table 3", program, &format!("physical {number}"));
        (1..=FRAGMENTS.len()).map(|number| percent(at(number))).collect()
    };
    let mut findings = Vec::new();
    for program in SYNTHETIC {
        let shares = physical(program);
        let below = shares.iter().all(|share| *share < virtually(program));
        let shown: Vec<String> = shares.iter().map(|share| format!("{share:.1}")).collect();
        let runs = FRAGMENTS.map(|pages| pages.to_string()).join(", ");
        findings.push(found("CX15", &format!("{program}, virtual"), virtually(program)));
        findings.push(
            found("CX15", &format!("{program}, physical below"), below).note(format!(
                "{}%, in memories that keep {runs} pages together.",
                shown.join(", ")
            )),
        );
    }
    let worst = SYNTHETIC.iter().all(|program| {
        let shares = physical(program);
        let (whole, fragmented) = shares.split_at(3);
        most(fragmented.iter().copied()) < least(whole.iter().copied())
    });
    findings.push(found("CX15", "runs 4 and 5 (fragmented)", worst));
    let error = |share| virtually(MATRIX_MULTIPLY) - share;
    findings.push(found("CX16", "", most(physical(MATRIX_MULTIPLY).into_iter().map(error))));
    findings
}

/// The stand-in for `program`.
fn stand_in(program: &str) -> &'static StandIn {
    STAND_INS.iter().find(|stand_in| stand_in.name == program).expect("it is a real program")
}

/// Pages that the whole of `program` writes at the rate of `row`.
fn pages_written(row: &Row) -> f64 {
    row.flash_writes as f64 * stand_in(row.program).accesses as f64 / row.accesses as f64
}

/// CX17 to CX20.
fn replacement(study: &CxlFlash) -> Vec<Finding> {
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
fn prefetching(study: &CxlFlash) -> Vec<Finding> {
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
        found("CX25", "", correlation < 0.0)
            .note(format!("Rank correlation of accuracy and pollution {correlation:.2}.")),
        found("CX26", "Page Rank, accuracy, virtual", 100.0 * virtually(PAGE_RANK).accuracy),
        found("CX26", "Page Rank, accuracy, physical", accuracy(PAGE_RANK, "BO")),
        found("CX26", "BERT, coverage, virtual", 100.0 * virtually(BERT).coverage),
        found("CX26", "BERT, coverage, physical", 100.0 * at(BERT, "BO").coverage),
    ];
    findings.into_iter().map(Finding::stand_in).collect()
}

/// CX2 and CX3: by the prefetcher that is best for the program.
fn lifetimes(study: &CxlFlash) -> Vec<Finding> {
    let written = |program| {
        let all = PREFETCHERS.map(|(_, name)| prefetched(study, program, name));
        let best = all.into_iter().max_by(|a, b| a.sub_us.total_cmp(&b.sub_us));
        pages_written(best.expect("there are prefetchers"))
    };
    vec![
        formulas::page_rank_lifetime(written(PAGE_RANK)).stand_in(),
        formulas::radiosity_lifetime(written(RADIOSITY)).stand_in(),
    ]
}

/// CX27.
fn hints(study: &CxlFlash) -> Vec<Finding> {
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
fn traces(study: &CxlFlash) -> Vec<Finding> {
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
