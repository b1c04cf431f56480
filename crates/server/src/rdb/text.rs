//! Strings and lengths. Strings are plain, integers, or packed with LZF.

/// The first byte of an encoded string: an integer of 1, 2 or 4 bytes, or LZF.
pub(crate) const INTEGER_1: u8 = 0xc0;
pub(crate) const INTEGER_2: u8 = 0xc1;
pub(crate) const INTEGER_4: u8 = 0xc2;
pub(crate) const COMPRESSED: u8 = 0xc3;

/// Removes an encoded string from the front of `rest`.
pub(crate) fn take_text(rest: &mut &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    let (&first, text) = rest.split_first()?;
    let bytes = match first {
        INTEGER_1 => 1,
        INTEGER_2 => 2,
        INTEGER_4 => 4,
        COMPRESSED => {
            let (packed, text) = read_length(text)?;
            let (length, text) = read_length(text)?;
            let (packed, later) = text.split_at_checked(packed)?;
            *rest = later;
            return if length <= bytes_max { unpacked(packed, length) } else { None };
        }
        _ => {
            let (length, text) = read_length(rest)?;
            let (text, later) = text.split_at_checked(length)?;
            *rest = later;
            return Some(text.to_vec());
        }
    };
    let (number, later) = text.split_at_checked(bytes)?;
    *rest = later;
    let number = match *number {
        [one] => i64::from(one as i8),
        [one, two] => i64::from(i16::from_le_bytes([one, two])),
        _ => i64::from(i32::from_le_bytes(number.try_into().ok()?)),
    };
    Some(number.to_string().into_bytes())
}

/// Appends a length: 6 or 14 bits after a tag of 2 bits, 4 bytes after 0x80, or 8 after 0x81.
pub(crate) fn write_length(bytes: &mut Vec<u8>, length: usize) {
    match length {
        0..0x40 => bytes.push(length as u8),
        0x40..0x4000 => bytes.extend((length as u16 | 0x4000).to_be_bytes()),
        0x4000..=0xffff_ffff => {
            bytes.push(0x80);
            bytes.extend((length as u32).to_be_bytes());
        }
        _ => {
            bytes.push(0x81);
            bytes.extend((length as u64).to_be_bytes());
        }
    }
}

/// Appends a string as it is.
pub(crate) fn write_text(bytes: &mut Vec<u8>, text: &[u8]) {
    write_length(bytes, text.len());
    bytes.extend_from_slice(text);
}

/// Parses a length. Returns the bytes after it too.
pub(crate) fn read_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [first @ 0..=0x3f, rest @ ..] => Some((usize::from(*first), rest)),
        [first @ 0x40..=0x7f, second, rest @ ..] => {
            Some((usize::from(u16::from_be_bytes([*first & 0x3f, *second])), rest))
        }
        [0x80, a, b, c, d, rest @ ..] => {
            Some((u32::from_be_bytes([*a, *b, *c, *d]) as usize, rest))
        }
        [0x81, rest @ ..] => {
            let (length, rest) = rest.split_first_chunk::<8>()?;
            Some((usize::try_from(u64::from_be_bytes(*length)).ok()?, rest))
        }
        _ => None,
    }
}

/// Unpacks LZF into `length` bytes: runs of literal bytes, and copies of earlier bytes.
fn unpacked(mut packed: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut bytes: Vec<u8> = Vec::new();
    while let Some((&control, rest)) = packed.split_first() {
        packed = rest;
        if control < 0x20 {
            let (run, rest) = packed.split_at_checked(usize::from(control) + 1)?;
            bytes.extend(run);
            packed = rest;
        } else {
            let mut count = usize::from(control >> 5) + 2;
            if count == 9 {
                let (&more, rest) = packed.split_first()?;
                count += usize::from(more);
                packed = rest;
            }
            let (&low, rest) = packed.split_first()?;
            packed = rest;
            let back = (usize::from(control & 0x1f) << 8 | usize::from(low)) + 1;
            let start = bytes.len().checked_sub(back)?;
            // A copy may overlap itself.
            (start..start + count).for_each(|at| bytes.push(bytes[at]));
        }
        if bytes.len() > length {
            return None;
        }
    }
    (bytes.len() == length).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_text_is_unpacked_to_its_length_only() {
        // "ab", then a copy of 10 bytes from 2 back.
        let packed = [1, b'a', b'b', 0xe0, 1, 1];
        assert_eq!(unpacked(&packed, 12).as_deref(), Some(&b"abababababab"[..]));
        assert_eq!(unpacked(&packed, 11), None);
        assert_eq!(unpacked(&packed[..5], 12), None, "cut short");
        assert_eq!(unpacked(&[0x20, 0], 3), None, "a copy from before the start");
    }
}
