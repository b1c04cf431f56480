//! What lists, sets and sorted sets share in removing elements.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Collection, Key, Kind};

use super::arguments::{count_option, keys_of};
use super::{Call, Failure, Outcome, Stop};

/// The arguments of `LMPOP` and `ZMPOP`. `E` is an end of the collection.
pub(super) struct Several<'a, E> {
    pub(super) keys: &'a [&'a [u8]],
    pub(super) end: E,
    pub(super) count: u64,
}

impl<'a, E> Several<'a, E> {
    /// Parses the number of keys at `index`, the keys, an end and `COUNT`.
    pub(super) fn parse<M: FullMemory>(
        call: &Call<'a, M>,
        index: usize,
        end: impl FnOnce(&Call<'a, M>, usize) -> Result<E, Failure>,
    ) -> Result<Several<'a, E>, Failure> {
        let (keys, rest) = keys_of(call.arguments, index)?;
        let end = end(call, rest)?;
        Ok(Several { keys, end, count: count_option(call.arguments, rest + 1)? })
    }
}

impl<M: FullMemory> Call<'_, M> {
    /// Parses the count of elements to pop after the key, if there is one.
    pub(super) fn pop_count(&self) -> Result<Option<u64>, Failure> {
        if self.arguments.len() < 3 {
            return Ok(None);
        }
        let count = self.integer(2).ok().and_then(|count| u64::try_from(count).ok());
        Ok(Some(count.ok_or("ERR value is out of range, must be positive")?))
    }

    /// Removes `count` elements of a key, some in each transaction. `remove` removes one, and
    /// returns false if none is left.
    pub(super) fn remove_each(
        &mut self,
        key: &Key<'_>,
        kind: Kind,
        count: u64,
        mut remove: impl FnMut(&mut Call<'_, M>, &mut Collection) -> bool,
    ) -> Outcome {
        let mut left = count;
        while left > 0 {
            let at_once = left.min(self.writer.removed_at_once() as u64);
            self.edit(key, kind, |call, collection| {
                for _ in 0..at_once {
                    if !remove(call, collection) {
                        break;
                    }
                }
                Ok(())
            })?;
            left -= at_once;
            self.pause()?;
        }
        Ok(())
    }

    /// Removes the elements at these ranks, in rising order, some in each transaction.
    pub(super) fn remove_ranks(
        &mut self,
        key: &Key<'_>,
        kind: Kind,
        ranks: &[u64],
        mut remove: impl FnMut(&mut Call<'_, M>, &mut Collection, u64),
    ) -> Outcome {
        // From the end, so that the other ranks stay as they are.
        for some in ranks.rchunks(self.writer.removed_at_once()) {
            self.edit(key, kind, |call, collection| {
                some.iter().rev().for_each(|rank| remove(call, collection, *rank));
                Ok(())
            })?;
            self.pause()?;
        }
        Ok(())
    }

    /// Pops from the first key that has elements, and replies with its name and them. `pop` removes
    /// elements and replies with each. Returns false if no key has any.
    pub(super) fn pop_first(
        &mut self,
        keys: &[&[u8]],
        (kind, count): (Kind, u64),
        pop: impl FnOnce(&mut Self, &[u8], u64) -> Outcome,
    ) -> Result<bool, Stop> {
        for key in keys {
            let there = self.awaited_length(key, kind)?.min(count);
            if there > 0 {
                self.reply.array(2);
                self.reply.bulk(key);
                self.reply.array(there as usize);
                pop(self, key, there)?;
                return Ok(true);
            }
        }
        Ok(false)
    }
}
