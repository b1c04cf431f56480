//! An entry of a leaf: a key, when it expires, and its value or where that lies.

use ebbtide_core::{Addr, Memory};
use smallvec::SmallVec;

use super::layout::{DATA_BYTES, PageNumber, copy_out, equals};
use super::pages::HELD_MAX;

/// The largest entry with its value inline, in words. Larger values lie in pages of their own.
pub(super) const INLINE_WORDS_MAX: usize = 240;

/// Pages of a value that its entry lists. Beyond, it lists pages of page numbers.
pub(super) const LISTED_MAX: usize = 8;

/// Page numbers in a page of them.
const NUMBERS_PER_PAGE: usize = HELD_MAX as usize;

/// The largest value that is written at once. Larger ones are written piece by piece: [`Large`](super::Large).
pub const WHOLE_BYTES_MAX: usize = LISTED_MAX * DATA_BYTES;

/// The largest value, in bytes: what Redis allows.
pub const VALUE_BYTES_MAX: u64 = 512 << 20;

/// Where a value lies.
const INLINE: u8 = 0;
const LISTED: u8 = 1;
const CHAINED: u8 = 2;

/// The entry has a time of expiry.
const EXPIRES: u8 = 1;

/// The numbers of the pages of a value, or of the pages that list them.
pub(super) type Numbers = SmallVec<[PageNumber; 4]>;

/// The first word of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EntryHeader {
    pub(super) key_bytes: u16,
    place: u8,
    pub(super) expires: bool,
    pub(super) value_bytes: u32,
}

impl EntryHeader {
    pub(super) fn decode(word: u64) -> EntryHeader {
        EntryHeader {
            key_bytes: word as u16,
            place: (word >> 16) as u8,
            expires: (word >> 24) as u8 & EXPIRES != 0,
            value_bytes: (word >> 32) as u32,
        }
    }

    fn encode(self) -> u64 {
        let flags = if self.expires { EXPIRES } else { 0 };
        u64::from(self.value_bytes) << 32
            | u64::from(flags) << 24
            | u64::from(self.place) << 16
            | u64::from(self.key_bytes)
    }

    /// Bytes behind the key.
    fn payload_bytes(&self) -> usize {
        let pages = (self.value_bytes as usize).div_ceil(DATA_BYTES);
        match self.place {
            INLINE => self.value_bytes as usize,
            LISTED => 4 * pages,
            _ => 4 * pages.div_ceil(NUMBERS_PER_PAGE),
        }
    }

    /// Words of the entry. What was torn by a writer may have any number.
    pub(super) fn words(&self) -> usize {
        self.prefix_words() + (self.key_bytes as usize + self.payload_bytes()).div_ceil(8)
    }

    fn prefix_words(&self) -> usize {
        1 + usize::from(self.expires)
    }
}

/// Where the bytes of a value are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the entry itself.
    Inline,
    /// In these pages.
    Listed(Numbers),
    /// In pages whose numbers are in these pages, each of which also names the next.
    Chained(Numbers),
}

/// A value of more than [`WHOLE_BYTES_MAX`], by the page where its list of pages begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LargeId(pub(super) PageNumber);

/// What a keyspace knows of a key beside its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Bytes in the value.
    pub value_bytes: u64,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at_ms: Option<u64>,
    pub(super) place: Place,
}

impl Entry {
    /// Whether the value lies beside its key, where reading the key reads it too.
    pub fn is_inline(&self) -> bool {
        self.place == Place::Inline
    }

    /// Which large value it has, if it has one. Two values that are there at the same time differ.
    pub fn large(&self) -> Option<LargeId> {
        match &self.place {
            Place::Chained(lists) => lists.first().map(|first| LargeId(*first)),
            _ => None,
        }
    }

    /// Reads the entry at `at`, which ends before `end`, and appends an inline value to `value`.
    /// `None` if it was torn by a writer.
    pub(super) fn load<M: Memory>(
        memory: &mut M,
        at: Addr,
        end: Addr,
        value: &mut Vec<u8>,
    ) -> Option<Entry> {
        let header = EntryHeader::decode(memory.load(at));
        if at.0 + header.words() as u64 * 8 > end.0 {
            return None;
        }
        let expires_at_ms = header.expires.then(|| memory.load::<u64>(at + 8));
        let payload = at + header.prefix_words() as u64 * 8 + u64::from(header.key_bytes);
        let mut numbers = || {
            let mut bytes = Vec::new();
            copy_out(memory, payload, header.payload_bytes(), &mut bytes);
            bytes.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number)).collect()
        };
        let place = match header.place {
            INLINE => {
                copy_out(memory, payload, header.value_bytes as usize, value);
                Place::Inline
            }
            LISTED => Place::Listed(numbers()),
            _ => Place::Chained(numbers()),
        };
        let value_bytes = u64::from(header.value_bytes);
        Some(Entry { value_bytes, expires_at_ms, place })
    }
}

/// Whether the entry at `at`, which ends before `end`, is of `key`. False if it was torn.
pub(super) fn has_key<M: Memory>(memory: &mut M, at: Addr, end: Addr, key: &[u8]) -> bool {
    let header = EntryHeader::decode(memory.load(at));
    header.key_bytes as usize == key.len()
        && at.0 + header.words() as u64 * 8 <= end.0
        && equals(memory, at + header.prefix_words() as u64 * 8, key)
}

/// Appends the key of the entry at `at` to `into`, and gives when it expires. `None` if it was torn.
pub(super) fn load_key<M: Memory>(
    memory: &mut M,
    at: Addr,
    end: Addr,
    into: &mut Vec<u8>,
) -> Option<Option<u64>> {
    let header = EntryHeader::decode(memory.load(at));
    if at.0 + header.words() as u64 * 8 > end.0 {
        return None;
    }
    let expires = header.expires.then(|| memory.load::<u64>(at + 8));
    copy_out(memory, at + header.prefix_words() as u64 * 8, header.key_bytes.into(), into);
    Some(expires)
}

/// An entry as it is written, word by word.
pub(super) type EntryWords = SmallVec<[u64; 36]>;

/// The words of an entry. `value` is an inline value.
pub(super) fn encode(key: &[u8], entry: &Entry, value: &[u8]) -> EntryWords {
    let (place, numbers): (u8, &[u32]) = match &entry.place {
        Place::Inline => (INLINE, &[]),
        Place::Listed(numbers) => (LISTED, numbers),
        Place::Chained(numbers) => (CHAINED, numbers),
    };
    let header = EntryHeader {
        key_bytes: key.len() as u16,
        place,
        expires: entry.expires_at_ms.is_some(),
        value_bytes: entry.value_bytes as u32,
    };
    let mut words = EntryWords::from_elem(0, header.words());
    words[0] = header.encode();
    if let Some(at) = entry.expires_at_ms {
        words[1] = at;
    }
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words[header.prefix_words()..]);
    let (of_key, of_payload) = bytes.split_at_mut(key.len());
    of_key.copy_from_slice(key);
    match &entry.place {
        Place::Inline => of_payload[..value.len()].copy_from_slice(value),
        _ => {
            for (number, bytes) in numbers.iter().zip(of_payload.as_chunks_mut::<4>().0) {
                *bytes = number.to_le_bytes();
            }
        }
    }
    words
}

/// Whether a value of so many bytes lies beside its key.
pub(super) fn fits_inline(key: &[u8], expires: bool, value_bytes: usize) -> bool {
    1 + usize::from(expires) + (key.len() + value_bytes).div_ceil(8) <= INLINE_WORDS_MAX
}
