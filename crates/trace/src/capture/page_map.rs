//! [`PageMap`]: the physical pages of a process, from the kernel (`/proc/PID/pagemap`).

use std::fs::File;
use std::os::unix::fs::FileExt;

use ebbtide_core::PageId;
use rustc_hash::FxHashMap;

/// The pages of one process, looked up when they are first accessed.
#[derive(Default)]
pub(super) struct PageMap {
    /// The kernel's file, once the process is known.
    file: Option<File>,
    pages: FxHashMap<PageId, Known>,
    pub(super) forbidden: bool,
}

#[derive(Clone, Copy)]
struct Known {
    frame: PageId,
    /// Pages that were looked up after a write. Before its first write, a page may share the zero
    /// page or its parent's page.
    written: bool,
}

/// Bit 63 of an entry: the page is in memory.
const PRESENT: u64 = 1 << 63;

/// Bits 0 to 54 of such an entry: its physical page, or zero for a reader without permission.
const FRAME: u64 = (1 << 55) - 1;

impl PageMap {
    /// The pages of the process `id`.
    pub(super) fn of(id: u32) -> PageMap {
        let file = File::open(format!("/proc/{id}/pagemap")).ok();
        PageMap { forbidden: file.is_none(), file, pages: FxHashMap::default() }
    }

    /// The physical page of `page`, if it is known. Asks the kernel at the page's first access and
    /// at its first write.
    pub(super) fn frame(&mut self, page: PageId, write: bool) -> Option<PageId> {
        let known = self.pages.get(&page).copied();
        if let Some(known) = known
            && (known.written || !write)
        {
            return Some(known.frame);
        }
        let frame = self.look_up(page).or(known.map(|known| known.frame))?;
        self.pages.insert(page, Known { frame, written: write });
        Some(frame)
    }

    fn look_up(&mut self, page: PageId) -> Option<PageId> {
        let mut entry = [0; 8];
        self.file.as_ref()?.read_exact_at(&mut entry, page.0 * 8).ok()?;
        let entry = u64::from_le_bytes(entry);
        if entry & PRESENT == 0 {
            return None;
        }
        if entry & FRAME == 0 {
            (self.forbidden, self.file) = (true, None);
            return None;
        }
        Some(PageId(entry & FRAME))
    }
}
