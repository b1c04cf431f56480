//! FlatFlash's claims by formula: FL5, FL8, FL10, FL29's effectiveness, FL30.

use ebbtide_study::analytic::cost::{BIG_SERVER_DOLLARS, Purchase, effectiveness};
use ebbtide_study::claims::{Claim, Finding};

/// A row of Table 3: the price of DRAM-only, and its speed, relative to FlatFlash.
struct Row {
    name: &'static str,
    saving: f64,
    slowdown: f64,
}

/// Table 3, its first two columns.
const TABLE_3: [Row; 8] = [
    Row { name: "GUPS", saving: 14.6, slowdown: 8.9 },
    Row { name: "PageRank", saving: 14.6, slowdown: 11.0 },
    Row { name: "CC", saving: 14.6, slowdown: 6.9 },
    Row { name: "YCSB-B", saving: 15.0, slowdown: 6.1 },
    Row { name: "YCSB-D", saving: 15.0, slowdown: 5.5 },
    Row { name: "TPCC", saving: 2.4, slowdown: 1.4 },
    Row { name: "TPCB", saving: 2.6, slowdown: 1.9 },
    Row { name: "TATP", saving: 4.5, slowdown: 1.2 },
];

impl Row {
    fn effectiveness(&self) -> f64 {
        effectiveness(self.saving, self.slowdown)
    }
}

/// The printed saving of the program `name` divided by our `slow_down`.
///
/// # Panics
/// When Table 3 does not have the program.
pub(super) fn worth(name: &str, slow_down: f64) -> f64 {
    effectiveness(row(name).saving, slow_down)
}

/// How much of the difference between [`worth`] and the printed effectiveness of the program `name`
/// comes from our `slow_down`.
///
/// # Panics
/// When Table 3 does not have the program.
pub(super) fn worth_by_slow_down(name: &str, slow_down: f64) -> String {
    let Row { saving, slowdown: printed, .. } = row(name);
    format!(
        "It is the printed saving of {saving} over our slow-down of {slow_down:.2}, which is \
         {:.2} times the printed {printed}. The slow-down decides it, and its note has the cause. \
         The printed slow-down gives {:.2}.",
        slow_down / printed,
        row(name).effectiveness(),
    )
}

fn row(name: &str) -> &'static Row {
    TABLE_3.iter().find(|row| row.name == name).expect("a program of Table 3")
}

/// Judges FL30: cost of memory.
pub(super) fn cost(claim: &Claim) -> Vec<Finding> {
    let ends = [
        claim.finding("least performance for the money", least()),
        claim.finding("most performance for the money", most()),
    ];
    claim.findings_beforehand().chain(savings(claim)).chain(ends).collect()
}

fn most() -> f64 {
    TABLE_3.iter().map(Row::effectiveness).fold(0.0, f64::max)
}

fn least() -> f64 {
    TABLE_3.iter().map(Row::effectiveness).fold(f64::INFINITY, f64::min)
}

/// FL8: an entry has the page's tag in the SSD and in memory, and one bit for each copied line.
pub(super) fn look_aside_buffer(claim: &Claim) -> Vec<Finding> {
    const TAG_BYTES: u32 = 8;
    const LINES: u32 = 4096 / 64;
    let bytes = f64::from(64 * (TAG_BYTES + TAG_BYTES + LINES / 8));
    vec![claim.finding("", bytes).note("Valid bits are not counted.")]
}

/// FL10: a counter of 8 B for each page of 2 GB.
pub(super) fn counters(claim: &Claim) -> Vec<Finding> {
    let counters = f64::from(2_u32 << 30) / 4096.0;
    vec![
        claim.finding("counters", counters / 1024.0),
        claim.finding("overhead", 100.0 * 8.0 / 4096.0),
    ]
}

/// The price of DRAM of the SSD's size divided by that of the SSD with a little DRAM.
fn savings(claim: &Claim) -> [Finding; 2] {
    let [at_512, at_256] = [512.0, 256.0].map(|ratio| Purchase::ssd_to_dram(ratio, 2.0));
    let with_server = Purchase { extra_dollars: BIG_SERVER_DOLLARS, ..at_256 };
    [
        claim
            .finding("saving at SSD:DRAM 512", at_512.saving())
            .note("Without the price of the bigger server."),
        claim.finding("saving at SSD:DRAM 256", at_256.saving()).needs_input(&format!(
            "Needs the sizes of DRAM and SSD, which the paper does not print: it contains a part of the \
             $1,500. With 2 GB of DRAM and all of the $1,500 the saving is {:.1}×.",
            with_server.saving(),
        )),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flatflash::claims::{CLAIMS, RECORDS};
    use crate::record::by_formulas;
    use ebbtide_study::claims::Verdict;

    #[test]
    fn every_claim_comes_out_as_computed_by_hand() {
        let found: Vec<_> = by_formulas(&RECORDS)
            .into_iter()
            .map(|finding| (finding.id, finding.ours.unwrap_or_default(), finding.verdict))
            .collect();
        let expected = [
            ("FL8", "1536 B", Verdict::ByConstruction),
            ("FL10", "512K", Verdict::ByConstruction),
            ("FL10", "0.20%", Verdict::ByConstruction),
            ("FL30", "", Verdict::Input),
            ("FL30", "14.6×", Verdict::ByConstruction),
            ("FL30", "14.2×", Verdict::NeedsInput),
            ("FL30", "1.33×", Verdict::ByConstruction),
            ("FL30", "3.75×", Verdict::ByConstruction),
        ];
        assert!(
            found.iter().map(|(id, ours, verdict)| (*id, ours.as_str(), *verdict)).eq(expected),
            "{found:?}"
        );
    }

    #[test]
    fn the_slow_downs_are_those_of_the_claims() {
        let claim = CLAIMS.get("FL29");
        for row in &TABLE_3 {
            let part = claim.part(&format!("{}, slow-down", row.name)).expect("a part");
            let printed: f64 = part.theirs.trim_end_matches('×').parse().expect("a number");
            assert_eq!(printed, row.slowdown, "{}", row.name);
        }
    }
}
