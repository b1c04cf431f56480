//! [`Writer`]: which changes of a command share a transaction, and how many elements one may
//! change.
//!
//! A command runs in one transaction first. If it is too large for that, it stops with [`Rerun`]
//! before it changes anything, and [`run_in_steps`] runs it again. The sizes of values are known
//! only once they were read. To read them before every command would make all commands slower.

use std::cell::Cell;

use ebbtide_core::FullMemory;
use ebbtide_core::durability::{Lsn, TransactionError};
use ebbtide_structures::keyspace::Full;

use super::table::{Access, Spec};
use super::{Call, Checked, LONG_REPLY, Outcome, WRONG_KIND, run_to_end};
use crate::failure::Failure;
use crate::large::PIECE_BYTES;
use crate::patience::limit_patience;
use crate::{space, sparse};

/// Elements that one step changes, and that a new collection gets at once.
pub(super) const CHANGED_AT_ONCE: usize = 32;

/// Elements that one step removes.
const REMOVED_AT_ONCE: usize = 16;

/// A command that visits more elements runs in steps and pauses for others.
const VISITED_AT_ONCE_MAX: u64 = 512;

/// A longer reply of one command moves to flash.
const REPLY_BYTES_MAX: usize = 4 * PIECE_BYTES;

/// The error of a change that no transaction of the command can make.
pub(super) const TOO_LARGE: &str =
    "ERR a value of more than 32704 bytes cannot be written by this command";

/// The need to run again in smaller transactions. The one that was too large has changed nothing.
#[derive(Debug)]
pub struct Rerun;

/// The reason for which a command ends without a reply.
#[derive(Debug)]
pub enum Stop {
    /// The client gets an error.
    Failed(Failure),
    /// The command runs again.
    Rerun(Rerun),
}

impl Stop {
    /// Returns the stop of a command whose transaction failed.
    pub(super) fn of(error: TransactionError) -> Stop {
        match error {
            TransactionError::TooLarge { .. } => Rerun.into(),
            error => error.into(),
        }
    }

    /// True if there was no free page.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Stop::Failed(Failure::Full))
    }

    /// True if a value has another kind.
    pub(super) fn is_wrong_kind(&self) -> bool {
        matches!(self, Stop::Failed(Failure::Reply(text)) if text == WRONG_KIND)
    }

    /// Returns the error of a command that cannot run again.
    pub(super) fn failure(self) -> Failure {
        match self {
            Stop::Failed(failure) => failure,
            Stop::Rerun(Rerun) => TOO_LARGE.into(),
        }
    }
}

impl<F: Into<Failure>> From<F> for Stop {
    fn from(failure: F) -> Stop {
        Stop::Failed(failure.into())
    }
}

impl From<Rerun> for Stop {
    fn from(rerun: Rerun) -> Stop {
        Stop::Rerun(rerun)
    }
}

/// The transactions of a command.
#[derive(Debug, Clone, Copy)]
pub enum Writer<'a> {
    /// One for all changes.
    Alone,
    /// The one of `EXEC` or a script. It takes long values piece by piece.
    Within,
    /// One for each change, which is a step.
    Steps(&'a Steps),
}

/// State of a command that runs in steps.
#[derive(Debug, Default)]
pub struct Steps {
    /// Place in the log of its last transaction.
    last: Cell<Lsn>,
    /// True if its keys' stripes are reserved, so that each change of a key must hold the key's
    /// stripe. Otherwise it holds the stripes of all keys that it changes.
    reserves: bool,
}

impl Writer<'_> {
    /// Returns the number of elements that one transaction may change.
    pub(super) fn changed_at_once(self) -> usize {
        if self.has_committed() { CHANGED_AT_ONCE } else { usize::MAX }
    }

    /// Returns the number of elements that one transaction may remove.
    pub(super) fn removed_at_once(self) -> usize {
        if self.has_committed() { REMOVED_AT_ONCE } else { usize::MAX }
    }

    /// True if the changes that the command has made have taken effect already.
    pub(super) fn has_committed(self) -> bool {
        matches!(self, Writer::Steps(_))
    }

    /// Called before a command writes a value in pieces, or does other work without a bound.
    pub(super) fn require_pieces(self) -> Result<(), Rerun> {
        if let Writer::Alone = self { Err(Rerun) } else { Ok(()) }
    }

    /// Called before a command that each change must be a step for. Within `EXEC` and scripts it
    /// fails with `refusal`.
    pub(super) fn require_steps(self, refusal: &'static str) -> Outcome {
        self.require_pieces()?;
        if self.has_committed() { Ok(()) } else { Err(refusal.into()) }
    }

    /// True if a value is changed in pieces and not in place. `fits` is true if the transaction can
    /// change it in place. Between steps this may change.
    pub(super) fn in_pieces(self, fits: bool) -> Result<bool, Rerun> {
        if !fits {
            self.require_pieces()?;
        }
        Ok(!fits || self.has_committed())
    }
}

impl<M: FullMemory> Call<'_, M> {
    /// Runs `body`, which changes keys of these hashes: as a step, or as a part of the transaction.
    ///
    /// # Errors
    /// Returns an error if it is too large for a transaction, there is no room, or the log cannot
    /// be written.
    pub(super) fn step<R>(
        &mut self,
        hashes: &[u64],
        mut body: impl FnMut(&mut Call<'_, M>) -> Result<R, Full>,
    ) -> Result<R, Stop> {
        let writer = self.writer;
        let Writer::Steps(steps) = writer else { return Ok(body(self)?) };
        let keyspace = self.keyspace();
        let Call { memory, state, session, arguments, staged, reply, .. } = self;
        loop {
            let mut change = |memory: &mut M| {
                let ran = memory.transaction(|memory| {
                    body(&mut Call { memory, state, session, arguments, staged, reply, writer })
                });
                if let Ok((_, lsn)) = &ran {
                    state.shared.wrote(hashes, *lsn);
                    steps.last.set(*lsn);
                }
                ran
            };
            let (result, _) = match steps.reserves {
                true => keyspace.alone(*memory, hashes, change),
                false => change(memory),
            }
            .map_err(Stop::of)?;
            if result.is_ok() || !space::make_held(*memory, state, &keyspace) {
                for hash in hashes {
                    sparse::join_sparse_held(*memory, &keyspace, *hash);
                }
                return Ok(result?);
            }
        }
    }

    /// Frees pages between steps. Returns false if it freed none. A command in one transaction runs
    /// again once there are more.
    pub(super) fn make_room(&mut self) -> bool {
        let keyspace = self.keyspace();
        self.writer.has_committed() && space::make_held(self.memory, self.state, &keyspace)
    }

    /// Lets other jobs run between steps. Returns false within a transaction.
    pub(super) fn let_others_run(&mut self) -> bool {
        if self.writer.has_committed() {
            self.memory.let_others_run();
        }
        self.writer.has_committed()
    }

    /// Called by a command that visits `count` elements.
    pub(super) fn visits(&self, count: u64) -> Result<(), Rerun> {
        if count > VISITED_AT_ONCE_MAX { self.writer.require_pieces() } else { Ok(()) }
    }

    /// Moves a long reply to flash, within the transaction of `EXEC` if there is one. A command of
    /// its own must not have changed anything yet.
    ///
    /// # Errors
    /// Returns [`Rerun`], or an error if the reply takes too much DRAM: flash is full, or a script
    /// reads it.
    pub(super) fn keep_reply_short(&mut self) -> Outcome {
        if self.reply.spillable() <= REPLY_BYTES_MAX {
            return Ok(());
        }
        self.writer.require_pieces()?;
        let keyspace = self.keyspace();
        // If flash is full, a short reply stays in DRAM.
        let _ = self.reply.spill(self.memory, &keyspace, self.state);
        match self.reply.spillable() > self.state.settings().argument_bytes_max {
            true => Err(LONG_REPLY.into()),
            false => Ok(()),
        }
    }

    /// Called between the elements of a long reply.
    pub(super) fn pause(&mut self) -> Outcome {
        self.let_others_run();
        self.keep_reply_short()
    }

    /// As [`pause`](Call::pause), for a command that has changed something. Its one transaction
    /// cannot run again, so a reply in it stays in DRAM.
    pub(super) fn pause_after_change(&mut self) -> Outcome {
        if let Writer::Alone = self.writer { Ok(()) } else { self.pause() }
    }
}

/// Runs a command in steps. `hashes` are the hashes of its keys; none stands for all keys.
///
/// A command that reads, or changes one key, reserves its stripes. So other commands can read the
/// keys while it reads or writes a value. A command that changes several keys holds the stripes, so
/// that its changes appear as one step. So does a command of all keys.
pub(super) fn run_in_steps<M: FullMemory>(
    spec: &Spec,
    call: &mut Call<'_, M>,
    hashes: &[u64],
) -> Checked {
    let keyspace = call.keyspace();
    let reads = spec.access_with(call.arguments) == Access::Read;
    let reserves = reads || !spec.changes_several() && !hashes.is_empty();
    let steps = Steps { reserves, ..Steps::default() };
    let writer = Writer::Steps(&steps);
    let Call { memory, state, session, arguments, staged, reply, .. } = call;
    let stripes = state.shared.reserved.of(&keyspace, hashes);
    let body = |memory: &mut M| {
        // A part of it may take effect, so it does not give up from here on.
        limit_patience(memory, false);
        session.start_over();
        run_to_end(spec.id, &mut Call { memory, state, session, arguments, staged, reply, writer })
    };
    let outcome = state.unless_busy(*memory, |memory| match reserves {
        true => stripes.reserved(memory, body),
        false => stripes.alone(memory, body),
    })?;
    session.written = session.written.max(steps.last.get());
    outcome
}
