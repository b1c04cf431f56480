//! Hashes and sets: elements that are found by name.

use std::hash::Hasher;

use ebbtide_core::FullMemory;
use siphasher::sip128::{Hasher128, SipHasher13};

use super::super::varint::{number_bytes, take_number};
use super::packed;
use super::tree::{Element, Payload, Seek};
use super::{Body, Collection, Full, Kind};

/// The end of a scan.
pub const SCAN_END: u64 = 1 << 48;

/// Bytes of the part of a hash that a cursor has.
const CURSOR_BYTES: usize = 6;

/// A field of a hash, with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at_ms: Option<u64>,
    /// Its value.
    pub value: &'a [u8],
}

impl<'a> Field<'a> {
    /// Decodes an element of a hash. It is empty if a writer has torn the element.
    pub fn decode(element: &'a [u8]) -> Field<'a> {
        Field::parse(element).unwrap_or(Field { name: &[], expires_at_ms: None, value: &[] })
    }

    fn parse(element: &'a [u8]) -> Option<Field<'a>> {
        let mut rest = element;
        let head = take_number(&mut rest)?;
        let (name, mut value) = rest.split_at_checked((head >> 1) as usize)?;
        let expires_at_ms = if head & 1 == 1 { Some(take_number(&mut value)?) } else { None };
        Some(Field { name, expires_at_ms, value })
    }

    /// The element of a hash.
    pub fn encode(&self) -> Vec<u8> {
        let mut element = Vec::with_capacity(self.name.len() + self.value.len() + 12);
        let expires = u64::from(self.expires_at_ms.is_some());
        element.extend_from_slice(&number_bytes((self.name.len() as u64) << 1 | expires));
        element.extend_from_slice(self.name);
        if let Some(at) = self.expires_at_ms {
            element.extend_from_slice(&number_bytes(at));
        }
        element.extend_from_slice(self.value);
        element
    }
}

/// The name in an element of a hash or a set.
pub(super) fn name_of(kind: Kind, element: &[u8]) -> &[u8] {
    if kind == Kind::Hash { Field::decode(element).name } else { element }
}

impl Collection {
    /// The hash of a name.
    pub(super) fn hash_of(&self, name: &[u8]) -> [u8; 16] {
        let [one, other] = self.keyspace.secret.0;
        let mut hasher = SipHasher13::new_with_keys(one, other);
        hasher.write(name);
        hasher.finish128().as_u128().to_be_bytes()
    }

    /// Finds an element of a hash or a set. A field that has expired is not found.
    pub fn find<M: FullMemory>(&self, memory: &mut M, name: &[u8]) -> Option<Vec<u8>> {
        let found = match &self.body {
            Body::Packed(packed) => {
                let is_named = |element: &&[u8]| name_of(self.kind, element) == name;
                packed.elements().find(is_named).map(<[u8]>::to_vec)
            }
            Body::Trees(_) => {
                let key = self.hash_of(name);
                let found = self.tree(0)?.find(&mut self.access(memory), &key)?;
                Some(found.1)
            }
        };
        found.filter(|element| self.is_live(element))
    }

    /// Puts an element of a hash or a set, in place of one of the same name. Returns true if the
    /// name is new.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub fn put<M: FullMemory>(&mut self, memory: &mut M, element: &[u8]) -> Result<bool, Full> {
        let (kind, name) = (self.kind, name_of(self.kind, element));
        let old = match &self.body {
            Body::Packed(packed) => packed.elements().position(|old| name_of(kind, old) == name),
            Body::Trees(_) => None,
        };
        let old_bytes = match (&self.body, old) {
            (Body::Packed(packed), Some(old)) => packed.elements().nth(old).map(packed::bytes_of),
            _ => None,
        };
        let more = packed::bytes_of(element).saturating_sub(old_bytes.unwrap_or(0));
        self.make_room(memory, more)?;
        self.was_changed = true;
        match &mut self.body {
            Body::Packed(packed) => {
                let at = old.unwrap_or(usize::MAX);
                if old.is_some() {
                    packed.remove(at);
                }
                packed.insert(at, element);
                self.is_changed = true;
                Ok(old.is_none())
            }
            Body::Trees(_) if kind == Kind::Hash => {
                let expires_at_ms = Field::decode(element).expires_at_ms;
                self.put_field(memory, name, expires_at_ms, Payload::Bytes(element))
            }
            Body::Trees(roots) => {
                let roots = roots.clone();
                self.put_in_trees(&mut self.access(memory), &roots, 0, element)
            }
        }
    }

    /// Removes an element of a hash or a set. Returns true if it was there and had not expired.
    pub fn remove<M: FullMemory>(&mut self, memory: &mut M, name: &[u8]) -> bool {
        let kind = self.kind;
        let gone = match &mut self.body {
            Body::Packed(packed) => {
                let at = packed.elements().position(|element| name_of(kind, element) == name);
                let gone = at.and_then(|at| packed.remove(at));
                self.is_changed |= gone.is_some();
                gone
            }
            Body::Trees(_) if kind == Kind::Hash => self.remove_field(memory, name),
            Body::Trees(_) => {
                let key = self.hash_of(name);
                let tree = self.tree(0).expect("it has trees");
                tree.remove(&mut self.access(memory), Seek::Key(&key)).map(|gone| gone.1)
            }
        };
        self.was_changed |= gone.is_some();
        gone.is_some_and(|element| self.is_live(&element))
    }

    /// Appends about `count` elements, in the order of the hashes of their names, from `cursor` on
    /// to `into`. Returns the next cursor; [`SCAN_END`] at the end. Calls from 0 to the end meet an
    /// element if it is there all the time. The form of the collection may change in between.
    pub fn scan<M: FullMemory>(
        &self,
        memory: &mut M,
        cursor: u64,
        count: u64,
        into: &mut Vec<Vec<u8>>,
    ) -> u64 {
        if !self.is_large() {
            self.read(memory, 0, usize::MAX, into);
            return SCAN_END;
        }
        let by_name = usize::from(self.kind == Kind::SortedSet);
        let Some(tree) = self.tree(by_name) else { return SCAN_END };
        let mut access = self.access(memory);
        let from = cursor.to_be_bytes();
        let mut rank = tree.lower_bound(&mut access, &from[8 - CURSOR_BYTES..]);
        let mut last = None;
        loop {
            let mut elements: Vec<Element> = Vec::new();
            if !tree.read(&mut access, rank, usize::MAX, &mut elements) {
                return SCAN_END;
            }
            rank += elements.len() as u64;
            for (key, payload) in elements {
                let place = place_of(&key);
                // Elements of one place belong to one reply.
                if into.len() as u64 >= count && last.is_some_and(|last| last != place) {
                    return last.map_or(SCAN_END, |last| last + 1);
                }
                last = Some(place);
                if self.is_live(&payload) {
                    into.push(payload);
                }
            }
        }
    }
}

/// The part of a key that a cursor has.
fn place_of(key: &[u8]) -> u64 {
    key.iter().take(CURSOR_BYTES).fold(0, |place, byte| place << 8 | u64::from(*byte))
}
