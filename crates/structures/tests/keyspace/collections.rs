//! Random changes of collections and of models give the same elements, in packed form and in trees.

use std::collections::{BTreeMap, BTreeSet};

use ebbtide_core::{Addr, Memory, PAGE_BYTES, PageId};
use ebbtide_structures::keyspace::{
    Collection, EntryId, Field, HashSecret, Key, Keyspace, Kind, MEMBER_BYTES_MAX, NotKeyspace,
    SCAN_END, Score, StreamState, fields_of,
};
use ebbtide_testbed::{Faulty, Plain};
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const PAGES: u64 = 8_192;
pub(crate) const DATABASE: usize = 2;

pub(crate) struct Store {
    pub(crate) memory: Plain,
    pub(crate) keys: Keyspace,
}

impl Store {
    pub(crate) fn new() -> Store {
        let mut memory = Plain::zeroed(PAGES * PAGE_BYTES as u64);
        let keys = Keyspace::format(&mut memory, Addr(0), PAGES, HashSecret([7, 8]));
        Store { memory, keys }
    }

    pub(crate) fn open(&mut self, key: &Key<'_>, kind: Kind) -> Collection {
        let mut value = Vec::new();
        let entry = self.keys.find(&mut self.memory, DATABASE, key, &mut value);
        let found = entry.and_then(|entry| self.keys.open_collection(key, &entry, &value));
        found.unwrap_or_else(|| self.keys.new_collection(key, kind))
    }

    /// Changes the collection of a key.
    pub(crate) fn change<R>(
        &mut self,
        name: &[u8],
        kind: Kind,
        change: impl FnOnce(&mut Collection, &mut Plain) -> R,
    ) -> R {
        let key = self.keys.key(name);
        let mut collection = self.open(&key, kind);
        let result = change(&mut collection, &mut self.memory);
        let stored = self.keys.store_collection(&mut self.memory, DATABASE, &key, &mut collection);
        stored.expect("room");
        result
    }

    fn all(&mut self, name: &[u8], kind: Kind) -> Vec<Vec<u8>> {
        let key = self.keys.key(name);
        let collection = self.open(&key, kind);
        let mut all = Vec::new();
        while collection.read(&mut self.memory, all.len() as u64, usize::MAX, &mut all) {}
        assert_eq!(collection.len(&mut self.memory), all.len() as u64);
        all
    }

    pub(crate) fn free_after_upkeep(&mut self) -> u64 {
        while self.keys.reclaim_large(&mut self.memory, |_| false) {}
        self.keys.free_pages(&mut self.memory).0
    }
}

/// A name: often one of few, with a length that is seldom large.
fn name(rng: &mut Pcg64Mcg, names: u32) -> Vec<u8> {
    let number = rng.random_range(0..names);
    let length = [0, 3, 20, 200][number as usize % 4];
    format!("{number}{}", "n".repeat(length)).into_bytes()
}

fn value(rng: &mut Pcg64Mcg) -> Vec<u8> {
    let length = match rng.random_range(0..40) {
        0 => rng.random_range(900..1_100),
        1 => rng.random_range(0..30_000),
        _ => rng.random_range(0..40),
    };
    vec![rng.next_u32() as u8; length]
}

/// Numbers of names, and steps: collections that stay packed, change their form, and stay in trees.
const SIZES: [(u32, u32); 3] = [(8, 3_000), (60, 10_000), (4_000, 40_000)];

#[test]
fn a_hash_has_the_fields_of_a_map() {
    for (names, steps) in SIZES {
        let (mut store, mut model) = (Store::new(), BTreeMap::<Vec<u8>, Vec<u8>>::new());
        let free = store.free_after_upkeep();
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        for step in 0..steps {
            let name = name(&mut rng, names);
            // It grows for a while, and then shrinks.
            if rng.random_bool(if step < steps / 2 { 0.3 } else { 0.8 }) {
                let gone =
                    store.change(b"h", Kind::Hash, |hash, memory| hash.remove(memory, &name));
                assert_eq!(gone, model.remove(&name).is_some(), "step {step}");
            } else {
                let value = value(&mut rng);
                let expires_at_ms = rng.random_bool(0.1).then_some(1 << 40);
                let field = Field { name: &name, expires_at_ms, value: &value }.encode();
                let new = store.change(b"h", Kind::Hash, |hash, memory| hash.put(memory, &field));
                assert_eq!(new, Ok(model.insert(name, field).is_none()), "step {step}");
            }
            if step % 500 == 0 {
                let mut all = store.all(b"h", Kind::Hash);
                all.sort();
                let mut expected: Vec<Vec<u8>> = model.values().cloned().collect();
                expected.sort();
                assert!(all == expected, "{names} names, step {step}");
                let key = store.keys.key(b"h");
                let hash = store.open(&key, Kind::Hash);
                for name in (0..20).map(|_| self::name(&mut rng, names)) {
                    assert_eq!(hash.find(&mut store.memory, &name).as_ref(), model.get(&name));
                }
            }
        }
        let names: Vec<Vec<u8>> = model.keys().cloned().collect();
        for name in names {
            assert!(store.change(b"h", Kind::Hash, |hash, memory| hash.remove(memory, &name)));
        }
        assert_eq!(store.keys.counts(&mut store.memory, DATABASE).keys, 0);
        let left = "only leaves of the database and of its index of due leaves are left";
        assert!(free - store.free_after_upkeep() <= 2, "{left}");
    }
}

/// The fields of a map, without those whose time is over.
fn live(model: &BTreeMap<Vec<u8>, (Option<u64>, Vec<u8>)>, now_ms: u64) -> BTreeSet<Vec<u8>> {
    let live = model.iter().filter(|(_, (at, _))| at.is_none_or(|at| at > now_ms));
    live.map(|(_, (_, field))| field.clone()).collect()
}

#[test]
fn fields_that_have_expired_are_gone_and_give_their_pages_back() {
    for (names, steps) in SIZES {
        let mut store = Store::new();
        let mut model = BTreeMap::<Vec<u8>, (Option<u64>, Vec<u8>)>::new();
        let free = store.free_after_upkeep();
        let mut rng = Pcg64Mcg::seed_from_u64(4);
        for step in 0..steps {
            let now_ms = u64::from(step);
            store.keys = store.keys.at(now_ms);
            model.retain(|_, (at, _)| at.is_none_or(|at| at > now_ms));
            let name = name(&mut rng, names);
            if rng.random_bool(0.3) {
                let gone =
                    store.change(b"h", Kind::Hash, |hash, memory| hash.remove(memory, &name));
                assert_eq!(gone, model.remove(&name).is_some(), "step {step}");
            } else {
                let value = value(&mut rng);
                let later = now_ms + rng.random_range(1..u64::from(steps) / 4);
                let expires_at_ms = rng.random_bool(0.5).then_some(later);
                if expires_at_ms.is_some() {
                    let prepare =
                        |hash: &mut Collection, memory: &mut Plain| hash.prepare_expiry(memory);
                    store.change(b"h", Kind::Hash, prepare).expect("room");
                }
                let field = Field { name: &name, expires_at_ms, value: &value }.encode();
                let new = store.change(b"h", Kind::Hash, |hash, memory| {
                    hash.remove_expired(memory, 8);
                    hash.put(memory, &field)
                });
                let old = model.insert(name, (expires_at_ms, field));
                assert_eq!(new, Ok(old.is_none()), "step {step}");
            }
            if step % 500 == 0 {
                let key = store.keys.key(b"h");
                let hash = store.open(&key, Kind::Hash);
                let (mut all, mut scanned) = (Vec::new(), Vec::new());
                while hash.read(&mut store.memory, all.len() as u64, usize::MAX, &mut all) {}
                assert_eq!(hash.stored(&mut store.memory), all.len() as u64);
                all.retain(|element| hash.is_live(element));
                let mut cursor = 0;
                while cursor != SCAN_END {
                    cursor = hash.scan(&mut store.memory, cursor, 10, &mut scanned);
                }
                let expected = live(&model, now_ms);
                assert_eq!(hash.len(&mut store.memory), expected.len() as u64, "step {step}");
                assert!(all.into_iter().collect::<BTreeSet<_>>() == expected, "step {step}");
                assert!(scanned.into_iter().collect::<BTreeSet<_>>() == expected, "step {step}");
                for name in (0..20).map(|_| self::name(&mut rng, names)) {
                    let found = hash.find(&mut store.memory, &name);
                    assert_eq!(found.as_ref(), model.get(&name).map(|(_, field)| field));
                }
            }
        }
        // All that is left expires. A change then removes what is over.
        store.keys = store.keys.at(1 << 40);
        for (name, (at, _)) in &model {
            let gone = store.change(b"h", Kind::Hash, |hash, memory| hash.remove(memory, name));
            assert_eq!(gone, at.is_none());
        }
        store.change(b"h", Kind::Hash, |hash, memory| hash.put(memory, b"\x02a1")).expect("room");
        assert!(store.change(b"h", Kind::Hash, |hash, memory| hash.remove(memory, b"a")));
        assert_eq!(store.keys.counts(&mut store.memory, DATABASE).keys, 0);
        let left = "only leaves of the database and of its index of due leaves are left";
        assert!(free - store.free_after_upkeep() <= 2, "{left}");
    }
}

#[test]
fn a_sorted_set_is_in_the_order_of_scores_and_members() {
    for (names, steps) in SIZES {
        let (mut store, mut model) = (Store::new(), BTreeMap::<Vec<u8>, Score>::new());
        let mut rng = Pcg64Mcg::seed_from_u64(2);
        for step in 0..steps {
            let mut name = name(&mut rng, names);
            if rng.random_range(0..50) == 0 {
                // The longest key of a tree, one byte more, and long members of some pages.
                let lengths = [990, 991, 992, 3_000, 9_000, MEMBER_BYTES_MAX];
                let length = lengths[rng.random_range(0..lengths.len() - usize::from(names > 60))];
                name.resize(length, b'm');
            }
            if rng.random_bool(if step < steps / 2 { 0.3 } else { 0.8 }) {
                let gone = store
                    .change(b"z", Kind::SortedSet, |set, memory| set.remove_member(memory, &name));
                assert_eq!(gone, model.remove(&name).is_some());
            } else {
                let score = Score::of(f64::from(rng.random_range(-20..20)));
                let put = store.change(b"z", Kind::SortedSet, |set, memory| {
                    set.add(memory, 0, &score.with(&name))
                });
                put.expect("room");
                model.insert(name, score);
            }
            if step % 500 == 0 {
                let ordered: BTreeSet<Vec<u8>> =
                    model.iter().map(|(name, score)| score.with(name)).collect();
                let expected: Vec<Vec<u8>> = ordered.into_iter().collect();
                assert!(store.all(b"z", Kind::SortedSet) == expected, "{names}, step {step}");
                let key = store.keys.key(b"z");
                let set = store.open(&key, Kind::SortedSet);
                for _ in 0..20 {
                    let name = self::name(&mut rng, names);
                    let score = model.get(&name).map(|score| score.with(&name));
                    assert_eq!(set.find_member(&mut store.memory, &name), score);
                    let bound = Score::of(f64::from(rng.random_range(-21..21)));
                    let rank = expected.iter().take_while(|e| e[..] < bound.0[..]).count();
                    assert_eq!(set.rank_of(&mut store.memory, &bound.0), rank as u64);
                }
            }
        }
    }
}

#[test]
fn long_members_that_begin_alike_are_found_counted_and_removed() {
    let mut store = Store::new();
    let free = store.free_after_upkeep();
    let member = |number: u32, length: usize| {
        let mut member = vec![b'm'; length];
        member[length - 4..].copy_from_slice(format!("{number:04}").as_bytes());
        member
    };
    let lengths = [980, 990, 991, 1_200, 5_000, 20_000];
    let members: Vec<Vec<u8>> = (0..60).map(|n| member(n, lengths[n as usize % 6])).collect();
    for (at, member) in members.iter().enumerate() {
        for score in [1_000.0, f64::from(at as u32 / 30)] {
            let put = store.change(b"z", Kind::SortedSet, |set, memory| {
                set.add(memory, 0, &Score::of(score).with(member))
            });
            put.expect("room");
        }
    }
    let all = store.all(b"z", Kind::SortedSet);
    let expected = |at: usize| Score::of((at / 30) as f64).with(&members[at]);
    let found: BTreeSet<Vec<u8>> = all.iter().cloned().collect();
    assert!(found == (0..60).map(expected).collect::<BTreeSet<_>>() && all.len() == 60);
    assert!(all.is_sorted_by_key(|element| Score::split(element).0.to_bits()));
    let key = store.keys.key(b"z");
    let set = store.open(&key, Kind::SortedSet);
    for (rank, element) in all.iter().enumerate() {
        assert_eq!(
            set.find_member(&mut store.memory, Score::split(element).1).as_ref(),
            Some(element)
        );
        assert_eq!(set.rank_of(&mut store.memory, element), rank as u64);
        assert_eq!(set.rank_of(&mut store.memory, &[element, &[0][..]].concat()), rank as u64 + 1);
    }
    for member in &members {
        let remove = |set: &mut Collection, memory: &mut Plain| set.remove_member(memory, member);
        assert!(store.change(b"z", Kind::SortedSet, remove));
    }
    assert!(free - store.free_after_upkeep() <= 1, "only the leaf of the database is left");
}

#[test]
fn a_list_has_the_values_of_a_vector_in_its_order() {
    for (most, steps) in SIZES {
        let (mut store, mut model) = (Store::new(), Vec::<Vec<u8>>::new());
        let mut rng = Pcg64Mcg::seed_from_u64(3);
        for step in 0..steps {
            let at = match rng.random_range(0..3) {
                0 => 0,
                1 => model.len(),
                _ => rng.random_range(0..=model.len()),
            };
            let grows = rng.random_bool(if step < steps / 2 { 0.7 } else { 0.2 });
            if grows && model.len() < most as usize {
                let value = value(&mut rng);
                let put = store.change(b"l", Kind::List, |list, memory| {
                    list.insert_at(memory, at as u64, &value)
                });
                put.expect("room");
                model.insert(at, value);
            } else if at < model.len() && rng.random_bool(0.3) {
                let value = value(&mut rng);
                let put = store.change(b"l", Kind::List, |list, memory| {
                    list.replace_at(memory, at as u64, &value)
                });
                put.expect("room");
                model[at] = value;
            } else {
                let gone = store
                    .change(b"l", Kind::List, |list, memory| list.remove_at(memory, at as u64));
                assert_eq!(gone, (at < model.len()).then(|| model.remove(at)), "step {step}");
            }
            if step % 500 == 0 {
                assert!(store.all(b"l", Kind::List) == model, "{most} values, step {step}");
                let key = store.keys.key(b"l");
                let list = store.open(&key, Kind::List);
                let at = rng.random_range(0..=model.len());
                assert_eq!(list.at(&mut store.memory, at as u64), model.get(at).cloned());
            }
        }
    }
}

#[test]
fn a_scan_meets_what_stays_while_the_form_changes() {
    let mut store = Store::new();
    let member = |number: u32| format!("member:{number}").into_bytes();
    for number in 0..40 {
        store
            .change(b"s", Kind::Set, |set, memory| set.put(memory, &member(number)))
            .expect("room");
    }
    for wave in [2_000, 60] {
        let (mut cursor, mut met) = (0, BTreeSet::new());
        while cursor != SCAN_END {
            let key = store.keys.key(b"s");
            let set = store.open(&key, Kind::Set);
            let mut found = Vec::new();
            cursor = set.scan(&mut store.memory, cursor, 10, &mut found);
            met.extend(found);
            // Others come in the first round and go in the second.
            for number in 40..wave {
                store
                    .change(b"s", Kind::Set, |set, memory| set.put(memory, &member(number)))
                    .expect("room");
            }
            if wave == 60 {
                for number in 40..2_000 {
                    store
                        .change(b"s", Kind::Set, |set, memory| set.remove(memory, &member(number)));
                }
            }
        }
        assert!((0..40).all(|number| met.contains(&member(number))), "wave {wave}");
    }
}

#[test]
fn a_removed_collection_gives_all_its_pages_back_in_steps() {
    let mut store = Store::new();
    store.change(b"before", Kind::Set, |set, memory| set.put(memory, b"x")).expect("room");
    let free = store.free_after_upkeep();
    for (key, kind) in [(b"h", Kind::Hash), (b"z", Kind::SortedSet), (b"l", Kind::List)] {
        for number in 0..3_000u32 {
            let text = format!("{number:010}");
            store
                .change(key, kind, |collection, memory| match kind {
                    Kind::Hash => {
                        let value = vec![b'v'; if number % 500 == 0 { 9_000 } else { 30 }];
                        let (name, value) = (text.as_bytes(), &value[..]);
                        let field = Field { name, expires_at_ms: None, value };
                        collection.put(memory, &field.encode()).map(drop)
                    }
                    Kind::SortedSet => {
                        let score = Score::of(f64::from(number));
                        collection.add(memory, 0, &score.with(text.as_bytes()))
                    }
                    _ => collection.insert_at(memory, u64::from(number), text.as_bytes()),
                })
                .expect("room");
        }
        let key = store.keys.key(key);
        assert!(store.keys.remove(&mut store.memory, DATABASE, &key));
    }
    assert_eq!(store.free_after_upkeep(), free);
}

#[test]
fn a_change_without_room_has_no_effect() {
    let mut memory = Plain::zeroed(64 * PAGE_BYTES as u64);
    let keys = Keyspace::format(&mut memory, Addr(0), 64, HashSecret([7, 8]));
    let mut store = Store { memory, keys };
    let mut model = BTreeSet::new();
    let mut refused = 0;
    for number in 0..4_000 {
        let score = Score::of(f64::from(number * 7919 % 4_000));
        let member = format!("{number}{}", "x".repeat(30));
        let key = store.keys.key(b"z");
        let mut set = store.open(&key, Kind::SortedSet);
        let put = set.add(&mut store.memory, 0, &score.with(member.as_bytes()));
        let stored = store.keys.store_collection(&mut store.memory, DATABASE, &key, &mut set);
        match put.and(stored) {
            Ok(()) => drop(model.insert(score.with(member.as_bytes()))),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 1_000 && model.len() > 300, "{refused} of 4,000 refused");
    let expected: Vec<Vec<u8>> = model.into_iter().collect();
    assert!(store.all(b"z", Kind::SortedSet) == expected);
    let key = store.keys.key(b"z");
    let set = store.open(&key, Kind::SortedSet);
    for element in &expected {
        assert_eq!(set.find_member(&mut store.memory, &element[8..]).as_ref(), Some(element));
    }
}

/// An element of a stream, with fields that are seldom long.
fn entry(rng: &mut Pcg64Mcg, id: EntryId) -> Vec<u8> {
    let fields = [name(rng, 8), value(rng)];
    id.with(&[&fields[0], &fields[1]])
}

#[test]
fn a_stream_has_the_entries_of_an_ordered_map() {
    // Most entries that the stream has: packed, about the change of form, and in trees.
    for (most, steps) in [(8, 3_000), (60, 10_000), (3_000, 30_000)] {
        let (mut store, mut model) = (Store::new(), BTreeMap::<EntryId, Vec<u8>>::new());
        let free = store.free_after_upkeep();
        let (mut rng, mut state) = (Pcg64Mcg::seed_from_u64(9), StreamState::default());
        let mut forms = BTreeSet::new();
        for step in 0..steps {
            let ms = state.last.ms + rng.random_range(0..2);
            let next = EntryId { ms, sequence: state.last.sequence + 1 };
            if model.len() < most && rng.random_bool(if step < steps / 2 { 0.7 } else { 0.4 }) {
                state = StreamState { last: next, added: state.added + 1, ..state };
                let element = entry(&mut rng, next);
                let put = store.change(b"s", Kind::Stream, |stream, memory| {
                    stream.set_stream_state(state);
                    stream.add(memory, 0, &element)
                });
                put.expect("room");
                model.insert(next, element);
            } else if rng.random_bool(0.5) {
                let id = nearby(&mut rng, &model).unwrap_or(next);
                state.deleted = state.deleted.max(id);
                let gone = store.change(b"s", Kind::Stream, |stream, memory| {
                    stream.set_stream_state(state);
                    stream.remove_entry(memory, id)
                });
                assert_eq!(gone, model.remove(&id).is_some(), "step {step}");
            } else {
                let first = model.pop_first().map(|(_, element)| element);
                let gone =
                    store.change(b"s", Kind::Stream, |stream, memory| stream.remove_at(memory, 0));
                assert_eq!(gone.is_some(), first.is_some(), "step {step}");
            }
            if step % 250 == 0 {
                let expected: Vec<Vec<u8>> = model.values().cloned().collect();
                assert!(store.all(b"s", Kind::Stream) == expected, "{most} entries, step {step}");
                forms.insert(check_stream(&mut store, &model, state, &mut rng));
            }
        }
        assert_eq!(forms.len(), 2, "{most} entries: both forms were there");
        for id in model.keys() {
            assert!(store.change(b"s", Kind::Stream, |s, memory| s.remove_entry(memory, *id)));
        }
        // A stream without entries remains, with its state.
        let key = store.keys.key(b"s");
        let stream = store.open(&key, Kind::Stream);
        assert_eq!((stream.is_stored(), stream.len(&mut store.memory)), (true, 0));
        assert_eq!(stream.stream_state(), state);
        assert!(store.keys.remove(&mut store.memory, DATABASE, &key));
        assert!(free - store.free_after_upkeep() <= 2, "only leaves of the database are left");
    }
}

/// An id that is there, or the next one.
fn nearby(rng: &mut Pcg64Mcg, model: &BTreeMap<EntryId, Vec<u8>>) -> Option<EntryId> {
    let at = rng.random_range(0..model.len().max(1));
    let id = *model.keys().nth(at)?;
    if rng.random_bool(0.8) { Some(id) } else { id.next() }
}

/// Checks the state, the ranks and the entries of a stream. Returns true if it is in trees.
fn check_stream(
    store: &mut Store,
    model: &BTreeMap<EntryId, Vec<u8>>,
    state: StreamState,
    rng: &mut Pcg64Mcg,
) -> bool {
    let key = store.keys.key(b"s");
    let stream = store.open(&key, Kind::Stream);
    assert_eq!(stream.stream_state(), state);
    for _ in 0..20 {
        let id = nearby(rng, model).unwrap_or_default();
        assert_eq!(stream.find_entry(&mut store.memory, id).as_ref(), model.get(&id));
        let rank = stream.rank_of(&mut store.memory, &id.to_bytes());
        assert_eq!(rank, model.range(..id).count() as u64);
    }
    stream.is_large()
}

#[test]
fn a_longer_name_moves_packed_elements_to_a_tree() {
    let mut store = Store::new();
    for number in 0..100u32 {
        let value = format!("value {number:09}");
        store
            .change(b"short", Kind::List, |list, memory| {
                list.insert_at(memory, u64::from(number), value.as_bytes())
            })
            .expect("room");
    }
    let before = store.all(b"short", Kind::List);
    let long = vec![b'k'; 1_024];
    let (from, to) = (store.keys.key(b"short"), store.keys.key(&long));
    let renamed = store.keys.rename(&mut store.memory, (DATABASE, &from), (DATABASE, &to));
    renamed.expect("room");
    assert!(store.open(&to, Kind::List).is_large());
    assert!(store.all(&long, Kind::List) == before);
    assert!(store.all(b"short", Kind::List).is_empty());
}

#[test]
fn a_renamed_stream_keeps_its_state_in_either_form() {
    let mut store = Store::new();
    let id = EntryId { ms: 5, sequence: 6 };
    let state = StreamState { last: id, deleted: id.before().expect("an id"), added: 9 };
    let element = id.with(&[b"field", &[b'v'; 950]]);
    store.change(b"short", Kind::Stream, |stream, memory| {
        stream.set_stream_state(state);
        stream.add(memory, 0, &element).expect("room");
    });
    let long = vec![b'k'; 1_024];
    for (from, to, is_large) in [(&b"short"[..], &b"other"[..], false), (b"other", &long, true)] {
        let keys = store.keys;
        let (from, to) = (keys.key(from), keys.key(to));
        let renamed = keys.rename(&mut store.memory, (DATABASE, &from), (DATABASE, &to));
        renamed.expect("room");
        let stream = store.open(&to, Kind::Stream);
        assert_eq!((stream.stream_state(), stream.is_large()), (state, is_large));
        assert_eq!(stream.at(&mut store.memory, 0).as_ref(), Some(&element));
        assert_eq!(fields_of(&element).collect::<Vec<_>>(), [&b"field"[..], &[b'v'; 950]]);
    }
}

/// The word that names a keyspace, with this version of the format.
fn name_of_version(version: u64) -> u64 {
    u64::from_le_bytes(*b"EBBKEYS\x00") | version << 56
}

#[test]
fn a_keyspace_of_an_older_version_is_opened_and_becomes_one_of_the_current_version() {
    let mut store = Store::new();
    let key = store.keys.key(b"old");
    let set = store.keys.set(&mut store.memory, DATABASE, &key, b"value", None);
    assert_eq!(set, Ok(false));
    let current: u64 = store.memory.load(Addr(0));
    for number in 0..300u32 {
        let element = number.to_le_bytes();
        let put = store.change(b"set", Kind::Set, |set, memory| set.put(memory, &element));
        assert_eq!(put, Ok(true));
    }
    for version in [4, 5, 6, 7] {
        store.memory.store(Addr(0), name_of_version(version));
        let keys = Keyspace::open(&mut store.memory, Addr(0)).expect("an older form");
        let pages: u64 = store.memory.load(Addr(8));
        let keys = keys.updated(&mut store.memory, pages);
        assert_eq!(store.memory.load::<u64>(Addr(0)), current);
        let mut value = Vec::new();
        assert!(keys.find(&mut store.memory, DATABASE, &key, &mut value).is_some());
        assert_eq!(value, b"value");
        assert_eq!(store.all(b"set", Kind::Set).len(), 300);
    }
}

#[test]
fn builds_refuse_versions_that_they_do_not_know() {
    let mut store = Store::new();
    // Builds up to version 5 take a stream for a list, and those up to 6 lose consumer groups.
    // Those up to 7 take a value with a tail for a longer one. So these need versions of their own.
    assert_eq!(store.memory.load::<u64>(Addr(0)), name_of_version(8));
    for version in [3, 9] {
        store.memory.store(Addr(0), name_of_version(version));
        let opened = Keyspace::open(&mut store.memory, Addr(0));
        assert_eq!(opened.err(), Some(NotKeyspace::Version(version)));
    }
}

/// Pages that one look-up reads.
pub(crate) fn pages_read<R>(
    store: &mut Store,
    look_up: impl FnOnce(&Keyspace, &mut Counting<'_>) -> R,
) -> usize {
    let mut pages = BTreeSet::new();
    let keys = store.keys;
    let mut count = |page: PageId, _: bool| {
        pages.insert(page);
        false
    };
    let count: &mut dyn FnMut(PageId, bool) -> bool = &mut count;
    look_up(&keys, &mut Faulty::new(&mut store.memory, count));
    pages.len()
}

pub(crate) type Counting<'a> = Faulty<'a, Plain, &'a mut dyn FnMut(PageId, bool) -> bool>;

#[test]
fn an_element_among_many_costs_three_pages_more_than_a_string() {
    let mut store = Store::new();
    let key = store.keys.key(b"z");
    let mut set = store.keys.new_collection(&key, Kind::SortedSet);
    for number in 0..100_000u32 {
        let member = format!("member:{number:09}");
        let score = Score::of(f64::from(number * 7_919 % 100_000));
        set.add(&mut store.memory, 0, &score.with(member.as_bytes())).expect("room");
    }
    store.keys.store_collection(&mut store.memory, DATABASE, &key, &mut set).expect("room");
    let find = |keys: &Keyspace, memory: &mut Counting<'_>| {
        let mut value = Vec::new();
        let entry = keys.find(memory, DATABASE, &key, &mut value).expect("it is there");
        keys.open_collection(&key, &entry, &value).expect("a sorted set")
    };
    let of_string = pages_read(&mut store, |keys, memory| drop(find(keys, memory)));
    // The root and two pages below it: the index of members has three levels, as up to about 3
    // million have.
    for number in [0, 17, 99_999] {
        let member = format!("member:{number:09}");
        let of_member = pages_read(&mut store, |keys, memory| {
            find(keys, memory).find_member(memory, member.as_bytes()).expect("a member")
        });
        assert_eq!(of_member, of_string + 3);
        let of_rank = pages_read(&mut store, |keys, memory| {
            find(keys, memory).at(memory, number).expect("a rank")
        });
        assert_eq!(of_rank, of_string + 3);
    }
}
