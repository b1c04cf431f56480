//! The file or block device beneath a store: opened past the page cache, locked, and long enough.

use std::ffi::CString;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use ebbtide_core::PAGE_BYTES;

use super::error::fault;
use super::signature::{ENDS_BYTES, recognise};
use super::{Access, StoreError};
use crate::host::mapping::Mapping;

/// Opens a file of any kind to read `bytes` bytes from `offset` on, past the page cache where its
/// file system can.
pub(crate) fn open_to_read(path: &Path, offset: u64, bytes: u64) -> Result<File, StoreError> {
    open_any(path, (offset, bytes), false)
}

/// As [`open_to_read`], to write as well.
pub(crate) fn open_to_change(path: &Path, offset: u64, bytes: u64) -> Result<File, StoreError> {
    open_any(path, (offset, bytes), true)
}

fn open_any(path: &Path, (offset, bytes): (u64, u64), writes: bool) -> Result<File, StoreError> {
    let unopened = |source| StoreError::Open { path: path.to_path_buf(), source };
    let kind = std::fs::metadata(path).map_err(unopened)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(StoreError::NotAFile(path.to_path_buf()));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(writes).custom_flags(libc::O_DIRECT);
    // What keeps a file from being opened at all does so in both ways.
    let direct = options.open(path);
    let file = direct.or_else(|_| options.custom_flags(0).open(path));
    let file = file.map_err(unopened)?;
    let found_bytes = size_bytes(&file, path)?;
    if offset.checked_add(bytes).is_none_or(|end| end > found_bytes) {
        let path = path.to_path_buf();
        return Err(StoreError::Beyond { path, offset, bytes, found_bytes });
    }
    Ok(file)
}

pub(super) fn check_aligned(offset: u64) -> Result<(), StoreError> {
    let aligned = offset.is_multiple_of(PAGE_BYTES as u64);
    if aligned { Ok(()) } else { Err(StoreError::Unaligned(offset)) }
}

/// The purpose of opening a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To read its contents.
    Look,
    /// To write a new store into a file that does not exist yet.
    MakeFile,
    /// To write a new store into it; it is made if it does not exist.
    Make,
    /// To use the store in it.
    Use(Access),
}

impl Purpose {
    /// True if bytes may be written. [`Access::SharedReadOnly`] needs no writable file, neither for
    /// its lock nor for its users.
    fn writes(self) -> bool {
        self != Purpose::Use(Access::SharedReadOnly)
    }
}

/// Opens the file at `path` to write a store into it. Returns true with it if the file was made
/// here.
pub(super) fn open_to_make(path: &Path) -> Result<(File, bool), StoreError> {
    if !path.exists() {
        match open(path, Purpose::MakeFile) {
            Err(StoreError::Open { source, .. })
                if source.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error @ StoreError::NoDirectIo(_)) => {
                // The kernel refuses O_DIRECT only after it has made the file.
                let _ = std::fs::remove_file(path);
                return Err(error);
            }
            made => return made.map(|file| (file, true)),
        }
    }
    Ok((open(path, Purpose::Make)?, false))
}

/// Sets the permissions of `file` to those of `like`. Also sets its owner if this process may.
pub(super) fn take_permissions(file: &File, like: &File, path: &Path) -> Result<(), StoreError> {
    let about = like.metadata().map_err(|error| fault(path, "look at", error))?;
    // Before the permissions, which a change of the owner may take away. Only root may do it.
    let _ = std::os::unix::fs::fchown(file, Some(about.uid()), Some(about.gid()));
    file.set_permissions(about.permissions())
        .map_err(|error| fault(path, "set the permissions of", error))
}

/// True if `path` still names `file`. A failed creation removes its file only then.
pub(super) fn is_named(file: &File, path: &Path) -> bool {
    let here = file.metadata().map(|about| (about.dev(), about.ino()));
    let there = std::fs::metadata(path).map(|about| (about.dev(), about.ino()));
    here.ok().is_some_and(|here| there.is_ok_and(|there| there == here))
}

pub(super) fn open(path: &Path, purpose: Purpose) -> Result<File, StoreError> {
    let kind = std::fs::metadata(path).map(|metadata| metadata.file_type()).ok();
    let is_device = kind.is_some_and(|kind| kind.is_block_device());
    if kind.is_some_and(|kind| !kind.is_file() && !kind.is_block_device()) {
        return Err(StoreError::NotAFile(path.to_path_buf()));
    }
    // A device that the system has mounted cannot be had exclusively. Users of one store share it.
    let is_used = matches!(purpose, Purpose::Use(_));
    let exclusive = if is_device && !is_used { libc::O_EXCL } else { 0 };
    let mut options = OpenOptions::new();
    options
        .read(true)
        .write(purpose.writes())
        .create(purpose == Purpose::Make && !is_device)
        .create_new(purpose == Purpose::MakeFile)
        .truncate(false)
        .custom_flags(libc::O_DIRECT | exclusive);
    // The kernel closes the files in rings a little later than the rings.
    let mut patience = Patience::of(OWN_WAIT);
    patiently(libc::EBUSY, || patience.pause(), || options.open(path))
        .map_err(|source| match source.raw_os_error() {
            Some(libc::EINVAL) => StoreError::NoDirectIo(path.to_path_buf()),
            Some(libc::EBUSY) => StoreError::Mounted(path.to_path_buf()),
            Some(libc::EACCES | libc::EPERM) if is_device => {
                StoreError::Forbidden(path.to_path_buf())
            }
            Some(libc::ENXIO | libc::ENODEV) => StoreError::Gone(path.to_path_buf()),
            _ => StoreError::Open { path: path.to_path_buf(), source },
        })
        .and_then(|file| check_blocks(file, path))
}

/// Returns the result of `attempt`. Tries it again while it fails with `busy` and `pause` returns
/// true.
fn patiently<T>(
    busy: i32,
    mut pause: impl FnMut() -> bool,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if error.raw_os_error() == Some(busy) && pause() => {}
            other => return other,
        }
    }
}

/// The time for which a busy operation is tried again.
struct Patience {
    since: Instant,
    at_most: Duration,
}

impl Patience {
    fn of(at_most: Duration) -> Patience {
        Patience { since: Instant::now(), at_most }
    }

    /// Waits a little, unless the time is over.
    fn pause(&mut self) -> bool {
        let goes_on = self.since.elapsed() < self.at_most;
        if goes_on {
            std::thread::sleep(PAUSE);
        }
        goes_on
    }
}

/// `file`, if its drive can write a page for itself. A file that is no drive can.
fn check_blocks(file: File, path: &Path) -> Result<File, StoreError> {
    let mut block_bytes: libc::c_int = 1;
    // SAFETY: the request writes an integer, which outlives the call, and only for a block device.
    unsafe { libc::ioctl(file.as_raw_fd(), libc::BLKSSZGET as _, &raw mut block_bytes) };
    if !PAGE_BYTES.is_multiple_of(block_bytes as usize) {
        return Err(StoreError::LargeBlocks { path: path.to_path_buf(), block_bytes });
    }
    Ok(file)
}

/// The folder that the file at `path` is in.
pub(super) fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Checks whether a file can be made at `path`, as far as its folder shows that.
pub(super) fn may_make(path: &Path) -> Result<(), StoreError> {
    let folder = folder_of(path);
    if !folder.is_dir() || path.file_name().is_none() {
        return Err(StoreError::NoFolder(path.to_path_buf()));
    }
    let name = CString::new(folder.as_os_str().as_bytes())
        .map_err(|_| StoreError::NoFolder(path.to_path_buf()))?;
    // SAFETY: `name` is a string that ends in a zero byte and outlives the call.
    let result = unsafe { libc::access(name.as_ptr(), libc::W_OK | libc::X_OK) };
    if result == 0 {
        return Ok(());
    }
    let source = io::Error::last_os_error();
    Err(StoreError::FolderReadOnly { path: path.to_path_buf(), source })
}

/// Releases a lock. If that fails, the file stays locked until the kernel closes it.
pub(super) fn unlock(file: &File, offset: u64, bytes: u64) {
    let range = range_of(libc::F_UNLCK, offset, bytes);
    // SAFETY: the descriptor is open and `range` outlives the call.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) };
}

/// Locks a range of the file against other openers (an open-file-description lock). Waits up to
/// [`LOCK_WAIT`] for another process to release it. The kernel ends a killed process, and closes
/// the files in its rings, some time after the kill.
pub(super) fn lock(
    file: &File,
    path: &Path,
    access: Access,
    offset: u64,
    bytes: u64,
) -> Result<(), StoreError> {
    let kind = match access {
        Access::Exclusive => libc::F_WRLCK,
        Access::SharedReadOnly => libc::F_RDLCK,
    };
    let range = range_of(kind, offset, bytes);
    let (mut own, mut others) = (Patience::of(OWN_WAIT), Patience::of(LOCK_WAIT));
    let end = offset.saturating_add(bytes);
    let pause = || own.pause() || !is_locked_here(file, offset..end) && others.pause();
    patiently(libc::EAGAIN, pause, || {
        // SAFETY: the descriptor is open and `range` outlives the call.
        let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    })
    .map_err(|error| match error.raw_os_error() {
        Some(libc::EAGAIN) if is_locked_here(file, offset..end) => {
            StoreError::HasEngine(path.to_path_buf())
        }
        Some(libc::EAGAIN) => StoreError::InUse(path.to_path_buf()),
        _ => fault(path, "lock", error),
    })
}

/// True if another open file has locked some of the file.
pub(crate) fn is_locked(file: &File) -> bool {
    let mut range = range_of(libc::F_WRLCK, 0, 0);
    // SAFETY: the descriptor is open, and the kernel writes one structure of this type.
    let asked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_GETLK, &raw mut range) };
    asked == 0 && range.l_type != libc::F_UNLCK as libc::c_short
}

/// Whether this process has locked some of the `range` of `file` by another descriptor. The kernel
/// does not say who has an open-file-description lock, but lists the locks of each descriptor
/// (proc(5)).
fn is_locked_here(file: &File, range: Range<u64>) -> bool {
    let own = file.as_raw_fd();
    let place = |about: Metadata| (about.dev(), about.ino());
    let Ok(wanted) = file.metadata().map(place) else { return false };
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return false };
    let numbers = open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|number: &i32| *number != own).any(|number| {
        let about = std::fs::metadata(format!("/proc/self/fd/{number}")).map(place);
        let info = format!("/proc/self/fdinfo/{number}");
        about.is_ok_and(|place| place == wanted)
            && std::fs::read_to_string(info).is_ok_and(|info| has_lock(&info, &range))
    })
}

/// Whether the kernel's text on a descriptor lists a lock of some of `range`.
fn has_lock(info: &str, range: &Range<u64>) -> bool {
    info.lines().filter(|line| line.starts_with("lock:") && line.contains("OFDLCK")).any(|line| {
        let mut words = line.split_whitespace().rev();
        let last = match words.next() {
            Some("EOF") => Some(u64::MAX),
            last => last.and_then(|word| word.parse().ok()),
        };
        let first = words.next().and_then(|word| word.parse().ok());
        let overlaps = |(first, last): (u64, u64)| first < range.end && last >= range.start;
        first.zip(last).is_some_and(overlaps)
    })
}

/// A lock of this kind on a range of a file.
fn range_of(kind: libc::c_int, offset: u64, bytes: u64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: offset as libc::off_t,
        l_len: bytes as libc::off_t,
        l_pid: 0,
    }
}

/// How long a store that another process has locked is waited for before it counts as in use.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// How long a drive in use, or a store that this process has locked itself, is waited for.
const OWN_WAIT: Duration = Duration::from_secs(1);

/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) fn size_bytes(file: &File, path: &Path) -> Result<u64, StoreError> {
    use std::io::{Seek, SeekFrom};
    // Seeking to the end works for files and block devices alike.
    (&mut &*file).seek(SeekFrom::End(0)).map_err(|error| fault(path, "find the size", error))
}

pub(super) fn is_block_device(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device())
}

/// Makes sure that there is room on the device. A file that cannot grow keeps its length.
pub(super) fn reserve(file: &File, path: &Path, end: u64) -> Result<(), StoreError> {
    let no_space = || StoreError::NoSpace { path: path.to_path_buf(), needed_bytes: end };
    let bytes_before = size_bytes(file, path)?;
    if is_block_device(file) {
        return if bytes_before < end { Err(no_space()) } else { Ok(()) };
    }
    // SAFETY: the descriptor is open; the range is not negative.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, end as libc::off_t) };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSPC | libc::EDQUOT | libc::EFBIG) => {
            // Gives back the part that was reserved. If that fails, too little room is still the
            // error.
            let _ = file.set_len(bytes_before);
            Err(no_space())
        }
        // A file system that cannot reserve will say when it is full.
        Some(libc::EOPNOTSUPP) if bytes_before >= end => Ok(()),
        Some(libc::EOPNOTSUPP) => file.set_len(end).map_err(|error| fault(path, "grow", error)),
        _ => Err(fault(path, "reserve space", error)),
    }
}

/// The contents of a place that is not a store.
pub(super) enum Contents {
    /// Nothing: the file ends before, or has only zeros at both ends.
    Blank,
    /// Data, with the name of its format if that is known.
    Something(Option<&'static str>),
}

/// Returns the contents from `offset` to the end of the file.
pub(super) fn contents(file: &File, path: &Path, offset: u64) -> Result<Contents, StoreError> {
    let size = size_bytes(file, path)?;
    let page_bytes = PAGE_BYTES as u64;
    let last = size.saturating_sub(ENDS_BYTES as u64) / page_bytes * page_bytes;
    let read = |start: u64| -> Result<(Buffer, usize), StoreError> {
        let mut bytes = buffer(ENDS_BYTES + PAGE_BYTES, path)?;
        let read = file
            .read_at(bytes.as_mut_slice(), start)
            .map_err(|error| fault(path, "read", error))?;
        Ok((bytes, read))
    };
    let ((start, start_bytes), (end, end_bytes)) = (read(offset)?, read(last.max(offset))?);
    let (start, end) = (&start.as_slice()[..start_bytes], &end.as_slice()[..end_bytes]);
    Ok(if start.iter().chain(end).all(|&byte| byte == 0) {
        Contents::Blank
    } else {
        Contents::Something(recognise(start, end))
    })
}

/// A buffer that O_DIRECT accepts.
pub(crate) struct Buffer(Mapping, usize);

pub(crate) fn buffer(bytes: usize, path: &Path) -> Result<Buffer, StoreError> {
    let mapping = Mapping::zeroed(bytes).map_err(|error| fault(path, "map a buffer", error))?;
    Ok(Buffer(mapping, bytes))
}

impl Buffer {
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping is at least this long, initialised, and only borrowed through here.
        unsafe { std::slice::from_raw_parts(self.0.base(), self.1) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` makes the borrow exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.0.base(), self.1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs an operation that fails with `codes`, one after the other, and then succeeds. It may be
    /// tried again `pauses` times. Returns the number of attempts and the final result.
    fn attempts(codes: &[i32], pauses: usize) -> (usize, io::Result<()>) {
        let (mut made, mut paused) = (0, 0);
        let pause = || {
            paused += 1;
            paused <= pauses
        };
        let result = patiently(libc::EBUSY, pause, || {
            made += 1;
            codes.get(made - 1).map_or(Ok(()), |&code| Err(io::Error::from_raw_os_error(code)))
        });
        (made, result)
    }

    #[test]
    fn what_is_busy_is_tried_again_and_what_fails_otherwise_is_not() {
        assert!(matches!(attempts(&[], 0), (1, Ok(()))));
        assert!(matches!(attempts(&[libc::EBUSY; 3], 3), (4, Ok(()))));
        for codes in [&[libc::ENXIO][..], &[libc::EBUSY, libc::ENXIO]] {
            let (made, result) = attempts(codes, 9);
            assert_eq!(
                (made, result.unwrap_err().raw_os_error()),
                (codes.len(), Some(libc::ENXIO))
            );
        }
    }

    #[test]
    fn what_stays_busy_is_given_up_when_the_time_is_over() {
        let (made, result) = attempts(&[libc::EBUSY; 4], 3);
        assert_eq!((made, result.unwrap_err().raw_os_error()), (4, Some(libc::EBUSY)));
        assert!(!Patience::of(Duration::ZERO).pause());
        assert!(Patience::of(Duration::from_secs(3600)).pause());
    }

    #[test]
    fn the_locks_of_a_descriptor_are_told_by_their_ranges() {
        let info = "pos:\t0\nflags:\t0140002\nlock:\t1: OFDLCK ADVISORY  WRITE -1 fe:00:77 4096 8191\n\
                    lock:\t2: OFDLCK ADVISORY  READ -1 fe:00:77 16384 EOF\n";
        for (range, locked) in
            [(0..4096, false), (0..4097, true), (8191..8192, true), (8192..16384, false)]
        {
            assert_eq!(has_lock(info, &range), locked, "{range:?}");
        }
        assert!(has_lock(info, &(1 << 60..1 << 61)) && !has_lock("pos:\t0\n", &(0..9)));
    }
}
