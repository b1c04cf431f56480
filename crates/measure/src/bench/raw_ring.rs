//! [`RawRing`]: page reads between the jobs of a program, without an engine.
//!
//! Their cost is what the kernel and the device need for a read. An engine adds its own cost, so
//! the quotient of both says what an engine costs on any device.

use std::io;

use ebbtide_engine::device::page_reads::PageReads;
use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::figures::Figure;
use super::protocol::RawReads;
use super::results::ModeOutcome;
use crate::doctor::probe::Target;

/// A ring whose reads go out in batches, as the jobs of a program owe them.
pub(super) struct RawRing<'t> {
    target: &'t Target,
    ring: PageReads<'t>,
    reads: &'t RawReads,
    random: Pcg64,
    /// Places for reads that are not in flight.
    free: Vec<usize>,
    /// Reads that the jobs so far should have made, beyond those made.
    owed: f64,
    made: u64,
}

impl<'t> RawRing<'t> {
    /// A ring for `reads` of `target`.
    ///
    /// # Errors
    /// When this kernel or container refuses io_uring.
    pub(super) fn new(target: &'t Target, reads: &'t RawReads) -> io::Result<RawRing<'t>> {
        Ok(RawRing {
            target,
            ring: target.ring(reads.in_flight)?,
            reads,
            random: Pcg64::seed_from_u64(u64::from(reads.batch)),
            free: (0..reads.in_flight as usize).collect(),
            owed: 0.0,
            made: 0,
        })
    }

    /// Makes the reads that are due after another job.
    ///
    /// # Errors
    /// When a read fails.
    pub(super) fn after_job(&mut self) -> io::Result<()> {
        let RawReads { per_job, batch, .. } = *self.reads;
        self.owed += per_job;
        while self.owed >= f64::from(batch) {
            self.owed -= f64::from(batch);
            while self.free.len() < batch as usize {
                self.ring.wait(1)?;
                self.take_finished()?;
            }
            for slot in self.free.drain(self.free.len() - batch as usize..) {
                self.ring.read(slot, self.target.random_offset(&mut self.random))?;
            }
            self.ring.wait(0)?;
            self.take_finished()?;
            self.made += u64::from(batch);
        }
        Ok(())
    }

    /// Returns the number of reads made.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    fn take_finished(&mut self) -> io::Result<()> {
        self.ring.finished(|slot| self.free.push(slot))
    }
}

impl RawReads {
    /// Reads of `file` as the engine made them in `outcome`: as many a job, a submission, and in
    /// flight. `None` if it made none.
    pub(super) fn as_in(outcome: &ModeOutcome, file: std::path::PathBuf) -> Option<RawReads> {
        let reads_per_s = outcome.number(Figure::FlashReadsPerS)?;
        let all_per_s = reads_per_s + outcome.number(Figure::FlashWritesPerS)?;
        let batch = outcome.number(Figure::RequestsPerSubmission)? * reads_per_s / all_per_s;
        // Little's law: what is in flight is the rate times the time of each.
        let in_flight = reads_per_s * outcome.number(Figure::FlashReadUs)? / 1e6;
        let whole = |count: f64| count.round().clamp(1.0, IN_FLIGHT_MAX) as u32;
        (reads_per_s > 0.0).then_some(RawReads {
            file,
            per_job: outcome.number(Figure::MissesPerJob)?,
            batch: whole(batch),
            in_flight: whole(in_flight).max(whole(batch)),
        })
    }
}

/// The most reads in flight.
const IN_FLIGHT_MAX: f64 = 1024.0;

#[cfg(test)]
mod tests {
    use super::super::options::Mode;
    use super::super::text::tests::{at, outcome, with};
    use super::*;

    #[test]
    fn the_raw_ring_reads_as_the_engine_did() {
        let figures = [
            (Figure::FlashReadsPerS, at(90_000.0)),
            (Figure::FlashWritesPerS, at(30_000.0)),
            (Figure::FlashReadUs, at(200.0)),
            (Figure::RequestsPerSubmission, at(8.0)),
            (Figure::MissesPerJob, at(1.5)),
        ];
        let engine = with(outcome(Mode::Ebbtide), &figures);
        let reads = RawReads::as_in(&engine, "data".into()).expect("it read");
        assert_eq!((reads.per_job, reads.batch, reads.in_flight), (1.5, 6, 18));
        let engine = with(engine, &[(Figure::FlashReadsPerS, at(0.0))]);
        assert_eq!(RawReads::as_in(&engine, "data".into()), None);
    }

    #[test]
    fn jobs_that_owe_less_than_a_batch_make_no_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("pages");
        std::fs::write(&file, vec![1; 64 << 12]).expect("a file");
        let target = Target::open(&file).expect("a target");
        let reads = RawReads { file, per_job: 0.75, batch: 4, in_flight: 8 };
        let Ok(mut ring) = RawRing::new(&target, &reads) else { return };
        let mut made = Vec::new();
        for _ in 0..16 {
            ring.after_job().expect("reads");
            made.push(ring.made());
        }
        assert_eq!(made, [0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 8, 8, 8, 8, 8, 12]);
    }
}
