//! The energy of a run: the counts of its operations, multiplied by the energies of an
//! [`EnergyTable`].
//!
//! Nothing is simulated here, so another table yields other energies of the same run. The papers do
//! not publish their values, and the shipped table has values from other sources. So the energy
//! claim of HAMS §I cannot be tested.

mod table;

use std::fmt;

use ebbtide_core::{LINE_BYTES, PAGE_BYTES};
use ebbtide_flash::Operations;
use ebbtide_sim::config::{Attachment, Config, ConfigError};
use ebbtide_sim::memory_side::TrafficCounters;
use ebbtide_sim::{FlashOutcome, Outcome, Replay};
use serde::Serialize;

pub use table::{EnergyTable, SHIPPED, TableError};

use ebbtide_report::figure;

/// Computes the energy of runs of one machine.
#[derive(Debug, Clone)]
pub struct Meter {
    table: EnergyTable,
    /// The flash's operations. `None` without flash.
    flash: Option<Operations>,
    /// The place of lines that no cache on the chip holds any more.
    home: Home,
    link_pj_per_byte: f64,
    host_dram_gib: f64,
    ssd_dram_gib: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Home {
    HostDram,
    Device,
}

/// The energy of a unit of work in microjoules, by component.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Energy {
    /// The unit of work: "job" or "access".
    pub per: &'static str,
    /// The total.
    pub total_uj: f64,
    /// Cores that execute.
    pub cores_busy_uj: f64,
    /// Cores that wait for a page or a job.
    pub cores_waiting_uj: f64,
    /// Lines and pages of host DRAM, with its bus.
    pub dram_uj: f64,
    /// Host DRAM's standby and refresh.
    pub dram_background_uj: f64,
    /// Data over the link.
    pub link_uj: f64,
    /// Data through the SSD's DRAM.
    pub ssd_dram_uj: f64,
    /// The SSD's DRAM and controller, independent of their work.
    pub ssd_background_uj: f64,
    /// Reading flash arrays, with the channels.
    pub flash_reads_uj: f64,
    /// Programming flash arrays, with the channels.
    pub flash_programs_uj: f64,
    /// Erasing blocks.
    pub flash_erases_uj: f64,
}

/// The counts of a run.
struct Activity<'a> {
    unit: &'static str,
    units: u64,
    seconds: f64,
    cores_busy_s: f64,
    cores_waiting_s: f64,
    lines_written_back: u64,
    traffic: &'a TrafficCounters,
    flash: &'a FlashOutcome,
}

const GIB: f64 = (1u64 << 30) as f64;

impl Meter {
    /// Returns a meter for the design of `config`, whose capacities draw power. For runs at a
    /// smaller scale, pass the full size. `None` if `table` is not for this design.
    ///
    /// # Errors
    /// [`ConfigError`] for an impossible flash device.
    pub fn new(
        table: &EnergyTable,
        config: &Config,
        has_flash: bool,
    ) -> Result<Option<Meter>, ConfigError> {
        if table.not_for.contains(&config.design) {
            return Ok(None);
        }
        let flash = has_flash.then(|| config.flash_device()).transpose()?;
        let cache = config.dram_cache.size.0;
        let promoted = config.promotion.as_ref().map(|promotion| promotion.size.0);
        let in_device = config.device.is_some();
        let host_bytes = match (has_flash, in_device) {
            (false, _) => config.dataset.size.0,
            (true, false) => cache,
            (true, true) => promoted.unwrap_or(0),
        };
        let ssd_dram_gib = match &config.mos {
            _ if !has_flash => 0.0,
            Some(mos) => mos.ssd_dram.0 as f64 / GIB,
            None if in_device => cache as f64 / GIB,
            None => table.ssd.dram_gib,
        };
        let log = config.write_log.as_ref().map_or(0, |log| log.size.0);
        let ssd_dram_gib = ssd_dram_gib + log as f64 / GIB;
        let on_dram_bus = config.mos.as_ref().is_some_and(|mos| mos.attachment == Attachment::Ddr);
        let lines_alone = in_device && promoted.is_none();
        let coherent = config.promotion.as_ref().is_some_and(|promotion| !promotion.posts_stores);
        Ok(Some(Meter {
            table: table.clone(),
            flash: flash.map(|flash| flash.operations()),
            home: if lines_alone { Home::Device } else { Home::HostDram },
            link_pj_per_byte: match (on_dram_bus, lines_alone || coherent) {
                (true, _) => 0.0,
                (false, true) => table.link.cxl_pj_per_byte,
                (false, false) => table.link.pcie_pj_per_byte,
            },
            host_dram_gib: host_bytes as f64 / GIB,
            ssd_dram_gib,
        }))
    }

    /// Returns the mean energy of a job of `outcome`, in microjoules.
    pub fn of_program(&self, outcome: &Outcome) -> Energy {
        let seconds = outcome.simulated_ns as f64 / 1e9;
        let cores_s = seconds * outcome.config.cores.count as f64;
        self.read(&Activity {
            unit: "job",
            units: outcome.jobs,
            seconds,
            cores_busy_s: cores_s * outcome.busy_share,
            cores_waiting_s: cores_s * (1.0 - outcome.busy_share),
            lines_written_back: outcome.lines_written_back,
            traffic: &outcome.memory.traffic,
            flash: &outcome.flash,
        })
    }

    /// Returns the mean energy of an access of `replay`, in microjoules. A replay has no cores.
    pub fn of_trace(&self, replay: &Replay) -> Energy {
        self.read(&Activity {
            unit: "access",
            units: replay.accesses,
            seconds: replay.simulated_ns as f64 / 1e9,
            cores_busy_s: 0.0,
            cores_waiting_s: 0.0,
            lines_written_back: 0,
            traffic: &replay.memory.traffic,
            flash: &replay.flash,
        })
    }

    fn read(&self, done: &Activity<'_>) -> Energy {
        let EnergyTable { core, dram, ssd, .. } = &self.table;
        let each = 1.0 / done.units.max(1) as f64;
        // A milliwatt is a thousand microjoules a second.
        let mw = |mw: f64, seconds: f64| mw * seconds * 1e3 * each;
        let nj = |count: u64, nj: f64| count as f64 * nj / 1e3 * each;
        let pj = |bytes: u64, pj: f64| bytes as f64 * pj / 1e6 * each;
        let (line, page) = (LINE_BYTES as u64, PAGE_BYTES as u64);
        let (home, away) = match self.home {
            Home::HostDram => (done.lines_written_back, 0),
            Home::Device => (0, done.lines_written_back),
        };
        let TrafficCounters { dram_lines, copied_bytes, .. } = *done.traffic;
        // A copy is a page read and a page written.
        let copies = copied_bytes / (2 * page);
        let with_copies = |pages, lines| (pages + copies, lines + copies * (page / line));
        let (pages_in, lines_in) =
            with_copies(done.traffic.dram_pages_in, done.traffic.dram_page_lines_in);
        let (pages_out, lines_out) =
            with_copies(done.traffic.dram_pages_out, done.traffic.dram_page_lines_out);
        let dram_bytes = (dram_lines + home + lines_in + lines_out) * line;
        // A row is opened once for all lines of a page. Each further line adds its burst.
        let of_pages = |pages, lines, line_nj, page_nj| {
            let burst_nj = (page_nj - line_nj) / (page / line - 1) as f64;
            nj(pages, line_nj) + nj(lines - pages, burst_nj)
        };
        let ssd_mw = if self.flash.is_some() { ssd.idle_mw } else { 0.0 };
        let [reads, programs, erases] = self.of_flash(done.flash);
        let mut energy = Energy {
            per: done.unit,
            total_uj: 0.0,
            cores_busy_uj: mw(core.busy_mw, done.cores_busy_s),
            cores_waiting_uj: mw(core.waiting_mw, done.cores_waiting_s),
            dram_uj: nj(dram_lines, dram.line_read_nj)
                + nj(home, dram.line_write_nj)
                + of_pages(pages_in, lines_in, dram.line_write_nj, dram.page_write_nj)
                + of_pages(pages_out, lines_out, dram.line_read_nj, dram.page_read_nj)
                + pj(dram_bytes, dram.bus_pj_per_byte),
            dram_background_uj: mw(
                (dram.standby_mw_per_gib + dram.refresh_mw_per_gib) * self.host_dram_gib,
                done.seconds,
            ),
            link_uj: pj(done.traffic.link_bytes + away * line, self.link_pj_per_byte),
            ssd_dram_uj: pj(done.traffic.device_dram_bytes + away * line, ssd.dram_pj_per_byte),
            ssd_background_uj: mw(ssd.dram_mw_per_gib * self.ssd_dram_gib + ssd_mw, done.seconds),
            flash_reads_uj: reads * each,
            flash_programs_uj: programs * each,
            flash_erases_uj: erases * each,
        };
        energy.total_uj = energy.parts().iter().map(|(_, uj)| uj).sum();
        energy
    }

    /// The energy of all reads, programs and erasures, in microjoules.
    fn of_flash(&self, done: &FlashOutcome) -> [f64; 3] {
        let Some(takes) = &self.flash else { return [0.0; 3] };
        let flash = &self.table.flash;
        let array = |count: f64, us: f64| count * us * flash.array_mw / 1e3;
        let channel =
            |pages: u64| pages as f64 * PAGE_BYTES as f64 * flash.channel_pj_per_byte / 1e6;
        let programs = done.pages_programmed as f64 / f64::from(takes.pages_per_program);
        [
            array(done.array_reads as f64, takes.read_us) + channel(done.array_reads),
            array(programs, takes.program_us) + channel(done.pages_programmed),
            array(done.erases as f64, takes.erase_us),
        ]
    }
}

impl Energy {
    /// Returns every part of the total with its name, in microjoules.
    pub fn parts(&self) -> [(&'static str, f64); 10] {
        [
            ("cores at work", self.cores_busy_uj),
            ("cores waiting", self.cores_waiting_uj),
            ("DRAM", self.dram_uj),
            ("DRAM background", self.dram_background_uj),
            ("link", self.link_uj),
            ("SSD DRAM", self.ssd_dram_uj),
            ("SSD background", self.ssd_background_uj),
            ("flash reads", self.flash_reads_uj),
            ("flash programs", self.flash_programs_uj),
            ("flash erasures", self.flash_erases_uj),
        ]
    }
}

/// The total, then every nonzero part, the largest first.
impl fmt::Display for Energy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let article = if self.per == "access" { "an" } else { "a" };
        write!(f, "{} uJ {article} {}", figure(self.total_uj), self.per)?;
        let mut parts = self.parts().to_vec();
        parts.retain(|(_, uj)| *uj > 0.0);
        parts.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (number, (name, uj)) in parts.into_iter().enumerate() {
            let sign = if number == 0 { ": " } else { ", " };
            write!(f, "{sign}{name} {}", figure(uj))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ebbtide_sim::designs::resolve;

    /// A table with `number` for every value.
    fn all(number: f64) -> EnergyTable {
        let lines = SHIPPED.lines().map(|line| match line.split_once(" = ") {
            Some(("not_for", _)) => "not_for = [\"optane-p\"]".to_string(),
            Some((key, _)) => format!("{key} = {number}"),
            None => line.to_string(),
        });
        toml::from_str(&lines.collect::<Vec<_>>().join("\n")).expect("a table")
    }

    fn meter(table: &EnergyTable, design: &str, has_flash: bool) -> Meter {
        let config = resolve(design, &[]).expect("a shipped design");
        Meter::new(table, &config, has_flash)
            .expect("flash as shipped")
            .expect("it is for this one")
    }

    fn read(meter: &Meter, traffic: TrafficCounters, flash: FlashOutcome) -> Energy {
        meter.read(&Activity {
            unit: "job",
            units: 2,
            seconds: 1e-6,
            cores_busy_s: 3e-6,
            cores_waiting_s: 1e-6,
            lines_written_back: 0,
            traffic: &traffic,
            flash: &flash,
        })
    }

    #[test]
    fn each_operation_takes_what_the_table_says() {
        let meter = meter(&all(2.0), "lhams-e", true);
        let traffic = TrafficCounters {
            dram_lines: 10,
            dram_pages_in: 3,
            dram_page_lines_in: 3 * 64,
            dram_pages_out: 1,
            dram_page_lines_out: 64,
            copied_bytes: 2 * 4096,
            link_bytes: 1_000_000,
            device_dram_bytes: 2_000_000,
        };
        let flash = FlashOutcome { array_reads: 4, pages_programmed: 1, ..FlashOutcome::default() };
        let energy = read(&meter, traffic, flash);
        let near = |uj: f64, by_hand: f64| {
            assert!((uj - by_hand).abs() < 1e-9 * by_hand.max(1e-9), "{uj} is not {by_hand}");
        };
        // Two jobs: each takes half of everything.
        near(energy.cores_busy_uj, 2.0 * 3e-6 * 1e3 / 2.0);
        near(energy.cores_waiting_uj, 2.0 * 1e-6 * 1e3 / 2.0);
        let bytes = 10.0 * 64.0 + 6.0 * 4096.0;
        near(energy.dram_uj, ((10.0 + 4.0 + 2.0) * 2e-3 + bytes * 2e-6) / 2.0);
        near(energy.dram_background_uj, (2.0 + 2.0) * 8.0 * 1e-6 * 1e3 / 2.0);
        near(energy.link_uj, 2.0 / 2.0);
        near(energy.ssd_dram_uj, 4.0 / 2.0);
        near(energy.ssd_background_uj, (2.0 * 1.5 + 2.0) * 1e-6 * 1e3 / 2.0);
        // 3 us a read and 100 us a program.
        let channel = 4096.0 * 2e-6;
        near(energy.flash_reads_uj, 4.0 * (3.0 * 2e-3 + channel) / 2.0);
        near(energy.flash_programs_uj, (100.0 * 2e-3 + channel) / 2.0);
        near(energy.flash_erases_uj, 0.0);
        near(energy.total_uj, energy.parts().iter().map(|(_, uj)| uj).sum());
    }

    #[test]
    fn a_page_in_part_takes_less_than_a_whole_one_by_its_lines() {
        let table = EnergyTable::shipped();
        let meter = meter(&table, "astriflash", true);
        let written = |dram_page_lines_in| {
            let traffic = TrafficCounters {
                dram_pages_in: 1,
                dram_page_lines_in,
                ..TrafficCounters::default()
            };
            2.0 * read(&meter, traffic, FlashOutcome::default()).dram_uj
        };
        let bus = |lines: f64| lines * 64.0 * table.dram.bus_pj_per_byte / 1e6;
        let near = |uj: f64, by_hand: f64| assert!((uj - by_hand).abs() < 1e-9, "{uj} {by_hand}");
        near(written(1), table.dram.line_write_nj / 1e3 + bus(1.0));
        near(written(64), table.dram.page_write_nj / 1e3 + bus(64.0));
        near(written(22), (written(1) * 2.0 + written(64)) / 3.0);
    }

    #[test]
    fn lines_written_back_go_where_the_data_live() {
        let written = |design, has_flash| {
            let mut done = Activity {
                unit: "job",
                units: 1,
                seconds: 0.0,
                cores_busy_s: 0.0,
                cores_waiting_s: 0.0,
                lines_written_back: 1,
                traffic: &TrafficCounters::default(),
                flash: &FlashOutcome::default(),
            };
            let meter = meter(&all(2.0), design, has_flash);
            let one = meter.read(&done);
            done.lines_written_back = 0;
            assert_eq!(meter.read(&done).total_uj, 0.0);
            (one.dram_uj > 0.0, one.ssd_dram_uj > 0.0, one.link_uj > 0.0)
        };
        assert_eq!(written("astriflash", true), (true, false, false));
        assert_eq!(written("cxl-flash", true), (false, true, true));
        assert_eq!(written("dram-only", false), (true, false, false));
    }

    #[test]
    fn advanced_hams_has_neither_link_nor_ssd_dram() {
        let moved = TrafficCounters { link_bytes: 4096, ..TrafficCounters::default() };
        let energy = read(&meter(&all(2.0), "thams-e", true), moved, FlashOutcome::default());
        assert_eq!((energy.link_uj, energy.ssd_dram_uj), (0.0, 0.0));
        let loose = read(&meter(&all(2.0), "lhams-e", true), moved, FlashOutcome::default());
        assert!(loose.link_uj > 0.0 && loose.ssd_background_uj > energy.ssd_background_uj);
    }

    #[test]
    fn designs_that_the_table_does_not_describe_have_no_energy() {
        let config = resolve("optane-p", &[]).expect("a shipped design");
        assert!(Meter::new(&EnergyTable::shipped(), &config, false).expect("no flash").is_none());
    }

    #[test]
    fn energy_is_told_with_its_parts_by_size() {
        let energy = read(
            &meter(&all(2.0), "dram-only", false),
            TrafficCounters::default(),
            FlashOutcome::default(),
        );
        let text = energy.to_string();
        assert!(text.contains(" uJ a job: DRAM background "), "{text}");
        assert!(text.contains("cores at work") && !text.contains("flash"), "{text}");
    }
}
