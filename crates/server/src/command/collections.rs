//! What the commands on hashes, sets, sorted sets, lists and streams share: opening and changing a
//! collection, and replies with many elements.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Collection, Full, Key, Kind, SCAN_END};

use super::building::Building;
use super::{Call, Failure, NOT_INTEGER, Outcome, SYNTAX, Stop, WRONG_KIND};
use crate::events::Classes;
use crate::glob;
use crate::number::integer;

/// Fields of a large hash that have expired and that a change of the hash removes.
const EXPIRED_AT_ONCE: usize = 32;

/// Bytes of arguments for which a change needs about one page.
const BYTES_OF_A_PAGE: usize = 1_000;

/// Arguments for which a change needs a page at most.
const ARGUMENTS_OF_A_PAGE: usize = 4;

/// Random elements that are chosen by their ranks. More are chosen by passing all elements.
const CHOSEN_BY_RANK_MAX: u64 = 10_000;

/// The name of a kind for `TYPE`.
pub(super) fn name_of(kind: Kind) -> &'static str {
    match kind {
        Kind::String => "string",
        Kind::Hash => "hash",
        Kind::Set => "set",
        Kind::SortedSet => "zset",
        Kind::List => "list",
        Kind::Stream => "stream",
    }
}

/// The kind of this name, in any case.
pub(super) fn kind_named(name: &[u8]) -> Option<Kind> {
    [Kind::String, Kind::Hash, Kind::Set, Kind::SortedSet, Kind::List, Kind::Stream]
        .into_iter()
        .find(|kind| name.eq_ignore_ascii_case(name_of(*kind).as_bytes()))
}

impl<'a, M: FullMemory> Call<'a, M> {
    /// Returns the collection of a key that has not expired.
    ///
    /// # Errors
    /// Returns an error if the key has a value of another kind.
    pub(super) fn collection(
        &mut self,
        key: &Key<'_>,
        kind: Kind,
    ) -> Result<Option<Collection>, Stop> {
        let mut value = Vec::new();
        let Some(entry) = self.find(key, &mut value) else { return Ok(None) };
        let collection = self.keyspace().open_collection(key, &entry, &value);
        match collection.filter(|collection| collection.kind == kind) {
            Some(collection) => Ok(Some(collection)),
            None => Err(WRONG_KIND.into()),
        }
    }

    /// Returns the number of elements that a key has, 0 if it is missing.
    ///
    /// # Errors
    /// Returns an error if the key has a value of another kind.
    pub(super) fn length(&mut self, key: &[u8], kind: Kind) -> Result<u64, Stop> {
        let key = self.keyspace().key(key);
        let collection = self.collection(&key, kind)?;
        Ok(collection.map_or(0, |collection| collection.len(self.memory)))
    }

    /// As [`length`](Call::length), of a key for whose elements a client may wait. A client that
    /// waits passes over keys of other kinds.
    ///
    /// # Errors
    /// As [`length`](Call::length), unless the client waits.
    pub(super) fn awaited_length(&mut self, key: &[u8], kind: Kind) -> Result<u64, Stop> {
        match self.length(key, kind) {
            Err(stop) if stop.is_wrong_kind() && self.session.resumed.is_some() => Ok(0),
            length => length,
        }
    }

    /// Changes the collection of a key, which is made if it is missing. `change` may run more than
    /// once.
    ///
    /// # Errors
    /// Returns the error of `change`, or an error if the key has a value of another kind, or if
    /// there is no room.
    pub(super) fn edit<R>(
        &mut self,
        key: &Key<'_>,
        kind: Kind,
        mut change: impl FnMut(&mut Call<'_, M>, &mut Collection) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        super::check_key(key)?;
        let database = self.session.database;
        let before = self.before(database, key);
        // The number of elements after the change, if there is one.
        let mut left = None;
        let edited = self.step(&[key.hash], |call| {
            left = None;
            let keyspace = call.keyspace();
            let found = match call.collection(key, kind) {
                Ok(found) => found,
                Err(failure) => return Ok(Err(failure)),
            };
            let mut collection = found.unwrap_or_else(|| keyspace.new_collection(key, kind));
            collection.remove_expired(call.memory, EXPIRED_AT_ONCE);
            let changed = change(call, &mut collection);
            if collection.was_changed() || collection.changed_groups() {
                let count = collection.len(call.memory);
                keyspace.store_collection(call.memory, database, key, &mut collection)?;
                match collection.was_changed() {
                    true => call.state.changed(database, key.bytes),
                    // No client waits for it.
                    false => call.state.statistics().changes.add(1),
                }
                left = Some(count);
            }
            match changed {
                Err(stop) if stop.is_full() => Err(Full),
                changed => Ok(changed),
            }
        });
        if let Some(left) = left.filter(|_| !matches!(edited, Err(Stop::Rerun(_)))) {
            self.own_event((database, key.bytes), before);
            if left == 0 && kind != Kind::Stream {
                self.event((database, key.bytes), Classes::GENERIC, "del");
            }
        }
        edited?
    }

    /// Changes a collection by `count` changes, and returns the sum of their results. Outside of a
    /// transaction, each transaction makes some of them.
    ///
    /// # Errors
    /// As [`edit`](Call::edit).
    pub(super) fn edit_each(
        &mut self,
        key: &Key<'_>,
        kind: Kind,
        count: usize,
        mut change: impl FnMut(&mut Call<'_, M>, &mut Collection, usize) -> Result<i64, Stop>,
    ) -> Result<i64, Stop> {
        self.check_room()?;
        let mut at_once = self.writer.changed_at_once().min(count);
        let (mut done, mut sum) = (0, 0);
        while done < count {
            let end = count.min(done + at_once);
            let edited = self.edit(key, kind, |call, collection| {
                (done..end).try_fold(0, |sum, index| Ok(sum + change(call, collection, index)?))
            });
            match edited {
                // One transaction would only do the same work again.
                Err(Stop::Rerun(_)) if at_once > 1 && self.writer.has_committed() => at_once /= 2,
                edited => {
                    sum += edited?;
                    done = end;
                }
            }
            self.let_others_run();
        }
        Ok(sum)
    }

    /// Checks that there is room for the arguments, so that a command with many does not fail half
    /// way.
    fn check_room(&mut self) -> Outcome {
        let bytes: usize = self.arguments.iter().map(|argument| argument.len()).sum();
        if bytes > BYTES_OF_A_PAGE || self.arguments.len() > ARGUMENTS_OF_A_PAGE {
            let pages = (bytes / BYTES_OF_A_PAGE + self.arguments.len() / 2) as u64;
            let keyspace = self.keyspace();
            while let Err(full) = keyspace.check_room(self.memory, pages) {
                if !self.make_room() {
                    return Err(full.into());
                }
            }
        }
        Ok(())
    }

    /// Calls `each` with `count` elements from `rank` on, and pauses between them.
    ///
    /// # Errors
    /// Returns the error of `each`, or an error if the command must run again or its reply is too
    /// long.
    pub(super) fn each_element(
        &mut self,
        collection: &Collection,
        (rank, count): (u64, u64),
        mut each: impl FnMut(&mut Call<'_, M>, &[u8]) -> Outcome,
    ) -> Outcome {
        self.visits(count)?;
        let mut done = 0;
        while done < count {
            let most = usize::try_from(count - done).unwrap_or(usize::MAX);
            let mut elements = Vec::new();
            if !collection.read(self.memory, rank + done, most, &mut elements) {
                break;
            }
            for element in &elements {
                each(self, element)?;
            }
            done += elements.len() as u64;
            self.pause()?;
        }
        Ok(())
    }

    /// Calls `each` with all elements but fields that have expired.
    ///
    /// # Errors
    /// As [`each_element`](Call::each_element).
    pub(super) fn each_live(
        &mut self,
        collection: &Collection,
        mut each: impl FnMut(&mut Call<'_, M>, &[u8]) -> Outcome,
    ) -> Outcome {
        let all = collection.stored(self.memory);
        self.each_element(collection, (0, all), |call, element| {
            if collection.is_live(element) { each(call, element) } else { Ok(()) }
        })
    }

    /// Calls `each` with `count` elements from `rank` on, from the last to the first.
    ///
    /// # Errors
    /// As [`each_element`](Call::each_element).
    pub(super) fn each_element_back(
        &mut self,
        collection: &Collection,
        (rank, count): (u64, u64),
        mut each: impl FnMut(&mut Call<'_, M>, &[u8]) -> Outcome,
    ) -> Outcome {
        const AT_ONCE: u64 = 64;
        self.visits(count)?;
        let mut left = count;
        while left > 0 {
            let start = left.saturating_sub(AT_ONCE);
            let mut elements = Vec::new();
            while (elements.len() as u64) < left - start {
                let most = (left - start) as usize - elements.len();
                let from = rank + start + elements.len() as u64;
                if !collection.read(self.memory, from, most, &mut elements) {
                    break;
                }
            }
            for element in elements.iter().rev() {
                each(self, element)?;
            }
            left = start;
            self.pause()?;
        }
        Ok(())
    }

    /// Parses the number of random elements, the third argument.
    ///
    /// # Errors
    /// Returns an error if it is no integer, or the least one, whose negation is none.
    pub(super) fn random_count(&self) -> Result<i64, Failure> {
        match self.integer(2)? {
            i64::MIN => Err(format!(
                "ERR value is out of range, value must between {} and {}",
                -i64::MAX,
                i64::MAX
            )
            .into()),
            count => Ok(count),
        }
    }

    /// Calls `each` with random elements: `count` different ones, or `-count` that may repeat.
    ///
    /// # Errors
    /// As [`each_element`](Call::each_element).
    pub(super) fn each_random(
        &mut self,
        collection: &Collection,
        count: i64,
        mut each: impl FnMut(&mut Call<'_, M>, &[u8]) -> Outcome,
    ) -> Outcome {
        let (all, live) = (collection.stored(self.memory), collection.len(self.memory));
        if live == 0 {
            return Ok(());
        }
        if count >= 0 && count as u64 > CHOSEN_BY_RANK_MAX.min(live / 2) {
            let (mut wanted, mut left) = ((count as u64).min(live), live);
            return self.each_live(collection, |call, element| {
                // Selection sampling: Knuth, "The Art of Computer Programming", volume 2, section
                // 3.4.2.
                let chosen = call.state.random() % left.max(1) < wanted;
                (wanted, left) = (wanted - u64::from(chosen), left.saturating_sub(1));
                if chosen { each(call, element) } else { Ok(()) }
            });
        }
        self.visits(count.unsigned_abs())?;
        let mut ranks = std::collections::BTreeSet::new();
        for done in 0..count.unsigned_abs() {
            let element = loop {
                let mut rank = self.state.random() % all;
                while count > 0 && !ranks.insert(rank) {
                    rank = self.state.random() % all;
                }
                match collection.at(self.memory, rank) {
                    // There are live ones left, so a later rank has one.
                    Some(element) if !collection.is_live(&element) => {}
                    element => break element,
                }
            };
            if let Some(element) = element {
                each(self, &element)?;
            }
            if done % 64 == 63 {
                self.pause()?;
            }
        }
        Ok(())
    }

    /// Runs `HSCAN`, `SSCAN` or `ZSCAN`. `write` writes an element, whose name is tested against
    /// the pattern.
    ///
    /// # Errors
    /// Returns an error for bad options, or if the key has a value of another kind.
    pub(super) fn scan_elements(
        &mut self,
        kind: Kind,
        parts: usize,
        name: impl Fn(&[u8]) -> &[u8],
        mut write: impl FnMut(&mut Call<'_, M>, &[u8]),
    ) -> Outcome {
        let text = std::str::from_utf8(self.arguments[2]).ok();
        let cursor = text.and_then(|text| text.parse::<u64>().ok()).ok_or("ERR invalid cursor")?;
        let key = self.key(1);
        let Some(collection) = self.collection(&key, kind)? else {
            self.reply.array(2);
            self.reply.bulk(b"0");
            self.reply.array(0);
            return Ok(());
        };
        let (pattern, count) = self.scan_options()?;
        let mut found = Vec::new();
        let next = match cursor {
            0..SCAN_END => collection.scan(self.memory, cursor, count, &mut found),
            _ => SCAN_END,
        };
        found.retain(|element| {
            pattern.is_none_or(|pattern| glob::all_or_matches(pattern, name(element)))
        });
        self.reply.array(2);
        let next = if next == SCAN_END { 0 } else { next };
        self.reply.bulk(itoa::Buffer::new().format(next).as_bytes());
        self.reply.array(found.len() * parts);
        found.iter().for_each(|element| write(self, element));
        Ok(())
    }

    fn scan_options(&self) -> Result<(Option<&'a [u8]>, u64), Failure> {
        let (mut pattern, mut count) = (None, 10);
        let mut index = 3;
        while index < self.arguments.len() {
            let value = self.arguments.get(index + 1).copied().ok_or(SYNTAX)?;
            if self.is(index, "MATCH") {
                pattern = Some(value);
            } else if self.is(index, "COUNT") {
                let given = integer(value).ok_or(NOT_INTEGER)?;
                count = u64::try_from(given).ok().filter(|count| *count > 0).ok_or(SYNTAX)?;
            } else {
                return Err(SYNTAX.into());
            }
            index += 2;
        }
        Ok((pattern, count))
    }
}

/// Copies a collection to a key of a database, in place of its value.
pub(super) fn copy<M: FullMemory>(
    call: &mut Call<'_, M>,
    from: &Key<'_>,
    (database, to): (usize, &Key<'_>),
) -> Outcome {
    let mut value = Vec::new();
    let Some(entry) = call.find(from, &mut value) else { return Ok(()) };
    let Some(source) = call.keyspace().open_collection(from, &entry, &value) else { return Ok(()) };
    let mut building = Building::new(call, to, source.kind);
    building.keep_state(&source);
    call.each_live(&source, |call, element| building.add(call, to, element))?;
    let records = source.group_records_count(call.memory);
    call.visits(records)?;
    building.copy_groups(call, to, &source)?;
    building.finish(call, (database, to), entry.expires_at_ms)?;
    Ok(())
}

/// The encoding that Redis would name for a collection of this form.
pub(super) fn encoding<M: FullMemory>(
    call: &mut Call<'_, M>,
    kind: Kind,
    key: &Key<'_>,
) -> Result<&'static str, Stop> {
    let Some(collection) = call.collection(key, kind)? else { return Ok("raw") };
    Ok(match (kind, collection.is_large()) {
        (Kind::String, _) => "raw",
        (Kind::Stream, _) => "stream",
        (_, false) if kind != Kind::Set => "listpack",
        (Kind::Set, false) if only_integers(call, &collection) => "intset",
        (Kind::Hash | Kind::Set, _) => "hashtable",
        (Kind::SortedSet, _) => "skiplist",
        (Kind::List, _) => "quicklist",
    })
}

fn only_integers<M: FullMemory>(call: &mut Call<'_, M>, set: &Collection) -> bool {
    let mut members = Vec::new();
    set.read(call.memory, 0, usize::MAX, &mut members);
    members.iter().all(|member| integer(member).is_some())
}

/// Bytes of flash of a collection, estimated.
pub(super) fn estimated_bytes<M: FullMemory>(
    call: &mut Call<'_, M>,
    kind: Kind,
    key: &Key<'_>,
) -> Result<u64, Stop> {
    let collection = call.collection(key, kind)?;
    Ok(collection.map_or(0, |collection| collection.estimated_bytes(call.memory)))
}
