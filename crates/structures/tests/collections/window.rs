//! A window of live entries moves on for a hundred times its size. No structure fills up, and an
//! emptied one has as much room as a new one.

use ebbtide_core::{Addr, Memory, Value};
use ebbtide_structures::hash::mix;
use ebbtide_structures::{BTree, Catalogue, Map, OrderedMap};
use ebbtide_testbed::Plain;

use super::keys::ALL_KEYS;

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
