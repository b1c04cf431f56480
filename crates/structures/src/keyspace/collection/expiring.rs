//! Fields of a hash that expire.
//!
//! A field whose time is over counts as removed: it is neither found nor counted. Packed fields
//! that have expired are dropped when the hash is opened. A hash in trees has a second tree, which
//! is made with its first field that expires. It has these fields in the order of their times. So
//! the number of expired fields is a rank in it, and [`Collection::remove_expired`] finds them.

use ebbtide_core::Memory;

use super::hashed::Field;
use super::packed::{self, Packed};
use super::tree::{Access, Element, Payload, Seek, Tree};
use super::{Body, Collection, Full, Kind};

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
pub(super) fn put_new<M: Memory>(
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

/// True if all fields in packed bytes have expired, and there are some.
pub(super) fn all_over(packed: &[u8], now_ms: u64) -> bool {
    let mut elements = packed::elements(packed).peekable();
    elements.peek().is_some() && elements.all(|element| is_over(element, now_ms))
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

    /// True if a field expires.
    pub(super) fn expires(&self) -> bool {
        self.elements().any(|element| Field::decode(element).expires_at_ms.is_some())
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
    pub fn expired<M: Memory>(&self, memory: &mut M) -> u64 {
        let first_later = self.keyspace.now_ms.saturating_add(1).to_be_bytes();
        let tree = self.expiring();
        tree.map_or(0, |tree| tree.lower_bound(&mut self.access(memory), &first_later))
    }

    /// Makes the tree of fields that expire, if the hash is in trees. The collection must be stored
    /// before such a field is put. A hash that is packed needs no such tree.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub fn prepare_expiry<M: Memory>(&mut self, memory: &mut M) -> Result<(), Full> {
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

    /// Puts a field that lies in trees. Returns true if its name is new.
    ///
    /// # Errors
    /// [`Full`] when there is no room; no field has changed then.
    pub(super) fn put_field<M: Memory>(
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
        put.map(|is_new| is_new || old.is_some_and(|at| at <= now_ms))
    }

    /// Removes a field that lies in trees. Returns its element.
    pub(super) fn remove_field<M: Memory>(&self, memory: &mut M, name: &[u8]) -> Option<Vec<u8>> {
        let (hash, mut access) = (self.hash_of(name), self.access(memory));
        let (_, element) = self.tree(0)?.remove(&mut access, Seek::Key(&hash))?;
        if let (Some(expiring), Some(at)) = (self.expiring(), Field::decode(&element).expires_at_ms)
        {
            expiring.remove(&mut access, Seek::Key(&due_key(at, &hash)));
        }
        Some(element)
    }

    /// Removes at most `most` fields that have expired. Returns their number.
    pub fn remove_expired<M: Memory>(&mut self, memory: &mut M, most: usize) -> usize {
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
