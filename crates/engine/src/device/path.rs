//! [`DevicePath`]: the ways to a drive, and which one suits what a path names.

use std::fs::File;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebbtide_core::PAGE_BYTES;

use super::Device;
use super::nvme::{Limits, Nvme};
use super::polled::Polled;
use super::threads::Threads;
use super::uring::{FileEntries, Uring};

ebbtide_core::choice! {
    /// A way to a drive.
    pub enum DevicePath as "device path" {
        /// Reads and writes of a file, or of a block device as if it were one.
        File = "file",
        /// A block device of its own, with polled reads if it has polled queues.
        Block = "block",
        /// Commands of the drive itself, past the kernel's block layer. Needs polled queues.
        Nvme = "nvme",
    }
}

/// A device, and a notice where it is not the best that was to be had.
pub type Opened = (Arc<dyn Device>, Option<String>);

/// The device over `file`, opened with `O_DIRECT`: the one that was `asked` for, or that suits what the
/// file is.
///
/// # Errors
/// When what was asked for does not suit the file; says what was expected.
pub fn open(file: Arc<File>, asked: Option<DevicePath>) -> Result<Opened, String> {
    let kind = file.metadata().map(|metadata| metadata.file_type());
    let is_block = kind.is_ok_and(|kind| kind.is_block_device());
    let suits = if is_block { DevicePath::Block } else { DevicePath::File };
    match asked.unwrap_or(suits) {
        DevicePath::File => Ok(unpolled(file)),
        path if !is_block => {
            Err(format!("it is a file; the device path {path} expects a block device"))
        }
        DevicePath::Block => Ok(block(file, asked.is_some())),
        DevicePath::Nvme => nvme(file),
    }
}

/// The drive and the way to it that `data` stands for, where `asked` leaves it open: the generic device of
/// an NVMe namespace (`/dev/ng0n1`) stands for passthrough to its block device (`/dev/nvme0n1`).
pub fn resolve(data: &Path, asked: Option<DevicePath>) -> (PathBuf, Option<DevicePath>) {
    let is_character =
        std::fs::metadata(data).is_ok_and(|about| about.file_type().is_char_device());
    match data.file_name().and_then(|name| name.to_str()?.strip_prefix("ng")) {
        Some(number) if is_character => {
            (data.with_file_name(format!("nvme{number}")), asked.or(Some(DevicePath::Nvme)))
        }
        _ => (data.to_path_buf(), asked),
    }
}

/// A whole NVMe drive by passthrough.
fn nvme(file: Arc<File>) -> Result<Opened, String> {
    let drive = sysfs(&file);
    let name = drive.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    let Some(number) = name.and_then(|name| name.strip_prefix("nvme")) else {
        return Err("it is not an NVMe drive; the device path nvme expects one".into());
    };
    if drive.as_ref().is_some_and(|folder| folder.join("partition").exists()) {
        return Err("it is a partition; the device path nvme expects a whole namespace".into());
    }
    if !has_polled_queues(&file) {
        return Err(
            "the drive has no polled queues, which the device path nvme expects: start the \
                    kernel with nvme.poll_queues=N"
                .into(),
        );
    }
    let generic = PathBuf::from(format!("/dev/ng{number}"));
    Nvme::open(&file, &generic, nvme_limits(drive.as_deref()))
        .map(|device| -> Opened {
            let notice = device.notice();
            (Arc::new(device), notice)
        })
        .map_err(|error| format!("passthrough is refused here: {error}"))
}

/// What the kernel says of the NVMe drive that it describes in the folder `drive`.
fn nvme_limits(drive: Option<&Path>) -> Limits {
    let setting = |name: &str| {
        let path = drive?.join("queue").join(name);
        std::fs::read_to_string(path).ok().map(|value| value.trim().to_string())
    };
    let number = |name: &str| setting(name).and_then(|value| value.parse::<usize>().ok());
    let page_kib = PAGE_BYTES >> 10;
    let pages = number("max_hw_sectors_kb").map_or(1, |kib| kib / page_kib);
    Limits {
        pages_max: pages.min(number("max_segments").unwrap_or(1)).max(1),
        has_volatile_cache: setting("write_cache").is_none_or(|cache| cache != "write through"),
    }
}

/// A block device, polled if it can be.
fn block(file: Arc<File>, asked: bool) -> Opened {
    if !has_polled_queues(&file) {
        let (device, notice) = unpolled(file);
        let unpolled = "the drive has no polled queues: reads end with interrupts; `ebbtide doctor` \
                        says how to get some";
        return (device, notice.or_else(|| asked.then(|| unpolled.into())));
    }
    match Polled::new(FileEntries(file.clone()), true) {
        Ok(device) => (Arc::new(device), None),
        Err(error) => {
            let (device, notice) = unpolled(file);
            let refused = || format!("polled reads are refused here ({error})");
            (device, Some(notice.unwrap_or_else(refused)))
        }
    }
}

/// io_uring where it is permitted, else threads with a notice.
fn unpolled(file: Arc<File>) -> Opened {
    match Uring::new(file.clone()) {
        Ok(uring) => (Arc::new(uring), None),
        Err(error) => {
            let notice = format!(
                "io_uring is refused here ({error}): reads go through threads, at several times the \
                 CPU cost; `ebbtide doctor` says how to permit it"
            );
            (Arc::new(Threads::new(file, 32)), Some(notice))
        }
    }
}

/// Whether the kernel can poll the block device `file` for completions.
fn has_polled_queues(file: &File) -> bool {
    let Some(folder) = sysfs(file) else { return false };
    // A partition has the queues of its drive.
    let polls = |path| std::fs::read_to_string(folder.join(path)).is_ok_and(|on| on.trim() == "1");
    polls("queue/io_poll") || polls("../queue/io_poll")
}

/// The folder in which the kernel describes the block device `file`.
fn sysfs(file: &File) -> Option<PathBuf> {
    let number = file.metadata().ok()?.rdev();
    let (major, minor) = (libc::major(number), libc::minor(number));
    std::fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()
}
