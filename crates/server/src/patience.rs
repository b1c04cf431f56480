//! Commands give up waiting while a script runs longer than the limit.

use ebbtide_core::FullMemory;

/// The error of a command that gives up, or that comes while the script runs.
pub(crate) const BUSY: &str =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";

/// Sets whether the job gives up where it waits while a script runs longer than the limit.
pub(crate) fn limit_patience<M: FullMemory>(memory: &mut M, is_limited: bool) {
    if let Some(patience) = memory.patience() {
        patience.limit(is_limited);
    }
}
