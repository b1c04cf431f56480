//! [`AgainstReport`]: what a comparison found.

use std::fmt;

use ebbtide_core::{Bytes, counted};
use ebbtide_report::{BarChart, Page, PageReport, Range, Table};
use serde::Serialize;

use super::{Mix, QUEUE_DEPTH, Window};
use crate::bench::Spread;
use crate::load::Kind;
use crate::load::report::{ResponseTimes, loop_kind};

/// The part of the ideal ratio that is accepted.
const ACCEPTED_SHARE: f64 = 0.9;

/// The share of the disk's reads above which it counts as the limit.
const DISK_BOUND: f64 = 0.8;

/// Results of a comparison.
#[derive(Debug, Clone, Serialize)]
pub struct AgainstReport {
    /// The machine, in a line.
    pub machine: String,
    /// The version of Redis.
    pub redis_version: String,
    /// The type of the values.
    pub kind: Kind,
    /// Number of keys, or of elements of collections.
    pub keys: usize,
    /// The least and the most bytes of a value.
    pub value_bytes: (usize, usize),
    /// Bytes of all keys and values.
    pub data_bytes: u64,
    /// DRAM of Ebbtide's server in bytes.
    pub dram_bytes: u64,
    /// Bytes of flash that keys, values and the index took once all keys were written.
    pub flash_bytes: u64,
    /// The durability of Ebbtide's server.
    pub durability: String,
    /// Zipf skew of the keys; 0 is uniform.
    pub zipf: f64,
    /// Number of connections.
    pub clients: usize,
    /// Commands per second that arrived at random times. `None` if each connection sent its next
    /// command after a reply.
    pub rate: Option<f64>,
    /// Reads per second of the disk of Ebbtide's store at queue depth 128, if they were measured.
    pub disk_reads_per_s: Option<f64>,
    /// Number of rounds.
    pub rounds: usize,
    /// Length of a measurement in seconds.
    pub seconds: f64,
    /// Seconds to write all keys to Redis.
    pub redis_fill_seconds: f64,
    /// Seconds to write all keys to Ebbtide.
    pub ebbtide_fill_seconds: f64,
    /// Resident memory of Redis at the end, in bytes.
    pub redis_resident_bytes: u64,
    /// Resident memory of Ebbtide's server at the end, in bytes.
    pub ebbtide_resident_bytes: u64,
    /// True if the load ran on the CPU of the servers.
    pub cpus_shared: bool,
    /// Description of disturbances by other programs or the host, if there were any.
    pub disturbed: Option<String>,
    /// The first error reply.
    pub first_error: Option<String>,
    /// The first wrong reply.
    pub first_wrong: Option<String>,
    /// The mixes.
    pub mixes: Vec<MixReport>,
}

/// A mix on both servers.
#[derive(Debug, Clone, Serialize)]
pub struct MixReport {
    /// Name of the mix.
    pub mix: String,
    /// Redis.
    pub redis: SideReport,
    /// Ebbtide.
    pub ebbtide: SideReport,
    /// Ebbtide's throughput over Redis's, by round.
    pub ratio: Spread,
    /// What reads of flash allow. `None` at a rate, and for a mix that hardly read or has no mix of
    /// the same commands without reads.
    pub bound: Option<Bound>,
}

/// A mix on one server, over the rounds.
#[derive(Debug, Clone, Serialize)]
pub struct SideReport {
    /// Commands per second.
    pub throughput: Spread,
    /// The median response in microseconds.
    pub p50_us: Spread,
    /// The 99th percentile of the responses in microseconds.
    pub p99_us: Spread,
    /// The longest response in microseconds.
    pub max_us: Spread,
    /// A probe's reads of the disk during the mix. `None` without a rate.
    pub probe: Option<ProbeSpread>,
    /// CPU time per command in microseconds, the kernel's own threads included.
    pub cpu_us: Spread,
    /// Share of the time that the server used its CPU, from 0 to 1.
    pub busy: Spread,
    /// Pages read from flash per command.
    pub reads: Spread,
}

/// Reads of the disk during a mix, in microseconds, over the rounds.
#[derive(Debug, Clone, Serialize)]
pub struct ProbeSpread {
    /// The 99th percentile.
    pub p99_us: Spread,
    /// The longest.
    pub max_us: Spread,
}

impl SideReport {
    fn of(windows: &[Window]) -> SideReport {
        let of = |figure: &dyn Fn(&Window) -> f64| Spread::of(windows.iter().map(figure));
        let probes: Option<Vec<ResponseTimes>> =
            windows.iter().map(|window| window.probe).collect();
        let probe = probes.map(|probes| ProbeSpread {
            p99_us: Spread::of(probes.iter().map(|probe| probe.p99_us)),
            max_us: Spread::of(probes.iter().map(|probe| probe.max_us)),
        });
        SideReport {
            throughput: of(&|window| window.throughput),
            p50_us: of(&|window| window.response.p50_us),
            p99_us: of(&|window| window.response.p99_us),
            max_us: of(&|window| window.response.max_us),
            probe,
            cpu_us: of(&|window| window.cpu_us),
            busy: of(&|window| window.busy),
            reads: of(&|window| window.reads),
        }
    }
}

impl MixReport {
    /// Reports all mixes. `windows` has for each the windows of Redis and of Ebbtide, in the order
    /// of the rounds. In an open loop there are no bounds.
    pub(super) fn all(
        mixes: &[Mix],
        windows: &[[Vec<Window>; 2]],
        closed_loop: bool,
    ) -> Vec<MixReport> {
        let mut reports: Vec<MixReport> =
            mixes.iter().zip(windows).map(|(mix, both)| MixReport::of(mix, both)).collect();
        for (number, mix) in mixes.iter().enumerate().filter(|_| closed_loop) {
            let same = |other: &Mix| {
                other.cached && (other.writes, other.pipeline) == (mix.writes, mix.pipeline)
            };
            let cached = mixes.iter().position(same).filter(|_| !mix.cached);
            let cached_us = cached.map(|cached| reports[cached].ebbtide.cpu_us.median);
            reports[number].bound = cached_us.and_then(|us| Bound::of(&reports[number], us));
        }
        reports
    }

    fn of(mix: &Mix, windows: &[Vec<Window>; 2]) -> MixReport {
        let pairs = windows[0].iter().zip(&windows[1]);
        let ratios = pairs.map(|(redis, ebbtide)| ebbtide.throughput / redis.throughput.max(1e-9));
        MixReport {
            mix: mix.name.clone(),
            redis: SideReport::of(&windows[0]),
            ebbtide: SideReport::of(&windows[1]),
            ratio: Spread::of(ratios),
            bound: None,
        }
    }
}

/// The reason for an expected ratio below 1: each read of flash costs CPU that Redis does not
/// spend.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bound {
    /// Pages read from flash per command (r).
    pub reads: f64,
    /// CPU time of a read in microseconds (c).
    pub read_us: f64,
    /// CPU time of a command of Redis in microseconds (m).
    pub redis_us: f64,
    /// The least ratio that is accepted: 0.9 / (1 + r c / m).
    pub least_ratio: f64,
}

impl Bound {
    /// Returns the bound of a mix, given the cost of a command without reads. `None` if it hardly
    /// read.
    fn of(mix: &MixReport, cached_us: f64) -> Option<Bound> {
        let (reads, redis_us) = (mix.ebbtide.reads.median, mix.redis.cpu_us.median);
        if reads < 0.01 || redis_us <= 0.0 {
            return None;
        }
        let read_us = ((mix.ebbtide.cpu_us.median - cached_us) / reads).max(0.0);
        let least_ratio = ACCEPTED_SHARE / (1.0 + reads * read_us / redis_us);
        Some(Bound { reads, read_us, redis_us, least_ratio })
    }
}

impl AgainstReport {
    /// Returns true if no reply was wrong or an error.
    pub fn is_right(&self) -> bool {
        self.first_error.is_none() && self.first_wrong.is_none()
    }

    /// Returns the table of the comparison: response times if commands arrived at a rate, else
    /// throughput.
    fn table(&self) -> Table {
        match self.rate {
            None => self.throughput_table(),
            Some(_) => self.response_table(),
        }
    }

    fn throughput_table(&self) -> Table {
        let header = [
            "mix",
            "Redis/s",
            "Ebbtide/s",
            "ratio",
            "p99 us, Redis",
            "Ebbtide",
            "CPU us, Redis",
            "Ebbtide",
            "busy %, Redis",
            "Ebbtide",
            "reads",
        ];
        let mut table = Table::new("Commands a second, and what a command costs", header);
        for MixReport { mix, redis, ebbtide, ratio, .. } in &self.mixes {
            let rate = |side: &SideReport| {
                let Spread { median, min, max } = side.throughput;
                format!("{:.1}k ({:.1}–{:.1})", median / 1e3, min / 1e3, max / 1e3)
            };
            let ratio = format!("{:.2} ({:.2}–{:.2})", ratio.median, ratio.min, ratio.max);
            let cells = [mix.to_string(), rate(redis), rate(ebbtide), ratio];
            let both = |figure: &dyn Fn(&SideReport) -> f64| [figure(redis), figure(ebbtide)];
            let numbers = both(&|side| side.p99_us.median)
                .into_iter()
                .chain(both(&|side| side.cpu_us.median))
                .chain(both(&|side| side.busy.median * 100.0))
                .chain([ebbtide.reads.median]);
            table = table.numbers(cells, numbers);
        }
        table
    }

    /// Returns the table of response times in an open loop, with the reads of the disk.
    fn response_table(&self) -> Table {
        let header = [
            "mix",
            "p50 us, Redis",
            "Ebbtide",
            "p99 us, Redis",
            "Ebbtide",
            "disk",
            "Ebbtide to disk",
            "max us, Redis",
            "Ebbtide",
            "disk",
            "reads",
        ];
        let mut table = Table::new("Response times, from the intended arrival", header);
        let times = |Spread { median, min, max }| format!("{median:.0} ({min:.0}–{max:.0})");
        for MixReport { mix, redis, ebbtide, .. } in &self.mixes {
            let disk = |figure: fn(&ProbeSpread) -> Spread| {
                ebbtide.probe.as_ref().map_or("–".to_string(), |probe| times(figure(probe)))
            };
            let ratio = ebbtide
                .probe
                .as_ref()
                .map_or(f64::NAN, |probe| ebbtide.p99_us.median / probe.p99_us.median);
            table = table.row([
                mix.to_string(),
                times(redis.p50_us),
                times(ebbtide.p50_us),
                times(redis.p99_us),
                times(ebbtide.p99_us),
                disk(|probe| probe.p99_us),
                format!("{ratio:.2}"),
                times(redis.max_us),
                times(ebbtide.max_us),
                disk(|probe| probe.max_us),
                format!("{:.2}", ebbtide.reads.median),
            ]);
        }
        table
    }

    /// Returns notes on the sources of the figures and how to read them.
    fn notes(&self) -> Vec<String> {
        let (least, most) = self.value_bytes;
        let sends = loop_kind(self.rate);
        let mut notes = vec![format!(
            "{} {} with values of {least} to {most} bytes, {} in all; Ebbtide has {} of DRAM ({} \
             resident), Redis {} has all of it in DRAM ({} resident); Zipf {}, {}, {sends}, \
             --durability {}; {} of {} s",
            self.keys,
            self.kind.plural(),
            ebbtide_report::bytes(self.data_bytes as f64),
            Bytes(self.dram_bytes),
            ebbtide_report::bytes(self.ebbtide_resident_bytes as f64),
            self.redis_version,
            ebbtide_report::bytes(self.redis_resident_bytes as f64),
            self.zipf,
            counted(self.clients, "client"),
            self.durability,
            counted(self.rounds, "round"),
            self.seconds,
        )];
        notes.push(format!(
            "all keys were written in {:.0} s by Redis and in {:.0} s by Ebbtide, where they take {:.2} bytes of \
             flash a byte of keys and values",
            self.redis_fill_seconds,
            self.ebbtide_fill_seconds,
            self.flash_bytes as f64 / self.data_bytes as f64,
        ));
        for MixReport { mix, bound, .. } in &self.mixes {
            let Some(Bound { reads, read_us, redis_us, least_ratio }) = bound else { continue };
            notes.push(format!(
                "{mix}: {reads:.2} flash reads a command (r), {read_us:.1} us of CPU a read (c), {redis_us:.1} us \
                 of CPU a command of Redis (m): a ratio of 0.9 / (1 + r c / m) = {least_ratio:.2} is accepted"
            ));
        }
        for MixReport { mix, redis, ebbtide, .. } in &self.mixes {
            for (name, side) in [("Redis", redis), ("Ebbtide", ebbtide)] {
                if self.rate.is_none() && side.busy.median < 0.9 {
                    let busy = side.busy.median * 100.0;
                    notes.push(format!(
                        "{mix}: {name} used {busy:.0}% of its CPU, so something else limits it"
                    ));
                }
            }
        }
        for MixReport { mix, ebbtide, .. } in &self.mixes {
            let reads = ebbtide.reads.median * ebbtide.throughput.median;
            if let Some(most) = self.disk_reads_per_s.filter(|most| reads > DISK_BOUND * most) {
                let (reads, most) = (reads / 1e3, most / 1e3);
                notes.push(format!(
                    "{mix}: the disk limits Ebbtide, {reads:.0}k reads/s of the {most:.0}k that it gives with {QUEUE_DEPTH} \
                     in flight"
                ));
            }
        }
        if self.cpus_shared {
            notes.push("there is one CPU: the load takes its part from both servers".to_string());
        }
        if let Some(reason) = &self.disturbed {
            notes.push(format!("doubtful: {reason}"));
        }
        for (what, first) in [("error", &self.first_error), ("wrong reply", &self.first_wrong)] {
            notes.extend(first.as_ref().map(|first| format!("first {what}: {first}")));
        }
        notes
    }
}

impl fmt::Display for AgainstReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.machine)?;
        write!(f, "{}", self.table())?;
        self.notes().iter().try_for_each(|note| writeln!(f, "{note}"))
    }
}

impl PageReport for AgainstReport {
    fn page(&self) -> Page {
        let range = |Spread { median, min, max }| Range { min, median, max };
        let (name, mut chart) = match self.rate {
            None => (
                "Throughput",
                BarChart::new("Throughput", "commands a second, relative to Redis")
                    .reference(1.0, "Redis, all data in DRAM"),
            ),
            Some(_) => ("Response times", BarChart::new("99% of responses are at most", "us")),
        };
        for MixReport { mix, redis, ebbtide, ratio, .. } in &self.mixes {
            let bars = match &ebbtide.probe {
                None => vec![("Ebbtide", range(*ratio))],
                Some(probe) => vec![
                    ("Redis", range(redis.p99_us)),
                    ("Ebbtide", range(ebbtide.p99_us)),
                    ("disk", range(probe.p99_us)),
                ],
            };
            chart = chart.group(mix, bars);
        }
        let page = Page::new("Ebbtide and Redis").paragraph(&self.machine);
        let page = page.section(name).bars(chart).table(self.table());
        self.notes().iter().fold(page, |page, note| page.paragraph(note))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_follows_from_reads_their_cost_and_the_cost_of_a_command() {
        let side = |cpu_us: f64, reads: f64| {
            let one = Spread::of([1.0]);
            SideReport {
                throughput: one,
                p50_us: one,
                p99_us: one,
                max_us: one,
                probe: None,
                cpu_us: Spread::of([cpu_us]),
                busy: one,
                reads: Spread::of([reads]),
            }
        };
        let mix = |reads| MixReport {
            mix: "GET".to_string(),
            redis: side(10.0, 0.0),
            ebbtide: side(16.0, reads),
            ratio: Spread::of([0.5]),
            bound: None,
        };
        // A command costs 12 without reads: half a read costs 4, so a read costs 8.
        let bound = Bound::of(&mix(0.5), 12.0).expect("it reads");
        assert!((bound.read_us - 8.0).abs() < 1e-9, "{bound:?}");
        assert!((bound.least_ratio - 0.9 / 1.4).abs() < 1e-9, "{bound:?}");
        assert_eq!(Bound::of(&mix(0.0), 12.0), None);
    }
}
