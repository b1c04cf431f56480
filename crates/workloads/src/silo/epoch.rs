//! [`Epoch`]: the database's one global word, and its advance (Silo, SOSP'13, §4.1).

use ebbtide_core::{Addr, FullMemory};

use crate::Corrupt;
use ebbtide_structures::checksum::Checksums;

/// Jobs between two epochs: some milliseconds of one core's work. The paper's epoch is 40 ms of
/// many cores' work.
pub(crate) const COMMITS_PER_EPOCH: u64 = 1024;

/// The epoch in memory: the number under 32 bits of its checksum.
#[derive(Debug, Clone)]
pub(super) struct Epoch {
    at: Addr,
    checksums: Checksums,
}

const CHECKSUM_SHIFT: u32 = 32;

impl Epoch {
    pub(super) fn new(at: Addr, checksums: Checksums) -> Epoch {
        Epoch { at, checksums }
    }

    /// The word of epoch `epoch`.
    pub(super) fn word(&self, epoch: u64) -> u64 {
        self.checksums.of(self.at, &[epoch]) << CHECKSUM_SHIFT | epoch
    }

    /// The current epoch.
    ///
    /// # Errors
    /// [`Corrupt`] when the word does not match its checksum.
    pub(super) fn now<M: FullMemory>(&self, memory: &mut M) -> Result<u64, Corrupt> {
        let word: u64 = memory.load(self.at);
        let epoch = word & ((1 << CHECKSUM_SHIFT) - 1);
        if word != self.word(epoch) {
            return Err(Corrupt(format!("the epoch at {:?} does not match its checksum", self.at)));
        }
        Ok(epoch)
    }

    /// Advances to the next epoch, unless another job just did. False in the last epoch, which
    /// never ends.
    ///
    /// # Errors
    /// [`Corrupt`] when the word does not match its checksum.
    pub(super) fn advance<M: FullMemory>(&self, memory: &mut M) -> Result<bool, Corrupt> {
        let now = self.now(memory)?;
        let is_last = now + 1 >= 1 << CHECKSUM_SHIFT;
        if !is_last {
            let (from, to) = (self.word(now), self.word(now + 1));
            // If it fails, another job did the same.
            let _ = memory.compare_exchange(self.at, from, to);
        }
        Ok(!is_last)
    }
}
