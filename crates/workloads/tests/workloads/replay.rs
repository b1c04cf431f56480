//! Replays of traces: the lines, their order, and the result of writes.

use ebbtide_core::{Addr, Hint};
use ebbtide_testbed::{Raced, Shared, race};
use ebbtide_trace::Op;
use ebbtide_workloads::{Replay, Step, Workload};

use crate::common::{image, plain};

fn step(op: Op, line: u64) -> Step {
    Step::new(op, Addr(line * 64))
}

/// A hundred steps over four pages: reads, every third a write, every tenth a hint.
fn steps() -> Vec<Step> {
    let op = |number| match number {
        number if number % 10 == 9 => Op::Hint,
        number if number % 3 == 1 => Op::Write,
        _ => Op::Read,
    };
    (0..100).map(|number| step(op(number), number * 37 % 256)).collect()
}

#[test]
fn a_step_is_what_it_was_made_of() {
    for (op, line) in [(Op::Read, 0), (Op::Write, 77), (Op::Hint, (1 << 30) - 1)] {
        let made = step(op, line);
        assert_eq!((made.op(), made.at()), (op, Addr(line * 64)));
        assert_eq!(Step::from_bits(made.bits()), Some(made));
    }
    assert_eq!(Step::new(Op::Read, Addr(130)).at(), Addr(128));
    assert_eq!(Step::from_bits(3), None);
}

#[test]
fn jobs_make_the_steps_in_order_and_over_and_over() {
    for count in [1, 5, 64, 100] {
        let replay = Replay::new(steps()[..count].to_vec(), 1);
        let made: Vec<Step> = (0..50).flat_map(|job| replay.job(job)).collect();
        let expected: Vec<Step> = steps()[..count].iter().cycle().take(50 * 64).copied().collect();
        assert_eq!(made, expected, "{count} steps");
    }
}

#[test]
fn the_data_end_with_the_last_page_that_is_reached() {
    assert_eq!(Replay::new(vec![step(Op::Read, 64), step(Op::Read, 3)], 1).size_bytes(), 8192);
    assert_eq!(Replay::new(steps(), 1).size_bytes(), 4 * 4096);
}

#[test]
fn every_write_is_counted_in_its_line_and_nothing_else_changes() {
    let replay = Replay::new(steps(), 1);
    let before = image(&replay);
    let mut memory = plain(&replay);
    (0..50).for_each(|job| replay.run(job, &mut memory).unwrap());
    let mut writes = vec![0; before.len() / 8];
    let written = (0..50).flat_map(|job| replay.job(job)).filter(|step| step.op() == Op::Write);
    written.for_each(|step| writes[step.at().0 as usize / 64] += 1);
    assert!(replay.writes() && writes.iter().any(|&count| count > 0));
    for (line, (&count, (before, after))) in
        writes.iter().zip(before.chunks(8).zip(memory.words.chunks(8))).enumerate()
    {
        // Behind the latch.
        assert_eq!(after[1], before[1] + count, "line {line}");
        assert!(count > 0 || before[1..] == after[1..], "line {line}");
    }
}

#[test]
fn a_replay_without_a_write_changes_nothing() {
    let reads: Vec<Step> = steps().into_iter().filter(|step| step.op() == Op::Read).collect();
    let replay = Replay::new(reads, 1);
    let mut memory = plain(&replay);
    (0..50).for_each(|job| replay.run(job, &mut memory).unwrap());
    assert!(!replay.writes());
    assert_eq!(memory.words, image(&replay));
}

#[test]
fn a_damaged_line_is_noticed_when_it_is_read_and_before_it_is_written() {
    for op in [Op::Read, Op::Write] {
        let replay = Replay::new(vec![step(op, 5)], 1);
        let mut memory = plain(&replay);
        memory.words[5 * 8 + 3] ^= 1;
        let damaged = memory.words.clone();
        let error = replay.run(0, &mut memory).unwrap_err();
        assert!(error.to_string().contains("does not match its checksum"), "{error}");
        // Behind the latch.
        assert_eq!(memory.words[41..48], damaged[41..48], "{op:?}");
    }
}

#[test]
fn threads_that_replay_the_same_writes_lose_none() {
    let replay = Replay::new(vec![step(Op::Write, 0), step(Op::Write, 1)], 1);
    let words = Shared::new(&image(&replay));
    race(&words, |_, memory: &mut Raced<'_>| {
        (0..50).for_each(|job| replay.run(job, memory).unwrap());
    });
    let words = words.into_plain().words;
    assert!(words[1] > 50 * 32 && words[1].is_multiple_of(50 * 32), "{} writes", words[1]);
    assert_eq!(words[1], words[9]);
}

#[test]
fn hints_are_passed_on_and_touch_nothing() {
    let replay = Replay::new(vec![step(Op::Hint, 130)], 1);
    let mut memory = plain(&replay);
    replay.run(0, &mut memory).unwrap();
    assert_eq!(memory.hints, [Hint::WillNeed(Addr(130 * 64)); 64]);
    assert_eq!(memory.accesses, 0);
}
