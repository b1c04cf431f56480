//! Lists: values that are found by their place.

use ebbtide_core::FullMemory;

use super::packed;
use super::tree::{Payload, Seek};
use super::{Body, Collection, Full};

impl Collection {
    /// Inserts a value of a list before the one at `rank`.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub fn insert_at<M: FullMemory>(
        &mut self,
        memory: &mut M,
        rank: u64,
        value: &[u8],
    ) -> Result<(), Full> {
        self.make_room(memory, packed::bytes_of(value))?;
        self.was_changed = true;
        match &mut self.body {
            Body::Packed(packed) => {
                packed.insert(rank as usize, value);
                self.is_changed = true;
            }
            Body::Trees(_) => {
                let tree = self.tree(0).expect("it has trees");
                tree.put(&mut self.access(memory), Seek::Rank(rank), Payload::Bytes(value))?;
            }
        }
        Ok(())
    }

    /// Replaces the value of a list at `rank`, which is there.
    ///
    /// # Errors
    /// [`Full`] when there is no room; nothing has changed then.
    pub fn replace_at<M: FullMemory>(
        &mut self,
        memory: &mut M,
        rank: u64,
        value: &[u8],
    ) -> Result<(), Full> {
        self.make_room(memory, packed::bytes_of(value))?;
        self.was_changed = true;
        match &mut self.body {
            Body::Packed(packed) => {
                packed.remove(rank as usize);
                packed.insert(rank as usize, value);
                self.is_changed = true;
            }
            Body::Trees(_) => {
                let tree = self.tree(0).expect("it has trees");
                tree.replace(&mut self.access(memory), rank, Payload::Bytes(value))?;
            }
        }
        Ok(())
    }

    /// Removes the element of a list or a stream at `rank`. Returns the value of a list.
    pub fn remove_at<M: FullMemory>(&mut self, memory: &mut M, rank: u64) -> Option<Vec<u8>> {
        let gone = match &mut self.body {
            Body::Packed(packed) => {
                let gone = packed.remove(rank as usize);
                self.is_changed |= gone.is_some();
                gone
            }
            Body::Trees(_) => {
                let tree = self.tree(0).expect("it has trees");
                let gone = tree.remove(&mut self.access(memory), Seek::Rank(rank));
                gone.map(|(_, value)| value)
            }
        };
        self.was_changed |= gone.is_some();
        gone
    }
}
