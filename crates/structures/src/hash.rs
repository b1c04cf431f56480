//! [`mix`]: the hash function of layouts, keys and checksums.

/// Mixes all bits of `value` into all bits of the result, bijectively: the finaliser of SplitMix64
/// (Steele, Lea and Flood, OOPSLA'14; constants by Stafford, "Mix13").
#[inline]
pub fn mix(value: u64) -> u64 {
    let mut x = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
