//! Detects that a file in use is cut short, also if it grows again: the lost part reads as zeros.

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
    /// True if the file was seen cut short. The part that was cut off stays lost, even if it is
    /// written again.
    cut: AtomicBool,
}

impl Extent {
    /// The bytes from `start` to `end` of `file`, which are there now.
    pub(crate) fn of(file: Arc<File>, start: u64, end: u64, sparse: bool) -> io::Result<Extent> {
        let blocks = AtomicU64::new(file.metadata()?.blocks());
        Ok(Extent { file, start, end, sparse, blocks, cut: AtomicBool::new(false) })
    }

    /// Whether nothing has been cut off. Costs one call of the kernel. Always true of a block
    /// device.
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
        // A file system may also need fewer blocks for its own records: only a hole is a loss. In a
        // file that may have holes, only too few blocks tell.
        let whole = long
            && if self.sparse {
                metadata.blocks() * 512 >= self.end - self.start
            } else {
                // A recent write may look like a hole until it is on disk.
                self.has_no_hole() || (self.file.sync_data().is_ok() && self.has_no_hole())
            };
        if whole {
            self.blocks.store(metadata.blocks(), Ordering::Relaxed);
        } else {
            self.cut.store(true, Ordering::Relaxed);
        }
        whole
    }

    fn has_no_hole(&self) -> bool {
        self.first_hole().is_some_and(|hole| hole >= self.end)
    }

    /// Where the first hole of the file is behind the start, in bytes.
    fn first_hole(&self) -> Option<u64> {
        let start = self.start as libc::off_t;
        // SAFETY: the descriptor is open. Nothing depends on its position.
        let hole = unsafe { libc::lseek(self.file.as_raw_fd(), start, libc::SEEK_HOLE) };
        u64::try_from(hole).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    const PAGE: u64 = 4096;

    /// A file whose first `pages` pages are written.
    fn file(pages: u64) -> Arc<File> {
        let file = tempfile::tempfile_in(".").expect("a file");
        file.write_all_at(&vec![7; (pages * PAGE) as usize], 0).expect("written");
        file.sync_all().expect("on the device");
        Arc::new(file)
    }

    /// The pages from the second to the fourth of `file`.
    fn extent(file: &Arc<File>, sparse: bool) -> Extent {
        Extent::of(file.clone(), PAGE, 4 * PAGE, sparse).expect("it is there")
    }

    #[test]
    fn a_file_that_loses_only_what_lies_behind_stays_whole() {
        for sparse in [false, true] {
            let file = file(9);
            let extent = extent(&file, sparse);
            for pages in [7, 4] {
                file.set_len(pages * PAGE).expect("cut short");
                assert!(extent.is_whole(), "of {pages} pages");
            }
            file.set_len(4 * PAGE - 1).expect("cut short");
            assert!(!extent.is_whole());
        }
    }

    #[test]
    fn what_was_cut_off_is_missed_also_when_the_file_has_grown_again_and_for_ever() {
        for sparse in [false, true] {
            let file = file(4);
            let extent = extent(&file, sparse);
            file.set_len(2 * PAGE).expect("cut short");
            file.set_len(9 * PAGE).expect("grown");
            assert!(!extent.is_whole());
            file.write_all_at(&[7; 7 * PAGE as usize], 2 * PAGE).expect("written");
            assert!(!extent.is_whole(), "what is there now is another's");
        }
    }

    #[test]
    fn a_file_with_holes_from_the_start_is_whole_until_one_grows() {
        let file = file(4);
        file.set_len(9 * PAGE).expect("grown");
        let extent = Extent::of(file.clone(), 0, 9 * PAGE, true).expect("it is there");
        assert!(extent.is_whole());
        file.write_all_at(&[7; PAGE as usize], 8 * PAGE).expect("written");
        assert!(extent.is_whole());
        file.set_len(2 * PAGE).expect("cut short");
        file.set_len(9 * PAGE).expect("grown");
        assert!(!extent.is_whole());
    }

    #[test]
    fn what_is_no_file_cannot_be_cut_short() {
        let null = Arc::new(File::open("/dev/null").expect("it is there"));
        assert!(Extent::of(null, 0, 0, false).expect("it opens").is_whole());
    }
}
