//! What an interpreter and the job that resumes it tell each other.

use std::sync::Arc;

use super::sources::Source;
use crate::protocol::Protocol;

/// What scripts know of the server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// The version of Redis that the server follows.
    pub(crate) version: &'static str,
}

/// The next task of an interpreter.
pub(crate) enum Instruction {
    /// Compiles a script.
    Compile(Arc<Source>),
    /// Runs a script.
    Run(Run),
    /// Returns the reply of a command to the script, in the protocol of the request.
    Reply(Vec<u8>),
    /// Returns an error to the script, with this text.
    Refuse(String),
    /// Answers the script: true if its user may run the command.
    Permit(bool),
    /// Continues the script.
    Continue,
    /// Ends the script. It cannot catch that.
    Abort,
    /// Ends the interpreter.
    End,
}

/// A run of a script.
pub(crate) struct Run {
    /// The script.
    pub(crate) source: Arc<Source>,
    /// Its keys.
    pub(crate) keys: Vec<Vec<u8>>,
    /// Its other arguments.
    pub(crate) arguments: Vec<Vec<u8>>,
    /// Protocol of the reply.
    pub(crate) protocol: Protocol,
    /// Seed of its random numbers.
    pub(crate) seed: u64,
}

/// What an interpreter asks for when it suspends.
pub(crate) enum Request {
    /// An instruction to compile or run a script.
    Idle,
    /// The same. A script was compiled, or has an error.
    Compiled(Result<(), String>),
    /// The reply of a command: its name and arguments, and the protocol of the reply.
    Command(Vec<Vec<u8>>, Protocol),
    /// Whether the user may run a command: its name and arguments.
    Permission(Vec<Vec<u8>>),
    /// To continue. A script sends this after some instructions.
    Tick,
    /// To log a text, and then to continue.
    Log(String),
    /// The same as `Idle`. A script has ended with a reply or an error.
    Done(Result<Vec<u8>, String>),
}

/// A request, and the bytes of memory that Lua holds.
pub(super) type Asked = (Request, usize);
