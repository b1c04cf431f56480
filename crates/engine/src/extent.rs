//! Notices when a file in use is cut short, also if it grows again: what was cut off reads as zeros.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A part of a file that must stay.
pub(crate) struct Extent {
    file: Arc<File>,
    start: u64,
    end: u64,
    /// It may have holes.
    sparse: bool,
    /// The fewest blocks of 512 bytes that the file had while it was whole.
    blocks: AtomicU64,
    /// It was seen cut short. What was cut off stays lost, whatever is written later.
    cut: AtomicBool,
}

impl Extent {
    /// The bytes from `start` to `end` of `file`, which are there now.
    pub(crate) fn of(file: Arc<File>, start: u64, end: u64, sparse: bool) -> io::Result<Extent> {
        let blocks = AtomicU64::new(file.metadata()?.blocks());
        Ok(Extent { file, start, end, sparse, blocks, cut: AtomicBool::new(false) })
    }

    /// Whether nothing has been cut off. Costs one call of the kernel. Always true of a block device.
    pub(crate) fn is_whole(&self) -> bool {
        if self.cut.load(Ordering::Relaxed) {
            return false;
        }
        let Ok(metadata) = self.file.metadata() else { return false };
        let known = self.blocks.load(Ordering::Relaxed);
        let long = metadata.len() >= self.end;
        if !metadata.is_file() || (long && metadata.blocks() >= known) {
            return true;
        }
        // A file system may also need fewer blocks for its own records: only a hole is a loss. In a file
        // that may have holes, only too few blocks tell.
        let whole = long
            && if self.sparse {
                metadata.blocks() * 512 >= self.end - self.start
            } else {
                self.first_hole().is_some_and(|hole| hole >= self.end)
            };
        if whole {
            self.blocks.store(metadata.blocks(), Ordering::Relaxed);
        } else {
            self.cut.store(true, Ordering::Relaxed);
        }
        whole
    }

    /// Where the first hole of the file is behind the start, in bytes.
    fn first_hole(&self) -> Option<u64> {
        let start = self.start as libc::off_t;
        // SAFETY: the descriptor is open. Nothing depends on its position.
        let hole = unsafe { libc::lseek(self.file.as_raw_fd(), start, libc::SEEK_HOLE) };
        u64::try_from(hole).ok()
    }
}
