//! [`Holds`]: values whose pages stay because they are read or written.

use std::collections::BTreeMap;
use std::sync::Arc;

use ebbtide_structures::keyspace::LargeId;
use parking_lot::Mutex;

/// Which large values connections write or read, on any core. Their pages stay.
///
/// A reader holds a value before it knows that its key still had it then. So whoever has removed the value, and finds
/// that nobody holds it, has it alone.
#[derive(Debug, Default)]
pub struct Holds(Mutex<BTreeMap<LargeId, usize>>);

impl Holds {
    /// Keeps the pages of a value until what is given is dropped.
    pub fn hold(self: &Arc<Self>, id: LargeId) -> Hold {
        *self.0.lock().entry(id).or_default() += 1;
        Hold { holds: self.clone(), id }
    }

    /// Whether somebody writes or reads a value.
    pub fn holds(&self, id: LargeId) -> bool {
        self.0.lock().contains_key(&id)
    }
}

/// A value whose pages stay while this is there.
#[derive(Debug)]
pub struct Hold {
    holds: Arc<Holds>,
    id: LargeId,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut holds = self.holds.0.lock();
        if let Some(count) = holds.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                holds.remove(&self.id);
            }
        }
    }
}
