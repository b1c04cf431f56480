//! [`Holds`]: large values whose pages must stay because a job reads or writes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use ebbtide_structures::keyspace::LargeId;
use parking_lot::Mutex;

/// Large values of a keyspace that jobs on any core read or write. Their pages are not freed.
///
/// A reader holds a value before it checks that its key still has it. A writer holds a new one
/// before others can find it. So a value that has no key and no hold has neither, and its pages can
/// be freed.
#[derive(Debug, Default)]
pub struct Holds(Mutex<BTreeMap<LargeId, usize>>);

impl Holds {
    /// Keeps the pages of a value until the returned [`Hold`] is dropped.
    pub fn hold(self: &Arc<Self>, id: LargeId) -> Hold {
        *self.0.lock().entry(id).or_default() += 1;
        Hold { holds: self.clone(), id }
    }

    /// True if a job reads or writes the value.
    pub fn holds(&self, id: LargeId) -> bool {
        self.0.lock().contains_key(&id)
    }
}

/// Keeps the pages of a large value while it exists.
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
