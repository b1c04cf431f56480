//! An entry of a leaf: a key, its time of expiry, and its value or the place of the value.
//!
//! It begins at any byte with two or three numbers. Each takes as many bytes as it needs, seven
//! bits a byte (LEB128).
//!
//! * The length of the key, and a bit that is set if the key expires.
//! * The length of the value, and two bits for the place of the value.
//! * The time of expiry, if there is one.
//!
//! The key follows, then the value or the numbers of its pages. A value may have a *tail*: its
//! bytes beyond whole pages follow the numbers of these pages. A bit of the length says so. The
//! hash is not stored, because it follows from the key.

use ebbtide_core::{Addr, FullMemory, PAGE_BYTES};
use smallvec::SmallVec;

use super::kind::{Kind, roots_of_tag};
use super::layout::{DATA_BYTES, LEAF_BYTES, Numbers, PageNumber, SLOT_BYTES, copy_out, equals};
use super::pages::HELD_MAX;
use super::varint::{number_bytes, take_number};

/// The largest entry with a value or a tail, in bytes: a leaf holds two.
const INLINE_BYTES_MAX: usize = LEAF_BYTES / 2 - SLOT_BYTES;

/// The most pages of a value that its entry lists. A longer value has pages of page numbers.
pub(super) const LISTED_MAX: usize = 8;

/// Page numbers in a page of them.
const NUMBERS_PER_PAGE: usize = HELD_MAX as usize;

/// The largest value that is written in one piece. Larger ones are written piece by piece:
/// [`Large`](super::Large).
pub const WHOLE_BYTES_MAX: usize = LISTED_MAX * DATA_BYTES;

/// The bit of a listed value's length that says that the entry has its tail. No listed value is as
/// long.
const TAILED: u32 = 1 << 15;
const _: () = assert!(WHOLE_BYTES_MAX < TAILED as usize);

/// The largest value, in bytes. It is Redis's limit.
pub const VALUE_BYTES_MAX: u64 = 512 << 20;

/// The places of a value.
const INLINE: u8 = 0;
const LISTED: u8 = 1;
const CHAINED: u8 = 2;
const COLLECTION: u8 = 3;

/// The fewest bytes of an entry: an empty key with an empty value.
pub(super) const ENTRY_BYTES_MIN: usize = 2;

/// The most bytes of the three numbers.
const HEADER_BYTES_MAX: usize = 2 + 5 + 10;

/// The most bytes of a collection's entry that name its trees: the tag and two roots. A time may
/// follow.
const DESCRIPTOR_BYTES_MAX: usize = 9;

/// The part of an entry in front of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EntryHeader {
    key_bytes: usize,
    place: u8,
    /// The length of the value, perhaps with the bit [`TAILED`].
    length: u32,
    expires_at_ms: Option<u64>,
    /// Bytes of this header.
    bytes: usize,
}

impl EntryHeader {
    /// Reads the header of the entry at `at`. `None` if the entry does not end before `end`: a
    /// writer has torn it.
    fn load<M: FullMemory>(memory: &mut M, at: Addr, end: Addr) -> Option<EntryHeader> {
        let most = HEADER_BYTES_MAX.min((end.0 - at.0) as usize);
        let mut bytes = [0; HEADER_BYTES_MAX];
        memory.read_bytes(at, &mut bytes[..most]);
        let header = EntryHeader::decode(&bytes[..most])?;
        (at.0 + header.entry_bytes() as u64 <= end.0).then_some(header)
    }

    fn decode(bytes: &[u8]) -> Option<EntryHeader> {
        let mut rest = bytes;
        let key = take_number(&mut rest)?;
        let value = take_number(&mut rest)?;
        let expires_at_ms = if key & 1 == 1 { Some(take_number(&mut rest)?) } else { None };
        Some(EntryHeader {
            key_bytes: usize::from((key >> 1) as u16),
            place: value as u8 & 3,
            length: (value >> 2) as u32,
            expires_at_ms,
            bytes: bytes.len() - rest.len(),
        })
    }

    /// Returns the address after the key of the entry at `at`.
    fn payload(&self, at: Addr) -> Addr {
        at + (self.bytes + self.key_bytes) as u64
    }

    /// Returns the number of bytes after the key.
    fn payload_bytes(&self) -> usize {
        let length = self.length as usize;
        match self.place {
            INLINE | COLLECTION => length,
            LISTED => {
                let (pages, tail_bytes) = self.listed();
                4 * pages + tail_bytes
            }
            _ => 4 * length.div_ceil(DATA_BYTES).div_ceil(NUMBERS_PER_PAGE),
        }
    }

    /// Returns the number of pages of a value that lists them, and the bytes of its tail.
    fn listed(&self) -> (usize, usize) {
        let length = (self.length & !TAILED) as usize;
        match self.has_tail() {
            false => (length.div_ceil(DATA_BYTES), 0),
            true => (length / DATA_BYTES, length % DATA_BYTES),
        }
    }

    fn has_tail(&self) -> bool {
        self.place == LISTED && self.length & TAILED != 0
    }

    fn entry_bytes(&self) -> usize {
        self.bytes + self.key_bytes + self.payload_bytes()
    }
}

/// Where the bytes of a value are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the entry itself.
    Inline,
    /// In these pages.
    Listed(Numbers),
    /// In whole pages, and its tail in the entry itself.
    Tailed(Box<Tailed>),
    /// In pages that are listed in these pages. Each of these also names the next.
    Chained(Numbers),
    /// In the entry itself, or in trees with these roots, which the entry names.
    Collection { kind: Kind, roots: Numbers },
}

/// A value of whole pages and a tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tailed {
    pub(super) numbers: Numbers,
    /// The bytes beyond the pages. Empty if the entry was read without its value.
    pub(super) tail: Vec<u8>,
}

impl Place {
    /// Returns the place of a value in these pages, with this tail.
    pub(super) fn listed(numbers: Numbers, tail: &[u8]) -> Place {
        match tail {
            [] => Place::Listed(numbers),
            tail => Place::Tailed(Box::new(Tailed { numbers, tail: tail.to_vec() })),
        }
    }

    /// Returns the pages that the entry lists, and nothing else does.
    pub(super) fn numbers(&self) -> &[PageNumber] {
        match self {
            Place::Listed(numbers) => numbers,
            Place::Tailed(tailed) => &tailed.numbers,
            Place::Inline | Place::Chained(_) | Place::Collection { .. } => &[],
        }
    }

    /// Returns the bytes of a value that lie in the entry behind the numbers of its pages.
    pub(super) fn tail(&self) -> &[u8] {
        match self {
            Place::Tailed(tailed) => &tailed.tail,
            _ => &[],
        }
    }
}

/// A value of more than [`WHOLE_BYTES_MAX`], by the page where its list of pages begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LargeId(pub(super) PageNumber);

/// A keyspace's knowledge of a key, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Bytes in the value.
    pub value_bytes: u64,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at_ms: Option<u64>,
    pub(super) place: Place,
}

impl Entry {
    /// True if the value lies next to its key. Reading the key then reads it too.
    pub fn is_inline(&self) -> bool {
        match &self.place {
            Place::Inline => true,
            Place::Collection { roots, .. } => roots.is_empty(),
            Place::Listed(_) | Place::Tailed(_) | Place::Chained(_) => false,
        }
    }

    /// Returns the bytes of flash that the value takes, in pages and next to its key.
    pub fn stored_bytes(&self) -> u64 {
        let pages = match &self.place {
            Place::Chained(_) => self.value_bytes.div_ceil(DATA_BYTES as u64),
            place => place.numbers().len() as u64,
        };
        let beside = if self.is_inline() { self.value_bytes } else { self.tail_bytes() as u64 };
        pages * PAGE_BYTES as u64 + beside
    }

    /// Returns the bytes of the value's tail; 0 if it has none.
    fn tail_bytes(&self) -> usize {
        match &self.place {
            Place::Tailed(_) => self.value_bytes as usize % DATA_BYTES,
            _ => 0,
        }
    }

    /// True if the entry's value or tail fits next to this key.
    pub(super) fn fits_beside(&self, key: &[u8]) -> bool {
        match self.is_inline() {
            true => fits_inline(key, self.value_bytes as usize),
            false => fits_inline(key, 4 * self.place.numbers().len() + self.tail_bytes()),
        }
    }

    /// Returns the kind of the value.
    pub fn kind(&self) -> Kind {
        match self.place {
            Place::Collection { kind, .. } => kind,
            _ => Kind::String,
        }
    }

    /// True if the entry has the value, or what names its trees.
    fn has_value(&self) -> bool {
        matches!(self.place, Place::Inline | Place::Collection { .. })
    }

    /// Returns the identity of its large value, if it has one. Two values that exist at the same
    /// time differ.
    pub fn large(&self) -> Option<LargeId> {
        match &self.place {
            Place::Chained(lists) => lists.first().map(|first| LargeId(*first)),
            _ => None,
        }
    }

    /// Reads the entry at `at`, which ends before `end`, and appends an inline value to `value`. A
    /// tail is a part of the entry. `None` if a writer has torn it.
    pub(super) fn load<M: FullMemory>(
        memory: &mut M,
        at: Addr,
        end: Addr,
        value: &mut Vec<u8>,
    ) -> Option<Entry> {
        let header = EntryHeader::load(memory, at, end)?;
        let entry = Entry::of(memory, at, &header, usize::MAX);
        if entry.has_value() {
            copy_out(memory, header.payload(at), header.payload_bytes(), value);
        }
        Some(entry)
    }

    /// As [`load`](Entry::load), without an inline value or a tail.
    pub(super) fn load_without_value<M: FullMemory>(
        memory: &mut M,
        at: Addr,
        end: Addr,
    ) -> Option<Entry> {
        let header = EntryHeader::load(memory, at, end)?;
        Some(Entry::of(memory, at, &header, 0))
    }

    /// Returns the entry of a header, with at most `tail_bytes` bytes of its tail.
    fn of<M: FullMemory>(
        memory: &mut M,
        at: Addr,
        header: &EntryHeader,
        tail_bytes: usize,
    ) -> Entry {
        if header.has_tail() {
            return Entry::with_tail(memory, header.payload(at), header, tail_bytes);
        }
        Entry::with(header, |most| {
            let mut bytes = Vec::new();
            let length = header.payload_bytes().min(most);
            copy_out(memory, header.payload(at), length, &mut bytes);
            bytes
        })
    }

    /// Returns the entry of a header whose value has a tail, with at most `tail_bytes` bytes of it.
    fn with_tail<M: FullMemory>(
        memory: &mut M,
        payload: Addr,
        header: &EntryHeader,
        tail_bytes: usize,
    ) -> Entry {
        let (pages, rest) = header.listed();
        let length = rest.min(tail_bytes);
        let (mut numbers, mut tail) = (Vec::with_capacity(4 * pages), Vec::with_capacity(length));
        copy_out(memory, payload, 4 * pages, &mut numbers);
        copy_out(memory, payload + 4 * pages as u64, length, &mut tail);
        let tailed = Tailed { numbers: numbers_in(&numbers), tail };
        Entry {
            value_bytes: (DATA_BYTES * pages + rest) as u64,
            expires_at_ms: header.expires_at_ms,
            place: Place::Tailed(Box::new(tailed)),
        }
    }

    /// Returns the entry of a header whose value has no tail. `payload` returns the start of the
    /// payload, if it is needed: at most as many bytes as it is asked for.
    fn with(header: &EntryHeader, payload: impl FnOnce(usize) -> Vec<u8>) -> Entry {
        let place = match header.place {
            INLINE => Place::Inline,
            LISTED => Place::Listed(numbers_in(&payload(usize::MAX))),
            CHAINED => Place::Chained(numbers_in(&payload(usize::MAX))),
            _ => {
                let descriptor = payload(DESCRIPTOR_BYTES_MAX);
                let (tag, roots) = descriptor.split_first().unwrap_or((&0, &[]));
                let mut roots = numbers_in(roots);
                roots.truncate(roots_of_tag(*tag));
                Place::Collection { kind: Kind::of_tag(*tag), roots }
            }
        };
        let value_bytes = u64::from(header.length);
        Entry { value_bytes, expires_at_ms: header.expires_at_ms, place }
    }
}

/// The page numbers in these bytes.
fn numbers_in(bytes: &[u8]) -> Numbers {
    bytes.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number)).collect()
}

/// Returns true if the entry at `at`, which ends before `end`, is of `key`. False if a writer has
/// torn it.
pub(super) fn has_key<M: FullMemory>(memory: &mut M, at: Addr, end: Addr, key: &[u8]) -> bool {
    EntryHeader::load(memory, at, end).is_some_and(|header| {
        header.key_bytes == key.len() && equals(memory, at + header.bytes as u64, key)
    })
}

/// Returns the kind of the value of the entry at `at`. `None` if a writer has torn it.
pub(super) fn load_kind<M: FullMemory>(memory: &mut M, at: Addr, end: Addr) -> Option<Kind> {
    let header = EntryHeader::load(memory, at, end)?;
    if header.place != COLLECTION || header.length == 0 {
        return Some(Kind::String);
    }
    let mut tag = Vec::new();
    copy_out(memory, header.payload(at), 1, &mut tag);
    tag.first().map(|tag| Kind::of_tag(*tag))
}

/// Appends the key of the entry at `at` to `into`, and returns its time of expiry. `None` if a
/// writer has torn it.
pub(super) fn load_key<M: FullMemory>(
    memory: &mut M,
    at: Addr,
    end: Addr,
    into: &mut Vec<u8>,
) -> Option<Option<u64>> {
    let header = EntryHeader::load(memory, at, end)?;
    copy_out(memory, at + header.bytes as u64, header.key_bytes, into);
    Some(header.expires_at_ms)
}

/// Returns the bytes of the entry at `at`; up to `end` if a writer has torn it.
pub(super) fn entry_bytes<M: FullMemory>(memory: &mut M, at: Addr, end: Addr) -> usize {
    let header = EntryHeader::load(memory, at, end);
    header.map_or((end.0 - at.0) as usize, |header| header.entry_bytes())
}

/// Returns the key in the bytes of an entry; empty if they are not an entry.
pub(super) fn key_in(entry: &[u8]) -> &[u8] {
    let header = EntryHeader::decode(entry);
    header.and_then(|header| entry.get(header.bytes..)?.get(..header.key_bytes)).unwrap_or_default()
}

/// When an entry of these bytes expires.
pub(super) fn expiry_in(entry: &[u8]) -> Option<u64> {
    EntryHeader::decode(entry)?.expires_at_ms
}

/// The bytes after the key in an entry of these bytes, if the entry is of a collection.
pub(super) fn collection_in(entry: &[u8]) -> Option<&[u8]> {
    let header = EntryHeader::decode(entry).filter(|header| header.place == COLLECTION)?;
    entry.get(header.bytes + header.key_bytes..)
}

/// An entry as it is written.
pub(super) type EntryBytes = SmallVec<[u8; 256]>;

/// The bytes of an entry. The entry has `value` if it is inline or of a collection.
pub(super) fn encode(key: &[u8], entry: &Entry, value: &[u8]) -> EntryBytes {
    let mut length = entry.value_bytes;
    let (place, numbers): (u8, &[u32]) = match &entry.place {
        Place::Inline => (INLINE, &[]),
        Place::Listed(numbers) => (LISTED, numbers),
        Place::Tailed(tailed) => {
            assert_eq!(tailed.tail.len(), entry.tail_bytes(), "the whole tail is written");
            length |= u64::from(TAILED);
            (LISTED, &tailed.numbers)
        }
        Place::Chained(numbers) => (CHAINED, numbers),
        Place::Collection { .. } => (COLLECTION, &[]),
    };
    let mut bytes = EntryBytes::new();
    let expires = u64::from(entry.expires_at_ms.is_some());
    bytes.extend_from_slice(&number_bytes((key.len() as u64) << 1 | expires));
    bytes.extend_from_slice(&number_bytes(length << 2 | u64::from(place)));
    if let Some(at) = entry.expires_at_ms {
        bytes.extend_from_slice(&number_bytes(at));
    }
    bytes.extend_from_slice(key);
    if entry.has_value() {
        bytes.extend_from_slice(value);
    }
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    if let Place::Tailed(tailed) = &entry.place {
        bytes.extend_from_slice(&tailed.tail);
    }
    bytes
}

/// Returns the most bytes of a value that lies next to this key, even if the key expires.
pub(super) fn inline_bytes_max(key: &[u8]) -> usize {
    INLINE_BYTES_MAX.saturating_sub(HEADER_BYTES_MAX + key.len())
}

/// True if a value of this many bytes lies next to its key, even if the key expires.
pub(super) fn fits_inline(key: &[u8], value_bytes: usize) -> bool {
    value_bytes <= inline_bytes_max(key)
}

/// Returns the bytes of the tail that a value of this many bytes has next to its key; 0 if it lies
/// in pages only.
pub(super) fn tail_bytes(key: &[u8], value_bytes: usize) -> usize {
    let (pages, rest) = (value_bytes / DATA_BYTES, value_bytes % DATA_BYTES);
    if pages > 0 && fits_inline(key, 4 * pages + rest) { rest } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_testbed::Plain;

    #[test]
    fn an_entry_is_read_as_it_was_written_wherever_it_begins() {
        let numbers = |count: u32| (0..count).map(|i| i * 1_000_003).collect::<Numbers>();
        let cases = [
            (0, 0, Place::Inline),
            (1, 31, Place::Inline),
            (63, 32, Place::Inline),
            (64, 900, Place::Inline),
            (1024, 5 * DATA_BYTES as u64, Place::Listed(numbers(5))),
            (16, DATA_BYTES as u64 + 1, Place::listed(numbers(1), &[9])),
            (900, 7 * DATA_BYTES as u64 + 1_000, Place::listed(numbers(7), &[9; 1_000])),
            (16, VALUE_BYTES_MAX, Place::Chained(numbers(130))),
            (16, 90, Place::Collection { kind: Kind::Set, roots: Numbers::new() }),
            (16, 9, Place::Collection { kind: Kind::SortedSet, roots: numbers(2) }),
        ];
        let end = Addr(4096);
        for (key_bytes, value_bytes, place) in cases {
            for expires_at_ms in [None, Some(0), Some(1_764_000_000_000), Some(u64::MAX)] {
                let key = vec![b'k'; key_bytes];
                let value = match &place {
                    Place::Inline => vec![7; value_bytes as usize],
                    Place::Collection { roots, .. } if roots.is_empty() => {
                        [&[2][..], &vec![7; value_bytes as usize - 1]].concat()
                    }
                    Place::Collection { roots, .. } => {
                        let mut value = vec![0x83];
                        roots.iter().for_each(|root| value.extend_from_slice(&root.to_le_bytes()));
                        value
                    }
                    _ => Vec::new(),
                };
                let entry = Entry { value_bytes, expires_at_ms, place: place.clone() };
                let bytes = encode(&key, &entry, &value);
                assert_eq!(key_in(&bytes), key);
                for at in [64, 65, 127, end.0 - bytes.len() as u64] {
                    let at = Addr(at);
                    let mut memory = Plain::zeroed(4096);
                    super::super::layout::copy_in(&mut memory, at, &bytes);
                    let mut read = Vec::new();
                    assert_eq!(Entry::load(&mut memory, at, end, &mut read), Some(entry.clone()));
                    assert_eq!(read, value);
                    assert!(has_key(&mut memory, at, end, &key));
                    assert!(!has_key(&mut memory, at, end, &[&key[..], b"k"].concat()));
                    assert_eq!(entry_bytes(&mut memory, at, end), bytes.len());
                    let short = Entry::load_without_value(&mut memory, at, end).expect("it is");
                    assert_eq!(short.value_bytes, value_bytes);
                    assert_eq!(short.place.numbers(), place.numbers());
                    assert_eq!(short.place.tail(), b"");
                    let mut read = Vec::new();
                    assert_eq!(load_key(&mut memory, at, end, &mut read), Some(expires_at_ms));
                    assert_eq!(read, key);
                    // It would go on beyond the end.
                    let early = Addr(at.0 + bytes.len() as u64 - 1);
                    assert_eq!(Entry::load(&mut memory, at, early, &mut Vec::new()), None);
                }
            }
        }
    }

    #[test]
    fn small_entries_take_two_bytes_beside_key_and_value() {
        let entry = Entry { value_bytes: 16, expires_at_ms: None, place: Place::Inline };
        assert_eq!(encode(b"key:000000000001", &entry, &[1; 16]).len(), 16 + 16 + ENTRY_BYTES_MIN);
    }
}
