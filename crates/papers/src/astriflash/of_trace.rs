//! Tests AstriFlash's statements about services (HPCA'23 Fig. 1 and §II-A) on a user's trace:
//! claims AS4 to AS11.

use ebbtide_study::analytic::cost;
use ebbtide_study::size::figure1::DRAM_SHARE;
use ebbtide_study::size::{Demand, Input, Knee, Machine, Report, traffic};

use ebbtide_study::claims::{Finding, Findings};

use crate::astriflash::claims::CLAIMS;

/// Cores that share the flash of AS7.
const CORES: f64 = 64.0;

/// Price of DRAM divided by the price of flash (AS1).
const PRICE_RATIO: f64 = 50.0;

/// The reason why AS5 is not among the findings.
const NO_SWITCH: &str = "AS5, the switch between user-level threads, cannot be read from a trace: \
    `--machine` brings this machine's, and `ebbtide reproduce astriflash --real` measures it";

/// Tests AstriFlash's claims about services (AS4 to AS11) on the trace of `report`, and adds the
/// findings to it. Reports of programs stay unchanged.
///
/// AS5 needs the switch time of `machine`. Without it, a notice replaces the finding.
pub fn judge_trace(report: &mut Report, machine: &Machine) {
    if !matches!(report.options.input, Input::Trace { .. }) {
        return;
    }
    if machine.switch_ns.is_none() {
        report.notices.push(NO_SWITCH.to_string());
    }
    report.beside = of_trace(&report.demand, &report.knee, machine.switch_ns);
}

/// The findings for a trace with this `demand` and `knee`. AS5 is included if `switch_ns`, the time
/// of a switch between user-level threads, is known. The trace's times are used unchanged.
fn of_trace(demand: &Demand, knee: &Knee, switch_ns: Option<f64>) -> Findings {
    let usual = (demand.dataset_pages as f64 * DRAM_SHARE) as u64;
    let miss_ratio = demand.lru().miss_ratio(usual);
    let (traffic, share) = (traffic(demand), 100.0 * knee.dram_share);
    let knee_gb_per_s = CORES * traffic.flash_bytes_per_second(knee.miss_ratio) / 1e9;
    let switch = switch_ns.map(|ns| {
        CLAIMS.get("AS5").finding("", ns).note("Measured on the machine that --machine describes.")
    });
    let rest = [
        CLAIMS.get("AS6").finding("", share),
        CLAIMS
            .get("AS7")
            .finding("", knee_gb_per_s)
            .note(format!("{CORES} cores that make these accesses.")),
        input("AS8").note(format!(
            "A core that makes these accesses takes {:.2} GB/s of lines of 64 B; pages of 4 KiB.",
            traffic.dram_bytes_per_second / 1e9
        )),
        input("AS9").note(format!("AS7's cores take {knee_gb_per_s:.1} GB/s.")),
        CLAIMS.get("AS10").finding("", demand.access_us() / miss_ratio).note(format!(
            "With 3% of the data in DRAM; {:.2} at the knee.",
            knee.miss_interval_us
        )),
        CLAIMS.get("AS11").finding("", 100.0 * (1.0 - miss_ratio)).note(format!(
            "{:.2}% are the first to their page, which no size absorbs.",
            100.0 * demand.first_touches
        )),
    ];
    let saving = CLAIMS
        .get("AS4")
        .finding("", cost::saving(knee.dram_share, PRICE_RATIO))
        .note(format!("With DRAM for {share:.2}% of the data, its knee."));
    [saving].into_iter().chain(switch).chain(rest).collect()
}

/// The claim called `id`, which is an input of the paper's models.
fn input(id: &str) -> Finding {
    CLAIMS.get(id).findings_beforehand().next().expect("it is an input")
}
