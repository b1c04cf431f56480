//! [`Machines`]: each design with the common parameters.

use ebbtide_core::{Bytes, LINE_BYTES, PAGE_BYTES, WriteLog};
use ebbtide_sim::config::{Config, ConfigError, DramCache};
use ebbtide_sim::designs;
use ebbtide_sim::designs::resolve;
use serde_json::Value;

use super::price::Price;
use super::{BASELINE, CompareError, CompareOptions, LeftOut, REFERENCE};
use crate::energy::Meter;
use ebbtide_report::each_leaf;

/// Sections and keys of [`REFERENCE`] that all designs get. They also get its amount of DRAM.
const IN_COMMON: [&str; 7] =
    ["cores", "l1", "llc", "noc", "dataset", "workload.miss_interval_us", "workload.theta"];

/// The key of a design's DRAM. With promotion, it is the key of its device's cache.
const DRAM: &str = "dram_cache.size";

/// The smallest log of written lines.
const LOG_MIN: Bytes = Bytes(WriteLog::LINES_MIN * LINE_BYTES as u64);

/// A design on the common machine.
pub(super) struct Machine {
    pub(super) design: String,
    /// Its parameters in the run.
    pub(super) config: Config,
    /// The price of its full memory.
    pub(super) price: Price,
    /// Its meter of energy, if the table covers it.
    pub(super) meter: Option<Meter>,
}

/// The baseline and every design asked for, and those that cannot be built.
pub(super) struct Machines {
    pub(super) baseline: Machine,
    pub(super) others: Vec<Machine>,
    pub(super) left_out: Vec<LeftOut>,
}

type Setting = (String, String);

impl Machines {
    pub(super) fn of(options: &CompareOptions) -> Result<Machines, CompareError> {
        let mut names = Vec::new();
        for name in &options.designs {
            let is_file = name.ends_with(".toml") || name.contains('/');
            names.push(if is_file { name.clone() } else { designs::find(name)?.name.to_string() });
        }
        if names.is_empty() {
            names.extend(designs::ALL.iter().map(|design| design.name.to_string()));
        }
        let all = designs::ALL.iter().map(|design| resolve(design.name, &[]));
        let all = all.collect::<Result<Vec<Config>, _>>()?;
        for setting in &options.set {
            if !all.iter().any(|config| has(config, setting)) {
                resolve(REFERENCE, &[(&setting.0, &setting.1)])?;
            }
        }
        let reference = resolve_with(REFERENCE, &resolve(REFERENCE, &[])?, &options.set)?;
        let machine = |design: &str| machine(design, &reference, options);
        let baseline = machine(BASELINE)?;
        let (mut others, mut left_out) = (Vec::<Machine>::new(), Vec::new());
        for name in names.iter().filter(|name| *name != BASELINE) {
            match machine(name) {
                _ if others.iter().any(|other| other.design == *name) => {}
                Ok(machine) => others.push(machine),
                Err(error) => {
                    let (design, reason) = (name.to_string(), error.to_string());
                    left_out.push(LeftOut { design, reason });
                }
            }
        }
        match left_out.first() {
            Some(LeftOut { design, reason }) if others.is_empty() => {
                let (design, reason) = (design.clone(), reason.clone());
                Err(CompareError::NoneFits { design, reason })
            }
            _ => Ok(Machines { baseline, others, left_out }),
        }
    }
}

fn machine(
    design: &str,
    reference: &Config,
    options: &CompareOptions,
) -> Result<Machine, ConfigError> {
    let CompareOptions { set, energy: table, market, .. } = options;
    let own = resolve(design, &[])?;
    let dram = reference.dram_cache.size.to_string();
    // The cache of a device and its log keep their share of the data.
    let share = |part: Bytes| {
        let bytes = u128::from(part.0) * u128::from(reference.dataset.size.0);
        Bytes((bytes / u128::from(own.dataset.size.0)) as u64)
    };
    let mut of_dram = match &own.promotion {
        None => vec![(DRAM.to_string(), dram)],
        Some(_) => {
            let cache = share(own.dram_cache.size).to_string();
            vec![("promotion.size".to_string(), dram), (DRAM.to_string(), cache)]
        }
    };
    let log = own.write_log.iter().map(|log| share(log.size).max(LOG_MIN).to_string());
    of_dram.extend(log.map(|size| ("write_log.size".to_string(), size)));
    let set = set.iter().filter(|(key, _)| key != DRAM).cloned();
    let settings: Vec<Setting> = set.chain(common(reference)).chain(of_dram).collect();
    let whole = resolve_with(design, &own, &settings)?;
    let mut config = options.scale().of(whole.clone());
    if own.promotion.is_some() {
        config.dram_cache.size = in_whole_sets(&config.dram_cache);
    }
    if let Some(log) = &mut config.write_log {
        log.size = log.size.max(LOG_MIN);
    }
    config.check()?;
    let has_flash = designs::has_flash(&config)?;
    Ok(Machine {
        design: design.to_string(),
        config,
        price: Price::of(&whole, has_flash, market.prices),
        meter: Meter::new(table, &whole, has_flash)?,
    })
}

/// The size of a device's cache. It is as near to its share of the data as its ways and a power of
/// two of sets permit. A trace has data of any size, and so has the share.
fn in_whole_sets(cache: &DramCache) -> Bytes {
    let page_bytes = PAGE_BYTES as u64;
    let ways = cache.ways.max(1) as u64;
    let wanted = cache.size.0 as f64 / (ways * page_bytes) as f64;
    let sets = wanted.max(1.0).log2().round().exp2() as u64;
    match cache.ways {
        // Fully associative: any number of pages.
        0 => Bytes((cache.size.0 / page_bytes).max(1) * page_bytes),
        _ => Bytes(sets * ways * page_bytes),
    }
}

/// The design `given`, whose parameters are `own`, with those `settings` that it has.
fn resolve_with(given: &str, own: &Config, settings: &[Setting]) -> Result<Config, ConfigError> {
    let taken = settings.iter().filter(|setting| has(own, setting));
    let taken: Vec<(&str, &str)> =
        taken.map(|(key, value)| (key.as_str(), value.as_str())).collect();
    resolve(given, &taken)
}

/// Whether a design has the key's section. Any design can take its parts from another.
fn has(own: &Config, (key, _): &Setting) -> bool {
    let section = key.split('.').next().unwrap_or(key);
    section == "parts" || as_json(own).get(section).is_some()
}

fn common(reference: &Config) -> Vec<Setting> {
    let mut common = Vec::new();
    each_leaf(&as_json(reference), "", &mut |key, value| {
        let within = |part: &&str| {
            key.strip_prefix(*part).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if IN_COMMON.iter().any(within) {
            common.push((key.to_string(), value.to_string()));
        }
    });
    common
}

fn as_json(config: &Config) -> Value {
    serde_json::to_value(config).expect("parameters are plain data")
}

#[cfg(test)]
mod tests {
    use ebbtide_sim::config::Scale;
    use ebbtide_workloads::Kind;

    use super::super::Work;
    use super::*;
    use crate::energy::EnergyTable;
    use crate::market::Market;

    fn machines(set: &[(&str, &str)]) -> Result<Machines, CompareError> {
        at_scale(set, None)
    }

    fn at_scale(set: &[(&str, &str)], scale: Option<Scale>) -> Result<Machines, CompareError> {
        let set = set.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let work = Work::Program { workload: Kind::HashTable, jobs: 1, seed: 1 };
        let energy = EnergyTable::shipped();
        Machines::of(&CompareOptions {
            designs: Vec::new(),
            work,
            set,
            scale,
            threads: 1,
            energy,
            market: Market::default(),
        })
    }

    #[test]
    fn all_designs_have_the_same_cores_data_and_dram() {
        let Machines { baseline, others, left_out } = machines(&[]).unwrap();
        assert_eq!(left_out, []);
        assert_eq!(others.len() + 1, designs::ALL.len());
        for machine in &others {
            let (config, name) = (&machine.config, &machine.design);
            assert_eq!(config.cores, baseline.config.cores, "{name}");
            assert_eq!(config.dataset, baseline.config.dataset, "{name}");
            assert_eq!(config.dataset.size.0, 4 << 30, "{name}");
            let dram = config.promotion.as_ref().map_or(config.dram_cache.size, |p| p.size);
            assert_eq!(dram.0, 128 << 20, "{name}");
        }
    }

    #[test]
    fn caches_of_devices_have_whole_sets_whatever_the_data() {
        for set in [
            &[("dataset.size", "4MiB"), ("dram_cache.size", "128KiB")][..],
            &[("dataset.size", "192MiB"), ("dram_cache.size", "6MiB")],
        ] {
            let set: Vec<_> = set.iter().map(|(key, value)| (*key, *value)).collect();
            let Machines { others, left_out, .. } = at_scale(&set, Some(Scale::WHOLE)).unwrap();
            let left_out: Vec<_> = left_out.iter().map(|left| &left.design).collect();
            assert!(!left_out.iter().any(|design| design.contains("flatflash")), "{left_out:?}");
            let flatflash = others.iter().find(|machine| machine.design == "flatflash").unwrap();
            let pages = flatflash.config.dram_cache.size.0 / 4096;
            assert!(pages % 20 == 0 && (pages / 20).is_power_of_two(), "{pages}");
        }
    }

    #[test]
    fn a_parameter_is_set_for_the_designs_that_have_it() {
        let set = [("promotion.reset", "windowed"), ("dram_cache.size", "4GiB")];
        let Machines { baseline, others, .. } = machines(&set).unwrap();
        assert_eq!(baseline.config.dram_cache.size.0, 64 << 20);
        let promoting = others.iter().filter_map(|machine| machine.config.promotion.as_ref());
        let promoting: Vec<_> = promoting.map(|p| (p.reset.name(), p.size.0)).collect();
        assert!(!promoting.is_empty() && promoting.iter().all(|p| *p == ("windowed", 64 << 20)));
        let error = machines(&[("promotoin.reset", "strict")]).err().unwrap().to_string();
        assert!(error.contains("did you mean 'promotion'?"), "{error}");
    }
}
