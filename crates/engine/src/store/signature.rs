//! Recognises the contents of a drive from the bytes at both of its ends.

/// Bytes of each end that [`recognise`] needs. File systems, partition tables and volumes have
/// their marks in the first or the last MiB.
pub(super) const ENDS_BYTES: usize = 1 << 20;

/// The place of a mark from the start in bytes, the mark, and the name of its format.
type Mark = (usize, &'static [u8], &'static str);

/// Marks in the first MiB. Marks that lie in bytes that other formats leave alone come first. From
/// the formats' own definitions, as libblkid lists them.
const MARKS: [Mark; 20] = [
    (0, b"LUKS\xba\xbe", "an encrypted volume (LUKS)"),
    (0, b"XFSB", "an XFS file system"),
    (3, b"NTFS    ", "an NTFS file system"),
    (3, b"EXFAT   ", "an exFAT file system"),
    (54, b"FAT1", "a FAT file system"),
    (82, b"FAT32   ", "a FAT file system"),
    (0, b"hsqs", "a squashfs file system"),
    (512, b"EFI PART", "a partition table (GPT)"),
    (4096, b"EFI PART", "a partition table (GPT)"),
    (0x200, b"LABELONE", "an LVM volume"),
    (0, b"LABELONE", "an LVM volume"),
    (0x438, b"\x53\xef", "an ext2, ext3 or ext4 file system"),
    (0x400, b"\x10\x20\xf5\xf2", "an F2FS file system"),
    (0x1000, b"\xfc\x4e\x2b\xa9", "a member of a RAID (md)"),
    (0, b"\xfc\x4e\x2b\xa9", "a member of a RAID (md)"),
    (0x1018, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca", "a bcache volume"),
    (0xff6, b"SWAPSPACE2", "swap space"),
    (0x8001, b"CD001", "an ISO 9660 file system"),
    (0x10040, b"_BHRfS_M", "a btrfs file system"),
    (510, b"\x55\xaa", "a partition table (MBR)"),
];

/// Uberblocks of ZFS, one every KiB from here in its first label.
const ZFS_UBERBLOCKS: std::ops::Range<usize> = 128 << 10..256 << 10;
const ZFS_MAGIC: [u8; 8] = 0x00ba_b10c_u64.to_le_bytes();

/// Names the contents of a drive from its first bytes `start` and last bytes `end`, if they are
/// known.
pub(super) fn recognise(start: &[u8], end: &[u8]) -> Option<&'static str> {
    let at = |bytes: &[u8], place: usize, mark: &[u8]| {
        bytes.get(place..).is_some_and(|rest| rest.starts_with(mark))
    };
    if let Some((.., what)) = MARKS.into_iter().find(|&(place, mark, _)| at(start, place, mark)) {
        return Some(what);
    }
    if ZFS_UBERBLOCKS.step_by(1024).any(|place| at(start, place, &ZFS_MAGIC)) {
        return Some("a member of a ZFS pool");
    }
    // The spare partition table is in the last block, for both block sizes.
    let spare = [512, 4096].into_iter().filter_map(|block| end.len().checked_sub(block));
    if spare.into_iter().any(|place| at(end, place, b"EFI PART")) {
        return Some("a partition table (GPT), though not at its start");
    }
    // RAID members of the versions 0.90 and 1.0, whose records lie 64 and 8 to 12 KiB before the
    // end.
    let records = end.len().saturating_sub(128 << 10)..end.len();
    let raid = records.step_by(4096).any(|place| at(end, place, b"\xfc\x4e\x2b\xa9"));
    raid.then_some("a member of a RAID (md)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drive(marks: &[(usize, &[u8])]) -> Vec<u8> {
        let mut bytes = vec![0; ENDS_BYTES];
        for (place, mark) in marks {
            bytes[*place..][..mark.len()].copy_from_slice(mark);
        }
        bytes
    }

    #[test]
    fn every_mark_is_told_by_its_name() {
        for (place, mark, what) in MARKS {
            assert_eq!(recognise(&drive(&[(place, mark)]), &drive(&[])), Some(what));
        }
    }

    #[test]
    fn a_partition_table_is_told_though_its_start_is_an_mbr() {
        let start = drive(&[(510, b"\x55\xaa"), (512, b"EFI PART")]);
        assert_eq!(recognise(&start, &[]), Some("a partition table (GPT)"));
    }

    #[test]
    fn what_lies_at_the_end_alone_is_told() {
        let gpt = drive(&[(ENDS_BYTES - 512, b"EFI PART")]);
        assert!(recognise(&drive(&[]), &gpt).is_some_and(|what| what.contains("GPT")));
        let raid = drive(&[(ENDS_BYTES - (8 << 10), b"\xfc\x4e\x2b\xa9")]);
        assert!(recognise(&drive(&[]), &raid).is_some_and(|what| what.contains("RAID")));
    }

    #[test]
    fn a_pool_is_told_by_any_of_its_uberblocks_and_by_the_mark_nowhere_else() {
        for place in [128 << 10, (128 << 10) + 37 * 1024, (256 << 10) - 1024] {
            let start = drive(&[(place, &ZFS_MAGIC)]);
            assert_eq!(recognise(&start, &[]), Some("a member of a ZFS pool"));
        }
        for place in [(128 << 10) - 1024, (128 << 10) + 512, 256 << 10] {
            assert_eq!(recognise(&drive(&[(place, &ZFS_MAGIC)]), &[]), None, "not at {place}");
        }
    }

    #[test]
    fn zeros_other_bytes_and_short_drives_hold_nothing_that_is_known() {
        assert_eq!(recognise(&drive(&[]), &drive(&[])), None);
        assert_eq!(recognise(&[7; ENDS_BYTES], &[7; ENDS_BYTES]), None);
        for bytes in [0, 1, 511, 512, 4095] {
            assert_eq!(recognise(&vec![0; bytes], &vec![0; bytes]), None);
        }
    }
}
