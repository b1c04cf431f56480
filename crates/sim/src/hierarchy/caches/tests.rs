//! Tests coherence against the plain definition of its states, and its time on the mesh.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::designs::resolve;

/// Private caches of two sets of two lines on `cores` cores, and a last level that evicts nothing.
fn caches(cores: usize) -> Caches {
    let (count, llc) = (cores.to_string(), (cores * (64 << 10)).to_string());
    let keys = [
        ("cores.count", count.as_str()),
        ("llc.size", llc.as_str()),
        ("l1.size", "256"),
        ("l1.ways", "2"),
    ];
    Caches::new(&resolve("astriflash", &keys).unwrap()).unwrap()
}

/// `core` loads `line` or stores to it. Returns the cycles until that is done.
fn access(caches: &mut Caches, core: usize, line: LineId, write: bool) -> u64 {
    match caches.touch(core, line, write) {
        Some(false) if write => caches.own(core, line),
        Some(_) => 0,
        None => {
            let Looked { found, cycles } = caches.look(core, line);
            if !found {
                caches.install_in_llc(line, false);
            }
            cycles + caches.fill(core, line, write)
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Modified,
    Exclusive,
    Shared,
}

/// Every core's sets of two lines, the latest used first, each line with its state.
struct Model {
    sets: Vec<[VecDeque<(LineId, State)>; 2]>,
    coherence: Coherence,
}

impl Model {
    fn new(cores: usize) -> Model {
        let sets = (0..cores).map(|_| Default::default()).collect();
        Model { sets, coherence: Coherence::default() }
    }

    fn state(&self, core: usize, line: LineId) -> Option<State> {
        let set = &self.sets[core][line as usize % 2];
        set.iter().find(|(held, _)| *held == line).map(|(_, state)| *state)
    }

    fn forget(&mut self, core: usize, line: LineId) {
        self.sets[core][line as usize % 2].retain(|(held, _)| *held != line);
    }

    fn access(&mut self, core: usize, line: LineId, write: bool) {
        let own = self.state(core, line);
        let cores = (0..self.sets.len()).filter(|other| *other != core);
        let others: Vec<(usize, State)> =
            cores.filter_map(|other| Some((other, self.state(other, line)?))).collect();
        if own.is_none() {
            let owned = others.iter().any(|(_, state)| *state != State::Shared);
            self.coherence.forwards += u64::from(owned);
        }
        if write {
            self.coherence.upgrades += u64::from(own == Some(State::Shared));
            self.coherence.invalidations += others.len() as u64;
            others.iter().for_each(|(other, _)| self.forget(*other, line));
        } else if own.is_none() {
            for (other, _) in &others {
                let set = self.sets[*other][line as usize % 2].iter_mut();
                set.filter(|(held, _)| *held == line).for_each(|held| held.1 = State::Shared);
            }
        }
        let state = match (write, own) {
            (true, _) => State::Modified,
            (false, Some(state)) => state,
            (false, None) if others.is_empty() => State::Exclusive,
            (false, None) => State::Shared,
        };
        self.forget(core, line);
        let set = &mut self.sets[core][line as usize % 2];
        set.push_front((line, state));
        set.truncate(2);
    }
}

/// A number of cores, and accesses: core, line, whether it is a store.
fn accesses() -> impl Strategy<Value = (usize, Vec<(usize, LineId, bool)>)> {
    (1..6usize).prop_flat_map(|cores| {
        let access = (0..cores, 0..8u64, any::<bool>());
        (Just(cores), prop::collection::vec(access, 1..300))
    })
}

proptest! {
    #[test]
    fn caches_and_directory_agree_with_the_states_of_mesi((cores, accesses) in accesses()) {
        let (mut caches, mut model) = (caches(cores), Model::new(cores));
        for (core, line, write) in accesses {
            access(&mut caches, core, line, write);
            model.access(core, line, write);
            for line in 0..8 {
                let states: Vec<Option<State>> =
                    (0..cores).map(|core| model.state(core, line)).collect();
                let holders: Vec<usize> = (0..cores).filter(|core| states[*core].is_some()).collect();
                let alone = |state: &Option<State>| state.is_some_and(|s| s != State::Shared);
                prop_assert!(!states.iter().any(alone) || holders.len() == 1, "{states:?}");
                let known = match caches.directory.held(line) {
                    Some(Held::Shared(count)) => usize::from(count),
                    Some(Held::Owned(_)) => 1,
                    None => 0,
                };
                let held: Vec<usize> = (0..cores).filter(|c| caches.own[*c].holds(line)).collect();
                prop_assert_eq!((known, held), (holders.len(), holders));
                prop_assert_eq!(caches.directory.owner(line), states.iter().position(alone));
            }
        }
        prop_assert_eq!(caches.take_coherence(), model.coherence);
        for (core, line) in (0..cores).flat_map(|core| (0..8).map(move |line| (core, line))) {
            let dirty = model.state(core, line).map(|state| state == State::Modified);
            prop_assert_eq!(caches.own[core].remove(line), dirty, "{} {}", core, line);
        }
    }
}

/// A line that lives at `tile`.
fn line_at(caches: &Caches, tile: usize) -> LineId {
    (0..).find(|line| caches.noc.home(*line) == tile).unwrap()
}

/// Lookup in the core's own cache and in the last level: 2 and 6 cycles.
const BOTH: u64 = 2 + 6;

#[test]
fn a_line_that_another_core_owns_comes_from_there() {
    let mut caches = caches(16);
    let line = line_at(&caches, 5);
    access(&mut caches, 15, line, true);
    // Two hops to its home, four to its owner, six back, 3 cycles each; the owner's lookup; 4 for
    // 64 bytes.
    assert_eq!(access(&mut caches, 0, line, false), BOTH + (2 + 4 + 6) * 3 + 2 + 4);
    assert_eq!(caches.take_coherence(), Coherence { forwards: 1, ..Coherence::default() });
    // The last level has the written data, so the path is that for any line of it.
    assert_eq!(access(&mut caches, 4, line, false), BOTH + 2 * 3 + 4);
    assert_eq!(caches.slices[5].touch(line, false), Some(true), "written");
    assert!(!caches.own[15].clean(line), "no longer written here alone");
}

#[test]
fn a_store_waits_until_the_furthest_sharer_has_lost_the_line() {
    let mut caches = caches(16);
    let line = line_at(&caches, 5);
    [0, 15, 4].into_iter().for_each(|core| {
        access(&mut caches, core, line, false);
    });
    caches.take_coherence();
    // A new holder: the path to the last level and back with the line, and from there to tile 15.
    let missed = BOTH + (2 * 3 + 4) + (2 * 4 * 3 + 2);
    assert_eq!(access(&mut caches, 6, line, true), missed);
    let three = Coherence { invalidations: 3, ..Coherence::default() };
    assert_eq!(caches.take_coherence(), three);
    // The next core takes the line from that holder.
    assert_eq!(access(&mut caches, 7, line, true), BOTH + (2 + 1 + 1) * 3 + 2 + 4);
    let one = Coherence { forwards: 1, invalidations: 1, ..Coherence::default() };
    assert_eq!(caches.take_coherence(), one);
}

#[test]
fn a_store_to_a_shared_line_asks_and_a_sole_holder_need_not() {
    let mut caches = caches(16);
    let line = line_at(&caches, 5);
    access(&mut caches, 0, line, false);
    assert_eq!(access(&mut caches, 0, line, true), 0, "it was alone");
    access(&mut caches, 15, line, false);
    caches.take_coherence();
    // No line moves: two hops to the home and back, four to the other holder and back.
    assert_eq!(access(&mut caches, 0, line, true), BOTH + 2 * 2 * 3 + (2 * 4 * 3 + 2));
    let asked = Coherence { upgrades: 1, invalidations: 1, ..Coherence::default() };
    assert_eq!(caches.take_coherence(), asked);
    assert_eq!(caches.own[15].remove(line), None);
}

#[test]
fn a_last_sharer_asks_as_well_but_waits_for_nobody() {
    let mut caches = caches(16);
    let line = line_at(&caches, 5);
    [0, 15].into_iter().for_each(|core| {
        access(&mut caches, core, line, false);
    });
    // Two more lines of the set evict it from one of the caches.
    [2, 4].into_iter().for_each(|more| {
        access(&mut caches, 15, line + more, false);
    });
    assert_eq!(access(&mut caches, 0, line, true), BOTH + 2 * 2 * 3);
}

#[test]
fn a_store_past_the_caches_leaves_a_line_to_its_own_core_at_most() {
    for holds in [false, true] {
        let mut caches = caches(4);
        [1, 2].into_iter().chain(holds.then_some(3)).for_each(|core| {
            access(&mut caches, core, 7, false);
        });
        caches.store_past(3, 7);
        assert_eq!(caches.take_coherence().invalidations, 2);
        assert_eq!(caches.directory.owner(7), holds.then_some(3));
        let held: Vec<bool> = (0..4).map(|core| caches.own[core].remove(7).is_some()).collect();
        assert_eq!(held, [false, false, false, holds]);
    }
}

/// Whether a cache of the chip holds `line` dirty.
fn holds_dirty(caches: &Caches, line: LineId) -> bool {
    let all = caches.own.iter().chain(&caches.slices);
    // A clone, since only an access reveals the state.
    all.clone().any(|cache| cache.clone().touch(line, false) == Some(true))
}

proptest! {
    /// A store stays on the chip until memory has its line, however cores pass the line on.
    #[test]
    fn no_dirty_line_disappears(
        steps in prop::collection::vec((0usize..3, 0u64..24, any::<bool>()), 1..200),
    ) {
        let mut caches = caches(3);
        let slice = LineCache::new(4, 2).unwrap();
        caches.slices = vec![slice; 3];
        let mut stored = std::collections::BTreeSet::new();
        for (core, line, write) in steps {
            access(&mut caches, core, line, write);
            while let Some(line) = caches.take_leaving() {
                stored.remove(&line);
            }
            if write {
                stored.insert(line);
            }
            for line in &stored {
                prop_assert!(holds_dirty(&caches, *line), "line {line} is lost");
            }
        }
    }

    #[test]
    fn a_page_that_is_dropped_leaves_no_line(
        steps in prop::collection::vec((0usize..3, 0u64..160, any::<bool>()), 1..200),
    ) {
        let mut caches = caches(3);
        for (core, line, write) in steps {
            access(&mut caches, core, line, write);
        }
        caches.drop_page(PageId(1));
        for line in 64..128 {
            prop_assert!((0..3).all(|core| !caches.is_on_chip(core, line)), "line {line}");
            prop_assert_eq!(caches.directory.held(line), None);
        }
    }
}
