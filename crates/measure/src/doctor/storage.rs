//! Abilities and speed of the storage of the data.

use std::path::Path;

use super::Measured;
use super::diagnosis::Diagnosis;
use super::disk::{Disk, Known, Medium};
use super::flush::Flushes;
use super::paths;
use super::probe::Issued;

pub(super) fn findings(
    (data, folder): (&Path, &Path),
    disks: Result<Vec<Disk>, String>,
    measured: &Measured,
) -> Vec<Diagnosis> {
    let mut findings = vec![direct_io(measured)];
    match disks {
        Ok(disks) => {
            for disk in &disks {
                findings.push(identity(disk));
                findings.push(scheduler(disk));
                findings.push(queue(disk));
                findings.push(read_ahead(disk));
                findings.push(write_cache(disk));
                findings.push(paths::finding(data, disk));
            }
        }
        Err(reason) => findings.push(
            Diagnosis::limited("disk", format!("unknown: {reason}"))
                .costs("its settings cannot be checked")
                .fix("give --data a path on a local disk"),
        ),
    }
    findings.push(free_space(folder));
    findings.push(speed(measured));
    findings.push(durable_commits(&measured.flushes));
    findings
}

/// Free bytes for this user on the file system of `path`.
pub(super) fn free_bytes(path: &Path) -> Option<u64> {
    let space = rustix::fs::statvfs(path).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}

fn direct_io(measured: &Measured) -> Diagnosis {
    match &measured.direct {
        Ok(()) => Diagnosis::good("direct I/O", "O_DIRECT works on the data's file system"),
        Err(reason) => Diagnosis::missing(
            "direct I/O",
            format!("no direct reads of flash: {reason}"),
        )
        .costs("reads go through the page cache: memory beyond the budget, and twice the copying")
        .fix("give --data a path on ext4, XFS or btrfs on a local disk, that you may write to"),
    }
}

fn identity(disk: &Disk) -> Diagnosis {
    let found = format!("{}: {}", disk.name, disk.model);
    match disk.medium {
        Medium::Flash => Diagnosis::good("disk", format!("{found}, flash")),
        Medium::Spinning => Diagnosis::limited("disk", format!("{found}, spinning"))
            .costs("a spinning disk is some hundred times too slow to serve as memory")
            .fix("put the data on flash"),
        Medium::Unknown => {
            Diagnosis::limited("disk", format!("{found}, flash or spinning: unknown"))
                .costs("a spinning disk would be some hundred times too slow to serve as memory")
                .fix("measure it: --seconds above 0, and --data on a file system with direct I/O")
        }
    }
}

fn scheduler(disk: &Disk) -> Diagnosis {
    const NAME: &str = "I/O scheduler";
    let found = format!("{}: {}", disk.name, disk.scheduler);
    match &disk.scheduler {
        Known::Value(name) if name == "none" => Diagnosis::good(NAME, found),
        Known::Value(_) if !disk.schedulers.iter().any(|name| name == "none") => {
            Diagnosis::limited(NAME, format!("{found}, and 'none' is not offered"))
                .costs("about 1.5 points of throughput")
        }
        Known::Value(_) => Diagnosis::limited(NAME, found)
            .costs("about 1.5 points of throughput relative to DRAM-only")
            .fix(format!("echo none | sudo tee /sys/block/{}/queue/scheduler", disk.name)),
        Known::Unknown { .. } => Diagnosis::limited(NAME, found),
    }
}

/// Fewer requests than this leave reads waiting outside of the queue.
const NR_REQUESTS_MIN: u64 = 128;

fn queue(disk: &Disk) -> Diagnosis {
    let on_off = |flag: &Known<bool>| match flag {
        Known::Value(true) => "on".to_string(),
        Known::Value(false) => "off".to_string(),
        unknown => unknown.to_string(),
    };
    let found = format!(
        "{}: {} requests, polled queues {}, iostats {}",
        disk.name,
        disk.nr_requests,
        on_off(&disk.io_poll),
        on_off(&disk.iostats)
    );
    match disk.nr_requests.value() {
        Some(&requests) if requests < NR_REQUESTS_MIN => Diagnosis::limited("disk queue", found)
            .costs("deep queues wait in the kernel instead of in the device")
            .fix(format!("echo 256 | sudo tee /sys/block/{}/queue/nr_requests", disk.name)),
        Some(_) => Diagnosis::good("disk queue", found),
        None => Diagnosis::limited("disk queue", found),
    }
}

fn read_ahead(disk: &Disk) -> Diagnosis {
    let found = match disk.read_ahead_kib.value() {
        Some(kib) => format!("{}: {kib} KiB", disk.name),
        None => format!("{}: {}", disk.name, disk.read_ahead_kib),
    };
    match disk.read_ahead_kib.value() {
        Some(&kib) if kib > 128 => Diagnosis::limited("read-ahead", found)
            .costs("nothing for Ebbtide; a mapped file without MADV_RANDOM reads that much a fault")
            .fix(format!("echo 128 | sudo tee /sys/block/{}/queue/read_ahead_kb", disk.name)),
        Some(_) => Diagnosis::good("read-ahead", found),
        None => Diagnosis::limited("read-ahead", found),
    }
}

fn write_cache(disk: &Disk) -> Diagnosis {
    let found = format!("{}: {}", disk.name, disk.write_cache);
    match disk.write_cache.value().map(String::as_str) {
        Some("write through") => {
            Diagnosis::good("write cache", format!("{found}; a finished write is durable"))
        }
        Some(_) => Diagnosis::good("write cache", format!("{found}; durable writes need a flush")),
        None => Diagnosis::limited("write cache", found),
    }
}

/// Room for the built-in data set of a few GiB and the other files of a bench.
const FREE_BYTES_WANTED: u64 = 16 << 30;
const FREE_BYTES_MIN: u64 = 2 << 30;

fn free_space(folder: &Path) -> Diagnosis {
    const NAME: &str = "free space";
    let Some(free) = free_bytes(folder) else {
        return Diagnosis::limited(NAME, format!("unknown: no answer for {}", folder.display()));
    };
    let found = format!("{:.1} GiB", free as f64 / f64::from(1 << 30));
    if free >= FREE_BYTES_WANTED {
        Diagnosis::good(NAME, found)
    } else {
        let finding = if free >= FREE_BYTES_MIN { Diagnosis::limited } else { Diagnosis::missing };
        finding(NAME, found)
            .costs("data sets must be smaller than that")
            .fix("free some, or give --data a path elsewhere")
    }
}

/// Latency of flash that can serve as memory. The published systems assume reads of 50 µs. One core
/// with a miss every 10 µs needs 100,000 reads a second.
const GOOD_LATENCY_US: f64 = 150.0;
const GOOD_IOPS: f64 = 100_000.0;

fn speed(measured: &Measured) -> Diagnosis {
    const NAME: &str = "flash speed";
    let best = measured.reads.iter().max_by(|a, b| a.iops.total_cmp(&b.iops));
    let Some(best) = best else {
        let reason = measured.failure.as_deref().unwrap_or("no measurement was asked for");
        return Diagnosis::limited(NAME, format!("not measured: {reason}"));
    };
    if let Err(reason) = &measured.direct {
        return Diagnosis::limited(
            NAME,
            format!("not known: reads were served by DRAM ({reason})"),
        );
    }
    let first = &measured.reads[0];
    let mut found = format!(
        "{:.0} µs at queue depth {}, at most {:.0} reads/s (depth {}), {:.1} µs of CPU a read there",
        first.mean_us, first.queue_depth, best.iops, best.queue_depth, best.cpu_us_per_read
    );
    if best.issued == Issued::Threads {
        found += "; measured with blocking threads";
    }
    if let Some(failure) = &measured.failure {
        found += &format!("; broken off: {failure}");
    }
    // As for the engine: ratio = 1 / (1 + c/m), bounded by the rate of the device.
    let spacing_us = 1e6 / best.iops;
    let ratio = 1.0 / (1.0 + best.cpu_us_per_read / 10.0);
    let meaning = format!(
        "all cores together can miss once every {spacing_us:.0} µs at most; the CPU of a read alone \
         holds one core with a miss every 10 µs to about {ratio:.2} of DRAM-only"
    );
    if best.iops >= GOOD_IOPS && first.mean_us <= GOOD_LATENCY_US {
        return Diagnosis::good(NAME, format!("{found}: {meaning}"));
    }
    Diagnosis::limited(NAME, found)
        .costs(meaning)
        .fix("a faster disk, a local one rather than a network volume, or more DRAM (fewer misses)")
}

/// CPU that a small commit takes (an assumption, for a transaction of a few hundred bytes).
const COMMIT_CPU_US: f64 = 10.0;

/// Longest flush that is good. Longer ones make `always` slow for jobs that commit alone.
const GOOD_FLUSH_US: f64 = 1_000.0;

/// Reports the cost of `--durability always` with these flushes.
fn durable_commits(flushes: &Result<Flushes, String>) -> Diagnosis {
    const NAME: &str = "durable commits";
    let flushes = match flushes {
        Ok(flushes) => flushes,
        Err(reason) => return Diagnosis::limited(NAME, format!("not measured: {reason}")),
    };
    // All who wait together share a flush, and commits go on meanwhile.
    let commits_per_s = |waiting: f64| waiting * 1e6 / (flushes.mean_us + waiting * COMMIT_CPU_US);
    let found = format!(
        "{} page writes with a flush take {:.0} µs ({:.0} at the 99th percentile)",
        flushes.pages, flushes.mean_us, flushes.p99_us
    );
    let meaning = format!(
        "with durability 'always' at most {:.0} commits/s by one client and {:.0} by 64 that wait \
         together; 'every:1s' waits for none",
        commits_per_s(1.0),
        commits_per_s(64.0)
    );
    if flushes.mean_us <= GOOD_FLUSH_US {
        return Diagnosis::good(NAME, format!("{found}: {meaning}"));
    }
    Diagnosis::limited(NAME, found)
        .costs(meaning)
        .fix("a drive with capacitors, more clients at once, or durability 'every:1s'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;
    use crate::doctor::probe::Reads;

    fn reads(queue_depth: u32, iops: f64, mean_us: f64) -> Reads {
        Reads {
            queue_depth,
            issued: Issued::IoUring,
            iops,
            mean_us,
            p50_us: mean_us,
            p99_us: mean_us,
            cpu_us_per_read: 2.0,
        }
    }

    fn measured(reads: Vec<Reads>) -> Measured {
        Measured { reads, direct: Ok(()), failure: None, flushes: Err("a test".into()) }
    }

    #[test]
    fn speed_is_judged_by_latency_and_throughput() {
        let fast = measured(vec![reads(1, 15e3, 64.0), reads(32, 140e3, 228.0)]);
        assert_eq!(speed(&fast).status, Status::Good);
        let slow = measured(vec![reads(1, 2e3, 500.0), reads(32, 16e3, 2e3)]);
        let found = speed(&slow);
        assert_eq!(found.status, Status::Limited);
        assert!(found.cost.expect("a cost").contains("once every 62 µs"));
    }

    #[test]
    fn what_was_read_from_dram_is_not_called_flash() {
        let mut cached = measured(vec![reads(1, 1e6, 1.0)]);
        cached.direct = Err("tmpfs".to_string());
        assert!(speed(&cached).found.contains("DRAM"));
        assert_eq!(direct_io(&cached).status, Status::Missing);
        assert!(speed(&measured(Vec::new())).found.contains("not measured"));
    }

    #[test]
    fn who_waits_together_shares_a_flush() {
        let flushes = |us| Ok(Flushes { pages: 16, mean_us: us, p50_us: us, p99_us: us });
        let slow = durable_commits(&flushes(8_000.0));
        assert_eq!(slow.status, Status::Limited);
        let cost = slow.cost.expect("a cost");
        assert!(cost.contains("125 commits/s by one client and 7407 by 64"), "{cost}");
        assert_eq!(durable_commits(&flushes(40.0)).status, Status::Good);
        assert!(durable_commits(&Err("no room".into())).found.contains("no room"));
    }
}
