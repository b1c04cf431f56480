//! Sorted sets: members in the order of their scores.
//!
//! An element is the key in the tree by score. A long element does not fit in a key. Its key is its
//! start and the hash of the member, and the element is the payload. Long members of one score that
//! begin alike are in the order of these hashes.

use std::borrow::Cow;

use ebbtide_core::FullMemory;

use super::packed;
use super::tree::{self, Payload, Seek};
use super::{Body, Collection, ELEMENT_BYTES_MAX, Full};

/// The longest member of a sorted set, in bytes.
pub const MEMBER_BYTES_MAX: usize = ELEMENT_BYTES_MAX - SCORE_BYTES;

/// The bytes that decide the order of members of one score. Longer members that begin alike are in
/// no particular order.
pub const ORDERED_BYTES_MAX: usize = KEY_START_BYTES - SCORE_BYTES;

const SCORE_BYTES: usize = 8;

/// Bytes of a long element that its key has. Room is left for the pages of the payload.
const KEY_START_BYTES: usize = 900;

/// A score as bytes that sort as the numbers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score(pub [u8; SCORE_BYTES]);

impl Score {
    /// The bytes of a score. Zero has one sign.
    pub fn of(score: f64) -> Score {
        let bits = (score + 0.0).to_bits();
        let sign = 1 << 63;
        Score((if bits & sign == 0 { bits | sign } else { !bits }).to_be_bytes())
    }

    /// The score.
    pub fn value(self) -> f64 {
        let bits = u64::from_be_bytes(self.0);
        let sign = 1 << 63;
        f64::from_bits(if bits & sign == 0 { !bits } else { bits ^ sign })
    }

    /// The element of a member with this score.
    pub fn with(self, member: &[u8]) -> Vec<u8> {
        [&self.0, member].concat()
    }

    /// Decodes an element of a sorted set: its score and its member.
    pub fn split(element: &[u8]) -> (f64, &[u8]) {
        match element.split_first_chunk::<SCORE_BYTES>() {
            Some((score, member)) => (Score(*score).value(), member),
            None => (0.0, &[]),
        }
    }
}

/// The member of an element.
pub(super) fn member_of(element: &[u8]) -> &[u8] {
    element.get(SCORE_BYTES..).unwrap_or_default()
}

/// The element of these parts of the tree by score.
pub(super) fn element_of((key, payload): tree::Element) -> Vec<u8> {
    if payload.is_empty() { key } else { payload }
}

impl Collection {
    /// The key and the payload of an element in the tree by score.
    pub(super) fn by_score<'e>(&self, element: &'e [u8]) -> (Cow<'e, [u8]>, Payload<'e>) {
        if element.len() <= tree::KEY_BYTES_MAX {
            return (element.into(), Payload::Bytes(&[]));
        }
        let hash = self.hash_of(member_of(element));
        ([&element[..KEY_START_BYTES], &hash].concat().into(), Payload::Bytes(element))
    }

    /// As [`rank_of`](Collection::rank_of), in trees, of a bound that is too long for a key.
    fn rank_of_long<M: FullMemory>(&self, memory: &mut M, tree: tree::Tree, bound: &[u8]) -> u64 {
        // The bound is an element, or comes just after one.
        for (element, after) in [(Some(bound), 0), (bound.strip_suffix(&[0]), 1)] {
            let Some(element) = element else { continue };
            if self.find_member(memory, member_of(element)).as_deref() == Some(element) {
                let (key, _) = self.by_score(element);
                return tree.lower_bound(&mut self.access(memory), &key) + after;
            }
        }
        tree.lower_bound(&mut self.access(memory), bound)
    }

    /// Returns the element of a member of a sorted set.
    pub fn find_member<M: FullMemory>(&self, memory: &mut M, member: &[u8]) -> Option<Vec<u8>> {
        match &self.body {
            Body::Packed(packed) => {
                packed.elements().find(|element| member_of(element) == member).map(<[u8]>::to_vec)
            }
            Body::Trees(_) => {
                let key = self.hash_of(member);
                Some(self.tree(1)?.find(&mut self.access(memory), &key)?.1)
            }
        }
    }

    /// Number of elements of a sorted set that are less than `bound`: a score, or a score and a
    /// member. In a stream, the bound is the bytes of an id.
    pub fn rank_of<M: FullMemory>(&self, memory: &mut M, bound: &[u8]) -> u64 {
        match &self.body {
            Body::Packed(packed) => {
                packed.elements().take_while(|element| *element < bound).count() as u64
            }
            Body::Trees(_) => self.tree(0).map_or(0, |tree| match bound.len() {
                ..=tree::KEY_BYTES_MAX => tree.lower_bound(&mut self.access(memory), bound),
                _ => self.rank_of_long(memory, tree, bound),
            }),
        }
    }

    /// Sets the score of a member of a sorted set. `old` is what
    /// [`find_member`](Collection::find_member) returns.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub fn put_member<M: FullMemory>(
        &mut self,
        memory: &mut M,
        old: Option<Vec<u8>>,
        score: Score,
        member: &[u8],
    ) -> Result<(), Full> {
        let element = score.with(member);
        let more = if old.is_some() { 0 } else { packed::bytes_of(&element) };
        self.make_room(memory, more)?;
        self.was_changed = true;
        match &mut self.body {
            Body::Packed(packed) => {
                if let Some(old) = old.and_then(|old| packed.elements().position(|e| e == old)) {
                    packed.remove(old);
                }
                let at = packed.elements().take_while(|other| *other < &element[..]).count();
                packed.insert(at, &element);
                self.is_changed = true;
            }
            Body::Trees(roots) => {
                let roots = roots.clone();
                let mut access = self.access(memory);
                if old.as_ref() == Some(&element) {
                    return Ok(());
                }
                self.put_in_trees(&mut access, &roots, 0, &element)?;
                if let Some(old) = old {
                    let (key, _) = self.by_score(&old);
                    let mut access = self.access(memory);
                    tree::Tree { root: roots[0] }.remove(&mut access, Seek::Key(&key));
                }
            }
        }
        Ok(())
    }

    /// Removes a member of a sorted set. Returns true if it was there.
    pub fn remove_member<M: FullMemory>(&mut self, memory: &mut M, member: &[u8]) -> bool {
        let Some(element) = self.find_member(memory, member) else { return false };
        self.was_changed = true;
        match &mut self.body {
            Body::Packed(packed) => {
                let at = packed.elements().position(|other| other == element);
                at.and_then(|at| packed.remove(at));
                self.is_changed = true;
            }
            Body::Trees(roots) => {
                let roots = roots.clone();
                let (hash, (key, _)) = (self.hash_of(member), self.by_score(&element));
                let mut access = self.access(memory);
                tree::Tree { root: roots[0] }.remove(&mut access, Seek::Key(&key));
                tree::Tree { root: roots[1] }.remove(&mut access, Seek::Key(&hash));
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_sort_as_bytes_and_come_back() {
        let scores = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -f64::MIN_POSITIVE,
            0.0,
            f64::MIN_POSITIVE,
            1.0,
            1.0 + f64::EPSILON,
            f64::MAX,
            f64::INFINITY,
        ];
        assert!(scores.windows(2).all(|two| Score::of(two[0]) < Score::of(two[1])));
        assert!(scores.iter().all(|score| Score::of(*score).value() == *score));
        assert_eq!(Score::of(-0.0), Score::of(0.0));
    }
}
