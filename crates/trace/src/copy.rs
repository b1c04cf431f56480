//! [`copy_to`]: a whole trace into a file.

use std::path::Path;

use crate::{Compression, Format, Output, Source, TraceError};

/// Writes the entries of `source` to the file at `path`, or to standard output for `-`, and gives
/// the format: `format`, or the one of the file's name. A name that ends in `.zst` compresses the
/// file, except in the native format, whose blocks are compressed already. The file appears when it
/// is complete.
///
/// # Errors
/// [`TraceError`], of the source or of the file.
pub fn copy_to(
    source: &mut dyn Source,
    path: &Path,
    format: Option<Format>,
    description: &str,
) -> Result<Format, TraceError> {
    let format = match format {
        Some(format) => format,
        None => Format::of_name(path)?.unwrap_or(Format::Native),
    };
    let compression = match format {
        Format::Native => Compression::None,
        _ => Compression::for_path(path),
    };
    let mut sink = format.write(Output::create(path, compression)?, description)?;
    let mut batch = Vec::new();
    loop {
        let more = source.fill(&mut batch)?;
        batch.iter().try_for_each(|access| sink.write(access))?;
        if !more {
            break;
        }
    }
    sink.finish()?;
    Ok(format)
}
