//! A window of live entries moves on for a hundred times its size. No structure fills up, and an emptied
//! one has as much room as a new one.

use std::collections::{BTreeMap, VecDeque};

use ebbtide_core::{Addr, Memory, Value};
use ebbtide_structures::hash::mix;
use ebbtide_structures::masstree::Tree;
use ebbtide_structures::silo::{Isolation, Silo, Table};
use ebbtide_structures::{BTree, Catalogue, Map, OrderedMap};
use ebbtide_testbed::Plain;

/// The order of the keys that come and go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Keys {
    Rising,
    Falling,
    Random,
    /// Keys with shared first bytes, few in a row.
    Prefixed,
    /// Keys come in order, and any of the window goes.
    AnyGoes,
}

pub const ALL_KEYS: [Keys; 5] =
    [Keys::Rising, Keys::Falling, Keys::Random, Keys::Prefixed, Keys::AnyGoes];

impl Keys {
    pub fn key(self, number: u64) -> [u64; 2] {
        match self {
            Keys::Rising | Keys::AnyGoes => [number, 1],
            Keys::Falling => [u64::MAX - number, 1],
            Keys::Random => [mix(number), number],
            Keys::Prefixed => [mix(number / 20) % 1000, number],
        }
    }

    /// Calls `step(comes, goes)` with the numbers that come and go. At first `window` keys only come, and
    /// at last all remaining keys go.
    pub fn moves(self, window: u64, mut step: impl FnMut(Option<u64>, Option<u64>)) {
        let mut live = VecDeque::new();
        let goes = |live: &mut VecDeque<u64>| {
            let any = mix(live[0]) as usize % live.len();
            if self == Keys::AnyGoes { live.swap_remove_back(any) } else { live.pop_front() }
        };
        for number in 0..100 * window {
            let leaving = if number < window { None } else { goes(&mut live) };
            live.push_back(number);
            step(Some(number), leaving);
        }
        while !live.is_empty() {
            step(None, goes(&mut live));
        }
    }
}

fn b_tree_stays_in_its_room<const R: usize>(window: u64, pages: u64)
where
    [u64; R]: Value,
{
    let fresh = || Plain::zeroed(BTree::<[u64; 2], [u64; R]>::bytes(pages));
    let tree = BTree::<[u64; 2], [u64; R]>::at(Addr(0), pages);
    let room = |memory: &mut Plain| {
        (0..).take_while(|&key| tree.insert(memory, [key, 0], [key; R]).is_ok()).count()
    };
    let when_new = room(&mut fresh());
    for keys in ALL_KEYS {
        let mut memory = fresh();
        keys.moves(window, |comes, goes| {
            if let Some(number) = goes {
                let removed = tree.remove(&mut memory, keys.key(number));
                assert_eq!(removed, Ok(Some([number; R])), "{keys:?}");
            }
            if let Some(number) = comes {
                let added = tree.insert(&mut memory, keys.key(number), [number; R]);
                assert_eq!(added, Ok(None), "{keys:?}");
            }
        });
        assert_eq!(room(&mut memory), when_new, "{keys:?}");
    }
}

#[test]
fn a_b_tree_of_small_rows_never_fills() {
    let rows = 4_000;
    b_tree_stays_in_its_room::<1>(rows, BTree::<[u64; 2], [u64; 1]>::pages_for(rows) * 23 / 10);
}

#[test]
fn a_b_tree_of_large_rows_never_fills() {
    let rows = 1_000;
    b_tree_stays_in_its_room::<33>(rows, BTree::<[u64; 2], [u64; 33]>::pages_for(rows) * 23 / 10);
}

#[test]
fn an_ordered_map_of_text_keys_never_fills() {
    let window = 1_000;
    let pages = OrderedMap::pages_for(window) * 23 / 10;
    let map = OrderedMap::at(Addr(0), pages);
    let room = |memory: &mut Plain| {
        let put = |number: &u64| map.put(memory, &number.to_be_bytes(), *number).is_ok();
        (0..).take_while(put).count()
    };
    let when_new = room(&mut Plain::zeroed(OrderedMap::bytes(pages)));
    for keys in ALL_KEYS {
        // Keys of changing lengths.
        let key = |number: u64| {
            let [group, number] = keys.key(number);
            let line = "x".repeat((number / window % 9) as usize);
            format!("order:{group:020}:line:{number}{line}").into_bytes()
        };
        let mut memory = Plain::zeroed(OrderedMap::bytes(pages));
        keys.moves(window, |comes, goes| {
            if let Some(number) = goes {
                assert_eq!(map.remove(&mut memory, &key(number)), Ok(Some(number)), "{keys:?}");
            }
            if let Some(number) = comes {
                assert_eq!(map.put(&mut memory, &key(number), number), Ok(None), "{keys:?}");
            }
        });
        assert_eq!(room(&mut memory), when_new, "{keys:?}");
    }
}

#[test]
fn a_map_by_hash_never_fills() {
    let window = 1_000;
    let map = Map::<[u64; 2], u64>::at(Addr(0), window);
    let mut memory = Plain::zeroed(Map::<[u64; 2], u64>::bytes(window));
    for keys in ALL_KEYS {
        keys.moves(window, |comes, goes| {
            if let Some(number) = goes {
                assert_eq!(map.remove(&mut memory, keys.key(number)), Some(number), "{keys:?}");
            }
            if let Some(number) = comes {
                assert_eq!(map.insert(&mut memory, keys.key(number), number), Ok(None), "{keys:?}");
            }
        });
        assert!(map.is_empty(&mut memory));
    }
}

#[test]
fn a_catalogue_of_ranges_of_all_sizes_never_fills() {
    let (window, bytes) = (40, 2 << 20);
    for keys in ALL_KEYS {
        let mut memory = Plain::zeroed(bytes);
        let catalogue = Catalogue::open(&mut memory, Addr(0), bytes).unwrap();
        keys.moves(window, |comes, goes| {
            let name = |number| format!("{:?}", keys.key(number));
            if let Some(number) = goes {
                assert_eq!(catalogue.remove(&mut memory, &name(number)), Ok(true), "{keys:?}");
            }
            if let Some(number) = comes {
                let bytes = (1 + mix(number) % (1 + number / window % 9)) * 4096;
                let at = catalogue.range(&mut memory, &name(number), bytes).unwrap();
                memory.store(at + (bytes - 8), u64::MAX);
            }
        });
        // The catalogue has a second page for the entries that the first has no room for.
        let largest = (2..).find(|pages| {
            let bytes = bytes - pages * 4096;
            catalogue.range(&mut memory, &format!("{pages}"), bytes).is_ok()
        });
        assert!(largest.unwrap() < 4, "{keys:?}: {largest:?}");
    }
}

#[test]
fn a_table_of_silo_never_fills() {
    let (window, bytes) = (500, 1 << 20);
    for keys in ALL_KEYS {
        let mut memory = Plain::zeroed(bytes);
        // The epoch, the places of one line, and the index.
        let silo = Silo::new(Addr(0), 7);
        memory.store(Addr(0), silo.image_of_epoch());
        let place_at = |number: u64| Addr(64 + number * 64);
        for at in (0..window).map(place_at) {
            memory.store(at, silo.image_of_free_place(at, 0));
        }
        let nodes = Tree::bytes(0, window.div_ceil(3) + window.div_ceil(18) + 2);
        let index = Tree::new(Addr(bytes / 2), nodes, 0, 7);
        index.format(&mut memory);
        let table = &Table::<u64>::new(index);
        let key = |number| match keys {
            Keys::Prefixed => keys.key(number)[0] << 32 | number,
            _ => keys.key(number)[0] - u64::from(keys == Keys::Falling),
        };
        let (mut places, mut free) = (BTreeMap::new(), (0..window).collect::<Vec<u64>>());
        keys.moves(window, |comes, goes| {
            if let Some(number) = goes {
                let removed = silo.run(&mut memory, 1, Isolation::Serializable, |silo| {
                    let found = silo.get(table, key(number))?.expect("it is there");
                    assert_eq!(found.row, number);
                    silo.remove(table, &found);
                    Ok(())
                });
                assert!(removed.unwrap().is_some());
                free.push(places.remove(&number).unwrap());
            }
            if let Some(number) = comes {
                let place = free.pop().unwrap();
                places.insert(number, place);
                let place = place_at(place);
                let inserted = silo.run(&mut memory, 1, Isolation::Serializable, |silo| {
                    silo.insert(table, key(number), place, &number)
                });
                let inserted = inserted.unwrap_or_else(|wrong| panic!("{keys:?}: {wrong}"));
                assert!(inserted.is_some_and(|committed| committed.value), "{keys:?}: {number}");
            }
        });
    }
}
