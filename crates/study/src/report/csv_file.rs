//! Writing files: as a whole or not at all, and tables as CSV.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::ReportError;

/// CSV text of a header and rows. Lines end in a line feed; numbers are not rounded.
pub(super) fn csv_text(header: &[String], rows: &[Vec<String>]) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    writer.write_record(header)?;
    for row in rows {
        writer.write_record(row)?;
    }
    writer.into_inner().map_err(|error| io::Error::other(error.to_string()))
}

/// Makes `folder` if it is missing and puts a file into it in one step: another process sees the
/// old file or the new one, never a part.
pub(super) fn write_whole(folder: &Path, name: &str, contents: &[u8]) -> Result<(), ReportError> {
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
