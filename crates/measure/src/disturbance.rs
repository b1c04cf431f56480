//! [`Disturbance`]: what other programs and the host took from a measurement.
//!
//! The CPUs under test are read before and after every measurement. *Others* is the time that
//! neither the measured process nor the kernel's own threads used. *Steal* is the time in which a
//! CPU wanted to run but the host ran another guest. A measurement that lost more than the
//! thresholds below is disturbed. The bench repeats it, and reports if it stays disturbed.

use std::collections::BTreeMap;
use std::fs;

use crate::usage::{self, ProcessTimes, seconds};

/// A measurement is disturbed when others used more than this share of the CPUs under test. The
/// kernel counts in ticks of 10 ms, so a window of 0.4 s cannot show less than 3%.
const OTHERS_SHARE: f64 = 0.10;

/// Least CPU time of others, in seconds, that counts. Less is within the error of counting ticks.
const OTHERS_LEAST_S: f64 = 0.04;

/// A measurement is disturbed when the host took more than this share of the CPUs under test.
const STEAL_SHARE: f64 = 0.05;

/// Least stolen time, in seconds, that counts. Less is within the error of counting ticks.
const STEAL_LEAST_S: f64 = 0.02;

/// Time that other programs and the host took from one measurement.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Disturbance {
    /// Share of the CPUs under test that other programs used.
    pub(crate) others_share: f64,
    /// Share of the CPUs under test that the host gave to other guests.
    pub(crate) steal_share: f64,
    /// Length of the measurement times the number of its CPUs, in seconds.
    pub(crate) cpu_s: f64,
    /// The other program on this machine that used most CPU time.
    pub(crate) busiest: Option<String>,
}

impl Disturbance {
    fn by_others(&self) -> bool {
        self.others_share > OTHERS_SHARE && self.others_share * self.cpu_s > OTHERS_LEAST_S
    }

    fn by_host(&self) -> bool {
        self.steal_share > STEAL_SHARE && self.steal_share * self.cpu_s > STEAL_LEAST_S
    }

    /// The share of its CPUs that a disturbed measurement lost; 0 for one that is not disturbed.
    pub(crate) fn severity(&self) -> f64 {
        let others = if self.by_others() { self.others_share } else { 0.0 };
        let steal = if self.by_host() { self.steal_share } else { 0.0 };
        others + steal
    }

    /// Returns a printed reason for the disturbances of `all`; `None` if there were none.
    pub(crate) fn reason<'a>(all: impl Iterator<Item = &'a Disturbance> + Clone) -> Option<String> {
        let count = all.clone().count();
        let rounds = |disturbed: usize| match count {
            1 => String::new(),
            _ => format!(" in {disturbed} of {count} measurements"),
        };
        let largest = |share: &dyn Fn(&Disturbance) -> f64, by: fn(&Disturbance) -> bool| {
            let shares: Vec<f64> = all.clone().filter(|one| by(one)).map(share).collect();
            let most = shares.iter().copied().fold(0.0, f64::max);
            (!shares.is_empty()).then_some((shares.len(), most * 100.0))
        };
        let others = largest(&|one| one.others_share, Disturbance::by_others);
        let others = others.map(|(disturbed, most)| {
            let busiest = all.clone().filter(|one| one.by_others()).filter_map(|one| {
                let name = one.busiest.as_ref()?;
                Some((one.others_share, name))
            });
            let busiest = busiest.max_by(|a, b| a.0.total_cmp(&b.0));
            let named = busiest.map_or(String::new(), |(_, name)| format!(" (most of it: {name})"));
            format!("other programs used up to {most:.0}% of its CPU{}{named}", rounds(disturbed))
        });
        let steal = largest(&|one| one.steal_share, Disturbance::by_host);
        let steal = steal.map(|(disturbed, most)| {
            format!("the host took up to {most:.0}% of its CPU (steal){}", rounds(disturbed))
        });
        let parts: Vec<String> = others.into_iter().chain(steal).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// Counters of the machine so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Activity {
    /// Seconds that the CPUs under test ran anything, interrupts left out.
    busy_s: f64,
    /// Seconds that the host took from them.
    steal_s: f64,
    processes: BTreeMap<u32, ProcessTimes>,
}

impl Activity {
    /// Reads `/proc` for the CPUs under test.
    pub(crate) fn now(cpus: &[usize]) -> Activity {
        let (busy, steal) = ticks_of(&fs::read_to_string("/proc/stat").unwrap_or_default(), cpus);
        Activity {
            busy_s: seconds(busy),
            steal_s: seconds(steal),
            processes: usage::all_processes(),
        }
    }

    /// CPU time of the kernel's own threads since `before`, in seconds: write-back, reclaim, I/O
    /// workers.
    pub(crate) fn kernel_cpu_s(&self, before: &Activity) -> f64 {
        let kernels = |activity: &Activity| -> f64 {
            activity.processes.values().filter(|one| one.is_kernels).map(|one| one.cpu_s).sum()
        };
        kernels(self) - kernels(before)
    }

    /// Returns the disturbance of process `own` between `before` and this, `wall_s` seconds on
    /// `cpus` CPUs.
    pub(crate) fn disturbance(
        &self,
        before: &Activity,
        own: u32,
        wall_s: f64,
        cpus: usize,
    ) -> Disturbance {
        let used = |pid: u32, times: &ProcessTimes| {
            times.cpu_s - before.processes.get(&pid).map_or(0.0, |before| before.cpu_s)
        };
        let own_s = self.processes.get(&own).map_or(0.0, |times| used(own, times));
        let busy_s = self.busy_s - before.busy_s;
        let others_s = busy_s - own_s - self.kernel_cpu_s(before);
        let cpu_s = wall_s * cpus as f64;
        let this = std::process::id();
        let others = self
            .processes
            .iter()
            .filter(|(pid, times)| **pid != own && **pid != this && !times.is_kernels);
        let busiest = others
            .map(|(&pid, times)| (used(pid, times), pid, &times.name))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|(used_s, ..)| *used_s > 0.0);
        Disturbance {
            others_share: (others_s / cpu_s).max(0.0),
            steal_share: ((self.steal_s - before.steal_s) / cpu_s).max(0.0),
            cpu_s,
            busiest: busiest.map(|(_, pid, name)| format!("{name}, process {pid}")),
        }
    }
}

/// Returns the ticks in which the CPUs `cpus` ran programs or the kernel, and their ticks of steal.
/// `stat` is the text of `/proc/stat` (proc_stat(5)).
fn ticks_of(stat: &str, cpus: &[usize]) -> (u64, u64) {
    let of_cpu = |line: &str| -> Option<(u64, u64)> {
        let mut fields = line.strip_prefix("cpu")?.split(' ');
        let number: usize = fields.next()?.parse().ok()?;
        let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
        // user, nice, system, idle, iowait, irq, softirq, steal
        let busy = ticks.iter().take(3).sum();
        cpus.contains(&number).then_some((busy, ticks.get(7).copied().unwrap_or(0)))
    };
    let found = stat.lines().filter_map(of_cpu);
    found.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 4 100 50 3 3 8 0 0\n\
                        cpu1 10 20 40 100 50 30 30 80 0 0\nintr 1 2\n";

    #[test]
    fn only_the_cpus_under_test_count() {
        assert_eq!(ticks_of(STAT, &[0]), (7, 8));
        assert_eq!(ticks_of(STAT, &[1]), (70, 80));
        assert_eq!(ticks_of(STAT, &[0, 1]), (77, 88));
        assert_eq!(ticks_of("", &[0]), (0, 0));
    }

    fn process(name: &str, cpu_s: f64, is_kernels: bool) -> ProcessTimes {
        ProcessTimes { name: name.to_string(), cpu_s, is_kernels }
    }

    fn activity(busy_s: f64, steal_s: f64, processes: &[(u32, ProcessTimes)]) -> Activity {
        Activity { busy_s, steal_s, processes: processes.iter().cloned().collect() }
    }

    #[test]
    fn what_neither_the_child_nor_the_kernel_used_others_used() {
        let before = activity(10.0, 1.0, &[(900_001, process("child", 2.0, false))]);
        let after = activity(
            11.0,
            1.25,
            &[
                (900_001, process("child", 2.5, false)),
                (900_002, process("kswapd0", 0.125, true)),
                (900_003, process("rustc", 0.5, false)),
            ],
        );
        let found = after.disturbance(&before, 900_001, 1.0, 1);
        assert!((found.others_share - 0.375).abs() < 1e-9, "{found:?}");
        assert!((found.steal_share - 0.25).abs() < 1e-9, "{found:?}");
        assert_eq!(found.busiest.as_deref(), Some("rustc, process 900003"));
        assert!(found.severity() > 0.5);
        let reason = Disturbance::reason([&found].into_iter()).expect("a reason");
        assert_eq!(
            reason,
            "other programs used up to 38% of its CPU (most of it: rustc, process 900003); the host \
             took up to 25% of its CPU (steal)"
        );
    }

    #[test]
    fn a_few_ticks_do_not_disturb() {
        let of = |others_share, steal_share, cpu_s| Disturbance {
            others_share,
            steal_share,
            cpu_s,
            busiest: None,
        };
        assert_eq!(of(0.08, 0.04, 4.0).severity(), 0.0);
        // Two ticks are a fifth of a window of 0.1 s.
        assert_eq!(of(0.2, 0.1, 0.1).severity(), 0.0);
        assert!(of(0.2, 0.0, 0.4).severity() > 0.0);
        assert!(of(0.0, 0.06, 0.4).severity() > 0.0);
        assert_eq!(Disturbance::reason([&of(0.0, 0.0, 1.0)].into_iter()), None);
    }
}
