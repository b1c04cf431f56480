//! [`copy_to`]: a whole trace into a file.

use std::path::Path;

use crate::{Compression, Format, Op, Output, Source, TraceError};

/// Writes the entries of `source` to the file at `path`, or to standard output for `-`. Returns the
/// format: `format`, or the one of the file's name. A name that ends in `.zst`, `.gz` or `.xz`
/// compresses the file, except in the native format, whose blocks are compressed already. The file
/// appears when it is complete.
///
/// # Errors
/// [`TraceError`] of the source or of the file. [`TraceError::OnlyHints`] for hints in a format
/// without hints, because a file without an access is not a trace.
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
    let holds_hints = !format.cannot_hold().contains(&"hints");
    let (mut batch, mut any) = (Vec::new(), false);
    loop {
        let more = source.fill(&mut batch)?;
        batch.iter().try_for_each(|access| sink.write(access))?;
        any |= batch.iter().any(|access| holds_hints || access.op != Op::Hint);
        if !more {
            break;
        }
    }
    if !any && !holds_hints {
        return Err(TraceError::OnlyHints { format: format.name() });
    }
    sink.finish()?;
    Ok(format)
}
