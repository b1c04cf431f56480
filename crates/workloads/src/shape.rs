//! [`Shape`]: the parameters of a program. [`Named`]: a program that users choose by name.

use crate::{Scatter, Workload};

/// The parameters of a program's data and job stream.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    /// Upper bound of the image in bytes. A program uses as much of it as its structure allows.
    pub dataset_bytes: u64,
    /// Zipf skew of the keys: 0 is uniform.
    pub theta: f64,
    /// How keys of different popularity are laid over pages.
    pub scatter: Scatter,
    /// Seed of the layout and the job stream.
    pub seed: u64,
    /// Simple instructions computed per job, spread over the job's accesses.
    pub work_instructions: u64,
}

impl Default for Shape {
    /// 1 GiB, Zipf θ = 0.99 (YCSB's), hot data clustered on pages, no computing.
    fn default() -> Shape {
        Shape {
            dataset_bytes: 1 << 30,
            theta: 0.99,
            scatter: Scatter::Pages,
            seed: 1,
            work_instructions: 0,
        }
    }
}

/// A program that users choose by name, with its properties before it is built.
pub trait Named: Workload + Sized {
    /// The name in options and results.
    const NAME: &'static str;
    /// Description of the program, in one line.
    const DESCRIPTION: &'static str;
    /// Work of one job, in one line.
    const MIX: &'static str;
    /// Source of its definition.
    const SOURCE: &'static str;
    /// The least [`Shape::dataset_bytes`] that holds the structure.
    const MIN_BYTES: u64;
    /// Stack size of a job in bytes: a quarter more than any job used in a release build, and about
    /// 4 KiB to unwind. `bench` prints the stack that jobs used.
    const STACK_BYTES: usize = 12 << 10;

    /// Returns the program with the largest dataset that fits in `shape.dataset_bytes`. This must
    /// be from [`MIN_BYTES`](Named::MIN_BYTES) to [`Kind::MAX_BYTES`](crate::Kind::MAX_BYTES).
    /// Takes constant time and memory for any size.
    fn with_shape(shape: &Shape) -> Self;

    /// Sets the instructions to compute per job.
    fn set_work(&mut self, instructions: u64);
}
