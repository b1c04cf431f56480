//! Upkeep, in short turns: removes expired keys, and evicts keys of a cache before it is full. It
//! also frees the pages of cleared databases and removed large values.
//!
//! Every key that expires is removed once. So a pause between two turns would save no work, and the
//! keys would heap up. Upkeep therefore makes no pause while keys are due, and lets other jobs run
//! after a few leaves. In a turn it looks at as many leaves as commands have run since the last.
//! So it keeps up with any number of connections. Pages are freed in short turns without a pause. A
//! core without other jobs would sleep through a pause, until a command comes.

use std::cell::Cell;
use std::time::{Duration, Instant};

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::Keyspace;

use crate::clock::now_ms;
use crate::eviction::Order;
use crate::space;
use crate::state::State;

/// Least and most leaves with expired keys of a turn.
const LEAVES_MIN: u64 = 64;
const LEAVES_MAX: u64 = 1_024;

/// Steps of a turn that frees pages, each of them a page or a large value.
const STEPS: usize = 16;

/// The pause after a turn that leaves nothing to do.
const REST: Duration = Duration::from_millis(100);

/// State of upkeep.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// Commands run before the last turn.
    commands: Cell<u64>,
    /// When pages are looked for again; `None` for at once.
    free_at: Cell<Option<Instant>>,
}

impl Upkeep {
    /// Runs a turn. Returns the pause after it.
    pub(crate) fn run<M: FullMemory>(&self, memory: &mut M, state: &State) -> Duration {
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
                let pause = free_pages(memory, state, &keyspace);
                self.free_at.set(Instant::now().checked_add(pause));
                pause
            }
        };
        if any_expired { Duration::ZERO } else { pause }
    }
}

/// Frees pages of large values and of cleared databases. Returns the pause until the next time.
fn free_pages<M: FullMemory>(memory: &mut M, state: &State, keyspace: &Keyspace) -> Duration {
    for _ in 0..STEPS {
        let large = space::reclaim_large(memory, state, keyspace);
        let cleared = space::reclaim_cleared(memory, keyspace);
        // What is under way may free enough.
        if !large && !cleared && !space::evict_ahead(memory, state, keyspace) {
            return REST;
        }
    }
    Duration::ZERO
}
