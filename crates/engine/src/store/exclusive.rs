//! [`Exclusive`]: the right to change a file of any kind, which one open file at a time has.

use std::fs::{File, OpenOptions};
use std::path::Path;

use super::file::{lock, unlock};
use super::{Access, StoreError};

/// The whole range of a file that can be locked.
const WHOLE: u64 = i64::MAX as u64;

/// A file that is locked against every other [`Exclusive`], in this process and in others. The lock
/// ends with the value, also when a forked child still has the file open.
#[derive(Debug)]
pub(crate) struct Exclusive {
    file: File,
    process: u32,
}

impl Exclusive {
    /// Locks the file at `path`. Waits 5 s for another process that has the lock, and 1 s for this
    /// one.
    ///
    /// # Errors
    /// When the file cannot be opened to be written, or stays locked.
    pub(crate) fn of(path: &Path) -> Result<Exclusive, StoreError> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|source| StoreError::Open { path: path.to_path_buf(), source })?;
        lock(&file, path, Access::Exclusive, 0, WHOLE)?;
        Ok(Exclusive { file, process: std::process::id() })
    }

    /// The file, through the page cache.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for Exclusive {
    fn drop(&mut self) {
        // A forked child shares the lock, which belongs to its parent.
        if self.process == std::process::id() {
            unlock(&self.file, 0, WHOLE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::is_locked;
    use super::*;

    #[test]
    fn one_at_a_time_has_the_file_and_readers_see_that() {
        let folder = tempfile::tempdir_in(".").expect("a folder");
        let path = folder.path().join("rows");
        std::fs::write(&path, [0; 100]).expect("written");
        let reader = File::open(&path).expect("it opens");
        assert!(!is_locked(&reader));
        let held = Exclusive::of(&path).expect("it is free");
        assert!(is_locked(&reader));
        let refused = Exclusive::of(&path).expect_err("it is held").to_string();
        assert!(refused.ends_with("in use by this process already"), "{refused}");
        drop(held);
        assert!(!is_locked(&reader));
        Exclusive::of(&path).expect("it is free again");
    }
}
