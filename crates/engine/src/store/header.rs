//! The header of a store: its contents, its place, and its replacement.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ebbtide_core::durability::{Geometry, LOG_BLOCKS_MIN, SLOTS_MAX};
use ebbtide_core::{PAGE_BYTES, crc32c};

use super::error::fault;
use super::file::{buffer, size_bytes};
use super::{StoreError, TAG_BYTES_MAX, VERSION};

const MAGIC: [u8; 8] = *b"EBBTIDE\0";
const CLEAN: u32 = 1;
const DIRTY: u32 = 2;

/// The places of the header's parts, in bytes from its start.
mod layout {
    pub(super) const VERSION: usize = 8;
    pub(super) const STATE: usize = 12;
    pub(super) const PAGES: usize = 16;
    pub(super) const SPARE_PAGES: usize = 24;
    pub(super) const TAG_BYTES: usize = 32;
    pub(super) const BLANK: usize = 36;
    pub(super) const TAG: usize = 40;
    pub(super) const ID: usize = TAG + super::TAG_BYTES_MAX;
    pub(super) const LOG_BLOCKS: usize = ID + 8;
    pub(super) const CHECKSUM: usize = super::PAGE_BYTES - 4;
}

/// The header's description of the pages behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Pages in the address space.
    pub pages: u64,
    /// Spare places for pages behind them.
    pub spare_pages: u64,
    /// The name of the image, set by the program that wrote it.
    pub tag: String,
    /// True if the pages are known to match the tag.
    pub clean: bool,
    /// Whether all pages were zeros when it was made, and none was written.
    pub blank: bool,
    /// Identifies this store among all others.
    pub id: u64,
    /// Blocks of the log, or zero if the store does not persist.
    pub log_blocks: u64,
}

impl Header {
    /// Places for pages, the spare ones included.
    pub fn places(&self) -> u64 {
        self.pages.saturating_add(self.spare_pages)
    }

    /// Whether the making of a store that survives crashes was cut off: one that was made is clean
    /// for good.
    pub fn is_unfinished(&self) -> bool {
        self.log_blocks > 0 && !self.clean
    }

    /// The sizes of the persist part, if there is one: then all pages belong to it.
    pub fn persist(&self) -> Option<Geometry> {
        let Header { id, pages, log_blocks, .. } = *self;
        (log_blocks > 0).then(|| Geometry { id, pages, slots: self.places(), log_blocks })
    }

    /// Bytes of the store, this header included. The numbers of a damaged header may not fit in a
    /// word.
    pub(super) fn bytes(&self) -> u64 {
        let places = self.persist().map_or(self.places(), |geometry| geometry.blocks());
        places.saturating_add(1).saturating_mul(PAGE_BYTES as u64)
    }

    /// True if the numbers of a persist part are consistent. Without one, they only give the file's
    /// length.
    pub(super) fn is_possible(&self) -> bool {
        const LOG_BLOCKS_MAX: u64 = 1 << 40;
        self.log_blocks == 0
            || (LOG_BLOCKS_MIN..=LOG_BLOCKS_MAX).contains(&self.log_blocks)
                && self.places() <= SLOTS_MAX
                && self.spare_pages > 0
    }

    pub(super) fn encode(&self, out: &mut [u8]) {
        assert!(self.tag.len() <= TAG_BYTES_MAX, "a tag has at most {TAG_BYTES_MAX} bytes");
        out.fill(0);
        let state = if self.clean { CLEAN } else { DIRTY };
        let tag_bytes = self.tag.len() as u32;
        out[..8].copy_from_slice(&MAGIC);
        out[layout::VERSION..][..4].copy_from_slice(&VERSION.to_le_bytes());
        out[layout::STATE..][..4].copy_from_slice(&state.to_le_bytes());
        out[layout::PAGES..][..8].copy_from_slice(&self.pages.to_le_bytes());
        out[layout::SPARE_PAGES..][..8].copy_from_slice(&self.spare_pages.to_le_bytes());
        out[layout::TAG_BYTES..][..4].copy_from_slice(&tag_bytes.to_le_bytes());
        out[layout::BLANK..][..4].copy_from_slice(&u32::from(self.blank).to_le_bytes());
        out[layout::ID..][..8].copy_from_slice(&self.id.to_le_bytes());
        out[layout::LOG_BLOCKS..][..8].copy_from_slice(&self.log_blocks.to_le_bytes());
        out[layout::TAG..][..self.tag.len()].copy_from_slice(self.tag.as_bytes());
        let checksum = crc32c(&out[..layout::CHECKSUM]);
        out[layout::CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
    }

    fn decode(page: &[u8], path: &Path) -> Result<Header, StoreError> {
        let damaged = || StoreError::Damaged(path.to_path_buf());
        let word = |at: usize| u32::from_le_bytes(page[at..at + 4].try_into().expect("4 bytes"));
        if page[..8] != MAGIC {
            return Err(StoreError::NotAStore(path.to_path_buf()));
        }
        let found = word(layout::VERSION);
        if found != VERSION {
            return Err(StoreError::Version { path: path.to_path_buf(), found });
        }
        let tag_bytes = word(layout::TAG_BYTES) as usize;
        if word(layout::CHECKSUM) != crc32c(&page[..layout::CHECKSUM]) || tag_bytes > TAG_BYTES_MAX
        {
            return Err(damaged());
        }
        let number = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("8 bytes"));
        let tag = page[layout::TAG..][..tag_bytes].to_vec();
        let header = Header {
            pages: number(layout::PAGES),
            spare_pages: number(layout::SPARE_PAGES),
            tag: String::from_utf8(tag).map_err(|_| damaged())?,
            clean: word(layout::STATE) == CLEAN,
            blank: word(layout::BLANK) != 0,
            id: number(layout::ID),
            log_blocks: number(layout::LOG_BLOCKS),
        };
        if header.is_possible() { Ok(header) } else { Err(damaged()) }
    }
}

/// Bytes of a header and all places behind it. The numbers of a damaged header may not fit in a
/// word.
pub(super) fn bytes_of(pages: u64, spare_pages: u64) -> u64 {
    let places = pages.saturating_add(spare_pages);
    places.saturating_add(1).saturating_mul(PAGE_BYTES as u64)
}

/// The file operations that replace a header.
pub(super) trait HeaderFile {
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    fn flush(&self) -> io::Result<()>;
}

impl HeaderFile for File {
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Writes a header between two flushes. When it says clean, the pages written before it are on the
/// device. When it says dirty, it is on the device before any later page.
pub(super) fn replace_header(file: &impl HeaderFile, header: &[u8], offset: u64) -> io::Result<()> {
    file.flush()?;
    file.write(header, offset)?;
    file.flush()
}

/// Returns the header of a store if its file is as long as the header says.
pub(super) fn whole_header(file: &File, path: &Path, offset: u64) -> Result<Header, StoreError> {
    let header = read_header(file, path, offset)?;
    let expected_bytes = offset.saturating_add(header.bytes());
    let found_bytes = size_bytes(file, path)?;
    if found_bytes < expected_bytes {
        return Err(StoreError::Short { path: path.to_path_buf(), found_bytes, expected_bytes });
    }
    Ok(header)
}

fn read_header(file: &File, path: &Path, offset: u64) -> Result<Header, StoreError> {
    let mut page = buffer(PAGE_BYTES, path)?;
    let read = file
        .read_at(page.as_mut_slice(), offset)
        .map_err(|error| fault(path, "read the header", error))?;
    if read < PAGE_BYTES && page.as_slice().starts_with(&MAGIC) {
        let found_bytes = offset + read as u64;
        let expected_bytes = offset + PAGE_BYTES as u64;
        return Err(StoreError::Short { path: path.to_path_buf(), found_bytes, expected_bytes });
    }
    Header::decode(page.as_slice(), path)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::fd::OwnedFd;

    use super::*;

    #[derive(Clone, Copy, PartialEq, Debug)]
    enum Call {
        Write(u64),
        Flush,
    }

    /// Fails at the call of this number.
    struct Recorded {
        calls: RefCell<Vec<Call>>,
        fails_at: usize,
    }

    impl Recorded {
        fn call(&self, call: Call) -> io::Result<()> {
            let mut calls = self.calls.borrow_mut();
            calls.push(call);
            if calls.len() > self.fails_at { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
        }
    }

    impl HeaderFile for Recorded {
        fn write(&self, _bytes: &[u8], offset: u64) -> io::Result<()> {
            self.call(Call::Write(offset))
        }

        fn flush(&self) -> io::Result<()> {
            self.call(Call::Flush)
        }
    }

    #[test]
    fn a_header_is_written_between_two_flushes_and_no_failure_is_passed_over() {
        let order = [Call::Flush, Call::Write(77), Call::Flush];
        for fails_at in 0..=3 {
            let file = Recorded { calls: RefCell::default(), fails_at };
            assert_eq!(replace_header(&file, &[], 77).is_ok(), fails_at == 3);
            assert_eq!(file.calls.into_inner(), order[..(fails_at + 1).min(3)]);
        }
    }

    #[test]
    fn a_flush_reaches_the_kernel_and_its_refusal_is_an_error() {
        // The contents of a pipe cannot be flushed.
        let (_read, write) = io::pipe().expect("a pipe");
        let error = HeaderFile::flush(&File::from(OwnedFd::from(write))).expect_err("a pipe");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }

    fn header(pages: u64, spare_pages: u64, log_blocks: u64) -> Header {
        let tag = "numbers".to_string();
        Header { pages, spare_pages, tag, clean: true, blank: false, id: 7, log_blocks }
    }

    #[test]
    fn every_part_of_a_header_lies_at_the_place_that_this_version_gives_it() {
        let (tag, longest) = ("numbers", "t".repeat(1024));
        for (tag, clean, blank) in [(tag, true, false), (&longest, false, true)] {
            let header = Header { tag: tag.into(), clean, blank, ..header(0x0102, 0x0304, 0x0506) };
            let mut expected = [0; PAGE_BYTES];
            let state = if clean { 1 } else { 2 };
            expected[..8].copy_from_slice(b"EBBTIDE\0");
            for (place, number) in [
                (8, 2),
                (12, state),
                (16, 0x0102),
                (24, 0x0304),
                (32, tag.len() as u64),
                (36, u64::from(blank)),
                (1064, 7),
                (1072, 0x0506),
            ] {
                expected[place..][..2].copy_from_slice(&(number as u16).to_le_bytes());
            }
            expected[40..][..tag.len()].copy_from_slice(tag.as_bytes());
            let checksum = crc32c(&expected[..4092]);
            expected[4092..].copy_from_slice(&checksum.to_le_bytes());
            let mut page = [0xff; PAGE_BYTES];
            header.encode(&mut page);
            assert_eq!(page, expected);
        }
    }

    #[test]
    fn a_header_with_a_log_is_taken_for_damaged_unless_its_numbers_are_possible() {
        for (header, is_possible) in [
            (header(u64::MAX, u64::MAX, 0), true),
            (header(9, 1, LOG_BLOCKS_MIN), true),
            (header(9, 1, LOG_BLOCKS_MIN - 1), false),
            (header(9, 0, LOG_BLOCKS_MIN), false),
            (header(SLOTS_MAX - 1, 1, LOG_BLOCKS_MIN), true),
            (header(SLOTS_MAX, 1, LOG_BLOCKS_MIN), false),
            (header(u64::MAX, u64::MAX, LOG_BLOCKS_MIN), false),
            (header(9, 1, 1 << 40), true),
            (header(9, 1, (1 << 40) + 1), false),
            (header(9, 1, u64::MAX), false),
        ] {
            let mut page = [0; PAGE_BYTES];
            header.encode(&mut page);
            let decoded = Header::decode(&page, Path::new("data"));
            assert_eq!(decoded.is_ok(), is_possible, "{header:?}");
            assert!(decoded.is_err() || decoded.is_ok_and(|decoded| decoded == header));
        }
    }

    #[test]
    fn a_header_with_a_longer_tag_than_there_may_be_is_taken_for_damaged() {
        let mut page = [0; PAGE_BYTES];
        header(9, 0, 0).encode(&mut page);
        for (tag_bytes, is_whole) in [(TAG_BYTES_MAX, true), (TAG_BYTES_MAX + 1, false)] {
            page[layout::TAG_BYTES..][..4].copy_from_slice(&(tag_bytes as u32).to_le_bytes());
            let checksum = crc32c(&page[..layout::CHECKSUM]);
            page[layout::CHECKSUM..].copy_from_slice(&checksum.to_le_bytes());
            assert_eq!(Header::decode(&page, Path::new("data")).is_ok(), is_whole);
        }
    }
}
