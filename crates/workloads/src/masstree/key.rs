//! Keys in slices: the part of a key that one layer of the trie compares.

use crate::Corrupt;

/// The longest key in bytes.
pub const KEY_BYTES_MAX: usize = 64;

/// Bytes of a key that one layer compares.
pub(super) const SLICE_BYTES: usize = 8;

/// The kind of a slot of a border node. From 0 to 8, a key ends in this layer, and its last slice
/// has this many bytes. The other kinds are constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind(u8);

impl Kind {
    /// One longer key, whose rest lies in a line of its own.
    pub(super) const SUFFIX: Kind = Kind(9);
    /// Several longer keys: the layer below.
    pub(super) const LAYER: Kind = Kind(10);
    /// Nothing: the slot is free.
    pub(super) const FREE: Kind = Kind(15);

    pub(super) fn from_bits(bits: u64) -> Kind {
        Kind((bits & 15) as u8)
    }

    pub(super) fn bits(self) -> u64 {
        u64::from(self.0)
    }

    /// The bytes that the key has of the slice, if it ends here.
    pub(super) fn ends_after(self) -> Option<usize> {
        (self.0 as usize <= SLICE_BYTES).then_some(self.0 as usize)
    }

    /// The rank among keys of one slice: shorter ones first. All longer ones share a slot.
    #[inline]
    pub(super) fn rank(self) -> u8 {
        self.0.min(Kind::SUFFIX.0)
    }
}

/// The part of a key that is left in a layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rest<'a> {
    /// The next 8 bytes, big-endian so that slices compare as keys do; zeros behind the end.
    pub(super) slice: u64,
    /// All bytes that are left.
    bytes: &'a [u8],
}

impl<'a> Rest<'a> {
    /// All of `key`.
    ///
    /// # Errors
    /// [`Corrupt`] when it is longer than [`KEY_BYTES_MAX`].
    #[inline]
    pub(super) fn whole(key: &'a [u8]) -> Result<Rest<'a>, Corrupt> {
        if key.len() > KEY_BYTES_MAX {
            return Err(Corrupt(format!(
                "a key has at most {KEY_BYTES_MAX} bytes, not {}",
                key.len()
            )));
        }
        Ok(Rest::of(key))
    }

    /// These bytes.
    #[inline]
    pub(super) fn of(bytes: &'a [u8]) -> Rest<'a> {
        let slice = match bytes.first_chunk::<SLICE_BYTES>() {
            Some(slice) => u64::from_be_bytes(*slice),
            None => {
                let mut slice = [0; SLICE_BYTES];
                slice[..bytes.len()].copy_from_slice(bytes);
                u64::from_be_bytes(slice)
            }
        };
        Rest { slice, bytes }
    }

    /// The kind of slot for such a key; [`Kind::SUFFIX`] stands for a layer too.
    #[inline]
    pub(super) fn kind(self) -> Kind {
        Kind(self.bytes.len().min(SLICE_BYTES + 1) as u8)
    }

    /// All that is left.
    pub(super) fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes behind this slice.
    #[inline]
    pub(super) fn suffix(self) -> &'a [u8] {
        self.bytes.get(SLICE_BYTES..).unwrap_or_default()
    }

    /// The part that is left in the layer below.
    #[inline]
    pub(super) fn below(self) -> Rest<'a> {
        Rest::of(self.suffix())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn slices_and_ranks_order_keys_as_bytes_do(
            a in prop::collection::vec(0u8..3, 0..9), b in prop::collection::vec(0u8..3, 0..9),
        ) {
            let part = |key| {
                let rest = Rest::of(key);
                (rest.slice, rest.kind().rank())
            };
            prop_assert_eq!(part(&a).cmp(&part(&b)), a.cmp(&b));
        }
    }

    #[test]
    fn a_key_that_is_too_long_is_refused() {
        assert!(Rest::whole(&[0; KEY_BYTES_MAX]).is_ok());
        assert!(Rest::whole(&[0; KEY_BYTES_MAX + 1]).unwrap_err().0.contains("not 65"));
    }
}
