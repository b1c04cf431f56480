//! [`Replay`]: the accesses of a trace, made once more.

use std::ops::Range;
use std::sync::Arc;

use ebbtide_core::{Addr, Hint, LINE_BYTES, Memory, PAGE_BYTES, PageId};
use ebbtide_trace::Op;

use crate::keys::share;
use crate::shape::{Named, Shape};
use crate::{PageBytes, RandomWrite, Workload, Wrong};

/// Steps in a job.
const STEPS: u64 = 64;

/// A line that is read, written or hinted at, in 4 bytes: its number, and two bits for what is
/// done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step(u32);

/// What the two lowest bits of a step stand for; no step has 3.
const OPS: [Op; 3] = [Op::Read, Op::Write, Op::Hint];

impl Step {
    /// The most pages of data that steps reach: 64 GiB.
    pub const PAGES_MAX: u64 = (1 << 30) * LINE_BYTES as u64 / PAGE_BYTES as u64;

    /// What `op` does to the line that `at` lies in.
    ///
    /// # Panics
    /// When `at` lies beyond [`Step::PAGES_MAX`].
    pub fn new(op: Op, at: Addr) -> Step {
        assert!(at.page().0 < Step::PAGES_MAX, "{at:?} is beyond what a step reaches");
        Step((at.0 / LINE_BYTES as u64) as u32 * 4 + op as u32)
    }

    /// The step whose [`bits`](Step::bits) are `bits`, if they are a step's.
    pub fn from_bits(bits: u32) -> Option<Step> {
        OPS.get(bits as usize % 4).map(|_| Step(bits))
    }

    /// The step as a number.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// What is done.
    #[inline]
    pub fn op(self) -> Op {
        OPS[self.0 as usize % 4]
    }

    /// Where the line starts.
    #[inline]
    pub fn at(self) -> Addr {
        Addr(u64::from(self.0 / 4) * LINE_BYTES as u64)
    }
}

/// Makes the accesses of a trace, 64 steps a job, over and over: job `n` makes steps `64·n` to
/// `64·n + 63` of one endless stream, in which the first follows the last.
///
/// A trace says where a program went, not what it found there. The data are those of
/// [`RandomWrite`] therefore: a line is checked when it is read and before it is written, and
/// counts how often it was written. Of the times in a trace nothing is kept.
#[derive(Debug, Clone)]
pub struct Replay {
    data: RandomWrite,
    steps: Arc<Vec<Step>>,
    writes: bool,
    work: u64,
}

impl Replay {
    /// What reports call it.
    pub const NAME: &'static str = "replay";

    /// The stack that a job needs.
    pub const STACK_BYTES: usize = RandomWrite::STACK_BYTES;

    /// Makes `steps`, over as many pages as they reach; `seed` selects the data.
    ///
    /// # Panics
    /// When there is no step.
    pub fn new(steps: Vec<Step>, seed: u64) -> Replay {
        let last = steps.iter().map(|step| step.at().page()).max().expect("a replay has steps");
        let dataset_bytes = (last.0 + 1) * PAGE_BYTES as u64;
        let data = RandomWrite::with_shape(&Shape { dataset_bytes, seed, ..Shape::default() });
        let writes = steps.iter().any(|step| step.op() == Op::Write);
        Replay { data, steps: Arc::new(steps), writes, work: 0 }
    }

    /// The steps of the trace.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The steps that job `job` makes, in order.
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

    fn run<M: Memory>(&self, job: u64, memory: &mut M) -> Result<(), Wrong> {
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
