//! The ways to a drive that this machine offers, and what the others lack.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use ebbtide_engine::device::path::generic_device_of;
use rustix::fs::{Access, access};

use super::diagnosis::Diagnosis;
use super::disk::Disk;

const NAME: &str = "ways to the drive";

/// Drivers that may have polled queues: the prefix of their drives' names, and the kernel parameter
/// for the number of queues.
const POLLED_DRIVERS: [(&str, &str); 2] =
    [("nvme", "nvme.poll_queues"), ("vd", "virtio_blk.poll_queues")];

/// The generic device of an NVMe drive, which takes commands past the block layer.
struct Generic {
    path: PathBuf,
    /// Whether this user may use it.
    permitted: bool,
}

/// Facts that determine the way to one drive.
struct Facts<'a> {
    name: &'a str,
    polled: bool,
    /// Whether the data is the drive or a part of it, and not a file on it.
    is_drive: bool,
    /// `None` if it is no NVMe drive, or the kernel gives it none.
    generic: Option<Generic>,
}

pub(super) fn finding(data: &Path, disk: &Disk) -> Diagnosis {
    let is_drive = fs::metadata(data).is_ok_and(|about| about.file_type().is_block_device());
    let generic = generic_device_of(&disk.name).map(|path| {
        let permitted = access(&path, Access::READ_OK | Access::WRITE_OK).is_ok();
        Generic { path, permitted }
    });
    let polled = disk.io_poll.value() == Some(&true);
    diagnose(&Facts { name: &disk.name, polled, is_drive, generic })
}

fn diagnose(facts: &Facts<'_>) -> Diagnosis {
    let Facts { name, polled, is_drive, ref generic } = *facts;
    let now = if is_drive { "block" } else { "file" };
    let mut found = format!("{name}: {now}");
    found += match (polled, is_drive) {
        (true, true) => ", with polled reads",
        (true, false) => "; as a drive of its own, block with polled reads",
        (false, _) => "; no polled queues",
    };
    found += &match generic {
        None => String::new(),
        Some(Generic { path, permitted: false }) => {
            format!("; no permission on {}", path.display())
        }
        Some(Generic { path, .. }) => format!("; nvme, as {}", path.display()),
    };
    let parameter = POLLED_DRIVERS.iter().find(|(start, _)| name.starts_with(start));
    match (parameter, generic) {
        (Some((_, parameter)), _) if !polled => Diagnosis::limited(NAME, found)
            .costs("reads of a busy core end with interrupts")
            .fix(format!(
                "start the kernel with {parameter}=N, one for each core of Ebbtide, and give --data a \
                 drive or partition of its own; docs/DEVICES.md says how"
            )),
        (_, Some(Generic { path, permitted: false })) => Diagnosis::limited(NAME, found)
            .costs("nothing goes past the kernel's block layer")
            .fix(format!(
                "permit your user to read and write {}, by a udev rule",
                path.display()
            )),
        _ => Diagnosis::good(NAME, found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    fn told(name: &str, polled: bool, is_drive: bool, generic: Option<(&str, bool)>) -> Diagnosis {
        let generic = generic.map(|(path, permitted)| Generic { path: path.into(), permitted });
        diagnose(&Facts { name, polled, is_drive, generic })
    }

    #[test]
    fn every_way_that_a_drive_offers_is_told() {
        // After a drive was pulled out and put back, the numbers differ.
        let own = told("nvme0n1", true, true, Some(("/dev/ng1n1", true)));
        assert_eq!(own.status, Status::Good);
        assert_eq!(own.found, "nvme0n1: block, with polled reads; nvme, as /dev/ng1n1");
        let file = told("nvme0n1", true, false, None);
        assert_eq!(file.found, "nvme0n1: file; as a drive of its own, block with polled reads");
        assert_eq!(told("sda", false, false, None).found, "sda: file; no polled queues");
    }

    #[test]
    fn what_a_drive_lacks_is_told_with_what_it_costs_and_how_to_get_it() {
        let lacking = [
            (told("nvme1n1", false, true, Some(("/dev/ng1n1", true))), "nvme.poll_queues=N"),
            (told("vda", false, false, None), "virtio_blk.poll_queues=N"),
            (told("nvme1n1", true, true, Some(("/dev/ng1n1", false))), "/dev/ng1n1"),
        ];
        for (found, fix) in lacking {
            assert_eq!(found.status, Status::Limited, "{found:?}");
            assert!(found.cost.is_some() && found.fix.is_some_and(|text| text.contains(fix)));
        }
    }
}
