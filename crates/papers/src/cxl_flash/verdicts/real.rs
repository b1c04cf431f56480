//! The claims that stand-ins for real programs decide: CX1 to CX3 and CX17 to CX28. The note of
//! each has the values for other choices of the parameters that Table 5 leaves open.

use ebbtide_core::PAGE_BYTES;

use super::{BEST_OFFSET, LEAP, NO_PREFETCHER, captured, longer, percent};
use crate::cxl_flash::CxlFlash;
use crate::cxl_flash::experiments::file_name;
use crate::cxl_flash::experiments::{
    AS_LARGE, AS_LARGE_OF, HINTED, HINTS, OPEN, POLICIES, PREFETCHERS, REAL, hinted, of_space,
    opened,
};
use crate::cxl_flash::experiments::{CACHE_PAGES, Hints, Row};
use crate::cxl_flash::experiments::{Open, STAND_INS, StandIn};
use crate::cxl_flash::formulas;
use ebbtide_report::statistics::rank_correlation;
use ebbtide_study::claims::{Claim, Finding, Ours, Verdict, least, most};

/// A claim's programs, and the addresses of the traces that decide it.
#[derive(Clone, Copy)]
struct Decides<'a> {
    programs: &'a [&'static str],
    /// Whether virtual addresses decide it instead of physical ones.
    virtually: bool,
}

impl<'a> Decides<'a> {
    /// `programs`, by physical addresses.
    fn physical(programs: &'a [&'static str]) -> Decides<'a> {
        Decides { programs, virtually: false }
    }
}

/// Returns `finding` if the study's own traces of the programs are given. Otherwise the claim needs
/// them, and the stand-ins' result becomes an aside.
fn by_traces(study: &CxlFlash, finding: Finding, decides: Decides<'_>) -> Finding {
    let Decides { programs, virtually } = decides;
    let numbers = programs.iter().filter_map(|name| REAL.iter().position(|real| real == name));
    let missing: Vec<String> = numbers
        .filter(|number| study.given.of(*number, !virtually).is_none())
        .map(|number| file_name(number, !virtually))
        .collect();
    if !missing.is_empty() {
        let id = finding.id;
        return finding.stand_in(&format!(
            "Needs {} of Zenodo's record 7916219 in a folder DIR: `ebbtide reproduce cxl-flash \
             --traces DIR --claim {id}`.",
            missing.join(", "),
        ));
    }
    match cut(study, programs) {
        true => {
            finding.not_converged("The run ends before the study's trace does: leave out --quick.")
        }
        false => finding.note("By the study's own trace."),
    }
}

/// Returns true if the study's own trace of one of `programs` is given. Such a program has no open
/// parameters.
fn any_given(study: &CxlFlash, programs: &[&str]) -> bool {
    let number = |name: &&str| REAL.iter().position(|real| real == name);
    let given = |number| study.given.of(number, true).is_some();
    programs.iter().any(|name| number(name).is_some_and(given))
}

/// Whether a run ends before the trace of one of `programs`.
fn cut(study: &CxlFlash, programs: &[&str]) -> bool {
    let whole = |program: &&str| study.trace(program, "").and_then(|trace| trace.whole);
    let longest = programs.iter().filter_map(whole).map(|whole| whole.accesses).max();
    study.accesses_max.is_some_and(|most| longest.is_some_and(|longest| longest > most))
}

/// CX5's parts that depend on the shares of requests below 1 us.
pub(super) fn by_shares(study: &CxlFlash, finding: Finding) -> Finding {
    by_traces(study, finding, Decides::physical(&REAL))
}

const BERT: &str = REAL[0];
const PAGE_RANK: &str = REAL[1];
const RADIOSITY: &str = REAL[2];
const XZ: &str = REAL[3];
const YCSB: &str = REAL[4];

/// The runs of the stand-in for `program` with the choice `open`.
#[derive(Clone, Copy)]
struct Case<'a> {
    study: &'a CxlFlash,
    program: &'static str,
    open: Open,
}

impl<'a> Case<'a> {
    /// The run with the prefetcher or the hints called `setup`.
    fn at(self, setup: &str) -> &'a Row {
        match self.open {
            Open::Fixed => self.study.at("Fig. 13", self.program, setup),
            open => self.study.at("Table 5", self.program, &opened(open, setup)),
        }
    }

    fn hinted(self, hints: Hints) -> &'a Row {
        match self.open {
            Open::Fixed => self.study.at("Obs. 7", self.program, &hinted(hints)),
            _ => self.at(&hinted(hints)),
        }
    }

    fn without(self) -> f64 {
        percent(self.at(NO_PREFETCHER))
    }

    /// Requests below 1 us with each prefetcher, in percent.
    fn with(self) -> impl Iterator<Item = f64> {
        PREFETCHERS.iter().skip(1).map(move |(_, name)| percent(self.at(name)))
    }

    /// The run with the most requests below 1 us, with a prefetcher or without.
    fn best(self) -> &'a Row {
        let rows = PREFETCHERS.map(|(_, name)| self.at(name));
        let best = rows.into_iter().max_by(|a, b| a.sub_us.total_cmp(&b.sub_us));
        best.expect("there are prefetchers")
    }

    /// The percentage of hits under a miss that best offset turns into hits.
    fn became_hits(self) -> f64 {
        let merged = |name| self.at(name).hits_under_miss as f64;
        100.0 * (merged(NO_PREFETCHER) - merged(BEST_OFFSET)) / merged(NO_PREFETCHER).max(1.0)
    }
}

/// The finding for part `part` of `claim` with this `value`, which the traces of `programs` decide.
/// A stand-in's has its values for other choices.
fn decided<T: Into<Ours>>(
    claim: &Claim,
    part: &str,
    (study, decides): (&CxlFlash, Decides<'_>),
    value: impl Fn(Open) -> T,
) -> Finding {
    let finding = by_traces(study, claim.finding(part, value(Open::Fixed)), decides);
    match finding.verdict {
        Verdict::NeedsInput => finding.note(left_open(study, claim, part, decides, value)),
        _ => finding,
    }
}

/// [`decided`] for programs by physical addresses.
fn decided_by<T: Into<Ours>>(
    claim: &Claim,
    part: &str,
    (study, programs): (&CxlFlash, &[&'static str]),
    value: impl Fn(Open) -> T,
) -> Finding {
    decided(claim, part, (study, Decides::physical(programs)), value)
}

/// The values for other choices of the parameters that Table 5 leaves open, and whether they
/// include the claim.
fn left_open<T: Into<Ours>>(
    study: &CxlFlash,
    claim: &Claim,
    part: &str,
    decides: Decides<'_>,
    value: impl Fn(Open) -> T,
) -> String {
    if any_given(study, decides.programs) {
        return String::new();
    }
    let values = OPEN.map(|open| value(open).into());
    let fixed = value(Open::Fixed).into();
    let shown = OPEN.iter().zip(values).map(|(open, value)| {
        let written = claim.finding(part, value).ours.unwrap_or_default();
        format!("{} {written}", open.name())
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    let all: Vec<Ours> = values.into_iter().chain([fixed]).collect();
    let verdict = match claim.judge_range(part, &all) {
        Verdict::Within => "the claim is among what Table 5 allows",
        _ => "no choice gives what is claimed",
    };
    format!("Left open: {shown}; {verdict}.")
}

/// The stand-in for `program`.
fn stand_in(program: &str) -> &'static StandIn {
    STAND_INS.iter().find(|stand_in| stand_in.name == program).expect("it is a real program")
}

/// Pages that the whole program of `row` writes to flash. Every page that is read takes a frame.
/// When all frames are taken, it evicts a page. Evicted pages are dirty as often as in the
/// simulated part.
fn pages_written(study: &CxlFlash, row: &Row) -> f64 {
    let cache = CACHE_PAGES as f64;
    let read = row.flash_reads as f64;
    let whole = study.trace(row.program, "").and_then(|trace| trace.whole);
    let accesses = whole.map_or(stand_in(row.program).accesses, |whole| whole.accesses);
    let read_by_all = read * accesses as f64 / row.accesses as f64;
    match read > cache {
        true => row.flash_writes as f64 / (read - cache) * (read_by_all - cache),
        false => 0.0,
    }
}

/// The run of the stand-in for `program` for Fig. 11.
fn of_figure_11<'a>(study: &'a CxlFlash, program: &str, policy: &str, ways: u64) -> &'a Row {
    // With one way all policies are equal.
    let policy = if ways == 1 { POLICIES[0] } else { policy };
    study.at("Fig. 11", program, &format!("{policy}, {ways} ways"))
}

/// Judges CX17: replacement policies and ways.
pub(crate) fn replacement(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let share =
        |program: &str, policy: &str, ways| percent(of_figure_11(study, program, policy, ways));
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
    let by_all = |part, holds: bool, programs: &[&'static str]| {
        by_traces(study, claim.finding(part, holds), Decides::physical(programs))
    };
    vec![
        by_all("more ways", more_ways, &REAL).note(by_ways(study)),
        by_all("CFLRU for BERT, XZ, YCSB", cflru, &[BERT, XZ, YCSB]).note(format!(
            "Below 1 us with 16 ways, in %: {}. {}",
            [BERT, XZ, YCSB].map(of_policies).join("; "),
            by_policy(study)
        )),
    ]
}

/// Values over the policies and ways of Fig. 11 for the fixed generator, else those of the study's
/// device.
fn over_policies(
    study: &CxlFlash,
    program: &'static str,
    open: Open,
    of: fn(Vec<f64>) -> f64,
) -> f64 {
    if open != Open::Fixed {
        return Case { study, program, open }.without();
    }
    let share = |policy, ways| percent(of_figure_11(study, program, policy, ways));
    of([1, 4, 16].into_iter().flat_map(|ways| POLICIES.map(|policy| share(policy, ways))).collect())
}

/// Judges CX18: Radiosity, requests below 1 µs.
pub(crate) fn any_policy(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let radiosity = (study, &[RADIOSITY][..]);
    vec![
        decided_by(claim, "any policy", radiosity, |o| over_policies(study, RADIOSITY, o, least)),
        decided_by(claim, "best policy", radiosity, |o| over_policies(study, RADIOSITY, o, most))
            .note(gone_anew(RADIOSITY)),
    ]
}

/// Judges CX19: requests below 1 µs without prefetching, best policy.
pub(crate) fn best_policy(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let best = |program| {
        decided_by(claim, program, (study, &[program]), |open| {
            over_policies(study, program, open, most)
        })
    };
    [BERT, PAGE_RANK].map(best).into()
}

/// Judges CX20: flash pages written.
pub(crate) fn pages_to_flash(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let written = |program| {
        let row = of_figure_11(study, program, "cflru", 16);
        let case = |open| Case { study, program, open };
        let millions = |open| pages_written(study, case(open).at(NO_PREFETCHER)) / 1e6;
        decided_by(claim, program, (study, &[program]), millions).note(format!(
            "{} pages in {:.1} M accesses.",
            row.flash_writes,
            row.accesses as f64 / 1e6
        ))
    };
    vec![written(BERT), written(RADIOSITY).note(gone_anew(RADIOSITY))]
}

/// The number of accesses of `program` to new pages, in words.
fn gone_anew(program: &str) -> String {
    let stand_in = stand_in(program);
    let anew = (1.0 - stand_in.spatial) * (1.0 - stand_in.temporal);
    format!(
        "By its localities, as defined here, {:.1}% of its accesses go to new pages, {:.2} M in \
         all. More misses and writes than these need accesses that return to pages the cache has \
         evicted.",
        100.0 * anew,
        anew * stand_in.accesses as f64 / 1e6
    )
}

/// The run of `program` on a cache as large as its working set.
fn as_large<'a>(study: &'a CxlFlash, program: &str, policy: &str, ways: u64) -> &'a Row {
    let policy = if ways == 1 { POLICIES[0] } else { policy };
    study.at("Table 5", program, &opened(AS_LARGE, &format!("{policy}, {ways} ways")))
}

/// The effect of more ways when the cache is as large as the working set.
fn by_ways(study: &CxlFlash) -> String {
    if any_given(study, &REAL) {
        return String::new();
    }
    let best = |program: &str, ways| {
        most(POLICIES.map(|policy| percent(as_large(study, program, policy, ways))))
    };
    let shown = AS_LARGE_OF.map(|program| {
        let program = REAL[program];
        let [one, four, sixteen] = [1, 4, 16].map(|ways| best(program, ways));
        format!("{program} {one:.1}, {four:.1}, {sixteen:.1}")
    });
    format!(
        "The stand-ins take new pages from their whole footprints, where no placement helps. With \
         working sets as large as the cache, 64 MiB, below 1 us with 1, 4, 16 ways, in %: {}.",
        shown.join("; ")
    )
}

/// The effect of policies on that cache.
fn by_policy(study: &CxlFlash) -> String {
    if any_given(study, &REAL) {
        return String::new();
    }
    let shown = [BERT, XZ, YCSB].map(|program| {
        let policies = POLICIES.map(|policy| {
            let row = as_large(study, program, policy, 16);
            format!("{policy} {:.1}", percent(row))
        });
        let [lru, cflru] =
            ["lru", "cflru"].map(|policy| as_large(study, program, policy, 16).flash_writes);
        format!("{program} {} ({cflru} pages written, LRU {lru})", policies.join(", "))
    });
    format!("With working sets of 64 MiB: {}.", shown.join("; "))
}

/// Judges CX1: requests below 1 µs over five programs.
pub(crate) fn shares(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let best = |program, open| percent(Case { study, program, open }.best());
    vec![
        decided_by(claim, "least (Page Rank)", (study, &[PAGE_RANK]), |o| best(PAGE_RANK, o))
            .note(what_is_open(study)),
        decided_by(claim, "most", (study, &REAL), |open| {
            most(REAL.map(|program| best(program, open)))
        }),
    ]
}

/// The least and the most of the programs' shares of requests below 1 us, with the best
/// prefetchers.
pub(super) fn least_and_most(study: &CxlFlash) -> [f64; 2] {
    let shares = REAL.map(|program| Case { study, program, open: Open::Fixed }.best().sub_us);
    [least(shares), most(shares)]
}

/// Judges CX21: prefetching.
pub(crate) fn prefetching(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let case = |program, open| Case { study, program, open };
    let fixed = |program| case(program, Open::Fixed);
    let shares = |program| {
        let shares =
            PREFETCHERS.map(|(_, name)| format!("{name} {:.1}", percent(fixed(program).at(name))));
        format!("In %: {}.", shares.join(", "))
    };
    let hurts = |program| {
        decided_by(claim, program, (study, &[program]), |open| {
            let case = case(program, open);
            case.with().all(|share| share < case.without())
        })
        .note(shares(program))
    };
    let helps = |program| {
        decided_by(claim, program, (study, &[program]), |open| {
            let case = case(program, open);
            most(case.with()) > case.without()
        })
        .note(shares(program))
    };
    vec![hurts(BERT), hurts(XZ), hurts(YCSB), helps(PAGE_RANK), helps(RADIOSITY)]
}

/// Judges CX22: best offset on Radiosity.
pub(crate) fn best_offset_on_radiosity(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let case = |open| Case { study, program: RADIOSITY, open };
    let radiosity = (study, &[RADIOSITY][..]);
    vec![
        decided_by(claim, "requests below 1 µs", radiosity, |open| {
            percent(case(open).at(BEST_OFFSET)) > case(open).without()
        }),
        decided_by(claim, "hits under miss that become hits", radiosity, |open| {
            case(open).became_hits()
        }),
    ]
}

/// Judges CX23: Page Rank, most requests below 1 µs with prefetching.
pub(crate) fn most_of_page_rank(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let case = |open| Case { study, program: PAGE_RANK, open };
    vec![decided_by(claim, "", (study, &[PAGE_RANK]), |open| most(case(open).with()))]
}

/// The percentage `value` of the run of `program` on `setup`.
fn prefetched(
    claim: &Claim,
    part: &str,
    (study, program, setup): (&CxlFlash, &'static str, &str),
    value: fn(&Row) -> f64,
) -> Finding {
    let decides =
        Decides { programs: &[program], virtually: setup == of_space(BEST_OFFSET, false) };
    decided(claim, part, (study, decides), |open| {
        100.0 * value(Case { study, program, open }.at(setup))
    })
}

/// Judges CX24: accuracy and coverage of prefetchers.
pub(crate) fn accuracy(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let of = |part, program, name, value| prefetched(claim, part, (study, program, name), value);
    vec![
        of("Leap on Radiosity, accuracy", RADIOSITY, LEAP, |row| row.accuracy),
        of("Leap on BERT, accuracy", BERT, LEAP, |row| row.accuracy),
        of("best offset on XZ, accuracy", XZ, BEST_OFFSET, |row| row.accuracy),
        of("best offset on XZ, coverage", XZ, BEST_OFFSET, |row| row.coverage),
    ]
}

/// Judges CX25: low accuracy goes with high pollution.
pub(crate) fn correlation(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let case = |program, open| Case { study, program, open };
    let correlation = |open| {
        let rows = [BERT, YCSB].into_iter().flat_map(|program| {
            PREFETCHERS.iter().skip(1).map(move |(_, name)| case(program, open).at(name))
        });
        rank_correlation(&rows.map(|row| (row.accuracy, row.pollution)).collect::<Vec<_>>())
    };
    vec![
        decided_by(claim, "BERT, YCSB", (study, &[BERT, YCSB]), |open| correlation(open) < 0.0)
            .note(format!(
                "Rank correlation of accuracy and pollution {:.2}.",
                correlation(Open::Fixed)
            )),
    ]
}

/// Judges CX26: best offset, virtual against physical.
pub(crate) fn addresses(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let virtually = of_space(BEST_OFFSET, false);
    let of =
        |part, program, setup: &str, value| prefetched(claim, part, (study, program, setup), value);
    vec![
        of("Page Rank, accuracy, virtual", PAGE_RANK, &virtually, |row| row.accuracy),
        of("Page Rank, accuracy, physical", PAGE_RANK, BEST_OFFSET, |row| row.accuracy),
        of("BERT, coverage, virtual", BERT, &virtually, |row| row.coverage),
        of("BERT, coverage, physical", BERT, BEST_OFFSET, |row| row.coverage),
    ]
}

/// The parameters that Table 5 leaves open, and the effect of other choices on its own figures.
fn what_is_open(study: &CxlFlash) -> String {
    if any_given(study, &REAL) {
        return String::new();
    }
    let temporal = |program: &str, open: Open| {
        study.trace(program, &open.name()).map_or(0.0, |trace| trace.temporal)
    };
    let stays = OPEN.into_iter().filter(|open| !matches!(open, Open::Returns(_)));
    let moved = stays.flat_map(|open| {
        REAL.map(|program| (temporal(program, open) - temporal(program, Open::Fixed)).abs())
    });
    format!(
        "Real programs are stand-ins by Table 5's six figures. These leave three things open: where \
         new pages lie (here anywhere in the footprint; varied: in working sets of 32 to 128 MiB), \
         how far back accesses return (here seldom far; varied: anywhere in the last 262144 pages) \
         and the order of pages (here as often in order as lines; varied: never or always). Notes \
         on what is left open give the value of each choice, in runs that visit new pages of twice \
         the cache. Apart from the returns, which Table 5 may or may not mean, temporal locality \
         moves by {:.2} at most.",
        most(moved)
    )
}

/// Pages that the stand-in for `program` writes with its best prefetcher.
fn written(study: &CxlFlash, program: &'static str, open: Open) -> f64 {
    pages_written(study, Case { study, program, open }.best())
}

/// Judges CX2: shortest lifetime (Page Rank).
pub(crate) fn shortest_lifetime(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let written = |open| written(study, PAGE_RANK, open);
    let decides = Decides::physical(&[PAGE_RANK]);
    let years = |open| formulas::page_rank_years(written(open));
    let finding = formulas::page_rank_lifetime(claim, written(Open::Fixed));
    vec![
        by_traces(study, finding, decides)
            .note(captured::lifetimes(study))
            .note(left_open(study, claim, "years", decides, years)),
    ]
}

/// Judges CX3: lifetime with Radiosity.
pub(crate) fn longest_lifetime(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let written = |open| written(study, RADIOSITY, open);
    let decides = Decides::physical(&[RADIOSITY]);
    let years = |open| formulas::radiosity_years(written(open));
    let finding = formulas::radiosity_lifetime(claim, written(Open::Fixed));
    vec![by_traces(study, finding, decides).note(left_open(study, claim, "years", decides, years))]
}

/// Judges CX27: BERT with hints, requests below 1 µs.
pub(crate) fn hints(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let case = |open| Case { study, program: BERT, open };
    let bert = (study, &[BERT][..]);
    let [some, more] = HINTED;
    let at = |lead_us| percent(case(Open::Fixed).hinted((some.0, some.1, lead_us)));
    let plateau = |open| match open {
        Open::Fixed => most(HINTS.map(|hints| percent(case(open).hinted(hints)))),
        _ => most([some, more].map(|hints| percent(case(open).hinted(hints)))),
    };
    vec![
        decided_by(claim, "without hints", bert, |open| case(open).without()),
        decided_by(claim, "at a chance of 10%", bert, |open| percent(case(open).hinted(some)))
            .note(format!(
                "Hints to the 5% of the pages that are accessed most, 10 us ahead; {:.1}% at 1 us \
             ahead, {:.1}% at 100.",
                at(1),
                at(100)
            )),
        decided_by(claim, "plateau", bert, plateau),
    ]
}

/// The reason why the statistics of a stand-in are no test of the model.
const MADE_FROM_IT: &str = "The stand-in is made from this figure.";

/// Judges CX28: statistics of the traces.
pub(crate) fn traces(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let mut findings = Vec::new();
    for trace in study.traces.iter().filter(|trace| trace.cut.is_empty()) {
        let found =
            |what: &str, ours: f64| claim.finding(&format!("{}, {what}", trace.program), ours);
        let interval = found("interval", trace.interval_ns);
        let reads = found("reads", 100.0 * trace.reads);
        let Some(stand_in) = STAND_INS.iter().find(|stand_in| stand_in.name == trace.program)
        else {
            findings.extend([interval, reads.note(longer(study, trace.program))]);
            continue;
        };
        let gib = |pages: u64| (pages * PAGE_BYTES as u64) as f64 / (1u64 << 30) as f64;
        let (accesses, pages) = match trace.whole {
            Some(whole) => (whole.accesses, whole.pages),
            None => (stand_in.accesses, stand_in.pages()),
        };
        let rows = [
            interval,
            found("accesses", accesses as f64 / 1e6),
            reads,
            found("footprint", gib(pages)),
            found("spatial locality", trace.spatial),
            found("temporal locality", trace.temporal),
        ];
        findings.extend(rows.map(|row| match trace.whole {
            // A trace is read to its end, even if its runs are cut short.
            Some(_) => row.note("By the study's own trace."),
            None => by_traces(study, row, Decides::physical(&[trace.program])).note(MADE_FROM_IT),
        }));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_back_until_the_cache_is_full_and_then_at_the_rate_of_what_was_run() {
        // A fortieth of the program. Half of the pages read after the cache was full were dirty.
        let row = Row {
            program: BERT,
            accesses: 1_025_000,
            flash_reads: CACHE_PAGES + 1_000,
            flash_writes: 500,
            ..Row::default()
        };
        let read_by_all = 40 * (CACHE_PAGES + 1_000);
        let study = CxlFlash::default();
        assert_eq!(pages_written(&study, &row), 0.5 * (read_by_all - CACHE_PAGES) as f64);
        let filling = Row { flash_reads: CACHE_PAGES, flash_writes: 0, ..row };
        assert_eq!(pages_written(&study, &filling), 0.0);
    }
}
