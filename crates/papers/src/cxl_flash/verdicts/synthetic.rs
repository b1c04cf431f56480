//! The claims that synthetic programs decide: CX6 to CX16.

use super::{longer, percent, wear};
use crate::cxl_flash::CxlFlash;
use crate::cxl_flash::experiments::Cut;
use crate::cxl_flash::experiments::Row;
use crate::cxl_flash::experiments::{
    FLASH, FRAGMENTS, MEMSET, ONE_IN, OTHER_CHIPS, OTHER_MEMORIES, OTHER_THIRD, SYNTHETIC, of_chips,
};
use ebbtide_study::analytic::lifetime::Cells;
use ebbtide_study::claims::{Claim, Finding, least, mean, most};

/// Programs that mostly access lines in order.
const SEQUENTIAL: [&str; 3] = [SYNTHETIC[0], SYNTHETIC[1], SYNTHETIC[2]];
const MATRIX_MULTIPLY: &str = SYNTHETIC[1];
const RANDOM: &str = SYNTHETIC[3];
const STRIDE: &str = SYNTHETIC[4];

/// Shares that differ by less than this are alike.
const ALIKE_PP: f64 = 5.0;

/// The run of `program` for Fig. 5.
fn of_figure_5<'a>(study: &'a CxlFlash, program: &str, setup: &str) -> &'a Row {
    study.at("Fig. 5", program, setup)
}

/// Judges CX6: mean latency of synthetic programs, with a cache and without.
pub(crate) fn caches(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let at = |program: &str, setup: &str| of_figure_5(study, program, setup);
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
    let ended = SYNTHETIC.iter().all(|program| {
        let [bare, both] = ["no cache", "8 GiB, registers"].map(|setup| at(program, setup));
        both.mean_us < bare.mean_us && both.flash_interval_us() > bare.flash_interval_us()
    });
    let intervals = format!(
        "Interval at flash in us without a cache, with 8 GiB, and with registers too: {}. A cache \
         alone reads a page again for every access that comes while it is on its way (CX8); with \
         registers, which end that, it {}.",
        intervals.join("; "),
        if ended { "holds for all five" } else { "does not hold for all five either" }
    );
    vec![
        claim.finding("mean latency without a cache", mean(bare().map(|row| row.mean_us))),
        claim.finding(
            "interval at flash without a cache",
            most(bare().map(|row| row.flash_interval_us())),
        ),
        claim.finding("a cache", helps).note(intervals),
    ]
}

/// Judges CX7: mean latency with 8 GB of cache.
pub(crate) fn far_above_dram(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let mean_us = |program| of_figure_5(study, program, "8 GiB").mean_us;
    let far_above = |program| claim.finding(program, mean_us(program) > 0.46);
    vec![
        far_above(MATRIX_MULTIPLY).note(format!(
            "{:.1} us in the device, ten times 46 ns being far.",
            mean_us(MATRIX_MULTIPLY)
        )),
        far_above("min heap").note(format!("{:.1} us in the device.", mean_us("min heap"))),
    ]
}

/// Judges CX8: repeated reads among flash reads.
pub(crate) fn repeated_reads(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let repeated = |row: &Row| 100.0 * row.repeated_reads as f64 / row.flash_reads.max(1) as f64;
    let of = |program| claim.finding(program, repeated(of_figure_5(study, program, "8 GiB")));
    SEQUENTIAL.map(of).into()
}

/// Judges CX9: miss status registers shorten tails.
pub(crate) fn miss_registers(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let p99_us = |program: &str, setup: &str| of_figure_5(study, program, setup).p99_us;
    let shortened = |program: &str| p99_us(program, "8 GiB") / p99_us(program, "8 GiB, registers");
    let strongly = least(SEQUENTIAL.map(shortened));
    let a_little = most([RANDOM, STRIDE].map(shortened));
    let gains = format!(
        "p99 without registers over p99 with them: {}.",
        SYNTHETIC.map(|program| format!("{program} {:.1}", shortened(program))).join(", ")
    );
    vec![
        claim
            .finding("hash map, matrix multiply, min heap", strongly > a_little.max(1.0))
            .note(&gains),
        claim.finding("random, stride", a_little >= 1.0 && a_little < strongly).note(gains),
    ]
}

/// Requests of `program` below 1 us by degree and offset, in percent.
fn next_line(study: &CxlFlash, program: &str, degree: u64, offset: u64) -> f64 {
    percent(study.at("Fig. 8", program, &format!("degree {degree}, offset {offset}")))
}

/// The same in other memories.
fn elsewhere(study: &CxlFlash, program: &str, setup: &str) -> [String; OTHER_MEMORIES.len()] {
    OTHER_MEMORIES.map(|pages| {
        let setup = format!("{setup}, runs of {pages}");
        format!("{pages}: {:.1}", percent(study.at("Memories", program, &setup)))
    })
}

/// Judges CX10: matrix multiply, requests below 1 µs.
pub(crate) fn one_line_ahead(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let without = study.at("Fig. 5", MATRIX_MULTIPLY, "8 GiB, registers");
    let with = next_line(study, MATRIX_MULTIPLY, 1, 16);
    vec![
        claim
            .finding("without a prefetcher", percent(without))
            .note(longer(study, MATRIX_MULTIPLY)),
        claim.finding("next line, degree 1, offset 16", with).note(format!(
            "In a memory that keeps 64 pages together, an assumption; in others: {}%.",
            elsewhere(study, MATRIX_MULTIPLY, "degree 1, offset 16").join(", ")
        )),
    ]
}

/// Judges CX11: offset of the next-line prefetcher.
pub(crate) fn offsets(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let offsets = |program: &str| [4, 16, 64].map(|offset| next_line(study, program, 4, offset));
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
    let by_memory = |program: &str| {
        let far = elsewhere(study, program, "degree 4, offset 64");
        let middle = elsewhere(study, program, "degree 4, offset 16");
        format!("{program} at 16 {}%, at 64 {}%", middle.join(", "), far.join(", "))
    };
    let memories = format!(
        "In memories that keep other runs of pages together than 64: {}.",
        SEQUENTIAL.map(by_memory).join("; ")
    );
    vec![
        claim
            .finding("hash map, matrix multiply, min heap", peaks)
            .note(shares)
            .note(memories)
            .note(thinned(study)),
        claim
            .finding("stride", near <= middle && middle <= far)
            .note(format!("At offsets 4, 16, 64: {}.", shown(STRIDE))),
    ]
}

/// The effect of offsets on traces with a shorter time of use of each page.
fn thinned(study: &CxlFlash) -> String {
    let lasts = |row: &Row| row.seconds * 1e6 / row.flash_reads as f64;
    let shown = ONE_IN.map(|(number, kept)| {
        let program = SYNTHETIC[number];
        let cut = Cut::OneIn(kept).name();
        let at = |offset| study.at("Cuts", program, &format!("{cut}, offset {offset}"));
        let [near, middle, far] = [4, 16, 64].map(|offset| percent(at(offset)));
        let whole = study.at("Fig. 5", program, "8 GiB, registers");
        let (before, after) = (lasts(whole), lasts(at(4)));
        format!(
            "{program} {near:.1}, {middle:.1}, {far:.1}% ({cut}: a page every {after:.1} us \
             instead of {before:.1})"
        )
    });
    format!(
        "Reading SLC takes some 28 us. Here a page is used for so long that offset 4 comes in time; \
         in traces thinned until it does not: {}.",
        shown.join("; ")
    )
}

/// Stride on a kind of flash with a cache of `gib` GiB.
fn on_flash<'a>(study: &'a CxlFlash, flash: &str, gib: u64) -> &'a Row {
    study.at("Fig. 9", STRIDE, &format!("{flash}, {gib} GiB"))
}

/// Caches of Fig. 9 in GiB.
const CACHED_GIB: [u64; 3] = [1, 2, 4];

/// Judges CX12: kinds of flash, with a cache.
pub(crate) fn kinds_of_flash(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let at = |flash: &str, gib: u64| on_flash(study, flash, gib);
    let gap = |one: &str, other: &str, gib| percent(at(one, gib)) - percent(at(other, gib));
    let alike = CACHED_GIB.iter().all(|gib| gap("ull", "slc", *gib).abs() < ALIKE_PP);
    let worse =
        CACHED_GIB.iter().all(|gib| least(["mlc", "tlc"].map(|f| gap("slc", f, *gib))) > ALIKE_PP);
    let shares = FLASH.map(|flash| {
        let shares = CACHED_GIB.map(|gib| format!("{:.1}", percent(at(flash, gib)))).join(", ");
        format!("{flash} {shares}")
    });
    let in_time = FLASH.map(|flash| {
        let setup = format!("{flash}, 4 GiB, offset 64");
        format!("{flash} {:.1}", percent(study.at("Fig. 9", STRIDE, &setup)))
    });
    let suspended = ["ull", "slc"].map(|flash| {
        let setup = format!("{flash}, 4 GiB, offset 64, suspended");
        format!("{flash} {:.1}", percent(study.at("Fig. 9", STRIDE, &setup)))
    });
    let shares = format!(
        "Below 1 us with 1, 2, 4 GiB, in %: {}. At offset 16 a prefetch comes some 23 us ahead of \
         its use; at offset 64, in a memory that keeps 512 pages together, with 4 GiB: {}; there, \
         where programs give way to reads, for which they otherwise make them wait 100 to 200 us: \
         {}.",
        shares.join("; "),
        in_time.join(", "),
        suspended.join(", ")
    );
    vec![
        claim.finding("ULL and SLC", alike).note(&shares),
        claim.finding("MLC and TLC", worse).note(shares),
    ]
}

/// Judges CX13: lifetime by kind of flash.
pub(crate) fn wear_of_flash(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let cycles = |flash: &str| match flash {
        "ull" => Cells::Ull.endurance_cycles(),
        "slc" => Cells::Slc.endurance_cycles(),
        "mlc" => Cells::Mlc.endurance_cycles(),
        _ => Cells::Tlc.endurance_cycles(),
    };
    let years = |flash: &str, gib| wear(on_flash(study, flash, gib), cycles(flash)).working_years();
    let tough = least(["ull", "slc"].iter().flat_map(|f| CACHED_GIB.map(|gib| years(f, gib))));
    let weak = most(["mlc", "tlc"].map(|flash| years(flash, 1)));
    vec![
        claim.finding("ULL and SLC with a cache", tough),
        claim.finding("MLC and TLC with 1 GB", weak),
    ]
}

/// Judges CX14: parallelism against cache.
pub(crate) fn chips_and_cache(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
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
        claim.finding("enough cache", most(few_suffice) < ALIKE_PP).note(format!(
            "With 8 GiB, 32 x 32 chips gain {:.1} pp for hash map and {:.1} for min heap.",
            few_suffice[0], few_suffice[1]
        )),
        claim.finding("random", more_cache(RANDOM) > more_chips(RANDOM)).note(gains(RANDOM)),
        claim
            .finding("stride", more_chips(STRIDE) > more_cache(STRIDE).max(0.0))
            .note(gains(STRIDE))
            .note(at_the_door(study)),
    ]
}

/// CX14 with the time that accesses wait in front of the device.
fn at_the_door(study: &CxlFlash) -> String {
    let mean = |setup: &str| study.at("Fig. 10", STRIDE, setup).mean_from_issue_us;
    format!(
        "The paper does not count the time that accesses wait before the device, so that few chips \
         look good. With it the mean is {:.0} us with 8 x 4 chips and 1 GiB, \
         {:.0} us with 8 GiB, {:.0} us with 32 x 32 chips: parallelism counts for more.",
        mean("8 x 4, 1 GiB"),
        mean("8 x 4, 8 GiB"),
        mean("32 x 32, 1 GiB"),
    )
}

/// The effect of a part of the `memset` on `program` of Table 3, by memory.
fn after_memset(study: &CxlFlash, program: &str) -> String {
    let cut = Cut::Memset(MEMSET).name();
    let memories = [(0, "virtual"), (1, "physical 1"), (4, "physical 4")];
    let tried = memories.into_iter().filter_map(|(number, memory)| {
        let setup = format!("{cut}, {number}");
        let row = study.runs.iter().find(|row| (row.program, &row.setup) == (program, &setup))?;
        Some(format!("{memory} {:.1}", percent(row)))
    });
    format!(
        "Its memset is left out, which the study's translation, keeping one access a microsecond, \
         may have kept in part: {cut} {}.",
        tried.collect::<Vec<_>>().join(", ")
    )
}

/// Stride on other flash.
fn other_chips(study: &CxlFlash) -> String {
    let shown = OTHER_CHIPS.map(|chips| {
        let setup = of_chips(chips);
        format!("{setup} {:.1}", percent(study.at("Table 3 varied", STRIDE, &setup)))
    });
    format!(
        "A page comes and another goes every 1.17 us, near to what eight channels carry, so that \
         it is steep in what flash takes at once (a die here takes one command; MQSim's commands over several \
         planes are left out): {}.",
        shown.join(", ")
    )
}

/// Requests of `program` below 1 us by virtual addresses, in percent.
fn virtually(study: &CxlFlash, program: &str) -> f64 {
    percent(study.at("Table 3", program, "virtual"))
}

/// The same by physical addresses, in each of Table 3's memories.
fn physically(study: &CxlFlash, program: &str) -> Vec<f64> {
    let at = |number| study.at("Table 3", program, &format!("physical {number}"));
    (1..=FRAGMENTS.len()).map(|number| percent(at(number))).collect()
}

/// Requests below 1 us in Table 3, in percent: by virtual addresses, then in the five memories.
const TABLE_3: [[f64; 6]; 5] = [
    [96.9, 86.7, 88.3, 74.5, 63.8, 63.9],
    [98.2, 72.7, 57.4, 59.2, 48.1, 47.9],
    [97.8, 92.1, 96.0, 75.6, 69.1, 69.4],
    [32.2, 26.4, 27.1, 28.0, 22.4, 21.8],
    [64.7, 64.3, 59.4, 64.5, 51.9, 52.0],
];

/// The least drop by physical addresses, as a share of the paper's drop.
const LEAST_DROP: f64 = 0.5;

/// The drop of the share of `program` in each memory, in the paper.
fn printed_drops(program: &str) -> [f64; FRAGMENTS.len()] {
    let row = SYNTHETIC.iter().position(|name| *name == program).expect("a synthetic program");
    let [virtually, physically @ ..] = TABLE_3[row];
    physically.map(|share| virtually - share)
}

/// Judges CX15: requests below 1 µs, by virtual and physical addresses.
pub(crate) fn addresses(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let virtually = |program| virtually(study, program);
    let physical = |program: &str| physically(study, program);
    let mut findings = Vec::new();
    for program in SYNTHETIC {
        let shares = physical(program);
        let below = shares
            .iter()
            .zip(printed_drops(program))
            .all(|(share, printed)| virtually(program) - share >= LEAST_DROP * printed);
        let shown: Vec<String> = shares.iter().map(|share| format!("{share:.1}")).collect();
        let runs = FRAGMENTS.map(|pages| pages.to_string()).join(", ");
        let untranslated = format!("{}, 0", Cut::Untranslated.name());
        let virtual_share =
            claim.finding(&format!("{program}, virtual"), virtually(program)).note(format!(
                "Before the study's translation of times it is {:.1}%.",
                percent(study.at("Cuts", program, &untranslated))
            ));
        findings.push(match program {
            RANDOM => virtual_share.note(after_memset(study, program)),
            STRIDE => virtual_share.note(other_chips(study)).note(after_memset(study, program)),
            _ => virtual_share,
        });
        findings.push(claim.finding(&format!("{program}, physical below"), below).note(format!(
            "{}%, in memories that keep {runs} pages together. Each must fall by half of what \
                 it falls by in the paper.",
            shown.join(", ")
        )));
    }
    let worst = SYNTHETIC.iter().all(|program| {
        let shares = physical(program);
        let (whole, fragmented) = shares.split_at(3);
        most(fragmented.iter().copied()) < least(whole.iter().copied())
    });
    let third = format!("physical 3, runs of {OTHER_THIRD}");
    let longer_runs = SYNTHETIC.map(|program| {
        let share = percent(study.at("Table 3 varied", program, &third));
        format!("{program} {share:.1} over {:.1}", most(physical(program).split_off(3)))
    });
    findings.push(claim.finding("runs 4 and 5 (fragmented)", worst).note(format!(
        "In the third memory, with {} pages together (assumption), an offset of 16 leads out of \
         every run as it does with 1, where useless pages are fewer. With {OTHER_THIRD} together, \
         the third over the better of the last two, in %: {}.",
        FRAGMENTS[2],
        longer_runs.join("; ")
    )));
    findings
}

/// Judges CX16: greatest error of virtual addresses (matrix multiply).
pub(crate) fn greatest_error(claim: &Claim, study: &CxlFlash) -> Vec<Finding> {
    let virtually = virtually(study, MATRIX_MULTIPLY);
    let errors = physically(study, MATRIX_MULTIPLY).into_iter().map(|share| virtually - share);
    vec![claim.finding("", most(errors))]
}
