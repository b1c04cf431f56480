//! Images are pure functions of the page, at any size, and a damaged one is noticed.

use ebbtide_core::PageId;
use ebbtide_testbed::Plain;
use ebbtide_workloads::{Kind, Program, Scatter, Shape, Workload};

use crate::common::{image, page, plain, program, sparse};

/// RandomAccess's table is defined to the bit: without redundancy, for every seed and scatter. Its
/// own tests check the detection of damage.
const PLAIN_WORDS: [Kind; 2] = [Kind::Gups, Kind::GupsFromOne];

/// The programs that check what they read, by name.
fn kinds_that_check() -> impl Iterator<Item = (&'static str, Kind)> {
    let checks = |kind: &Kind| !PLAIN_WORDS.contains(kind);
    Kind::ALL.into_iter().filter(checks).map(|kind| (kind.name(), kind))
}

/// A job of these programs reads hundreds of values, at any place.
const GRAPHS: [Kind; 4] = [
    Kind::PageRank,
    Kind::ConnectedComponents,
    Kind::PageRankShards,
    Kind::ConnectedComponentsShards,
];

/// Jobs write the rings of these before they read them, and popularity clusters less. Their own
/// tests check the detection of damage, and which keys are hot.
const TPCC: [Kind; 3] = [Kind::Tpcc, Kind::TpccMix, Kind::Silo];

/// They touch lines, not keys, so no page is hotter than another.
const TOUCH: [Kind; 4] = [Kind::SeqRead, Kind::SeqWrite, Kind::RandomRead, Kind::RandomWrite];

/// Their image is Masstree's, and so is what of a damaged one is noticed; no key is hotter than
/// another.
const SQL: [Kind; 5] = [
    Kind::SqlSeqSelect,
    Kind::SqlRandomSelect,
    Kind::SqlSeqInsert,
    Kind::SqlRandomInsert,
    Kind::SqlUpdate,
];

const SCATTERS: [Scatter; 2] = [Scatter::Pages, Scatter::Keys];

#[test]
fn a_page_is_the_same_whenever_it_is_made() {
    for name in Kind::ALL.map(Kind::name) {
        for scatter in SCATTERS {
            let once = program(name, 100, scatter);
            let pages = once.size_bytes() / 4096;
            let forwards = image(&once);
            let again = program(name, 100, scatter);
            for p in (0..pages).rev() {
                let words = &forwards[p as usize * 512..][..512];
                assert_eq!(page(&again, PageId(p)), words, "{name}, page {p}");
            }
        }
    }
}

#[test]
fn a_line_is_the_same_made_with_its_page_or_by_itself() {
    for name in Kind::ALL.map(Kind::name) {
        for scatter in SCATTERS {
            let program = program(name, 100, scatter);
            for p in (0..program.size_bytes() / 4096).map(PageId) {
                let mut whole = [0xa5; 4096];
                program.image(p, &mut whole);
                for line in 0..64 {
                    // Other garbage than above: what it says it wrote it must have written.
                    let mut part = [0x5a; 4096];
                    let written = program.image_lines(p, line..line + 1, &mut part);
                    assert!(written.contains(&line) && written.end <= 64, "{name}: {written:?}");
                    let bytes = written.start * 64..written.end * 64;
                    assert_eq!(part[bytes.clone()], whole[bytes], "{name}, {p:?}, line {line}");
                }
            }
        }
    }
}

#[test]
fn a_seed_makes_its_own_image() {
    for (name, kind) in kinds_that_check() {
        let with_seed = |seed| {
            let shape = Shape { dataset_bytes: kind.min_bytes(), seed, ..Shape::default() };
            image(&kind.build(&shape).unwrap())
        };
        assert_eq!(with_seed(1), with_seed(1), "{name}");
        assert_ne!(with_seed(1), with_seed(2), "{name}");
    }
}

/// Jobs that run over `memory` before one finds something wrong.
fn jobs_until_wrong(program: &Program, memory: &mut Plain) -> Option<u64> {
    (0..3000).find(|&job| program.run(job, memory).is_err())
}

#[test]
fn any_changed_word_that_a_job_reads_is_noticed() {
    for (name, kind) in kinds_that_check() {
        if TPCC.contains(&kind) || SQL.contains(&kind) {
            continue;
        }
        let program = program(name, kind.min_bytes() / 4096, Scatter::Pages);
        let clean = plain(&program);
        let mut noticed = 0;
        let words: Vec<usize> = (0..clean.words.len()).filter(|word| word % 29 == 0).collect();
        for &word in &words {
            let mut memory = Plain::new(clean.words.clone());
            memory.words[word] ^= 1 << 17;
            noticed += usize::from(jobs_until_wrong(&program, &mut memory).is_some());
        }
        // Not noticed: latches (1 word in 8), lines that are unused, and the half of a TATP
        // subscriber that no job reads (1 in 4 of all, less its latch). With few elements, jobs
        // read all the rest.
        let share = noticed as f64 / words.len() as f64;
        let expected = match kind {
            Kind::ArraySwap | Kind::HashTable => 0.8,
            Kind::SeqRead | Kind::SeqWrite | Kind::RandomRead | Kind::RandomWrite => 0.8,
            Kind::RedBlackTree => 0.5,
            // Many slots are free, and so is the room to grow.
            Kind::Masstree => 0.4,
            Kind::Tpcb => 0.3,
            Kind::Tatp | Kind::TatpMix => 0.6,
            // Their last pages are rarely full.
            Kind::PageRank | Kind::ConnectedComponents => 0.7,
            Kind::PageRankShards | Kind::ConnectedComponentsShards => 0.7,
            Kind::YcsbA | Kind::YcsbB | Kind::YcsbC | Kind::YcsbD | Kind::YcsbF => 0.7,
            Kind::YcsbB64 | Kind::YcsbD64 => 0.9,
            Kind::YcsbE => 0.2,
            Kind::Gups | Kind::GupsFromOne => unreachable!("its words are plain"),
            Kind::Tpcc | Kind::TpccMix | Kind::Silo => unreachable!("tested elsewhere"),
            Kind::SqlSeqSelect | Kind::SqlRandomSelect => unreachable!("as Masstree"),
            Kind::SqlSeqInsert | Kind::SqlRandomInsert | Kind::SqlUpdate => {
                unreachable!("as Masstree")
            }
        };
        assert!(share > expected, "{name}: {noticed} of {}", words.len());
    }
}

#[test]
fn swapped_zeroed_and_foreign_pages_are_noticed() {
    for (name, kind) in kinds_that_check() {
        if TPCC.contains(&kind) {
            continue;
        }
        let pages = (kind.min_bytes() / 4096 * 2) as usize;
        let program = program(name, pages as u64, Scatter::Pages);
        let fresh = plain(&program);
        let last = fresh.words.len() / 512 - 1;
        let damaged = |damage: &dyn Fn(&mut [u64])| {
            let mut memory = plain(&program);
            damage(&mut memory.words);
            jobs_until_wrong(&program, &mut memory).is_some()
        };
        assert!(damaged(&|words| words[..512].fill(0)), "{name}: zeros");
        assert!(damaged(&|words| words[last * 512..].fill(0)), "{name}: zeros at the end");
        assert!(
            damaged(&|words| {
                let (first, rest) = words.split_at_mut(512);
                first.swap_with_slice(&mut rest[(last - 1) * 512..]);
            }),
            "{name}: two pages exchanged"
        );
        let other = Shape { dataset_bytes: pages as u64 * 4096, seed: 2, ..Shape::default() };
        let foreign = page(&kind.build(&other).unwrap(), PageId(0));
        assert!(damaged(&|words| words[..512].copy_from_slice(&foreign)), "{name}: foreign");
    }
}

#[test]
fn jobs_run_on_datasets_of_every_size_up_to_256_gib() {
    for (name, kind) in Kind::ALL.map(|kind| (kind.name(), kind)) {
        for scatter in SCATTERS {
            for bits in [20, 26, 32, 35, 38] {
                for odd in [0, 12_345_678 % (1 << (bits - 1))] {
                    let dataset_bytes = (1u64 << bits) - odd;
                    let shape = Shape { dataset_bytes, scatter, ..Shape::default() };
                    let program = kind.build(&shape).unwrap();
                    let mut memory = sparse(&program);
                    let jobs = if GRAPHS.contains(&kind) { 2 } else { 50 };
                    for job in 0..jobs {
                        let done = program.run(job, &mut memory);
                        done.unwrap_or_else(|w| panic!("{name} of 2^{bits} - {odd}: {w}"));
                    }
                    let last = PageId(program.size_bytes() / 4096 - 1);
                    page(&program, last);
                }
            }
        }
    }
}

#[test]
fn hot_pages_are_few_with_pages_and_many_with_keys() {
    // Distinct pages that 2,000 jobs touch of a 4 GiB dataset.
    for (name, kind) in kinds_that_check() {
        if TPCC.contains(&kind) {
            continue;
        }
        if GRAPHS.contains(&kind) || TOUCH.contains(&kind) || SQL.contains(&kind) {
            continue;
        }
        let touched = |scatter| {
            let shape = Shape { dataset_bytes: 1 << 32, scatter, ..Shape::default() };
            let program = kind.build(&shape).unwrap();
            let mut memory = sparse(&program);
            (0..2000).for_each(|job| program.run(job, &mut memory).unwrap());
            memory.pages.len()
        };
        let (pages, keys) = (touched(Scatter::Pages), touched(Scatter::Keys));
        assert!(pages * 10 < keys * 9, "{name}: {pages} and {keys} pages");
    }
}

#[test]
#[should_panic(expected = "PageId")]
fn a_page_beyond_the_image_is_a_bug() {
    let program = program("tatp", 2, Scatter::Pages);
    page(&program, PageId(2));
}
