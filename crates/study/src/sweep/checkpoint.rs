//! [`Checkpoint`]: finished runs, one in each line of a file in the results folder.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use ebbtide_core::crc32c_append;
use ebbtide_sim::Plan;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::results::of_the_model;
use super::{Axis, Sweep, SweepError};

/// The file in the results folder.
const FILE_NAME: &str = "points.jsonl";

/// The first line of the file: the program and the sweep that its runs belong to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fingerprint {
    program: String,
    /// A checksum of every run's resolved parameters.
    sweep: String,
    points: usize,
    /// The axes of its runs.
    axes: Vec<Axis>,
}

impl Fingerprint {
    pub(super) fn new(program: &str, sweep: &Sweep, plans: &[Plan]) -> Fingerprint {
        let mut sum = 0;
        for plan in plans {
            let Plan { config, workload, jobs, seed, arrivals } = plan;
            let whole = json!([config, workload.name(), jobs, seed, arrivals]);
            sum = crc32c_append(sum, whole.to_string().as_bytes());
        }
        let program = program.to_string();
        let (axes, points) = (sweep.axes().to_vec(), plans.len());
        Fingerprint { program, sweep: format!("{sum:08x}"), points, axes }
    }

    /// The difference from `other`, if there is one.
    fn difference(&self, other: &Fingerprint) -> Option<String> {
        if self.program != other.program {
            return Some(format!("runs of another build, {}", other.program));
        }
        (self != other).then(|| "runs of another sweep".to_string())
    }
}

/// A finished run.
#[derive(Serialize, Deserialize)]
struct Line {
    point: usize,
    outcome: Value,
}

/// The finished runs of a sweep. The file is locked while this value lives.
pub(super) struct Checkpoint {
    path: PathBuf,
    file: File,
    fingerprint: Fingerprint,
    outcomes: BTreeMap<usize, Value>,
}

impl Checkpoint {
    /// Reads the runs with this `fingerprint` in `folder`. With `force`, discards runs of another
    /// sweep.
    ///
    /// # Errors
    /// [`SweepError::Mixed`] for runs of another sweep, and [`SweepError::Keep`].
    pub(super) fn open(
        folder: &Path,
        fingerprint: &Fingerprint,
        force: bool,
    ) -> Result<Checkpoint, SweepError> {
        let path = folder.join(FILE_NAME);
        let failed = |source| SweepError::Keep { path: path.clone(), source };
        let mixed = |what| SweepError::Mixed { folder: folder.to_path_buf(), what };
        fs::create_dir_all(folder).map_err(failed)?;
        let open =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(mixed("a sweep that is running".into())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        let text = whole_lines(&text);
        let found = match text.lines().next().map(serde_json::from_str::<Fingerprint>) {
            None => None,
            Some(Ok(found)) => fingerprint.difference(&found),
            Some(Err(_)) => Some(NO_SWEEP.to_string()),
        };
        let (fingerprint, outcomes) = (fingerprint.clone(), BTreeMap::new());
        let mut kept = Checkpoint { path: path.clone(), file, fingerprint, outcomes };
        match found {
            Some(what) if !force => return Err(mixed(what)),
            None if !text.is_empty() => {
                kept.outcomes = outcomes_of(text).map_err(mixed)?;
                kept.cut(text.len() as u64).map_err(failed)?;
            }
            _ => {
                kept.cut(0).map_err(failed)?;
                kept.append(&kept.fingerprint.clone()).map_err(failed)?;
            }
        }
        Ok(kept)
    }

    /// Reads the runs of any sweep in `folder`. A sweep may be adding to them.
    ///
    /// # Errors
    /// [`SweepError::Apart`] when the folder has no runs, and [`SweepError::Keep`].
    pub(super) fn read(folder: &Path) -> Result<Checkpoint, SweepError> {
        let path = folder.join(FILE_NAME);
        let failed = |source| SweepError::Keep { path: path.clone(), source };
        let apart = |what| SweepError::Apart { folder: folder.to_path_buf(), what };
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(apart(format!("no {FILE_NAME}, which a sweep keeps its runs in")));
            }
            file => file.map_err(failed)?,
        };
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        let text = whole_lines(&text);
        let first = text.lines().next().unwrap_or_default();
        let fingerprint = serde_json::from_str(first).map_err(|_| apart(NO_SWEEP.to_string()))?;
        let outcomes = outcomes_of(text).map_err(apart)?;
        Ok(Checkpoint { path, file, fingerprint, outcomes })
    }

    /// The sweep of these runs.
    pub(super) fn sweep(&self) -> Sweep {
        Sweep::over(self.fingerprint.axes.clone())
    }

    /// The difference of the sweep or the program from `other`, if there is one.
    pub(super) fn difference(&self, other: &Checkpoint) -> Option<String> {
        self.fingerprint.difference(&other.fingerprint)
    }

    /// Adds the runs of `other`, only in memory. Returns a run that both have with different
    /// outcomes.
    pub(super) fn take_over(&mut self, other: Checkpoint) -> Option<usize> {
        for (point, outcome) in other.outcomes {
            let ours = self.outcomes.get(&point);
            if ours.is_some_and(|ours| of_the_model(ours) != of_the_model(&outcome)) {
                return Some(point);
            }
            self.outcomes.entry(point).or_insert(outcome);
        }
        None
    }

    pub(super) fn has(&self, point: usize) -> bool {
        self.outcomes.contains_key(&point)
    }

    pub(super) fn len(&self) -> usize {
        self.outcomes.len()
    }

    /// Appends the outcome of `point`.
    ///
    /// # Errors
    /// [`SweepError::Keep`].
    pub(super) fn add(&mut self, point: usize, outcome: Value) -> Result<(), SweepError> {
        let line = Line { point, outcome };
        self.append(&line)
            .map_err(|source| SweepError::Keep { path: self.path.clone(), source })?;
        self.outcomes.insert(line.point, line.outcome);
        Ok(())
    }

    /// The outcomes of all points, in their order.
    pub(super) fn into_outcomes(self) -> Vec<Value> {
        self.outcomes.into_values().collect()
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.file.set_len(length)?;
        self.file.seek(SeekFrom::End(0)).map(drop)
    }

    fn append(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.file.write_all(text.as_bytes())
    }
}

/// The description of a folder whose file is not from a sweep.
const NO_SWEEP: &str = "a points.jsonl that is no sweep's";

/// `text` without an incomplete last line. A process that was killed while it wrote a line did not
/// keep that run.
fn whole_lines(text: &str) -> &str {
    &text[..text.rfind('\n').map_or(0, |end| end + 1)]
}

/// The outcomes in `text`. They follow the fingerprint.
fn outcomes_of(text: &str) -> Result<BTreeMap<usize, Value>, String> {
    let outcomes = text.lines().enumerate().skip(1).map(|(number, line)| {
        let line: Line = serde_json::from_str(line)
            .map_err(|error| format!("a damaged {FILE_NAME} (line {}: {error})", number + 1))?;
        Ok((line.point, line.outcome))
    });
    outcomes.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(program: &str, sweep: &str) -> Fingerprint {
        let (program, sweep) = (program.to_string(), sweep.to_string());
        Fingerprint { program, sweep, points: 3, axes: Vec::new() }
    }

    fn mixed(folder: &Path, fingerprint: &Fingerprint) -> String {
        Checkpoint::open(folder, fingerprint, false).err().expect("it is refused").to_string()
    }

    #[test]
    fn what_was_kept_is_there_again_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let ours = fingerprint("a", "b");
        // Numbers whose shortest decimal form a wrong reader rounds to a neighbour.
        let numbers =
            [0.1 + 0.2, 9_007_199_254_740_993.5, 1.0 / 3.0, 5e-324, 0.923_456_789_012_345_7];
        let outcome = json!({ "x": numbers, "n": u64::MAX });
        Checkpoint::open(folder.path(), &ours, false).unwrap().add(2, outcome.clone()).unwrap();
        let kept = Checkpoint::open(folder.path(), &ours, false).unwrap();
        assert!(kept.has(2) && !kept.has(0) && kept.len() == 1);
        assert_eq!(kept.into_outcomes(), [outcome]);
    }

    #[test]
    fn a_torn_last_line_is_run_again() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, path) = (fingerprint("a", "b"), folder.path().join(FILE_NAME));
        let mut kept = Checkpoint::open(folder.path(), &ours, false).unwrap();
        kept.add(0, json!(1)).unwrap();
        kept.add(1, json!(2)).unwrap();
        drop(kept);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 3]).unwrap();
        let mut kept = Checkpoint::open(folder.path(), &ours, false).unwrap();
        assert!(kept.has(0) && !kept.has(1));
        kept.add(1, json!(2)).unwrap();
        drop(kept);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn runs_of_others_are_neither_mixed_in_nor_lost_unless_forced() {
        let folder = tempfile::tempdir().unwrap();
        let ours = fingerprint("a", "b");
        Checkpoint::open(folder.path(), &ours, false).unwrap().add(0, json!(1)).unwrap();
        assert!(mixed(folder.path(), &fingerprint("a", "c")).contains("of another sweep; give"));
        assert!(mixed(folder.path(), &fingerprint("c", "b")).contains("of another build, a"));
        assert_eq!(Checkpoint::open(folder.path(), &ours, false).unwrap().len(), 1);
        assert_eq!(Checkpoint::open(folder.path(), &fingerprint("c", "b"), true).unwrap().len(), 0);
        assert!(mixed(folder.path(), &ours).contains("of another build, c"));
        fs::write(folder.path().join(FILE_NAME), "notes\n").unwrap();
        assert!(mixed(folder.path(), &ours).contains("that is no sweep's"));
    }

    #[test]
    fn two_sweeps_do_not_share_a_folder_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let ours = fingerprint("a", "b");
        let first = Checkpoint::open(folder.path(), &ours, false).unwrap();
        assert!(mixed(folder.path(), &ours).contains("a sweep that is running"));
        drop(first);
        Checkpoint::open(folder.path(), &ours, false).unwrap();
    }
}
