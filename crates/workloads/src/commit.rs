//! The start and end of a program's transaction, marked once for every memory.

use ebbtide_core::FullMemory;

use crate::Corrupt;

/// Runs `body` as one transaction and waits until it survives a crash, if the memory's policy
/// requires that. A memory without a persist part just runs it.
///
/// # Errors
/// The error of `body`, which must then have stored nothing; or the reason why it could not be
/// committed.
pub(crate) fn commit<M: FullMemory, R>(
    memory: &mut M,
    body: impl FnMut(&mut M) -> Result<R, Corrupt>,
) -> Result<R, Corrupt> {
    let (result, lsn) = memory.transaction(body).map_err(|error| Corrupt(error.to_string()))?;
    memory.durable(lsn).map_err(|error| Corrupt(error.to_string()))?;
    result
}
