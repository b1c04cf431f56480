//! The metadata that a file system's operations change, in pieces and in blocks (FlatFlash,
//! ASPLOS'19 §3.5, §5.5).
//!
//! One model for three file systems. An operation changes a few small pieces of metadata, each in a
//! block of its own kind. The [`Consistency`] determines the blocks that a file system then writes.
//! On FlatFlash it writes the pieces themselves, without journal or copies. The pieces of an
//! operation follow the file systems' general design, within the sizes that the paper prints
//! (§3.5). Both are assumptions.

use ebbtide_core::PAGE_BYTES;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// How a file system keeps its metadata consistent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Consistency {
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
pub struct FileSystem {
    /// The name.
    pub name: &'static str,
    /// How the file system keeps metadata consistent.
    pub consistency: Consistency,
}

/// The paper's three file systems. They differ only in their consistency (assumption: BtrFS has
/// trees of three levels of 16 KiB, its default node).
pub const FILE_SYSTEMS: [FileSystem; 3] = [
    FileSystem { name: "EXT4", consistency: Consistency::BlockJournal },
    FileSystem { name: "XFS", consistency: Consistency::LogicalJournal },
    FileSystem { name: "BtrFS", consistency: Consistency::CopyOnWrite { node_pages: 4, depth: 3 } },
];

/// A kind of metadata. Pieces of a kind lie together in blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Piece {
    /// Inode of a new file, next to the inode of the file before.
    Inode,
    /// Inode of an existing file.
    Existing,
    /// Inode of the log that every operation appends to.
    Log,
    /// Inode of the directory that the file is in.
    Parent,
    /// Entry in that directory.
    Entry,
    /// Bitmap of inodes or of blocks.
    Bitmap,
    /// Descriptor of the group that a bitmap belongs to.
    Group,
    /// The first block of a new directory.
    NewBlock,
}

impl Piece {
    /// Returns the size of the piece in bytes, from 8 to 256 (FlatFlash §3.5).
    pub fn bytes(self) -> u64 {
        match self {
            Piece::Bitmap => 8,
            Piece::Entry | Piece::Group | Piece::NewBlock => 64,
            Piece::Inode | Piece::Existing | Piece::Log | Piece::Parent => 256,
        }
    }
}

/// An operation of FileBench.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    /// The name.
    pub name: &'static str,
    /// Metadata that it changes. Each element is one transaction of a journal, and is durable
    /// before the next begins.
    pub changes: &'static [&'static [Piece]],
    /// Pages of file data written.
    pub data_pages: u64,
}

use Piece::{Bitmap, Entry, Existing, Group, Inode, Log, NewBlock, Parent};

const CREATE: &[Piece] = &[Inode, Parent, Entry, Bitmap, Group];
const DELETE: &[Piece] = &[Existing, Parent, Entry, Bitmap, Group];
const APPEND: &[Piece] = &[Existing, Bitmap, Group];

/// FileBench's five operations. VarMail deletes a mail, creates and appends to another, and reads
/// and appends to a third. WebServer appends 16 KiB to a log for each page that it serves.
pub const OPERATIONS: [Operation; 5] = [
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

impl Consistency {
    /// Returns the number of pages that a file system of blocks writes for a transaction that
    /// changes `pieces`.
    pub fn pages(self, pieces: &[Piece]) -> u64 {
        let blocks = pieces.len() as u64;
        let bytes: u64 = pieces.iter().map(|piece| piece.bytes()).sum();
        match self {
            Consistency::BlockJournal => 1 + blocks + 1 + blocks,
            Consistency::LogicalJournal => bytes.div_ceil(PAGE_BYTES as u64) + blocks,
            // Inodes and entries lie in one tree, extents and free space in another: a path of
            // each.
            Consistency::CopyOnWrite { node_pages, depth } => {
                let trees =
                    if pieces.iter().any(|p| matches!(p, Bitmap | NewBlock)) { 2 } else { 1 };
                trees * depth * node_pages + 1
            }
        }
    }
}

/// Chooses the page of each piece of metadata that operations change.
pub struct Places {
    rng: Pcg64Mcg,
    inodes: u64,
}

impl Places {
    /// Returns the places in an empty file system. `seed` selects the directories and files that
    /// are touched.
    pub fn new(seed: u64) -> Places {
        Places { rng: Pcg64Mcg::seed_from_u64(seed), inodes: 0 }
    }

    /// Returns the page of the next `piece`. Each kind of piece numbers its pages from 0. There are
    /// 2²⁰ directories, all equally likely (assumption).
    pub fn of(&mut self, piece: Piece) -> u64 {
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
