//! Joins leaves that a command has left with few entries.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{DATABASES, Keyspace};

/// Joins the leaves of a hash, in every database, that have become sparse.
pub(crate) fn join_sparse<M: FullMemory>(memory: &mut M, keyspace: &Keyspace, hash: u64) {
    for database in 0..DATABASES {
        if keyspace.is_sparse(memory, database, hash) {
            // If the log cannot be written, the command reports it.
            let _ =
                keyspace.exclusive(memory, &[hash], |memory| keyspace.join(memory, database, hash));
        }
    }
}

/// As [`join_sparse`], for a command that holds stripes.
pub(crate) fn join_sparse_held<M: FullMemory>(memory: &mut M, keyspace: &Keyspace, hash: u64) {
    for database in 0..DATABASES {
        if keyspace.is_sparse(memory, database, hash) {
            // If the log cannot be written, the command reports it.
            let _ = memory.transaction(|memory| keyspace.join(memory, database, hash));
        }
    }
}
