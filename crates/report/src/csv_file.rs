//! Writing files: as a whole or not at all, and tables as CSV.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::ReportError;
use super::page::FILE_NAME;

/// CSV text of a header and rows. Lines end in a line feed; numbers are not rounded.
pub(super) fn csv_text(header: &[String], rows: &[Vec<String>]) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    writer.write_record(header)?;
    for row in rows {
        writer.write_record(row)?;
    }
    writer.into_inner().map_err(|error| io::Error::other(error.to_string()))
}

/// Makes sure that a report can be written into `folder`, which may be missing: a file is made in
/// it, or in the nearest folder above it, and removed again. To be asked before a long run.
///
/// # Errors
/// [`ReportError::Write`], as the report itself would give.
pub fn check_folder(folder: &Path) -> Result<(), ReportError> {
    let failed = |path: &Path, source| ReportError::Write { path: path.to_path_buf(), source };
    let page = folder.join(FILE_NAME);
    if page.is_dir() {
        return Err(failed(&page, io::ErrorKind::IsADirectory.into()));
    }
    let exists = |path: &&Path| path.as_os_str().is_empty() || path.symlink_metadata().is_ok();
    let nearest = folder.ancestors().find(exists).unwrap_or(Path::new(""));
    let nearest = if nearest.as_os_str().is_empty() { Path::new(".") } else { nearest };
    let probe = nearest.join(format!(".ebbtide-{}", std::process::id()));
    let made = fs::File::create_new(&probe).and_then(|_| fs::remove_file(&probe));
    made.map_err(|source| failed(folder, source))
}

/// Makes `folder` if it is missing and puts a file into it in one step: another process sees the
/// old file or the new one, never a part.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_a_separator_is_quoted() {
        let cells = |row: &[&str]| row.iter().map(|cell| cell.to_string()).collect::<Vec<_>>();
        let rows = [cells(&["a,b", "say \"hi\"", "two\nlines"]), cells(&["", "µs", "1.5"])];
        let text = csv_text(&cells(&["x", "y", "z"]), &rows).expect("text");
        assert_eq!(
            String::from_utf8(text).expect("UTF-8"),
            "x,y,z\n\"a,b\",\"say \"\"hi\"\"\",\"two\nlines\"\n,µs,1.5\n"
        );
    }
}
