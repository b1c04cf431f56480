//! [`TreeShape`]: the shape of a large red-black tree, computed and not stored. It has the key of
//! each node, its children, and its page.
//!
//! The layout is van Emde Boas's for pages. A page holds a subtree of six levels, 63 nodes, so a
//! walk from root to leaf changes pages once in six steps.
//!
//! * The lowest levels are *blocks*: full subtrees of 63 consecutive keys, one page each.
//! * An *upper* node holds the one key between two neighbouring blocks. The upper nodes are a
//!   complete binary tree numbered like a heap (root 1, children `2h` and `2h + 1`); its last level
//!   may be incomplete. They are cut into pages of six levels from the bottom. Only the topmost
//!   page is partly empty, and the last pages where the last level is incomplete.
//!
//! `P` blocks hold `64 P − 1` keys. Paths from the root differ by at most one node, which is on the
//! incomplete level. With that level red and all others black, the tree is a valid red-black tree.

/// Levels of a page's subtree.
const LEVELS: u32 = 6;

/// Keys from the first of one block to the first of the next: the block's 63 and the one between.
pub const KEYS_PER_BLOCK: u64 = 1 << LEVELS;

/// A search tree over the keys `0..64 P − 1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeShape {
    blocks: u64,
    upper_nodes: u64,
    upper_levels: u32,
    upper_pages: u64,
}

/// A node of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// The upper node of this heap number.
    Upper(u64),
    /// The node of this heap number (1 to 63) within a block.
    InBlock(u64, u64),
}

/// The place of a node: line `line` of an upper page or of a block's page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spot {
    /// In an upper page.
    UpperPage {
        /// Number of the page.
        page: u64,
        /// Number of the line within it.
        line: u64,
    },
    /// In the page of a block.
    BlockPage {
        /// Number of the block.
        block: u64,
        /// Number of the line within its page.
        line: u64,
    },
}

/// A band of upper levels: one page for each node at depth `root_depth`.
struct Band {
    root_depth: u32,
    first_page: u64,
}

impl TreeShape {
    /// The least number of pages of a tree.
    pub const MIN_PAGES: u64 = 3;

    /// The tree with `blocks` blocks, at least two.
    fn with_blocks(blocks: u64) -> TreeShape {
        let upper_nodes = blocks - 1;
        let upper_levels = upper_nodes.ilog2() + 1;
        let mut shape = TreeShape { blocks, upper_nodes, upper_levels, upper_pages: 0 };
        let lowest = shape.band_of_depth(upper_levels - 1);
        shape.upper_pages = lowest.first_page + (1 << lowest.root_depth);
        shape
    }

    /// The largest tree of at most `pages` pages, at least [`MIN_PAGES`](Self::MIN_PAGES).
    pub fn largest(pages: u64) -> TreeShape {
        // The number of pages rises with the number of blocks.
        let (mut fits, mut too_many) = (2, pages);
        while fits + 1 < too_many {
            let blocks = fits.midpoint(too_many);
            if TreeShape::with_blocks(blocks).pages() <= pages {
                fits = blocks;
            } else {
                too_many = blocks;
            }
        }
        TreeShape::with_blocks(fits)
    }

    /// Number of blocks, the subtrees at the bottom.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Number of pages of nodes above the blocks.
    pub fn upper_pages(&self) -> u64 {
        self.upper_pages
    }

    /// Number of pages of the whole tree.
    pub fn pages(&self) -> u64 {
        self.upper_pages + self.blocks
    }

    /// Number of keys.
    pub fn keys(&self) -> u64 {
        self.blocks * KEYS_PER_BLOCK - 1
    }

    /// The longest path from root to leaf, in nodes.
    pub fn height(&self) -> u32 {
        self.upper_levels + LEVELS
    }

    /// The key that `node` holds.
    pub fn key(&self, node: Node) -> u64 {
        match node {
            Node::Upper(heap) => (self.upper_in_order(heap) + 1) * KEYS_PER_BLOCK - 1,
            Node::InBlock(block, heap) => block * KEYS_PER_BLOCK + in_order(heap, LEVELS) - 1,
        }
    }

    /// The left and right child of `node`.
    pub fn children(&self, node: Node) -> [Option<Node>; 2] {
        [0, 1].map(|side| match node {
            Node::Upper(heap) if 2 * heap + side <= self.upper_nodes => {
                Some(Node::Upper(2 * heap + side))
            }
            Node::Upper(heap) => Some(Node::InBlock(self.upper_in_order(heap) + side, 1)),
            Node::InBlock(block, heap) if 2 * heap < KEYS_PER_BLOCK => {
                Some(Node::InBlock(block, 2 * heap + side))
            }
            Node::InBlock(..) => None,
        })
    }

    /// Returns true if `node` is red. That is so if it is on the last upper level and that level is
    /// incomplete.
    pub fn is_red(&self, node: Node) -> bool {
        let complete = (self.upper_nodes + 1).is_power_of_two();
        matches!(node, Node::Upper(heap) if !complete && heap.ilog2() + 1 == self.upper_levels)
    }

    /// Returns the place of `node`. The root lies at [`ROOT`](Self::ROOT).
    pub fn spot(&self, node: Node) -> Spot {
        match node {
            Node::InBlock(block, heap) => Spot::BlockPage { block, line: heap },
            Node::Upper(heap) => {
                let depth = heap.ilog2();
                let band = self.band_of_depth(depth);
                let below_root = depth - band.root_depth;
                let subtree = (heap >> below_root) - (1 << band.root_depth);
                let line = 1 << below_root | (heap & ((1 << below_root) - 1));
                Spot::UpperPage { page: band.first_page + subtree, line }
            }
        }
    }

    /// The node at `spot`, if there is one.
    pub fn node(&self, spot: Spot) -> Option<Node> {
        match spot {
            Spot::UpperPage { line: 0, .. } | Spot::BlockPage { line: 0, .. } => None,
            Spot::BlockPage { block, line } => Some(Node::InBlock(block, line)),
            Spot::UpperPage { page, line } => {
                let band = self.band_of_page(page);
                let below_root = line.ilog2();
                let root = (1 << band.root_depth) + (page - band.first_page);
                let heap = root << below_root | (line - (1 << below_root));
                let in_page = page > 0 || below_root < self.top_levels();
                (in_page && heap <= self.upper_nodes).then_some(Node::Upper(heap))
            }
        }
    }

    /// The page and line of the root.
    pub const ROOT: Spot = Spot::UpperPage { page: 0, line: 1 };

    /// Levels in the topmost page: the rest when all other pages have six.
    fn top_levels(&self) -> u32 {
        (self.upper_levels - 1) % LEVELS + 1
    }

    fn bands(&self) -> impl Iterator<Item = Band> {
        let next_depth = |depth| {
            if depth == 0 { self.top_levels() } else { depth + LEVELS }
        };
        std::iter::successors(Some(Band { root_depth: 0, first_page: 0 }), move |band| {
            Some(Band {
                root_depth: next_depth(band.root_depth),
                first_page: band.first_page + (1 << band.root_depth),
            })
        })
        .take_while(|band| band.root_depth < self.upper_levels)
    }

    fn band_of_depth(&self, depth: u32) -> Band {
        self.bands().take_while(|band| band.root_depth <= depth).last().expect("the first")
    }

    fn band_of_page(&self, page: u64) -> Band {
        self.bands().take_while(|band| band.first_page <= page).last().expect("the first")
    }

    /// How many upper nodes precede upper node `heap` in key order.
    fn upper_in_order(&self, heap: u64) -> u64 {
        let in_full_tree = in_order(heap, self.upper_levels);
        // Of the last level (the odd places) only the first few exist.
        let last_level = self.upper_nodes - ((1 << (self.upper_levels - 1)) - 1);
        let missing = (in_full_tree / 2).saturating_sub(last_level);
        in_full_tree - missing - 1
    }
}

/// The place in key order, from 1, of node `heap` of a full tree of `levels` levels.
fn in_order(heap: u64, levels: u32) -> u64 {
    let depth = heap.ilog2();
    (2 * (heap - (1 << depth)) + 1) << (levels - 1 - depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks in key order, collects the keys and checks colours. Returns the black height.
    fn walk(shape: &TreeShape, node: Option<Node>, parent_red: bool, keys: &mut Vec<u64>) -> u32 {
        let Some(node) = node else { return 1 };
        let red = shape.is_red(node);
        assert!(!(red && parent_red), "red {node:?} under red");
        assert_eq!(shape.node(shape.spot(node)), Some(node));
        let [left, right] = shape.children(node);
        let left_height = walk(shape, left, red, keys);
        keys.push(shape.key(node));
        let right_height = walk(shape, right, red, keys);
        assert_eq!(left_height, right_height, "black heights below {node:?}");
        left_height + u32::from(!red)
    }

    #[test]
    fn every_small_tree_is_a_red_black_tree_over_all_keys() {
        for blocks in (2..200).chain([1023, 1024, 1025, 2000, 4096, 4097, 4200]) {
            let shape = TreeShape::with_blocks(blocks);
            let mut keys = Vec::new();
            let root = shape.node(TreeShape::ROOT).unwrap();
            assert!(!shape.is_red(root) || shape.upper_levels == 1, "the root is black");
            walk(&shape, Some(root), false, &mut keys);
            assert!(keys.iter().copied().eq(0..shape.keys()), "{blocks} blocks");
        }
    }

    #[test]
    fn spots_and_nodes_are_one_to_one_and_stay_on_the_pages() {
        for blocks in [2, 3, 64, 65, 66, 127, 128, 129, 4096, 4097, 9000] {
            let shape = TreeShape::with_blocks(blocks);
            let mut found = 0;
            for page in 0..shape.upper_pages() {
                for line in 0..64 {
                    let spot = Spot::UpperPage { page, line };
                    if let Some(node) = shape.node(spot) {
                        assert_eq!(shape.spot(node), spot, "{blocks} blocks");
                        found += 1;
                    }
                }
            }
            assert_eq!(found, shape.upper_nodes);
        }
    }

    #[test]
    fn the_largest_tree_leaves_no_room_for_a_larger_one() {
        for pages in (3..500).chain([1 << 20, 1 << 26, (1 << 34) - 1]) {
            let shape = TreeShape::largest(pages);
            assert!(shape.pages() <= pages);
            let larger = TreeShape::with_blocks(shape.blocks + 1).pages();
            assert!(larger > pages, "{pages} pages: {shape:?}");
        }
    }

    #[test]
    fn upper_pages_are_few() {
        for blocks in [1000, 4096, 4097, 100_000, 1 << 26, (1 << 26) + 1] {
            let shape = TreeShape::with_blocks(blocks);
            assert!(shape.upper_pages() <= blocks / 25, "{shape:?}");
        }
    }
}
