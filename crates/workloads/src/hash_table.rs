//! [`HashTable`]: look-ups in a chained hash table (AstriFlash, HPCA'23 §V-A).

use std::ops::Range;

use ebbtide_core::{Addr, FullMemory, LINE_BYTES, PAGE_BYTES, PageId};
use ebbtide_structures::latch;

use crate::keys::{Places, Ranks, job_rng, share};
use crate::kind::Kind;
use crate::shape::{Named, Shape};
use crate::{ALL_LINES, Accesses, Corrupt, PageBytes, Workload};
use ebbtide_structures::checksum::Checksums;
use ebbtide_structures::hash::mix;
use ebbtide_structures::image::{Line, fill_lines};

/// Look-ups in a job.
const LOOKUPS: u64 = 4;
const NODES_PER_PAGE: u64 = (PAGE_BYTES / LINE_BYTES) as u64;
/// A group is a line of bucket heads and the keys that hash to it.
const HEADS_PER_GROUP: u64 = 8;
const KEYS_PER_GROUP: u64 = 16;
const GROUPS_PER_PAGE: u64 = 64;
const KEYS_PER_HEAD_PAGE: u64 = GROUPS_PER_PAGE * KEYS_PER_GROUP;
/// The low bit of each of sixteen 3-bit numbers.
const LOW_BITS: u64 = 0o1_111_111_111_111_111;
const NODE_PAGES_PER_HEAD_PAGE: u64 = KEYS_PER_HEAD_PAGE / NODES_PER_PAGE;

/// A chained hash table: 8-byte bucket heads, 64-byte nodes; a job looks up four keys.
///
/// There are half as many buckets as keys. Each of 16 keys falls on a random one of the 8 buckets
/// of a line. So chains have 0 to 16 nodes, 2 on average. A look-up reads one head and 1.94 nodes.
///
/// With [`Scatter::Pages`](crate::Scatter::Pages) the hash keeps neighbours together: the heads of
/// 1,024 and the nodes of 64 neighbouring keys share a page. This models related keys that are
/// hashed by their common prefix and allocated together. A chain stays within its page of nodes.
/// With [`Scatter::Keys`](crate::Scatter::Keys) heads and nodes lie in random order, as in a common
/// table that is filled in random order. A hot key's chain leads through cold pages.
///
/// A key is its rank of popularity. Chains never change; values do, by
/// [`update`](HashTable::update).
#[derive(Debug, Clone)]
pub struct HashTable {
    head_pages: u64,
    ranks: Ranks,
    /// Key to slot; 16 slots are a group.
    slots: Places,
    /// Slot to node.
    nodes: Places,
    checksums: Checksums,
    seed: u64,
    work: u64,
}

/// The result of a look-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The value. It follows from the key and the version.
    pub value: u64,
    /// The number of updates of the key.
    pub version: u64,
}

impl Entry {
    /// Returns the entry of `key` after `version` updates.
    pub fn new(key: u64, version: u64) -> Entry {
        Entry { value: mix(key ^ mix(version)), version }
    }
}

#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Node {
    key: u64,
    value: u64,
    version: u64,
    bucket: u64,
    /// 0 ends the chain, since no node lies there.
    next: Addr,
    spare: u64,
}

impl HashTable {
    /// Returns the number of keys. The keys are `0..keys()`, the most popular first.
    pub fn keys(&self) -> u64 {
        self.head_pages * KEYS_PER_HEAD_PAGE
    }

    /// Returns the keys that job `job` looks up.
    #[inline]
    pub fn job(&self, job: u64) -> [u64; LOOKUPS as usize] {
        let mut rng = job_rng(self.seed, job);
        std::array::from_fn(|_| self.ranks.draw(&mut rng))
    }

    /// Looks `key` up, also while other jobs update it. Returns `None` if there is no such key.
    ///
    /// # Errors
    /// [`Corrupt`] if it reads invalid data.
    #[inline]
    pub fn get<M: FullMemory>(&self, memory: &mut M, key: u64) -> Result<Option<Entry>, Corrupt> {
        Ok(self.find(memory, key)?.map(|(_, n)| Entry { value: n.value, version: n.version }))
    }

    /// Sets the next value of `key`. Returns the new entry, or `None` if there is no such key.
    ///
    /// # Errors
    /// [`Corrupt`] when it reads invalid data.
    pub fn update<M: FullMemory>(
        &self,
        memory: &mut M,
        key: u64,
    ) -> Result<Option<Entry>, Corrupt> {
        let Some((at, _)) = self.find(memory, key)? else {
            return Ok(None);
        };
        latch::write(memory, at, |memory| {
            let node: Node = self.checksums.read_latched(memory, at)?;
            let entry = Entry::new(key, node.version + 1);
            let node = Node { value: entry.value, version: entry.version, ..node };
            self.checksums.write_latched(memory, at, node);
            Ok(Some(entry))
        })
    }

    /// Walks the chain of `key`'s bucket to its node.
    #[inline]
    fn find<M: FullMemory>(
        &self,
        memory: &mut M,
        key: u64,
    ) -> Result<Option<(Addr, Node)>, Corrupt> {
        if key >= self.keys() {
            return Ok(None);
        }
        let bucket = self.bucket(self.slots.place(key));
        let head = self.head_address(bucket);
        let mut at = Addr(self.checksums.read_number(memory, head)? * LINE_BYTES as u64);
        for _ in 0..KEYS_PER_GROUP {
            if at == Addr(0) {
                return Ok(None);
            }
            let node: Node = self.checksums.read(memory, at)?;
            if node.bucket != bucket {
                return Err(Corrupt(format!("the node at {at:?} is not of bucket {bucket}")));
            }
            if node.key == key {
                return Ok(Some((at, node)));
            }
            at = node.next;
        }
        Err(Corrupt(format!("the chain of bucket {bucket} has no end")))
    }

    /// The bucket that owns `slot`, one of its group's eight.
    #[inline]
    fn bucket(&self, slot: u64) -> u64 {
        let (group, i) = (slot / KEYS_PER_GROUP, slot % KEYS_PER_GROUP);
        group * HEADS_PER_GROUP + pick(self.picks(group), i)
    }

    /// Three random bits for each of a group's sixteen slots.
    #[inline]
    fn picks(&self, group: u64) -> u64 {
        mix(group ^ self.seed.rotate_left(32))
    }

    #[inline]
    fn head_address(&self, bucket: u64) -> Addr {
        Addr(bucket * 8)
    }

    #[inline]
    fn node_address(&self, slot: u64) -> Addr {
        PageId(self.head_pages).start() + self.nodes.place(slot) * LINE_BYTES as u64
    }

    /// Returns the next node in the chain of bucket `bucket` (0 to 7) of `group`. It is the node of
    /// the first slot from `from` on that the bucket owns.
    #[inline]
    fn next_in_chain(&self, group: u64, bucket: u64, from: u64) -> Addr {
        // Compares all sixteen picks at once: equal picks have a difference without a set bit.
        let differences = self.picks(group) ^ (bucket * LOW_BITS);
        let set = differences | differences >> 1 | differences >> 2;
        let owned = !set & LOW_BITS & (u64::MAX << (3 * from));
        if owned == 0 {
            return Addr(0);
        }
        self.node_address(group * KEYS_PER_GROUP + u64::from(owned.trailing_zeros() / 3))
    }

    /// The word of the bucket head at `head`: the line number of the chain's first node.
    #[inline]
    fn head_word(&self, head: Addr, first: Addr) -> u64 {
        self.checksums.number_word(head, first.0 / LINE_BYTES as u64)
    }

    fn image_of_node(&self, place: u64) -> Line {
        let slot = self.nodes.rank(place);
        let key = self.slots.rank(slot);
        let bucket = self.bucket(slot);
        let (group, i) = (slot / KEYS_PER_GROUP, slot % KEYS_PER_GROUP);
        let next = self.next_in_chain(group, bucket % HEADS_PER_GROUP, i + 1);
        let Entry { value, version } = Entry::new(key, 0);
        let at = PageId(self.head_pages).start() + place * LINE_BYTES as u64;
        self.checksums.line(at, Node { key, value, version, bucket, next, spare: 0 })
    }
}

#[inline]
fn pick(picks: u64, slot: u64) -> u64 {
    (picks >> (3 * slot)) % HEADS_PER_GROUP
}

impl Named for HashTable {
    const NAME: &'static str = "hash-table";
    const DESCRIPTION: &'static str = "looks keys up in a chained hash table of 64-byte nodes";
    const MIX: &'static str = "4 look-ups: 4 bucket heads and about 8 nodes read";
    const SOURCE: &'static str = "AstriFlash (HPCA'23) section V-A; 64-byte nodes are ours";
    /// A page of heads and its 16 pages of nodes.
    const MIN_BYTES: u64 = (1 + NODE_PAGES_PER_HEAD_PAGE) * PAGE_BYTES as u64;

    fn with_shape(shape: &Shape) -> HashTable {
        let head_pages = shape.dataset_bytes / HashTable::MIN_BYTES;
        let node_pages = head_pages * NODE_PAGES_PER_HEAD_PAGE;
        let seed = mix(shape.seed);
        HashTable {
            head_pages,
            ranks: Ranks::new(head_pages * KEYS_PER_HEAD_PAGE, shape.theta),
            slots: Places::new(head_pages, KEYS_PER_HEAD_PAGE, shape.scatter, seed),
            nodes: Places::new(node_pages, NODES_PER_PAGE, shape.scatter, mix(seed)),
            checksums: Checksums::new(Kind::HashTable as u64, head_pages + node_pages, shape.seed),
            seed: shape.seed,
            work: shape.work_instructions,
        }
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl Workload for HashTable {
    fn size_bytes(&self) -> u64 {
        self.head_pages * HashTable::MIN_BYTES
    }

    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.image_lines(page, ALL_LINES, out);
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        assert!(page.start().0 < self.size_bytes(), "{page:?} of {}", self.size_bytes());
        match page.0.checked_sub(self.head_pages) {
            None => fill_lines(out, lines, |line| {
                let group = page.0 * GROUPS_PER_PAGE + line;
                std::array::from_fn(|i| {
                    let head = self.head_address(group * HEADS_PER_GROUP + i as u64);
                    self.head_word(head, self.next_in_chain(group, i as u64, 0))
                })
            }),
            Some(page) => {
                fill_lines(out, lines, |line| self.image_of_node(page * NODES_PER_PAGE + line))
            }
        }
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        for (part, key) in (0..).zip(self.job(job)) {
            memory.work(share(self.work, part, LOOKUPS));
            match self.get(memory, key)? {
                Some(entry) if entry == Entry::new(key, entry.version) => {}
                found => return Err(Corrupt(format!("key {key} has {found:?}"))),
            }
        }
        Ok(())
    }

    fn accesses(&self, job: u64, accesses: &mut Accesses) -> bool {
        for key in self.job(job) {
            let slot = self.slots.place(key);
            let (group, own) = (slot / KEYS_PER_GROUP, slot % KEYS_PER_GROUP);
            let picks = self.picks(group);
            let bucket = pick(picks, own);
            accesses.load(self.head_address(group * HEADS_PER_GROUP + bucket));
            for i in (0..=own).filter(|i| pick(picks, *i) == bucket) {
                accesses.load(self.node_address(group * KEYS_PER_GROUP + i));
            }
        }
        true
    }

    fn writes(&self) -> bool {
        false
    }
}
