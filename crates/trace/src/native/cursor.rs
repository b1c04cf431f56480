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

/// A place in bytes that are read from front to back.
#[derive(Clone, Copy, Default)]
pub(super) struct Cursor {
    pub(super) at: usize,
    pub(super) end: usize,
}

impl Cursor {
    /// The next byte.
    #[inline]
    pub(super) fn byte(&mut self, bytes: &[u8]) -> Option<u8> {
        let byte = *bytes[..self.end].get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// The next number.
    #[inline]
    pub(super) fn varint(&mut self, bytes: &[u8]) -> Option<u64> {
        let first = self.byte(bytes)?;
        if first < 0x80 { Some(u64::from(first)) } else { self.rest(bytes, first) }
    }

    fn rest(&mut self, bytes: &[u8], first: u8) -> Option<u64> {
        let mut value = u64::from(first & 0x7f);
        for shift in (7..=63).step_by(7) {
            let byte = self.byte(bytes)?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                // The tenth byte has room for one bit.
                return (shift < 63 || byte <= 1).then_some(value);
            }
        }
        None
    }

    /// Whether everything was read.
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
            for value in values {
                prop_assert_eq!(cursor.varint(&bytes), Some(value));
                prop_assert_eq!(zigzag(unzigzag(value)), value);
            }
            prop_assert!(cursor.is_at_end());
            prop_assert_eq!(cursor.varint(&bytes), None);
        }
    }

    #[test]
    fn numbers_that_are_too_long_are_refused() {
        for bytes in [
            &[0xff; 11][..],
            &[0x80; 10],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        ] {
            assert_eq!(Cursor { at: 0, end: bytes.len() }.varint(bytes), None);
        }
    }
}
