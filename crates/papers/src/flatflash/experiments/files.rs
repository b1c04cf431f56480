//! What a file system writes to make an operation's metadata durable, in blocks and in bytes
//! (FlatFlash, ASPLOS'19 §3.5, §5.5).
//!
//! One model for three file systems: an operation changes a few small pieces of metadata, each in a
//! block of its own kind. A file system of blocks writes whole blocks, twice or along a path; one on
//! FlatFlash writes the pieces themselves into the persist region, and needs neither journal nor
//! copies. Which pieces an operation changes is the file systems' general design; only the bytes
//! that the paper prints (FL26) bound it. Both are assumptions, stated where they are.

use std::collections::{BTreeMap, HashMap};

use ebbtide_core::{LINE_BYTES, PAGE_BYTES, Span};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

/// How a file system keeps its metadata consistent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Consistency {
    /// Changed blocks go to a journal, between a descriptor and a commit block, and later to their
    /// place.
    BlockJournal,
    /// Changed pieces go to a journal, in whole pages, and their blocks later to their place.
    LogicalJournal,
    /// Nothing is changed in place: a node of a tree is written anew with all nodes above it.
    CopyOnWrite {
        /// Pages of a node.
        node_pages: u64,
        /// Nodes from a leaf to the root.
        depth: u64,
    },
}

/// A file system.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileSystem {
    pub(crate) name: &'static str,
    pub(crate) consistency: Consistency,
}

/// The three of the paper: what tells them apart here is how they keep consistent (assumption: a
/// tree of three levels of 16 KiB, Btrfs's default node).
pub(crate) const FILE_SYSTEMS: [FileSystem; 3] = [
    FileSystem { name: "EXT4", consistency: Consistency::BlockJournal },
    FileSystem { name: "XFS", consistency: Consistency::LogicalJournal },
    FileSystem { name: "BtrFS", consistency: Consistency::CopyOnWrite { node_pages: 4, depth: 3 } },
];

/// A kind of metadata: pieces of a kind lie together in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Piece {
    /// Inode of a new file; they follow each other.
    Inode,
    /// Inode of any file there is.
    Existing,
    /// Inode of the one log that all append to.
    Log,
    /// Of the directory that it is in.
    Parent,
    /// In that directory.
    Entry,
    /// Of inodes or of blocks.
    Bitmap,
    /// Of the group that a bitmap belongs to.
    Group,
    /// The first block of a new directory.
    NewBlock,
}

impl Piece {
    /// FL26: 8 to 256 bytes.
    fn bytes(self) -> u64 {
        match self {
            Piece::Bitmap => 8,
            Piece::Entry | Piece::Group | Piece::NewBlock => 64,
            Piece::Inode | Piece::Existing | Piece::Log | Piece::Parent => 256,
        }
    }
}

/// A FileBench operation: the changes of metadata that must be durable one after the other, and data.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// Each is one transaction of a journal.
    pub(crate) changes: &'static [&'static [Piece]],
    /// Pages of file data written.
    pub(crate) data_pages: u64,
}

use Piece::{Bitmap, Entry, Existing, Group, Inode, Log, NewBlock, Parent};

const CREATE: &[Piece] = &[Inode, Parent, Entry, Bitmap, Group];
const DELETE: &[Piece] = &[Existing, Parent, Entry, Bitmap, Group];
const APPEND: &[Piece] = &[Existing, Bitmap, Group];

/// FileBench's five (SPEC part D). A mail is deleted, one is created and appended to, one is read
/// and appended to; a page served appends 16 KiB to a log.
pub(crate) const OPERATIONS: [Operation; 5] = [
    Operation { name: "CreateFile", changes: &[CREATE], data_pages: 0 },
    Operation {
        name: "RenameFile",
        changes: &[&[Existing, Parent, Parent, Entry, Entry]],
        data_pages: 0,
    },
    Operation {
        name: "CreateDirectory",
        changes: &[&[Inode, Parent, Entry, Bitmap, Bitmap, Group, NewBlock]],
        data_pages: 0,
    },
    Operation { name: "VarMail", changes: &[DELETE, CREATE, APPEND, APPEND], data_pages: 8 },
    Operation { name: "WebServer", changes: &[&[Log, Bitmap, Group]], data_pages: 4 },
];

/// What a device charges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prices {
    /// Writing a page.
    pub(crate) page: Span,
    /// Posting a line.
    pub(crate) line: Span,
    /// The read that verifies what was posted.
    pub(crate) verify: Span,
}

/// FF Table 2, and FF §3.3 for the page (FL7, FL9). Software is left out, in favour of blocks.
pub(crate) const PRICES: Prices =
    Prices { page: Span::from_us(16), line: Span::from_ns(600), verify: Span::from_ns(4_800) };

/// The SSD-Cache of an SSD of 32 GiB, in pages.
pub(crate) const SSD_CACHE_PAGES: usize = 10_240;

/// An operation on a file system, over blocks and over FlatFlash.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FileRow {
    /// The file system.
    pub file_system: &'static str,
    /// The operation.
    pub operation: &'static str,
    /// Pages of metadata that the file system of blocks writes.
    pub pages: f64,
    /// Bytes of metadata that FlatFlash writes instead.
    pub bytes: f64,
    /// Time for durable metadata on blocks over that on FlatFlash.
    pub gain: f64,
    /// Pages that reach flash, data included: of blocks over those of FlatFlash.
    pub lifetime: f64,
}

impl Consistency {
    /// Pages written for one transaction that changes `pieces`.
    fn pages(self, pieces: &[Piece]) -> u64 {
        let blocks = pieces.len() as u64;
        let bytes: u64 = pieces.iter().map(|piece| piece.bytes()).sum();
        match self {
            Consistency::BlockJournal => 1 + blocks + 1 + blocks,
            Consistency::LogicalJournal => bytes.div_ceil(PAGE_BYTES as u64) + blocks,
            // Inodes and entries lie in one tree, extents and free space in another: a path of each.
            Consistency::CopyOnWrite { node_pages, depth } => {
                let trees =
                    if pieces.iter().any(|p| matches!(p, Bitmap | NewBlock)) { 2 } else { 1 };
                trees * depth * node_pages + 1
            }
        }
    }
}

/// Each operation on each file system, over an SSD-Cache of `cache_pages`.
pub(crate) fn rows(prices: Prices, cache_pages: usize, seed: u64) -> Vec<FileRow> {
    let mut rows = Vec::new();
    for FileSystem { name, consistency } in FILE_SYSTEMS {
        for operation in OPERATIONS {
            let pages: u64 = operation.changes.iter().map(|pieces| consistency.pages(pieces)).sum();
            let pieces = || operation.changes.iter().copied().flatten();
            let lines: u64 = pieces().map(|piece| piece.bytes().div_ceil(LINE_BYTES as u64)).sum();
            let blocks_ps = pages * prices.page.as_ps();
            // Each piece must be durable before the next, which depends on it.
            let lines_ps =
                lines * prices.line.as_ps() + pieces().count() as u64 * prices.verify.as_ps();
            let data = operation.data_pages as f64;
            rows.push(FileRow {
                file_system: name,
                operation: operation.name,
                pages: pages as f64,
                bytes: pieces().map(|piece| piece.bytes() as f64).sum(),
                gain: blocks_ps as f64 / lines_ps as f64,
                lifetime: (pages as f64 + data)
                    / (reaching_flash(operation, cache_pages, seed) + data),
            });
        }
    }
    rows
}

/// Pages of metadata that leave an SSD-Cache of `cache_pages` under LRU for flash, an operation, in
/// steady state. Directories are a million, one as likely as the other (assumption).
fn reaching_flash(operation: Operation, cache_pages: usize, seed: u64) -> f64 {
    let mut pages = Touched { rng: Pcg64Mcg::seed_from_u64(seed), inodes: 0 };
    let mut cache = DirtyPages::new(cache_pages);
    let mut run = |cache: &mut DirtyPages| {
        for piece in operation.changes.iter().copied().flatten() {
            cache.write((*piece, pages.of(*piece)));
        }
    };
    for _ in 0..FILL_MAX {
        if cache.written > 0 {
            break;
        }
        run(&mut cache);
    }
    cache.written = 0;
    (0..FOLLOWED).for_each(|_| run(&mut cache));
    cache.written as f64 / FOLLOWED as f64
}

/// Operations after which an SSD-Cache that is not full never will be.
const FILL_MAX: u64 = 200_000;

/// Operations that are followed to see which pages of the SSD-Cache reach flash.
const FOLLOWED: u64 = 20_000;

/// Which page a piece of metadata lies on.
struct Touched {
    rng: Pcg64Mcg,
    inodes: u64,
}

impl Touched {
    fn of(&mut self, piece: Piece) -> u64 {
        const DIRECTORIES: u64 = 1 << 20;
        const INODES_A_PAGE: u64 = PAGE_BYTES as u64 / 256;
        const BITS_A_PAGE: u64 = 8 * PAGE_BYTES as u64;
        match piece {
            Inode => {
                self.inodes += 1;
                self.inodes / INODES_A_PAGE
            }
            NewBlock => self.inodes,
            Bitmap => self.inodes / BITS_A_PAGE,
            Existing | Parent => self.rng.random_range(0..DIRECTORIES / INODES_A_PAGE),
            Entry => self.rng.random_range(0..DIRECTORIES),
            Group | Log => 0,
        }
    }
}

/// Dirty pages under LRU, by kind and place.
struct DirtyPages {
    last: HashMap<(Piece, u64), u64>,
    order: BTreeMap<u64, (Piece, u64)>,
    size: usize,
    now: u64,
    /// Pages that had to go.
    written: u64,
}

impl DirtyPages {
    fn new(size: usize) -> DirtyPages {
        let (last, order) = (HashMap::new(), BTreeMap::new());
        DirtyPages { last, order, size, now: 0, written: 0 }
    }

    fn write(&mut self, page: (Piece, u64)) {
        self.now += 1;
        if let Some(before) = self.last.insert(page, self.now) {
            self.order.remove(&before);
        }
        self.order.insert(self.now, page);
        if self.order.len() > self.size
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.last.remove(&oldest);
            self.written += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creating_a_file_writes_what_the_paper_prints() {
        // FL26: 16 to 116 KB in blocks, pieces of 8 to 256 bytes instead.
        for FileSystem { name, consistency } in FILE_SYSTEMS {
            let bytes = consistency.pages(CREATE) * PAGE_BYTES as u64;
            assert!((16 << 10..=116 << 10).contains(&bytes), "{name}: {bytes}");
        }
        assert!(CREATE.iter().all(|piece| (8..=256).contains(&piece.bytes())));
    }

    #[test]
    fn pieces_cost_less_time_and_less_flash_than_blocks_everywhere() {
        let rows = rows(PRICES, 1_000, 1);
        assert_eq!(rows.len(), FILE_SYSTEMS.len() * OPERATIONS.len());
        assert!(rows.iter().all(|row| row.gain > 1.0 && row.lifetime > 1.0));
    }

    #[test]
    fn dirty_pages_reach_flash_once_they_are_the_oldest() {
        let mut pages = DirtyPages::new(2);
        for place in [1, 2, 1, 3, 1, 3] {
            pages.write((Entry, place));
        }
        // Only page 2 had to go, for page 3.
        assert_eq!(pages.written, 1);
    }
}
