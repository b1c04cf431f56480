//! The programs that only touch lines: the lines, their order, and the result of writes.

use ebbtide_core::Addr;
use ebbtide_testbed::{Raced, Shared, race};
use ebbtide_workloads::{
    AccessedLine, Program, RandomRead, RandomWrite, Scatter, SeqRead, Workload,
};

use crate::common::{image, plain, program};

fn seq_read(pages: u64) -> SeqRead {
    match program("seq-read", pages, Scatter::Pages) {
        Program::SeqRead(touch) => touch,
        _ => unreachable!(),
    }
}

fn random_read(pages: u64) -> RandomRead {
    match program("random-read", pages, Scatter::Pages) {
        Program::RandomRead(touch) => touch,
        _ => unreachable!(),
    }
}

fn random_write(pages: u64) -> RandomWrite {
    match program("random-write", pages, Scatter::Pages) {
        Program::RandomWrite(touch) => touch,
        _ => unreachable!(),
    }
}

#[test]
fn in_order_every_page_is_touched_before_any_is_touched_again() {
    let touch = seq_read(100);
    let lines: Vec<Addr> = (0..200).flat_map(|job| touch.job(job)).collect();
    for (round, lines) in (0..).zip(lines.chunks(100)) {
        let expected: Vec<Addr> =
            (0..lines.len() as u64).map(|page| Addr(page * 4096 + round % 64 * 64)).collect();
        assert_eq!(lines, expected);
    }
}

#[test]
fn at_random_every_line_is_touched_about_as_often() {
    let touch = random_read(2);
    let mut touched = [0u32; 128];
    for at in (0..2_000).flat_map(|job| touch.job(job)) {
        touched[at.0 as usize / 64] += 1;
    }
    // 1,000 each on average, with a standard deviation of 32.
    assert!(touched.iter().all(|&count| count.abs_diff(1_000) < 160), "{touched:?}");
}

#[test]
fn writing_counts_and_leaves_other_lines_alone() {
    let touch = random_write(3);
    let mut memory = plain(&touch);
    let mut writes = vec![0u64; 3 * 64];
    for at in (0..20).flat_map(|job| touch.job(job)) {
        writes[at.0 as usize / 64] += 1;
    }
    (0..20).for_each(|job| touch.run(job, &mut memory).unwrap());
    for (line, &writes) in (0..).zip(&writes) {
        let at = Addr(line * 64);
        assert_eq!(touch.read(&mut memory, at).unwrap(), AccessedLine::new(at, writes));
    }
}

#[test]
fn threads_that_write_the_same_lines_lose_no_write() {
    let touch = random_write(1);
    let words = Shared::new(&image(&touch));
    race(&words, |_, memory: &mut Raced<'_>| {
        (0..50).for_each(|job| touch.run(job, memory).unwrap());
    });
    let mut memory = words.into_plain();
    let written: u64 =
        (0..64).map(|line| touch.read(&mut memory, Addr(line * 64)).unwrap().writes).sum();
    assert_eq!(written % (50 * 64), 0, "each thread writes as often");
    assert!(written > 50 * 64, "{written} writes by several threads");
}
