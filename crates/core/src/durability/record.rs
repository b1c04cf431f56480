//! The records of the log: the stores of a transaction, and the slot that a page was written to.

use super::Lsn;
use super::geometry::{get_u32, get_u64};
use super::write_set::{StoredWord, WriteSet};
use crate::addr::{Addr, PageId};

/// Bytes before the contents of a record: its kind and length.
pub(super) const HEAD_BYTES: usize = 4;

/// The longest contents of a record.
pub(super) const CONTENTS_MAX: usize = (1 << 24) - 1;

const STORES: u8 = 1;
const MAP: u8 = 2;

/// Bytes of the contents of a [`Map`].
const MAP_BYTES: usize = 24;

/// Bytes of a whole map record.
pub(super) const MAP_RECORD_BYTES: usize = HEAD_BYTES + MAP_BYTES;

/// A page was written to a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Map {
    pub(super) page: PageId,
    pub(super) slot: u32,
    pub(super) checksum: u32,
    /// The copy of the page contains every record before this place.
    pub(super) covers: Lsn,
}

/// Words that were stored at consecutive addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run<'a> {
    pub(super) at: Addr,
    /// Whole words, as memory holds them.
    pub(super) bytes: &'a [u8],
}

/// A whole record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Record<'a> {
    /// All stores of one transaction.
    Stores(&'a [u8]),
    Map(Map),
}

/// Returns the most bytes that a record takes for `bytes` bytes of single words.
pub(super) const fn stores_bytes_max(bytes: usize) -> usize {
    HEAD_BYTES + 2 * bytes
}

fn head(kind: u8, contents: usize) -> [u8; HEAD_BYTES] {
    assert!(contents <= CONTENTS_MAX, "a record has {contents} bytes");
    (u32::from(kind) | (contents as u32) << 8).to_le_bytes()
}

/// Returns the bytes of the whole record that begins with `head`.
pub(super) fn record_bytes(head: &[u8]) -> usize {
    HEAD_BYTES + (get_u32(head, 0) >> 8) as usize
}

/// Writes the record of a transaction's stores into `out`, which must be empty.
pub(super) fn encode_stores(set: &WriteSet, out: &mut Vec<u8>) {
    debug_assert!(out.is_empty());
    out.extend_from_slice(&[0; HEAD_BYTES]);
    let (mut run_at, mut next) = (0, None);
    for StoredWord { at, word, .. } in set.words() {
        let words =
            if next == Some(at) { u16::from_le_bytes([out[run_at], out[run_at + 1]]) } else { 0 };
        if words == 0 || words == u16::MAX {
            run_at = out.len();
            out.extend_from_slice(&((at.0 / 8) << 16 | 1).to_le_bytes());
        } else {
            out[run_at..run_at + 2].copy_from_slice(&(words + 1).to_le_bytes());
        }
        out.extend_from_slice(&word.to_ne_bytes());
        next = Some(at + 8);
    }
    let head = head(STORES, out.len() - HEAD_BYTES);
    out[..HEAD_BYTES].copy_from_slice(&head);
}

/// Writes a map record into `out`.
pub(super) fn encode_map(map: &Map, out: &mut Vec<u8>) {
    out.extend_from_slice(&head(MAP, MAP_BYTES));
    out.extend_from_slice(&map.page.0.to_le_bytes());
    out.extend_from_slice(&map.slot.to_le_bytes());
    out.extend_from_slice(&map.checksum.to_le_bytes());
    out.extend_from_slice(&map.covers.0.to_le_bytes());
}

/// Decodes the whole record in `bytes`. `None` if it is not valid for a store of `pages` pages.
pub(super) fn decode(bytes: &[u8], pages: u64) -> Option<Record<'_>> {
    let contents = &bytes[HEAD_BYTES..];
    match bytes[0] {
        STORES => runs(contents)
            .all(|run| run.is_some_and(|run| run.last_page() < pages))
            .then_some(Record::Stores(contents)),
        MAP if contents.len() == MAP_BYTES && get_u64(contents, 0) < pages => {
            Some(Record::Map(Map {
                page: PageId(get_u64(contents, 0)),
                slot: get_u32(contents, 8),
                checksum: get_u32(contents, 12),
                covers: Lsn(get_u64(contents, 16)),
            }))
        }
        _ => None,
    }
}

impl Run<'_> {
    fn last_page(&self) -> u64 {
        (self.at + (self.bytes.len() as u64 - 1)).page().0
    }
}

/// Returns the runs of a transaction's stores; `None` where they are invalid.
pub(super) fn runs(contents: &[u8]) -> impl Iterator<Item = Option<Run<'_>>> {
    let mut rest = contents;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let run = (rest.len() >= 8).then(|| get_u64(rest, 0)).and_then(|head| {
            let bytes = (head & 0xffff) as usize * 8;
            let run = rest.get(8..8 + bytes).filter(|run| !run.is_empty())?;
            Some((Run { at: Addr((head >> 16) * 8), bytes: run }, &rest[8 + bytes..]))
        });
        rest = run.map_or(&[], |(_, rest)| rest);
        Some(run.map(|(run, _)| run))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_words_share_a_head_and_all_come_back() {
        let mut set = WriteSet::default();
        for at in [4096 - 8, 4096, 4104, 8192] {
            set.store(Addr(at), &at.to_le_bytes());
        }
        let mut bytes = Vec::new();
        encode_stores(&set, &mut bytes);
        assert_eq!(bytes.len(), HEAD_BYTES + 8 + 3 * 8 + 8 + 8);
        assert_eq!(record_bytes(&bytes), bytes.len());
        let Some(Record::Stores(contents)) = decode(&bytes, 3) else { panic!("it is whole") };
        let words: Vec<(Addr, u64)> = runs(contents)
            .flat_map(|run| {
                let run = run.expect("it makes sense");
                let words = run.bytes.as_chunks::<8>().0.iter().enumerate();
                words.map(move |(index, word)| {
                    (run.at + index as u64 * 8, u64::from_le_bytes(*word))
                })
            })
            .collect();
        let stored = set.words().map(|stored| (stored.at, stored.word));
        assert_eq!(words, stored.collect::<Vec<_>>());
        assert_eq!(decode(&bytes, 2), None, "the last word lies beyond the store");
        assert!(bytes.len() <= stores_bytes_max(set.bytes()));
    }

    #[test]
    fn a_map_record_comes_back() {
        let map = Map { page: PageId(5), slot: 6, checksum: 7, covers: Lsn(8) };
        let mut bytes = Vec::new();
        encode_map(&map, &mut bytes);
        assert_eq!(bytes.len(), MAP_RECORD_BYTES);
        assert_eq!(decode(&bytes, 6), Some(Record::Map(map)));
        assert_eq!(decode(&bytes, 5), None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_make_a_decoder_panic(
            bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 4..200),
            kind in 0u8..4,
            pages in 0u64..100,
        ) {
            let mut bytes = bytes;
            bytes[0] = kind;
            if let Some(Record::Stores(contents)) = decode(&bytes, pages) {
                for run in runs(contents) {
                    let run = run.expect("what was decoded makes sense");
                    proptest::prop_assert!((run.at + (run.bytes.len() as u64 - 1)).page().0 < pages);
                }
            }
        }
    }
}
