//! NVMe passthrough: reads, writes and flushes as commands of the drive itself, past the kernel's
//! block layer.
//!
//! The commands go to the namespace's generic device (`/dev/ng0n1` for `/dev/nvme0n1`), through
//! rings of 128-byte entries. Pages use the rings of [`polled`](super::polled), and the log has a
//! ring of its own. The layouts come from `linux/nvme_ioctl.h`. The numbers come from the NVM
//! Express base and NVM command set specifications.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ebbtide_core::PAGE_BYTES;
use io_uring::{IoUring, cqueue, opcode, squeue, types};

use super::polled::Polled;
use super::uring::Entries;
use super::{Device, Direction, LogWrites, Queue};

/// A command as `struct nvme_uring_cmd` and `struct nvme_passthru_cmd` have it.
#[repr(C)]
#[derive(Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
struct Command {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_and_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    data_bytes: u32,
    words_10_to_15: [u32; 6],
    timeout_ms: u32,
    /// The drive's answer to commands by `ioctl`.
    result: u32,
}

/// `_IO('N', 0x40)`: returns the number of the namespace.
const IOCTL_ID: libc::c_ulong = 0x4e40;
/// `_IOWR('N', 0x41, struct nvme_passthru_cmd)`: a command to the controller.
const IOCTL_ADMIN_COMMAND: libc::c_ulong = 0xc048_4e41;
/// `_IOWR('N', 0x80, struct nvme_uring_cmd)`: a command to the namespace.
const URING_COMMAND: u32 = 0xc048_4e80;
/// `_IOWR('N', 0x81, struct nvme_uring_cmd)`: as before, for memory in several pieces.
const URING_COMMAND_VECTORED: u32 = 0xc048_4e81;

const FLUSH: u8 = 0x00;
const WRITE: u8 = 0x01;
const READ: u8 = 0x02;
const IDENTIFY: u8 = 0x06;

/// Force unit access: the command ends when its data would survive a loss of power.
const FUA: u32 = 1 << 30;

/// Facts about a drive, from the kernel.
pub(super) struct Limits {
    /// The most pages in a command.
    pub(super) pages_max: usize,
    /// True if written bytes may be lost with the power until a flush.
    pub(super) has_volatile_cache: bool,
}

/// The commands of a namespace.
struct Namespace {
    generic: File,
    number: u32,
    block_bytes: u32,
    limits: Limits,
    /// Whether a write has ended since the last flush that a loss of power could undo.
    is_behind: AtomicBool,
}

impl Namespace {
    /// The namespace behind the whole drive `block`, by its generic device at `path`.
    fn open(block: &File, path: &Path, limits: Limits) -> io::Result<Namespace> {
        // The kernel takes reads from those alone who may write as well.
        let generic = File::options().read(true).write(true).open(path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        let (number, other) = (namespace_of(&generic)?, namespace_of(block)?);
        if number != other {
            let text = format!("{} is namespace {number}, not {other}", path.display());
            return Err(io::Error::other(text));
        }
        let mut identity = [0u8; PAGE_BYTES];
        let mut command = Command {
            opcode: IDENTIFY,
            namespace: number,
            address: identity.as_mut_ptr() as u64,
            data_bytes: PAGE_BYTES as u32,
            ..Command::default()
        };
        // SAFETY: the kernel writes the answer to `identity`, which has `data_bytes` bytes, and a
        // word to `command`; both outlive the call.
        let status =
            unsafe { libc::ioctl(generic.as_raw_fd(), IOCTL_ADMIN_COMMAND, &raw mut command) };
        error_of(if status < 0 { -last_error() } else { status }).map_or(Ok(()), Err)?;
        let block_bytes = block_bytes(&identity).map_err(io::Error::other)?;
        // The writes before this are not known.
        let is_behind = AtomicBool::new(true);
        Ok(Namespace { generic, number, block_bytes, limits, is_behind })
    }

    /// Moves `bytes` bytes, whole pages, from byte `offset` on.
    fn transfer(&self, direction: Direction, offset: u64, bytes: usize) -> Command {
        let block = offset / u64::from(self.block_bytes);
        let blocks = bytes as u32 / self.block_bytes;
        Command {
            opcode: match direction {
                Direction::Read => READ,
                Direction::Write => WRITE,
            },
            namespace: self.number,
            // The number of blocks counts from zero.
            words_10_to_15: [block as u32, (block >> 32) as u32, blocks - 1, 0, 0, 0],
            ..Command::default()
        }
    }

    /// Writes whole pages at byte `offset`, `through` the volatile cache if there is one.
    fn write(&self, offset: u64, bytes: &[u8], through: bool) -> Command {
        let mut command = self.transfer(Direction::Write, offset, bytes.len());
        (command.address, command.data_bytes) = (bytes.as_ptr() as u64, bytes.len() as u32);
        if through && self.limits.has_volatile_cache {
            command.words_10_to_15[2] |= FUA;
        }
        command
    }

    fn flush(&self) -> Command {
        Command { opcode: FLUSH, namespace: self.number, ..Command::default() }
    }
}

/// The entry that sends `command` to the first file of a ring.
fn entry(operation: u32, command: &Command, buffer: Option<u16>) -> squeue::Entry128 {
    let mut bytes = [0; 80];
    bytes[..size_of::<Command>()].copy_from_slice(bytemuck::bytes_of(command));
    opcode::UringCmd80::new(types::Fixed(0), operation).cmd(bytes).buf_index(buffer).build()
}

impl Entries for Arc<Namespace> {
    type Submission = squeue::Entry128;
    type Completion = cqueue::Entry32;
    const POLLED_NAME: &'static str = "NVMe passthrough with polled reads";
    const UNPOLLED_NAME: &'static str = "NVMe passthrough";
    const COUNTS_BYTES: bool = false;

    fn descriptor(&self) -> RawFd {
        self.generic.as_raw_fd()
    }

    fn page(
        &self,
        direction: Direction,
        offset: u64,
        page: *mut u8,
        buffer: Option<u16>,
    ) -> squeue::Entry128 {
        let (address, data_bytes) = (page as u64, PAGE_BYTES as u32);
        let command = self.transfer(direction, offset, PAGE_BYTES);
        entry(URING_COMMAND, &Command { address, data_bytes, ..command }, buffer)
    }

    /// Passthrough takes runs of pages in memory that is not registered alone.
    fn run(
        &self,
        direction: Direction,
        offset: u64,
        iovecs: &[libc::iovec],
        _buffer: Option<u16>,
    ) -> squeue::Entry128 {
        // In place of bytes the kernel takes the number of pieces here.
        let (address, data_bytes) = (iovecs.as_ptr() as u64, iovecs.len() as u32);
        let command = self.transfer(direction, offset, iovecs.len() * PAGE_BYTES);
        entry(URING_COMMAND_VECTORED, &Command { address, data_bytes, ..command }, None)
    }

    fn error(&self, result: i32) -> Option<io::Error> {
        error_of(result)
    }

    fn run_pages_max(&self) -> usize {
        self.limits.pages_max
    }

    fn note_written(&self) {
        self.is_behind.store(true, Ordering::Release);
    }
}

/// An NVMe drive by passthrough.
pub(super) struct Nvme {
    namespace: Arc<Namespace>,
    polled: Polled<Arc<Namespace>>,
}

impl Nvme {
    /// The whole drive `block`, by its generic device at `path`. Reads a page to see that it works.
    ///
    /// # Errors
    /// When the kernel refuses it, or the drive has blocks of a kind that does not do.
    pub(super) fn open(
        block: &File,
        path: &Path,
        limits: Limits,
        has_polled_queues: bool,
    ) -> io::Result<Nvme> {
        let namespace = Arc::new(Namespace::open(block, path, limits)?);
        let polls = has_polled_queues && may_poll(&kernel_release());
        let polled = Polled::new(namespace.clone(), polls)?;
        Ok(Nvme { polled, namespace })
    }

    /// A notice about passthrough features that this kernel lacks.
    pub(super) fn notice(&self) -> Option<String> {
        let lacks = match (may_poll(&kernel_release()), self.polled.takes_registered()) {
            (true, true) => return None,
            (true, false) => "takes no registered memory for passthrough (Linux 6.12 does)",
            (false, _) => {
                "may crash when a polled read by passthrough fails (Linux 6.5 does not): reads end \
                 with interrupts"
            }
        };
        Some(format!("this kernel {lacks}; each read costs somewhat more"))
    }
}

impl Device for Nvme {
    fn queue(&self, depth: usize) -> io::Result<Box<dyn Queue>> {
        self.polled.queue(depth)
    }

    fn name(&self) -> &'static str {
        self.polled.name()
    }

    fn polled_ring_bytes(&self, depth: usize) -> usize {
        self.polled.polled_ring_bytes(depth)
    }

    fn log_writes(&self) -> io::Result<Option<Box<dyn LogWrites>>> {
        let ring = IoUring::builder().build(2)?;
        ring.submitter().register_files(&[self.namespace.generic.as_raw_fd()])?;
        let mut log = NvmeLog { ring, namespace: self.namespace.clone() };
        // If flushes are refused, the log must not begin.
        log.flush()?;
        Ok(Some(Box::new(log)))
    }
}

/// Writes and flushes of the log, one at a time.
struct NvmeLog {
    ring: IoUring<squeue::Entry128, cqueue::Entry32>,
    namespace: Arc<Namespace>,
}

impl NvmeLog {
    /// Sends `command` to the drive and waits for its end.
    fn carry_out(&mut self, command: &Command) -> io::Result<()> {
        let entry = entry(URING_COMMAND, command, None);
        // SAFETY: the memory that the command names is borrowed by the caller, who waits below for
        // the completion.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        loop {
            match self.ring.submit_and_wait(1) {
                Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN)) => {}
                // Every error that is left is a misuse of the ring; the drive may have the command.
                Err(error) => panic!("io_uring_enter: {error}"),
                Ok(_) => {}
            }
            if let Some(ended) = self.ring.completion().next() {
                let ended: cqueue::Entry = ended.into();
                return error_of(ended.result()).map_or(Ok(()), Err);
            }
        }
    }
}

impl LogWrites for NvmeLog {
    fn write(&mut self, offset: u64, bytes: &[u8], through: bool) -> io::Result<()> {
        let most = self.namespace.limits.pages_max * PAGE_BYTES;
        for (piece, offset) in bytes.chunks(most).zip((offset..).step_by(most)) {
            self.carry_out(&self.namespace.write(offset, piece, through))?;
        }
        if !through {
            self.namespace.note_written();
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let is_behind = self.namespace.is_behind.swap(false, Ordering::AcqRel);
        if !is_behind || !self.namespace.limits.has_volatile_cache {
            return Ok(());
        }
        let flushed = self.carry_out(&self.namespace.flush());
        if flushed.is_err() {
            self.namespace.note_written();
        }
        flushed
    }
}

fn kernel_release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default()
}

/// True if a kernel of this release polls for passthrough without harm. Before 6.5, one word holds
/// both the polling cookie and the completion callback of a command. Debian's 6.1.192 mistakes one
/// for the other when a polled read fails, and crashes.
fn may_poll(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(5))
}

fn last_error() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

fn namespace_of(file: &File) -> io::Result<u32> {
    // SAFETY: the request takes no argument.
    let number = unsafe { libc::ioctl(file.as_raw_fd(), IOCTL_ID) };
    u32::try_from(number).map_err(|_| io::Error::last_os_error())
}

/// The bytes of a block, from the data of a namespace (Identify Namespace, NVM command set).
fn block_bytes(identity: &[u8; PAGE_BYTES]) -> Result<u32, String> {
    // The format in use has four low bits, and two more where there are many formats.
    let in_use = identity[26];
    let format = usize::from(in_use & 0xf | (in_use >> 1 & 0x30));
    let entry = &identity[128 + 4 * format..][..4];
    let (metadata_bytes, shift) = (u16::from_le_bytes([entry[0], entry[1]]), u32::from(entry[2]));
    if metadata_bytes > 0 {
        return Err(format!(
            "its blocks carry {metadata_bytes} bytes of metadata; expected a format without (nvme format)"
        ));
    }
    match 1u32.checked_shl(shift) {
        Some(bytes @ 512..) if bytes as usize <= PAGE_BYTES => Ok(bytes),
        _ => Err(format!("its blocks have 2^{shift} bytes, expected 512 to {PAGE_BYTES}")),
    }
}

/// The error that a result means: below zero the kernel's, above zero the status of the drive.
fn error_of(result: i32) -> Option<io::Error> {
    match result {
        0 => None,
        ..0 => Some(io::Error::from_raw_os_error(-result)),
        status => Some(io::Error::other(format!(
            "the drive answers status {:#05x}: {}",
            status & 0x7ff,
            meaning(status & 0x7ff)
        ))),
    }
}

/// The meaning of a status code and its type, for the codes of reads, writes and flushes.
fn meaning(status: i32) -> &'static str {
    match status {
        0x001 => "invalid command",
        0x002 => "invalid field",
        0x004 => "data transfer error",
        0x005 => "aborted because power is going",
        0x006 => "internal error",
        0x007 | 0x008 => "aborted",
        0x00b => "invalid namespace or format",
        0x020 => "the namespace is write protected",
        0x080 => "beyond the end of the namespace",
        0x081 => "capacity exceeded",
        0x082 => "namespace not ready",
        0x182 => "attempted write to a read-only range",
        0x280 => "write fault",
        0x281 => "unrecovered read error",
        0x282..=0x284 => "end-to-end check failed",
        0x286 => "access denied",
        0x287 => "the block was never written",
        0x300..=0x37f => "path error",
        _ => "see the NVM Express base specification",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A namespace whose format number `format` has these metadata bytes and this shift.
    fn identity(format: usize, metadata: u16, shift: u8) -> [u8; PAGE_BYTES] {
        let mut identity = [0; PAGE_BYTES];
        identity[26] = (format & 0xf | (format & 0x30) << 1) as u8;
        identity[128 + 4 * format..][..2].copy_from_slice(&metadata.to_le_bytes());
        identity[128 + 4 * format + 2] = shift;
        identity
    }

    #[test]
    fn blocks_have_the_size_of_the_format_in_use() {
        for format in [0, 1, 15, 16, 63] {
            assert_eq!(block_bytes(&identity(format, 0, 9)), Ok(512));
            assert_eq!(block_bytes(&identity(format, 0, 12)), Ok(4096));
        }
    }

    #[test]
    fn blocks_with_metadata_or_of_another_size_are_refused_with_what_was_expected() {
        for bad in [identity(1, 8, 12), identity(0, 0, 13), identity(0, 0, 0), identity(0, 0, 255)]
        {
            assert!(block_bytes(&bad).is_err_and(|reason| reason.contains("expected")));
        }
    }

    #[test]
    fn a_command_has_the_layout_of_the_kernel() {
        assert_eq!(size_of::<Command>(), 72);
        assert_eq!(std::mem::offset_of!(Command, address), 24);
        assert_eq!(std::mem::offset_of!(Command, words_10_to_15), 40);
    }

    #[test]
    fn a_result_is_success_or_the_kernels_error_or_the_status_of_the_drive_in_words() {
        assert!(error_of(0).is_none());
        assert_eq!(error_of(-libc::ENODEV).unwrap().raw_os_error(), Some(libc::ENODEV));
        // Do not retry: the bit says nothing about what went wrong.
        for (status, words) in [
            (0x4281, "the drive answers status 0x281: unrecovered read error"),
            (0x0280, "the drive answers status 0x280: write fault"),
            (0x4020, "the drive answers status 0x020: the namespace is write protected"),
        ] {
            assert_eq!(error_of(status).unwrap().to_string(), words);
        }
    }

    #[test]
    fn a_kernel_that_a_failed_read_may_crash_is_not_asked_to_poll() {
        for (release, may) in [
            ("6.1.0-56-amd64", false),
            ("6.4.16", false),
            ("6.5", true),
            ("6.12.95+deb12-amd64", true),
            ("7.0.0-rc1", true),
            ("", false),
        ] {
            assert_eq!(may_poll(release), may, "{release}");
        }
    }

    fn namespace(block_bytes: u32, has_volatile_cache: bool) -> Arc<Namespace> {
        let limits = Limits { pages_max: 32, has_volatile_cache };
        let (generic, is_behind) = (tempfile::tempfile().unwrap(), AtomicBool::new(false));
        Arc::new(Namespace { generic, number: 3, block_bytes, limits, is_behind })
    }

    /// The operation and the command that an entry carries, by their places in the kernel's layout.
    fn decoded(entry: &squeue::Entry128) -> (u32, Command) {
        // SAFETY: an entry is 128 bytes without padding, as the kernel reads it.
        let bytes = unsafe { &*std::ptr::from_ref(entry).cast::<[u8; 128]>() };
        let operation = u32::from_le_bytes(bytes[8..12].try_into().unwrap());
        (operation, bytemuck::pod_read_unaligned(&bytes[48..][..size_of::<Command>()]))
    }

    #[test]
    fn a_page_is_moved_by_a_command_with_its_blocks_and_its_memory() {
        let page = 0x7000 as *mut u8;
        for (block_bytes, first, count) in [(512, 8 << 30, 8), (4096, 1 << 30, 1)] {
            for (direction, opcode) in [(Direction::Read, 2), (Direction::Write, 1)] {
                let entry = namespace(block_bytes, true).page(direction, 4 << 40, page, Some(5));
                let (operation, command) = decoded(&entry);
                assert_eq!((operation, command.opcode), (URING_COMMAND, opcode));
                assert_eq!((command.namespace, command.address), (3, 0x7000));
                assert_eq!(command.data_bytes, 4096);
                let [low, high, blocks, ..] = command.words_10_to_15;
                assert_eq!(u64::from(low) | u64::from(high) << 32, first);
                assert_eq!(blocks, count - 1, "no FUA: the log alone needs it");
            }
        }
    }

    #[test]
    fn a_run_is_one_command_for_memory_in_pieces() {
        let iovecs = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: PAGE_BYTES }; 3];
        let (operation, command) =
            decoded(&namespace(512, true).run(Direction::Write, 8192, &iovecs, None));
        assert_eq!((operation, command.opcode), (URING_COMMAND_VECTORED, WRITE));
        assert_eq!((command.address, command.data_bytes), (iovecs.as_ptr() as u64, 3));
        assert_eq!(command.words_10_to_15, [16, 0, 23, 0, 0, 0]);
    }

    #[test]
    fn a_write_of_the_log_goes_through_a_volatile_cache_alone() {
        let bytes = [0; 2 * PAGE_BYTES];
        for (has_cache, through, fua) in
            [(true, true, FUA), (true, false, 0), (false, true, 0), (false, false, 0)]
        {
            let command = namespace(4096, has_cache).write(4096, &bytes, through);
            assert_eq!((command.opcode, command.data_bytes), (WRITE, 8192));
            assert_eq!(command.words_10_to_15, [1, 0, 1 | fua, 0, 0, 0]);
        }
    }

    #[test]
    fn a_flush_names_the_namespace_and_no_data() {
        let command = namespace(512, true).flush();
        assert_eq!(bytemuck::bytes_of(&command)[..8], [0, 0, 0, 0, 3, 0, 0, 0]);
        assert!(bytemuck::bytes_of(&command)[8..].iter().all(|&byte| byte == 0));
    }
}
