//! A window of live rows moves on for a hundred times its size, and the table never fills up.

use std::collections::BTreeMap;

use ebbtide_core::{Addr, Memory};
use ebbtide_testbed::Plain;
use ebbtide_workloads::masstree::Tree;
use ebbtide_workloads::silo::{Isolation, Silo, Table};

use super::keys::{ALL_KEYS, Keys};

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
