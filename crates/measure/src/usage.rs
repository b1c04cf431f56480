//! Resources used by a process and by the kernel's own threads.

use std::collections::BTreeMap;
use std::fs;

/// Resources used by this process since it started.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    /// CPU time of all its threads, in its own code and in the kernel.
    pub(crate) cpu_s: f64,
    /// The part of it in the kernel.
    pub(crate) system_s: f64,
    pub(crate) major_faults: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
}

impl Usage {
    pub(crate) fn since(&self, before: &Usage) -> Usage {
        Usage {
            cpu_s: self.cpu_s - before.cpu_s,
            system_s: self.system_s - before.system_s,
            major_faults: self.major_faults - before.major_faults,
            bytes_read: self.bytes_read - before.bytes_read,
            bytes_written: self.bytes_written - before.bytes_written,
        }
    }
}

/// Reads this process's usage: CPU time and faults of all its threads, and bytes that went to and
/// from devices on its behalf.
pub(crate) fn usage() -> Usage {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    let io_field = |name: &str| {
        let value = io.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or(0)
    };
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Fields 12 (majflt) and 15 (stime) of proc_pid_stat(5).
    Usage {
        cpu_s: time.tv_sec as f64 + time.tv_nsec as f64 / 1e9,
        system_s: seconds(stat_number(&stat, 15).unwrap_or(0)),
        major_faults: stat_number(&stat, 12).unwrap_or(0),
        bytes_read: io_field("read_bytes:"),
        bytes_written: io_field("write_bytes:"),
    }
}

/// Returns field `number` of a `/proc/PID/stat`, counted as in proc_pid_stat(5), from the third on.
fn stat_number(stat: &str, number: usize) -> Option<u64> {
    // The second field is the command's name, which may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(number - 3)?.parse().ok()
}

/// Returns the CPU time of this process's threads named `name`, in seconds: all of it, and the part
/// in the kernel.
pub(crate) fn threads_cpu_s(name: &str) -> (f64, f64) {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let named = tasks.map(|task| task.path()).filter(|task| {
        fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
    });
    let cpu_s = |task: std::path::PathBuf| {
        // The first field of /proc/PID/task/TID/schedstat: nanoseconds on a CPU.
        let schedstat = fs::read_to_string(task.join("schedstat")).ok()?;
        let cpu_ns = schedstat.split_whitespace().next()?.parse::<u64>().ok()?;
        let stat = fs::read_to_string(task.join("stat")).ok()?;
        // Field 15 (stime) of proc_pid_stat(5).
        Some((cpu_ns as f64 / 1e9, seconds(stat_number(&stat, 15)?)))
    };
    let sum = |(cpu_s, system_s), (more_cpu_s, more_system_s)| {
        (cpu_s + more_cpu_s, system_s + more_system_s)
    };
    named.filter_map(cpu_s).fold((0.0, 0.0), sum)
}

pub(crate) fn seconds(ticks: u64) -> f64 {
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

/// Returns the CPU time of all threads of a process so far, in seconds, including ended ones.
#[cfg(feature = "load")]
pub(crate) fn process_cpu_s(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    process_times(&stat).map_or(0.0, |times| times.cpu_s)
}

/// Resident memory of this process in bytes.
pub(crate) fn resident_bytes() -> u64 {
    resident_bytes_of("self")
}

/// Returns the resident memory in bytes of the process with this name in `/proc`.
pub(crate) fn resident_bytes_of(process: &str) -> u64 {
    let statm = fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    let pages: u64 =
        statm.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// CPU times of a process or a thread of the kernel.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProcessTimes {
    /// The name of its command.
    pub(crate) name: String,
    /// Its CPU time in seconds, in steps of one clock tick (10 ms).
    pub(crate) cpu_s: f64,
    /// Whether it is a thread of the kernel.
    pub(crate) is_kernels: bool,
}

/// Returns the CPU times of every process on the machine since its start, by process id.
pub(crate) fn all_processes() -> BTreeMap<u32, ProcessTimes> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let times = |id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        Some((id, process_times(&stat)?))
    };
    ids.filter_map(times).collect()
}

/// Reads the text of a `/proc/PID/stat`.
fn process_times(stat: &str) -> Option<ProcessTimes> {
    const KERNEL_THREAD: u64 = 0x0020_0000; // PF_KTHREAD
    let name = stat.split_once('(')?.1.rsplit_once(')')?.0.to_string();
    // Fields 9 (flags), 14 (utime) and 15 (stime) of proc_pid_stat(5).
    let is_kernels = stat_number(stat, 9)? & KERNEL_THREAD != 0;
    let ticks = stat_number(stat, 14)? + stat_number(stat, 15)?;
    Some(ProcessTimes { name, cpu_s: seconds(ticks), is_kernels })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let stat = "7 (a (b) c) R 1 7 7 0 -1 4194560 1 2 3 4 50 60 0 0";
        let times = process_times(stat).expect("a process");
        assert_eq!((times.name.as_str(), times.is_kernels), ("a (b) c", false));
        assert_eq!(times.cpu_s, seconds(110));
        let kernels = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 1 0 0";
        assert!(process_times(kernels).expect("a thread").is_kernels);
        assert_eq!(process_times(""), None);
    }
}
