//! Records of the [index of due leaves](super::due), as bytes.

use smallvec::SmallVec;

use crate::hash;

/// Bits of a place that spread the records of one second.
const SPREAD_BITS: u32 = 16;

/// The second of a record, and the hash at which its leaf begins.
pub(super) type Record = (u32, u64);

/// The records that leaves had before they changed. A second of 0 means that there was none.
pub(super) type Named = SmallVec<[Record; 3]>;

/// Bytes of a record: its second and six bytes of its hash, big-endian.
const RECORD_BYTES: usize = 10;

pub(super) fn record_bytes((second, low): Record) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    bytes[..4].copy_from_slice(&second.to_be_bytes());
    bytes[4..].copy_from_slice(&low.to_be_bytes()[2..]);
    bytes
}

/// Returns the record of these bytes; zeros if they are not a record.
pub(super) fn record_in(bytes: &[u8]) -> Record {
    let Ok(bytes) = <[u8; RECORD_BYTES]>::try_from(bytes) else { return (0, 0) };
    let [a, b, c, d, hash @ ..] = bytes;
    let low = hash.iter().fold(0, |low, byte| low << 8 | u64::from(*byte));
    (u32::from_be_bytes([a, b, c, d]), low)
}

/// The place of a record in the tree.
pub(super) fn place(bytes: &[u8]) -> u64 {
    let (second, low) = record_in(bytes);
    u64::from(second) << SPREAD_BITS | hash::mix(low) >> (u64::BITS - SPREAD_BITS)
}
