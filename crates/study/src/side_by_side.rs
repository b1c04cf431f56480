//! [`side_by_side`]: runs of the simulator on host threads. The number of threads does not change
//! the results.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use ebbtide_core::Watch;

/// Returns the number of host cores that this process may use. Returns 1 if it is unknown.
pub fn host_threads() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Calls `run` with each number below `count`, as [`side_by_side_by_cost`] with equal costs.
///
/// # Errors
/// As [`side_by_side_by_cost`].
///
/// # Panics
/// When `run` does.
pub fn side_by_side<T: Send, E: Send>(
    count: usize,
    threads: usize,
    watch: Watch<'_>,
    run: impl Fn(usize, Watch<'_>) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    side_by_side_by_cost(&vec![1.0; count], threads, watch, run)
}

/// Calls `run` with the index of each of `costs`, on up to `threads` threads. Returns the results
/// in the order of the indices.
///
/// The watch given to a run reports the progress of all runs together. A run's weight in it is its
/// cost: its expected time, in any unit.
///
/// # Errors
/// The error of the lowest index. After an error no further run begins, and running ones finish.
///
/// # Panics
/// When `run` does.
pub fn side_by_side_by_cost<T: Send, E: Send>(
    costs: &[f64],
    threads: usize,
    watch: Watch<'_>,
    run: impl Fn(usize, Watch<'_>) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let (count, whole) = (costs.len(), costs.iter().sum::<f64>());
    let next = AtomicUsize::new(0);
    let shares = Mutex::new(vec![0.0; count]);
    let results = Mutex::new(Vec::with_capacity(count));
    let tell = |number: usize, stage: &str, share: f64| {
        let done = {
            let mut shares = shares.lock().expect("no thread panics with it held");
            shares[number] = share * costs[number];
            shares.iter().sum::<f64>() / whole
        };
        watch.show(stage, done);
    };
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return;
            }
            let own = |stage: &str, share: f64| tell(number, stage, share);
            let result = run(number, watch.telling(&own));
            if result.is_err() {
                next.store(count, Ordering::Relaxed);
            }
            results.lock().expect("no thread panics with it held").push((number, result));
        }
    };
    thread::scope(|scope| {
        (1..threads.min(count)).for_each(|_| {
            scope.spawn(work);
        });
        work();
    });
    let mut results = results.into_inner().expect("no thread panicked with it held");
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use ebbtide_core::{Stop, Stopped};

    use super::*;

    #[test]
    fn results_come_in_order_whatever_the_threads() {
        for threads in [1, 2, 7] {
            let squares =
                side_by_side(100, threads, Watch::unattended(), |n, _| Ok::<_, ()>(n * n));
            assert_eq!(squares, Ok((0..100).map(|n| n * n).collect()));
        }
        assert_eq!(side_by_side(0, 4, Watch::unattended(), |_, _| Err::<(), _>(())), Ok(vec![]));
    }

    #[test]
    fn the_first_error_in_order_counts_and_no_run_begins_after_it() {
        let begun = AtomicUsize::new(0);
        let run = |n, _: Watch<'_>| {
            begun.fetch_add(1, Ordering::Relaxed);
            if n >= 3 { Err(n) } else { Ok(()) }
        };
        assert_eq!(side_by_side(1_000, 1, Watch::unattended(), run), Err(3));
        assert_eq!(begun.load(Ordering::Relaxed), 4);
        assert_eq!(side_by_side(1_000, 4, Watch::unattended(), run), Err(3));
    }

    #[test]
    fn a_run_counts_by_its_cost() {
        let told = Mutex::new(Vec::new());
        let show = |_: &str, share: f64| told.lock().expect("no panic").push(share);
        let stop = Stop::new();
        let run = |_, watch: Watch<'_>| watch.tell("done", 1.0);
        let costs = [6.0, 3.0, 1.0];
        assert!(side_by_side_by_cost(&costs, 1, Watch::new(&show, &stop), run).is_ok());
        assert_eq!(told.into_inner().expect("no panic"), [0.6, 0.9, 1.0]);
    }

    #[test]
    fn shares_of_all_runs_add_up_and_a_break_reaches_every_run() {
        let (stop, told) = (Stop::new(), Mutex::new(Vec::new()));
        let show = |stage: &str, share: f64| {
            told.lock().expect("no panic").push((stage.to_string(), share));
            if share >= 0.5 {
                stop.stop();
            }
        };
        let run = |_, watch: Watch<'_>| {
            watch.tell("halfway", 0.5)?;
            watch.tell("done", 1.0)
        };
        assert_eq!(side_by_side(4, 1, Watch::new(&show, &stop), run), Err(Stopped));
        let told = told.into_inner().expect("no panic");
        assert_eq!(told.last(), Some(&("done".to_string(), 0.5)));
        assert_eq!(told.len(), 4);
    }
}
