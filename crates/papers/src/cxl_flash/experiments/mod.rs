//! The study's figures and tables as lists of runs.
//!
//! The study's device sees physical addresses. It sees virtual ones only for the comparison of the
//! two (ATC'23 section 3.2). The configurations shipped with its authors' simulator name physical
//! traces.

mod captured;
mod given;
mod programs;
mod runs;
mod stand_ins;
mod statistics;

use ebbtide_core::Watch;
use ebbtide_study::claims::Findings;
pub(super) use ebbtide_workloads::{Open, StandIn};

pub(super) use self::captured::{CAPTURED, COUNTERPARTS};
pub use self::given::TracesError;
pub(super) use self::given::{Given, file_name};
pub(super) use self::programs::Cut;
use self::programs::PROGRAMS;
use self::runs::{Addresses, Trace};
pub(super) use self::runs::{CACHE_PAGES, Hints, Row, Run, Scale};
pub(super) use self::stand_ins::STAND_INS;
pub(super) use self::statistics::Statistics;
use super::CxlFlash;
use crate::{ReproduceError, ReproduceOptions};

/// Programs of the synthetic studies, in the order of [`PROGRAMS`].
pub(super) const SYNTHETIC: [&str; 5] =
    [PROGRAMS[0].name, PROGRAMS[1].name, PROGRAMS[2].name, PROGRAMS[3].name, PROGRAMS[4].name];

/// Programs of the study of real ones, in the order of [`STAND_INS`].
pub(super) const REAL: [&str; 5] =
    [STAND_INS[0].name, STAND_INS[1].name, STAND_INS[2].name, STAND_INS[3].name, STAND_INS[4].name];

/// Policies of Fig. 11.
pub(super) const POLICIES: [&str; 4] = ["fifo", "random", "lru", "cflru"];

/// Prefetchers of Figs. 13 and 14, with the paper's names.
pub(super) const PREFETCHERS: [(&str, &str); 5] = [
    ("none", "NP"),
    ("next-n-line", "NL"),
    ("feedback-directed", "FD"),
    ("best-offset", "BO"),
    ("leap", "LP"),
];

/// Kinds of flash of Fig. 9.
pub(super) const FLASH: [&str; 4] = ["ull", "slc", "mlc", "tlc"];

/// Table 3's five physical traces, by the number of adjacent pages that stay adjacent in memory.
/// The paper recorded the last two on a machine with fragmented memory. The numbers are
/// assumptions.
pub(super) const FRAGMENTS: [u64; 5] = [64, 64, 16, 1, 1];

/// The same number for all other runs of synthetic traces: a memory without fragmentation, an
/// assumption.
const FRESH: u64 = 64;

/// Memories for variations of Fig. 8.
pub(super) const OTHER_MEMORIES: [u64; 3] = [16, 32, 512];

/// The hints of observation 7.
pub(super) const HINTS: [Hints; 7] = [
    (0.05, 0.01, 10),
    (0.05, 0.05, 10),
    (0.05, 0.10, 10),
    (0.05, 0.50, 10),
    (0.01, 0.10, 10),
    (0.05, 0.10, 1),
    (0.05, 0.10, 100),
];

/// The hints for captured programs, and for other choices of the parameters that Table 5 leaves
/// open.
pub(super) const HINTED: [Hints; 2] = [HINTS[2], HINTS[3]];

/// The name of a run with hints.
pub(super) fn hinted((top, chance, lead_us): Hints) -> String {
    format!("top {:.0}% at {:.0}%, {lead_us} us", top * 100.0, chance * 100.0)
}

/// Other choices of the parameters that Table 5 leaves open. These are the place and the order of
/// new pages, and the distance of accesses to earlier pages.
pub(super) const OPEN: [Open; 6] = [
    Open::WorkingSet(32),
    Open::WorkingSet(64),
    Open::WorkingSet(128),
    Open::Returns(1 << 18),
    Open::InOrder(0.0),
    Open::InOrder(1.0),
];

/// A working set as large as the cache.
pub(super) const AS_LARGE: Open = OPEN[1];

/// The programs with runs of policies and ways on it. Radiosity hardly fills its cache.
pub(super) const AS_LARGE_OF: [usize; 4] = [0, 1, 3, 4];

/// The name of a run of a stand-in with another choice.
pub(super) fn opened(open: Open, setup: &str) -> String {
    format!("{}, {setup}", open.name())
}

/// A set of runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Runs {
    /// The synthetic programs.
    Synthetic,
    /// The synthetic programs whose traces Tables 2 and 5 describe.
    Traces,
    /// The stand-ins for real programs.
    Real,
    /// The captured programs.
    Captured,
}

impl Runs {
    /// Its figures.
    fn figures(self) -> &'static [&'static str] {
        match self {
            Runs::Synthetic => &[
                "Fig. 5",
                "Fig. 8",
                "Memories",
                "Fig. 9",
                "Fig. 10",
                "Table 3",
                "Table 3 varied",
                "Cuts",
            ],
            // The statistics of synthetic traces belong to the traces that the runs replayed.
            Runs::Traces => &["Fig. 5", "Cuts"],
            Runs::Real => &["Fig. 11", "Fig. 13", "Obs. 7", "Table 5"],
            Runs::Captured => &[CAPTURED_FIGURE, OWN_TIMES],
        }
    }
}

/// Does the runs of `sets`. The findings are left empty.
pub(super) fn run(
    sets: &[Runs],
    options: &ReproduceOptions,
    watch: Watch<'_>,
) -> Result<CxlFlash, ReproduceError> {
    let scale = Scale::new(options);
    let given = given(options)?;
    let runs = needed(scale, sets, &given);
    let (rows, recordings) = runs::run_all(&runs, scale, &given, options, watch)?;
    let mut traces = statistics::all(&recordings, scale, options.seed);
    if sets.contains(&Runs::Real) {
        statistics::add_given(&mut traces, &given, watch)?;
    }
    Ok(CxlFlash {
        given,
        synthetic_scale_denominator: scale.synthetic,
        accesses_max: options.quick.then_some(scale.accesses_max),
        seed: options.seed,
        runs: rows,
        traces,
        findings: Findings::default(),
    })
}

impl CxlFlash {
    /// The run of `program` for `figure` on `setup`.
    pub(crate) fn at(&self, figure: &str, program: &str, setup: &str) -> &Row {
        let wanted =
            |row: &&Row| (row.figure, row.program, row.setup.as_str()) == (figure, program, setup);
        let found = self.runs.iter().find(wanted);
        found.unwrap_or_else(|| panic!("no run of {program} for {figure} on {setup}"))
    }

    /// The trace of `program` with the cut `cut`.
    pub(crate) fn trace(&self, program: &str, cut: &str) -> Option<&Statistics> {
        self.traces.iter().find(|trace| (trace.program, trace.cut.as_str()) == (program, cut))
    }
}

/// The study's own traces that the user has.
pub(super) fn given(options: &ReproduceOptions) -> Result<Given, TracesError> {
    options.traces.as_deref().map_or_else(|| Ok(Given::default()), Given::in_folder)
}

/// The runs of `sets`. A program with a `given` trace needs no choices of what Table 5 leaves open.
pub(super) fn needed(scale: Scale, sets: &[Runs], given: &Given) -> Vec<Run> {
    let mut runs = all(scale);
    let open = |run: &Run| {
        run.figure == "Table 5"
            && run.real().is_some_and(|program| given.of(program, true).is_some())
    };
    runs.retain(|run| sets.iter().any(|set| set.figures().contains(&run.figure)) && !open(run));
    runs
}

/// Every run of the study.
fn all(scale: Scale) -> Vec<Run> {
    [figures_5_to_7(scale), figure_8(scale), other_memories(scale), figure_9(scale)]
        .into_iter()
        .chain([figure_10(scale), table_3(scale), figure_11(), figures_13_and_14(), hints()])
        .chain([open(), cuts(scale), variations(scale), captured()])
        .flatten()
        .collect()
}

/// A synthetic program by physical addresses.
fn synthetic(figure: &'static str, program: usize, setup: String) -> Run {
    Run::new(figure, Trace::Synthetic(program, Cut::First), setup).mapped(FRESH, 1)
}

/// A stand-in by physical addresses.
fn real(figure: &'static str, program: usize, setup: String) -> Run {
    Run::new(figure, Trace::Real(program, Open::Fixed), setup).mapped(FRESH, 1)
}

/// No cache, a cache alone, and miss registers: 32 x 32 chips of SLC.
fn figures_5_to_7(scale: Scale) -> Vec<Run> {
    let runs = |program| {
        let run = |setup: &str, gib: u64, mshr| {
            let run = synthetic("Fig. 5", program, setup.to_string());
            run.cache(scale, gib * 1024).flash("slc", (32, 32)).set("dram_cache.mshr", mshr)
        };
        [
            run("no cache", 0, 0),
            run("2 GiB", 2, 0),
            run("8 GiB", 8, 0),
            run("8 GiB, registers", 8, 1024),
        ]
    };
    (0..SYNTHETIC.len()).flat_map(runs).collect()
}

/// Programs of Fig. 8.
const NEXT_LINE: [usize; 4] = [0, 1, 2, 4];

/// Next-n-line by degree and offset, on 8 GiB.
fn figure_8(scale: Scale) -> Vec<Run> {
    let run = |program, degree, offset| {
        let run = synthetic("Fig. 8", program, format!("degree {degree}, offset {offset}"));
        run.cache(scale, 8192).flash("slc", (32, 32)).next_line(degree, offset)
    };
    let offsets = NEXT_LINE.into_iter().flat_map(|p| [4, 16, 64].map(|offset| run(p, 4, offset)));
    offsets.chain([run(1, 1, 16)]).collect()
}

/// The same for the sequential programs, without the nearest offset. The memories have other
/// numbers of adjacent pages.
fn other_memories(scale: Scale) -> Vec<Run> {
    let other = |pages: u64| {
        let wanted = |run: &Run| run.program() != SYNTHETIC[4] && !run.setup.ends_with("offset 4");
        figure_8(scale).into_iter().filter(wanted).map(move |run| {
            let setup = format!("{}, runs of {pages}", run.setup);
            Run { figure: "Memories", setup, ..run }.mapped(pages, 1)
        })
    };
    OTHER_MEMORIES.into_iter().flat_map(other).collect()
}

/// Stride on four kinds of flash. Also with offset 64, as it allows more time for prefetches.
fn figure_9(scale: Scale) -> Vec<Run> {
    let run = |flash: &'static str, gib: u64| {
        let run = synthetic("Fig. 9", 4, format!("{flash}, {gib} GiB"));
        let run = run.cache(scale, gib * 1024).flash(flash, (32, 32));
        if gib == 0 { run } else { run.next_line(4, 16) }
    };
    let runs = FLASH.into_iter().flat_map(|flash| [0, 1, 2, 4].map(|gib| run(flash, gib)));
    let in_time = FLASH.map(|flash| Run {
        setup: format!("{flash}, 4 GiB, offset 64"),
        ..run(flash, 4).next_line(4, 64).mapped(512, 1)
    });
    // The same on flash with reads that do not wait for programs.
    let unblocked = [FLASH[0], FLASH[1]].map(|flash| Run {
        setup: format!("{flash}, 4 GiB, offset 64, suspended"),
        ..run(flash, 4)
            .next_line(4, 64)
            .mapped(512, 1)
            .set("flash.suspend", "program-erase")
            .set("flash.suspend_us", 0)
    });
    runs.chain(in_time).chain(unblocked).collect()
}

/// The number of chips against the size of the cache.
fn figure_10(scale: Scale) -> Vec<Run> {
    let run = |program, chips: (u64, u64), gib: u64| {
        let setup = format!("{} x {}, {gib} GiB", chips.0, chips.1);
        let run = synthetic("Fig. 10", program, setup);
        run.cache(scale, gib * 1024).flash("slc", chips).next_line(4, 16)
    };
    let all = [0, 2, 3, 4].into_iter();
    all.flat_map(|p| [(8, 4), (32, 32)].map(|chips| [1, 8].map(|gib| run(p, chips, gib))))
        .flatten()
        .collect()
}

/// Virtual against physical addresses: 8 x 8 chips, 512 MiB, next-n-line.
fn table_3(scale: Scale) -> Vec<Run> {
    let run = |program, setup: String| {
        let run = Run::new("Table 3", Trace::Synthetic(program, Cut::First), setup);
        run.cache(scale, 512).flash("ull", (8, 8)).next_line(4, 16)
    };
    let runs = |program| {
        let physical = (1..).zip(FRAGMENTS).map(move |(number, pages)| {
            run(program, format!("physical {number}")).mapped(pages, number)
        });
        std::iter::once(run(program, "virtual".to_string())).chain(physical)
    };
    (0..SYNTHETIC.len()).flat_map(runs).collect()
}

/// Variations of Table 3: a third memory with more adjacent pages, and stride by virtual addresses
/// on fewer chips and on more channels.
fn variations(scale: Scale) -> Vec<Run> {
    let run = |program, setup: String, chips| {
        let run = Run::new("Table 3 varied", Trace::Synthetic(program, Cut::First), setup);
        run.cache(scale, 512).flash("ull", chips).next_line(4, 16)
    };
    let pages = OTHER_THIRD;
    let third = (0..SYNTHETIC.len()).map(|program| {
        run(program, format!("physical 3, runs of {pages}"), (8, 8)).mapped(pages, 3)
    });
    let chips = OTHER_CHIPS.map(|chips| run(4, of_chips(chips), chips));
    third.chain(chips).collect()
}

/// Another number of adjacent pages for Table 3's third memory.
pub(super) const OTHER_THIRD: u64 = 32;

/// Flash other than Table 3's: channels, and chips on each.
pub(super) const OTHER_CHIPS: [(u64, u64); 2] = [(8, 4), (16, 8)];

/// The name of flash with this number of channels and chips.
pub(super) fn of_chips((channels, chips): (u64, u64)) -> String {
    format!("{channels} x {chips}")
}

/// Every policy with every number of ways. With one way all policies are equal, so it occurs once.
fn policies_and_ways() -> impl Iterator<Item = (&'static str, u64)> {
    let ways = POLICIES.into_iter().flat_map(|policy| [1, 4, 16].map(|ways| (policy, ways)));
    ways.filter(|(policy, ways)| *ways > 1 || *policy == POLICIES[0])
}

fn replaced(run: Run, policy: &str, ways: u64) -> Run {
    run.set("dram_cache.policy", policy).set("dram_cache.ways", ways)
}

/// Policies and ways.
fn figure_11() -> Vec<Run> {
    let run = |program, (policy, ways): (&str, u64)| {
        replaced(real("Fig. 11", program, format!("{policy}, {ways} ways")), policy, ways)
    };
    let runs = |program| policies_and_ways().map(move |setup| run(program, setup));
    (0..REAL.len()).flat_map(runs).collect()
}

/// Prefetchers, and best-offset also by virtual addresses.
fn figures_13_and_14() -> Vec<Run> {
    let run = |program, (policy, name): (&str, &str)| {
        real("Fig. 13", program, name.to_string()).prefetch(policy)
    };
    let runs = |program| PREFETCHERS.map(|prefetcher| run(program, prefetcher));
    let virtually = [0, 1].map(|program| Run {
        setup: "BO, virtual".to_string(),
        addresses: Addresses::Virtual,
        ..run(program, PREFETCHERS[3])
    });
    (0..REAL.len()).flat_map(runs).chain(virtually).collect()
}

/// BERT with hints.
fn hints() -> Vec<Run> {
    HINTS.map(|setup| Run { hints: Some(setup), ..real("Obs. 7", 0, hinted(setup)) }).into()
}

/// Stand-ins with other choices of the parameters that Table 5 leaves open. They run with every
/// prefetcher, by virtual addresses too for claims that compare both. BERT also runs with hints,
/// and some with policies and ways.
fn open() -> Vec<Run> {
    let run = |program, open, setup: &str| {
        let run = real("Table 5", program, opened(open, setup));
        Run { trace: Trace::Real(program, open), ..run }
    };
    let by_open = OPEN.into_iter().flat_map(|open| {
        let prefetchers = (0..REAL.len()).flat_map(move |program| {
            PREFETCHERS.map(|(policy, name)| run(program, open, name).prefetch(policy))
        });
        let (policy, name) = PREFETCHERS[3];
        let virtually = [0, 1].map(|program| Run {
            addresses: Addresses::Virtual,
            ..run(program, open, &of_space(name, false)).prefetch(policy)
        });
        let hinted = HINTED.map(|hints| Run { hints: Some(hints), ..run(0, open, &hinted(hints)) });
        prefetchers.chain(virtually).chain(hinted)
    });
    let replacement = AS_LARGE_OF.into_iter().flat_map(|program| {
        policies_and_ways().map(move |(policy, ways)| {
            let run = run(program, AS_LARGE, &format!("{policy}, {ways} ways"));
            replaced(run, policy, ways)
        })
    });
    by_open.chain(replacement).collect()
}

/// Other cuts of the synthetic traces. The paper does not state which accesses they have.
fn cuts(scale: Scale) -> Vec<Run> {
    let figure_5 = |program, times| {
        let cut = Cut::Longer(times);
        let run = Run::new("Cuts", Trace::Synthetic(program, cut), cut.name()).mapped(FRESH, 1);
        run.cache(scale, 8192).flash("slc", (32, 32))
    };
    let figure_8 = |program, kept, offset: u64| {
        let cut = Cut::OneIn(kept);
        let setup = format!("{}, offset {offset}", cut.name());
        let run = Run::new("Cuts", Trace::Synthetic(program, cut), setup).mapped(FRESH, 1);
        run.cache(scale, 8192).flash("slc", (32, 32)).next_line(4, offset)
    };
    // By virtual addresses, or in one of Table 3's memories.
    let table_3 = |program, cut: Cut, memory: usize| {
        let setup = format!("{}, {memory}", cut.name());
        let run = Run::new("Cuts", Trace::Synthetic(program, cut), setup);
        let run = run.cache(scale, 512).flash("ull", (8, 8)).next_line(4, 16);
        match memory {
            0 => run,
            number => run.mapped(FRAGMENTS[number - 1], number as u64),
        }
    };
    let longer = LONGER.map(|(program, times)| figure_5(program, times));
    let thin = ONE_IN
        .into_iter()
        .flat_map(|(program, kept)| [4, 16, 64].map(|offset| figure_8(program, kept, offset)));
    let memset = |program, memory| table_3(program, Cut::Memset(MEMSET), memory);
    let random = [0, 1, 4].map(|memory| memset(3, memory));
    let untranslated = (0..SYNTHETIC.len()).map(|program| table_3(program, Cut::Untranslated, 0));
    longer.into_iter().chain(thin).chain(random).chain([memset(4, 0)]).chain(untranslated).collect()
}

/// Longer traces: the program, and the factor of its length. The last one of each program ends at
/// the program's end.
pub(super) const LONGER: [(usize, f64); 4] = [(0, 2.5), (0, 3.5), (1, 1.5), (1, 2.0)];

/// Thinner traces: the program, and the number of accesses for each kept one, so a page is used for
/// about 2 us.
pub(super) const ONE_IN: [(usize, u64); 3] = [(0, 45), (1, 5), (2, 9)];

/// The trace keeps one of this many accesses of the `memset`.
pub(super) const MEMSET: u64 = 15;

/// The cache for captured programs, an assumption. It is 3 to 8% of their footprints of 3 to 9 MiB.
/// The study's 64 MiB are 2 to 13% of Table 5's footprints.
const CAPTURED_CACHE: &str = "256KiB";

/// A larger cache for some of the runs.
pub(super) const CAPTURED_CACHE_LARGE: &str = "1MiB";

/// The name of a run by physical or by virtual addresses.
pub(super) fn of_space(setup: &str, physical: bool) -> String {
    format!("{setup}, {}", if physical { "physical" } else { "virtual" })
}

/// The name of runs of captured programs.
pub(super) const CAPTURED_FIGURE: &str = "Captured";

/// The same for programs with rescaled times, at the times of the capture.
const OWN_TIMES: &str = "Captured, own times";

/// Captured programs, those with rescaled times also at the times of the capture.
fn captured() -> Vec<Run> {
    let rescaled = |program: &usize| COUNTERPARTS.contains(&CAPTURED[*program].name);
    let at_own_times = |run: Run| Run { figure: OWN_TIMES, ..run.at_own_times() };
    let own = (0..CAPTURED.len()).filter(rescaled).flat_map(captured_program).map(at_own_times);
    (0..CAPTURED.len()).flat_map(captured_program).chain(own).collect()
}

/// A captured program with prefetchers by both kinds of addresses, some with a larger cache as
/// well. Also with policies and ways, and with hints.
fn captured_program(program: usize) -> Vec<Run> {
    let run = |setup: &str, physical: bool| {
        let trace = Trace::Captured { program, own_times: false };
        let run = Run::new(CAPTURED_FIGURE, trace, of_space(setup, physical));
        let addresses = if physical { Addresses::Physical } else { Addresses::Virtual };
        Run { addresses, ..run }.set("dram_cache.size", CAPTURED_CACHE)
    };
    let prefetchers = PREFETCHERS.into_iter().flat_map(|(policy, name)| {
        [false, true].map(|physical| run(name, physical).prefetch(policy))
    });
    let larger = [PREFETCHERS[1], PREFETCHERS[3]].into_iter().flat_map(|(policy, name)| {
        [false, true].map(|physical| {
            let run = run(&format!("{name}, {CAPTURED_CACHE_LARGE}"), physical);
            run.prefetch(policy).set("dram_cache.size", CAPTURED_CACHE_LARGE)
        })
    });
    let policies = policies_and_ways()
        .map(|(policy, ways)| replaced(run(&format!("{policy}, {ways} ways"), true), policy, ways));
    let hints = HINTED.map(|setup| Run { hints: Some(setup), ..run(&hinted(setup), true) });
    prefetchers.chain(larger).chain(policies).chain(hints).collect()
}

impl CxlFlash {
    /// The study with captured programs at the times of the capture.
    pub(super) fn at_own_times(&self) -> CxlFlash {
        let mut study = self.clone();
        let own = |row: &&Row| row.figure == OWN_TIMES;
        study.runs.retain(|row| {
            let replaced = |own: &Row| (own.program, &own.setup) == (row.program, &row.setup);
            row.figure != CAPTURED_FIGURE || !self.runs.iter().filter(own).any(replaced)
        });
        let own = self.runs.iter().filter(own).cloned();
        study.runs.extend(own.map(|row| Row { figure: CAPTURED_FIGURE, ..row }));
        study
    }
}
