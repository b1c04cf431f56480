//! Records: the client's 10 fields of 100 bytes, and FlatFlash's pairs of 64 bytes.
//!
//! Every byte of a record follows from its key and its version, the number of updates it has seen.
//! So a record is its own check: whoever reads the version knows all the rest, and a torn, rotten
//! or misplaced line does not fit.

use ebbtide_core::{Addr, LINE_BYTES, Memory};

use super::key::Key;
use crate::Wrong;
use crate::line::Line;
use crate::permutation::mix;

/// Where in its first line a record has its item number and its version, in words.
const ITEM: usize = 3;
const VERSION: usize = 4;

/// How a record lies in memory: a number of whole lines, of which the first tells the item and the
/// version.
pub trait Record: Send + Sync {
    /// The lines of one record.
    type Lines: AsRef<[Line]>;

    /// Lines of a record.
    const LINES: u64;
    /// Records of a [`Table`](super::Table)'s group.
    const PER_GROUP: u64;
    /// Lines of a group: a line that tells which records it has, and the records. A power of two,
    /// at most a page.
    const GROUP_LINES: u64;

    /// All of the record of `key` after `version` updates, in the dataset that has this `salt`.
    fn lines(salt: u64, key: &Key, version: u64) -> Self::Lines;
}

/// Reads the record at `at` if it is that of `key`, whole: its version.
#[inline]
pub(super) fn read<R: Record, M: Memory>(
    memory: &mut M,
    at: Addr,
    salt: u64,
    key: &Key,
) -> Option<u64> {
    let first = memory.line(at);
    let (_, version) = told(&first);
    let lines = R::lines(salt, key, version);
    let (head, rest) = lines.as_ref().split_first()?;
    let whole = first == *head && (1..).zip(rest).all(|(i, line)| memory.line(nth(at, i)) == *line);
    whole.then_some(version)
}

/// Gives the record of `key` at `at` its next version, which it returns. Checks what it replaces.
/// Not atomic: the caller holds a latch.
pub(super) fn update<R: Record, M: Memory>(
    memory: &mut M,
    at: Addr,
    salt: u64,
    key: &Key,
) -> Result<u64, Wrong> {
    let (_, version) = told(&memory.line(at));
    let (old, new) = (R::lines(salt, key, version), R::lines(salt, key, version.wrapping_add(1)));
    let changes =
        (0..).zip(old.as_ref().iter().zip(new.as_ref())).filter(|(_, (old, new))| old != new);
    for (i, (old, _)) in changes.clone() {
        if memory.line(nth(at, i)) != *old {
            return Err(broken(nth(at, i)));
        }
    }
    changes.for_each(|(i, (_, new))| memory.store(nth(at, i), *new));
    Ok(version.wrapping_add(1))
}

/// Stores the record of `key`, never updated, at `at`. Not atomic either.
pub(super) fn store<R: Record, M: Memory>(memory: &mut M, at: Addr, salt: u64, key: &Key) {
    for (i, line) in (0..).zip(R::lines(salt, key, 0).as_ref()) {
        memory.store(nth(at, i), *line);
    }
}

/// The item and the version that the first line of a record tells.
#[inline]
pub(super) fn told(line: &Line) -> (u64, u64) {
    (line[ITEM], line[VERSION])
}

/// The first line of any record.
#[inline]
pub(super) fn first_line(salt: u64, key: &Key, version: u64) -> Line {
    let first = mix(salt ^ key.number ^ version.rotate_left(32));
    let [a, b, c] = key.name;
    let value = [first, first.rotate_left(21) ^ salt, first.rotate_left(42) ^ key.item];
    [a, b, c, key.item, version, value[0], value[1], value[2]]
}

/// Line `i` of the record at `at`.
#[inline]
fn nth(at: Addr, i: u64) -> Addr {
    at + i * LINE_BYTES as u64
}

#[cold]
pub(super) fn broken(at: Addr) -> Wrong {
    Wrong(format!("the record at {at:?} is not what its key and version make of it"))
}

/// A key and its value in 64 bytes: 24 bytes of name and 40 of value, of which 16 are the item
/// number and the version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair;

impl Record for Pair {
    type Lines = [Line; 1];

    const LINES: u64 = 1;
    const PER_GROUP: u64 = 7;
    const GROUP_LINES: u64 = 8;

    #[inline]
    fn lines(salt: u64, key: &Key, version: u64) -> [Line; 1] {
        [first_line(salt, key, version)]
    }
}

const FIELDS: u64 = 10;
const FIELD_BYTES: usize = 100;
const FIELD_WORDS: usize = FIELD_BYTES / 4;
const FIELD_LINES: usize = (FIELDS as usize * FIELD_BYTES).div_ceil(LINE_BYTES);

/// A key and the client's 10 fields of 100 bytes: a line as [`Pair`]'s, then the fields, packed.
///
/// An update writes one field. The client draws which; here a record's fields take turns, from one
/// that depends on the key, so that the version tells which update wrote each of them last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stock;

impl Stock {
    /// Which of `version` updates, counted from 1, wrote `field` last. If none did, a number from
    /// -9 to 0 (wrapped) that is as good.
    #[inline]
    fn last_write(key: &Key, version: u64, field: u64) -> u64 {
        let turns_ago = (version + key.number % FIELDS + FIELDS - field) % FIELDS;
        version.wrapping_sub(turns_ago)
    }
}

impl Record for Stock {
    type Lines = [Line; 1 + FIELD_LINES];

    const LINES: u64 = 1 + FIELD_LINES as u64;
    const PER_GROUP: u64 = 3;
    const GROUP_LINES: u64 = 64;

    #[inline]
    fn lines(salt: u64, key: &Key, version: u64) -> [Line; 1 + FIELD_LINES] {
        let mut lines = [[0; LINE_BYTES / 8]; 1 + FIELD_LINES];
        lines[0] = first_line(salt, key, version);
        let halves: &mut [u32] = bytemuck::cast_slice_mut(&mut lines[1..]);
        for (field, words) in (0..FIELDS).zip(halves.as_chunks_mut::<FIELD_WORDS>().0) {
            let written = Stock::last_write(key, version, field);
            let random = mix(salt ^ key.number.rotate_left(field as u32 + 1) ^ mix(written));
            let (first, step) = (random as u32, (random >> 32) as u32);
            for (word, i) in words.iter_mut().zip(0..) {
                *word = step.wrapping_mul(i).wrapping_add(first);
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The bytes of a stock record's fields.
    fn fields(key: &Key, version: u64) -> Vec<u8> {
        let bytes: Vec<u8> = bytemuck::cast_slice(&Stock::lines(1, key, version)[1..]).to_vec();
        assert!(bytes[1000..].iter().all(|&byte| byte == 0));
        bytes[..1000].to_vec()
    }

    proptest! {
        #[test]
        fn an_update_writes_one_field_and_ten_write_them_all(item: u64, version in 0u64..1 << 60) {
            let key = Key::hashed(item);
            let mut written = Vec::new();
            for version in version..version + 10 {
                let (old, new) = (fields(&key, version), fields(&key, version + 1));
                let changed: Vec<usize> =
                    (0..10).filter(|f| old[f * 100..][..100] != new[f * 100..][..100]).collect();
                prop_assert_eq!(changed.len(), 1);
                written.extend(changed);
            }
            written.sort_unstable();
            prop_assert!(written.into_iter().eq(0..10));
        }

        #[test]
        fn no_line_of_a_record_fits_another_key_or_dataset(
            item: u64, other: u64, version in 0u64..1 << 60,
        ) {
            prop_assume!(item != other);
            let (key, other) = (Key::hashed(item), Key::hashed(other));
            let lines = Stock::lines(1, &key, version);
            for foreign in [Stock::lines(1, &other, version), Stock::lines(2, &key, version)] {
                prop_assert!(lines.iter().zip(&foreign).all(|(one, other)| one != other));
            }
            let [pair] = Pair::lines(1, &key, version);
            prop_assert!(pair != Pair::lines(1, &key, version + 1)[0]);
            prop_assert_eq!(told(&pair), (item, version));
        }
    }
}
