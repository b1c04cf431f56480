//! The costs of switches between threads on this machine.

use std::io::{self, Read, Write};
use std::thread;
use std::time::Instant;

use ebbtide_engine::affinity;
use ebbtide_fiber::{Fiber, StackPool};
use serde::{Deserialize, Serialize};

use super::probe;

/// Times of switches between threads of one core.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Switches {
    /// From one of many user-level threads to the next, in nanoseconds.
    pub user_ns: f64,
    /// From one kernel thread to another that it wakes, system calls included, in microseconds.
    pub os_us: f64,
}

/// Measures the times of both kinds of switches. Takes a fraction of a second.
///
/// # Errors
/// The system's error if a stack, pipe or thread cannot be created.
pub fn switches() -> io::Result<Switches> {
    Ok(Switches { user_ns: user_ns()?, os_us: os_us()? })
}

/// Returns the number of reads that [`probe::random_reads`] hands to the kernel in one call at
/// `queue_depth`.
pub fn reads_a_call(queue_depth: u32) -> u32 {
    probe::batch(queue_depth)
}

/// User-level threads, as many as the engine has a core by default.
const FIBERS: usize = 128;

fn user_ns() -> io::Result<f64> {
    const ROUNDS: usize = 20_000;
    let mut stacks = StackPool::new(FIBERS, 16 << 10)?;
    let mut fibers: Vec<Fiber<(), ()>> = std::iter::from_fn(|| stacks.take())
        .map(|stack| {
            Fiber::new(stack, |suspend, ()| {
                loop {
                    suspend.suspend(());
                }
            })
        })
        .collect();
    let start = Instant::now();
    for _ in 0..ROUNDS {
        for fiber in &mut fibers {
            fiber.resume(());
        }
    }
    // Each resume is two switches: into the fiber and out of it.
    Ok(start.elapsed().as_secs_f64() * 1e9 / (2 * ROUNDS * fibers.len()) as f64)
}

fn os_us() -> io::Result<f64> {
    const ROUNDS: u32 = 10_000;
    let (mut ping, mut pinged) = io::pipe()?;
    let (mut pong, mut ponged) = io::pipe()?;
    let cpu = *affinity::allowed()?.last().ok_or_else(|| io::Error::other("no CPU"))?;
    thread::scope(|scope| {
        let other = scope.spawn(move || -> io::Result<()> {
            affinity::pin(cpu)?;
            let mut byte = [0];
            for _ in 0..ROUNDS {
                ping.read_exact(&mut byte)?;
                ponged.write_all(&byte)?;
            }
            Ok(())
        });
        let one = scope.spawn(move || -> io::Result<f64> {
            affinity::pin(cpu)?;
            let mut byte = [0];
            let start = Instant::now();
            for _ in 0..ROUNDS {
                pinged.write_all(&byte)?;
                pong.read_exact(&mut byte)?;
            }
            Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(2 * ROUNDS))
        });
        let panicked = |_| io::Error::other("a measuring thread panicked");
        let us = one.join().map_err(panicked)?;
        other.join().map_err(panicked)??;
        us
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_level_switch_is_far_cheaper_than_a_kernel_thread_s() {
        let found = switches().expect("they can be measured");
        assert!(found.user_ns > 0.0 && found.user_ns / 1e3 < found.os_us, "{found:?}");
    }
}
