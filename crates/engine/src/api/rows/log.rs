//! [`RowLog`]: the rows that were changed since the last flush, in a file of their own.
//!
//! ```text
//! | header, 64 bytes | record | record | …
//! ```
//!
//! A record has its rows' indices, which bytes of them were changed, and the new bytes. Its
//! checksum covers all of it, and its number follows that of the record before. The first record
//! that does not fit ends the log: a crash has cut its write short, or a flush has emptied the log
//! since. Rows are changed only after their record is on the device. So a page that a crash has
//! torn is whole again when all records have been applied in order.

use std::fs::{File, OpenOptions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, BufReader, ErrorKind, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ebbtide_core::{crc32c, crc32c_append};

use super::error::RowError;
use super::places;

const HEADER_BYTES: usize = 64;
const RECORD_BYTES: usize = 48;
/// The first bytes of a log, with the version of its format.
const MAGIC: u64 = u64::from_le_bytes(*b"EBBROWS1");

/// The rows that a log is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) row_bytes: u64,
    pub(super) count: u64,
    pub(super) range: places::Range,
}

/// An open log.
pub(super) struct RowLog {
    file: File,
    path: PathBuf,
    id: u64,
    /// The number of the next record.
    next: u64,
    bytes: u64,
}

/// Rows that were changed together.
pub(super) struct Record {
    pub(super) indices: Vec<u64>,
    /// The bytes of each row that were changed.
    pub(super) bytes: Range<usize>,
    pub(super) data: Vec<u8>,
}

/// The log of the rows in the file at `path`.
pub(super) fn path_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".rowlog");
    name.into()
}

/// Whether the file at `path` has a log with records.
pub(super) fn has_records(path: &Path) -> bool {
    std::fs::metadata(path_of(path)).is_ok_and(|about| about.len() > HEADER_BYTES as u64)
}

/// Makes the names in the folder of `path` durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

impl RowLog {
    /// Opens the log of the file at `path`, or makes it.
    ///
    /// # Errors
    /// When the file cannot be read or written, or is no log of these rows.
    pub(super) fn open(path: &Path, identity: Identity) -> Result<RowLog, RowError> {
        let path = path_of(path);
        RowLog::at(&path, identity).map_err(|error| match error.get_ref() {
            Some(inner) if inner.is::<Foreign>() => RowError::Log { path, reason: FOREIGN },
            _ => RowError::unwritten(path)(error),
        })
    }

    /// As [`open`](RowLog::open), if there is a log already.
    pub(super) fn open_existing(
        path: &Path,
        identity: Identity,
    ) -> Result<Option<RowLog>, RowError> {
        if !path_of(path).exists() {
            return Ok(None);
        }
        RowLog::open(path, identity).map(Some)
    }

    fn at(path: &Path, identity: Identity) -> io::Result<RowLog> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        let bytes = file.metadata()?.len();
        let id = match bytes < HEADER_BYTES as u64 {
            true => begin(&file, path, identity)?,
            false => check(&file, identity)?,
        };
        let bytes = bytes.max(HEADER_BYTES as u64);
        Ok(RowLog { file, path: path.to_path_buf(), id, next: 0, bytes })
    }

    /// Calls `apply` with every record, in order. Later records follow the last one.
    ///
    /// # Errors
    /// Those of `apply`, and when the log cannot be read.
    pub(super) fn replay(
        &mut self,
        mut apply: impl FnMut(Record) -> Result<(), RowError>,
    ) -> Result<(), RowError> {
        let mut reader = Reader {
            input: BufReader::new(&self.file),
            left: self.bytes.saturating_sub(HEADER_BYTES as u64),
            id: self.id,
            next: None,
        };
        let failed = || RowError::unwritten(self.path.clone());
        reader.input.seek_relative(HEADER_BYTES as i64).map_err(failed())?;
        while let Some(record) = reader.record().map_err(failed())? {
            apply(record)?;
        }
        self.next = reader.next.unwrap_or(0);
        Ok(())
    }

    /// Bytes of all records.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes - HEADER_BYTES as u64
    }

    /// Appends a record of the rows `indices`, whose `bytes` become `data`. It is on the device
    /// when this returns.
    pub(super) fn append(
        &mut self,
        indices: &[u64],
        bytes: &Range<usize>,
        data: &[u8],
    ) -> io::Result<()> {
        let mut record = Vec::with_capacity(RECORD_BYTES + size_of_val(indices) + data.len());
        record.extend([0; 8]);
        let numbers =
            [self.id, self.next, indices.len() as u64, bytes.start as u64, bytes.end as u64];
        numbers.iter().chain(indices).for_each(|number| record.extend(number.to_le_bytes()));
        record.extend(data);
        let checksum = crc32c(&record[8..]);
        record[..8].copy_from_slice(&u64::from(checksum).to_le_bytes());
        self.file.write_all_at(&record, self.bytes)?;
        self.file.sync_data()?;
        (self.next, self.bytes) = (self.next + 1, self.bytes + record.len() as u64);
        Ok(())
    }

    /// Forgets all records, because their rows are on the device.
    pub(super) fn empty(&mut self) -> io::Result<()> {
        // Not flushed: records that come back after a crash are older than the rows, and end where
        // a newer record was written over them.
        self.file.set_len(HEADER_BYTES as u64)?;
        self.bytes = HEADER_BYTES as u64;
        Ok(())
    }

    /// Removes the file, whose records are empty. It does not come back after a crash.
    pub(super) fn remove(mut self) -> io::Result<()> {
        self.empty()?;
        self.file.sync_all()?;
        std::fs::remove_file(&self.path)?;
        sync_folder(&self.path)
    }
}

const FOREIGN: &str = "it is no log, or one of rows of another size or place";

/// The error of a file with another header.
#[derive(Debug)]
struct Foreign;

impl std::fmt::Display for Foreign {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(FOREIGN)
    }
}

impl std::error::Error for Foreign {}

/// The header of a log with the number `id`.
fn header(id: u64, identity: Identity) -> [u8; HEADER_BYTES] {
    let Identity { row_bytes, count, range } = identity;
    let numbers = [MAGIC, id, row_bytes, count, range.offset, range.bytes, 0];
    let mut header = [0; HEADER_BYTES];
    for (place, number) in header.chunks_exact_mut(8).zip(numbers) {
        place.copy_from_slice(&number.to_le_bytes());
    }
    let checksum = crc32c(&header[..HEADER_BYTES - 8]);
    header[HEADER_BYTES - 8..].copy_from_slice(&u64::from(checksum).to_le_bytes());
    header
}

/// Writes the header of a new log. Returns its number.
fn begin(file: &File, path: &Path, identity: Identity) -> io::Result<u64> {
    let id = RandomState::new().build_hasher().finish();
    file.set_len(0)?;
    file.write_all_at(&header(id, identity), 0)?;
    file.sync_all()?;
    sync_folder(path)?;
    Ok(id)
}

/// Reads the header of a log. Returns its number.
fn check(file: &File, identity: Identity) -> io::Result<u64> {
    let mut found = [0; HEADER_BYTES];
    file.read_exact_at(&mut found, 0)?;
    let id = u64::from_le_bytes(found[8..16].try_into().expect("eight bytes"));
    if found == header(id, identity) { Ok(id) } else { Err(io::Error::other(Foreign)) }
}

/// Reads records.
struct Reader<R> {
    input: BufReader<R>,
    /// Bytes behind the last record.
    left: u64,
    id: u64,
    /// The number of the next record, if there was one before.
    next: Option<u64>,
}

impl<R: Read> Reader<R> {
    /// The next record, or `None` at the end of the log.
    fn record(&mut self) -> io::Result<Option<Record>> {
        match self.whole_record() {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            result => result,
        }
    }

    /// As [`record`](Reader::record), with an error if the file ends within the record.
    fn whole_record(&mut self) -> io::Result<Option<Record>> {
        let mut numbers = [0; RECORD_BYTES];
        self.input.read_exact(&mut numbers)?;
        let number = |place: usize| {
            let bytes = numbers[8 * place..8 * (place + 1)].try_into().expect("eight bytes");
            u64::from_le_bytes(bytes)
        };
        let (id, sequence, count, start, end) =
            (number(1), number(2), number(3), number(4), number(5));
        let follows = id == self.id && self.next.is_none_or(|next| next == sequence);
        let width = end.checked_sub(start).and_then(|width| width.checked_add(8));
        let body = width.and_then(|width| width.checked_mul(count));
        let record_bytes = body.and_then(|body| body.checked_add(RECORD_BYTES as u64));
        let Some(record_bytes) = record_bytes.filter(|bytes| follows && *bytes <= self.left) else {
            return Ok(None);
        };
        let mut indices = vec![0; count as usize * 8];
        self.input.read_exact(&mut indices)?;
        let mut data = vec![0; count as usize * (end - start) as usize];
        self.input.read_exact(&mut data)?;
        let checksum = crc32c_append(crc32c_append(crc32c(&numbers[8..]), &indices), &data);
        if u64::from(checksum) != number(0) {
            return Ok(None);
        }
        self.left -= record_bytes;
        self.next = Some(sequence + 1);
        let index = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let indices = indices.chunks_exact(8).map(index).collect();
        Ok(Some(Record { indices, bytes: start as usize..end as usize, data }))
    }
}
