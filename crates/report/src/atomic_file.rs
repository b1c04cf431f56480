//! [`write_whole`]: a file that appears as a whole or not at all.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::ReportError;

/// Writes the file `name` into `folder` atomically, and makes `folder` if it is missing. Another
/// process sees the old file or the new one, never a part.
///
/// # Errors
/// [`ReportError::Write`] if the folder or the file cannot be written.
pub fn write_whole(folder: &Path, name: &str, contents: &[u8]) -> Result<(), ReportError> {
    let failed = |path: &Path, source| ReportError::Write { path: path.to_path_buf(), source };
    fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
    let path = folder.join(name);
    let put = || -> io::Result<()> {
        let mut file = tempfile::Builder::new()
            .prefix(".ebbtide-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)?;
        file.write_all(contents)?;
        file.as_file().sync_all()?;
        file.persist(&path).map(drop).map_err(|error| error.error)
    };
    put().map_err(|source| failed(&path, source))
}
