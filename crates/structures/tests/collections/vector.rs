//! The vector against a plain one, for every width of value, and interleaved.

use ebbtide_core::{Addr, Value};
use ebbtide_structures::{Region, RegionFull, Vector};
use proptest::prelude::*;

use crate::interleave;
use ebbtide_testbed::Plain;

/// A value whose words are all `number`, so that a torn one shows.
fn value<const N: usize>(number: u64) -> [u64; N] {
    [number; N]
}

fn agrees_with_vec<const N: usize>(len: u64, ops: &[(u64, u64, u8)])
where
    [u64; N]: Value,
{
    let bytes = Vector::<[u64; N]>::bytes(len);
    let mut memory = Plain::zeroed(4096 + bytes);
    let vector = Vector::<[u64; N]>::at(Addr(4096), len);
    let mut model = vec![value::<N>(0); len as usize];
    for &(index, number, op) in ops {
        let index = index % len;
        let expected = &mut model[index as usize];
        match op % 3 {
            0 => {
                *expected = value(number);
                vector.set(&mut memory, index, value(number));
            }
            1 => {
                *expected = expected.map(|word| word ^ number);
                let result = vector.update(&mut memory, index, |old| old.map(|word| word ^ number));
                assert_eq!(result, *expected);
            }
            _ => assert_eq!(vector.get(&mut memory, index), *expected),
        }
    }
    for (index, expected) in model.iter().enumerate() {
        assert_eq!(vector.get(&mut memory, index as u64), *expected);
    }
    assert!(memory.words[..512].iter().all(|&word| word == 0), "it keeps to its own pages");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn it_does_what_a_vec_does(
        len in 1u64..1300,
        ops in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u8>()), 0..300),
    ) {
        agrees_with_vec::<1>(len, &ops);
        agrees_with_vec::<2>(len, &ops);
        agrees_with_vec::<3>(len, &ops);
        agrees_with_vec::<5>(len, &ops);
        agrees_with_vec::<8>(len, &ops);
    }
}

#[test]
fn neighbours_share_no_byte() {
    // Every slot is written once; a shared byte would show in an earlier one.
    let ops: Vec<_> = (0..600).map(|i| (i, i + 1, 0)).collect();
    agrees_with_vec::<1>(600, &ops);
    agrees_with_vec::<3>(600, &ops);
    agrees_with_vec::<8>(600, &ops);
}

fn adds_up<const N: usize>(seed: u64)
where
    [u64; N]: Value,
{
    let mut memory = Plain::zeroed(Vector::<[u64; N]>::bytes(4));
    let vector = Vector::<[u64; N]>::at(Addr(0), 4);
    interleave(&mut memory, 3, seed, |thread, memory| {
        for step in 0..8 {
            let index = (thread as u64 + step) % 2;
            vector.update(memory, index, |old| old.map(|word| word + 1));
            let seen = vector.get(memory, 1 - index);
            assert!(seen.iter().all(|&word| word == seen[0]), "torn: {seen:?}");
            if thread == 2 {
                vector.set(memory, 3, value(step));
            }
        }
    });
    let sum: u64 = (0..2).map(|index| vector.get(&mut memory, index)[0]).sum();
    assert_eq!(sum, 3 * 8, "seed {seed}: an update was lost");
    assert_eq!(vector.get(&mut memory, 3), value(7));
}

#[test]
fn interleaved_updates_are_neither_lost_nor_torn() {
    for seed in 0..60 {
        adds_up::<1>(seed);
        adds_up::<4>(seed);
    }
}

#[test]
fn a_region_hands_out_pages_one_after_another_until_it_is_full() {
    let mut region = Region::new(Addr(8192), 5 * 4096);
    let bytes = Vector::<u64>::bytes(513);
    assert_eq!(bytes, 8192);
    region.vector::<u64>(513).unwrap();
    assert_eq!(region.take(1), Ok(Addr(16384)));
    let full = region.map::<u64, u64>(1000).unwrap_err();
    assert_eq!(full.left_bytes, 8192);
    assert!(region.take(u64::MAX).is_err());
    assert_eq!(region.take(8192), Ok(Addr(20480)));
    assert_eq!(region.take(1), Err(RegionFull { needed_bytes: 4096, left_bytes: 0 }));
    assert_eq!(region.take(0), Ok(Addr(28672)));
}

#[test]
#[should_panic(expected = "index 3 of a vector of 3 values")]
fn an_index_out_of_bounds_panics() {
    let mut memory = Plain::zeroed(4096);
    Vector::<u64>::at(Addr(0), 3).get(&mut memory, 3);
}
