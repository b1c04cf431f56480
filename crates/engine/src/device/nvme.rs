//! NVMe passthrough: reads of pages as commands of the drive itself, past the kernel's block layer.
//!
//! The commands go to the namespace's generic device (`/dev/ng0n1` beside `/dev/nvme0n1`) through a
//! polled ring ([`polled`](super::polled)). The layouts are those of `linux/nvme_ioctl.h`, the numbers
//! those of the NVM Express base and NVM command set specifications.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;

use ebbtide_core::PAGE_BYTES;
use io_uring::{cqueue, opcode, squeue, types};

use super::polled::PageRead;

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
    /// What the drive answers, for commands by `ioctl`.
    result: u32,
}

/// `_IO('N', 0x40)`: gives the number of the namespace.
const IOCTL_ID: libc::c_ulong = 0x4e40;
/// `_IOWR('N', 0x41, struct nvme_passthru_cmd)`: a command to the controller.
const IOCTL_ADMIN_COMMAND: libc::c_ulong = 0xc048_4e41;
/// `_IOWR('N', 0x80, struct nvme_uring_cmd)`: a command to the namespace.
const URING_COMMAND: u32 = 0xc048_4e80;

const READ: u8 = 0x02;
const IDENTIFY: u8 = 0x06;

/// Reads of a namespace.
pub(super) struct NvmeRead {
    generic: File,
    namespace: u32,
    block_bytes: u32,
}

impl NvmeRead {
    /// The namespace behind the whole drive `block`, by its generic device at `path`.
    pub(super) fn open(block: &File, path: &Path) -> io::Result<NvmeRead> {
        // The kernel takes reads from those alone who may write as well.
        let generic = File::options().read(true).write(true).open(path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        let (namespace, other) = (namespace_of(&generic)?, namespace_of(block)?);
        if namespace != other {
            let text = format!("{} is namespace {namespace}, not {other}", path.display());
            return Err(io::Error::other(text));
        }
        let mut identity = [0u8; PAGE_BYTES];
        let mut command = Command {
            opcode: IDENTIFY,
            namespace,
            address: identity.as_mut_ptr() as u64,
            data_bytes: PAGE_BYTES as u32,
            ..Command::default()
        };
        // SAFETY: the kernel writes the answer to `identity`, which has `data_bytes` bytes, and a word
        // to `command`; both outlive the call.
        let status =
            unsafe { libc::ioctl(generic.as_raw_fd(), IOCTL_ADMIN_COMMAND, &raw mut command) };
        moved(if status < 0 { -last_error() } else { status })?;
        let block_bytes = block_bytes(&identity).map_err(io::Error::other)?;
        Ok(NvmeRead { generic, namespace, block_bytes })
    }
}

fn last_error() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

fn namespace_of(file: &File) -> io::Result<u32> {
    // SAFETY: the request takes no argument.
    let number = unsafe { libc::ioctl(file.as_raw_fd(), IOCTL_ID) };
    u32::try_from(number).map_err(|_| io::Error::last_os_error())
}

/// The bytes of a block, from what a namespace says of itself (Identify Namespace, NVM command set).
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

/// The bytes of a page, or the error that a result means: below zero the kernel's, above zero the status
/// of the drive.
fn moved(result: i32) -> io::Result<usize> {
    match result {
        0 => Ok(PAGE_BYTES),
        ..0 => Err(io::Error::from_raw_os_error(-result)),
        status => Err(io::Error::other(format!(
            "the drive answers status {:#05x}: {}",
            status & 0x7ff,
            meaning(status & 0x7ff)
        ))),
    }
}

/// What a status code and its type say, of those that reads meet.
fn meaning(status: i32) -> &'static str {
    match status {
        0x002 => "invalid field",
        0x004 => "data transfer error",
        0x006 => "internal error",
        0x007 | 0x008 => "aborted",
        0x00b => "invalid namespace or format",
        0x080 => "beyond the end of the namespace",
        0x081 => "capacity exceeded",
        0x082 => "namespace not ready",
        0x281 => "unrecovered read error",
        0x282..=0x284 => "end-to-end check failed",
        0x286 => "access denied",
        0x287 => "the block was never written",
        0x300..=0x37f => "path error",
        _ => "see the NVM Express base specification",
    }
}

impl PageRead for NvmeRead {
    type Submission = squeue::Entry128;
    type Completion = cqueue::Entry32;
    const NAME: &'static str = "NVMe passthrough with polled reads";

    fn descriptor(&self) -> RawFd {
        self.generic.as_raw_fd()
    }

    fn entry(&self, page: *mut u8, offset: u64, buffer: Option<u16>) -> squeue::Entry128 {
        let block = offset / u64::from(self.block_bytes);
        let blocks = PAGE_BYTES as u32 / self.block_bytes;
        let command = Command {
            opcode: READ,
            namespace: self.namespace,
            address: page as u64,
            data_bytes: PAGE_BYTES as u32,
            // The number of blocks counts from zero.
            words_10_to_15: [block as u32, (block >> 32) as u32, blocks - 1, 0, 0, 0],
            ..Command::default()
        };
        let mut bytes = [0; 80];
        bytes[..size_of::<Command>()].copy_from_slice(bytemuck::bytes_of(&command));
        opcode::UringCmd80::new(types::Fixed(0), URING_COMMAND).cmd(bytes).buf_index(buffer).build()
    }

    fn moved(&self, result: i32) -> io::Result<usize> {
        moved(result)
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
    fn a_result_is_a_page_or_the_kernels_error_or_the_status_of_the_drive() {
        assert_eq!(moved(0).unwrap(), PAGE_BYTES);
        assert_eq!(moved(-libc::ENODEV).unwrap_err().raw_os_error(), Some(libc::ENODEV));
        // Do not retry: the bit says nothing about what went wrong.
        let error = moved(0x4281).unwrap_err().to_string();
        assert_eq!(error, "the drive answers status 0x281: unrecovered read error");
    }
}
