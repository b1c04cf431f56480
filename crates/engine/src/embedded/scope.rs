//! [`Scope`]: many jobs at once that borrow from the program.

use super::error::Error;
use super::pending::Pending;
use super::store::Store;
use crate::api::job_scope::{self, JobScope};
use crate::core::flash_memory::FlashMemory;

/// The jobs of a [`Store::scope`].
///
/// ```
/// # use ebbtide_engine::embedded as ebbtide;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data.ebb");
/// # let store = ebbtide::Store::builder(path).size("4MiB").dram("8MiB").open()?;
/// let text = "ebb and flow".to_string();
/// let words = store.scope(|scope| {
///     let job = scope.submit(|_| Ok(text.split(' ').count()));
///     job.wait()
/// })?;
/// assert_eq!(words, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    store: &'env Store,
    jobs: &'scope JobScope<'scope, 'env>,
}

impl Store {
    /// Runs `body`, which submits jobs that may borrow what lives longer than this call. Returns
    /// when all of them have ended.
    ///
    /// ```
    /// # use ebbtide_engine::embedded as ebbtide;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("data.ebb");
    /// use ebbtide::Store;
    ///
    /// let store = Store::builder(path).size("4MiB").structures("1MiB").dram("8MiB").open()?;
    /// let prices = store.vector::<u64>("prices", 1_000)?;
    /// let orders = vec![vec![3, 5, 8], vec![1], vec![2, 2]];
    /// let sums = store.scope(|scope| {
    ///     let jobs: Vec<_> = orders
    ///         .iter()
    ///         .map(|order| {
    ///             scope.submit(move |memory| {
    ///                 Ok(order.iter().map(|item| prices.get(memory, *item) + 1).sum::<u64>())
    ///             })
    ///         })
    ///         .collect();
    ///     jobs.into_iter().map(|job| job.wait()).collect::<Result<Vec<_>, _>>()
    /// })?;
    /// assert_eq!(sums, [3, 1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// When `body` does, after the jobs have ended. Inside a job, whose core would wait with it.
    pub fn scope<'env, R>(
        &'env self,
        body: impl for<'scope> FnOnce(Scope<'scope, 'env>) -> R,
    ) -> R {
        job_scope::scope(|jobs| body(Scope { store: self, jobs }))
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Submits a job, and returns while it runs. Waits while too many jobs are queued. A store that
    /// is closed is the error of the result.
    pub fn submit<T: Send + 'scope>(
        &self,
        job: impl FnOnce(&mut FlashMemory<'_>) -> Result<T, Error> + Send + 'scope,
    ) -> Pending<T> {
        Pending::of(self.store.shared.open().map(|open| self.jobs.submit(&open.jobs, job)))
    }
}
