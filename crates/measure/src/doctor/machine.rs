//! [`MachineSummary`]: the few facts that every result must state about where it was measured.

use std::fs;
use std::path::Path;
use std::time::Duration;

use ebbtide_core::counted;
use serde::Serialize;

use super::disk::{self, Disk, Medium};
use super::flush::Flushes;
use super::probe::{self, ProbeError, Reads, Target};

/// The machine in brief. An unknown text is "unknown", and an unknown number is `None`.
#[derive(Clone, Debug, Serialize)]
pub struct MachineSummary {
    /// Version of the kernel.
    pub kernel: String,
    /// Name of the processor.
    pub processor: String,
    /// Processors that this process may use.
    pub cores_usable: usize,
    /// Processors that are online.
    pub cores_online: Option<usize>,
    /// Physical memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Name of the hypervisor; `None` on bare metal, as far as can be detected.
    pub virtualised: Option<String>,
    /// The disks that hold the data.
    pub disks: Vec<Disk>,
    /// Measured 4 KiB reads of the data, one entry per queue depth.
    pub reads: Vec<Reads>,
    /// Where `reads` were served from.
    pub reads_from: ServedBy,
    /// Times of flushes, if they were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flushes: Option<Flushes>,
}

/// Source of the reads of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ServedBy {
    /// The disk.
    Disk,
    /// DRAM: the page cache, or a file system in memory.
    Dram,
}

/// The longest time of [`MachineSummary::quick`] at each queue depth.
const QUICK: Duration = Duration::from_millis(300);

impl MachineSummary {
    /// Returns the machine without its storage, at no cost.
    pub(crate) fn of_system() -> MachineSummary {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            cpuinfo.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == name).then(|| value.trim().to_string())
            })
        };
        MachineSummary {
            kernel: kernel_version(),
            processor: field("model name").unwrap_or_else(|| "unknown".to_string()),
            cores_usable: std::thread::available_parallelism().map_or(1, |count| count.get()),
            cores_online: read("/sys/devices/system/cpu/online").and_then(|list| count_cpus(&list)),
            memory_bytes: read("/proc/meminfo").and_then(|text| memory_bytes(&text)),
            virtualised: virtualised(&field("flags").unwrap_or_default()),
            disks: Vec::new(),
            reads: Vec::new(),
            reads_from: ServedBy::Disk,
            flushes: None,
        }
    }

    /// Returns the machine, and the speed of the disk behind `data_file` at queue depths 1 and 32.
    /// The measurement takes `share` times 0.6 s and only reads the file. `disks` is empty if the
    /// disks cannot be found.
    ///
    /// # Errors
    /// [`ProbeError`] if the file cannot be read.
    pub fn quick(data_file: &Path, share: f64) -> Result<MachineSummary, ProbeError> {
        let target = Target::open(data_file)?;
        let mut summary = MachineSummary::of_system();
        summary.disks = disk::behind(data_file).unwrap_or_default();
        for queue_depth in [1, 32] {
            summary.reads.push(probe::random_reads(&target, queue_depth, QUICK.mul_f64(share))?);
        }
        if target.direct().is_err() || disk::memory_file_system(data_file).is_some() {
            summary.reads_from = ServedBy::Dram;
        }
        for disk in &mut summary.disks {
            let read_us = summary.reads.first().map(|reads| reads.mean_us);
            let read_us = read_us.filter(|_| summary.reads_from == ServedBy::Disk);
            disk.medium = Medium::of(disk.rotational.value().copied(), read_us);
        }
        Ok(summary)
    }

    /// The reads measured at `queue_depth`.
    pub(crate) fn reads_at(&self, queue_depth: u32) -> Option<&Reads> {
        self.reads.iter().find(|reads| reads.queue_depth == queue_depth)
    }

    /// Returns all of it in one line, without storage speed if none was measured.
    pub(crate) fn headline(&self) -> String {
        let cores = counted(self.cores_usable, "core");
        let mut line = format!("Linux {}, {cores} ({})", self.kernel, self.processor);
        if let Some(bytes) = self.memory_bytes {
            line += &format!(", {:.0} GiB", bytes as f64 / f64::from(1 << 30));
        }
        if let Some(by) = &self.virtualised {
            line += &format!(", virtual machine ({by})");
        }
        let names: Vec<&str> = self.disks.iter().map(|disk| disk.name.as_str()).collect();
        if !names.is_empty() {
            line += &format!("; disk {}", names.join(" + "));
        }
        let speeds = [1, 32].into_iter().filter_map(|depth| self.reads_at(depth));
        let speeds: Vec<String> = speeds
            .map(|reads| format!("{:.0} µs at queue depth {}", reads.mean_us, reads.queue_depth))
            .collect();
        match self.reads_from {
            ServedBy::Dram => line += "; the data is read from DRAM, not from a disk",
            ServedBy::Disk if speeds.is_empty() => {}
            ServedBy::Disk => line += &format!("; 4 KiB reads {}", speeds.join(", ")),
        }
        line
    }
}

/// Version of the running kernel, "unknown" if it does not say.
pub(super) fn kernel_version() -> String {
    read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_string())
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

/// How many processors a list such as `0-3,8` names.
fn count_cpus(list: &str) -> Option<usize> {
    list.split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (usize, usize) =
                (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (last + 1).checked_sub(first)
        })
        .sum()
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

fn virtualised(cpu_flags: &str) -> Option<String> {
    let product = read("/sys/class/dmi/id/product_name").unwrap_or_default();
    let vendor = read("/sys/class/dmi/id/sys_vendor").unwrap_or_default();
    let known = ["KVM", "QEMU", "VMware", "VirtualBox", "Virtual Machine", "Amazon EC2", "Google"];
    let named = known.iter().find(|name| product.contains(*name) || vendor.contains(*name));
    // An EC2 machine may be bare metal, and then has no such flag.
    let flagged = cpu_flags.split_whitespace().any(|flag| flag == "hypervisor");
    let xen = read("/sys/hypervisor/type").filter(|kind| !kind.is_empty());
    match (flagged, named, xen) {
        (true, Some(name), _) => Some((*name).to_string()),
        (_, _, Some(kind)) => Some(kind),
        (true, None, None) => Some("unknown hypervisor".to_string()),
        // Processors other than x86 have no flag: the name decides.
        (false, Some(name), None) if cpu_flags.is_empty() => Some((*name).to_string()),
        (false, _, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_counted_from_the_kernels_list() {
        for (list, count) in [("0", Some(1)), ("0-3,8", Some(5)), ("", None), ("3-x", None)] {
            assert_eq!(count_cpus(list), count, "{list}");
        }
    }

    #[test]
    fn memory_is_read_in_bytes() {
        assert_eq!(memory_bytes("MemTotal:       1024 kB\nMemFree: 1 kB\n"), Some(1 << 20));
        assert_eq!(memory_bytes("nonsense"), None);
    }

    #[test]
    fn a_quick_summary_measures_two_depths() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        std::io::Write::write_all(&mut file, &vec![7; 1 << 20]).expect("written");
        let summary = MachineSummary::quick(file.path(), 1.0).expect("a summary");
        assert!(summary.reads_at(1).is_some() && summary.reads_at(32).is_some());
        let expected = match summary.reads_from {
            ServedBy::Disk => "at queue depth 32",
            ServedBy::Dram => "read from DRAM",
        };
        assert!(summary.headline().contains(expected), "{}", summary.headline());
    }

    #[test]
    fn reads_from_dram_are_no_latencies_of_flash() {
        let folder = std::path::Path::new("/dev/shm");
        if disk::memory_file_system(folder).is_none() {
            return;
        }
        let mut file = tempfile::NamedTempFile::new_in(folder).expect("a file");
        std::io::Write::write_all(&mut file, &vec![7; 1 << 20]).expect("written");
        let summary = MachineSummary::quick(file.path(), 1.0).expect("a summary");
        assert_eq!(summary.reads_from, ServedBy::Dram);
        let line = summary.headline();
        assert!(line.contains("from DRAM") && !line.contains("queue depth"), "{line}");
    }
}
