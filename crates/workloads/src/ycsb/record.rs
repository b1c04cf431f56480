//! Records: the client's 10 fields of 100 bytes, and FlatFlash's pairs of 64 bytes.
//!
//! Every byte of a record follows from its key and its version, the number of its updates. So a
//! record checks itself: its version determines all other bytes, and a torn, damaged or misplaced
//! line does not match. The first word of every line of a record is even. If a record lies where a
//! latch should be, the latch looks free, and no job waits for it for ever.

use ebbtide_core::{Addr, FullMemory, LINE_BYTES};

use super::key::Key;
use crate::Corrupt;
use ebbtide_structures::hash::mix;
use ebbtide_structures::image::Line;

/// The words of a record's first line that hold twice its version, its name and its item number.
const TWICE_VERSION: usize = 0;
const NAME: usize = 1;
const ITEM: usize = 4;

/// An odd number with well spread multiples: 2⁶⁴ divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The layout of a record in whole lines. The first line has the item and the version.
pub trait Record: Send + Sync {
    /// The lines of one record.
    type Lines: AsRef<[Line]> + AsMut<[Line]> + Default;

    /// Number of lines of a record.
    const LINES: u64;
    /// Records in a bucket of a [`Table`](super::Table), at most 9.
    const PER_BUCKET: usize;
    /// Buckets in a page, at most 7.
    const BUCKETS: u64;

    /// Returns the lines of the record of `key` after `version` updates. `salt` identifies the
    /// dataset in checksums.
    fn lines(salt: u64, key: &Key, version: u64) -> Self::Lines;
}

/// Returns the version of the record at `at`, if its first line belongs to `key`.
#[inline]
pub(super) fn version<M: FullMemory>(
    memory: &mut M,
    at: Addr,
    salt: u64,
    key: &Key,
) -> Option<u64> {
    let line = memory.line(at);
    let (_, version) = told(&line);
    (difference(&line, &first_line(salt, key, version)) == 0).then_some(version)
}

/// Copies the record at `at` into `lines`, if it has the name of `key`. Returns whether it did. The
/// caller checks a latch.
#[inline]
pub(super) fn copy<R: Record, M: FullMemory>(
    memory: &mut M,
    at: Addr,
    key: &Key,
    lines: &mut R::Lines,
) -> bool {
    let first = memory.line(at);
    let [a, b, c] = key.name;
    // One branch for all words.
    if (first[NAME] ^ a) | (first[NAME + 1] ^ b) | (first[NAME + 2] ^ c) != 0 {
        return false;
    }
    let Some((head, rest)) = lines.as_mut().split_first_mut() else { return false };
    *head = first;
    (1..).zip(rest).for_each(|(i, line)| *line = memory.line(nth(at, i)));
    true
}

/// Returns whether the lines after the first of `key`'s record at `at` belong to `version`.
#[inline]
pub(super) fn rest_is_whole<R: Record, M: FullMemory>(
    memory: &mut M,
    at: Addr,
    salt: u64,
    key: &Key,
    version: u64,
) -> bool {
    let lines = R::lines(salt, key, version);
    let lines = (0..).zip(lines.as_ref()).skip(1);
    // One branch for all lines.
    lines.fold(0, |bits, (i, line)| bits | difference(&memory.line(nth(at, i)), line)) == 0
}

/// Returns the differing bits of the words of two lines, combined by OR.
#[inline(always)]
fn difference(one: &Line, other: &Line) -> u64 {
    one.iter().zip(other).fold(0, |bits, (one, other)| bits | (one ^ other))
}

/// Writes the next version after `version` of the record of `key` at `at`, and returns it. Checks
/// the replaced lines. The caller holds a latch.
pub(super) fn update<R: Record, M: FullMemory>(
    memory: &mut M,
    at: Addr,
    salt: u64,
    key: &Key,
    version: u64,
) -> Result<u64, Corrupt> {
    let (old, new) = (R::lines(salt, key, version), R::lines(salt, key, version.wrapping_add(1)));
    let changes =
        (0..).zip(old.as_ref().iter().zip(new.as_ref())).filter(|(_, (old, new))| old != new);
    for (i, (old, _)) in changes.clone() {
        if memory.line(nth(at, i)) != *old {
            return Err(not_as_expected(nth(at, i)));
        }
    }
    changes.for_each(|(i, (_, new))| memory.store(nth(at, i), *new));
    Ok(version.wrapping_add(1))
}

/// Writes version 0 of the record of `key` at `at`. The caller holds a latch.
pub(super) fn store<R: Record, M: FullMemory>(memory: &mut M, at: Addr, salt: u64, key: &Key) {
    for (i, line) in (0..).zip(R::lines(salt, key, 0).as_ref()) {
        memory.store(nth(at, i), *line);
    }
}

/// The item and the version in the first line of a record.
#[inline]
pub(super) fn told(line: &Line) -> (u64, u64) {
    (line[ITEM], line[TWICE_VERSION] / 2)
}

/// The first line of any record.
#[inline]
pub(super) fn first_line(salt: u64, key: &Key, version: u64) -> Line {
    let product = (salt ^ key.number ^ version.rotate_left(32)).wrapping_mul(SPREAD);
    let first = product ^ (product >> 32);
    let [a, b, c] = key.name;
    let value = [first, first.rotate_left(21) ^ salt, first.rotate_left(42) ^ key.item];
    [version << 1, a, b, c, key.item, value[0], value[1], value[2]]
}

/// Line `i` of the record at `at`.
#[inline]
fn nth(at: Addr, i: u64) -> Addr {
    at + i * LINE_BYTES as u64
}

#[cold]
pub(super) fn not_as_expected(at: Addr) -> Corrupt {
    Corrupt(format!("the record at {at:?} is not what its key and version make of it"))
}

/// A key and its value in 64 bytes: 24 bytes of name and 40 of value. The item number and the
/// version take 16 bytes of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair;

impl Record for Pair {
    type Lines = [Line; 1];

    const LINES: u64 = 1;
    const PER_BUCKET: usize = 9;
    const BUCKETS: u64 = 7;

    #[inline]
    fn lines(salt: u64, key: &Key, version: u64) -> [Line; 1] {
        [first_line(salt, key, version)]
    }
}

const FIELDS: u64 = 10;
const FIELD_BYTES: usize = 100;
const FIELD_LINES: usize = (FIELDS as usize * FIELD_BYTES).div_ceil(LINE_BYTES);

/// Two fields in words: each has twelve and a half.
const TWO_FIELDS_WORDS: usize = 2 * FIELD_BYTES / 8;

/// A key and the client's 10 fields of 100 bytes: a line as [`Pair`]'s, then the fields, packed.
///
/// An update writes one field. The client draws the field. Here a record's fields take turns,
/// beginning with one that depends on the key. So the version determines which update wrote each of
/// them last. A field repeats eight bytes that follow from the key and that update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stock;

impl Stock {
    /// The last of `version` updates, counted from 1, that wrote `field`, where the latest update
    /// wrote the field `latest`. If no update did, a number from -9 to 0 (wrapped), which serves as
    /// well.
    #[inline]
    fn last_write(latest: u64, version: u64, field: u64) -> u64 {
        let turns_ago = if latest >= field { latest - field } else { latest + FIELDS - field };
        version.wrapping_sub(turns_ago)
    }
}

impl Record for Stock {
    type Lines = [Line; 1 + FIELD_LINES];

    const LINES: u64 = 1 + FIELD_LINES as u64;
    const PER_BUCKET: usize = 3;
    const BUCKETS: u64 = 1;

    #[inline]
    fn lines(salt: u64, key: &Key, version: u64) -> [Line; 1 + FIELD_LINES] {
        let mut lines = [[0; LINE_BYTES / 8]; 1 + FIELD_LINES];
        lines[0] = first_line(salt, key, version);
        let secret = mix(salt ^ key.number);
        let latest = (version % FIELDS + key.number % FIELDS) % FIELDS;
        let eight_bytes = |field| {
            let product = (secret ^ Stock::last_write(latest, version, field)).wrapping_mul(SPREAD);
            (product ^ (product >> 32)) & !1
        };
        let words: &mut [u64] = bytemuck::cast_slice_mut(&mut lines[1..]);
        for (two, words) in (0..).zip(words.as_chunks_mut::<TWO_FIELDS_WORDS>().0) {
            let [even, odd] = [eight_bytes(2 * two), eight_bytes(2 * two + 1)];
            words[..TWO_FIELDS_WORDS / 2].fill(even);
            // The word in the middle has half of each field.
            words[TWO_FIELDS_WORDS / 2] = even << 32 >> 32 | odd >> 32 << 32;
            words[TWO_FIELDS_WORDS / 2 + 1..].fill(odd);
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
        fn no_line_looks_like_a_latch_that_is_held(item: u64, version in 0u64..1 << 60) {
            let lines = Stock::lines(1, &Key::hashed(item), version);
            prop_assert!(lines.iter().all(|line| line[0].is_multiple_of(2)));
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
