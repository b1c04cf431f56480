//! [`DoctorReport`]: the diagnoses, as text and JSON.

use std::fmt;
use std::path::PathBuf;

use ebbtide_report::Table;
use serde::Serialize;

use super::machine::{MachineSummary, ServedBy};
use super::probe::Reads;

/// The status of one item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Nothing to improve.
    Good,
    /// Works at a cost, or could not be examined.
    Limited,
    /// Not available.
    Missing,
}

/// One item of this machine.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Diagnosis {
    /// The item.
    pub subject: String,
    /// Its status.
    pub status: Status,
    /// What was found.
    pub found: String,
    /// Its cost, if it is not good.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
    /// How to fix it, when that is possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Diagnosis {
    pub(super) fn good(subject: &str, found: impl Into<String>) -> Diagnosis {
        Diagnosis::new(subject, Status::Good, found)
    }

    pub(super) fn limited(subject: &str, found: impl Into<String>) -> Diagnosis {
        Diagnosis::new(subject, Status::Limited, found)
    }

    pub(super) fn missing(subject: &str, found: impl Into<String>) -> Diagnosis {
        Diagnosis::new(subject, Status::Missing, found)
    }

    fn new(subject: &str, status: Status, found: impl Into<String>) -> Diagnosis {
        let (subject, found) = (subject.to_string(), found.into());
        Diagnosis { subject, status, found, cost: None, fix: None }
    }

    pub(super) fn costs(mut self, cost: impl Into<String>) -> Diagnosis {
        self.cost = Some(cost.into());
        self
    }

    pub(super) fn fix(mut self, fix: impl Into<String>) -> Diagnosis {
        self.fix = Some(fix.into());
        self
    }
}

/// The result of an examination. `Display` writes aligned plain text.
#[derive(Clone, Debug, Serialize)]
pub struct DoctorReport {
    /// The machine in brief, and how fast its flash is by queue depth.
    pub machine: MachineSummary,
    /// The path whose storage was examined.
    pub data: PathBuf,
    /// One diagnosis per item.
    pub findings: Vec<Diagnosis>,
}

/// Lines are wrapped at this many letters.
const COLUMNS: usize = 100;

impl fmt::Display for DoctorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_wrapped(f, 0, &self.machine.headline())?;
        writeln!(f)?;
        let widest = self.findings.iter().map(|finding| finding.subject.chars().count()).max();
        let widest = widest.unwrap_or(0);
        for finding in &self.findings {
            let status = match finding.status {
                Status::Good => "good",
                Status::Limited => "limited",
                Status::Missing => "missing",
            };
            write!(f, "{status:8} {:widest$}  ", finding.subject)?;
            let indent = 8 + 1 + widest + 2;
            write_wrapped(f, indent, &finding.found)?;
            for (name, text) in [("costs: ", &finding.cost), ("fix:   ", &finding.fix)] {
                if let Some(text) = text {
                    write!(f, "{:indent$}{name}", "")?;
                    write_wrapped(f, indent + name.len(), text)?;
                }
            }
        }
        if !self.machine.reads.is_empty() {
            let from = match self.machine.reads_from {
                ServedBy::Disk => "",
                ServedBy::Dram => ", served by DRAM, not by flash",
            };
            writeln!(f, "\nRandom 4 KiB reads of {}{from}", self.data.display())?;
            write!(f, "{}", reads_table(&self.machine.reads))?;
        }
        Ok(())
    }
}

/// Reads by depth.
fn reads_table(reads: &[Reads]) -> Table {
    let header = ["in flight", "reads/s", "mean µs", "p50 µs", "p99 µs", "CPU µs/read"];
    reads.iter().fold(Table::new("Reads", header), |table, reads| {
        let Reads { queue_depth, iops, mean_us, p50_us, p99_us, cpu_us_per_read, .. } = reads;
        let numbers = [*iops, *mean_us, *p50_us, *p99_us, *cpu_us_per_read];
        table.numbers([queue_depth.to_string()], numbers)
    })
}

/// Writes `text` and a line end; lines after the first start `indent` letters in.
fn write_wrapped(f: &mut fmt::Formatter<'_>, indent: usize, text: &str) -> fmt::Result {
    let room = COLUMNS.saturating_sub(indent).max(30);
    let mut used = 0;
    for word in text.split(' ') {
        let letters = word.chars().count();
        if used > 0 && used + 1 + letters > room {
            write!(f, "\n{:indent$}", "")?;
            used = 0;
        } else if used > 0 {
            write!(f, " ")?;
            used += 1;
        }
        write!(f, "{word}")?;
        used += letters;
    }
    writeln!(f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_findings_are_wrapped_and_aligned() {
        let finding = Diagnosis::limited("subject", "word ".repeat(60).trim_end())
            .costs("something")
            .fix("do something else");
        let machine = MachineSummary::of_system();
        let report = DoctorReport { machine, data: PathBuf::from("."), findings: vec![finding] };
        let text = report.to_string();
        let body = text.lines().skip_while(|line| !line.starts_with("limited"));
        let body: Vec<&str> = body.collect();
        assert!(body.iter().all(|line| line.chars().count() <= COLUMNS), "{text}");
        assert!(body[1].starts_with(&" ".repeat(18)) && body[1].contains("word"), "{text}");
        assert!(text.contains("costs: something\n") && text.contains("fix:   do something else\n"));
    }
}
