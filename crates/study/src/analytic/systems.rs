//! The four systems of AstriFlash §III-A as M/M/k queues.
//!
//! The unit of time is the mean execution of a job, 10 µs. That is the time of a job on DRAM-only,
//! and a job misses once in it.
//!
//! A blocked core is one slow server. A core that switches on a miss is one slow server for each
//! overlapping job. Together these servers are no faster than the core.

use super::queueing::Queue;

/// Mean execution of a job, in µs: the unit of time.
pub(crate) const EXECUTION_US: f64 = 10.0;

/// Mean flash read, in µs.
pub(crate) const FLASH_US: f64 = 50.0;

/// Core time that OS-Swap loses a miss, in µs (AstriFlash, slide 15).
pub(crate) const OS_SWAP_OVERHEAD_US: f64 = 10.0;

/// How one core runs jobs that miss.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum System {
    /// All data in DRAM: nothing misses.
    DramOnly,
    /// The core switches to another job, at a cost.
    AstriFlash {
        /// Core time that a miss costs, in µs.
        overhead_us: f64,
    },
    /// The operating system switches to another thread.
    OsSwap,
    /// The core waits for flash.
    FlashSync,
}

impl System {
    /// All four systems in the order of Fig. 3. AstriFlash has no overhead.
    pub const ALL: [System; 4] = [
        System::DramOnly,
        System::AstriFlash { overhead_us: 0.0 },
        System::OsSwap,
        System::FlashSync,
    ];

    /// Returns the system's name in the paper.
    pub fn name(self) -> &'static str {
        match self {
            System::DramOnly => "DRAM-only",
            System::AstriFlash { .. } => "AstriFlash",
            System::OsSwap => "OS-Swap",
            System::FlashSync => "Flash-Sync",
        }
    }

    /// Returns the queue of `cores` cores that run jobs this way. Its unit of time is the mean
    /// execution of a job.
    pub fn queue(self, cores: u32) -> Queue {
        let one = match self {
            System::DramOnly => Queue { servers: 1, rate: 1.0 },
            System::AstriFlash { overhead_us } => overlapping(EXECUTION_US, overhead_us, FLASH_US),
            System::OsSwap => overlapping(EXECUTION_US, OS_SWAP_OVERHEAD_US, FLASH_US),
            System::FlashSync => {
                Queue { servers: 1, rate: EXECUTION_US / (EXECUTION_US + FLASH_US) }
            }
        };
        Queue { servers: one.servers * cores, ..one }
    }
}

/// A core that runs other jobs while one waits for flash. It is modelled by enough slow servers to
/// keep it busy, together as fast as the core. A job executes for `execution`, the queue's unit of
/// time. It loses `overhead` of the core's time and waits for `flash`, both in one unit.
pub(crate) fn overlapping(execution: f64, overhead: f64, flash: f64) -> Queue {
    let busy = execution + overhead;
    let servers = ((busy + flash) / busy).ceil();
    Queue { servers: servers as u32, rate: execution / busy / servers }
}

/// Returns the share of DRAM-only's throughput that `system` does not reach on `cores` cores. Both
/// keep the p99 response within `limit`, in mean executions of a job. Returns 1 if `system` cannot
/// meet `limit`.
///
/// # Panics
/// When `limit` is at most ln 100 (4.6). DRAM-only cannot meet it either.
pub fn gap(system: System, cores: u32, limit: f64) -> f64 {
    assert!(limit > 100_f64.ln(), "a p99 limit of {limit} mean services admits nothing");
    let throughput = |system: System| system.queue(cores).throughput_within(limit);
    1.0 - throughput(system) / throughput(System::DramOnly)
}

/// Returns the tightest p99 limit at which the [`gap`] of one core is at most `wanted`. The limit
/// is in mean executions of a job. `None` if a limit of 1000 is too tight.
pub fn limit_for_gap(system: System, wanted: f64) -> Option<f64> {
    let (mut tight, mut loose) = (100_f64.ln(), 1000.0);
    if gap(system, 1, loose) > wanted {
        return None;
    }
    while loose - tight > 1e-6 {
        let middle = f64::midpoint(tight, loose);
        if gap(system, 1, middle) > wanted { tight = middle } else { loose = middle }
    }
    Some(loose)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDEAL: System = System::AstriFlash { overhead_us: 0.0 };
    const SWITCHING: System = System::AstriFlash { overhead_us: 0.2 };

    fn percent(share: f64) -> String {
        format!("{:.1}", 100.0 * share)
    }

    #[test]
    fn the_mapping_is_that_of_the_text() {
        let shape = |system: System| (system.queue(1).servers, system.queue(1).capacity());
        assert_eq!(shape(System::DramOnly), (1, 1.0));
        assert_eq!(shape(IDEAL), (6, 1.0));
        assert_eq!(shape(SWITCHING), (6, 10.0 / 10.2));
        assert_eq!(shape(System::OsSwap), (4, 0.5));
        assert_eq!(shape(System::FlashSync), (1, 1.0 / 6.0));
        assert_eq!(IDEAL.queue(16).servers, 96);
    }

    #[test]
    fn flash_sync_is_slow_even_when_idle() {
        let p99 = |arrivals| format!("{:.1}", System::FlashSync.queue(1).p99(arrivals));
        assert_eq!([p99(0.0), p99(0.1)], ["27.6", "69.1"]);
    }

    #[test]
    fn forty_times_the_service_leaves_a_gap_of_a_few_percent() {
        let within = |system: System| format!("{:.3}", system.queue(1).throughput_within(40.0));
        assert_eq!([System::DramOnly, IDEAL, SWITCHING].map(within), ["0.885", "0.856", "0.834"]);
        assert_eq!([IDEAL, SWITCHING].map(|system| percent(gap(system, 1, 40.0))), ["3.3", "5.7"]);
    }

    #[test]
    fn a_gap_of_a_fifth_appears_near_thirty_times() {
        let at = |system| format!("{:.1}", limit_for_gap(system, 0.2).expect("it is reached"));
        assert_eq!([at(IDEAL), at(SWITCHING)], ["29.2", "30.1"]);
        assert_eq!(limit_for_gap(System::OsSwap, 0.2), None);
    }

    #[test]
    fn the_gap_shrinks_as_servers_are_added() {
        let gaps = [1, 2, 4, 16].map(|cores| percent(gap(IDEAL, cores, 40.0)));
        assert_eq!(gaps, ["3.3", "1.8", "1.0", "0.3"]);
    }

    #[test]
    fn figure_ten_needs_a_capacity_near_ninety_seven_percent() {
        // AstriFlash at 93% load has the response time of DRAM-only at 96% (AstriFlash Fig. 10).
        let dram = System::DramOnly.queue(1).p99(0.96);
        let flash = |capacity: f64| Queue { servers: 6, rate: capacity / 6.0 }.p99(0.93);
        assert!(flash(0.965) > dram && flash(0.975) < dram);
    }
}
