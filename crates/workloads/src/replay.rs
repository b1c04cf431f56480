//! [`Replay`]: repeats the accesses of a trace.

use std::ops::Range;
use std::sync::Arc;

use ebbtide_core::{Addr, FullMemory, Hint, LINE_BYTES, PAGE_BYTES, PageId};
use ebbtide_trace::Op;

use crate::keys::share;
use crate::shape::{Named, Shape};
use crate::{Corrupt, PageBytes, RandomWrite, Workload};

/// Steps in a job.
const STEPS: u64 = 64;

/// An operation on a line in 4 bytes: the line's number and two bits for the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step(u32);

/// The operations of the two lowest bits of a step, which are not 3.
const OPS: [Op; 3] = [Op::Read, Op::Write, Op::Hint];

impl Step {
    /// The number of pages that steps can address: 64 GiB in pages of 4 KiB.
    pub const PAGES_MAX: u64 = (1 << 30) * LINE_BYTES as u64 / PAGE_BYTES as u64;

    /// Returns the operation `op` on the line that contains `at`.
    ///
    /// # Panics
    /// If `at` lies beyond [`Step::PAGES_MAX`].
    pub fn new(op: Op, at: Addr) -> Step {
        assert!(at.page().0 < Step::PAGES_MAX, "{at:?} is beyond what a step reaches");
        Step((at.0 / LINE_BYTES as u64) as u32 * 4 + op as u32)
    }

    /// Returns the step with these [`bits`](Step::bits); `None` if they are not valid.
    pub fn from_bits(bits: u32) -> Option<Step> {
        OPS.get(bits as usize % 4).map(|_| Step(bits))
    }

    /// Returns the step as a number, to store it.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// Returns the operation.
    #[inline]
    pub fn op(self) -> Op {
        OPS[self.0 as usize % 4]
    }

    /// Returns the address of the line.
    #[inline]
    pub fn at(self) -> Addr {
        Addr(u64::from(self.0 / 4) * LINE_BYTES as u64)
    }
}

/// Repeats the accesses of a trace, 64 steps a job: job `n` makes steps `64·n` to `64·n + 63` of
/// the endless repetition of the trace.
///
/// A trace has addresses and no data, so it uses the data of [`RandomWrite`]. A line is checked
/// when it is read and before it is written, and counts its writes. The times of the trace are
/// ignored.
#[derive(Debug, Clone)]
pub struct Replay {
    data: RandomWrite,
    steps: Arc<Vec<Step>>,
    writes: bool,
    work: u64,
}

impl Replay {
    /// The name in results.
    pub const NAME: &'static str = "replay";

    /// Stack size that a job needs, in bytes.
    pub const STACK_BYTES: usize = RandomWrite::STACK_BYTES;

    /// Returns a replay of `steps`. Its image has all pages from 0 to the last that they access.
    /// `seed` selects the data.
    ///
    /// # Panics
    /// If `steps` is empty.
    pub fn new(steps: Vec<Step>, seed: u64) -> Replay {
        let last = steps.iter().map(|step| step.at().page()).max().expect("a replay has steps");
        let dataset_bytes = (last.0 + 1) * PAGE_BYTES as u64;
        let data = RandomWrite::with_shape(&Shape { dataset_bytes, seed, ..Shape::default() });
        let writes = steps.iter().any(|step| step.op() == Op::Write);
        Replay { data, steps: Arc::new(steps), writes, work: 0 }
    }

    /// Returns the steps of the trace.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the 64 steps that job `job` makes, in order.
    #[inline]
    pub fn job(&self, job: u64) -> impl Iterator<Item = Step> + use<'_> {
        let count = self.steps.len() as u64;
        let first = (job % count) * STEPS % count;
        let again = self.steps.iter().cycle();
        self.steps[first as usize..].iter().chain(again).take(STEPS as usize).copied()
    }

    /// Instructions to compute per job, from now on.
    pub(crate) fn set_work(&mut self, instructions: u64) {
        self.work = instructions;
    }
}

impl Workload for Replay {
    fn size_bytes(&self) -> u64 {
        self.data.size_bytes()
    }

    fn image(&self, page: PageId, out: &mut PageBytes) {
        self.data.image(page, out);
    }

    fn image_lines(&self, page: PageId, lines: Range<usize>, out: &mut PageBytes) -> Range<usize> {
        self.data.image_lines(page, lines, out)
    }

    fn run<M: FullMemory>(&self, job: u64, memory: &mut M) -> Result<(), Corrupt> {
        for (part, step) in (0..).zip(self.job(job)) {
            memory.work(share(self.work, part, STEPS));
            let at = step.at();
            match step.op() {
                Op::Read => {
                    self.data.read(memory, at)?;
                }
                Op::Write => {
                    self.data.write(memory, at)?;
                }
                Op::Hint => memory.hint(Hint::WillNeed(at)),
            }
        }
        Ok(())
    }

    fn writes(&self) -> bool {
        self.writes
    }
}
