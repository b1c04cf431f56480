//! [`Key`]: the bytes of a key with their hash, and the hash's two parts.

use std::hash::Hasher;
use std::ops::Range;

use siphasher::sip::SipHasher13;

/// Bits of the hash below the cluster slot.
const BITS: u32 = 34;

/// The number of cluster slots (Redis Cluster specification, "Key distribution model").
pub const SLOTS: u16 = 1 << 14;

/// The longest key, in bytes. With it an entry is at most two fifths of a page.
pub const KEY_BYTES_MAX: usize = 1024;

/// The secret of the hash of keys. Without it, a client cannot choose keys that collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashSecret(pub [u64; 2]);

/// A key and its 48-bit hash: the cluster slot, then 34 bits of SipHash-1-3. All keys of a slot are
/// neighbours.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The key.
    pub bytes: &'a [u8],
    /// Its hash, below [`HASHES`](super::HASHES).
    pub hash: u64,
}

impl HashSecret {
    /// `bytes` with their hash.
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        let mut hasher = SipHasher13::new_with_keys(self.0[0], self.0[1]);
        hasher.write(bytes);
        Key { bytes, hash: u64::from(slot(bytes)) << BITS | hasher.finish() >> (64 - BITS) }
    }
}

/// Returns the cluster slot of a key: a CRC16 (XMODEM) modulo 16,384. It covers the part between
/// the first `{` and the next `}`, or the whole key if that part is empty or missing.
pub fn slot(key: &[u8]) -> u16 {
    const CRC: crc::Crc<u16> = crc::Crc::<u16>::new(&crc::CRC_16_XMODEM);
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    CRC.checksum(tag.unwrap_or(key)) % SLOTS
}

/// Returns the hashes of the keys of a cluster slot.
pub fn hashes_of_slot(slot: u16) -> Range<u64> {
    u64::from(slot) << BITS..(u64::from(slot) + 1) << BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis_cluster() {
        // As `CLUSTER KEYSLOT` of Redis 7 answers.
        for (key, expected) in [
            ("foo", 12182),
            ("somekey", 11058),
            ("foo{hash_tag}", 2515),
            ("{user1000}.following", 3443),
            ("foo{}{bar}", 8363),
        ] {
            assert_eq!(slot(key.as_bytes()), expected, "{key}");
        }
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
    }

    #[test]
    fn keys_of_one_slot_are_neighbours_and_the_secret_decides_their_order() {
        let (one, other) = (HashSecret([1, 2]), HashSecret([1, 3]));
        let (a, b) = (one.key(b"{x}a"), one.key(b"{x}b"));
        assert_eq!(a.hash >> BITS, b.hash >> BITS);
        assert_ne!(a.hash, b.hash);
        assert_ne!(other.key(b"{x}a").hash, a.hash);
        assert!(hashes_of_slot(slot(b"{x}a")).contains(&a.hash));
        assert_eq!(hashes_of_slot(SLOTS - 1).end, super::super::HASHES);
        assert!(a.hash < super::super::HASHES);
    }
}
