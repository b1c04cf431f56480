//! Upkeep, in short turns: removes expired keys, and evicts keys of a cache before it is full. It
//! also frees the pages of cleared databases and removed large values.
//!
//! Every key that expires is removed once. So a pause between two turns would save no work, and the
//! keys would heap up. Upkeep therefore makes no pause while keys are due, and lets other jobs run
//! after a few leaves. In a turn it looks at as many leaves as commands have run since the last.
//! So it keeps up with any number of connections. Pages of large values can wait, so it pauses
//! between those for the commands that run.

use std::cell::Cell;
use std::time::{Duration, Instant};

use ebbtide_core::Memory;
use ebbtide_structures::keyspace::Keyspace;

use crate::clock::now_ms;
use crate::eviction::Order;
use crate::space;
use crate::state::State;

/// Least and most leaves with expired keys of a turn.
const LEAVES_MIN: u64 = 64;
const LEAVES_MAX: u64 = 1_024;

/// Duration of a turn that frees pages, without the jobs that run between two of its steps.
const TURN: Duration = Duration::from_millis(1);

/// The longest pause after a turn, in turns. So a quarter of the time is for freeing pages.
const PAUSE_TURNS: u32 = 3;

/// The pause for each command that has run since the turn before: three times what it takes.
const PAUSE_A_COMMAND: Duration = Duration::from_micros(30);

/// The pause after a turn that leaves nothing to do.
const REST: Duration = Duration::from_millis(100);

/// State of upkeep.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// Commands run before the last turn.
    commands: Cell<u64>,
    /// Commands run before pages were last freed.
    commands_at_free: Cell<u64>,
    /// When pages are freed again; `None` for at once.
    free_at: Cell<Option<Instant>>,
}

impl Upkeep {
    /// Runs a turn. Returns the pause after it.
    pub(crate) fn run<M: Memory>(&self, memory: &mut M, state: &State) -> Duration {
        let Some(keyspace) = state.keys() else { return REST };
        if let Some((uses, Order::Frequency)) = state.shared.eviction.uses() {
            uses.decay(now_ms());
        }
        let commands = state.shared.total(|core| &core.commands);
        let ran = commands.saturating_sub(self.commands.replace(commands));
        let leaves = ran.clamp(LEAVES_MIN, LEAVES_MAX) as usize;
        let any_expired = space::expire(memory, state, &keyspace, leaves);
        let now = Instant::now();
        let pause = match self.free_at.get().and_then(|at| at.checked_duration_since(now)) {
            Some(pause) => pause,
            None => {
                let pause = self.free_pages(memory, state, &keyspace);
                self.free_at.set(Instant::now().checked_add(pause));
                pause
            }
        };
        if any_expired { Duration::ZERO } else { pause }
    }

    /// Frees pages of large values and of cleared databases. Returns the pause until the next time.
    fn free_pages<M: Memory>(
        &self,
        memory: &mut M,
        state: &State,
        keyspace: &Keyspace,
    ) -> Duration {
        let commands = state.shared.total(|core| &core.commands);
        let ran = commands.saturating_sub(self.commands_at_free.replace(commands));
        let mut took = Duration::ZERO;
        loop {
            let began = Instant::now();
            let large = space::reclaim_large(memory, state, keyspace);
            let cleared = space::reclaim_cleared(memory, keyspace);
            // What is under way may free enough.
            let evicted = !large && !cleared && space::evict_ahead(memory, state, keyspace);
            if !large && !cleared && !evicted {
                return REST;
            }
            took += began.elapsed();
            if took >= TURN {
                return pause(took, ran);
            }
            memory.let_others_run();
        }
    }
}

/// The pause after a turn that took `took`, when `ran` commands have run since the turn before.
fn pause(took: Duration, ran: u64) -> Duration {
    let for_commands = PAUSE_A_COMMAND.saturating_mul(u32::try_from(ran).unwrap_or(u32::MAX));
    for_commands.min(took * PAUSE_TURNS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_as_long_as_the_commands_that_run_need() {
        for (ran, expected_us) in [(0, 0), (1, 30), (10, 300), (100, 3_000), (u64::MAX, 3_000)] {
            assert_eq!(pause(TURN, ran), Duration::from_micros(expected_us), "{ran} commands");
        }
    }
}
