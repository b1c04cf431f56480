//! [`Checkpoint`]: finished runs, one line each in a file of the results folder.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use ebbtide_sim::Plan;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::SweepError;

/// The file in the results folder.
const FILE_NAME: &str = "points.jsonl";

/// The first line of the file: the program and the sweep that its runs belong to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Fingerprint {
    program: String,
    /// A checksum of every run's resolved parameters.
    sweep: String,
    points: usize,
}

impl Fingerprint {
    pub(super) fn new(program: &str, plans: &[Plan]) -> Fingerprint {
        let mut sum = 0;
        for plan in plans {
            let Plan { config, workload, jobs, seed, arrivals } = plan;
            let whole = json!([config, workload.name(), jobs, seed, arrivals]);
            sum = crc32c::crc32c_append(sum, whole.to_string().as_bytes());
        }
        let program = program.to_string();
        Fingerprint { program, sweep: format!("{sum:08x}"), points: plans.len() }
    }

    /// The difference to `other`, if there is one.
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
        // Where the process was killed in the middle of a line, the line was not kept.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = text[..whole].lines();
        let found = match lines.next().map(serde_json::from_str::<Fingerprint>) {
            None => None,
            Some(Ok(found)) => fingerprint.difference(&found),
            Some(Err(_)) => Some(format!("a {FILE_NAME} that is no sweep's")),
        };
        let mut kept = Checkpoint { path: path.clone(), file, outcomes: BTreeMap::new() };
        match found {
            Some(what) if !force => return Err(mixed(what)),
            None if whole > 0 => {
                for (number, line) in lines.enumerate() {
                    let line: Line = serde_json::from_str(line).map_err(|error| {
                        mixed(format!("a damaged {FILE_NAME} (line {}: {error})", number + 2))
                    })?;
                    kept.outcomes.insert(line.point, line.outcome);
                }
                kept.cut(whole as u64).map_err(failed)?;
            }
            _ => {
                kept.cut(0).map_err(failed)?;
                kept.append(&fingerprint).map_err(failed)?;
            }
        }
        Ok(kept)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn fingerprint(program: &str, sweep: &str) -> Fingerprint {
        Fingerprint { program: program.to_string(), sweep: sweep.to_string(), points: 3 }
    }

    fn mixed(folder: &Path, fingerprint: &Fingerprint) -> String {
        Checkpoint::open(folder, fingerprint, false).err().expect("it is refused").to_string()
    }

    #[test]
    fn what_was_kept_is_there_again_to_the_bit() {
        let folder = tempfile::tempdir().unwrap();
        let ours = fingerprint("a", "b");
        // Numbers whose shortest decimal form a careless reader rounds to a neighbour.
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
