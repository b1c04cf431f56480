//! Runs drawn combinations of policy, prefetcher, admission, frames, threads, cores and faults, one
//! after the other, and checks every word that jobs read.
//!
//! `cargo bench -p ebbtide-engine --bench swarm [SECONDS [FIRST_SEED]]`: for 60 seconds
//! from seed 1000 unless told otherwise. A run that goes wrong prints its seed and choices.

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::{Duration, Instant};

use common::swarm::Choices;

fn main() -> Result<(), String> {
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench").map(|argument| {
        argument.parse::<u64>().map_err(|_| format!("expected a number, not '{argument}'"))
    });
    let seconds = arguments.next().unwrap_or(Ok(60))?;
    let first = arguments.next().unwrap_or(Ok(1000))?;
    let (since, mut accesses, mut failed, mut seed) = (Instant::now(), 0, 0, first);
    while since.elapsed() < Duration::from_secs(seconds) {
        let outcome = Choices::draw(seed).run();
        accesses += outcome.accesses;
        failed += outcome.failed;
        seed += 1;
    }
    println!("seeds {first} to {}: {accesses} accesses, all right", seed - 1);
    println!("{failed} jobs met an injected error and ended with it");
    Ok(())
}
