//! Numbers that make no sense end a run with an error of one line, or the run ends with a result.

use std::collections::BTreeMap;

use ebbtide_core::{Addr, Bytes, Time};
use ebbtide_sim::designs::resolve;
use ebbtide_sim::{Offered, Plan, ReplayError, SimError, replay, replay_by_thread, simulate};
use ebbtide_trace::{Access, Op, Source, TraceError};
use ebbtide_workloads::Kind;
use toml::{Table, Value};

/// Designs that have all keys together.
const DESIGNS: [&str; 7] = [
    "astriflash",
    "cxl-flash",
    "flatflash",
    "lhams-e",
    "os-swap",
    "skybyte-full",
    "unified-mmap-linux",
];

/// Numbers for any key. Each is beyond what some types or some arithmetic can hold.
const NUMBERS: [&str; 7] = ["1e308", "1e-300", "nan", "inf", "-1", "0", "9223372036854775807"];

/// Keys and values that make `design` small.
fn small(design: &str) -> Vec<(String, String)> {
    let own = resolve(design, &[]).expect("a design");
    let dram = if own.promotion.is_some() { "640KiB" } else { "4MiB" };
    let mut keys = vec![
        ("cores.count", "2"),
        ("llc.size", "256KiB"),
        ("dataset.size", "64MiB"),
        ("switch.threads", "4"),
        ("os.threads", "4"),
        ("dram_cache.size", dram),
        ("workload.lru_share", "0.05"),
        ("switch.ripe_after_us", "50"),
    ];
    if own.promotion.is_some() {
        keys.push(("promotion.size", "2MiB"));
    }
    if own.device.is_some() {
        keys.push(("device.switch_after_ns", "2000"));
    }
    keys.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// The numeric keys of `design`, with those of its flash device.
fn numeric_keys(design: &str) -> Vec<String> {
    let set = small(design);
    let set: Vec<(&str, &str)> = set.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    let config = resolve(design, &set).expect("a machine that can be built");
    let flash = config.flash_device().expect("a device");
    let mut table = Table::try_from(config).expect("a table");
    table.insert("flash".into(), Table::try_from(flash).expect("a table").into());
    let mut keys = vec!["workload.work_us".to_string()];
    for (section, values) in &table {
        for (key, value) in values.as_table().into_iter().flatten() {
            let is_size = value.as_str().is_some_and(|text| text.parse::<Bytes>().is_ok());
            if is_size || matches!(value, Value::Integer(_) | Value::Float(_)) {
                keys.push(format!("{section}.{key}"));
            }
        }
    }
    keys
}

/// Runs a small machine of `design` with `keys`. Returns the error of a run that fails.
fn run(design: &str, keys: &[(&str, &str)]) -> Result<(), SimError> {
    let set = small(design);
    let set = set.iter().map(|(key, value)| (&key[..], &value[..])).chain(keys.iter().copied());
    let config = resolve(design, &set.collect::<Vec<_>>())?;
    let arrivals = Offered::Saturating;
    let plan = Plan { config, workload: Kind::ArraySwap, jobs: 100, seed: 1, arrivals };
    simulate(&plan).map(|outcome| assert_eq!(outcome.jobs, 100))
}

/// Runs a machine as [`run`] does. An error must be one line that names `key`.
fn check(design: &str, key: &str, number: &str) -> Option<String> {
    let error = run(design, &[(key, number)]).err()?;
    let text = error.to_string();
    let name = key.rsplit('.').next().unwrap_or(key);
    let is_long = matches!(error, SimError::TooLong);
    assert!(!text.contains('\n') && (text.contains(name) || is_long), "{key} = {number}: {text}");
    Some(text)
}

#[test]
fn a_number_of_any_key_that_makes_no_sense_is_an_error_of_one_line_or_harmless() {
    let mut keys = BTreeMap::new();
    for design in DESIGNS {
        for key in numeric_keys(design) {
            keys.entry(key).or_insert(design);
        }
    }
    assert!(keys.len() > 100, "{} keys", keys.len());
    for (key, design) in keys {
        for number in NUMBERS {
            let refused = check(design, &key, number).is_some();
            let must_be = ["1e308", "nan", "inf", "-1"].contains(&number);
            assert!(refused || !must_be, "{key} = {number} is accepted");
        }
    }
}

/// The greatest number that `key` may have, as the error of a greater one says.
fn greatest(design: &str, key: &str) -> String {
    let text = check(design, key, "9223372036854775807").expect("an error");
    let (_, expected) = text.split_once("expected ").expect("what was expected");
    let mut numbers = expected.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    numbers.next_back().expect("a number").to_string()
}

#[test]
fn times_as_long_as_permitted_end_a_run_or_make_it_too_long() {
    const UNITS: [&str; 5] = ["_ns", "_us", "_ms", "_cycles", "_cycles_per_8_bytes"];
    for design in DESIGNS {
        let mut times: Vec<(String, String)> = numeric_keys(design)
            .into_iter()
            .filter(|key| UNITS.iter().any(|unit| key.ends_with(unit)))
            .map(|key| (greatest(design, &key), key))
            .map(|(greatest, key)| (key, greatest))
            .collect();
        for (key, number) in &times {
            check(design, key, number);
        }
        // A clock of a picosecond and one of a microsecond.
        times.push(("cores.frequency_mhz".to_string(), "1".to_string()));
        let all: Vec<_> = times.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        if let Err(error) = run(design, &all) {
            assert!(matches!(error, SimError::TooLong), "{design}: {error}");
        }
    }
}

/// A trace of one access at `at`.
struct Once(Option<Access>);

impl Source for Once {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        batch.clear();
        batch.extend(self.0.take());
        Ok(!batch.is_empty())
    }
}

#[test]
fn a_trace_that_takes_longer_than_the_clock_counts_is_refused() {
    let config = resolve("cxl-flash", &[]).expect("a design");
    let run = |days: u64, by_thread: bool| {
        let at = Time::from_ns(days * 24 * 3600 * 1_000_000_000);
        let mut trace = Once(Some(Access::new(at, Addr(0), 8, Op::Read)));
        match by_thread {
            true => replay_by_thread(&config, &mut trace),
            false => replay(&config, &mut trace),
        }
    };
    for by_thread in [false, true] {
        assert!(run(99, by_thread).is_ok());
        let error = run(101, by_thread).expect_err("too long");
        assert!(matches!(error, ReplayError::TooLong), "{error}");
    }
}

#[test]
fn arrivals_that_are_rare_end_a_run_or_make_it_too_long() {
    let config = resolve("astriflash", &[("workload.miss_interval_us", "1000000")]);
    let config = config.expect("a machine that can be built").scaled(1, 1024);
    let arrivals = "poisson:0.000001".parse().expect("a load");
    let plan = Plan { config, workload: Kind::ArraySwap, jobs: 100, seed: 1, arrivals };
    let error = simulate(&plan).expect_err("too long");
    assert!(matches!(error, SimError::TooLong), "{error}");
}
