//! [`Plan`]: one simulation, and the bases that plans can share.

use std::sync::LazyLock;

use ebbtide_core::Bytes;
use ebbtide_workloads::{Kind, Program, Scatter, Shape};

use crate::config::{Attachment, Config, DramCache, Mode, Mos, Os, PageTables};
use crate::designs::resolve;
use crate::machine::{SimError, WORK_UNITS};
use crate::offered::Offered;

/// The most jobs to measure on a machine of `cores` cores in DRAM. That throughput is the base of
/// loads.
pub(crate) fn jobs_in_dram_max(cores: u64) -> u64 {
    500 * cores.max(16)
}

/// One simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The machine.
    pub config: Config,
    /// The program.
    pub workload: Kind,
    /// Number of jobs to measure.
    pub jobs: u64,
    /// Seed of the layout, the job stream and the arrivals.
    pub seed: u64,
    /// The load. Its rate is a share of DRAM-only's throughput.
    pub arrivals: Offered,
}

impl Plan {
    /// The program to simulate.
    pub(crate) fn program(&self) -> Result<Program, SimError> {
        let shape = Shape {
            dataset_bytes: self.config.dataset.size.0,
            theta: self.config.workload.theta,
            scatter: Scatter::Pages,
            seed: self.seed,
            work_instructions: WORK_UNITS,
        };
        Ok(self.workload.build(&shape)?)
    }

    /// The plan with every parameter that does not affect the state after the untimed warm-up set
    /// to a fixed value. See [`warm_up_basis`].
    pub(crate) fn warm_up_basis(&self) -> Plan {
        let config = warm_up_basis(&self.config);
        Plan { config, jobs: 0, arrivals: Offered::Saturating, ..self.clone() }
    }

    /// The plan with every parameter that does not affect its calibration set to a fixed value.
    /// Plans with equal bases have the same calibration.
    pub(crate) fn calibration_basis(&self) -> Plan {
        let mut basis = self.warm_up_basis();
        let config = &mut basis.config;
        config.workload = self.config.workload.clone();
        // The plain LRU cache has `workload.lru_share` of the data.
        config.dram_cache = DRAM_ONLY.dram_cache.clone();
        (config.device, config.mos, config.promotion) = (None, None, None);
        config.write_log = None;
        (config.os.read_ahead, config.os.fault_around) = (Bytes(0), Bytes(0));
        config.os.read_ahead_misses = 0;
        // In DRAM all kinds of page tables take the same time.
        config.tlb.page_tables = PageTables::Flat;
        basis
    }

    /// The plan with every parameter that does not affect the count of misses under plain LRU set
    /// to a fixed value.
    pub(crate) fn count_basis(&self) -> Plan {
        let mut basis = self.calibration_basis();
        let workload = &mut basis.config.workload;
        (workload.miss_interval_us, workload.work_us) = (0.0, None);
        basis
    }
}

/// DRAM-only, whose values stand for those that do not matter.
static DRAM_ONLY: LazyLock<Config> =
    LazyLock::new(|| resolve("dram-only", &[]).expect("a shipped design resolves"));

/// `config` with every parameter that does not affect the state after the untimed warm-up set to
/// DRAM-only's value, or to zero. That state depends on the jobs, the caches on the chip, and the
/// placement of pages in DRAM. It does not identify the kind of memory, as several kinds can
/// restore the same state.
pub(crate) fn warm_up_basis(config: &Config) -> Config {
    let fixed = DRAM_ONLY.clone();
    let mut config = config.clone();
    config.design = fixed.design;
    config.parts = fixed.parts;
    config.switch = fixed.switch;
    let Os { read_ahead, read_ahead_misses, fault_around, .. } = config.os;
    config.os = Os { read_ahead, read_ahead_misses, fault_around, ..fixed.os };
    // Nothing is prefetched in a warm-up, and no command goes to flash.
    config.prefetch = None;
    if let Some(device) = &mut config.device {
        device.flash_commands = 0;
    }
    config.mos = config.mos.as_ref().map(|mos| Mos {
        page: mos.page,
        wanted_first: false,
        attachment: Attachment::Pcie,
        mode: Mode::Extend,
        lookup_ns: 0,
        lock_ns: 0,
        ssd_dram: Bytes(0),
        ssd_dram_gb_per_s: 0,
    });
    config.link = fixed.link;
    config.flash = fixed.flash;
    config.workload.miss_interval_us = fixed.workload.miss_interval_us;
    config.workload.work_us = None;
    config.dram_cache = DramCache {
        size: config.dram_cache.size,
        ways: config.dram_cache.ways,
        policy: config.dram_cache.policy,
        fill: config.dram_cache.fill,
        ..fixed.dram_cache
    };
    config
}
