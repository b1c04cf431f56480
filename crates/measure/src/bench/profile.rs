//! [`Profile`]: the costs of a miss on a machine, by mode, and the file that stores them.

use std::fs;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::BenchError;
use super::options::Mode;
use crate::doctor::costs::Switches;

/// The costs of misses on a machine, as `ebbtide doctor --write` stores them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The machine in a line.
    pub machine: String,
    /// Switches between threads.
    pub switches: Switches,
    /// Core time of handing reads to the kernel.
    pub submission: Submission,
    /// Random 4 KiB reads at several queue depths, in ascending order of [`ReadsAt::in_flight`].
    pub reads: Vec<ReadsAt>,
    /// The costs of a miss by mode, of the modes that the machine permits.
    pub modes: Vec<ModeCosts>,
}

/// Core time of a submission, from the CPU time of single reads and of batches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// Core time of the call and of sleeping until it completes, in microseconds.
    pub call_us: f64,
    /// Additional core time of each read, in microseconds.
    pub read_us: f64,
}

/// Random 4 KiB reads at one queue depth.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadsAt {
    /// Reads in flight.
    pub in_flight: u32,
    /// Reads per second.
    pub reads_per_s: f64,
    /// Mean time of a read, in microseconds.
    pub mean_us: f64,
    /// 99th percentile of the time of a read, in microseconds.
    pub p99_us: f64,
}

/// The costs of a miss in one mode.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModeCosts {
    /// The mode.
    pub mode: Mode,
    /// Core time of a miss, in microseconds; in a mode that blocks, including the read.
    pub miss_us: f64,
    /// Core time of writing a page back, in microseconds.
    pub write_back_us: f64,
    /// Adjacent pages in one write to flash; 1 where that is not known.
    #[serde(default = "one")]
    pub pages_per_write: f64,
    /// Under paging: DRAM of the budget that the kernel and its threads took, in bytes.
    pub lost_bytes: u64,
}

fn one() -> f64 {
    1.0
}

impl Profile {
    /// Returns the costs of `mode`, if they were measured. [`Mode::Plain`] and [`Mode::Durable`]
    /// have the costs of [`Mode::Ebbtide`].
    pub fn mode(&self, mode: Mode) -> Option<&ModeCosts> {
        let mode = match mode {
            Mode::Plain | Mode::Durable => Mode::Ebbtide,
            mode => mode,
        };
        self.modes.iter().find(|costs| costs.mode == mode)
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// [`BenchError::BadInput`] when the file cannot be read or is not a profile.
    pub fn read(path: &Path) -> Result<Profile, BenchError> {
        let name = path.display().to_string();
        let text = fs::read_to_string(path)
            .map_err(|error| BenchError::BadInput(format!("{name}: {error}")))?;
        Profile::parse(&name, &text)
    }

    /// Parses the TOML text of a profile. `name` is the name of its file in errors.
    ///
    /// # Errors
    /// [`BenchError::BadInput`] if the text is not a profile or a value is out of its range.
    pub fn parse(name: &str, text: &str) -> Result<Profile, BenchError> {
        let bad = |reason: String| BenchError::BadInput(format!("{name}: {reason}"));
        let profile: Profile = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
            let message = error.message().lines().collect::<Vec<_>>().join("; ");
            bad(format!("line {line}: {message}; expected what `ebbtide doctor --write` writes"))
        })?;
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let ascending = profile.reads.is_sorted_by(|a, b| a.in_flight < b.in_flight);
        let sane = profile.reads.iter().all(|at| positive(at.reads_per_s) && positive(at.mean_us));
        if profile.reads.is_empty() || !ascending || !sane {
            return Err(bad("reads: expected at least one, by rising in_flight".to_string()));
        }
        let not_negative = |value: f64| value.is_finite() && value >= 0.0;
        if let Some(costs) = profile
            .modes
            .iter()
            .find(|costs| !not_negative(costs.miss_us) || !not_negative(costs.write_back_us))
        {
            return Err(bad(format!("modes, {}: expected costs of at least 0", costs.mode)));
        }
        let not_whole = |costs: &&ModeCosts| !positive(costs.pages_per_write.floor());
        if let Some(costs) = profile.modes.iter().find(not_whole) {
            return Err(bad(format!(
                "modes, {}: expected pages_per_write of at least 1",
                costs.mode
            )));
        }
        Ok(profile)
    }

    /// Writes the profile to `path` as TOML. The file appears when it is complete.
    ///
    /// # Errors
    /// The system's error if the file cannot be written.
    pub fn write(&self, path: &Path) -> std::io::Result<()> {
        let text = toml::to_string(self).map_err(std::io::Error::other)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
        writeln!(
            file,
            "# Measured by `ebbtide doctor --write`. Times in the units of their keys.\n"
        )?;
        file.write_all(text.as_bytes())?;
        file.persist(path).map(drop).map_err(|error| error.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile() -> Profile {
        Profile {
            machine: "a machine".to_string(),
            switches: Switches { user_ns: 20.0, os_us: 2.0 },
            submission: Submission { call_us: 5.0, read_us: 1.0 },
            reads: vec![ReadsAt { in_flight: 1, reads_per_s: 1e4, mean_us: 100.0, p99_us: 200.0 }],
            modes: vec![ModeCosts {
                mode: Mode::Ebbtide,
                miss_us: 2.0,
                write_back_us: 1.0,
                pages_per_write: 8.0,
                lost_bytes: 0,
            }],
        }
    }

    #[test]
    fn a_profile_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("machine.toml");
        profile().write(&path).expect("it can be written");
        assert_eq!(Profile::read(&path).expect("it is one"), profile());
    }

    #[test]
    fn what_is_no_profile_is_refused_with_file_and_line() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("machine.toml");
        let said = |text: &str| {
            fs::write(&path, text).expect("a file");
            let said = Profile::read(&path).expect_err("it is none").to_string();
            assert!(said.contains("machine.toml") && !said.contains('\n'), "{said}");
            said
        };
        assert!(said("machine = 7\n").contains("line 1"));
        assert!(said("").contains("doctor --write"));
        let whole = toml::to_string(&profile()).expect("TOML");
        assert!(said(&whole.replace("miss_us = 2.0", "miss_us = -2.0")).contains("at least 0"));
        let none = whole.replace("pages_per_write = 8.0", "pages_per_write = 0.0");
        assert!(said(&none).contains("at least 1"));
        assert!(said(&whole.replace("miss_us", "mis_us")).contains("mis_us"));
        let missing = Profile::read(&folder.path().join("none")).expect_err("it is not there");
        assert!(missing.is_input());
    }
}
