//! Turns of commits whose pages do not stay in DRAM.
//!
//! A commit needs all its pages in DRAM at one moment. Each may need an eighth of all frames. If
//! many jobs bring their pages in at once, each one evicts those of the others, and none would ever
//! commit. So a commit that has tried some times waits until it is the only such one.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::sync::mailbox::Waiter;

/// The commit that has the turn, and those that wait for it.
#[derive(Default)]
pub(crate) struct CommitTurns(Mutex<Turns>);

#[derive(Default)]
struct Turns {
    holder: Option<Waiter>,
    waiting: VecDeque<Waiter>,
}

impl CommitTurns {
    /// Returns true if it is the turn of `waiter`. If not, it is woken when it is.
    pub(crate) fn is_turn_of(&self, waiter: Waiter) -> bool {
        let mut turns = self.0.lock();
        let holder = *turns.holder.get_or_insert(waiter);
        if holder != waiter && !turns.waiting.contains(&waiter) {
            turns.waiting.push_back(waiter);
        }
        holder == waiter
    }

    /// Ends the turn. Returns who has it now and must be woken.
    #[must_use]
    pub(crate) fn end(&self) -> Option<Waiter> {
        let mut turns = self.0.lock();
        turns.holder = turns.waiting.pop_front();
        turns.holder
    }

    /// Those that wait.
    pub(crate) fn waiting(&self) -> Vec<Waiter> {
        self.0.lock().waiting.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_commit_has_the_turn_and_the_others_follow_in_the_order_of_their_coming() {
        let turns = CommitTurns::default();
        let [first, second, third] = [0, 1, 2].map(|fiber| Waiter { core: 0, fiber });
        assert!(turns.is_turn_of(first));
        // Who is woken too early asks again and keeps its place.
        assert!(![second, third, second].into_iter().any(|waiter| turns.is_turn_of(waiter)));
        assert!(turns.is_turn_of(first));
        assert_eq!(turns.waiting(), [second, third]);
        assert_eq!(turns.end(), Some(second));
        assert!(turns.is_turn_of(second) && !turns.is_turn_of(first));
        assert_eq!([turns.end(), turns.end(), turns.end()], [Some(third), Some(first), None]);
        assert!(turns.is_turn_of(second));
    }
}
