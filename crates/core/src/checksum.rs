//! CRC32C (Castagnoli, as in RFC 3720), the checksum of all that is stored: pages, the log,
//! headers, traces.

use crc_fast::{CrcAlgorithm, Digest};

/// The CRC32C of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// Returns the CRC32C of two byte strings in a row. `before` is the CRC32C of the first, `bytes`
/// the second.
pub fn crc32c_append(before: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!before));
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn it_is_that_of_the_standard() {
        // RFC 3720, B.4: 32 bytes of zeros and of ones; and the usual check value.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
    }

    proptest! {
        /// Against the definition, a bit at a time.
        #[test]
        fn pieces_give_what_the_whole_gives(
            bytes in prop::collection::vec(any::<u8>(), 0..5000),
            at in any::<prop::sample::Index>(),
        ) {
            let mut register = u32::MAX;
            for byte in &bytes {
                register ^= u32::from(*byte);
                for _ in 0..8 {
                    register = register >> 1 ^ if register & 1 == 1 { 0x82f6_3b78 } else { 0 };
                }
            }
            let (start, end) = bytes.split_at(at.index(bytes.len() + 1));
            prop_assert_eq!(crc32c(&bytes), !register);
            prop_assert_eq!(crc32c_append(crc32c(start), end), !register);
        }
    }
}
