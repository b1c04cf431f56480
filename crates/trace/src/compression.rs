//! [`Compression`]: the compressions of files, by their first bytes and by the endings of names.

use std::path::Path;

/// The compression of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compression {
    /// None.
    None,
    /// zstd frames (RFC 8878).
    Zstd,
    /// gzip members (RFC 1952).
    Gzip,
    /// xz streams (The .xz File Format, version 1.2).
    Xz,
}

/// The endings of names, in lower case.
const ENDINGS: [(&str, Compression); 3] =
    [("zst", Compression::Zstd), ("gz", Compression::Gzip), ("xz", Compression::Xz)];

impl Compression {
    /// Number of bytes at the start of a file that determine its compression.
    pub(crate) const MAGIC_BYTES: usize = 6;

    /// Returns the compression that a file's name ends in: `.zst`, `.gz` or `.xz`, in either case.
    /// [`Compression::None`] for other names.
    pub fn for_path(path: &Path) -> Compression {
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        Compression::of_ending(&ending).unwrap_or(Compression::None)
    }

    /// The compression that an ending in lower case names, if it names one.
    pub(crate) fn of_ending(ending: &str) -> Option<Compression> {
        let known = ENDINGS.iter().find(|(known, _)| *known == ending);
        known.map(|(_, compression)| *compression)
    }

    /// The compression of data that begins with `start`.
    pub(crate) fn of_start(start: &[u8]) -> Compression {
        match start {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            _ if is_zstd(start) => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// Whether data that begins with `start` is a zstd frame or a skippable one (RFC 8878, sections
/// 3.1.1 and 3.1.2).
fn is_zstd(start: &[u8]) -> bool {
    let Some(magic) = start.first_chunk::<4>() else { return false };
    let magic = u32::from_le_bytes(*magic);
    magic == 0xfd2f_b528 || magic & 0xffff_fff0 == 0x184d_2a50
}
