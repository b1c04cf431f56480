//! [`FullMemory`]: what data structures, workloads and simulated machines need beside [`Memory`].

use crate::addr::{Addr, LINE_BYTES, PageId};
use crate::durability::{HeldLatches, Lsn, TransactionError};

use super::{Memory, Patience, Value};

/// The rest of a [`Memory`], for code that is part of the system rather than of a program.
///
/// * *Data structures* use latches, checked loads and [`forget`](FullMemory::forget).
/// * *Workloads* tell how much they compute, and which loads are independent of each other.
/// * *Simulated machines* charge the time of that.
///
/// Every memory has both traits. A program with data structures of its own may use this one too.
/// The rules of [`Memory`] hold for these methods as well.
pub trait FullMemory: Memory {
    /// Computes for `instructions` simple instructions between accesses. Real memories execute
    /// them; simulated ones charge their time.
    fn work(&mut self, instructions: u64);

    /// The job's patience, if its calls of [`wait`](Memory::wait) can end with it.
    fn patience(&mut self) -> Option<&mut Patience> {
        None
    }

    /// Lets other jobs that are ready run before this one goes on. A memory with one job does
    /// nothing.
    fn let_others_run(&mut self) {}

    /// Discards the contents of `page`. Until it is stored to again, each of its words reads as its
    /// old value or zero, also after a crash. A memory over flash may then give the page a frame
    /// without reading it.
    ///
    /// No other job may use the page or wait on a word of it, unless it accepts that words change
    /// at any moment. A latch in it is free, and remains so. Inside a transaction the page is
    /// forgotten when the stores take effect. Loads of the transaction itself return zeros until it
    /// has stored something.
    fn forget(&mut self, _page: PageId) {}

    /// Logs what the `bytes` bytes from `at` on, whole words, hold now: as persistent memory's
    /// flush of a range. Stores outside of transactions may survive a crash; those in the range do
    /// once the place given is [durable](Memory::durable). Each page of the range is logged in one
    /// step. Does nothing inside a transaction, whose stores are logged anyway.
    ///
    /// # Errors
    /// When the log cannot be written any more.
    fn persist(&mut self, _at: Addr, _bytes: u64) -> Result<Lsn, TransactionError> {
        Ok(Lsn::ZERO)
    }

    /// As [`compare_exchange`](Memory::compare_exchange), at once also inside a transaction, and
    /// never logged: for the word of a latch.
    fn exchange_latch(&mut self, at: Addr, current: u64, new: u64) -> Result<u64, u64> {
        self.compare_exchange(at, current, new)
    }

    /// Loads the current word of the latch at `at`. Inside a transaction as well: its stores and
    /// [forgotten](FullMemory::forget) pages change no latch.
    fn load_latch(&mut self, at: Addr) -> u64 {
        self.load(at)
    }

    /// As [`load`](Memory::load) of a word. Inside a transaction the word is compared with what was
    /// read when the transaction commits. If another job has changed it, `body` runs again.
    fn load_checked(&mut self, at: Addr) -> u64 {
        self.load(at)
    }

    /// The latches of the transaction under way; `None` outside of one. For
    /// `ebbtide_structures::latch`, which keeps a latch until the stores under it have taken
    /// effect.
    fn latches(&mut self) -> Option<&mut HeldLatches> {
        None
    }

    /// Returns how many times the store behind this memory was opened. A latch carries that number.
    /// One with an older number counts as free.
    fn boot(&self) -> u32 {
        0
    }

    /// The values at `at`, into `out`. No address depends on the value at another, so a memory may
    /// fetch all of them at once, in any order.
    ///
    /// # Panics
    /// When `out` is not as long as `at`.
    fn load_all<T: Value>(&mut self, at: &[Addr], out: &mut [T]) {
        assert_eq!(at.len(), out.len(), "a value for each address");
        for (at, out) in at.iter().zip(out) {
            *out = self.load(*at);
        }
    }

    /// Copies the bytes from `at` on into `into`. The range may begin anywhere and span any number
    /// of lines. Other jobs may store to it at the same time. No word tears.
    fn read_bytes(&mut self, at: Addr, into: &mut [u8]) {
        let (mut at, mut rest) = (at, into);
        while !rest.is_empty() {
            let line = self.line(at);
            let offset = at.0 as usize % LINE_BYTES;
            let (piece, later) = rest.split_at_mut(rest.len().min(LINE_BYTES - offset));
            piece.copy_from_slice(&bytemuck::bytes_of(&line)[offset..offset + piece.len()]);
            (at, rest) = (at + piece.len() as u64, later);
        }
    }

    /// The 64-byte line that `at` lies in.
    fn line(&mut self, at: Addr) -> [u64; LINE_BYTES / 8] {
        self.load(at.line_start())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{LINES_BYTES, Lines};
    use super::*;

    impl FullMemory for Lines {
        fn work(&mut self, _instructions: u64) {}
    }

    #[test]
    fn a_memory_without_a_persist_part_logs_nothing_and_keeps_no_latches() {
        let mut memory = Lines::new();
        assert_eq!(memory.persist(Addr(0), 8), Ok(Lsn::ZERO));
        assert_eq!(memory.exchange_latch(Addr(8), 8, 3), Ok(8));
        assert_eq!(memory.exchange_latch(Addr(8), 8, 4), Err(3));
        assert!(memory.latches().is_none() && memory.patience().is_none());
        assert_eq!(memory.boot(), 0);
    }

    #[test]
    fn values_at_independent_addresses_are_loaded_each_to_its_place() {
        let mut values = [0u64; 3];
        Lines::new().load_all(&[Addr(80), Addr(0), Addr(8)], &mut values);
        assert_eq!(values, [80, 0, 8]);
    }

    #[test]
    fn bytes_are_read_from_any_place_over_any_number_of_lines() {
        let mut memory = Lines::new();
        let all = bytemuck::bytes_of(&memory.0).to_vec();
        for start in 0..LINES_BYTES {
            for end in start..=LINES_BYTES {
                let mut read = vec![0xee; end - start];
                memory.read_bytes(Addr(start as u64), &mut read);
                assert_eq!(read, all[start..end]);
            }
        }
    }

    #[test]
    fn a_line_begins_at_the_line_of_its_address() {
        assert_eq!(Lines::new().line(Addr(72)), [64, 72, 80, 88, 96, 104, 112, 120]);
    }
}
