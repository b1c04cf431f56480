//! [`RedBlackTree`]: look-ups in a red-black tree (AstriFlash, HPCA'23, §V-A).

use std::ops::Range;

use ebbtide_core::{Addr, FullMemory, LINE_BYTES, PAGE_BYTES, PageId};

use crate::keys::{Places, Ranks, job_rng, share};
use crate::kind::Kind;
use crate::permutation::Permutation;
use crate::shape::{Named, Shape};
use crate::{ALL_LINES, Accesses, Corrupt, PageBytes, Workload};
use ebbtide_structures::checksum::Checksums;
use ebbtide_structures::hash::mix;
use ebbtide_structures::image::{Line, fill_lines};
use ebbtide_structures::red_black_tree::{KEYS_PER_BLOCK, Node, Spot, TreeShape};

/// Look-ups in a job.
const LOOKUPS: u64 = 4;
const LINES_PER_PAGE: u64 = (PAGE_BYTES / LINE_BYTES) as u64;

/// A red-black tree of 64-byte nodes; a job looks up four keys by chasing pointers from the root.
///
/// A node is one line, `{latch, key, value, left, right, colour, spare, checksum}`. Nodes have a
/// van Emde Boas layout for pages, as a tree for flash would: six levels of a subtree share a page.
/// The top pages lie together at the front, and the bottom pages lie in random order. A look-up
/// among 2³² keys reads 32 nodes on 6 pages, and often only the last page is cold. With nodes in
/// random order, each of the last ten nodes would be on a cold page.
///
/// With [`Scatter::Pages`](crate::Scatter::Pages) consecutive ranks are neighbouring keys of one
/// page at the bottom; with [`Scatter::Keys`](crate::Scatter::Keys) popularity is independent of
/// key order.
///
/// The tree never changes, so its latches are never taken.
#[derive(Debug, Clone)]
pub struct RedBlackTree {
    shape: TreeShape,
    ranks: Ranks,
    /// Rank to key.
    keys: Places,
    /// Block to page at the bottom.
    block_pages: Permutation,
    checksums: Checksums,
    seed: u64,
    work: u64,
}

#[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Record {
    key: u64,
    value: u64,
    /// The left and right child; 0 if there is none, since no node lies there.
    children: [Addr; 2],
    red: u64,
    spare: u64,
}

/// A node that [`RedBlackTree::node`] has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeNode {
    /// The key. Smaller keys are to the left.
    pub key: u64,
    /// The value. It follows from the key.
    pub value: u64,
    /// The left and right child.
    pub children: [Option<Addr>; 2],
    /// True if the node is red, false if it is black.
    pub is_red: bool,
}

impl RedBlackTree {
    /// Returns the number of keys. The keys are `0..keys()`.
    pub fn keys(&self) -> u64 {
        self.shape.keys()
    }

    /// Returns the length of the longest path from the root to a leaf, in nodes.
    pub fn height(&self) -> u32 {
        self.shape.height()
    }

    /// Returns the value of `key`.
    pub fn value(key: u64) -> u64 {
        mix(!key)
    }

    /// Returns the keys that job `job` looks up.
    #[inline]
    pub fn job(&self, job: u64) -> [u64; LOOKUPS as usize] {
        let mut rng = job_rng(self.seed, job);
        std::array::from_fn(|_| self.key(self.ranks.draw(&mut rng)))
    }

    /// Returns the key of rank `rank`. The blocks have room for one key more than there are keys.
    /// The rank of that key takes the key of the rank that is left over.
    #[inline]
    fn key(&self, rank: u64) -> u64 {
        let mut key = self.keys.place(rank);
        while key == self.keys() {
            key = self.keys.place(key);
        }
        key
    }

    /// Returns the address of the root.
    pub fn root(&self) -> Addr {
        self.address(TreeShape::ROOT)
    }

    /// Looks `key` up. Returns its value, or `None` if there is no such key.
    ///
    /// # Errors
    /// [`Corrupt`] if it reads invalid data.
    #[inline]
    pub fn get<M: FullMemory>(&self, memory: &mut M, key: u64) -> Result<Option<u64>, Corrupt> {
        let mut at = self.root();
        for _ in 0..self.height() {
            let record: Record = self.checksums.read_latched(memory, at)?;
            if record.key == key {
                return Ok(Some(record.value));
            }
            at = record.children[usize::from(key > record.key)];
            if at == Addr(0) {
                return Ok(None);
            }
        }
        Err(Corrupt(format!("the path to key {key} is longer than {} nodes", self.height())))
    }

    /// Reads the node at `at`.
    ///
    /// # Errors
    /// [`Corrupt`] if there is no valid node at `at`.
    pub fn node<M: FullMemory>(&self, memory: &mut M, at: Addr) -> Result<TreeNode, Corrupt> {
        let record: Record = self.checksums.read_latched(memory, at)?;
        Ok(TreeNode {
            key: record.key,
            value: record.value,
            children: record.children.map(|child| (child != Addr(0)).then_some(child)),
            is_red: record.red != 0,
        })
    }

    fn address(&self, spot: Spot) -> Addr {
        let (page, line) = match spot {
            Spot::UpperPage { page, line } => (page, line),
            Spot::BlockPage { block, line } => {
                (self.shape.upper_pages() + self.block_pages.apply(block), line)
            }
        };
        PageId(page).start() + line * LINE_BYTES as u64
    }

    fn record(&self, node: Node) -> Record {
        let key = self.shape.key(node);
        let place = |child: Option<Node>| child.map(|child| self.address(self.shape.spot(child)));
        Record {
            key,
            value: RedBlackTree::value(key),
            children: self.shape.children(node).map(|child| place(child).unwrap_or(Addr(0))),
            red: u64::from(self.shape.is_red(node)),
            spare: 0,
        }
    }

    /// A line of a block's page. All its links are within the page.
    fn image_of_block(&self, page: PageId, block: u64, line: u64) -> Line {
        if line == 0 {
            return [0; 8];
        }
        let address = |line: u64| page.start() + line * LINE_BYTES as u64;
        let key = self.shape.key(Node::InBlock(block, line));
        let value = RedBlackTree::value(key);
        let is_leaf = 2 * line >= LINES_PER_PAGE;
        let child = |side| {
            if is_leaf { Addr(0) } else { address(2 * line + side) }
        };
        let children = [child(0), child(1)];
        let record = Record { key, value, children, red: 0, spare: 0 };
        self.checksums.line(address(line), record)
    }
}

impl Named for RedBlackTree {
    const NAME: &'static str = "red-black-tree";
    const DESCRIPTION: &'static str = "looks keys up in a red-black tree of 64-byte nodes";
    const MIX: &'static str = "4 look-ups: about log2(keys) - 1 nodes read each";
    const SOURCE: &'static str = "AstriFlash (HPCA'23) section V-A; 64-byte nodes are ours";
    /// The root's page and two pages below.
    const MIN_BYTES: u64 = TreeShape::MIN_PAGES * PAGE_BYTES as u64;

    fn with_shape(shape: &Shape) -> RedBlackTree {
        let tree = TreeShape::largest(shape.dataset_bytes / PAGE_BYTES as u64);
        let seed = mix(shape.seed);
        RedBlackTree {
            shape: tree,
            ranks: Ranks::new(tree.keys(), shape.theta),
            keys: Places::new(tree.blocks(), KEYS_PER_BLOCK, shape.scatter, seed),
            block_pages: Permutation::new(tree.blocks(), mix(seed)),
            checksums: Checksums::new(Kind::RedBlackTree as u64, tree.pages(), shape.seed),
            seed: shape.seed,
            work: shape.work_instructions,
        }
    }

    fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl Workload for RedBlackTree {
    fn size_bytes(&self) -> u64 {
        self.shape.pages() * PAGE_BYTES as u64
    }

    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.image_lines(page, ALL_LINES, out);
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        assert!(page.0 < self.shape.pages(), "{page:?} of {}", self.shape.pages());
        match page.0.checked_sub(self.shape.upper_pages()) {
            Some(bottom) => {
                let block = self.block_pages.invert(bottom);
                fill_lines(out, lines, |line| self.image_of_block(page, block, line))
            }
            None => fill_lines(out, lines, |line| {
                let spot = Spot::UpperPage { page: page.0, line };
                match self.shape.node(spot) {
                    Some(node) => self.checksums.line(self.address(spot), self.record(node)),
                    None => [0; 8],
                }
            }),
        }
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        for (part, key) in (0..).zip(self.job(job)) {
            memory.work(share(self.work, part, LOOKUPS));
            let found = self.get(memory, key)?;
            if found != Some(RedBlackTree::value(key)) {
                return Err(Corrupt(format!("key {key} has {found:?}")));
            }
        }
        Ok(())
    }

    fn accesses(&self, job: u64, accesses: &mut Accesses) -> bool {
        for key in self.job(job) {
            let mut node = self.shape.node(TreeShape::ROOT);
            while let Some(passed) = node {
                accesses.load(self.address(self.shape.spot(passed)));
                let at = self.shape.key(passed);
                node = (at != key)
                    .then(|| self.shape.children(passed)[usize::from(key > at)])
                    .flatten();
            }
        }
        true
    }

    fn writes(&self) -> bool {
        false
    }
}
