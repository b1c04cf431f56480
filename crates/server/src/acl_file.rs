//! Reading and writing the ACL file.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::acl::USERS_BYTES_MAX;

/// Maximum bytes of a file.
const FILE_BYTES_MAX: u64 = 4 * USERS_BYTES_MAX as u64;

/// Permissions of a new file: it has hashes of passwords.
const NEW_MODE: u32 = 0o600;

/// Reads an ACL file.
///
/// # Errors
/// Returns a sentence with the path.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let shown = path.display();
    let mut text = Vec::new();
    let file = File::open(path).map_err(|error| format!("{shown}: {error}"))?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text);
    read.map_err(|error| format!("{shown}: {error}"))?;
    match text.len() as u64 > FILE_BYTES_MAX {
        true => Err(format!("{shown}: expected an ACL file of at most {FILE_BYTES_MAX} bytes")),
        false => Ok(text),
    }
}

/// Replaces an ACL file. After a crash it has the old text or the new one.
///
/// # Errors
/// Returns an error if the old file is still there.
pub(crate) fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    let beside = beside(path);
    let replaced = write_new(&beside, path, text).and_then(|()| std::fs::rename(&beside, path));
    if replaced.is_err() {
        // It may not be there.
        let _ = std::fs::remove_file(&beside);
    }
    replaced?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Returns the path of the new file until it is complete.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_os_string();
    name.push(format!(".tmp-{}", std::process::id()));
    name.into()
}

/// Writes a new file with the permissions of the old one.
fn write_new(beside: &Path, old: &Path, text: &[u8]) -> io::Result<()> {
    // One is left if a server ended while it wrote.
    let _ = std::fs::remove_file(beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(NEW_MODE).open(beside)?;
    if let Ok(of) = std::fs::metadata(old) {
        file.set_permissions(Permissions::from_mode(of.permissions().mode() & 0o7777))?;
    }
    file.write_all(text)?;
    file.sync_all()
}
