//! [`Given`]: the study's own traces of real programs, in a folder of the user.
//!
//! The study publishes them (Zenodo, record 7916219) in the text form of its simulator. A file by
//! physical addresses is called `NAME_p.trace`, one by virtual addresses `NAME_v.trace`.

use std::path::{Path, PathBuf};
use std::{fs, io};

use ebbtide_trace::{Access, Source, TraceError};
use thiserror::Error;

use super::REAL;

/// A trace of each program by one kind of addresses, if it is there, in the order of [`REAL`].
type Files = [Option<PathBuf>; REAL.len()];

/// The study's own traces, if the user has them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Given {
    physical: Files,
    virtually: Files,
}

/// The error of a folder without usable traces of the CXL-flash study.
#[derive(Debug, Error)]
pub enum TracesError {
    /// The folder cannot be read.
    #[error("cannot read the folder of traces '{folder}': {error}", folder = folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// The folder has none of the study's traces, such as `bert_p.trace`.
    #[error(
        "'{folder}' has none of the study's traces; they are called {}",
        expected().join(", "),
        folder = folder.display()
    )]
    None {
        /// The folder.
        folder: PathBuf,
    },
}

/// The letters with which the name of a program's file begins, in the order of [`REAL`].
const NAMES: [&str; REAL.len()] = ["bert", "page_rank", "radiosity", "xz", "ycsb"];

/// The name of the file of `program`, an index of [`REAL`].
pub(crate) fn file_name(program: usize, physical: bool) -> String {
    format!("{}_{}.trace", NAMES[program], if physical { "p" } else { "v" })
}

/// The names of all files.
fn expected() -> Vec<String> {
    let names = |physical| (0..REAL.len()).map(move |program| file_name(program, physical));
    names(true).chain(names(false)).collect()
}

/// The letters and digits of `name`, in lower case.
fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase()
}

impl Given {
    /// The traces in `folder`. A file may be compressed, and its name may continue before `_p` or
    /// `_v`. The first of several files by name is taken.
    ///
    /// # Errors
    /// [`TracesError`].
    pub(crate) fn in_folder(folder: &Path) -> Result<Given, TracesError> {
        let failed = |error| TracesError::Folder { folder: folder.to_path_buf(), error };
        let entries = fs::read_dir(folder).map_err(failed)?;
        let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
        let mut paths = paths.map_err(failed)?;
        paths.sort();
        let of = |ending: &str| -> Files {
            NAMES.map(|name| {
                let is_it = |path: &&PathBuf| {
                    let file = path.file_name().unwrap_or_default().to_string_lossy();
                    let Some((stem, _)) = file.split_once(ending) else { return false };
                    plain(stem).starts_with(&plain(name))
                };
                paths.iter().find(is_it).cloned()
            })
        };
        let given = Given { physical: of("_p.trace"), virtually: of("_v.trace") };
        match given.physical.iter().chain(&given.virtually).all(Option::is_none) {
            true => Err(TracesError::None { folder: folder.to_path_buf() }),
            false => Ok(given),
        }
    }

    /// The trace of `program`, an index of [`REAL`], by physical or by virtual addresses.
    pub(crate) fn of(&self, program: usize, physical: bool) -> Option<&Path> {
        let files = if physical { &self.physical } else { &self.virtually };
        files[program].as_deref()
    }
}

/// The first accesses of a trace.
pub(crate) struct First<S> {
    source: S,
    left: u64,
}

impl<S: Source> First<S> {
    /// The first `most` accesses of `source`.
    pub(crate) fn new(source: S, most: u64) -> First<S> {
        First { source, left: most }
    }
}

impl<S: Source> Source for First<S> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        if self.left == 0 {
            batch.clear();
            return Ok(false);
        }
        let more = self.source.fill(batch);
        if batch.len() as u64 >= self.left {
            // What comes behind the first accesses does not matter, not even a fault.
            batch.truncate(self.left as usize);
            self.left = 0;
            return Ok(true);
        }
        self.left -= batch.len() as u64;
        more
    }

    fn remark(&self) -> Option<String> {
        self.source.remark()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["BERT_p.trace", "PageRank_v.trace.xz", "ycsb_f_p.trace", "notes.txt"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        let given = Given::in_folder(folder.path()).unwrap();
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        let names = |physical| [0, 1, 2, 3, 4].map(|number| given.of(number, physical).map(name));
        let text = |name: &str| Some(name.to_string());
        assert_eq!(names(true), [text("BERT_p.trace"), None, None, None, text("ycsb_f_p.trace")]);
        assert_eq!(names(false), [None, text("PageRank_v.trace.xz"), None, None, None]);
    }

    #[test]
    fn a_folder_without_them_or_none_is_an_error_that_names_them() {
        let folder = tempfile::tempdir().unwrap();
        let none = Given::in_folder(folder.path()).unwrap_err().to_string();
        assert!(none.contains("bert_p.trace") && none.contains("ycsb_v.trace"), "{none}");
        let missing = Given::in_folder(&folder.path().join("missing")).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read the folder"), "{missing}");
    }
}
