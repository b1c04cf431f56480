//! [`Earlier`]: the JSON of an earlier bench, with which a new one is compared.

use std::fs;
use std::path::Path;

use ebbtide_report::statistics::ratio_of_means;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::changes::{Against, Change, Verdict};
use super::error::BenchError;
use super::options::Mode;
use super::results::{BenchReport, ByRound};

/// The part of an earlier bench's JSON with which a new one is compared.
#[derive(Debug, Clone, Deserialize)]
pub struct Earlier {
    machine: EarlierMachine,
    config: Map<String, Value>,
    results: Vec<EarlierOutcome>,
}

#[derive(Debug, Clone, Deserialize)]
struct EarlierMachine {
    headline: String,
    kernel: String,
    cpus_used: Vec<usize>,
}

#[derive(Debug, Clone, Deserialize)]
struct EarlierOutcome {
    workload: String,
    mode: Mode,
    load: Option<f64>,
    by_round: ByRound,
    doubts: Vec<String>,
}

/// Settings of a bench's location. They do not affect a comparison.
const NO_DIFFERENCE: [&str; 6] = ["workloads", "modes", "data", "force", "predict", "machine"];

impl Earlier {
    /// Reads the JSON of a bench from `path`.
    ///
    /// # Errors
    /// [`BenchError::BadInput`] when it cannot be read or is not the JSON of a bench.
    pub fn read(path: &Path) -> Result<Earlier, BenchError> {
        let bad = |reason: String| BenchError::BadInput(format!("{}: {reason}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| bad(error.to_string()))?;
        serde_json::from_str(&text).map_err(|_| {
            bad("not the result of a bench; expected what `bench --save` or `--json` writes".into())
        })
    }

    /// The changes from this bench, called `name`, to `now`.
    pub fn compare(&self, name: &str, now: &BenchReport) -> Against {
        let mut caveats = self.differences(now);
        let mut changes = Vec::new();
        for outcome in &now.results {
            let same = |earlier: &&EarlierOutcome| {
                earlier.workload == outcome.workload
                    && (earlier.mode, earlier.load) == (outcome.mode, outcome.load)
            };
            let Some(earlier) = self.results.iter().find(same) else { continue };
            let (before, after) = (&earlier.by_round, &outcome.by_round);
            let throughput = match outcome.mode {
                Mode::Dram => ratio_of_means(&before.jobs_per_s, &after.jobs_per_s),
                _ => ratio_of_means(&before.ratio_to_dram, &after.ratio_to_dram),
            };
            let Some(throughput) = throughput else { continue };
            for (when, doubts) in [("earlier", &earlier.doubts), ("this", &outcome.doubts)] {
                if let Some(doubt) = doubts.first() {
                    let (workload, mode) = (outcome.workload, outcome.mode);
                    caveats.push(format!("{workload}, {mode}: {when} result is doubtful: {doubt}"));
                }
            }
            changes.push(Change {
                workload: outcome.workload.to_string(),
                mode: outcome.mode,
                load: outcome.load,
                verdict: Verdict::of(&throughput),
                throughput,
                p99: ratio_of_means(&before.p99_us, &after.p99_us),
            });
        }
        if changes.is_empty() {
            caveats.push("the two have no workload and memory in common".to_string());
        }
        let machine = self.machine.headline.clone();
        Against { name: name.to_string(), machine, changes, caveats }
    }

    /// Settings and machines that differ.
    fn differences(&self, now: &BenchReport) -> Vec<String> {
        let mut found = Vec::new();
        let (then, machine) = (&self.machine, &now.machine);
        let processor = |headline: &str| headline.split(';').next().unwrap_or("").to_string();
        if processor(&then.headline) != processor(&machine.headline) {
            found.push(format!("measured on another machine: {}", then.headline));
        } else if (&then.kernel, &then.cpus_used) != (&machine.kernel, &machine.cpus_used) {
            found.push(format!("measured with kernel {}, CPU {:?}", then.kernel, then.cpus_used));
        }
        let config = serde_json::to_value(&now.config).unwrap_or_default();
        for (key, value) in config.as_object().into_iter().flatten() {
            let before = self.config.get(key).unwrap_or(&Value::Null);
            if before != value && !NO_DIFFERENCE.contains(&key.as_str()) {
                found.push(format!("{key} was {before} and is {value}"));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::ModeOutcome;
    use super::super::text::tests::{outcome, report};
    use super::*;

    fn with_rounds(ratios: &[f64]) -> BenchReport {
        let by_round = ByRound {
            jobs_per_s: ratios.to_vec(),
            ratio_to_dram: ratios.to_vec(),
            p99_us: vec![1.0; ratios.len()],
        };
        report(vec![ModeOutcome { by_round, ..outcome(Mode::Ebbtide) }])
    }

    fn saved(report: &BenchReport) -> Earlier {
        let text = serde_json::to_string(report).expect("JSON");
        serde_json::from_str(&text).expect("its own JSON can be read back")
    }

    #[test]
    fn a_change_has_an_interval_and_a_verdict() {
        let before = saved(&with_rounds(&[0.50, 0.51, 0.49, 0.50, 0.50]));
        let verdict = |ratios: &[f64]| {
            let found = before.compare("old", &with_rounds(ratios));
            assert_eq!(found.caveats, Vec::<String>::new());
            (found.changes[0].verdict, found.changes[0].throughput)
        };
        let (faster, change) = verdict(&[0.60, 0.61, 0.59, 0.60, 0.60]);
        assert_eq!(faster, Verdict::Faster);
        assert!((change.mean - 1.2).abs() < 0.01, "{change:?}");
        assert!(change.ci95.is_some_and(|[low, high]| low > 1.15 && high < 1.25), "{change:?}");
        assert_eq!(verdict(&[0.40, 0.41, 0.39, 0.40, 0.40]).0, Verdict::Slower);
        assert_eq!(verdict(&[0.50, 0.52, 0.49, 0.50, 0.50]).0, Verdict::Same);
        assert_eq!(verdict(&[0.60]).0, Verdict::Unknown);
    }

    #[test]
    fn what_differs_is_said() {
        let before = saved(&with_rounds(&[0.5, 0.5]));
        let mut now = with_rounds(&[0.5, 0.5]);
        now.config.options.theta = 0.5;
        now.machine.headline = "another".to_string();
        now.results[0].doubts = vec!["a reason".to_string()];
        let found = before.compare("old", &now).caveats;
        assert!(found[0].contains("another machine"), "{found:?}");
        assert!(found.contains(&"theta was 0.99 and is 0.5".to_string()), "{found:?}");
        assert!(found[2].contains("this result is doubtful: a reason"), "{found:?}");
    }

    #[test]
    fn what_is_no_bench_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("old.bench.json");
        fs::write(&path, "{\"machine\": 7}").expect("a file");
        let error = Earlier::read(&path).expect_err("it is none");
        assert!(error.is_input() && error.to_string().contains("bench --save"), "{error}");
    }
}
