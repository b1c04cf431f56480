//! [`Checkpoint`]: the progress of a checkpoint.

use super::Lsn;
use super::base_map::PageMap;
use super::geometry::{Block, Geometry, Page};
use super::superblock::Superblock;
use crate::addr::PAGE_BYTES;

/// The most blocks of a base map that are written at once. They are made under the journal's lock,
/// and each takes some microseconds.
const BASE_BLOCKS_AT_ONCE: u64 = 16;

/// A checkpoint's progress.
#[derive(Debug, Clone, Copy)]
pub(super) enum Checkpoint {
    /// No checkpoint is under way.
    Idle,
    /// Pages stored to before `target` are being written.
    Cleaning { target: Lsn },
    /// The base map is being written, from block `index` on. It began when the log ended at
    /// `start`.
    Base { start: Lsn, index: u64 },
    /// The base map is written. Some slots that it names may have their records anywhere in the log
    /// before `end`.
    BaseWritten {
        start: Lsn,
        end: Lsn,
        /// True once a flush that began afterwards has ended.
        flushed: bool,
        /// The superblock that names the map, once it may be written.
        superblock: Option<Superblock>,
    },
    /// The superblock is written and waits for a flush.
    SuperblockWritten { superblock: Superblock },
}

impl Checkpoint {
    /// A checkpoint that only writes `superblock`, with the base map and the horizon of the
    /// superblock before.
    pub(super) fn closing(superblock: Superblock) -> Checkpoint {
        let (start, end) = (superblock.horizon, superblock.log_end);
        Checkpoint::BaseWritten { start, end, flushed: true, superblock: Some(superblock) }
    }

    /// Returns the next blocks of the base map of `generation`, if it is their turn.
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

    /// Notes that those blocks are written. The log ends at `tail` now.
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

    /// Returns the superblock to write, if it is its turn.
    pub(super) fn superblock(&self) -> Option<Superblock> {
        match *self {
            Checkpoint::BaseWritten { superblock, .. } => superblock,
            _ => None,
        }
    }

    /// Notes that the superblock is written.
    pub(super) fn superblock_written(&mut self) {
        let superblock = self.superblock().expect("a superblock is written in its turn");
        *self = Checkpoint::SuperblockWritten { superblock };
    }

    /// Returns true if it needs a flush to go on.
    pub(super) fn waits_for_flush(&self) -> bool {
        matches!(
            self,
            Checkpoint::BaseWritten { superblock: None, .. } | Checkpoint::SuperblockWritten { .. }
        )
    }

    /// Notes the end of a flush that began after the last step. Returns the superblock to write if
    /// this ends the checkpoint.
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
