//! Numbers of variable length: seven bits a byte, the lowest first, the top bit set on all but the
//! last (LEB128).

/// The longest number, in bytes.
pub(super) const VARINT_BYTES_MAX: usize = 10;

/// Appends `value`.
#[inline]
pub(super) fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// A signed number as an unsigned one, small if it is close to zero.
#[inline]
pub(super) fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// The reverse of [`zigzag`].
#[inline]
pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Bytes that must follow the last number, so that every number can be read as a whole word.
pub(super) const PADDING_BYTES: usize = 16;

/// A position in bytes that are read from front to back. Reads do not stop at the end: the caller
/// checks at last that they ended [there](Cursor::is_at_end).
#[derive(Clone, Copy, Default)]
pub(super) struct Cursor {
    pub(super) at: usize,
    pub(super) end: usize,
}

impl Cursor {
    /// The next number, in bytes with [`PADDING_BYTES`] behind them.
    #[inline]
    pub(super) fn varint(&mut self, bytes: &[u8]) -> Option<u64> {
        let word = u64::from_le_bytes(*bytes.get(self.at..)?.first_chunk::<8>()?);
        if word & 0x80 == 0 {
            self.at += 1;
            return Some(word & 0x7f);
        }
        let stops = !word & 0x8080_8080_8080_8080;
        if stops == 0 {
            return self.long(bytes);
        }
        // Everything up to the byte that stops, then sevens of bits moved together: pairs of bytes,
        // pairs of pairs, both halves. No branch depends on the length.
        let sevens = word & (stops ^ stops.wrapping_sub(1)) & 0x7f7f_7f7f_7f7f_7f7f;
        let pairs = (sevens >> 1 & 0x3f80_3f80_3f80_3f80) | (sevens & 0x007f_007f_007f_007f);
        let fours = (pairs >> 2 & 0x0fff_c000_0fff_c000) | (pairs & 0x0000_3fff_0000_3fff);
        self.at += stops.trailing_zeros() as usize / 8 + 1;
        Some((fours >> 4 & 0x00ff_ffff_f000_0000) | (fours & 0x0fff_ffff))
    }

    /// A number of nine or ten bytes.
    #[cold]
    fn long(&mut self, bytes: &[u8]) -> Option<u64> {
        let mut value = 0;
        for (length, &byte) in (1..).zip(bytes.get(self.at..)?.iter().take(VARINT_BYTES_MAX)) {
            value |= u64::from(byte & 0x7f) << (7 * (length - 1));
            if byte < 0x80 {
                self.at += length;
                // The tenth byte has room for one bit.
                return (length < VARINT_BYTES_MAX || byte <= 1).then_some(value);
            }
        }
        None
    }

    /// Whether the position is exactly the end.
    pub(super) fn is_at_end(self) -> bool {
        self.at == self.end
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(values in prop::collection::vec(
            (any::<u64>(), 0..64_u32).prop_map(|(value, shift)| value >> shift), 0..50,
        )) {
            let mut bytes = Vec::new();
            values.iter().for_each(|&value| put(&mut bytes, value));
            let mut cursor = Cursor { at: 0, end: bytes.len() };
            bytes.extend([0xff; PADDING_BYTES]);
            for value in values {
                prop_assert_eq!(cursor.varint(&bytes), Some(value));
                prop_assert_eq!(zigzag(unzigzag(value)), value);
            }
            prop_assert!(cursor.is_at_end());
        }
    }

    #[test]
    fn numbers_that_are_too_long_are_refused() {
        let too_great = [&[0xff; 9][..], &[2], &[0; PADDING_BYTES]].concat();
        for bytes in [&[0xff; 26][..], &[0x80; 26], &too_great, &[0; 7], &[]] {
            assert_eq!(Cursor::default().varint(bytes), None, "{bytes:?}");
        }
    }
}
