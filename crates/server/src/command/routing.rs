//! Which commands a node of a cluster refuses because of their keys.

use smallvec::SmallVec;

use super::table::{self, Id, Spec};
use super::{Call, Checked, Failure};
use crate::cluster::{Cluster, Elsewhere};
use crate::session::Session;
use crate::state::State;

/// Returns an error if this node does not serve the keys of a command. `EXEC` has the keys of all
/// queued commands.
pub(super) fn check(spec: &Spec, state: &State, session: &Session, arguments: &[&[u8]]) -> Checked {
    let Some(cluster) = &state.settings().cluster else { return Ok(()) };
    let slot = match spec.id {
        Id::Exec => {
            let queued = table::queued(session);
            cluster.slot_of(queued.flat_map(|(spec, arguments)| routing(spec, &arguments)))
        }
        _ => slot_of(cluster, spec, arguments),
    };
    slot.map(drop).map_err(|elsewhere| Failure::Elsewhere(elsewhere.to_string().into()))
}

/// Returns an error if a script may not run a command because of its keys. `of_script` is the slot
/// that all keys of the script have to be in, once it is known. `None` stands for a script that may
/// use several slots of this node.
pub(super) fn check_script(
    spec: &Spec,
    state: &State,
    arguments: &[&[u8]],
    of_script: Option<&mut Option<u16>>,
) -> Result<(), &'static str> {
    let Some(cluster) = &state.settings().cluster else { return Ok(()) };
    let slot = slot_of(cluster, spec, arguments).map_err(|elsewhere| match elsewhere {
        Elsewhere::Down => "Script attempted to execute a command while the cluster is down",
        _ => "Script attempted to access a non local key in a cluster node",
    })?;
    let (Some(of_script), Some(slot)) = (of_script, slot) else { return Ok(()) };
    match *of_script.get_or_insert(slot) == slot {
        true => Ok(()),
        false => Err("Script attempted to access keys that do not hash to the same slot"),
    }
}

/// Returns the slot of a command's keys, or of its channels.
fn slot_of(cluster: &Cluster, spec: &Spec, arguments: &[&[u8]]) -> Result<Option<u16>, Elsewhere> {
    match spec.id {
        Id::Spublish | Id::Ssubscribe | Id::Sunsubscribe => {
            cluster.slot_of_channels(routing(spec, arguments))
        }
        _ => cluster.slot_of(routing(spec, arguments)),
    }
}

/// Returns an error if the server is a node of a cluster.
pub(super) fn refuse<M>(call: &Call<'_, M>, text: &'static str) -> Checked {
    match call.state.settings().cluster {
        Some(_) => Err(text.into()),
        None => Ok(()),
    }
}

/// Returns the words whose slot decides which node runs a command: its keys, or its channels of one
/// slot.
fn routing<'a>(spec: &Spec, arguments: &[&'a [u8]]) -> SmallVec<[&'a [u8]; 4]> {
    match spec.id {
        Id::Spublish => arguments[1..2].into(),
        Id::Ssubscribe | Id::Sunsubscribe => arguments[1..].into(),
        _ => spec.keys(arguments).collect(),
    }
}
