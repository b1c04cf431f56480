//! Upkeep: removes expired keys and frees pages of cleared databases and removed large values, in
//! short turns.

use std::cell::Cell;
use std::time::{Duration, Instant};

use ebbtide_core::Memory;
use ebbtide_structures::keyspace::Keyspace;

use crate::space;
use crate::state::State;

/// Duration of a turn of upkeep. Other jobs of the core wait that long.
const TURN: Duration = Duration::from_millis(1);

/// Pause after a turn, in turns, while commands run. Upkeep gets a quarter of the time.
const PAUSE_TURNS: u32 = 3;

/// The pause after a turn that leaves nothing to do.
const REST: Duration = Duration::from_millis(100);

/// State of upkeep.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// Commands run before its last turn.
    commands: Cell<u64>,
}

impl Upkeep {
    /// Runs a turn. Returns the pause after it.
    pub(crate) fn run<M: Memory>(&self, memory: &mut M, state: &State) -> Duration {
        let Some(keyspace) = state.keys() else { return REST };
        let commands = state.shared.total(|core| &core.commands);
        let is_idle = self.commands.replace(commands) == commands;
        let began = Instant::now();
        while work(memory, state, &keyspace) {
            let took = began.elapsed();
            if took >= TURN {
                return if is_idle { Duration::ZERO } else { took * PAUSE_TURNS };
            }
        }
        REST
    }
}

/// Does a little of each kind of work. Returns true if there was any.
fn work<M: Memory>(memory: &mut M, state: &State, keyspace: &Keyspace) -> bool {
    let expired = space::expire(memory, state, keyspace);
    let large = space::reclaim_large(memory, state, keyspace);
    let cleared = space::reclaim_cleared(memory, keyspace);
    expired || large || cleared
}
