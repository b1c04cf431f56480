//! The keys of records. Names are the YCSB client's: "user" and a hash of the item number.

/// FNV-1a's offset basis and prime for 64 bits (Fowler, Noll and Vo).
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

const PREFIX: [u8; 4] = *b"user";

/// The client's hash of a number: FNV-1a over its eight bytes, the lowest first, as the absolute
/// value of a signed number.
#[inline]
pub(crate) fn fnv64(number: u64) -> u64 {
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    number.to_le_bytes().into_iter().fold(BASIS, step).cast_signed().unsigned_abs()
}

/// The key of an item: its number in the order of insertion, and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The item's number. Item 0 was inserted first.
    pub item: u64,
    /// The number in the item's name.
    pub number: u64,
    /// The name, padded with zero bytes.
    pub name: [u64; 3],
}

impl Key {
    /// Returns the key of item `item` with the client's default name (`insertorder=hashed`).
    #[inline]
    pub fn hashed(item: u64) -> Key {
        let number = fnv64(item);
        let digits = number.checked_ilog10().unwrap_or(0) as usize + 1;
        Key { item, number, name: name(number, digits) }
    }

    /// The key of item `item` with `number` in its name, written with 19 digits.
    #[inline]
    pub(super) fn sorted(item: u64, number: u64) -> Key {
        Key { item, number, name: name(number, 19) }
    }

    /// Returns the name as text.
    pub fn text(&self) -> String {
        let bytes: &[u8] = bytemuck::bytes_of(&self.name);
        bytes.iter().take_while(|&&byte| byte != 0).map(|&byte| char::from(byte)).collect()
    }
}

/// "user" and `number` in `digits` decimal digits, at most 20.
#[inline]
fn name(number: u64, digits: usize) -> [u64; 3] {
    let mut text = [0; 24];
    let (prefix, tail) = text.split_at_mut(PREFIX.len());
    prefix.copy_from_slice(&PREFIX);
    let mut rest = number;
    for digit in tail[..digits].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    bytemuck::cast(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn items_have_the_names_that_the_client_gives_them() {
        // By hand, with Python's integers; the first three head many a client's log.
        let names = [
            (0, "user6284781860667377211"),
            (1, "user8517097267634966620"),
            (2, "user1820151046732198393"),
        ];
        for (item, name) in names {
            assert_eq!(Key::hashed(item).text(), name);
        }
    }

    proptest! {
        #[test]
        fn a_name_is_the_number_in_decimal(item: u64) {
            let key = Key::hashed(item);
            prop_assert_eq!(key.text(), format!("user{}", key.number));
            prop_assert_eq!(bytemuck::bytes_of(&key.name)[23], 0);
        }
    }
}
