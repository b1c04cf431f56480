//! The forms of values in files and dumps, by their type bytes.
//!
//! Redis has written collections as counted elements and in packed forms: sets of integers,
//! ziplists, zipmaps and listpacks. All that stock Redis 7.4 reads is decoded here.

use ebbtide_structures::keyspace::{Field, Kind, Score};

use super::packs::{integers, listpack, ziplist, zipmap};
use super::text::{read_length, take_text};
use crate::number;

/// Type byte of a string.
pub(crate) const STRING: u8 = 0;

/// Type bytes of counted elements. Scores were once texts.
pub(crate) const LIST: u8 = 1;
pub(crate) const SET: u8 = 2;
pub(crate) const SORTED_SET_OF_TEXTS: u8 = 3;
pub(crate) const HASH: u8 = 4;
pub(crate) const SORTED_SET: u8 = 5;
pub(crate) const HASH_WITH_EXPIRY: u8 = 24;

/// Type bytes of lists in counted packs.
pub(crate) const LIST_OF_ZIPLISTS: u8 = 14;
pub(crate) const LIST_OF_PACKS: u8 = 18;

/// Type bytes of collections in one pack.
pub(crate) const HASH_ZIPMAP: u8 = 9;
pub(crate) const LIST_ZIPLIST: u8 = 10;
pub(crate) const SET_OF_INTEGERS: u8 = 11;
pub(crate) const SORTED_SET_ZIPLIST: u8 = 12;
pub(crate) const HASH_ZIPLIST: u8 = 13;
pub(crate) const HASH_PACKED: u8 = 16;
pub(crate) const SORTED_SET_PACKED: u8 = 17;
pub(crate) const SET_PACKED: u8 = 20;
pub(crate) const HASH_PACKED_WITH_EXPIRY: u8 = 25;

/// A node of a list: one value, or a listpack.
const PLAIN: usize = 1;
const PACKED: usize = 2;

/// First byte of a score that is no number of digits.
pub(crate) const NOT_A_NUMBER: u8 = 253;
pub(crate) const INFINITE: u8 = 254;
pub(crate) const MINUS_INFINITE: u8 = 255;

/// Decodes the collection that takes up all of `dump`. Its elements have at most `bytes_max` bytes
/// together.
pub(crate) fn decode(dump: &[u8], bytes_max: usize) -> Option<(Kind, Vec<Vec<u8>>)> {
    let (&form, rest) = dump.split_first()?;
    let mut source = Source { rest, left: bytes_max };
    let kind = match form {
        LIST | LIST_ZIPLIST | LIST_OF_ZIPLISTS | LIST_OF_PACKS => Kind::List,
        SET | SET_OF_INTEGERS | SET_PACKED => Kind::Set,
        HASH
        | HASH_ZIPMAP
        | HASH_ZIPLIST
        | HASH_PACKED
        | HASH_WITH_EXPIRY
        | HASH_PACKED_WITH_EXPIRY => Kind::Hash,
        SORTED_SET_OF_TEXTS | SORTED_SET | SORTED_SET_ZIPLIST | SORTED_SET_PACKED => {
            Kind::SortedSet
        }
        _ => return None,
    };
    let elements = match form {
        LIST_ZIPLIST => ziplist(&source.text()?)?,
        SET_OF_INTEGERS => integers(&source.text()?)?,
        SET_PACKED => listpack(&source.text()?)?,
        HASH_ZIPMAP => fields(zipmap(&source.text()?)?)?,
        HASH_ZIPLIST => fields(ziplist(&source.text()?)?)?,
        HASH_PACKED => fields(listpack(&source.text()?)?)?,
        SORTED_SET_ZIPLIST => scored(ziplist(&source.text()?)?)?,
        SORTED_SET_PACKED => scored(listpack(&source.text()?)?)?,
        HASH_PACKED_WITH_EXPIRY => {
            // The earliest expiry.
            source.array::<8>()?;
            expiring_fields(listpack(&source.text()?)?)?
        }
        _ => source.counted(form)?,
    };
    (source.rest.is_empty() && !elements.is_empty()).then_some((kind, elements))
}

/// The bytes of a dump that were not decoded yet, and the bytes that they may decode to.
struct Source<'a> {
    rest: &'a [u8],
    left: usize,
}

impl Source<'_> {
    fn length(&mut self) -> Option<usize> {
        let (length, rest) = read_length(self.rest)?;
        self.rest = rest;
        Some(length)
    }

    fn text(&mut self) -> Option<Vec<u8>> {
        let text = take_text(&mut self.rest, self.left)?;
        self.left = self.left.checked_sub(text.len())?;
        Some(text)
    }

    fn array<const BYTES: usize>(&mut self) -> Option<[u8; BYTES]> {
        let (array, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*array)
    }

    /// Decodes counted elements.
    fn counted(&mut self, form: u8) -> Option<Vec<Vec<u8>>> {
        // The times of fields count from here.
        let base = if form == HASH_WITH_EXPIRY { u64::from_le_bytes(self.array()?) } else { 0 };
        let mut elements = Vec::new();
        for _ in 0..self.length()? {
            match form {
                HASH => elements.push(field(&self.text()?, &self.text()?)),
                HASH_WITH_EXPIRY => {
                    let left = self.length()?;
                    let at = base.checked_add(left as u64)?;
                    let expires_at_ms = if left == 0 { None } else { Some(at - 1) };
                    let (name, value) = (self.text()?, self.text()?);
                    elements.push(Field { name: &name, expires_at_ms, value: &value }.encode());
                }
                SORTED_SET => {
                    let member = self.text()?;
                    elements.push(member_of(f64::from_le_bytes(self.array()?), &member)?);
                }
                SORTED_SET_OF_TEXTS => {
                    let member = self.text()?;
                    elements.push(member_of(self.score()?, &member)?);
                }
                LIST_OF_ZIPLISTS => elements.append(&mut ziplist(&self.text()?)?),
                LIST_OF_PACKS => match (self.length()?, self.text()?) {
                    (PLAIN, text) => elements.push(text),
                    (PACKED, text) => elements.append(&mut listpack(&text)?),
                    _ => return None,
                },
                _ => elements.push(self.text()?),
            }
        }
        Some(elements)
    }

    /// Decodes a score that is a text.
    fn score(&mut self) -> Option<f64> {
        match self.array::<1>()?[0] {
            NOT_A_NUMBER => None,
            INFINITE => Some(f64::INFINITY),
            MINUS_INFINITE => Some(f64::NEG_INFINITY),
            length => number::float(self.rest.split_off(..usize::from(length))?),
        }
    }
}

fn field(name: &[u8], value: &[u8]) -> Vec<u8> {
    Field { name, expires_at_ms: None, value }.encode()
}

fn member_of(score: f64, member: &[u8]) -> Option<Vec<u8>> {
    (!score.is_nan()).then(|| Score::of(score).with(member))
}

/// The elements of a hash, from fields and values in turn.
fn fields(texts: Vec<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let (pairs, odd) = texts.as_chunks::<2>();
    odd.is_empty().then(|| pairs.iter().map(|[name, value]| field(name, value)).collect())
}

/// The elements of a hash, from fields, values and times of expiry in turn. No time is 0.
fn expiring_fields(texts: Vec<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let (triples, odd) = texts.as_chunks::<3>();
    let element = |[name, value, at]: &[Vec<u8>; 3]| {
        let at = u64::try_from(number::integer(at)?).ok()?;
        Some(Field { name, expires_at_ms: (at > 0).then_some(at), value }.encode())
    };
    if odd.is_empty() { triples.iter().map(element).collect() } else { None }
}

/// The elements of a sorted set, from members and scores in turn.
fn scored(texts: Vec<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let (pairs, odd) = texts.as_chunks::<2>();
    let elements = pairs.iter().map(|[member, score]| member_of(number::float(score)?, member));
    if odd.is_empty() { elements.collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(pieces: &[&[u8]]) -> Vec<u8> {
        pieces.concat()
    }

    #[test]
    fn old_forms_of_sorted_sets_lists_and_hashes_are_decoded() {
        let set = pieces(&[&[SORTED_SET_OF_TEXTS, 3, 1, b'a', 3], b"2.5", &[1, b'b', INFINITE]]);
        let set = pieces(&[&set, &[1, b'c', MINUS_INFINITE]]);
        let members = [(2.5, b"a"), (f64::INFINITY, b"b"), (f64::NEG_INFINITY, b"c")];
        let members = members.map(|(score, member)| Score::of(score).with(member)).to_vec();
        assert_eq!(decode(&set, 100), Some((Kind::SortedSet, members)));
        let nan = pieces(&[&[SORTED_SET_OF_TEXTS, 1, 1, b'a', NOT_A_NUMBER]]);
        assert_eq!(decode(&nan, 100), None);

        let ziplist = [15, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xf2, 2, 0xf3, 0xff];
        let list = pieces(&[&[LIST_OF_ZIPLISTS, 2, 15], &ziplist, &[15], &ziplist]);
        let texts = ["1", "2", "1", "2"].map(|text| text.as_bytes().to_vec()).to_vec();
        assert_eq!(decode(&list, 100), Some((Kind::List, texts)));
        assert_eq!(decode(&list, 29), None, "more than it may hold");
        let hash = pieces(&[&[HASH_ZIPLIST, 15], &ziplist]);
        assert_eq!(decode(&hash, 100), Some((Kind::Hash, vec![field(b"1", b"2")])));
        for end in 0..list.len() {
            assert_eq!(decode(&list[..end], 100), None);
        }
    }
}
