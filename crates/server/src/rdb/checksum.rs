//! The checksum of database files and dumps.

/// The CRC-64 of Redis: Jones's polynomial, reflected, without an initial or a final inversion.
/// `before` is the CRC of the preceding bytes.
pub(crate) fn crc64(before: u64, bytes: &[u8]) -> u64 {
    const POLYNOMIAL: u64 = 0xad93_d235_94c9_35a9_u64.reverse_bits();
    const TABLE: [u64; 256] = {
        let mut table = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            let (mut crc, mut bit) = (byte as u64, 0);
            while bit < 8 {
                crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
                bit += 1;
            }
            table[byte] = crc;
            byte += 1;
        }
        table
    };
    bytes.iter().fold(before, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_redis() {
        assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }
}
