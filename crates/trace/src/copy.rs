//! [`copy_to`]: a whole trace into a file.

use std::path::Path;

use crate::{Compression, Format, Op, Output, Source, TraceError};

/// Writes the entries of `source` to the file at `path`, or to standard output for `-`. The file
/// appears when it is complete. `description` describes the trace, in formats that store it.
///
/// Without `format`, the ending of the name decides; a name without an ending gives the native
/// format. Returns the format. A name that ends in `.zst`, `.gz` or `.xz` compresses the file. The
/// native format has compressed blocks and is never compressed again.
///
/// # Errors
/// [`TraceError`] of the source or of the file. [`TraceError::OnlyHints`] if there is no access and
/// the format does not store hints.
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
