//! [`Output`]: the destination of a trace: a file that appears when it is complete, or standard
//! output.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use flate2::write::GzEncoder;
use liblzma::write::XzEncoder;
use tempfile::NamedTempFile;

use crate::{Compression, TraceError};

/// zstd's default level, which writes several times faster than a trace is parsed.
const ZSTD_LEVEL: i32 = 3;

/// xz's default level.
const XZ_LEVEL: u32 = 6;

/// Writes the bytes of a trace. The file appears under its name at [`Output::finish`]; an output
/// that is dropped before leaves no file.
pub struct Output {
    name: String,
    bytes: Encoder,
    written: u64,
}

enum Encoder {
    Plain(Target),
    Zstd(zstd::Encoder<'static, Target>),
    Gzip(GzEncoder<Target>),
    Xz(XzEncoder<Target>),
}

enum Target {
    /// A temporary file in the folder of the final one.
    File(NamedTempFile, PathBuf),
    /// A pipe or a device.
    Special(File),
    Stdout(io::Stdout),
}

impl Output {
    /// Opens an output to the file at `path`, or to standard output for `-`.
    ///
    /// # Errors
    /// [`TraceError`] if the file cannot be created.
    pub fn create(path: &Path, compression: Compression) -> Result<Output, TraceError> {
        let name =
            if path.as_os_str() == "-" { "stdout".into() } else { path.display().to_string() };
        match Target::create(path).and_then(|target| Encoder::new(target, compression)) {
            Ok(bytes) => Ok(Output { name, bytes, written: 0 }),
            Err(source) => Err(TraceError::Open { name, source }),
        }
    }

    /// Returns the bytes written so far, before compression.
    pub fn written_bytes(&self) -> u64 {
        self.written
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        self.written += bytes.len() as u64;
        let written = match &mut self.bytes {
            Encoder::Plain(target) => target.write_all(bytes),
            Encoder::Zstd(encoder) => encoder.write_all(bytes),
            Encoder::Gzip(encoder) => encoder.write_all(bytes),
            Encoder::Xz(encoder) => encoder.write_all(bytes),
        };
        written.map_err(|source| self.fault(source))
    }

    /// Replaces the first bytes of an uncompressed file, which must have been written. Returns
    /// whether the output is such a file: a pipe cannot be written again.
    ///
    /// # Errors
    /// When they cannot be written.
    pub(crate) fn replace_start(&mut self, bytes: &[u8]) -> Result<bool, TraceError> {
        let Encoder::Plain(Target::File(file, _)) = &self.bytes else { return Ok(false) };
        let replaced = file.as_file().write_all_at(bytes, 0);
        replaced.map_err(|source| self.fault(source)).map(|()| true)
    }

    /// The error that it cannot be written.
    pub(crate) fn fault(&self, source: io::Error) -> TraceError {
        TraceError::Write { name: self.name.clone(), source }
    }

    /// Ends the output. A file appears under its name and replaces an older one.
    ///
    /// # Errors
    /// When it cannot be written or renamed.
    pub fn finish(self) -> Result<(), TraceError> {
        let finished = match self.bytes {
            Encoder::Plain(target) => target.finish(),
            Encoder::Zstd(encoder) => encoder.finish().and_then(Target::finish),
            Encoder::Gzip(encoder) => encoder.finish().and_then(Target::finish),
            Encoder::Xz(encoder) => encoder.finish().and_then(Target::finish),
        };
        finished.map_err(|source| TraceError::Write { name: self.name, source })
    }
}

impl Encoder {
    fn new(target: Target, compression: Compression) -> io::Result<Encoder> {
        Ok(match compression {
            Compression::None => Encoder::Plain(target),
            Compression::Zstd => {
                let mut encoder = zstd::Encoder::new(target, ZSTD_LEVEL)?;
                encoder.include_checksum(true)?;
                Encoder::Zstd(encoder)
            }
            Compression::Gzip => Encoder::Gzip(GzEncoder::new(target, Default::default())),
            Compression::Xz => Encoder::Xz(XzEncoder::new(target, XZ_LEVEL)),
        })
    }
}

impl Target {
    fn create(path: &Path) -> io::Result<Target> {
        if path.as_os_str() == "-" {
            return Ok(Target::Stdout(io::stdout()));
        }
        if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            return Ok(Target::Special(File::options().write(true).open(path)?));
        }
        if path.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        // The permissions of a new file, without the umask's bits.
        let permissions = Permissions::from_mode(0o666);
        let file = tempfile::Builder::new()
            .permissions(permissions)
            .tempfile_in(folder.unwrap_or(Path::new(".")))?;
        Ok(Target::File(file, path.to_path_buf()))
    }

    fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        match self {
            Target::File(file, path) => file.persist(path).map(drop).map_err(|fault| fault.error),
            Target::Special(_) | Target::Stdout(_) => Ok(()),
        }
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Target::File(file, _) => file.write(bytes),
            Target::Special(file) => file.write(bytes),
            Target::Stdout(stdout) => stdout.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Target::File(file, _) => file.flush(),
            Target::Special(file) => file.flush(),
            Target::Stdout(stdout) => stdout.flush(),
        }
    }
}
