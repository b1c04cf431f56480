//! The result of a bench in a few sentences.

use ebbtide_report::{figure, microseconds};

use super::figures::Figure;
use super::options::{Arrivals, Mode};
use super::results::{BenchReport, ModeOutcome};
use super::spread::Spread;

/// What a sentence calls the other memories.
const OTHERS: [(Mode, &str); 3] = [
    (Mode::Paging, "OS paging keeps"),
    (Mode::Sync, "blocking reads keep"),
    (Mode::Mapped, "mapped regions keep"),
];

impl BenchReport {
    /// The result in a few sentences. `None` if Ebbtide was not measured.
    pub(super) fn finding(&self) -> Option<String> {
        let mut finding = match self.config.options.arrivals {
            Arrivals::Closed => self.kept()?,
            Arrivals::Open => self.answered()?,
        };
        let doubtful = self.results.iter().filter(|outcome| !outcome.doubts.is_empty()).count();
        if doubtful > 0 {
            let (all, verb) = (self.results.len(), if doubtful == 1 { "is" } else { "are" });
            finding += &format!(" {doubtful} of {all} results {verb} doubtful.");
        }
        Some(finding)
    }

    /// What each memory keeps of the throughput of DRAM-only.
    fn kept(&self) -> Option<String> {
        let ebbtide: Vec<&ModeOutcome> = self.of_mode(Mode::Ebbtide).collect();
        let ratio =
            |outcome: &&&ModeOutcome| outcome.number(Figure::RatioToDram).unwrap_or_default();
        let least = ebbtide.iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
        let most = ebbtide.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
        let kept = figure(self.mean_ratio(Mode::Ebbtide)?);
        let mut finding = match ebbtide.len() {
            1 => format!("Ebbtide keeps {kept} of DRAM-only's throughput under {}", least.workload),
            count => format!(
                "Ebbtide keeps {kept} of DRAM-only's throughput, the mean of {count} workloads, \
                 from {} under {} to {} under {}",
                figure(ratio(&least)),
                least.workload,
                figure(ratio(&most)),
                most.workload,
            ),
        };
        for (mode, what) in OTHERS {
            if let Some(mean) = self.mean_ratio(mode) {
                finding += &format!("; {what} {}", figure(mean));
            }
        }
        finding += ".";
        if let Some(cpu) = self.cpu_us(Mode::Ebbtide) {
            finding += &format!(" A miss costs {cpu} of CPU");
            let paging = self.cpu_us(Mode::Paging).map(|cpu| format!(", and {cpu} under paging"));
            finding += &(paging.unwrap_or_default() + ".");
        }
        Some(finding)
    }

    /// The p99 response of Ebbtide at the highest load.
    fn answered(&self) -> Option<String> {
        let loads = self.of_mode(Mode::Ebbtide).filter_map(|outcome| outcome.load);
        let load = loads.reduce(f64::max)?;
        let highest = self.of_mode(Mode::Ebbtide).filter(|outcome| outcome.load == Some(load));
        let p99 = Spread::of(highest.filter_map(|outcome| outcome.number(Figure::ResponseP99Us)));
        Some(format!(
            "At a load of {} of DRAM-only's throughput, the p99 response of Ebbtide is {}.",
            figure(load),
            between(p99)
        ))
    }

    fn of_mode(&self, mode: Mode) -> impl Iterator<Item = &ModeOutcome> {
        self.results.iter().filter(move |outcome| outcome.mode == mode)
    }

    fn mean_ratio(&self, mode: Mode) -> Option<f64> {
        let ratio = |outcome: &ModeOutcome| outcome.number(Figure::RatioToDram);
        let ratios: Vec<f64> = self.of_mode(mode).filter_map(ratio).collect();
        (!ratios.is_empty()).then(|| ratios.iter().sum::<f64>() / ratios.len() as f64)
    }

    /// The CPU time of a miss, as a range over the workloads.
    fn cpu_us(&self, mode: Mode) -> Option<String> {
        let cost = |outcome: &ModeOutcome| outcome.number(Figure::CpuUsPerMiss);
        let costs: Vec<f64> = self.of_mode(mode).filter_map(cost).collect();
        (!costs.is_empty()).then(|| between(Spread::of(costs)))
    }
}

/// A time, or a range of times, in microseconds.
fn between(us: Spread) -> String {
    match microseconds(us.min) == microseconds(us.max) {
        true => microseconds(us.max),
        false => format!("{} to {}", microseconds(us.min), microseconds(us.max)),
    }
}

#[cfg(test)]
mod tests {
    use ebbtide_report::PageReport;

    use super::super::text::tests::{at, outcome, report, with};
    use super::*;

    #[test]
    fn a_bench_opens_with_what_each_memory_keeps_and_how_much_is_doubtful() {
        let paging = with(outcome(Mode::Paging), &[(Figure::RatioToDram, at(0.2))]);
        let other = ModeOutcome {
            workload: "tatp",
            doubts: vec!["its rounds differ".to_string()],
            ..with(outcome(Mode::Ebbtide), &[(Figure::RatioToDram, at(0.7))])
        };
        let report = report(vec![outcome(Mode::Dram), paging, outcome(Mode::Ebbtide), other]);
        let finding = report.finding().expect("it was measured");
        let start = "Ebbtide keeps 0.600 of DRAM-only's throughput, the mean of 2 workloads, \
                     from 0.500 under hash-table to 0.700 under tatp; OS paging keeps 0.200. A miss \
                     costs";
        assert!(finding.starts_with(start), "{finding}");
        assert!(finding.ends_with("1 of 4 results is doubtful."), "{finding}");
        assert!(report.to_string().starts_with(start), "{report}");
        let html = report.page().html().expect("a page");
        let place = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text}: {html}"));
        assert!(place("Ebbtide keeps 0.600") < place("used: CPU"));
    }

    #[test]
    fn one_workload_is_named_and_without_ebbtide_there_is_no_result() {
        let alone = report(vec![outcome(Mode::Ebbtide)]).finding().expect("it was measured");
        let start = "Ebbtide keeps 0.500 of DRAM-only's throughput under hash-table.";
        assert!(alone.starts_with(start), "{alone}");
        assert_eq!(report(vec![outcome(Mode::Dram)]).finding(), None);
    }
}
