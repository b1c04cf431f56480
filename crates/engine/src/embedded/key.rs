//! [`Key`]: Rust types as keys of bytes, in the same order.

/// A value as the bytes of a key. The bytes of two keys have the order of the keys.
///
/// ```
/// use ebbtide_engine::embedded::KeyBytes;
///
/// assert_eq!(258u16.key_bytes(), [1, 2]);
/// assert!((-1i32).key_bytes() < 0i32.key_bytes());
/// ```
pub trait KeyBytes {
    /// Appends the bytes to `into`.
    fn append_to(&self, into: &mut Vec<u8>);

    /// The bytes.
    fn key_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes);
        bytes
    }
}

/// A type of keys: integers, strings, bytes, and tuples of them.
///
/// In a tuple, all parts but the last have [a fixed size](FixedKey).
///
/// ```
/// use ebbtide_engine::embedded::{Key, KeyBytes};
///
/// let key = (7u32, -1i64, "name".to_string());
/// assert_eq!(Key::from_bytes(&key.key_bytes()), Some(key));
/// assert!((-2i16).key_bytes() < 3i16.key_bytes());
/// ```
pub trait Key: KeyBytes + Sized {
    /// Removes a key from the front of `bytes`. `None` if they are no such key.
    fn take(bytes: &mut &[u8]) -> Option<Self>;

    /// The key of these bytes. `None` if they are no such key.
    fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let key = Self::take(&mut bytes)?;
        bytes.is_empty().then_some(key)
    }
}

/// A type of keys that all have as many bytes.
///
/// ```
/// use ebbtide_engine::embedded::FixedKey;
///
/// fn bytes_of<K: FixedKey>(key: K) -> usize {
///     key.key_bytes().len()
/// }
/// assert_eq!((bytes_of(7u8), bytes_of(7u64)), (1, 8));
/// ```
pub trait FixedKey: Key {}

macro_rules! integers {
    ($($unsigned:ident $signed:ident),*) => {$(
        impl KeyBytes for $unsigned {
            fn append_to(&self, into: &mut Vec<u8>) {
                into.extend_from_slice(&self.to_be_bytes());
            }
        }
        impl Key for $unsigned {
            fn take(bytes: &mut &[u8]) -> Option<$unsigned> {
                let (first, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some($unsigned::from_be_bytes(*first))
            }
        }
        impl FixedKey for $unsigned {}

        // With the sign inverted, negative numbers come first.
        impl KeyBytes for $signed {
            fn append_to(&self, into: &mut Vec<u8>) {
                ((*self ^ $signed::MIN) as $unsigned).append_to(into);
            }
        }
        impl Key for $signed {
            fn take(bytes: &mut &[u8]) -> Option<$signed> {
                Some($unsigned::take(bytes)? as $signed ^ $signed::MIN)
            }
        }
        impl FixedKey for $signed {}
    )*};
}

integers!(u8 i8, u16 i16, u32 i32, u64 i64, u128 i128);

impl KeyBytes for [u8] {
    fn append_to(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(self);
    }
}

impl KeyBytes for Vec<u8> {
    fn append_to(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(self);
    }
}

impl Key for Vec<u8> {
    fn take(bytes: &mut &[u8]) -> Option<Vec<u8>> {
        Some(std::mem::take(bytes).to_vec())
    }
}

impl KeyBytes for str {
    fn append_to(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(self.as_bytes());
    }
}

impl KeyBytes for String {
    fn append_to(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(self.as_bytes());
    }
}

impl Key for String {
    fn take(bytes: &mut &[u8]) -> Option<String> {
        String::from_utf8(std::mem::take(bytes).to_vec()).ok()
    }
}

impl<const N: usize> KeyBytes for [u8; N] {
    fn append_to(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(self);
    }
}

impl<const N: usize> Key for [u8; N] {
    fn take(bytes: &mut &[u8]) -> Option<[u8; N]> {
        let (first, rest) = bytes.split_first_chunk()?;
        *bytes = rest;
        Some(*first)
    }
}

impl<const N: usize> FixedKey for [u8; N] {}

macro_rules! tuples {
    ($(($($first:ident)+, $last:ident)),*) => {$(
        #[allow(non_snake_case, reason = "a part has the name of its type")]
        impl<$($first: KeyBytes,)+ $last: KeyBytes> KeyBytes for ($($first,)+ $last) {
            fn append_to(&self, into: &mut Vec<u8>) {
                let ($($first,)+ $last) = self;
                $($first.append_to(into);)+
                $last.append_to(into);
            }
        }
        impl<$($first: FixedKey,)+ $last: Key> Key for ($($first,)+ $last) {
            fn take(bytes: &mut &[u8]) -> Option<($($first,)+ $last)> {
                Some(($($first::take(bytes)?,)+ $last::take(bytes)?))
            }
        }
        impl<$($first: FixedKey,)+ $last: FixedKey> FixedKey for ($($first,)+ $last) {}
    )*};
}

tuples!((A, B), (A B, C), (A B C, D));

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use proptest::prelude::*;

    use super::*;

    fn check<K: Key + Ord + Debug>(keys: Vec<K>) {
        for one in &keys {
            let bytes = one.key_bytes();
            assert_eq!(K::from_bytes(&bytes).as_ref(), Some(one));
            for other in &keys {
                assert_eq!(bytes.cmp(&other.key_bytes()), one.cmp(other), "{one:?}, {other:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn bytes_have_the_order_of_their_keys(
            numbers in prop::collection::vec(any::<(i8, u64, i128)>(), 0..20),
            texts in prop::collection::vec(any::<(i16, String)>(), 0..20),
            bytes in prop::collection::vec(any::<([u8; 2], u32, Vec<u8>)>(), 0..20),
        ) {
            check(numbers.iter().map(|number| number.0).collect());
            check(numbers.iter().map(|number| number.2).collect());
            check(numbers);
            check(texts.iter().map(|text| text.1.clone()).collect());
            check(texts);
            check(bytes);
        }
    }

    #[test]
    fn other_bytes_are_no_key() {
        assert_eq!(u32::from_bytes(&[1, 2, 3]), None);
        assert_eq!(u32::from_bytes(&[1, 2, 3, 4, 5]), None);
        assert_eq!(String::from_bytes(&[0xff]), None);
        assert_eq!(<(u16, String)>::from_bytes(&[1]), None);
    }
}
