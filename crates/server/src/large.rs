//! Arguments and replies that never lie in DRAM as a whole.

use std::sync::Arc;

use ebbtide_core::FullMemory;
use ebbtide_core::durability::Lsn;
use ebbtide_engine::Hold;
use ebbtide_structures::keyspace::{
    Entry, Full, Keyspace, Large, VALUE_BYTES_MAX, WHOLE_BYTES_MAX,
};

use crate::failure::Failure;
use crate::space;
use crate::state::State;

/// Maximum bytes of a value that one step moves between DRAM and flash.
pub const PIECE_BYTES: usize = WHOLE_BYTES_MAX;

/// Location of the bytes of a reply.
#[derive(Debug)]
enum Place {
    /// In the value of a key.
    Value(Entry),
    /// In a value without a key.
    Spilled(Large),
}

/// Part of a reply whose bytes lie in memory.
#[derive(Debug)]
pub struct Outgoing {
    place: Place,
    /// Offset of the next byte, and the number of bytes left.
    offset: u64,
    left: u64,
    _hold: Hold,
}

impl Outgoing {
    /// Returns `length` bytes of the large value of `entry`, from byte `offset` on.
    pub fn new(entry: &Entry, offset: u64, length: u64, hold: Hold) -> Outgoing {
        Outgoing { place: Place::Value(entry.clone()), offset, left: length, _hold: hold }
    }

    /// Returns an empty reply. [`spill`](Outgoing::spill) adds bytes.
    ///
    /// # Errors
    /// Returns an error if there is no room, or the log cannot be written.
    pub fn spilled<M: FullMemory>(
        memory: &mut M,
        keyspace: &Keyspace,
        state: &State,
    ) -> Result<Outgoing, Failure> {
        let (large, hold) = begin(memory, keyspace, state)?;
        Ok(Outgoing { place: Place::Spilled(large), offset: 0, left: 0, _hold: hold })
    }

    /// Appends at most [`PIECE_BYTES`]. Returns false if the bytes need a new `Outgoing`.
    ///
    /// # Errors
    /// Returns an error if there is no room, or the log cannot be written.
    pub fn spill<M: FullMemory>(
        &mut self,
        memory: &mut M,
        keyspace: &Keyspace,
        state: &State,
        bytes: &[u8],
    ) -> Result<bool, Failure> {
        let Place::Spilled(large) = &mut self.place else { return Ok(false) };
        let end = large.bytes;
        if end + bytes.len() as u64 > VALUE_BYTES_MAX {
            return Ok(false);
        }
        write(memory, keyspace, state, large, (end, bytes))?;
        self.left += bytes.len() as u64;
        Ok(true)
    }

    /// Number of bytes that were not read yet.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Appends the next piece to `into`. Returns true if it was the last one.
    pub fn read<M: FullMemory>(
        &mut self,
        memory: &mut M,
        keyspace: &Keyspace,
        into: &mut Vec<u8>,
    ) -> bool {
        let length = self.left.min(PIECE_BYTES as u64);
        match &self.place {
            Place::Value(entry) => {
                keyspace.read_range(memory, entry, self.offset, length as usize, into);
            }
            Place::Spilled(large) => {
                keyspace.read_large(memory, large, self.offset, length as usize, into);
            }
        }
        self.offset += length;
        self.left -= length;
        self.left == 0
    }
}

/// An argument whose bytes lie in memory. The last ones may still be coming.
#[derive(Debug, Clone)]
pub struct Staged {
    /// Index of the argument in its request.
    pub argument: usize,
    value: Result<Written, Failure>,
}

/// A held value that has no key.
#[derive(Debug, Clone)]
struct Written {
    large: Large,
    _hold: Arc<Hold>,
}

impl Staged {
    /// Number of bytes that are in memory.
    pub fn bytes(&self) -> u64 {
        self.value.as_ref().map_or(0, |written| written.large.bytes)
    }

    /// Returns an argument without bytes.
    pub fn begin<M: FullMemory>(
        memory: &mut M,
        keyspace: &Keyspace,
        state: &State,
        argument: usize,
    ) -> Staged {
        let value = begin(memory, keyspace, state)
            .map(|(large, hold)| Written { large, _hold: Arc::new(hold) });
        Staged { argument, value }
    }

    /// Appends at most [`PIECE_BYTES`]. After an error it drops further bytes.
    pub fn add<M: FullMemory>(
        &mut self,
        memory: &mut M,
        keyspace: &Keyspace,
        state: &State,
        bytes: &[u8],
    ) {
        if let Ok(written) = &mut self.value {
            let offset = written.large.bytes;
            let large = &mut written.large;
            if let Err(failure) = write(memory, keyspace, state, large, (offset, bytes)) {
                self.value = Err(failure);
            }
        }
    }

    /// Returns the whole argument.
    ///
    /// # Errors
    /// Returns the reason if it could not be written.
    pub fn value(&self) -> Result<&Large, Failure> {
        self.value.as_ref().map(|written| &written.large).map_err(Failure::clone)
    }
}

/// Begins a large value without a key, in its own transaction or as a part of the current one.
///
/// # Errors
/// Returns an error if there is no room, or the log cannot be written.
pub fn begin<M: FullMemory>(
    memory: &mut M,
    keyspace: &Keyspace,
    state: &State,
) -> Result<(Large, Hold), Failure> {
    loop {
        let (begun, _) = memory
            .transaction(|memory| keyspace.begin_large(memory, |id| state.shared.holds.hold(id)))?;
        match begun {
            Err(Full) if may_make(memory, state, keyspace) => {}
            begun => return Ok(begun?),
        }
    }
}

/// Frees pages outside of a transaction. Returns true if it freed any.
fn may_make<M: FullMemory>(memory: &mut M, state: &State, keyspace: &Keyspace) -> bool {
    memory.latches().is_none() && space::make_held(memory, state, keyspace)
}

/// Writes at most [`PIECE_BYTES`] into a large value from byte `offset` on, in its own transaction
/// or as a part of the current one.
///
/// # Errors
/// Returns an error if there is no room, or the log cannot be written.
pub fn write<M: FullMemory>(
    memory: &mut M,
    keyspace: &Keyspace,
    state: &State,
    large: &mut Large,
    (offset, bytes): (u64, &[u8]),
) -> Result<Lsn, Failure> {
    loop {
        let (written, lsn) = memory.transaction(|memory| {
            let mut larger = large.clone();
            keyspace.write_large(memory, &mut larger, offset, bytes).map(|()| larger)
        })?;
        match written {
            Err(Full) if may_make(memory, state, keyspace) => {}
            written => {
                *large = written?;
                return Ok(lsn);
            }
        }
    }
}
