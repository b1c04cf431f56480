//! Sweeps on several machines. [`Shard`]s run separately, and [`merge`] joins their runs.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

use super::checkpoint::Checkpoint;
use super::{Sweep, SweepError, Swept};

/// A part of a sweep, written I/N: every Nth point, from the Ith on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// The number of the part, from 1.
    number: usize,
    /// Number of parts.
    count: usize,
}

/// The error of a text that is not a [`Shard`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is no part of a sweep; expected I/N, such as 1/8, with I from 1 to N")]
pub struct NoShard(String);

impl Shard {
    /// The whole sweep.
    pub const WHOLE: Shard = Shard { number: 1, count: 1 };

    /// Returns true if `point` (from 0) belongs to this part. Neighbours belong to different parts,
    /// so all parts take about as long.
    pub fn has(self, point: usize) -> bool {
        point % self.count == self.number - 1
    }
}

impl FromStr for Shard {
    type Err = NoShard;

    fn from_str(text: &str) -> Result<Shard, NoShard> {
        let parts = text.split_once('/').map(|(number, count)| (number.parse(), count.parse()));
        match parts {
            Some((Ok(number), Ok(count))) if (1..=count).contains(&number) => {
                Ok(Shard { number, count })
            }
            _ => Err(NoShard(text.to_string())),
        }
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.count)
    }
}

/// The finished runs of a part. `Display` prints their number and folder in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardDone {
    /// The part.
    pub shard: Shard,
    /// The number of runs of the part.
    pub runs: usize,
    /// The number of runs of the whole sweep.
    pub all: usize,
    /// The folder of the runs.
    pub folder: PathBuf,
}

impl fmt::Display for ShardDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShardDone { shard, runs, all, folder } = self;
        let folder = folder.display();
        write!(
            f,
            "part {shard}: {runs} of {all} runs are in {folder}; `sweep merge` joins the parts"
        )
    }
}

/// Joins the runs in `folders` to the results of one sweep. The parts may have any size and may
/// overlap.
///
/// # Errors
/// * [`SweepError::Apart`]: a folder holds no runs, or runs of another sweep or program.
/// * [`SweepError::Apart`]: two folders hold different outcomes of one run.
/// * [`SweepError::Incomplete`]: a run is missing, or `folders` is empty.
/// * [`SweepError::Keep`]: a folder cannot be read.
pub fn merge(folders: &[PathBuf]) -> Result<Swept, SweepError> {
    let mut joined: Option<Checkpoint> = None;
    for folder in folders {
        let part = Checkpoint::read(folder)?;
        match &mut joined {
            None => joined = Some(part),
            Some(joined) => join(joined, part, folder)?,
        }
    }
    let incomplete = |reason: String| SweepError::Incomplete { reason };
    let joined = joined.ok_or_else(|| incomplete("expected folders of runs, got none".into()))?;
    let sweep = joined.sweep();
    let missing: Vec<usize> = (0..sweep.points()).filter(|point| !joined.has(*point)).collect();
    if let Some(first) = missing.first() {
        return Err(incomplete(format!(
            "{} of {} runs are in none of the folders, such as {}: run the parts that are missing",
            missing.len(),
            sweep.points(),
            sweep.label(*first)
        )));
    }
    Ok(Swept::new(&sweep, joined.into_outcomes()))
}

fn join(joined: &mut Checkpoint, part: Checkpoint, folder: &Path) -> Result<(), SweepError> {
    let mixed = |what| SweepError::Apart { folder: folder.to_path_buf(), what };
    if let Some(what) = joined.difference(&part) {
        return Err(mixed(what));
    }
    if let Some(point) = joined.take_over(part) {
        let label = joined.sweep().label(point);
        return Err(mixed(format!("another outcome of {label}, which two parts ran")));
    }
    Ok(())
}

impl Sweep {
    /// Returns the sweep of one point with these keys and values. Options of `ebbtide sim` that are
    /// left out have their defaults.
    ///
    /// # Errors
    /// As [`Sweep::parse`].
    pub fn of_point(values: &[(String, String)]) -> Result<Sweep, SweepError> {
        let mut table = toml::Table::new();
        let mut set = toml::Table::new();
        for (key, value) in values {
            let into = if Sweep::is_option(key) { &mut table } else { &mut set };
            into.insert(key.clone(), value.clone().into());
        }
        let dotted: String = set.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        Sweep::parse("point", &format!("{table}\n[set]\n{dotted}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_as_fractions_and_divide_the_points() {
        let shards: Vec<Shard> = (1..=3).map(|n| format!("{n}/3").parse().unwrap()).collect();
        for point in 0..20 {
            assert_eq!(shards.iter().filter(|shard| shard.has(point)).count(), 1);
        }
        assert!((0..20).all(|point| Shard::WHOLE.has(point)));
        for text in ["0/3", "4/3", "1", "1/0", "a/b", "1/2/3", ""] {
            assert!(text.parse::<Shard>().unwrap_err().to_string().contains("1/8"), "{text}");
        }
    }

    #[test]
    fn a_point_alone_is_the_point_of_the_sweep() {
        let text = "design = [\"astriflash\", \"os-swap\"]\nscale = \"1/64\"\nseeds = [1, 2]\n\
                    [set]\ndram_cache.mshr = [64, 128]\nworkload.theta = 0.5\n";
        let sweep = Sweep::parse("file", text).unwrap();
        let plans = sweep.plans().unwrap();
        for (number, plan) in plans.iter().enumerate() {
            let one = Sweep::of_point(&sweep.point(number)).unwrap();
            assert_eq!(one.plans().unwrap(), std::slice::from_ref(plan));
        }
        let misspelt = Sweep::of_point(&[("desing".into(), "x".into())]);
        let error = misspelt.and_then(|sweep| sweep.plans()).unwrap_err();
        assert!(error.is_input(), "{error}");
    }
}
