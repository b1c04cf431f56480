//! Scripts in Lua 5.1.
//!
//! An [`Interpreter`] is a Lua state on a fiber and a stack of its own. A job that runs a script
//! resumes that fiber. When the script calls a command, the fiber suspends with a [`Request`], and
//! the job runs the command on its own fiber. So a command may wait for flash or unwind, and no
//! frame of Lua lies in between.
//!
//! * [`Pool`]: the interpreters of a core.
//! * [`Sources`]: the scripts that clients have sent, by their SHA-1.
//! * [`SlowScripts`]: the scripts that have run longer than the limit.

mod bit;
mod cjson;
mod cmsgpack;
mod interpreter;
mod machine;
mod messages;
mod native;
mod pool;
mod sandbox;
mod slow;
mod sources;
mod structs;
mod values;

pub(crate) use interpreter::Interpreter;
pub(crate) use messages::{Instruction, Request, Run, Surroundings};
pub(crate) use pool::Pool;
pub(crate) use slow::{Kill, SlowScripts, Watched};
pub(crate) use sources::{Sha, Source, Sources};
