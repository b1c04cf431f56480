//! [`behind`]: which disks hold a file, followed through partitions and device mapper, and how the
//! kernel drives them.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};
use serde::Serialize;

/// A value, or the reason why it cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum Known<T> {
    /// The known value.
    Value(T),
    /// Why it is not known.
    Unknown {
        /// The reason, in a few words.
        unknown: String,
    },
}

impl<T> Known<T> {
    /// Returns the value, if it is known.
    pub fn value(&self) -> Option<&T> {
        match self {
            Known::Value(value) => Some(value),
            Known::Unknown { .. } => None,
        }
    }

    fn map<U>(self, change: impl FnOnce(T) -> U) -> Known<U> {
        match self {
            Known::Value(value) => Known::Value(change(value)),
            Known::Unknown { unknown } => Known::Unknown { unknown },
        }
    }
}

impl<T: std::fmt::Display> std::fmt::Display for Known<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Known::Value(value) => value.fmt(f),
            Known::Unknown { unknown } => write!(f, "unknown ({unknown})"),
        }
    }
}

/// Kind of storage medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Medium {
    /// Flash, or something as fast.
    Flash,
    /// Spinning platters.
    Spinning,
    /// Neither known from the driver nor measured.
    Unknown,
}

/// A spinning disk takes longer than this for a random read, flash does not, in microseconds.
const SPINNING_US: f64 = 2000.0;

impl Medium {
    /// Returns the medium of a disk. `rotational` comes from its driver, and `read_us` is the time
    /// of a read from the disk with one in flight. The measurement outweighs the driver.
    pub(super) fn of(rotational: Option<bool>, read_us: Option<f64>) -> Medium {
        match (rotational, read_us) {
            (_, Some(read_us)) if read_us < SPINNING_US => Medium::Flash,
            (Some(true), Some(_)) => Medium::Spinning,
            // A virtual disk that was not measured may say that it spins wrongly.
            (Some(true), None) | (None, _) => Medium::Unknown,
            (Some(false), _) => Medium::Flash,
        }
    }
}

/// A whole disk, and how the kernel drives it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Disk {
    /// The kernel's name, such as `nvme0n1`.
    pub name: String,
    /// The device's model name.
    pub model: Known<String>,
    /// Whether its driver reports that it spins. Virtual disks often report this wrongly, so
    /// results state only `medium`.
    #[serde(skip)]
    pub rotational: Known<bool>,
    /// Kind of medium, from the measured time of a read, otherwise from its driver.
    pub medium: Medium,
    /// The I/O scheduler in force.
    pub scheduler: Known<String>,
    /// The available I/O schedulers.
    pub schedulers: Vec<String>,
    /// Requests that the kernel queues for it.
    pub nr_requests: Known<u64>,
    /// How far the page cache reads ahead, in KiB.
    pub read_ahead_kib: Known<u64>,
    /// Whether it has queues that are polled instead of interrupting.
    pub io_poll: Known<bool>,
    /// "write back" if it holds writes in a volatile cache, "write through" if not.
    pub write_cache: Known<String>,
    /// Whether the kernel keeps statistics for every request.
    pub iostats: Known<bool>,
}

/// Returns the name of the file system of `path`, if it keeps files only in memory. It may accept
/// `O_DIRECT` and is fast, but it is not flash.
pub(super) fn memory_file_system(path: &Path) -> Option<&'static str> {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    // A block device's node lies in such a file system, but the device does not.
    if !fs::metadata(path).is_ok_and(|about| about.is_dir() || about.is_file()) {
        return None;
    }
    match rustix::fs::statfs(path).ok()?.f_type as u64 & 0xffff_ffff {
        TMPFS => Some("tmpfs"),
        RAMFS => Some("ramfs"),
        _ => None,
    }
}

/// Returns the disks behind `path`: one, or several under a RAID or a device-mapper volume.
///
/// # Errors
/// The reason in one line. For example, `path` is on a file system in memory or over a network.
pub fn behind(path: &Path) -> Result<Vec<Disk>, String> {
    let about = fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let number = if about.file_type().is_block_device() { about.rdev() } else { about.dev() };
    let sys = Path::new("/sys");
    let folder = device_folder(sys, number).or_else(|reason| {
        // Some file systems (btrfs, overlay) show a number of their own: ask the mount table.
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(|_| reason.clone())?;
        let path = fs::canonicalize(path).map_err(|_| reason.clone())?;
        let source = mount_source(&mounts, &path).ok_or_else(|| reason.clone())?;
        let about = fs::metadata(&source).map_err(|_| format!("{reason} ({source})"))?;
        let number = if about.file_type().is_block_device() { about.rdev() } else { about.dev() };
        device_folder(sys, number).map_err(|_| format!("{reason} ({source})"))
    })?;
    let mut disks = Vec::new();
    collect_disks(&folder, &mut disks, 0);
    if disks.is_empty() {
        Err(format!("no disk found under {}", folder.display()))
    } else {
        Ok(disks)
    }
}

fn device_folder(sys: &Path, number: u64) -> Result<PathBuf, String> {
    let (major, minor) = (major(number), minor(number));
    fs::canonicalize(sys.join(format!("dev/block/{major}:{minor}")))
        .map_err(|_| format!("no block device: its file system's device number is {major}:{minor}"))
}

/// Returns the source of the mount of `path`: the device, or an overlay's upper folder.
fn mount_source(mountinfo: &str, path: &Path) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let point = Path::new(before.split(' ').nth(4)?).to_path_buf();
        let mut after = after.split(' ').skip(1);
        let (source, options) = (after.next()?, after.next().unwrap_or(""));
        let upper = options.split(',').find_map(|option| option.strip_prefix("upperdir="));
        Some((point, upper.unwrap_or(source).to_string()))
    });
    // Of mounts at the same place the last one covers the others, which `max_by_key` picks.
    mounts
        .filter(|(point, _)| path.starts_with(point))
        .max_by_key(|(point, _)| point.components().count())
        .map(|(_, source)| source)
}

/// Device mapper volumes lie over others; deeper than this they are not followed.
const DEPTH_MAX: u32 = 8;

fn collect_disks(folder: &Path, disks: &mut Vec<Disk>, depth: u32) {
    let whole = match folder.parent() {
        Some(parent) if folder.join("partition").exists() => parent,
        _ => folder,
    };
    let below: Vec<PathBuf> = fs::read_dir(whole.join("slaves"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| fs::canonicalize(entry.path()).ok())
        .collect();
    if below.is_empty() || depth == DEPTH_MAX {
        let disk = Disk::read(whole);
        if !disks.contains(&disk) {
            disks.push(disk);
        }
    } else {
        for folder in below {
            collect_disks(&folder, disks, depth + 1);
        }
    }
}

impl Disk {
    /// Reads the attributes under a whole disk's folder in sysfs.
    fn read(folder: &Path) -> Disk {
        let queue = |name: &str| attribute(&folder.join("queue").join(name));
        let flag = |name: &str| number(queue(name)).map(|value| value != 0);
        let schedulers = queue("scheduler");
        let listed = schedulers.value().map_or("", String::as_str).split_whitespace();
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let model = match attribute(&folder.join("device/model")) {
            Known::Unknown { .. } if name.starts_with("vd") => {
                Known::Value("virtio disk".to_string())
            }
            model => model,
        };
        Disk {
            model,
            medium: Medium::of(flag("rotational").value().copied(), None),
            rotational: flag("rotational"),
            schedulers: listed.map(|one| one.trim_matches(['[', ']']).to_string()).collect(),
            scheduler: schedulers.map(|text| chosen(&text).to_string()),
            nr_requests: number(queue("nr_requests")),
            read_ahead_kib: number(queue("read_ahead_kb")),
            io_poll: flag("io_poll"),
            write_cache: queue("write_cache"),
            iostats: flag("iostats"),
            name,
        }
    }
}

/// Returns the active setting, which the kernel puts in brackets: `always [madvise] never`.
pub(super) fn chosen(settings: &str) -> &str {
    let bracketed = settings.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(settings.trim(), |(chosen, _)| chosen)
}

fn attribute(path: &Path) -> Known<String> {
    match fs::read_to_string(path) {
        Ok(text) => Known::Value(text.trim().to_string()),
        Err(error) => Known::Unknown { unknown: error.kind().to_string() },
    }
}

fn number(text: Known<String>) -> Known<u64> {
    match text {
        Known::Value(text) => match text.parse() {
            Ok(value) => Known::Value(value),
            Err(_) => Known::Unknown { unknown: format!("'{text}' is not a number") },
        },
        Known::Unknown { unknown } => Known::Unknown { unknown },
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, text).expect("a file");
    }

    #[test]
    fn a_volume_over_a_partition_leads_to_its_disk() {
        let sys = tempfile::tempdir().expect("a folder");
        let disk = sys.path().join("devices/nvme0n1");
        put(&disk.join("queue/scheduler"), "none [mq-deadline] kyber\n");
        put(&disk.join("queue/rotational"), "0\n");
        put(&disk.join("queue/nr_requests"), "many\n");
        put(&disk.join("device/model"), "Fast Disk 1T  \n");
        put(&disk.join("nvme0n1p2/partition"), "2\n");
        let volume = sys.path().join("devices/dm-0");
        fs::create_dir_all(volume.join("slaves")).expect("a folder");
        symlink(disk.join("nvme0n1p2"), volume.join("slaves/nvme0n1p2")).expect("a link");
        fs::create_dir_all(sys.path().join("dev/block")).expect("a folder");
        symlink(&volume, sys.path().join("dev/block/253:7")).expect("a link");

        let folder = device_folder(sys.path(), rustix::fs::makedev(253, 7)).expect("a device");
        let mut disks = Vec::new();
        collect_disks(&folder, &mut disks, 0);
        assert_eq!(disks.len(), 1);
        let found = &disks[0];
        assert_eq!(found.name, "nvme0n1");
        assert_eq!(found.model.to_string(), "Fast Disk 1T");
        assert_eq!(found.scheduler.to_string(), "mq-deadline");
        assert_eq!(found.schedulers, ["none", "mq-deadline", "kyber"]);
        assert_eq!(found.rotational.value(), Some(&false));
        assert_eq!(found.medium, Medium::Flash);
        assert_eq!(found.nr_requests.to_string(), "unknown ('many' is not a number)");
        assert!(found.io_poll.to_string().starts_with("unknown ("));
        assert!(device_folder(sys.path(), rustix::fs::makedev(0, 40)).is_err());
    }

    #[test]
    fn a_disk_is_one_thing() {
        for (rotational, read_us, medium) in [
            (Some(true), Some(88.0), Medium::Flash),
            (Some(true), Some(8000.0), Medium::Spinning),
            (Some(true), None, Medium::Unknown),
            (Some(false), None, Medium::Flash),
            (None, Some(88.0), Medium::Flash),
            (None, None, Medium::Unknown),
        ] {
            assert_eq!(Medium::of(rotational, read_us), medium, "{rotational:?} {read_us:?}");
        }
    }

    #[test]
    fn the_deepest_mount_names_the_device() {
        let mounts = "\
22 1 0:30 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/var/u,workdir=/w
40 22 0:41 /sub /data rw - btrfs /dev/nvme0n1p3 rw,subvol=/sub
";
        let source = |path| mount_source(mounts, Path::new(path));
        assert_eq!(source("/data/file").as_deref(), Some("/dev/nvme0n1p3"));
        assert_eq!(source("/database").as_deref(), Some("/var/u"));
        assert_eq!(mount_source("", Path::new("/")), None);
    }
}
