//! The end of the process: errors in the middle of a plain load or store, which has no caller to
//! return to.

use std::io::Write;

/// Prints one line on standard error and ends the process.
pub(super) fn fatal(what: std::fmt::Arguments<'_>) -> ! {
    let line = format!("ebbtide: {what}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    std::process::abort()
}
