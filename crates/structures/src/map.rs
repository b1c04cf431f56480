//! [`Map`]: a hash table of buckets that never straddle a page.
//!
//! A bucket is a line of two latches, a count and 40 one-byte tags, then its keys, then its values.
//! A lookup reads all tags at once and then compares one key; one tag in 255 matches by chance. An
//! entry goes into the first bucket from its *home* on that has a free slot. Each bucket counts the
//! entries that passed it because it was full. A lookup continues to the next bucket only where
//! that count is not zero, so a removed entry leaves no tombstone. (The scheme is F14's: Bronson
//! and Shi, "Open-sourcing F14 for faster, more memory-efficient hash tables", 2019.)
//!
//! No pointers are stored, so a reader that sees a half-done change stays within the map. The
//! latches' versions reveal the change, and it reads again.
//!
//! Each bucket has two latches. To change an entry, a job holds the *keys latch* of the entry's
//! home, even if the entry lies in another bucket. To fill or free a slot, it holds the *slots
//! latch* of the slot's bucket. A holder of a slots latch waits for no other latch, so there is no
//! deadlock.

use std::marker::PhantomData;

use bytemuck::{Pod, Zeroable};
use thiserror::Error;

use super::vector::update_word;
use super::{LINE, PAGE, check_base, slot_bytes};
use crate::latch;
use ebbtide_core::Addr;
use ebbtide_core::{FullMemory, Value};

/// A bucket's first line. A tag of zero is a free slot.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Header {
    keys_latch: u64,
    slots_latch: u64,
    passed: u64,
    /// One tag a slot, eight to a word.
    tags: [[u8; 8]; SLOTS_MAX / 8],
}

const KEYS_LATCH: u64 = 0;
const SLOTS_LATCH: u64 = 8;
const PASSED: u64 = 16;
const TAGS: u64 = 24;
const SLOTS_MAX: usize = 40;

/// Smaller buckets have too few slots to even out how many keys have them as their home.
const BUCKETS_PER_PAGE_MAX: u64 = 5;

/// An insertion that finds this many full buckets in a row fails. In a map that is three quarters
/// full, fewer than one insertion in 10^11 fails. That holds for the least favourable sizes of keys
/// and values.
const PROBES_MAX: u64 = 32;

/// The number of entries is the sum of this many counts, each in a line of the map's first page.
const COUNTS: u64 = PAGE / LINE;

/// How a map divides its pages into buckets, which depends on the sizes of keys and values.
#[derive(Debug, Clone, Copy)]
struct Layout {
    buckets_per_page: u64,
    bucket_bytes: u64,
    slots: u64,
    values_offset: u64,
}

impl Layout {
    /// The layout with the most slots to a page.
    const fn best(key_bytes: u64, value_bytes: u64) -> Layout {
        let mut best = Layout::with(1, key_bytes, value_bytes);
        let mut buckets_per_page = 2;
        while buckets_per_page <= BUCKETS_PER_PAGE_MAX {
            let layout = Layout::with(buckets_per_page, key_bytes, value_bytes);
            if layout.slots * buckets_per_page > best.slots * best.buckets_per_page {
                best = layout;
            }
            buckets_per_page += 1;
        }
        best
    }

    const fn with(buckets_per_page: u64, key_bytes: u64, value_bytes: u64) -> Layout {
        let bucket_bytes = PAGE / LINE / buckets_per_page * LINE;
        let mut slots = SLOTS_MAX as u64;
        loop {
            let values_offset = LINE + (slots * key_bytes).next_multiple_of(LINE);
            if values_offset + slots * value_bytes <= bucket_bytes {
                return Layout { buckets_per_page, bucket_bytes, slots, values_offset };
            }
            slots -= 1;
        }
    }
}

/// A hash table in memory with a fixed capacity; empty at first.
///
/// Keys are equal if their bits are. The hash is not cryptographic: a map of keys from untrusted
/// users needs a secret [seed](Map::with_seed).
#[derive(Debug, Clone, Copy)]
pub struct Map<K, V> {
    base: Addr,
    capacity: u64,
    buckets: u64,
    seed: u64,
    entries: PhantomData<fn(K) -> V>,
}

/// The map has no free slot for a new key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the map for {capacity} entries is full")]
pub struct MapFull {
    /// The map's capacity.
    pub capacity: u64,
}

/// Where a key belongs, and its tag there.
#[derive(Clone, Copy)]
struct Place {
    hash: u64,
    home: u64,
    tag: u8,
}

/// Where an entry lies, as a distance in buckets from its home.
#[derive(Clone, Copy)]
struct Slot {
    distance: u64,
    bucket: Addr,
    index: u64,
}

impl<K: Value, V: Value> Map<K, V> {
    const LAYOUT: Layout = Layout::best(slot_bytes::<K>(), slot_bytes::<V>());

    /// Bytes that a map of `capacity` entries takes, in whole pages.
    pub const fn bytes(capacity: u64) -> u64 {
        let pages = Self::buckets(capacity).div_ceil(Self::LAYOUT.buckets_per_page);
        pages.saturating_add(1).saturating_mul(PAGE)
    }

    /// Returns the number of buckets. They are three quarters full with `capacity` entries.
    const fn buckets(capacity: u64) -> u64 {
        let buckets = capacity.saturating_mul(4).div_ceil(Self::LAYOUT.slots * 3);
        if buckets == 0 { 1 } else { buckets }
    }

    /// The map with room for `capacity` entries in the [`bytes`](Map::bytes) from `base` on.
    ///
    /// # Panics
    /// If `base` is not the start of a page.
    pub fn at(base: Addr, capacity: u64) -> Map<K, V> {
        check_base(base);
        let buckets = Self::buckets(capacity);
        Map { base, capacity, buckets, seed: 0, entries: PhantomData }
    }

    /// The same map with another hash seed. The seed must stay the same while the map holds
    /// entries.
    pub fn with_seed(self, seed: u64) -> Map<K, V> {
        Map { seed, ..self }
    }

    /// Returns its address. With its capacity, this is the whole map.
    pub fn base(&self) -> Addr {
        self.base
    }

    /// Returns the number of entries that fit. A few more may fit by chance.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Returns the number of entries. It is exact while no job inserts or removes.
    ///
    /// A device error during an insertion or a removal may leave it wrong by one for good.
    pub fn len<M: FullMemory>(&self, memory: &mut M) -> u64 {
        (0..COUNTS)
            .fold(0, |sum, count| sum.wrapping_add(memory.load_checked(self.count_at(count))))
    }

    /// Returns true if there are no entries, as exactly as [`len`](Map::len).
    pub fn is_empty<M: FullMemory>(&self, memory: &mut M) -> bool {
        self.len(memory) == 0
    }

    /// The value of `key`.
    pub fn get<M: FullMemory>(&self, memory: &mut M, key: K) -> Option<V> {
        let place = self.place(&key);
        latch::read(memory, self.bucket(place.home) + KEYS_LATCH, |memory| {
            let slot = self.find(memory, place, &key)?;
            Some(memory.load(value_at::<K, V>(slot)))
        })
    }

    /// Sets the value of `key` and returns its previous value.
    ///
    /// # Errors
    /// [`MapFull`] when `key` is new and finds no free slot. Nothing is then changed.
    pub fn insert<M: FullMemory>(
        &self,
        memory: &mut M,
        key: K,
        value: V,
    ) -> Result<Option<V>, MapFull> {
        self.update(memory, key, |_| Some(value))
    }

    /// Removes `key` and returns its value.
    pub fn remove<M: FullMemory>(&self, memory: &mut M, key: K) -> Option<V> {
        let removed = self.update(memory, key, |_| None);
        removed.expect("a removal needs no room")
    }

    /// Replaces the value of `key` by `change` of it in one atomic step, where `None` stands for no
    /// entry. Returns the previous value.
    ///
    /// # Errors
    /// [`MapFull`] when `key` is new and finds no free slot. Nothing is then changed.
    ///
    /// # Panics
    /// When `change` panics. Nothing is then changed.
    pub fn update<M: FullMemory>(
        &self,
        memory: &mut M,
        key: K,
        change: impl FnOnce(Option<V>) -> Option<V>,
    ) -> Result<Option<V>, MapFull> {
        let place = self.place(&key);
        latch::write(memory, self.bucket(place.home) + KEYS_LATCH, |memory| {
            let slot = self.find(memory, place, &key);
            let found = slot.map(|slot| memory.load(value_at::<K, V>(slot)));
            match (slot, change(found)) {
                (None, None) => {}
                (None, Some(value)) => self.fill(memory, place, key, value)?,
                (Some(slot), Some(value)) => memory.store(value_at::<K, V>(slot), value),
                (Some(slot), None) => self.free(memory, place, slot),
            }
            Ok(found)
        })
    }

    /// Calls `visit` with every entry, in the order of their addresses.
    ///
    /// Each entry is read atomically. The visit as a whole is atomic only in a
    /// [transaction](ebbtide_core::Memory::transaction). Otherwise an entry that is inserted or
    /// removed during the visit may or may not be visited. One that is removed and inserted again
    /// may be visited twice. All others are visited once. No latch is held while `visit` runs, so
    /// it may use this map.
    pub fn for_each<M: FullMemory>(&self, memory: &mut M, mut visit: impl FnMut(&mut M, K, V)) {
        for number in 0..self.buckets {
            let bucket = self.bucket(number);
            // In a transaction, empty slots are checked again as well.
            let header: Header = match memory.latches() {
                None => memory.load(bucket),
                Some(_) => latch::read(memory, bucket + SLOTS_LATCH, |memory| memory.load(bucket)),
            };
            for index in (0..Self::LAYOUT.slots).filter(|&index| header.tag(index) != 0) {
                let slot = Slot { distance: 0, bucket, index };
                if let Some((key, value)) = self.entry(memory, slot) {
                    visit(memory, key, value);
                }
            }
        }
    }

    /// Returns the entry in a slot, if it is still there after its home was computed.
    fn entry<M: FullMemory>(&self, memory: &mut M, slot: Slot) -> Option<(K, V)> {
        let key = |memory: &mut M| {
            latch::read(memory, slot.bucket + SLOTS_LATCH, |memory| {
                let header: Header = memory.load(slot.bucket);
                let key: K = memory.load(key_at::<K>(slot.bucket, slot.index));
                (header.tag(slot.index) != 0).then_some(key)
            })
        };
        let found = key(memory)?;
        let home = self.bucket(self.place(&found).home);
        latch::read(memory, home + KEYS_LATCH, |memory| {
            let still = key(memory).filter(|key| same(key, &found))?;
            Some((still, memory.load(value_at::<K, V>(slot))))
        })
    }

    /// Looks for `key` in its home and in the buckets behind it. The answer is right if no job held
    /// the home's keys latch during the call.
    fn find<M: FullMemory>(&self, memory: &mut M, place: Place, key: &K) -> Option<Slot> {
        for (distance, bucket) in self.probes(place) {
            let look = |memory: &mut M| {
                let header: Header = memory.load(bucket);
                let index = slots_with(&header, place.tag).find(|&index| {
                    let found: K = memory.load(key_at::<K>(bucket, index));
                    same(&found, key)
                });
                (index, header.passed)
            };
            // Keys of other homes may change at the same time, and half of one and half of another
            // may equal `key`. Keys of one word do not tear.
            let one_word = slot_bytes::<K>() == 8;
            let (index, passed) = if one_word {
                look(memory)
            } else {
                latch::read(memory, bucket + SLOTS_LATCH, look)
            };
            if let Some(index) = index {
                return Some(Slot { distance, bucket, index });
            }
            if passed == 0 {
                break;
            }
        }
        None
    }

    /// Writes a new entry into the first free slot.
    ///
    /// After a device error, some buckets may count one entry too many that passed them. Lookups
    /// then read one more bucket.
    fn fill<M: FullMemory>(
        &self,
        memory: &mut M,
        place: Place,
        key: K,
        value: V,
    ) -> Result<(), MapFull> {
        for (_, bucket) in self.probes(place) {
            let filled = latch::write(memory, bucket + SLOTS_LATCH, |memory| {
                let header: Header = memory.load(bucket);
                let free = slots_with(&header, 0).next().filter(|&i| i < Self::LAYOUT.slots);
                free.map(|index| {
                    let slot = Slot { distance: 0, bucket, index };
                    memory.store(key_at::<K>(bucket, index), key);
                    memory.store(value_at::<K, V>(slot), value);
                    // Last, so that a device error leaves the slot free.
                    set_tag(memory, bucket, &header, index, place.tag);
                })
            });
            if filled.is_some() {
                self.count(memory, place, 1);
                return Ok(());
            }
            add(memory, bucket + PASSED, 1);
        }
        for (_, bucket) in self.probes(place) {
            add(memory, bucket + PASSED, -1);
        }
        Err(MapFull { capacity: self.capacity })
    }

    /// Frees the slot of an entry.
    fn free<M: FullMemory>(&self, memory: &mut M, place: Place, slot: Slot) {
        latch::write(memory, slot.bucket + SLOTS_LATCH, |memory| {
            let header: Header = memory.load(slot.bucket);
            set_tag(memory, slot.bucket, &header, slot.index, 0);
        });
        for (_, bucket) in self.probes(place).take(slot.distance as usize) {
            add(memory, bucket + PASSED, -1);
        }
        self.count(memory, place, -1);
    }

    fn place(&self, key: &K) -> Place {
        let hash = hash(self.seed, key);
        // The high bits choose the bucket, evenly; the low ones are the tag.
        let home = (u128::from(hash) * u128::from(self.buckets)) >> 64;
        Place { hash, home: home as u64, tag: (hash as u8).max(1) }
    }

    /// The buckets that may hold a key, with their distance from its home.
    fn probes(&self, place: Place) -> impl Iterator<Item = (u64, Addr)> {
        let map = *self;
        (0..PROBES_MAX.min(map.buckets)).map(move |distance| {
            let number = place.home + distance;
            let wrapped = if number < map.buckets { number } else { number - map.buckets };
            (distance, map.bucket(wrapped))
        })
    }

    fn bucket(&self, number: u64) -> Addr {
        let Layout { buckets_per_page, bucket_bytes, .. } = Self::LAYOUT;
        let (page, in_page) = (number / buckets_per_page, number % buckets_per_page);
        self.base + (1 + page) * PAGE + in_page * bucket_bytes
    }

    fn count<M: FullMemory>(&self, memory: &mut M, place: Place, change: i64) {
        add(memory, self.count_at(place.hash / 256 % COUNTS), change);
    }

    fn count_at(&self, count: u64) -> Addr {
        self.base + count * LINE
    }
}

fn key_at<K: Value>(bucket: Addr, index: u64) -> Addr {
    bucket + LINE + index * slot_bytes::<K>()
}

fn value_at<K: Value, V: Value>(slot: Slot) -> Addr {
    slot.bucket + Map::<K, V>::LAYOUT.values_offset + slot.index * slot_bytes::<V>()
}

/// Returns true if two keys are the same.
fn same<K: Value>(key: &K, other: &K) -> bool {
    bytemuck::bytes_of(key) == bytemuck::bytes_of(other)
}

impl Header {
    fn tag(&self, index: u64) -> u8 {
        self.tags[index as usize / 8][index as usize % 8]
    }
}

/// The slots with this tag, in order.
fn slots_with(header: &Header, tag: u8) -> impl Iterator<Item = u64> + use<> {
    let mut slots = 0u64;
    for (number, bytes) in header.tags.iter().enumerate() {
        const LOW: u64 = u64::from_le_bytes([0x7f; 8]);
        let differs = u64::from_le_bytes(*bytes) ^ u64::from_le_bytes([tag; 8]);
        // The top bit of every byte that does not differ; then all eight side by side.
        let same = !(((differs & LOW) + LOW) | differs | LOW);
        slots |= ((same >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * number);
    }
    std::iter::from_fn(move || {
        let slot = slots.trailing_zeros();
        slots &= slots.wrapping_sub(1);
        (slot < 64).then_some(u64::from(slot))
    })
}

/// Sets one tag of the bucket whose slots latch is held and whose header was just read.
fn set_tag<M: FullMemory>(memory: &mut M, bucket: Addr, header: &Header, index: u64, tag: u8) {
    let word = index / 8;
    let mut tags = header.tags[word as usize];
    tags[index as usize % 8] = tag;
    memory.store(bucket + TAGS + word * 8, tags);
}

fn add<M: FullMemory>(memory: &mut M, at: Addr, change: i64) {
    update_word(memory, at, |word| word.wrapping_add_signed(change));
}

/// Returns a hash of the bits of `key`. It mixes in every word with the finalizer of SplitMix64
/// (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA'14).
fn hash<K: Value>(seed: u64, key: &K) -> u64 {
    bytemuck::bytes_of(key).as_chunks::<8>().0.iter().fold(seed, |hash, word| {
        let mut mixed = (hash ^ u64::from_le_bytes(*word)).wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_never_straddles_a_page_and_uses_most_of_it() {
        const SIZES: [u64; 4] = [8, 16, 32, 64];
        for key_bytes in SIZES {
            for value_bytes in SIZES {
                let layout = Layout::best(key_bytes, value_bytes);
                let end = layout.values_offset + layout.slots * value_bytes;
                assert!(end <= layout.bucket_bytes);
                assert!(layout.buckets_per_page * layout.bucket_bytes <= PAGE);
                assert!(layout.slots >= 20, "{layout:?}: too few slots to even out");
                let used = layout.buckets_per_page * layout.slots * (key_bytes + value_bytes);
                assert!(used * 10 >= PAGE * 7, "{layout:?}: only {used} bytes of a page");
            }
        }
    }

    #[test]
    fn tags_are_found_wherever_they_are() {
        for index in 0..SLOTS_MAX {
            let mut header = Header::zeroed();
            header.tags = [[0x80; 8]; _];
            header.tags[index / 8][index % 8] = 0x81;
            assert_eq!(slots_with(&header, 0x81).collect::<Vec<_>>(), [index as u64]);
            assert_eq!(slots_with(&header, 0x80).count(), SLOTS_MAX - 1);
            assert_eq!(slots_with(&header, 0).count(), 0);
        }
    }
}
