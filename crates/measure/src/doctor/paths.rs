//! Which ways to a drive this machine offers, and what the others lack.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::diagnosis::Diagnosis;
use super::disk::Disk;

const NAME: &str = "ways to the drive";

/// The drivers that may have polled queues, by how their drives' names begin, and the kernel parameter
/// that says how many.
const POLLED_DRIVERS: [(&str, &str); 2] =
    [("nvme", "nvme.poll_queues"), ("vd", "virtio_blk.poll_queues")];

/// Whether an NVMe drive takes commands past the block layer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passthrough {
    /// It is no NVMe drive, or the kernel gives it no generic device.
    None,
    /// This user may not use its generic device.
    Forbidden,
    Open,
}

/// What the way to one drive depends on.
struct Facts<'a> {
    name: &'a str,
    polled: bool,
    /// Whether the data is the drive or a part of it, and not a file on it.
    is_drive: bool,
    passthrough: Passthrough,
}

pub(super) fn finding(data: &Path, disk: &Disk) -> Diagnosis {
    let is_drive = fs::metadata(data).is_ok_and(|about| about.file_type().is_block_device());
    let generic =
        disk.name.strip_prefix("nvme").map(|number| PathBuf::from(format!("/dev/ng{number}")));
    let passthrough = match generic.filter(|path| path.exists()) {
        None => Passthrough::None,
        Some(path) if access(&path, Access::READ_OK | Access::WRITE_OK).is_ok() => {
            Passthrough::Open
        }
        Some(_) => Passthrough::Forbidden,
    };
    let polled = disk.io_poll.value() == Some(&true);
    diagnose(&Facts { name: &disk.name, polled, is_drive, passthrough })
}

fn diagnose(facts: &Facts<'_>) -> Diagnosis {
    let Facts { name, polled, is_drive, passthrough } = *facts;
    let number = name.strip_prefix("nvme").unwrap_or_default();
    let now = if is_drive { "block" } else { "file" };
    let mut found = format!("{name}: {now}");
    found += match (polled, is_drive) {
        (true, true) => ", with polled reads",
        (true, false) => "; as a drive of its own, block with polled reads",
        (false, _) => "; no polled queues",
    };
    found += &match passthrough {
        Passthrough::None => String::new(),
        Passthrough::Forbidden => format!("; no permission on /dev/ng{number}"),
        Passthrough::Open if polled => format!("; nvme, as /dev/ng{number}"),
        Passthrough::Open => "; nvme only with polled queues".into(),
    };
    let parameter = POLLED_DRIVERS.iter().find(|(start, _)| name.starts_with(start));
    match parameter {
        Some((_, parameter)) if !polled => Diagnosis::limited(NAME, found)
            .costs("reads of a busy core end with interrupts, and nothing goes past the block layer")
            .fix(format!(
                "start the kernel with {parameter}=N, one for each core of Ebbtide, and give --data a \
                 drive or partition of its own; docs/DEVICES.md says how"
            )),
        _ if polled && passthrough == Passthrough::Forbidden => Diagnosis::limited(NAME, found)
            .costs("nothing goes past the kernel's block layer")
            .fix(format!("permit your user to read and write /dev/ng{number}, by a udev rule")),
        _ => Diagnosis::good(NAME, found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    fn told(name: &str, polled: bool, is_drive: bool, passthrough: Passthrough) -> Diagnosis {
        diagnose(&Facts { name, polled, is_drive, passthrough })
    }

    #[test]
    fn every_way_that_a_drive_offers_is_told() {
        let own = told("nvme0n1", true, true, Passthrough::Open);
        assert_eq!(own.status, Status::Good);
        assert_eq!(own.found, "nvme0n1: block, with polled reads; nvme, as /dev/ng0n1");
        let file = told("nvme0n1", true, false, Passthrough::None);
        assert_eq!(file.found, "nvme0n1: file; as a drive of its own, block with polled reads");
        assert_eq!(
            told("sda", false, false, Passthrough::None).found,
            "sda: file; no polled queues"
        );
    }

    #[test]
    fn what_a_drive_lacks_is_told_with_what_it_costs_and_how_to_get_it() {
        let lacking = [
            (told("nvme1n1", false, true, Passthrough::Open), "nvme.poll_queues=N"),
            (told("vda", false, false, Passthrough::None), "virtio_blk.poll_queues=N"),
            (told("nvme1n1", true, true, Passthrough::Forbidden), "/dev/ng1n1"),
        ];
        for (found, fix) in lacking {
            assert_eq!(found.status, Status::Limited, "{found:?}");
            assert!(found.cost.is_some() && found.fix.is_some_and(|text| text.contains(fix)));
        }
    }
}
