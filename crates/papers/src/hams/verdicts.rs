//! The verdict on each claim of HAMS.

use super::Hams;
use super::experiments::{
    AMBER_FIRMWARE, AT_BANDWIDTH, BEYOND_NVDIMM, COMPUTING, LHAMS_E, MMAP, ONE_CORE, OPTANE_P,
    PAGE_SIZES, Point, ShareRow, THAMS_E, WITH_FIRMWARE, WorkloadRow, mean_share, mean_speedup,
};
use ebbtide_core::counted;
use ebbtide_study::claims::{Claim, Finding, mean};

/// A curve is flat if every point is within this share of its last one.
const FLAT: f64 = 0.10;

/// A run has recovered when its mean rate since the start reaches this share of its last rate.
const RECOVERED: f64 = 0.8;

fn gain(speedup: f64) -> f64 {
    100.0 * (speedup - 1.0)
}

/// Judges HM1: performance of lhams-E over mmap.
pub(super) fn gain_of_lhams(claim: &Claim, hams: &Hams) -> Vec<Finding> {
    let ceiling = hams.workloads.iter().map(|row| row.nvdimm).sum::<f64>();
    vec![gains(claim, hams, LHAMS_E).note(format!(
        "An NVDIMM that holds everything gains {:+.0}% here: HM4's share of software and the 48% of HM12 \
         cannot both hold for the same runs.",
        gain(ceiling / hams.workloads.len() as f64)
    ))]
}

/// Judges HM2: performance of thams-E over mmap.
pub(super) fn gain_of_thams(claim: &Claim, hams: &Hams) -> Vec<Finding> {
    vec![gains(claim, hams, THAMS_E)]
}

fn gains(claim: &Claim, hams: &Hams, design: &str) -> Finding {
    let mean = |rows: &[WorkloadRow]| gain(mean_speedup(rows, design));
    let by_gain =
        |a: &&WorkloadRow, b: &&WorkloadRow| a.speedup(design).total_cmp(&b.speedup(design));
    let told = |row: &WorkloadRow| format!("{:+.0}% ({})", gain(row.speedup(design)), row.workload);
    let [least, most] =
        [hams.workloads.iter().min_by(by_gain), hams.workloads.iter().max_by(by_gain)]
            .map(|row| row.map_or(String::new(), told));
    let of = |what| mean(&hams.variation(what).workloads);
    let by_size: Vec<String> =
        PAGE_SIZES.iter().map(|(kib, what)| format!("{:+.0}% of {kib} KiB", of(what))).collect();
    claim
        .finding("", mean(&hams.workloads))
        .note(format!(
            "A mean over programs from {least} to {most}: a MoS page crosses the link whole, so a \
             read in order finds the rest of 128 KiB there and one at random waits for it.",
        ))
        .note(format!(
            "On one core, which has the link to itself, it is {:+.0}%. With MoS pages {}.",
            of(ONE_CORE),
            by_size.join(", "),
        ))
        .note(format!(
            "The 3 us of Z-NAND are the medium alone, and 13% of mmap's time beside 69% for 17 us of \
             software (HM12, HM4) are 3.2 us, which leaves no firmware. With the 12 us that the \
             SZ985's data sheet has for a read of the whole SSD {:+.0}%, with the 14.7 us of the \
             firmware of Amber, the paper's simulator, {:+.0}%.",
            of(WITH_FIRMWARE),
            of(AMBER_FIRMWARE),
        ))
        .note(sizes_allowed())
        .note("Rodinia's programs are not among ours.")
}

/// The sizes of a MoS page that the printed bandwidth allows, by the paper's own numbers.
fn sizes_allowed() -> String {
    // A miss of mmap: 17 us of software, 3 us of flash, and 4.4 us of computing before it. The
    // cores share the bandwidth.
    const MMAP_US: f64 = 17.0 + 3.0 + 4.4;
    const CORES: f64 = 4.0;
    const PRINTED_GB_PER_S: f64 = 20.0;
    const CLAIMED_GAIN: f64 = 1.97;
    let most_kib = |speedup: f64| MMAP_US / speedup / CORES * PRINTED_GB_PER_S * 1e3 / 1024.0;
    let allowed = |most: f64| PAGE_SIZES.iter().rfind(|(kib, _)| *kib as f64 <= most);
    let told =
        |most: f64| allowed(most).map_or("none".to_string(), |(kib, _)| format!("{kib} KiB"));
    let [equal, claimed] = [1.0, CLAIMED_GAIN].map(most_kib);
    format!(
        "The size is second-hand. At the printed 20 GB/s (HM7), which four cores share, a miss at \
         random is no slower than mmap's {MMAP_US} us with pages up to {equal:.0} KiB ({}), and gains \
         97% with pages up to {claimed:.0} KiB ({}).",
        told(equal),
        told(claimed),
    )
}

/// HM3 cannot be tested. Its note has the energies of the shipped table.
pub(super) fn energy(claim: &Claim, hams: &Hams) -> Vec<Finding> {
    let saved = |design| 100.0 * (hams.mean_energy(design) - 1.0);
    let note = format!(
        "By configs/energy.toml, which is not theirs, a job takes {:+.0}% and {:+.0}% of mmap's, the \
         mean over programs; the breakdown is above.",
        saved(LHAMS_E),
        saved(THAMS_E),
    );
    claim.findings_beforehand().map(|finding| finding.note(&note)).collect()
}

/// Judges HM4: share of the time in mmap and the I/O stack.
pub(super) fn software(claim: &Claim, hams: &Hams) -> Vec<Finding> {
    let percent = |of| 100.0 * mean_share(&hams.shares, of);
    let one_core = 100.0 * mean_share(&hams.variation(ONE_CORE).shares, ShareRow::software);
    let by_share = |a: &&ShareRow, b: &&ShareRow| a.software().total_cmp(&b.software());
    let least = hams.shares.iter().min_by(by_share);
    let least = least.map_or(String::new(), |row| {
        format!("{:.0}% under {}", 100.0 * row.software(), row.workload)
    });
    vec![
        claim.finding("", percent(ShareRow::software))
            .note(format!(
                "Flash and its link have {:.0}% and computing {:.0}%. The computing between misses \
                 was derived from these shares, so this only says that the parts add up.",
                percent(|row| row.flash),
                percent(|row| row.compute),
            ))
            .note(format!(
                "It is least, {least}, where cores read in order: a core waits for the fault of another \
                 core, which counts as flash. On one core it is \
                 {one_core:.1}%.",
            )),
    ]
}

/// Judges HM12: mmap and the parts of its time, compared with other memories.
pub(super) fn beside_others(claim: &Claim, hams: &Hams) -> Vec<Finding> {
    let mmap = mean(hams.workloads.iter().map(|row| 1.0 / row.nvdimm));
    let [flash, medium, link] =
        [|row: &ShareRow| row.flash, |row: &ShareRow| row.medium, |row: &ShareRow| row.link]
            .map(|of| 100.0 * mean_share(&hams.shares, of));
    let own = [
        claim.finding("mmap under NVDIMM", 100.0 * (1.0 - mmap)).inconsistent(
            "An NVDIMM spares all software, which has 69% of mmap's time (HM4), and no HAMS can be \
             faster, of which one gains 119% over mmap (HM2): mmap is at least 69% slower by the \
             first and 54% by the second.",
        ),
        claim.finding("flash's share of mmap's time", flash).note(format!(
            "The medium has {medium:.1}% of the time for pages that a core has requested itself, \
             and the link {link:.1}%. In the other {:.1}% cores wait for a page that another core \
             has requested, where programs read in order, and pages enter the NVDIMM.",
            flash - medium - link,
        )),
    ];
    let over_optane = claim
        .finding("best of thams-E over optane-P", hams.best(AT_BANDWIDTH, THAMS_E, OPTANE_P))
        .note(other_bests(hams, OPTANE_P, |ratio| format!("{ratio:.2}")));
    own.into_iter().chain(claim.findings_beforehand()).chain([over_optane]).collect()
}

/// Judges HM9: best of thams-E over lhams-E.
pub(super) fn best_over_lhams(claim: &Claim, hams: &Hams) -> Vec<Finding> {
    let percent = |ratio| format!("{:+.0}%", gain(ratio));
    vec![
        claim
            .finding("", gain(hams.best(AT_BANDWIDTH, THAMS_E, LHAMS_E)))
            .note(other_bests(hams, LHAMS_E, percent)),
    ]
}

/// Judges HM10: best of thams-E over mmap.
pub(super) fn best_over_mmap(claim: &Claim, hams: &Hams) -> Vec<Finding> {
    let times = |ratio| format!("{ratio:.2}");
    vec![
        claim
            .finding("", hams.best(AT_BANDWIDTH, THAMS_E, MMAP))
            .note(other_bests(hams, MMAP, times))
            .note(
                "Where the data fit, both designs end at the speed of the NVDIMM, and only cold misses \
                 set them apart.",
            ),
    ]
}

/// The quotient of the best performances of thams-E and `other` in the variations of Fig. 4, and
/// the largest quotient at any point.
fn other_bests(hams: &Hams, other: &str, told: impl Fn(f64) -> String) -> String {
    let [computing, beyond] =
        [COMPUTING, BEYOND_NVDIMM].map(|what| told(hams.best(what, THAMS_E, other)));
    let at_a_point =
        [AT_BANDWIDTH, COMPUTING].map(|what| told(hams.best_at_a_point(what, THAMS_E, other)));
    format!(
        "The quotient of the best performances, without computing between pages. {COMPUTING} \
         {computing}; {BEYOND_NVDIMM} {beyond}. The largest quotient at a point is {}, with computing {}.",
        at_a_point[0], at_a_point[1],
    )
}

/// HM11. Fig. 4 is one experiment, whose designs reach the full bandwidth. The notes have the same
/// with the programs' computing between pages.
pub(super) fn figure4(claim: &Claim, hams: &Hams) -> Vec<Finding> {
    let start = |what, design| 100.0 * starts(hams.curve(what, design));
    let started = |design| {
        let [own, computing] = [AT_BANDWIDTH, COMPUTING].map(|what| start(what, design));
        format!("At first {own:.0}% of what it comes to; {COMPUTING} {computing:.0}%.")
    };
    let recovers = |what| {
        let [lhams, mmap] = [LHAMS_E, MMAP].map(|design| recovered(hams.curve(what, design)));
        (lhams < mmap, [lhams, mmap].map(after))
    };
    let (sooner, [lhams, mmap]) = recovers(AT_BANDWIDTH);
    let (_, [lhams_computing, mmap_computing]) = recovers(COMPUTING);
    vec![
        claim.finding("mmap", start(AT_BANDWIDTH, MMAP) < 50.0).note(started(MMAP)),
        claim.finding("lhams-E", sooner).note(format!(
            "From its start on it is at {:.0}% of what it comes to {lhams}, mmap {mmap}; {COMPUTING} \
             {lhams_computing}, mmap {mmap_computing}.",
            100.0 * RECOVERED,
        )),
        claim
            .finding("thams-E", is_flat(hams.curve(AT_BANDWIDTH, THAMS_E)))
            .note(started(THAMS_E)),
        claim
            .finding("optane-P", (start(AT_BANDWIDTH, OPTANE_P) - 100.0).abs() < 2.0)
            .note(started(OPTANE_P)),
    ]
}

/// The last rate of a curve.
fn last(curve: &[Point]) -> f64 {
    curve.last().map_or(0.0, |point| point.pages_per_s)
}

/// The first rate of a curve as a share of its last one.
fn starts(curve: &[Point]) -> f64 {
    curve[0].pages_per_s / last(curve)
}

fn is_flat(curve: &[Point]) -> bool {
    curve.iter().all(|point| (point.pages_per_s / last(curve) - 1.0).abs() <= FLAT)
}

/// The pages after which a curve has recovered. `u64::MAX` if it does not.
fn recovered(curve: &[Point]) -> u64 {
    let target = RECOVERED * last(curve);
    let point = curve.iter().find(|point| point.pages_per_s_so_far >= target);
    point.map_or(u64::MAX, |point| point.pages)
}

fn after(pages: u64) -> String {
    match pages {
        u64::MAX => "not at all".to_string(),
        pages => format!("after {}", counted(pages, "page")),
    }
}
