//! [`Collection`]: a value that is a hash, a set, a sorted set, a list or a stream.
//!
//! A small collection is packed: its entry has all elements, one after the other. When they do not
//! fit in an entry any more they move to a [tree] of pages, and the entry names its root. A sorted
//! set has two trees. The elements move back once they fill a small part of one page.
//!
//! | kind | element | order in a tree |
//! |---|---|---|
//! | hash | length of the field, field, perhaps its expiry, value | hash of the field; perhaps a second tree by expiry |
//! | set | member | hash of the member |
//! | sorted set | score, member | score and member, of a long one its start; a second tree by hash of the member |
//! | list | value | place in the list |
//! | stream | id, fields with values | id; perhaps a second tree with its consumer groups |
//!
//! The hash has 128 bits and a secret key, so different names do not collide.

mod expiring;
mod groups;
mod hashed;
mod list;
mod packed;
mod page;
mod sorted;
mod stream;
mod tree;

use ebbtide_core::FullMemory;

use super::entry::{Entry, Place, WHOLE_BYTES_MAX, inline_bytes_max};
use super::key::Key;
use super::kind::Kind;
use super::layout::Numbers;
use super::pages::{Full, Pages};
use super::{Keyspace, Large, LargeId, detached};
use packed::Packed;
use tree::{Access, Payload, Seek, Tree};

pub use expiring::ExpiredFields;
pub(super) use expiring::{all_over, first_expiry};
pub use groups::{Consumer, Group, GroupRecord, NAME_BYTES_MAX, Pending};
pub use hashed::{Field, SCAN_END};
pub use sorted::{MEMBER_BYTES_MAX, ORDERED_BYTES_MAX, Score};
pub use stream::{EntryId, StreamState, fields_of};

/// The longest element that is put in one piece, in bytes. A longer one comes as a [`Large`] value.
/// The element of a hash is a field with its value, and two numbers of up to 10 bytes.
pub const ELEMENT_BYTES_MAX: usize = WHOLE_BYTES_MAX;

/// Bytes of elements at which a tree of one page is packed again. Below that a collection that
/// grows and shrinks does not change its form each time.
const PACKED_AGAIN_BYTES: usize = 512;

#[derive(Clone, Debug)]
enum Body {
    Packed(Packed),
    Trees(Numbers),
}

/// A collection that was found or is being made. Changes of packed elements take effect in
/// [`Keyspace::store_collection`]; changes of trees at once.
#[derive(Clone, Debug)]
pub struct Collection {
    /// Its kind.
    pub kind: Kind,
    /// When its key expires, in milliseconds since the Unix epoch.
    pub expires_at_ms: Option<u64>,
    keyspace: Keyspace,
    body: Body,
    /// Bytes of elements that fit next to the key.
    packed_bytes_max: usize,
    /// True if its key has it.
    is_stored: bool,
    /// True if the entry of its key must be written.
    is_changed: bool,
    /// True if an element was put or removed.
    was_changed: bool,
    /// True if a consumer group of a stream was changed, or its consumers or pending entries.
    changed_groups: bool,
    /// Number of its trees that are in the list of values without a key.
    listed: usize,
    /// Number of its trees that the entry of its key names.
    stored_trees: usize,
    /// Of a hash in trees: the time in its entry.
    no_field_expires_before: Option<u64>,
    /// Of a stream: its state.
    stream: StreamState,
}

impl Collection {
    fn access<'a, M: FullMemory>(&self, memory: &'a mut M) -> Access<'a, M> {
        Access { keyspace: self.keyspace, memory }
    }

    /// The tree of this number. The collection has trees.
    fn tree(&self, number: usize) -> Option<Tree> {
        match &self.body {
            Body::Packed(_) => None,
            // A writer may have torn the entry.
            Body::Trees(roots) => roots.get(number).map(|root| Tree { root: *root }),
        }
    }

    /// True if its elements lie in trees.
    pub fn is_large(&self) -> bool {
        matches!(self.body, Body::Trees(_))
    }

    /// True if an element was put or removed.
    pub fn was_changed(&self) -> bool {
        self.was_changed
    }

    /// True if a consumer group of a stream was changed, or its consumers or pending entries.
    pub fn changed_groups(&self) -> bool {
        self.changed_groups
    }

    /// Adds an element that was [read](Collection::read) from another collection of this kind.
    /// `rank` is its place in a list.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub fn add<M: FullMemory>(
        &mut self,
        memory: &mut M,
        rank: u64,
        element: &[u8],
    ) -> Result<(), Full> {
        match self.kind {
            Kind::Hash | Kind::Set => self.put(memory, element).map(drop),
            Kind::SortedSet => {
                let (score, member) = Score::split(element);
                let old = self.find_member(memory, member);
                self.put_member(memory, old, Score::of(score), member)
            }
            Kind::Stream => self.put_entry(memory, element),
            Kind::List | Kind::String => self.insert_at(memory, rank, element),
        }
    }

    /// True if its key had it before. A new one is stored once it has elements.
    pub fn is_stored(&self) -> bool {
        self.is_stored
    }

    /// Number of elements. Fields that have expired do not count.
    pub fn len<M: FullMemory>(&self, memory: &mut M) -> u64 {
        // A writer may have torn what is read.
        self.stored(memory).saturating_sub(self.expired(memory))
    }

    /// Number of elements that [`read`](Collection::read) returns. Fields that have expired count
    /// until they are removed.
    pub fn stored<M: FullMemory>(&self, memory: &mut M) -> u64 {
        match &self.body {
            Body::Packed(packed) => packed.elements().count() as u64,
            Body::Trees(_) => self.tree(0).map_or(0, |tree| tree.total(&mut self.access(memory))),
        }
    }

    /// True if it has no elements.
    pub fn is_empty<M: FullMemory>(&self, memory: &mut M) -> bool {
        self.len(memory) == 0
    }

    /// Bytes of flash, estimated.
    pub fn estimated_bytes<M: FullMemory>(&self, memory: &mut M) -> u64 {
        match &self.body {
            Body::Packed(packed) => packed.0.len() as u64,
            Body::Trees(roots) => {
                let mut access = self.access(memory);
                roots.iter().map(|root| Tree { root: *root }.estimated_bytes(&mut access)).sum()
            }
        }
    }

    /// Appends at most `most` elements from `rank` on to `into`. Of trees, it reads one leaf.
    /// Returns false if there is none. Fields may have expired: see
    /// [`is_live`](Collection::is_live).
    pub fn read<M: FullMemory>(
        &self,
        memory: &mut M,
        rank: u64,
        most: usize,
        into: &mut Vec<Vec<u8>>,
    ) -> bool {
        let before = into.len();
        match &self.body {
            Body::Packed(packed) => {
                let elements = packed.elements().skip(rank as usize).take(most);
                into.extend(elements.map(<[u8]>::to_vec));
            }
            Body::Trees(_) => {
                let Some(tree) = self.tree(0) else { return false };
                let mut elements = Vec::new();
                tree.read(&mut self.access(memory), rank, most, &mut elements);
                into.extend(elements.into_iter().map(|parts| match self.kind {
                    Kind::SortedSet => sorted::element_of(parts),
                    Kind::Stream => [parts.0, parts.1].concat(),
                    _ => parts.1,
                }));
            }
        }
        into.len() > before
    }

    /// Returns the element at `rank`.
    pub fn at<M: FullMemory>(&self, memory: &mut M, rank: u64) -> Option<Vec<u8>> {
        let mut elements = Vec::new();
        self.read(memory, rank, 1, &mut elements);
        elements.pop()
    }

    /// Moves packed elements to trees.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    fn unpack<M: FullMemory>(&mut self, memory: &mut M) -> Result<(), Full> {
        self.make_room(memory, usize::MAX / 2)
    }

    /// Puts an element of a hash, a set or a stream, as [`add`](Collection::add) does. `element`
    /// has its bytes. `name` is its name, or the bytes of its id, which are not in `element`.
    /// `expires_at_ms` is the expiry of a field. The element is no value without a key any more.
    /// Returns true if the name is new.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub fn put_large<M: FullMemory>(
        &mut self,
        memory: &mut M,
        (name, expires_at_ms): (&[u8], Option<u64>),
        element: &Large,
    ) -> Result<bool, Full> {
        self.unpack(memory)?;
        self.was_changed = true;
        if self.kind == Kind::Hash {
            return self.put_field(memory, name, expires_at_ms, Payload::Large(element));
        }
        let hash = self.hash_of(name);
        let key = if self.kind == Kind::Stream { name } else { &hash[..] };
        let tree = self.tree(0).expect("it has trees");
        tree.put(&mut self.access(memory), Seek::Key(key), Payload::Large(element))
    }

    /// Inserts a value of a list before the one at `rank`, as [`put_large`](Collection::put_large)
    /// does.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub fn insert_large_at<M: FullMemory>(
        &mut self,
        memory: &mut M,
        rank: u64,
        value: &Large,
    ) -> Result<(), Full> {
        self.unpack(memory)?;
        self.was_changed = true;
        let tree = self.tree(0).expect("it has trees");
        tree.put(&mut self.access(memory), Seek::Rank(rank), Payload::Large(value)).map(drop)
    }

    /// Replaces the value of a list at `rank`, as [`put_large`](Collection::put_large) does.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub fn replace_large_at<M: FullMemory>(
        &mut self,
        memory: &mut M,
        rank: u64,
        value: &Large,
    ) -> Result<(), Full> {
        self.unpack(memory)?;
        self.was_changed = true;
        let tree = self.tree(0).expect("it has trees");
        tree.replace(&mut self.access(memory), rank, Payload::Large(value))
    }

    /// Makes sure that one more element of `bytes` bytes fits, in trees if need be.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    fn make_room<M: FullMemory>(&mut self, memory: &mut M, bytes: usize) -> Result<(), Full> {
        match &self.body {
            Body::Packed(packed) if packed.0.len() + bytes > self.packed_bytes_max => {}
            _ => return Ok(()),
        }
        let Body::Packed(packed) = &self.body else { return Ok(()) };
        let mut roots = Numbers::new();
        let filled = self.fill_trees(memory, packed, &mut roots);
        if let Err(full) = filled {
            self.drop_trees(memory, &roots);
            return Err(full);
        }
        self.no_field_expires_before = packed.first_expiry().filter(|_| self.kind == Kind::Hash);
        self.body = Body::Trees(roots);
        self.is_changed = true;
        Ok(())
    }

    fn fill_trees<M: FullMemory>(
        &self,
        memory: &mut M,
        packed: &Packed,
        roots: &mut Numbers,
    ) -> Result<(), Full> {
        let mut access = self.access(memory);
        let expires = self.kind == Kind::Hash && packed.expires();
        for _ in 0..self.kind.trees() + usize::from(expires) {
            roots.push(Tree::create(&mut access)?.root);
        }
        for (rank, element) in packed.elements().enumerate() {
            self.put_in_trees(&mut access, roots, rank as u64, element)?;
        }
        Ok(())
    }

    /// Puts an element in trees. `rank` is its place in a list.
    fn put_in_trees<M: FullMemory>(
        &self,
        access: &mut Access<'_, M>,
        roots: &[u32],
        rank: u64,
        element: &[u8],
    ) -> Result<bool, Full> {
        let tree = Tree { root: roots[0] };
        match self.kind {
            Kind::List | Kind::String => {
                tree.put(access, Seek::Rank(rank), Payload::Bytes(element))
            }
            Kind::Hash | Kind::Set => {
                let key = self.hash_of(hashed::name_of(self.kind, element));
                if let Some(expiring) = roots.get(1) {
                    expiring::put_new(access, *expiring, element, &key)?;
                }
                tree.put(access, Seek::Key(&key), Payload::Bytes(element))
            }
            Kind::Stream => {
                let (id, fields) = stream::parts(element);
                tree.put(access, Seek::Key(id), Payload::Bytes(fields))
            }
            Kind::SortedSet => {
                let by_member = Tree { root: roots[1] };
                let hash = self.hash_of(sorted::member_of(element));
                let (key, payload) = self.by_score(element);
                tree.put(access, Seek::Key(&key), payload)?;
                let put = by_member.put(access, Seek::Key(&hash), Payload::Bytes(element));
                if put.is_err() {
                    tree.remove(access, Seek::Key(&key));
                }
                put
            }
        }
    }

    /// Adds the trees of a collection without a key to the list of values without one. Calls `hold`
    /// for each that was not there yet, before any other job can find it and free its pages.
    /// Returns the results of `hold`.
    pub fn list<M: FullMemory, H>(
        &mut self,
        memory: &mut M,
        hold: impl FnMut(LargeId) -> H,
    ) -> Vec<H> {
        let Body::Trees(roots) = &self.body else { return Vec::new() };
        if self.is_stored {
            return Vec::new();
        }
        let new = Numbers::from(&roots[self.listed..]);
        let held = new.iter().copied().map(LargeId).map(hold).collect();
        self.drop_trees(memory, &new);
        self.listed += new.len();
        held
    }

    /// Leaves trees that no entry names to upkeep.
    fn drop_trees<M: FullMemory>(&self, memory: &mut M, roots: &[u32]) {
        for root in roots {
            detached::add(&self.keyspace, memory, LargeId(*root));
        }
    }

    /// The elements of trees that are small enough to be packed.
    fn packed_again<M: FullMemory>(&self, memory: &mut M) -> Option<Packed> {
        let tree = self.tree(0)?;
        if self.keeps_groups(memory) {
            return None;
        }
        let bytes = tree.leaf_bytes(&mut self.access(memory))?;
        if bytes > PACKED_AGAIN_BYTES.min(self.packed_bytes_max) {
            return None;
        }
        let (mut elements, mut packed) = (Vec::new(), Packed::default());
        self.read(memory, 0, usize::MAX, &mut elements);
        elements.retain(|element| self.is_live(element));
        elements.iter().enumerate().for_each(|(at, element)| packed.insert(at, element));
        Some(packed)
    }

    /// The bytes of its entry after the key.
    fn descriptor(&self, body: &Body) -> (Vec<u8>, Numbers) {
        match body {
            Body::Packed(packed) => {
                let tag = self.kind.tag(0);
                ([&[tag], &self.state_bytes()[..], &packed.0[..]].concat(), Numbers::new())
            }
            Body::Trees(roots) => {
                let mut bytes = vec![self.kind.tag(roots.len())];
                roots.iter().for_each(|root| bytes.extend_from_slice(&root.to_le_bytes()));
                if let Some(at) = self.no_field_expires_before {
                    bytes.extend_from_slice(&at.to_le_bytes());
                }
                bytes.extend_from_slice(&self.state_bytes());
                (bytes, roots.clone())
            }
        }
    }
}

impl Keyspace {
    /// A collection without elements, for a key that has no value or another one.
    pub fn new_collection(&self, key: &Key<'_>, kind: Kind) -> Collection {
        Collection {
            kind,
            expires_at_ms: None,
            keyspace: *self,
            body: Body::Packed(Packed::default()),
            packed_bytes_max: inline_bytes_max(key.bytes)
                .saturating_sub(1 + stream::state_bytes(kind)),
            is_stored: false,
            is_changed: false,
            was_changed: false,
            changed_groups: false,
            listed: 0,
            stored_trees: 0,
            no_field_expires_before: None,
            stream: StreamState::default(),
        }
    }

    /// The collection of an entry that was found with `value`. `None` if it is a string.
    pub fn open_collection(
        &self,
        key: &Key<'_>,
        entry: &Entry,
        value: &[u8],
    ) -> Option<Collection> {
        let Place::Collection { kind, roots } = &entry.place else { return None };
        let state_at = 1 + roots.len() * 4;
        let body = if roots.is_empty() {
            let elements = value.get(state_at + stream::state_bytes(*kind)..);
            let packed = Packed(elements.unwrap_or_default().to_vec());
            Body::Packed(match kind {
                Kind::Hash => packed.without_expired(self.now_ms),
                _ => packed,
            })
        } else {
            Body::Trees(roots.clone())
        };
        let new = self.new_collection(key, *kind);
        let expires_at_ms = entry.expires_at_ms;
        let (stored_trees, is_stored) = (roots.len(), true);
        let no_field_expires_before = first_expiry(value).filter(|_| !roots.is_empty());
        let stream = match kind {
            Kind::Stream => StreamState::decode(value.get(state_at..).unwrap_or_default()),
            _ => StreamState::default(),
        };
        Some(Collection {
            expires_at_ms,
            body,
            is_stored,
            stored_trees,
            no_field_expires_before,
            stream,
            ..new
        })
    }

    /// True if the entry that was found with `value` is of a hash whose fields have all expired.
    pub fn is_over<M: FullMemory>(&self, memory: &mut M, entry: &Entry, value: &[u8]) -> bool {
        let Place::Collection { kind: Kind::Hash, roots } = &entry.place else { return false };
        let [fields, expiring] = roots[..] else { return all_over(value, self.now_ms) };
        if first_expiry(value).is_none_or(|at| at > self.now_ms) {
            return false;
        }
        let access = &mut Access { keyspace: *self, memory };
        let over = expiring::expired_in(access, Tree { root: expiring }, self.now_ms);
        Tree { root: fields }.total(access) <= over
    }

    /// Writes the entry of a collection, if it must be written. Removes the key of one without
    /// elements, unless it is a stream.
    ///
    /// # Errors
    /// [`Full`] when there is no room; the entry is as before then.
    pub fn store_collection<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        key: &Key<'_>,
        collection: &mut Collection,
    ) -> Result<(), Full> {
        if collection.kind != Kind::Stream && collection.is_empty(memory) {
            if !collection.is_stored {
                collection.list(memory, |_| ());
            }
            self.remove(memory, database, key);
            return Ok(());
        }
        if let Some(packed) = collection.packed_again(memory) {
            let packed = Body::Packed(packed);
            if self.put_collection(memory, database, key, collection, &packed).is_ok() {
                if let Body::Trees(roots) = &collection.body {
                    collection.drop_trees(memory, &roots[collection.listed..]);
                }
                collection.body = packed;
                return Ok(());
            }
        }
        if !collection.is_changed {
            return Ok(());
        }
        let put = self.put_collection(memory, database, key, collection, &collection.body);
        match (&put, &collection.body) {
            // They were made by this change.
            (Err(_), Body::Trees(roots)) => {
                let kept = collection.stored_trees.max(collection.listed);
                collection.drop_trees(memory, &roots[kept..]);
            }
            (Ok(()), Body::Trees(roots)) => {
                let listed = roots[..collection.listed].iter();
                listed.for_each(|root| detached::remove(self, memory, LargeId(*root)));
            }
            _ => {}
        }
        put?;
        (collection.is_stored, collection.is_changed) = (true, false);
        let roots = if let Body::Trees(roots) = &collection.body { roots.len() } else { 0 };
        (collection.listed, collection.stored_trees) = (0, roots);
        Ok(())
    }

    /// Stores a packed collection under a key whose length leaves no room for its elements.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub(super) fn store_unpacked<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        key: &Key<'_>,
        mut collection: Collection,
    ) -> Result<(), Full> {
        collection.unpack(memory)?;
        (collection.is_stored, collection.is_changed) = (false, true);
        let put = self.put_collection(memory, database, key, &collection, &collection.body);
        if let (Err(_), Body::Trees(roots)) = (&put, &collection.body) {
            collection.drop_trees(memory, roots);
        }
        put
    }

    fn put_collection<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        key: &Key<'_>,
        collection: &Collection,
        body: &Body,
    ) -> Result<(), Full> {
        let (value, roots) = collection.descriptor(body);
        let entry = Entry {
            value_bytes: value.len() as u64,
            expires_at_ms: collection.expires_at_ms,
            place: Place::Collection { kind: collection.kind, roots },
        };
        let old = self.put(memory, database, key, &entry, &value)?;
        if !collection.is_stored {
            self.give_replaced(memory, old);
        }
        Ok(())
    }
}

/// Frees some pages of the tree at `root`, which no key has. Returns false once only the root is
/// left.
pub(super) fn reduce<M: FullMemory>(keyspace: &Keyspace, memory: &mut M, root: u32) -> bool {
    Tree { root }.reduce(&mut Access { keyspace: *keyspace, memory })
}

/// True if a value without a key is a tree of elements.
pub(super) fn is_tree<M: FullMemory>(pages: &Pages, memory: &mut M, number: u32) -> bool {
    page::Page::load(memory, pages.address(number)).is_tree()
}
