//! AstriFlash's claims by formula: AS4, AS7, AS18 to AS20, AS22, AS24, AS44.

use ebbtide_study::analytic::bandwidth::ASTRIFLASH as TRAFFIC;
use ebbtide_study::analytic::cost;
use ebbtide_study::analytic::systems::{System, gap, limit_for_gap};
use ebbtide_study::claims::{Claim, Finding};

const IDEAL: System = System::AstriFlash { overhead_us: 0.0 };

/// AstriFlash, with the time of two switches lost a miss.
const SWITCHING: System = System::AstriFlash { overhead_us: 0.2 };

/// Bytes of a tag, by the paper's count.
const TAG_BYTES: f64 = 8.0;

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;
const GIB: f64 = 1024.0 * MIB;

/// AS4: 3% of the data is in DRAM, and flash is 50 times cheaper.
pub(super) fn saving(claim: &Claim) -> Vec<Finding> {
    let exact = cost::saving(32.0 / 1024.0, 50.0);
    let found = claim.finding("", cost::saving(0.03, 50.0));
    vec![found.note(format!("With 32 GB for 1 TB it is {exact:.1}×."))]
}

/// AS7: Eq. 1 at the knee, with 3% of the accesses as misses.
pub(super) fn bandwidth(claim: &Claim) -> Vec<Finding> {
    const CORES: f64 = 64.0;
    let claimed_ratio = TRAFFIC.miss_ratio_at(60e9 / CORES);
    let interval = TRAFFIC.miss_interval(claimed_ratio).as_secs_f64();
    let found = claim.finding("", CORES * TRAFFIC.flash_bytes_per_second(0.03) / 1e9);
    vec![found.note(format!(
        "The paper does not print the miss ratio; 3% is assumed, and 60 GB/s mean {:.2}%. \
         AS10 contradicts this: a core would miss every {:.1} µs, below its 5–25 µs.",
        100.0 * claimed_ratio,
        1e6 * interval,
    ))]
}

/// AS18: the throughput of a core that waits for flash.
pub(super) fn flash_sync(claim: &Claim) -> Vec<Finding> {
    vec![claim.finding("", 100.0 * System::FlashSync.queue(1).capacity())]
}

/// AS19: the throughput of a core that loses the time of paging and of an OS switch at each miss.
pub(super) fn os_swap(claim: &Claim) -> Vec<Finding> {
    vec![claim.finding("", 100.0 * (1.0 - System::OsSwap.queue(1).capacity()))]
}

/// AS20: the tightest objective at which AstriFlash is within 20% of DRAM-only.
pub(super) fn objective(claim: &Claim) -> Vec<Finding> {
    let percent = |system| 100.0 * gap(system, 1, 40.0);
    // A gap of 20% is possible, as AstriFlash has DRAM-only's capacity.
    let limit = limit_for_gap(IDEAL, 0.2).unwrap_or(f64::INFINITY);
    vec![claim.finding("", limit).note(format!(
        "The paper's model contradicts this: at 40× the gap is {:.1}%, or {:.1}% with 0.2 µs lost a \
         miss, not ~20%.",
        percent(IDEAL),
        percent(SWITCHING),
    ))]
}

/// AS22: a tag for each block or page of 32 GB.
pub(super) fn tags(claim: &Claim) -> Vec<Finding> {
    let tags = |bytes: f64| 32.0 * GIB / bytes * TAG_BYTES;
    vec![
        claim.finding("64 B blocks", tags(64.0) / GIB),
        claim.finding("4 KB pages", tags(4.0 * KIB) / MIB),
    ]
}

/// AS24: registers of 8 B, and two maps of 32 stores by 32 registers of one byte for each.
pub(super) fn added_state(claim: &Claim) -> Vec<Finding> {
    let registers = 128.0 * 8.0;
    let maps = 32.0 * 32.0 * 1.0;
    let area = (registers + maps) / (2.0 * MIB);
    vec![
        claim.finding("128 registers", registers / KIB),
        claim.finding("register maps", maps / KIB),
        claim.finding("together", (registers + maps) / KIB),
        claim.finding("area at 2 MB/mm²", area),
        claim.finding("share of a core of 1.3 mm²", 100.0 * area / 1.3),
    ]
}

/// AS44: one core, objectives from 30 to 200 times the mean service; and servers at 40 times it.
pub(super) fn gaps(claim: &Claim) -> Vec<Finding> {
    let objectives = [30.0, 40.0, 60.0, 100.0, 200.0].map(|limit| (1, limit));
    let servers = [1, 2, 4, 16].map(|cores| (cores, 40.0));
    vec![
        shrinking(claim, "as the objective loosens", objectives),
        shrinking(claim, "as servers are added", servers),
    ]
}

fn shrinking<const N: usize>(claim: &Claim, part: &str, steps: [(u32, f64); N]) -> Finding {
    let gaps = steps.map(|(cores, limit)| gap(IDEAL, cores, limit));
    let written = gaps.map(|gap| format!("{:.1}%", 100.0 * gap)).join(", ");
    let steps = steps.map(|(cores, limit)| format!("{cores} at {limit}×")).join(", ");
    claim
        .finding(part, gaps.is_sorted_by(|a, b| a > b))
        .note(format!("Servers at an objective: {steps}; gaps: {written}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::astriflash::claims::{CLAIMS, RECORDS};
    use crate::record::by_formulas;
    use ebbtide_study::claims::Verdict;

    #[test]
    fn every_claim_comes_out_as_computed_by_hand() {
        let found: Vec<_> = by_formulas(&RECORDS)
            .into_iter()
            .map(|finding| {
                // A growing gap was possible.
                let expected = match finding.id {
                    "AS44" => Verdict::Within,
                    _ => Verdict::ByConstruction,
                };
                assert_eq!(finding.verdict, expected, "{finding:?}");
                (finding.id, finding.ours.expect("a value"))
            })
            .collect();
        let expected = [
            ("AS4", "20.0×"),
            ("AS7", "61.4 GB/s"),
            ("AS18", "16.7%"),
            ("AS19", "50.0%"),
            ("AS20", "29.2×"),
            ("AS22", "4.00 GB"),
            ("AS22", "64.0 MB"),
            ("AS24", "1.00 KB"),
            ("AS24", "1.00 KB"),
            ("AS24", "2.00 KB"),
            ("AS24", "0.0010 mm²"),
            ("AS24", "0.0751%"),
            ("AS44", "holds"),
            ("AS44", "holds"),
        ];
        assert!(found.iter().map(|(id, ours)| (*id, ours.as_str())).eq(expected), "{found:?}");
    }

    #[test]
    fn contradictions_are_noted_with_our_figures() {
        let note = |id, formula: fn(&Claim) -> Vec<Finding>| {
            formula(CLAIMS.get(id)).pop().expect("a finding").note
        };
        let eq1 = note("AS7", bandwidth);
        assert!(eq1.contains("would miss every 4.4 µs") && eq1.contains("2.93%"), "{eq1}");
        let objective = note("AS20", objective);
        assert!(
            objective.contains("contradicts this: at 40× the gap is 3.3%, or 5.7%"),
            "{objective}"
        );
        let servers = note("AS44", gaps);
        assert!(servers.contains("3.3%, 1.8%, 1.0%, 0.3%"), "{servers}");
    }

    #[test]
    fn a_gap_that_grows_is_noticed() {
        let backwards =
            shrinking(CLAIMS.get("AS44"), "as servers are added", [(4, 40.0), (1, 40.0)]);
        assert_eq!(backwards.verdict, Verdict::Outside);
    }
}
