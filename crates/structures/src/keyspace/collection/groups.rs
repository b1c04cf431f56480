//! Consumer groups of a stream.
//!
//! A stream with groups lies in trees, and has a second tree with its groups, their consumers and
//! their pending entries. Every record has a key of these parts:
//!
//! | key | payload |
//! |---|---|
//! | 0 | the number of the next group |
//! | 1, name of the group | its number, last id, entries read, the number of its next consumer |
//! | 2, group, name of the consumer | its number, when it was seen |
//! | 3, group, number of the consumer | its name |
//! | 4, group, id | consumer, time and count of deliveries |
//! | 5, group, number of the consumer, id | nothing |
//!
//! So the pending entries of a group and those of a consumer are in the order of their ids, and are
//! counted by ranks. A name that is long does not fit in a key. Its key has its start and its hash,
//! and the name follows the payload.

use ebbtide_core::FullMemory;

use super::super::varint::{number_bytes, take_number};
use super::tree::{self, Payload, Seek, Tree};
use super::{Body, Collection, EntryId, Full, Kind};

/// The longest name of a group or a consumer, in bytes.
pub const NAME_BYTES_MAX: usize = 32_000;

/// Bytes of a name that its key has.
const KEY_NAME_BYTES: usize = 800;

/// Bytes of the number of a group or a consumer.
const NUMBER_BYTES: usize = 6;

/// The first byte of a key.
const NEXT: u8 = 0;
const GROUP: u8 = 1;
const CONSUMER: u8 = 2;
const NAME: u8 = 3;
const PENDING: u8 = 4;
const OWNED: u8 = 5;

/// A record of the tree of groups: its key and its payload.
pub type GroupRecord = tree::Element;

/// A consumer group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: Vec<u8>,
    /// The id of the last entry that was delivered.
    pub last: EntryId,
    /// Number of entries up to that one that were ever added, if it is known.
    pub entries_read: Option<u64>,
    number: u64,
    next_consumer: u64,
}

/// A consumer of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// Its name.
    pub name: Vec<u8>,
    /// Its number within the group.
    pub number: u64,
    /// When it was last seen, in milliseconds since the Unix epoch.
    pub seen_ms: u64,
}

/// An entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The id of the entry.
    pub id: EntryId,
    /// The number of its consumer.
    pub consumer: u64,
    /// When it was last delivered, in milliseconds since the Unix epoch.
    pub delivered_ms: u64,
    /// Number of deliveries.
    pub deliveries: u64,
}

impl Pending {
    fn encode(&self) -> Vec<u8> {
        let numbers = [self.consumer, self.delivered_ms, self.deliveries];
        numbers.iter().flat_map(|number| number_bytes(*number)).collect()
    }

    /// Decodes a pending entry. Its numbers are 0 if a writer has torn them.
    fn decode(id: EntryId, mut payload: &[u8]) -> Pending {
        let [consumer, delivered_ms, deliveries] =
            [(); 3].map(|()| take_number(&mut payload).unwrap_or(0));
        Pending { id, consumer, delivered_ms, deliveries }
    }
}

impl Group {
    fn payload(&self) -> Vec<u8> {
        let mut payload = number_bytes(self.number).to_vec();
        payload.extend_from_slice(&self.last.to_bytes());
        let read = self.entries_read.map_or(0, |read| read.saturating_add(1));
        payload.extend_from_slice(&number_bytes(read));
        payload.extend_from_slice(&number_bytes(self.next_consumer));
        payload.extend_from_slice(outside_of_key(&self.name));
        payload
    }

    fn decode(key: &[u8], payload: &[u8]) -> Option<Group> {
        let mut rest = payload;
        let number = take_number(&mut rest)?;
        let (last, mut rest) = rest.split_first_chunk::<16>()?;
        let entries_read = take_number(&mut rest)?.checked_sub(1);
        let next_consumer = take_number(&mut rest)?;
        let name = name_of(key.get(1..)?, rest);
        Some(Group { name, last: EntryId::of(last), entries_read, number, next_consumer })
    }

    /// The start of a key of this kind.
    fn prefix(&self, kind: u8) -> Vec<u8> {
        [&[kind], &bytes_of(self.number)[..]].concat()
    }

    fn pending_key(&self, id: EntryId) -> Vec<u8> {
        [&self.prefix(PENDING)[..], &id.to_bytes()].concat()
    }

    fn owned_key(&self, consumer: u64, id: EntryId) -> Vec<u8> {
        [&self.prefix(OWNED)[..], &bytes_of(consumer), &id.to_bytes()].concat()
    }

    fn name_key(&self, consumer: u64) -> Vec<u8> {
        [&self.prefix(NAME)[..], &bytes_of(consumer)].concat()
    }

    /// The start of the keys of the pending entries of a consumer, or of the group.
    fn pending_prefix(&self, consumer: Option<&Consumer>) -> Vec<u8> {
        match consumer {
            Some(consumer) => [&self.prefix(OWNED)[..], &bytes_of(consumer.number)].concat(),
            None => self.prefix(PENDING),
        }
    }
}

impl Consumer {
    fn payload(&self) -> Vec<u8> {
        let numbers = [self.number, self.seen_ms].into_iter().flat_map(number_bytes);
        numbers.chain(outside_of_key(&self.name).iter().copied()).collect()
    }

    fn decode(key: &[u8], payload: &[u8]) -> Option<Consumer> {
        let mut rest = payload;
        let (number, seen_ms) = (take_number(&mut rest)?, take_number(&mut rest)?);
        let name = name_of(key.get(1 + NUMBER_BYTES..)?, rest);
        Some(Consumer { name, number, seen_ms })
    }
}

/// The number of a group or a consumer in a key.
fn bytes_of(number: u64) -> [u8; NUMBER_BYTES] {
    let [_, _, bytes @ ..] = number.to_be_bytes();
    bytes
}

/// The part of a payload that has a name which is too long for a key.
fn outside_of_key(name: &[u8]) -> &[u8] {
    if name.len() > KEY_NAME_BYTES { name } else { &[] }
}

/// The name in a key, or behind the payload.
fn name_of(in_key: &[u8], behind: &[u8]) -> Vec<u8> {
    if behind.is_empty() { in_key } else { behind }.to_vec()
}

/// The id at the end of a key.
fn id_of(key: &[u8]) -> EntryId {
    EntryId::of(key.last_chunk::<16>().map_or(&[][..], |id| id))
}

/// The first bytes after all keys that begin with `prefix`, whose last byte may overflow.
fn after(prefix: &[u8]) -> Vec<u8> {
    let mut after = prefix.to_vec();
    for byte in after.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            break;
        }
    }
    after
}

impl Collection {
    fn groups_tree(&self) -> Option<Tree> {
        if self.kind == Kind::Stream { self.tree(1) } else { None }
    }

    /// True if it is a stream that has groups, or had them until its last change.
    pub(super) fn keeps_groups<M: FullMemory>(&self, memory: &mut M) -> bool {
        self.group_records_count(memory) > 0
    }

    /// The key of a name behind `prefix`.
    fn key_of_name(&self, prefix: &[u8], name: &[u8]) -> Vec<u8> {
        match name.get(..KEY_NAME_BYTES).filter(|start| start.len() < name.len()) {
            Some(start) => [prefix, start, &self.hash_of(name)].concat(),
            None => [prefix, name].concat(),
        }
    }

    fn record<M: FullMemory>(&self, memory: &mut M, key: &[u8]) -> Option<Vec<u8>> {
        Some(self.groups_tree()?.find(&mut self.access(memory), key)?.1)
    }

    fn put_record<M: FullMemory>(
        &mut self,
        memory: &mut M,
        key: &[u8],
        payload: &[u8],
    ) -> Result<(), Full> {
        self.prepare_groups(memory)?;
        self.changed_groups = true;
        let tree = self.groups_tree().expect("it was made");
        tree.put(&mut self.access(memory), Seek::Key(key), Payload::Bytes(payload)).map(drop)
    }

    fn remove_record<M: FullMemory>(&mut self, memory: &mut M, key: &[u8]) -> bool {
        let Some(tree) = self.groups_tree() else { return false };
        let is_gone = tree.remove(&mut self.access(memory), Seek::Key(key)).is_some();
        self.changed_groups |= is_gone;
        is_gone
    }

    /// Makes the tree of groups of a stream.
    fn prepare_groups<M: FullMemory>(&mut self, memory: &mut M) -> Result<(), Full> {
        if self.groups_tree().is_some() {
            return Ok(());
        }
        self.unpack(memory)?;
        (self.is_changed, self.changed_groups) = (true, true);
        let tree = Tree::create(&mut self.access(memory))?;
        if let Body::Trees(roots) = &mut self.body {
            roots.push(tree.root);
        }
        Ok(())
    }

    /// The rank of the first record whose key begins with `prefix`, and their number.
    fn records_of<M: FullMemory>(&self, memory: &mut M, prefix: &[u8]) -> (u64, u64) {
        let Some(tree) = self.groups_tree() else { return (0, 0) };
        let access = &mut self.access(memory);
        let (from, to) =
            (tree.lower_bound(access, prefix), tree.lower_bound(access, &after(prefix)));
        (from, to.saturating_sub(from))
    }

    /// Reads at most `most` records of one leaf, of those whose keys begin with `prefix`, from the
    /// one at `rank` among them on.
    fn read_records<M: FullMemory>(
        &self,
        memory: &mut M,
        prefix: &[u8],
        rank: u64,
        most: usize,
    ) -> Vec<GroupRecord> {
        let Some(tree) = self.groups_tree() else { return Vec::new() };
        let access = &mut self.access(memory);
        let (mut records, from) = (Vec::new(), tree.lower_bound(access, prefix));
        tree.read(access, from + rank, most, &mut records);
        records.retain(|(key, _)| key.starts_with(prefix));
        records
    }

    /// Number of records of all groups.
    pub fn group_records_count<M: FullMemory>(&self, memory: &mut M) -> u64 {
        self.groups_tree().map_or(0, |tree| tree.total(&mut self.access(memory)))
    }

    /// Returns at most `most` records of groups from `rank` on, of one leaf.
    pub fn group_records<M: FullMemory>(
        &self,
        memory: &mut M,
        rank: u64,
        most: usize,
    ) -> Vec<GroupRecord> {
        self.read_records(memory, &[], rank, most)
    }

    /// Puts a record that [`group_records`](Collection::group_records) returned for another stream.
    ///
    /// # Errors
    /// [`Full`] when there is no room.
    pub fn put_group_record<M: FullMemory>(
        &mut self,
        memory: &mut M,
        (key, payload): &GroupRecord,
    ) -> Result<(), Full> {
        self.put_record(memory, key, payload)
    }

    /// Number of groups of a stream.
    pub fn group_count<M: FullMemory>(&self, memory: &mut M) -> u64 {
        self.records_of(memory, &[GROUP]).1
    }

    /// Returns at most `most` groups from `rank` on, in the order of their names. At least one if
    /// there is one.
    pub fn groups<M: FullMemory>(&self, memory: &mut M, rank: u64, most: usize) -> Vec<Group> {
        let records = self.read_records(memory, &[GROUP], rank, most);
        records.iter().filter_map(|(key, payload)| Group::decode(key, payload)).collect()
    }

    /// Finds a group by its name.
    pub fn find_group<M: FullMemory>(&self, memory: &mut M, name: &[u8]) -> Option<Group> {
        let key = self.key_of_name(&[GROUP], name);
        Group::decode(&key, &self.record(memory, &key)?)
    }

    /// Adds a group of a new name, which has at most [`NAME_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// [`Full`] when there is no room.
    pub fn add_group<M: FullMemory>(
        &mut self,
        memory: &mut M,
        name: &[u8],
        last: EntryId,
        entries_read: Option<u64>,
    ) -> Result<Group, Full> {
        let next = self.record(memory, &[NEXT]);
        let number = next.and_then(|next| take_number(&mut &next[..])).unwrap_or(0);
        self.put_record(memory, &[NEXT], &number_bytes(number + 1))?;
        let group = Group { name: name.to_vec(), last, entries_read, number, next_consumer: 0 };
        self.put_group(memory, &group)?;
        Ok(group)
    }

    /// Writes a group that is there.
    ///
    /// # Errors
    /// [`Full`] when there is no room.
    pub fn put_group<M: FullMemory>(&mut self, memory: &mut M, group: &Group) -> Result<(), Full> {
        let key = self.key_of_name(&[GROUP], &group.name);
        self.put_record(memory, &key, &group.payload())
    }

    /// Number of records of a group, without the group itself.
    pub fn group_size<M: FullMemory>(&self, memory: &mut M, group: &Group) -> u64 {
        let kinds = [CONSUMER, NAME, PENDING, OWNED];
        kinds.iter().map(|kind| self.records_of(memory, &group.prefix(*kind)).1).sum()
    }

    /// Removes a record of a group. Once there are no others, removes the group itself and returns
    /// `None`.
    pub fn remove_from_group<M: FullMemory>(
        &mut self,
        memory: &mut M,
        group: &Group,
    ) -> Option<()> {
        for kind in [PENDING, OWNED, CONSUMER, NAME] {
            let first = self.read_records(memory, &group.prefix(kind), 0, 1);
            if let Some((key, _)) = first.first() {
                self.remove_record(memory, key);
                return Some(());
            }
        }
        let key = self.key_of_name(&[GROUP], &group.name);
        self.remove_record(memory, &key);
        if self.group_count(memory) == 0 {
            // No number is in use, so they begin again, and the stream may be packed.
            self.remove_record(memory, &[NEXT]);
        }
        None
    }

    /// Number of consumers of a group.
    pub fn consumer_count<M: FullMemory>(&self, memory: &mut M, group: &Group) -> u64 {
        self.records_of(memory, &group.prefix(CONSUMER)).1
    }

    /// Returns at most `most` consumers from `rank` on, in the order of their names. At least one
    /// if there is one.
    pub fn consumers<M: FullMemory>(
        &self,
        memory: &mut M,
        group: &Group,
        rank: u64,
        most: usize,
    ) -> Vec<Consumer> {
        let records = self.read_records(memory, &group.prefix(CONSUMER), rank, most);
        records.iter().filter_map(|(key, payload)| Consumer::decode(key, payload)).collect()
    }

    /// Finds a consumer of a group by its name.
    pub fn find_consumer<M: FullMemory>(
        &self,
        memory: &mut M,
        group: &Group,
        name: &[u8],
    ) -> Option<Consumer> {
        let key = self.key_of_name(&group.prefix(CONSUMER), name);
        Consumer::decode(&key, &self.record(memory, &key)?)
    }

    /// Returns the name of the consumer of this number.
    pub fn consumer_name<M: FullMemory>(
        &self,
        memory: &mut M,
        group: &Group,
        number: u64,
    ) -> Vec<u8> {
        self.record(memory, &group.name_key(number)).unwrap_or_default()
    }

    /// Adds a consumer of a new name, which has at most [`NAME_BYTES_MAX`] bytes, to a group.
    ///
    /// # Errors
    /// [`Full`] when there is no room.
    pub fn add_consumer<M: FullMemory>(
        &mut self,
        memory: &mut M,
        group: &mut Group,
        name: &[u8],
        seen_ms: u64,
    ) -> Result<Consumer, Full> {
        let consumer = Consumer { name: name.to_vec(), number: group.next_consumer, seen_ms };
        group.next_consumer += 1;
        self.put_group(memory, group)?;
        self.put_record(memory, &group.name_key(consumer.number), name)?;
        self.put_consumer(memory, group, &consumer)?;
        Ok(consumer)
    }

    /// Writes a consumer that is there.
    ///
    /// # Errors
    /// [`Full`] when there is no room.
    pub fn put_consumer<M: FullMemory>(
        &mut self,
        memory: &mut M,
        group: &Group,
        consumer: &Consumer,
    ) -> Result<(), Full> {
        let key = self.key_of_name(&group.prefix(CONSUMER), &consumer.name);
        self.put_record(memory, &key, &consumer.payload())
    }

    /// Removes one pending entry of a consumer. Once there are none, removes the consumer and
    /// returns `None`.
    pub fn remove_from_consumer<M: FullMemory>(
        &mut self,
        memory: &mut M,
        group: &Group,
        consumer: &Consumer,
    ) -> Option<()> {
        let prefix = group.pending_prefix(Some(consumer));
        if let Some((key, _)) = self.read_records(memory, &prefix, 0, 1).first() {
            self.remove_record(memory, &group.pending_key(id_of(key)));
            self.remove_record(memory, key);
            return Some(());
        }
        let key = self.key_of_name(&group.prefix(CONSUMER), &consumer.name);
        self.remove_record(memory, &key);
        self.remove_record(memory, &group.name_key(consumer.number));
        None
    }

    /// Number of pending entries of a group, or of one of its consumers.
    pub fn pending_count<M: FullMemory>(
        &self,
        memory: &mut M,
        group: &Group,
        consumer: Option<&Consumer>,
    ) -> u64 {
        self.records_of(memory, &group.pending_prefix(consumer)).1
    }

    /// Number of pending entries of a group, or of one of its consumers, with ids less than `id`.
    pub fn pending_before<M: FullMemory>(
        &self,
        memory: &mut M,
        group: &Group,
        consumer: Option<&Consumer>,
        id: EntryId,
    ) -> u64 {
        let Some(tree) = self.groups_tree() else { return 0 };
        let prefix = group.pending_prefix(consumer);
        let access = &mut self.access(memory);
        let before = tree.lower_bound(access, &[&prefix[..], &id.to_bytes()].concat());
        before.saturating_sub(tree.lower_bound(access, &prefix))
    }

    /// Returns at most `most` pending entries of a group, or of one of its consumers, from `rank`
    /// on. At least one if there is one.
    pub fn read_pending<M: FullMemory>(
        &self,
        memory: &mut M,
        group: &Group,
        consumer: Option<&Consumer>,
        (rank, most): (u64, usize),
    ) -> Vec<Pending> {
        let records = self.read_records(memory, &group.pending_prefix(consumer), rank, most);
        let pending = records.into_iter().filter_map(|(key, payload)| match consumer {
            Some(_) => self.find_pending(memory, group, id_of(&key)),
            None => Some(Pending::decode(id_of(&key), &payload)),
        });
        pending.collect()
    }

    /// Finds a pending entry of a group.
    pub fn find_pending<M: FullMemory>(
        &self,
        memory: &mut M,
        group: &Group,
        id: EntryId,
    ) -> Option<Pending> {
        let payload = self.record(memory, &group.pending_key(id))?;
        Some(Pending::decode(id, &payload))
    }

    /// Puts a pending entry, in place of one of the same id.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub fn put_pending<M: FullMemory>(
        &mut self,
        memory: &mut M,
        group: &Group,
        pending: &Pending,
    ) -> Result<(), Full> {
        let old = self.find_pending(memory, group, pending.id).map(|old| old.consumer);
        let owned = group.owned_key(pending.consumer, pending.id);
        let moves = old != Some(pending.consumer);
        if moves {
            self.put_record(memory, &owned, &[])?;
        }
        let put = self.put_record(memory, &group.pending_key(pending.id), &pending.encode());
        match old.filter(|_| moves) {
            _ if moves && put.is_err() => drop(self.remove_record(memory, &owned)),
            Some(old) => drop(self.remove_record(memory, &group.owned_key(old, pending.id))),
            None => {}
        }
        put
    }

    /// Removes a pending entry of a group. Returns true if it was there.
    pub fn remove_pending<M: FullMemory>(
        &mut self,
        memory: &mut M,
        group: &Group,
        id: EntryId,
    ) -> bool {
        let Some(pending) = self.find_pending(memory, group, id) else { return false };
        self.remove_record(memory, &group.owned_key(pending.consumer, id));
        self.remove_record(memory, &group.pending_key(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_after_a_prefix_carries() {
        assert_eq!(after(&[4, 0, 7]), [4, 0, 8]);
        assert_eq!(after(&[4, 0xff, 0xff]), [5, 0, 0]);
    }

    #[test]
    fn records_are_decoded_as_they_were_encoded() {
        let last = EntryId { ms: 5, sequence: u64::MAX };
        for (name, entries_read) in
            [(vec![], None), (vec![b'n'; 800], Some(0)), (vec![7; 801], Some(9))]
        {
            let group = Group { name, last, entries_read, number: 1 << 47, next_consumer: 3 };
            let key = [&[GROUP], &group.name[..group.name.len().min(800)]].concat();
            assert_eq!(Group::decode(&key, &group.payload()), Some(group.clone()));
            let consumer = Consumer { name: group.name.clone(), number: 2, seen_ms: 1 << 41 };
            let key =
                [&group.prefix(CONSUMER)[..], &group.name[..group.name.len().min(800)]].concat();
            assert_eq!(Consumer::decode(&key, &consumer.payload()), Some(consumer));
            assert_eq!(id_of(&group.owned_key(4, last)), last);
        }
        let pending = Pending { id: last, consumer: 9, delivered_ms: 1 << 41, deliveries: 3 };
        assert_eq!(Pending::decode(last, &pending.encode()), pending);
    }
}
