//! Gives up keys: judges those of a group of leaves, and removes the worst until a page is free.

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::{Counts, DATABASES, Due, HASHES, Keyspace, STRIPES, Sampled};

use crate::clock::now_ms;
use crate::events::Classes;
use crate::eviction::{EvictionPolicy, Order, Uses};
use crate::state::State;

/// Neighbouring leaves whose keys are judged together. Four leaves become three once a part of
/// their keys is gone, so small values too give pages back.
const LEAVES: usize = 4;

/// Groups that one call tries. In a group there may be nothing to remove.
const GROUPS: usize = 64;

/// At least a 16th of the keys of a group are removed if there are pages enough afterwards, and
/// half if not.
const BATCHES: usize = 16;
const BATCHES_MAX: usize = BATCHES / 2;

/// Leaves in the order of time that one call looks at for keys that expire.
const SOON_MAX: usize = 64;

/// How a removal gets the stripes of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locks {
    /// It waits for them. The caller holds none.
    Wait,
    /// It removes only keys whose stripes are free. The caller may hold some.
    Free,
}

/// A key that may be removed.
struct Candidate {
    /// The greatest is removed first.
    worth_removing: u64,
    /// Its leaf in the group.
    leaf: usize,
    sampled: Sampled,
}

/// Neighbouring leaves, and the keys in them that may be removed, the best to remove first.
struct Group {
    database: usize,
    /// A hash in the leaf whose neighbours are the others.
    middle: u64,
    candidates: Vec<Candidate>,
}

/// Removes keys of a full store by its policy. Ends when that has freed a page, or half of the keys
/// of a group of leaves are gone. Returns true if it removed any.
pub(crate) fn evict<M: FullMemory>(
    memory: &mut M,
    state: &State,
    keyspace: &Keyspace,
    locks: Locks,
) -> bool {
    let policy = state.shared.eviction.policy();
    if !policy.evicts() || state.shared.pause.is_on(now_ms()) {
        return false;
    }
    let evictor = Evictor { state, keyspace: &keyspace.at(now_ms()), policy, locks };
    for _ in 0..GROUPS {
        let Some((database, leaf, due)) = evictor.choose(memory) else { return false };
        let group = evictor.judge(memory, (database, leaf, due));
        let removed = evictor.remove_worst(memory, &group);
        if let Some(due) = due {
            evictor.correct(memory, database, due);
        }
        if removed {
            return true;
        }
    }
    false
}

/// Counts the keys of each database, which determine how long a generation of uses is.
pub(crate) fn count_keys<M: FullMemory>(
    memory: &mut M,
    state: &State,
    keyspace: &Keyspace,
) -> Vec<Counts> {
    let counts: Vec<Counts> =
        (0..DATABASES).map(|database| keyspace.counts(memory, database)).collect();
    if let Some((uses, _)) = state.shared.eviction.uses() {
        uses.note_keys(counts.iter().map(|counts| counts.keys).sum());
    }
    counts
}

/// A leaf to begin with: its database, a hash in it, and its record if the order is by expiry.
type Start = (usize, u64, Option<Due>);

/// What one call of [`evict`] needs.
#[derive(Clone, Copy)]
struct Evictor<'a> {
    state: &'a State,
    keyspace: &'a Keyspace,
    policy: EvictionPolicy,
    locks: Locks,
}

impl Evictor<'_> {
    /// Chooses the first leaf of a group; `None` if there is no key to remove.
    fn choose<M: FullMemory>(&self, memory: &mut M) -> Option<Start> {
        let counts = count_keys(memory, self.state, self.keyspace);
        let weights = counts.iter().map(|counts| match self.policy.is_volatile() {
            true => counts.expiring,
            false => counts.keys,
        });
        let weights: Vec<u64> = weights.collect();
        let all: u64 = weights.iter().sum();
        if all == 0 {
            return None;
        }
        if self.policy.order() == Order::Expiry
            && let Some(start) = self.soonest(memory)
        {
            return Some(start);
        }
        let mut chosen = self.state.random() % all;
        let database = weights.iter().position(|weight| match chosen.checked_sub(*weight) {
            Some(rest) => {
                chosen = rest;
                false
            }
            None => true,
        })?;
        let random = self.state.random();
        if !self.policy.is_volatile() {
            return Some((database, self.keyspace.random_leaf(memory, database, random)?, None));
        }
        let expiring = self.some_expiring(memory, database, random);
        let middle = self.state.random() as usize % expiring.len().max(1);
        let (before, from) = expiring.split_at(middle);
        for due in from.iter().chain(before) {
            if self.expiries(memory, database, *due).next().is_some() {
                return Some((database, due.hash(), None));
            }
            // Its keys that expire are gone. Many such records would hide the leaves with some.
            self.correct(memory, database, *due);
        }
        Some((database, expiring.first()?.hash(), None))
    }

    /// Returns when the keys of a leaf expire that do.
    fn expiries<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        due: Due,
    ) -> impl Iterator<Item = u64> + use<M> {
        let mut keys = Vec::new();
        self.keyspace.sample(memory, database, due.hash(), &mut keys);
        keys.into_iter().filter_map(|key| key.expires_at_ms)
    }

    /// Returns the leaves that a random page of the index of what expires names. If it is empty,
    /// takes the next one.
    fn some_expiring<M: FullMemory>(
        &self,
        memory: &mut M,
        database: usize,
        random: u64,
    ) -> Vec<Due> {
        let mut expiring = Vec::new();
        let start = self.keyspace.random_expiring(memory, database, random).unwrap_or(0);
        let mut from = start;
        while expiring.is_empty() && from < HASHES {
            from = self.keyspace.expiring(memory, database, from, &mut expiring);
        }
        let mut from = 0;
        while expiring.is_empty() && from < start {
            from = self.keyspace.expiring(memory, database, from, &mut expiring);
        }
        expiring
    }

    /// Returns the leaf, of all databases, whose first key expires soonest.
    fn soonest<M: FullMemory>(&self, memory: &mut M) -> Option<Start> {
        let mut soonest: Option<(u32, Start)> = None;
        for database in 0..DATABASES {
            let Some(due) = self.soonest_of(memory, database) else { continue };
            if soonest.as_ref().is_none_or(|(second, _)| due.second() < *second) {
                soonest = Some((due.second(), (database, due.hash(), Some(due))));
            }
        }
        soonest.map(|(_, start)| start)
    }

    /// Returns the first leaf by time that has a key of the time of its record. Others have hashes
    /// whose fields expire, or records that are too early.
    fn soonest_of<M: FullMemory>(&self, memory: &mut M, database: usize) -> Option<Due> {
        let (mut from, mut looked) = (0, 0);
        while from < HASHES && looked < SOON_MAX {
            let mut expiring = Vec::new();
            from = self.keyspace.expiring(memory, database, from, &mut expiring);
            for due in expiring.into_iter().take(SOON_MAX - looked) {
                let mut times = self.expiries(memory, database, due);
                if times.any(|at| at.div_ceil(1_000) <= u64::from(due.second())) {
                    return Some(due);
                }
                looked += 1;
            }
        }
        None
    }

    /// Reads the leaves of a group and judges their keys.
    fn judge<M: FullMemory>(&self, memory: &mut M, (database, leaf, due): Start) -> Group {
        let mut group = Group { database, middle: leaf, candidates: Vec::new() };
        let mut from = leaf;
        // The next leaves expire at other times.
        let leaves = if due.is_some() { 1 } else { LEAVES };
        for leaf in 0..leaves {
            if leaf == 1 {
                // A join looks at the leaf before this one and at the two after it.
                group.middle = from;
            }
            let mut keys = Vec::new();
            from = self.keyspace.sample(memory, database, from, &mut keys);
            for sampled in keys {
                if !self.policy.is_volatile() || sampled.expires_at_ms.is_some() {
                    let worth_removing = self.worth_removing(database, &sampled);
                    group.candidates.push(Candidate { worth_removing, leaf, sampled });
                }
            }
            if from >= HASHES {
                break;
            }
        }
        group.candidates.sort_by_key(|candidate| std::cmp::Reverse(candidate.worth_removing));
        if let Some(first) = due.and(group.candidates.first()) {
            let last = first.worth_removing.saturating_sub(1_000);
            group.candidates.retain(|candidate| candidate.worth_removing >= last);
        }
        group
    }

    fn worth_removing(&self, database: usize, sampled: &Sampled) -> u64 {
        let place = |uses: &Uses| uses.place(database, sampled.hash);
        // Keys that are equal in this are in random order, and not in that of their hashes.
        let by = |worth: u8| u64::from(worth) << 32 | self.state.random() >> 32;
        match (self.policy.order(), self.state.shared.eviction.uses()) {
            (Order::Recency, Some((uses, _))) => by(uses.age(place(uses))),
            (Order::Frequency, Some((uses, _))) => by(u8::MAX - uses.frequency(place(uses))),
            (Order::Expiry, _) => u64::MAX - sampled.expires_at_ms.unwrap_or(u64::MAX),
            _ => self.state.random(),
        }
    }

    /// Removes the worst keys of a group. Returns true if it removed any.
    fn remove_worst<M: FullMemory>(&self, memory: &mut M, group: &Group) -> bool {
        let (before, _) = self.keyspace.free_pages(memory);
        let at_once = group.candidates.len().div_ceil(BATCHES).max(1);
        let mut removed = 0;
        for batch in group.candidates.chunks(at_once).take(BATCHES_MAX) {
            for leaf in 0..LEAVES {
                let of_leaf = batch.iter().filter(|candidate| candidate.leaf == leaf);
                let keys: Vec<&Sampled> = of_leaf.map(|candidate| &candidate.sampled).collect();
                if !keys.is_empty() {
                    removed += self.remove(memory, group.database, &keys);
                }
            }
            if removed > 0 {
                self.join(memory, group);
            }
            let (free, _) = self.keyspace.free_pages(memory);
            if removed > 0 && (free > before || self.keyspace.has_detached(memory)) {
                break;
            }
        }
        removed > 0
    }

    /// Removes keys of a leaf in one transaction. Returns their number.
    fn remove<M: FullMemory>(&self, memory: &mut M, database: usize, keys: &[&Sampled]) -> usize {
        let Evictor { state, keyspace, policy, .. } = *self;
        let hashes: Vec<u64> = keys.iter().map(|sampled| sampled.hash).collect();
        self.hold(memory, &hashes, |memory, held| {
            if held.is_empty() {
                return 0;
            }
            let ran = memory.transaction(|memory| {
                let mut gone = Vec::new();
                for sampled in keys.iter().filter(|sampled| held.contains(&sampled.hash)) {
                    let key = keyspace.key(&sampled.key);
                    // It may have changed since it was judged.
                    let found = keyspace.find(memory, database, &key, &mut Vec::new());
                    let may = |expires: Option<u64>| !policy.is_volatile() || expires.is_some();
                    if found.is_some_and(|entry| may(entry.expires_at_ms)) {
                        keyspace.remove(memory, database, &key);
                        gone.push(&sampled.key);
                    }
                }
                gone
            });
            let Ok((gone, lsn)) = ran else { return 0 };
            state.shared.wrote(held, lsn);
            gone.iter().for_each(|key| state.removed(database, key));
            let keys = gone.iter().copied();
            state.publish_all(Classes::EVICTED, "evicted", database, keys);
            state.statistics().evicted.add(gone.len() as u64);
            gone.len()
        })
    }

    /// Joins the leaves of a group.
    fn join<M: FullMemory>(&self, memory: &mut M, group: &Group) {
        let Group { database, middle, .. } = *group;
        self.hold(memory, &[middle], |memory, held| {
            if !held.is_empty() {
                // If the log cannot be written, the command that needs room reports it.
                let _ = memory.transaction(|memory| self.keyspace.join(memory, database, middle));
            }
        });
    }

    /// Puts the record of a leaf that lost its first key at the time of the next one.
    fn correct<M: FullMemory>(&self, memory: &mut M, database: usize, due: Due) {
        self.hold(memory, &[due.hash()], |memory, held| {
            if !held.is_empty() {
                // As for a join.
                let _ = memory
                    .transaction(|memory| self.keyspace.expire(memory, database, due, &[]).len());
            }
        });
    }

    /// Runs `body` while it holds the stripes of these hashes, or of those that it gets.
    fn hold<M: FullMemory, R>(
        &self,
        memory: &mut M,
        hashes: &[u64],
        body: impl FnOnce(&mut M, &[u64]) -> R,
    ) -> R {
        let reserved = &self.state.shared.reserved;
        match self.locks {
            Locks::Wait => {
                reserved.of(self.keyspace, hashes).alone(memory, |memory| body(memory, hashes))
            }
            Locks::Free => self.keyspace.while_free(memory, hashes, |memory, free| {
                let free: Vec<u64> =
                    free.iter().copied().filter(|hash| !reserved.has(hash % STRIPES)).collect();
                body(memory, &free)
            }),
        }
    }
}
