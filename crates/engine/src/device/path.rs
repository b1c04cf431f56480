//! [`DevicePath`]: the ways to a drive, and the choice among them by the kind of file.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ebbtide_core::PAGE_BYTES;

use super::Device;
use super::aio::Aio;
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
        /// Commands of the drive itself, past the kernel's block layer, with polled reads if it has
        /// polled queues.
        Nvme = "nvme",
        /// A file or a block device through Linux AIO, with sockets through epoll: for systems that
        /// refuse io_uring.
        Aio = "aio",
    }
}

/// A device, and a notice if a better one was not available.
pub type Opened = (Arc<dyn Device>, Option<String>);

/// Opens the device over `file`, which was opened with `O_DIRECT`. The device is the one `asked`
/// for, or the one that suits the kind of file.
///
/// # Errors
/// When the `asked` path does not suit the file. The message names the expected kind.
pub fn open(file: Arc<File>, asked: Option<DevicePath>) -> Result<Opened, String> {
    let kind = file.metadata().map(|metadata| metadata.file_type());
    let is_block = kind.is_ok_and(|kind| kind.is_block_device());
    let suits = if is_block { DevicePath::Block } else { DevicePath::File };
    match asked.unwrap_or(suits) {
        DevicePath::File => Ok(unpolled(file)),
        DevicePath::Aio => match Aio::new(file) {
            Ok(aio) => Ok((Arc::new(aio), None)),
            Err(error) => Err(format!("Linux AIO is refused here: {error}")),
        },
        path if !is_block => {
            Err(format!("it is a file; the device path {path} expects a block device"))
        }
        DevicePath::Block => Ok(block(file, asked.is_some())),
        DevicePath::Nvme => nvme(file),
    }
}

/// Resolves `data` to a drive and the path to it, where `asked` leaves that open. The generic
/// device of an NVMe namespace (`/dev/ng0n1`) stands for passthrough to its block device
/// (`/dev/nvme0n1`).
pub fn resolve(data: &Path, asked: Option<DevicePath>) -> (PathBuf, Option<DevicePath>) {
    match std::fs::metadata(data).ok().and_then(|about| block_device_of(&about)) {
        Some(drive) => (data.with_file_name(drive), asked.or(Some(DevicePath::Nvme))),
        None => (data.to_path_buf(), asked),
    }
}

/// The generic device of the NVMe namespace whose block device has this `name`, if it has one.
pub fn generic_device_of(name: &str) -> Option<PathBuf> {
    let folder = std::fs::canonicalize(Path::new("/sys/class/block").join(name)).ok()?;
    name.starts_with("nvme").then(|| beside(&folder, "ng")).flatten().map(device_file)
}

/// Where the device of this name is opened.
fn device_file(name: String) -> PathBuf {
    Path::new("/dev").join(name)
}

/// The name of the block device of the namespace whose generic device this is.
fn block_device_of(generic: &Metadata) -> Option<String> {
    let is_character = generic.file_type().is_char_device();
    let folder = is_character.then(|| described("char", generic.rdev())).flatten()?;
    folder.file_name()?.to_str()?.strip_prefix("ng")?;
    beside(&folder, "nvme")
}

/// Finds the name that begins with `start` and is the same namespace as the kernel's `folder`. The
/// numbers of the two may differ, except at their ends: the drive's number may be its subsystem's.
fn beside(folder: &Path, start: &str) -> Option<String> {
    let name = folder.file_name()?.to_str()?;
    let end = &name[name.rfind('n')?..];
    let names = std::fs::read_dir(folder.parent()?).ok()?.filter_map(Result::ok);
    let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.find(|name| name.starts_with(start) && name.ends_with(end))
}

/// A whole NVMe drive by passthrough.
fn nvme(file: Arc<File>) -> Result<Opened, String> {
    let drive = sysfs(&file);
    let name = drive.as_deref().and_then(Path::file_name).and_then(|name| name.to_str());
    if !name.is_some_and(|name| name.starts_with("nvme")) {
        return Err("it is not an NVMe drive; the device path nvme expects one".into());
    }
    if drive.as_ref().is_some_and(|folder| folder.join("partition").exists()) {
        return Err("it is a partition; the device path nvme expects a whole namespace".into());
    }
    let Some(generic) = drive.as_deref().and_then(|drive| beside(drive, "ng")) else {
        return Err("the kernel gives it no generic device, which the device path nvme expects: \
                    Linux 5.13 does"
            .into());
    };
    let (limits, polled) = (nvme_limits(drive.as_deref()), has_polled_queues(&file));
    Nvme::open(&file, &device_file(generic), limits, polled)
        .map(|device| -> Opened {
            let notice = if polled { device.notice() } else { Some(NO_POLLED_QUEUES.into()) };
            (Arc::new(device), notice)
        })
        .map_err(|error| format!("passthrough is refused here: {error}"))
}

/// Facts about an NVMe drive, from the kernel's folder `drive`.
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

/// The notice when polled reads were asked for and the drive has no polled queues.
const NO_POLLED_QUEUES: &str = "the drive has no polled queues: reads end with interrupts; `ebbtide doctor` says how to get some";

/// A block device, polled if it can be.
fn block(file: Arc<File>, asked: bool) -> Opened {
    if !has_polled_queues(&file) {
        let (device, notice) = unpolled(file);
        return (device, notice.or_else(|| asked.then(|| NO_POLLED_QUEUES.into())));
    }
    let polled = FileEntries::new(file.clone()).and_then(|entries| Polled::new(entries, true));
    match polled {
        Ok(device) => (Arc::new(device), None),
        Err(error) => {
            let (device, notice) = unpolled(file);
            let refused = || format!("polled reads are refused here ({error})");
            (device, Some(notice.unwrap_or_else(refused)))
        }
    }
}

/// io_uring where it is permitted, else Linux AIO with a notice. Threads where both are refused.
fn unpolled(file: Arc<File>) -> Opened {
    let refused = match Uring::new(file.clone()) {
        Ok(uring) => return (Arc::new(uring), None),
        Err(error) => error,
    };
    let (device, way): (Arc<dyn Device>, &str) = match Aio::new(file.clone()) {
        Ok(aio) => (Arc::new(aio), "Linux AIO, and sockets through epoll"),
        Err(_) => (Arc::new(Threads::new(file, 32)), "threads, at several times the CPU cost"),
    };
    let notice = format!(
        "io_uring is refused here ({refused}): reads go through {way}; `ebbtide doctor` says how to \
         permit it"
    );
    (device, Some(notice))
}

/// Whether the kernel can poll the block device `file` for completions.
fn has_polled_queues(file: &File) -> bool {
    let Some(folder) = sysfs(file) else { return false };
    // A partition has the queues of its drive.
    let polls = |path| std::fs::read_to_string(folder.join(path)).is_ok_and(|on| on.trim() == "1");
    polls("queue/io_poll") || polls("../queue/io_poll")
}

/// The sysfs folder of the block device `file`.
fn sysfs(file: &File) -> Option<PathBuf> {
    described("block", file.metadata().ok()?.rdev())
}

/// The sysfs folder of the device of this kind and number.
fn described(kind: &str, number: u64) -> Option<PathBuf> {
    let (major, minor) = (libc::major(number), libc::minor(number));
    std::fs::canonicalize(format!("/sys/dev/{kind}/{major}:{minor}")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_devices_of_a_namespace_are_found_beside_each_other_whatever_their_numbers() {
        let controller = tempfile::tempdir().unwrap();
        let folder = |name| controller.path().join(name);
        for name in ["power", "ng7n1", "nvme6n1", "nvme6n12", "ng7n12", "ng7n2", "nvme6n2"] {
            std::fs::create_dir(folder(name)).unwrap();
        }
        for (block, generic) in [("nvme6n1", "ng7n1"), ("nvme6n2", "ng7n2"), ("nvme6n12", "ng7n12")]
        {
            assert_eq!(beside(&folder(block), "ng").as_deref(), Some(generic));
            assert_eq!(beside(&folder(generic), "nvme").as_deref(), Some(block));
        }
        assert_eq!(beside(&folder("nvme6n3"), "ng"), None);
    }
}
