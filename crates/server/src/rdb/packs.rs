//! Packed values: the texts of sets of integers, listpacks, ziplists and zipmaps.

/// Bytes of the header of a listpack, and of a ziplist.
const PACK_HEADER_BYTES: usize = 6;
const ZIPLIST_HEADER_BYTES: usize = 10;

/// The byte that ends a pack.
const END: u8 = 0xff;

/// First byte of a length of four bytes, in a ziplist and in a zipmap.
const LONG: u8 = 0xfe;

/// The members of a set of integers: the bytes of each, their number, and the integers.
pub(super) fn integers(set: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (bytes, rest) = set.split_first_chunk::<4>()?;
    let (count, rest) = rest.split_first_chunk::<4>()?;
    let (bytes, count) = (u32::from_le_bytes(*bytes) as usize, u32::from_le_bytes(*count) as usize);
    if ![2, 4, 8].contains(&bytes) || rest.len() != bytes.checked_mul(count)? {
        return None;
    }
    Some(rest.chunks(bytes).map(|integer| digits(signed(integer))).collect())
}

/// A signed little-endian integer of up to 8 bytes.
fn signed(bytes: &[u8]) -> i64 {
    let bits = 8 * bytes.len() as u32;
    let wide = bytes.iter().rev().fold(0u64, |wide, byte| wide << 8 | u64::from(*byte));
    (wide << (64 - bits)) as i64 >> (64 - bits)
}

fn digits(number: i64) -> Vec<u8> {
    number.to_string().into_bytes()
}

/// Bytes of the length that follows an entry of a listpack of this many bytes, seven bits a byte.
fn bytes_behind(entry: usize) -> usize {
    1 + [128, 16_383, 2_097_151, 268_435_455].iter().filter(|least| entry >= **least).count()
}

/// A listpack that is being made.
#[derive(Default)]
pub(crate) struct Pack {
    bytes: Vec<u8>,
    count: usize,
}

impl Pack {
    /// Number of bytes without header and end.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends an integer.
    pub(crate) fn add_number(&mut self, number: i64) {
        let start = self.bytes.len();
        let bytes = number.to_le_bytes();
        match number {
            0..0x80 => self.bytes.push(bytes[0]),
            -0x1000..0x1000 => self.bytes.extend([0xc0 | bytes[1] & 0x1f, bytes[0]]),
            _ => {
                let (form, count) = match number {
                    -0x8000..0x8000 => (0xf1, 2),
                    -0x80_0000..0x80_0000 => (0xf2, 3),
                    -0x8000_0000..0x8000_0000 => (0xf3, 4),
                    _ => (0xf4, 8),
                };
                self.bytes.push(form);
                self.bytes.extend_from_slice(&bytes[..count]);
            }
        }
        self.end_entry(start);
    }

    /// Appends a text of less than 4 GiB.
    pub(crate) fn add_text(&mut self, text: &[u8]) {
        let start = self.bytes.len();
        let length = (text.len() as u32).to_le_bytes();
        match text.len() {
            0..0x40 => self.bytes.push(0x80 | length[0]),
            0x40..0x1000 => self.bytes.extend([0xe0 | length[1], length[0]]),
            _ => {
                self.bytes.push(0xf0);
                self.bytes.extend(length);
            }
        }
        self.bytes.extend_from_slice(text);
        self.end_entry(start);
    }

    /// Appends the length of the entry that begins at `start`, from its highest seven bits on.
    fn end_entry(&mut self, start: usize) {
        let entry = self.bytes.len() - start;
        let count = bytes_behind(entry);
        for at in (0..count).rev() {
            let seven = (entry >> (7 * at)) as u8 & 0x7f;
            self.bytes.push(if at + 1 == count { seven } else { seven | 0x80 });
        }
        self.count += 1;
    }

    /// Appends the entries of another one.
    pub(crate) fn append(&mut self, other: &Pack) {
        self.bytes.extend_from_slice(&other.bytes);
        self.count += other.count;
    }

    /// Returns the listpack.
    pub(crate) fn finish(self) -> Vec<u8> {
        let length = (PACK_HEADER_BYTES + self.bytes.len() + 1) as u32;
        let count = u16::try_from(self.count).unwrap_or(u16::MAX);
        let mut pack = length.to_le_bytes().to_vec();
        pack.extend(count.to_le_bytes());
        pack.extend(self.bytes);
        pack.push(END);
        pack
    }
}

/// The texts of a listpack. (Redis, `listpack.c`.)
pub(crate) fn listpack(pack: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (header, mut rest) = pack.split_at_checked(PACK_HEADER_BYTES)?;
    if u32::from_le_bytes(header[..4].try_into().ok()?) as usize != pack.len() {
        return None;
    }
    let mut texts = Vec::new();
    loop {
        let before = rest.len();
        match rest {
            [END] => return Some(texts),
            [] => return None,
            _ => texts.push(take_packed(&mut rest)?),
        }
        rest = rest.get(bytes_behind(before - rest.len())..)?;
    }
}

/// Removes an entry of a listpack, without its length behind it, from the front of `rest`.
fn take_packed(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let first = *rest.split_off_first()?;
    let mut take = |count: usize| rest.split_off(..count);
    let number = |number: i64| Some(digits(number));
    match first {
        0..0x80 => number(first.into()),
        0x80..0xc0 => Some(take(usize::from(first & 0x3f))?.to_vec()),
        0xc0..0xe0 => {
            let low = take(1)?[0];
            let wide = u16::from(first & 0x1f) << 8 | u16::from(low);
            number(i64::from((wide << 3) as i16 >> 3))
        }
        0xe0..0xf0 => {
            let length = usize::from(first & 0xf) << 8 | usize::from(take(1)?[0]);
            Some(take(length)?.to_vec())
        }
        0xf0 => {
            let length = u32::from_le_bytes(take(4)?.try_into().ok()?);
            Some(take(length as usize)?.to_vec())
        }
        0xf1 => number(signed(take(2)?)),
        0xf2 => number(signed(take(3)?)),
        0xf3 => number(signed(take(4)?)),
        0xf4 => number(signed(take(8)?)),
        _ => None,
    }
}

/// The texts of a ziplist. (Redis, `ziplist.c`.)
pub(super) fn ziplist(list: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (header, mut rest) = list.split_at_checked(ZIPLIST_HEADER_BYTES)?;
    if u32::from_le_bytes(header[..4].try_into().ok()?) as usize != list.len() {
        return None;
    }
    let mut texts = Vec::new();
    while rest != [END] {
        // The length of the entry before.
        let before = *rest.split_off_first()?;
        if before == LONG {
            rest.split_off(..4)?;
        }
        texts.push(take_zipped(&mut rest)?);
    }
    Some(texts)
}

/// Removes an entry of a ziplist, without the length before it, from the front of `rest`.
fn take_zipped(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let first = *rest.split_off_first()?;
    let mut take = |count: usize| rest.split_off(..count);
    let number = |number: i64| Some(digits(number));
    match first {
        0..0x40 => Some(take(first.into())?.to_vec()),
        0x40..0x80 => {
            let length = usize::from(first & 0x3f) << 8 | usize::from(take(1)?[0]);
            Some(take(length)?.to_vec())
        }
        0x80 => {
            let length = u32::from_be_bytes(take(4)?.try_into().ok()?);
            Some(take(length as usize)?.to_vec())
        }
        0xc0 => number(signed(take(2)?)),
        0xd0 => number(signed(take(4)?)),
        0xe0 => number(signed(take(8)?)),
        0xf0 => number(signed(take(3)?)),
        0xfe => number(signed(take(1)?)),
        0xf1..=0xfd => number(i64::from(first & 0xf) - 1),
        _ => None,
    }
}

/// The fields and values of a zipmap, in turn. (Redis, `zipmap.c`.)
pub(super) fn zipmap(map: &[u8]) -> Option<Vec<Vec<u8>>> {
    // The first byte is the number of pairs, if it is small.
    let (_, mut rest) = map.split_first()?;
    let mut texts = Vec::new();
    while rest != [END] {
        let length = zipmap_length(&mut rest)?;
        texts.push(rest.split_off(..length)?.to_vec());
        let length = zipmap_length(&mut rest)?;
        // A value may be followed by free bytes.
        let free = *rest.split_off_first()?;
        texts.push(rest.split_off(..length)?.to_vec());
        rest.split_off(..usize::from(free))?;
    }
    Some(texts)
}

fn zipmap_length(rest: &mut &[u8]) -> Option<usize> {
    match *rest.split_off_first()? {
        LONG => Some(u32::from_le_bytes(rest.split_off(..4)?.try_into().ok()?) as usize),
        END => None,
        length => Some(length.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The right texts are read, and no shorter pack is.
    fn check(unpack: fn(&[u8]) -> Option<Vec<Vec<u8>>>, pack: &[u8], texts: &[&str]) {
        let expected: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
        assert_eq!(unpack(pack), Some(expected));
        for end in 0..pack.len() {
            assert_eq!(unpack(&pack[..end]), None, "{end} bytes");
        }
    }

    #[test]
    fn damaged_packs_and_sets_are_no_collections() {
        let pack = [12, 0, 0, 0, 2, 0, 0x81, b'a', 2, 5, 1, END];
        check(listpack, &pack, &["a", "5"]);
        let longer = [&[13][..], &pack[1..]].concat();
        assert_eq!(listpack(&longer), None, "another length");
        assert_eq!(integers(&[2, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff]), Some(vec![b"-1".to_vec()]));
        assert_eq!(integers(&[2, 0, 0, 0, 2, 0, 0, 0, 0xff, 0xff]), None);
        assert_eq!(integers(&[3, 0, 0, 0, 0, 0, 0, 0]), None);
        for (bytes, number) in [(&[0xff, 0x7f][..], 32_767), (&[0, 0, 0x80], -8_388_608)] {
            assert_eq!(signed(bytes), number);
        }
    }

    #[test]
    fn ziplists_have_texts_and_integers_of_all_widths() {
        let entries: &[&[u8]] = &[
            &[0, 1, b'a'],
            &[3, 0x40, 2, b'b', b'c'],
            &[5, 0x80, 0, 0, 0, 1, b'd'],
            &[7, 0xf1],
            &[2, 0xfd],
            &[2, 0xfe, 0x80],
            &[3, 0xc0, 0, 0x80],
            &[4, 0xf0, 0, 0, 0x80],
            &[LONG, 5, 0, 0, 0, 0xd0, 0xff, 0xff, 0xff, 0x7f],
            &[10, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x80],
            &[END],
        ];
        let entries = entries.concat();
        let length = (ZIPLIST_HEADER_BYTES + entries.len()) as u32;
        let list = [&length.to_le_bytes()[..], &[0; 6], &entries].concat();
        let texts = [
            "a",
            "bc",
            "d",
            "0",
            "12",
            "-128",
            "-32768",
            "-8388608",
            "2147483647",
            "-9223372036854775808",
        ];
        check(ziplist, &list, &texts);
    }

    #[test]
    fn zipmaps_have_free_bytes_and_long_values() {
        let map = [&[2, 1, b'a', 2, 1, b'x', b'y', 0, 1, b'b', LONG, 1, 0, 0, 0, 0, b'z', END][..]];
        check(zipmap, &map.concat(), &["a", "xy", "b", "z"]);
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let mut pack = Pack::default();
        let mut expected = Vec::new();
        for shift in 0..63 {
            for number in [(1 << shift) - 1, 1 << shift, -(1 << shift), -(1 << shift) - 1] {
                pack.add_number(number);
                expected.push(number.to_string().into_bytes());
            }
        }
        // The length behind an entry changes its own length at 128, 16,383 and 2,097,151.
        for length in [0, 63, 64, 125, 126, 4_095, 4_096, 16_377, 16_378, 2_097_145, 2_097_146] {
            pack.add_text(&vec![b't'; length]);
            expected.push(vec![b't'; length]);
        }
        assert!(listpack(&pack.finish()) == Some(expected));
    }
}
