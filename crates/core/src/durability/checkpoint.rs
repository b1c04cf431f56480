//! [`Checkpoint`]: how far a checkpoint has come.

use super::Lsn;
use super::base_map::PageMap;
use super::geometry::{Block, Geometry, Page};
use super::superblock::Superblock;
use crate::addr::PAGE_BYTES;

/// The most blocks of a base map that are written at once. They are made under the journal's lock, a block in
/// some microseconds.
const BASE_BLOCKS_AT_ONCE: u64 = 16;

/// A checkpoint's progress.
#[derive(Debug, Clone, Copy)]
pub(super) enum Checkpoint {
    /// There is none.
    Idle,
    /// Pages stored to before `target` are being written.
    Cleaning { target: Lsn },
    /// The base map is being written, from block `index` on. It began when the log ended at `start`.
    Base { start: Lsn, index: u64 },
    /// The base map is written. It may name places of which the log knows only up to `end`.
    BaseWritten {
        start: Lsn,
        end: Lsn,
        /// A flush has ended that began afterwards.
        flushed: bool,
        /// What names the map, once it may be written.
        superblock: Option<Superblock>,
    },
    /// The superblock is written and waits for a flush.
    SuperblockWritten { superblock: Superblock },
}

impl Checkpoint {
    /// One that writes `superblock` alone, which names the base map and the horizon of the one before.
    pub(super) fn closing(superblock: Superblock) -> Checkpoint {
        let (start, end) = (superblock.horizon, superblock.log_end);
        Checkpoint::BaseWritten { start, end, flushed: true, superblock: Some(superblock) }
    }

    /// The next blocks of the base map of `generation`, if it is their turn.
    pub(super) fn base_blocks(
        &self,
        geometry: &Geometry,
        map: &PageMap,
        generation: u64,
        area: u8,
    ) -> Option<Vec<(Block, Box<Page>)>> {
        let Checkpoint::Base { index, .. } = *self else { return None };
        let end = geometry.base_blocks().min(index + BASE_BLOCKS_AT_ONCE);
        let block = |index| {
            let mut page = Box::new([0; PAGE_BYTES]);
            map.encode(geometry, index, generation, &mut page);
            (geometry.base(area, index), page)
        };
        Some((index..end).map(block).collect())
    }

    /// Those blocks are written; the log ends at `tail` now.
    pub(super) fn base_written(&mut self, geometry: &Geometry, tail: Lsn) {
        let Checkpoint::Base { start, index } = *self else {
            unreachable!("a base map is written in its turn")
        };
        let index = index + BASE_BLOCKS_AT_ONCE.min(geometry.base_blocks() - index);
        *self = if index < geometry.base_blocks() {
            Checkpoint::Base { start, index }
        } else {
            Checkpoint::BaseWritten { start, end: tail, flushed: false, superblock: None }
        };
    }

    /// The superblock to write, if it is its turn.
    pub(super) fn superblock(&self) -> Option<Superblock> {
        match *self {
            Checkpoint::BaseWritten { superblock, .. } => superblock,
            _ => None,
        }
    }

    /// The superblock is written.
    pub(super) fn superblock_written(&mut self) {
        let superblock = self.superblock().expect("a superblock is written in its turn");
        *self = Checkpoint::SuperblockWritten { superblock };
    }

    /// Whether it goes on only after a flush.
    pub(super) fn waits_for_flush(&self) -> bool {
        matches!(
            self,
            Checkpoint::BaseWritten { superblock: None, .. } | Checkpoint::SuperblockWritten { .. }
        )
    }

    /// A flush has ended that began after the last step. Gives the superblock if that ends the
    /// checkpoint.
    pub(super) fn flushed(&mut self) -> Option<Superblock> {
        match self {
            Checkpoint::BaseWritten { flushed, .. } => {
                *flushed = true;
                None
            }
            Checkpoint::SuperblockWritten { superblock } => {
                let superblock = *superblock;
                *self = Checkpoint::Idle;
                Some(superblock)
            }
            Checkpoint::Idle | Checkpoint::Cleaning { .. } | Checkpoint::Base { .. } => None,
        }
    }
}
