//! Abilities of the kernel and the processors: io_uring, limits, membarrier, userfaultfd.

use std::fs;
use std::io;

use ebbtide_engine::device::page_reads::try_ring;
use ebbtide_engine::mapped::{KernelSupport, MappedError};
use rustix::process::{Resource, getrlimit};
use rustix::thread::{MembarrierCommand, membarrier_query};

use super::diagnosis::Diagnosis;
use super::machine::{MachineSummary, kernel_version};

/// Error numbers, the same on every Linux.
const EPERM: i32 = 1;
const ENOMEM: i32 = 12;
const ENOSYS: i32 = 38;

/// Capabilities by their bit in `CapEff`.
const CAP_IPC_LOCK: u32 = 14;

pub(super) fn findings() -> Vec<Diagnosis> {
    let status = Permissions::of_this_process();
    vec![
        kernel(&kernel_version()),
        uring(),
        processors(&MachineSummary::of_system()),
        membarrier(),
        memlock(&status),
        nofile(),
        userfaultfd(),
    ]
}

/// Permissions of this process from `/proc/self/status`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
struct Permissions {
    capabilities: u64,
    filtered: bool,
}

impl Permissions {
    fn of_this_process() -> Permissions {
        Permissions::parse(&fs::read_to_string("/proc/self/status").unwrap_or_default())
    }

    fn parse(status: &str) -> Permissions {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let capabilities = field("CapEff:").map(|hex| u64::from_str_radix(hex.trim(), 16));
        Permissions {
            capabilities: capabilities.and_then(Result::ok).unwrap_or(0),
            filtered: field("Seccomp:").is_some_and(|mode| mode.trim() == "2"),
        }
    }

    fn has(self, capability: u32) -> bool {
        self.capabilities >> capability & 1 == 1
    }
}

fn kernel(version: &str) -> Diagnosis {
    let mut parts = version.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || parts.next().and_then(|part| part.parse::<u32>().ok());
    let found = format!("Linux {version}");
    match (next(), next()) {
        (Some(major), Some(minor)) if (major, minor) >= (6, 1) => Diagnosis::good("kernel", found),
        (Some(major), Some(minor)) if (major, minor) >= (5, 11) => {
            Diagnosis::limited("kernel", found)
                .costs("io_uring without its cheaper completion modes")
                .fix("a kernel from 6.1 on")
        }
        (Some(_), Some(_)) => Diagnosis::missing("kernel", found)
            .costs("io_uring here is too old to rely on: Linux AIO takes its place, at more CPU a miss")
            .fix("a kernel from 6.1 on"),
        _ => Diagnosis::limited("kernel", format!("unknown: '{version}'")),
    }
}

fn uring() -> Diagnosis {
    match try_ring() {
        Ok(()) => Diagnosis::good("io_uring", "a ring can be set up and completes requests"),
        Err(error) => {
            let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").ok();
            let disabled = disabled.and_then(|text| text.trim().parse().ok());
            refused_ring(&error, disabled, Permissions::of_this_process().filtered)
        }
    }
}

/// Returns the reason why io_uring is refused.
fn refused_ring(error: &io::Error, disabled: Option<u32>, filtered: bool) -> Diagnosis {
    let cost = "pages come through Linux AIO and sockets through epoll, at more CPU for each";
    let (found, fix) = match (error.raw_os_error(), disabled) {
        (Some(EPERM), Some(level @ 1..)) => (
            format!("refused: kernel.io_uring_disabled is {level}"),
            "sudo sysctl kernel.io_uring_disabled=0".to_string(),
        ),
        (Some(ENOSYS), _) if !filtered => (
            "the kernel was built without it".to_string(),
            "a kernel with CONFIG_IO_URING".to_string(),
        ),
        (Some(EPERM | ENOSYS), _) => (
            "refused by a system call filter (seccomp), as containers have it".to_string(),
            "docker run --security-opt seccomp=unconfined, or a profile that permits io_uring_setup, \
             io_uring_enter and io_uring_register"
                .to_string(),
        ),
        (Some(ENOMEM), _) => (
            "refused: not enough locked memory".to_string(),
            "ulimit -l unlimited".to_string(),
        ),
        _ => (format!("refused: {error}"), "see the system log".to_string()),
    };
    Diagnosis::missing("io_uring", found).costs(cost).fix(fix)
}

fn processors(machine: &MachineSummary) -> Diagnosis {
    let (usable, online) = (machine.cores_usable, machine.cores_online);
    let online_text = online.map_or("unknown".to_string(), |count| count.to_string());
    let mut found = format!("{usable} usable of {online_text} online, {}", machine.processor);
    found += match &machine.virtualised {
        Some(_) => "; virtual: first touches of memory are slow, times are noisier",
        None => "; no hypervisor seen",
    };
    if online.is_some_and(|online| usable < online) {
        return Diagnosis::limited("processors", found)
            .costs("throughput grows with cores; these are withheld by affinity or a quota")
            .fix("run without taskset, cpuset or a CPU quota");
    }
    if usable == 1 {
        return Diagnosis::limited("processors", found)
            .costs("device interrupts and kernel threads share the only core with the jobs");
    }
    Diagnosis::good("processors", found)
}

fn membarrier() -> Diagnosis {
    let commands = membarrier_query();
    if commands.contains_command(MembarrierCommand::RegisterPrivateExpedited)
        && commands.contains_command(MembarrierCommand::PrivateExpedited)
    {
        Diagnosis::good("membarrier", "private expedited barriers are available")
    } else {
        Diagnosis::limited("membarrier", "private expedited barriers are not available")
            .costs("reclaiming frames needs slower barriers on the hit path")
            .fix("a kernel with CONFIG_MEMBARRIER, and a system call filter that permits it")
    }
}

fn bytes_or_unlimited(limit: Option<u64>) -> String {
    limit.map_or("unlimited".to_string(), |bytes| format!("{} KiB", bytes / 1024))
}

fn memlock(permissions: &Permissions) -> Diagnosis {
    let limit = getrlimit(Resource::Memlock).current;
    let found = format!("{} of locked memory", bytes_or_unlimited(limit));
    if permissions.has(CAP_IPC_LOCK) {
        return Diagnosis::good("memlock", format!("{found}; not binding: CAP_IPC_LOCK is held"));
    }
    if limit.is_none_or(|bytes| bytes >= 64 << 20) {
        return Diagnosis::good("memlock", found);
    }
    Diagnosis::limited("memlock", found)
        .costs(
            "frames cannot be registered with the ring: the kernel looks their memory up at every read, \
             for up to half a microsecond of CPU",
        )
        .fix("ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit")
}

fn nofile() -> Diagnosis {
    match getrlimit(Resource::Nofile).current {
        Some(files) if files < 4096 => Diagnosis::limited("open files", format!("{files} at most"))
            .costs("a server takes no more connections than that")
            .fix("ulimit -n 65536, or LimitNOFILE=65536 in the unit"),
        Some(files) => Diagnosis::good("open files", format!("{files} at most")),
        None => Diagnosis::good("open files", "unlimited"),
    }
}

fn userfaultfd() -> Diagnosis {
    mapped_regions(KernelSupport::ask())
}

/// Judges the kernel's answer to a request for a mapped region.
fn mapped_regions(answer: Result<KernelSupport, MappedError>) -> Diagnosis {
    const NAME: &str = "userfaultfd";
    match answer {
        Ok(KernelSupport { removes_together: true }) => {
            Diagnosis::good(NAME, "permitted for mapped regions; pages leave in batches")
        }
        Ok(KernelSupport { removes_together: false }) => {
            Diagnosis::limited(NAME, "permitted for mapped regions; pages leave one by one")
                .costs("a system call for each evicted page of a mapped region")
                .fix("a kernel from 6.13 on")
        }
        Err(MappedError::Refused(error)) if error.raw_os_error() == Some(ENOSYS) => {
            Diagnosis::limited(NAME, "the kernel was built without it")
                .costs("no mapped regions (plain pointers to data on flash)")
                .fix("a kernel with CONFIG_USERFAULTFD")
        }
        Err(MappedError::Refused(error)) if error.raw_os_error() == Some(EPERM) => {
            Diagnosis::limited(NAME, "refused, as containers do (seccomp)")
                .costs("no mapped regions (plain pointers to data on flash)")
                .fix("docker run --security-opt seccomp=unconfined, or a profile that permits userfaultfd")
        }
        Err(error) => Diagnosis::limited(NAME, error.to_string())
            .costs("no mapped regions (plain pointers to data on flash)")
            .fix("a kernel from 5.11 on"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn kernels_are_judged_by_version() {
        for (version, status) in [
            ("6.18.44-generic", Status::Good),
            ("6.1.0", Status::Good),
            ("5.15.0-91", Status::Limited),
            ("4.19.0", Status::Missing),
            ("unknown", Status::Limited),
        ] {
            assert_eq!(kernel(version).status, status, "{version}");
        }
    }

    #[test]
    fn a_kernel_without_mapped_regions_has_its_reason_and_a_fix() {
        let refused = |code| Err(MappedError::Refused(io::Error::from_raw_os_error(code)));
        for (answer, found, fix) in [
            (Ok(KernelSupport { removes_together: true }), "in batches", ""),
            (Ok(KernelSupport { removes_together: false }), "one by one", "6.13"),
            (refused(ENOSYS), "built without", "CONFIG_USERFAULTFD"),
            (refused(EPERM), "refused", "seccomp"),
            (Err(MappedError::Lacks("write protection")), "write protection", "5.11"),
        ] {
            let told = mapped_regions(answer);
            assert!(told.found.contains(found), "{told:?}");
            assert!(told.fix.unwrap_or_default().contains(fix));
        }
    }

    #[test]
    fn the_ways_to_refuse_io_uring_are_told_apart() {
        let told = |errno, disabled, filtered| {
            refused_ring(&io::Error::from_raw_os_error(errno), disabled, filtered)
        };
        assert!(told(EPERM, Some(2), true).found.contains("io_uring_disabled is 2"));
        assert!(told(EPERM, Some(0), true).found.contains("seccomp"));
        assert!(told(EPERM, None, false).found.contains("seccomp"));
        assert!(told(ENOSYS, None, false).found.contains("built without"));
        assert!(told(ENOSYS, Some(0), true).found.contains("seccomp"));
        assert!(told(ENOMEM, Some(0), false).fix.expect("a fix").contains("ulimit -l"));
        assert!(told(5, Some(0), false).found.contains("refused"));
    }

    #[test]
    fn permissions_are_read_from_the_status_file() {
        let status = "Name:\tx\nCapEff:\t0000000000084000\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        let read = Permissions::parse(status);
        assert!(read.filtered && read.has(CAP_IPC_LOCK) && read.has(19));
        assert!(!read.has(21));
        assert_eq!(Permissions::parse("garbage"), Permissions::default());
    }
}
