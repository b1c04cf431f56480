//! Numbers of variable length: seven bits a byte, the lowest first.

use smallvec::SmallVec;

/// Returns the bytes of a number.
pub(super) fn number_bytes(mut number: u64) -> SmallVec<[u8; 10]> {
    let mut bytes = SmallVec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Removes a number from the front of `bytes`. `None` if it does not end within them.
pub(super) fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let byte = bytes.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
