//! Fields of a hash that expire.
//!
//! A field whose time is over counts as removed: it is neither found nor counted. Packed fields
//! that have expired are dropped when the hash is opened. A hash in trees has a second tree, which
//! is made with its first field that expires. It has these fields in the order of their times. So
//! the number of expired fields is a rank in it, and [`Collection::remove_expired`] finds them.
//!
//! The entry of such a hash ends with a time in eight bytes: no field expires earlier. A field that
//! expires earlier moves it. One that is removed leaves it. An entry of an older build has no time,
//! and the next field that expires adds it. So the [index of due leaves](super::super::due) finds a
//! hash without a look at its trees.

use ebbtide_core::FullMemory;

use super::super::kind::roots_of_tag;
use super::hashed::Field;
use super::packed::{self, Packed};
use super::tree::{Access, Element, Payload, Seek, Tree};
use super::{Body, Collection, Full, Key, Keyspace, Kind};

/// Bytes of a time in front of the hash of a field.
const TIME_BYTES: usize = 8;

/// The key of a field in the tree of fields that expire.
fn due_key(at_ms: u64, hash: &[u8]) -> Vec<u8> {
    [&at_ms.to_be_bytes(), hash].concat()
}

/// True if an element of a hash has expired.
fn is_over(element: &[u8], now_ms: u64) -> bool {
    Field::decode(element).expires_at_ms.is_some_and(|at| at <= now_ms)
}

/// Puts a field that is new into the tree of fields that expire, if it expires.
///
/// # Errors
/// [`Full`] when there is no room; nothing has changed then.
pub(super) fn put_new<M: FullMemory>(
    access: &mut Access<'_, M>,
    root: u32,
    element: &[u8],
    hash: &[u8],
) -> Result<(), Full> {
    if let Some(at) = Field::decode(element).expires_at_ms {
        let due = due_key(at, hash);
        Tree { root }.put(access, Seek::Key(&due), Payload::Bytes(&[]))?;
    }
    Ok(())
}

/// Number of fields that have expired in the tree of fields that expire.
pub(super) fn expired_in<M: FullMemory>(
    access: &mut Access<'_, M>,
    tree: Tree,
    now_ms: u64,
) -> u64 {
    tree.lower_bound(access, &now_ms.saturating_add(1).to_be_bytes())
}

/// The time at which the first of these fields expires; `None` if none does.
fn first_of<'a>(elements: impl Iterator<Item = &'a [u8]>) -> Option<u64> {
    elements.filter_map(|element| Field::decode(element).expires_at_ms).min()
}

/// A time before which no field expires, from the part of a collection's entry after the key.
/// `None` if no field expires, or it is no hash.
pub(in crate::keyspace) fn first_expiry(body: &[u8]) -> Option<u64> {
    let (tag, rest) = body.split_first()?;
    match (Kind::of_tag(*tag), roots_of_tag(*tag)) {
        (Kind::Hash, 0) => first_of(packed::elements(rest)),
        (Kind::Hash, roots) => {
            let time = rest.get(roots * 4..)?;
            Some(u64::from_le_bytes(time.try_into().ok()?))
        }
        _ => None,
    }
}

/// True if the part of a collection's entry after the key is of a packed hash, and all its fields
/// have expired.
pub(in crate::keyspace) fn all_over(body: &[u8], now_ms: u64) -> bool {
    let Some((tag, packed)) = body.split_first() else { return false };
    if (Kind::of_tag(*tag), roots_of_tag(*tag)) != (Kind::Hash, 0) {
        return false;
    }
    let mut elements = packed::elements(packed).peekable();
    elements.peek().is_some() && elements.all(|element| is_over(element, now_ms))
}

/// What [`Keyspace::expire_fields`] has removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiredFields {
    /// Number of fields.
    pub fields: usize,
    /// True if the key was removed, because all of its fields had expired.
    pub key: bool,
}

impl Keyspace {
    /// Removes at most `most` expired fields of a hash in trees, or all of a packed one. Removes
    /// the key at once if all fields have expired. The caller holds the key's stripe.
    ///
    /// # Errors
    /// [`Full`] when there is no room for the entry, which is longer once the hash is packed again.
    pub fn expire_fields<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        key: &Key<'_>,
        most: usize,
    ) -> Result<ExpiredFields, Full> {
        let mut value = Vec::new();
        let found = self.find(memory, database, key, &mut value);
        let hash = found.and_then(|entry| self.open_collection(key, &entry, &value));
        let Some(mut hash) = hash.filter(|hash| hash.kind == Kind::Hash) else {
            return Ok(ExpiredFields::default());
        };
        let is_over = hash.is_empty(memory);
        let fields = match &hash.body {
            Body::Packed(live) => {
                let before = packed::elements(value.get(1..).unwrap_or_default()).count();
                before - live.elements().count()
            }
            Body::Trees(_) if is_over => usize::try_from(hash.stored(memory)).unwrap_or(usize::MAX),
            Body::Trees(_) => hash.remove_expired(memory, most),
        };
        hash.note_first_expiry(memory);
        hash.is_changed |= fields > 0;
        self.store_collection(memory, database, key, &mut hash)?;
        Ok(ExpiredFields { fields, key: is_over })
    }
}

impl Packed {
    /// Drops the fields that have expired.
    pub(super) fn without_expired(self, now_ms: u64) -> Packed {
        if !self.elements().any(|element| is_over(element, now_ms)) {
            return self;
        }
        let mut live = Packed::default();
        let elements = self.elements().filter(|element| !is_over(element, now_ms));
        elements.for_each(|element| live.insert(usize::MAX, element));
        live
    }

    /// The time at which the first field expires; `None` if none does.
    pub(super) fn first_expiry(&self) -> Option<u64> {
        first_of(self.elements())
    }

    /// True if a field expires.
    pub(super) fn expires(&self) -> bool {
        self.first_expiry().is_some()
    }
}

impl Collection {
    /// The tree of fields that expire.
    fn expiring(&self) -> Option<Tree> {
        if self.kind == Kind::Hash { self.tree(1) } else { None }
    }

    /// True unless this is the element of a field that has expired.
    pub fn is_live(&self, element: &[u8]) -> bool {
        self.kind != Kind::Hash || !is_over(element, self.keyspace.now_ms)
    }

    /// True if it is a hash that may have fields that expire.
    pub fn may_expire(&self) -> bool {
        match &self.body {
            Body::Packed(packed) => self.kind == Kind::Hash && packed.expires(),
            Body::Trees(_) => self.expiring().is_some(),
        }
    }

    /// Number of fields that have expired and are not removed.
    pub fn expired<M: FullMemory>(&self, memory: &mut M) -> u64 {
        let (tree, now_ms) = (self.expiring(), self.keyspace.now_ms);
        tree.map_or(0, |tree| expired_in(&mut self.access(memory), tree, now_ms))
    }

    /// Makes the tree of fields that expire, if the hash is in trees. The collection must be stored
    /// before such a field is put. A hash that is packed needs no such tree.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub fn prepare_expiry<M: FullMemory>(&mut self, memory: &mut M) -> Result<(), Full> {
        if self.kind != Kind::Hash || self.expiring().is_some() || !self.is_large() {
            return Ok(());
        }
        let tree = Tree::create(&mut self.access(memory))?;
        if let Body::Trees(roots) = &mut self.body {
            roots.push(tree.root);
        }
        (self.is_changed, self.was_changed) = (true, true);
        Ok(())
    }

    /// The time at which the first field of a hash in trees expires.
    fn first_in_trees<M: FullMemory>(&self, memory: &mut M) -> Option<u64> {
        let mut first: Vec<Element> = Vec::new();
        self.expiring()?.read(&mut self.access(memory), 0, 1, &mut first);
        let time = first.first().and_then(|(key, _)| key.first_chunk::<TIME_BYTES>());
        time.map(|time| u64::from_be_bytes(*time))
    }

    /// Notes the time at which the first field of a hash in trees expires.
    fn note_first_expiry<M: FullMemory>(&mut self, memory: &mut M) {
        if self.is_large() {
            let first = self.first_in_trees(memory);
            self.is_changed |= first != self.no_field_expires_before;
            self.no_field_expires_before = first;
        }
    }

    /// Puts a field that lies in trees. Returns true if its name is new.
    ///
    /// # Errors
    /// [`Full`] when there is no room; no field has changed then.
    pub(super) fn put_field<M: FullMemory>(
        &mut self,
        memory: &mut M,
        name: &[u8],
        expires_at_ms: Option<u64>,
        payload: Payload<'_>,
    ) -> Result<bool, Full> {
        if expires_at_ms.is_some() {
            self.prepare_expiry(memory)?;
        }
        let (hash, now_ms) = (self.hash_of(name), self.keyspace.now_ms);
        let fields = self.tree(0).expect("it has trees");
        let Some(expiring) = self.expiring() else {
            return fields.put(&mut self.access(memory), Seek::Key(&hash), payload);
        };
        let mut access = self.access(memory);
        let old = fields.find(&mut access, &hash);
        let old = old.and_then(|(_, element)| Field::decode(&element).expires_at_ms);
        let due = expires_at_ms.filter(|_| expires_at_ms != old).map(|at| due_key(at, &hash));
        if let Some(due) = &due {
            expiring.put(&mut access, Seek::Key(due), Payload::Bytes(&[]))?;
        }
        let put = fields.put(&mut access, Seek::Key(&hash), payload);
        match (&put, &due, old) {
            (Err(_), Some(due), _) => drop(expiring.remove(&mut access, Seek::Key(due))),
            (Ok(_), _, Some(at)) if expires_at_ms != old => {
                expiring.remove(&mut access, Seek::Key(&due_key(at, &hash)));
            }
            _ => {}
        }
        if put.is_ok()
            && expires_at_ms
                .is_some_and(|at| self.no_field_expires_before.is_none_or(|first| at < first))
        {
            self.note_first_expiry(memory);
        }
        put.map(|is_new| is_new || old.is_some_and(|at| at <= now_ms))
    }

    /// Removes a field that lies in trees. Returns its element.
    pub(super) fn remove_field<M: FullMemory>(
        &self,
        memory: &mut M,
        name: &[u8],
    ) -> Option<Vec<u8>> {
        let (hash, mut access) = (self.hash_of(name), self.access(memory));
        let (_, element) = self.tree(0)?.remove(&mut access, Seek::Key(&hash))?;
        if let (Some(expiring), Some(at)) = (self.expiring(), Field::decode(&element).expires_at_ms)
        {
            expiring.remove(&mut access, Seek::Key(&due_key(at, &hash)));
        }
        Some(element)
    }

    /// Removes at most `most` fields that have expired. Returns their number.
    pub fn remove_expired<M: FullMemory>(&mut self, memory: &mut M, most: usize) -> usize {
        let most = most.min(usize::try_from(self.expired(memory)).unwrap_or(usize::MAX));
        let (Some(fields), Some(expiring)) = (self.tree(0), self.expiring()) else { return 0 };
        let mut access = self.access(memory);
        let mut due: Vec<Element> = Vec::new();
        if most > 0 {
            expiring.read(&mut access, 0, most, &mut due);
        }
        for (key, _) in &due {
            fields.remove(&mut access, Seek::Key(key.get(TIME_BYTES..).unwrap_or_default()));
            expiring.remove(&mut access, Seek::Key(key));
        }
        self.was_changed |= !due.is_empty();
        due.len()
    }
}
