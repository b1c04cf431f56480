//! The CXL-flash study's claims by formula: CX2, CX3, CX5.

use ebbtide_study::analytic::cost::performance_per_dollar;
use ebbtide_study::analytic::lifetime::{Cells, Wear};
use ebbtide_study::claims::{Claim, Finding};

/// Dollars for a GB of DRAM (ATC'23, observation 3).
const DRAM_DOLLARS: f64 = 5.0;

/// Dollars for a GB of flash: the higher and the lower price.
const FLASH_DOLLARS: [f64; 2] = [0.30, 0.05];

/// A program of Table 5 that runs once on 1 TiB of ULL flash.
struct Program {
    accesses: f64,
    interval_ns: f64,
}

const PAGE_RANK: Program = Program { accesses: 435e6, interval_ns: 51.0 };
const RADIOSITY: Program = Program { accesses: 61e6, interval_ns: 1863.0 };

/// Flash pages that Radiosity writes, by the paper (CX20).
#[cfg(test)]
const RADIOSITY_PAGES: f64 = 1.0e6;

impl Program {
    fn wear(&self, pages_written: f64) -> Wear {
        Wear {
            cycles: Cells::Ull.endurance_cycles(),
            device_bytes: (1_u64 << 40) as f64,
            pages_written,
            seconds: self.accesses * self.interval_ns / 1e9,
        }
    }

    fn lifetime(&self, claim: &Claim, pages_written: f64) -> Finding {
        let wear = self.wear(pages_written);
        claim.finding("years", wear.working_years()).note(format!(
            "{:.2} M pages written in {:.1} s; in use round the clock it lasts {:.2} years.",
            pages_written / 1e6,
            wear.seconds,
            wear.years(),
        ))
    }
}

/// The findings without simulation: Radiosity's lifetime from the printed writes, and prices.
#[cfg(test)]
pub(crate) fn findings() -> Vec<Finding> {
    let claim = |id| super::claims::CLAIMS.get(id);
    let radiosity = radiosity_lifetime(claim("CX3"), RADIOSITY_PAGES);
    let radiosity = radiosity.note("The writes are those printed (CX20).");
    [radiosity].into_iter().chain(prices(claim("CX5"), [0.68, 0.91])).collect()
}

/// CX2: the lifetime of Page Rank's device if a run writes `pages_written` pages of 4 KiB to flash.
pub(crate) fn page_rank_lifetime(claim: &Claim, pages_written: f64) -> Finding {
    PAGE_RANK.lifetime(claim, pages_written)
}

/// CX3: the same for Radiosity.
pub(crate) fn radiosity_lifetime(claim: &Claim, pages_written: f64) -> Finding {
    RADIOSITY.lifetime(claim, pages_written)
}

/// CX2 in years of the paper.
pub(crate) fn page_rank_years(pages_written: f64) -> f64 {
    PAGE_RANK.wear(pages_written).working_years()
}

/// CX3 in years of the paper.
pub(crate) fn radiosity_years(pages_written: f64) -> f64 {
    RADIOSITY.wear(pages_written).working_years()
}

/// CX5: prices, and the least and the most performance for the money. `shares` are CX1's shares of
/// fast requests.
pub(crate) fn prices(claim: &Claim, shares: [f64; 2]) -> [Finding; 4] {
    let [dear, cheap] = FLASH_DOLLARS;
    let [least, _] = performance_for_the_money(shares[0]);
    let [_, most] = performance_for_the_money(shares[1]);
    [
        claim.finding("least price ratio", DRAM_DOLLARS / dear),
        claim.finding("greatest price ratio", DRAM_DOLLARS / cheap),
        claim.finding("least performance for the money", least),
        claim.finding("most performance for the money", most),
    ]
}

/// The performance for the money, relative to DRAM's, with expensive and with cheap flash. The
/// program has the share `below_us` of its requests below a microsecond.
pub(crate) fn performance_for_the_money(below_us: f64) -> [f64; 2] {
    FLASH_DOLLARS.map(|dollars| performance_per_dollar(below_us, DRAM_DOLLARS, dollars))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_study::claims::Verdict;

    #[test]
    fn every_claim_comes_out_as_computed_by_hand() {
        let findings = findings();
        let verdicts: Vec<Verdict> = findings.iter().map(|finding| finding.verdict).collect();
        assert_eq!(verdicts[0], Verdict::Within, "{findings:?}");
        assert_eq!(verdicts[1..3], [Verdict::ByConstruction; 2], "{findings:?}");
        assert_eq!(verdicts[3..], [Verdict::Within; 2], "{findings:?}");
        let ours: Vec<_> = findings.into_iter().filter_map(|finding| finding.ours).collect();
        assert_eq!(ours, ["407 y", "16.7×", "100×", "11.3×", "91.0×"]);
    }

    #[test]
    fn page_rank_lasts_as_printed_if_it_writes_as_much_as_that_implies() {
        let claim = crate::cxl_flash::claims::CLAIMS.get("CX2");
        let implied = PAGE_RANK.wear(1.0).pages_for(3.1);
        let finding = page_rank_lifetime(claim, implied);
        assert_eq!((finding.verdict, finding.ours.as_deref()), (Verdict::Within, Some("3.10 y")));
        let expected =
            "25.65 M pages written in 22.2 s; in use round the clock it lasts 0.74 years.";
        assert!(finding.note.ends_with(expected), "{}", finding.note);
        assert_eq!(page_rank_lifetime(claim, 2.0 * implied).verdict, Verdict::Outside);
    }
}
