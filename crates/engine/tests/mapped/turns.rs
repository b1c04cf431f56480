//! The lock of jobs, whose holders miss.

use std::sync::Arc;

use ebbtide_engine::mapped::{Heap, RwLock};
use hashbrown::HashMap;

use super::{Fixture, fixture, small, works_here};

#[test]
fn jobs_share_a_hash_map_under_a_lock_while_its_holders_miss() {
    if !works_here() {
        return;
    }
    for cores in [1, 2] {
        let Fixture { store, _folder } =
            fixture(|builder| small(builder).dram("9MiB").cores(cores));
        let region = store.mapped("16MiB").expect("it fits");
        const KEYS: u64 = 24_000;
        let map = HashMap::with_capacity_in(KEYS as usize, Heap::new(&region));
        let map = Arc::new(RwLock::new(map));
        let filled = map.clone();
        store
            .run(move || {
                for key in 0..KEYS {
                    filled.write().insert(key, [0u64; 40]);
                }
            })
            .expect("it runs");
        let reads = store.counts().reads;
        let add = |job: u64| {
            let map = map.clone();
            store.submit(move || {
                for step in 0..200 {
                    let key = (job % 4 + step * 977) % KEYS;
                    if job < 4 {
                        map.write().get_mut(&key).expect("it is there")[3] += 1;
                    } else {
                        assert!(map.read()[&key][3] <= 4);
                    }
                }
            })
        };
        let tickets: Vec<_> = (0..12).map(add).collect();
        tickets.into_iter().for_each(|ticket| ticket.wait().expect("the job ends well"));
        let sum = map.clone();
        let sum = store
            .run(move || sum.read().values().map(|words| words[3]).sum::<u64>())
            .expect("it runs");
        assert_eq!(sum, 4 * 200);
        assert!(store.counts().reads > reads + 100, "{:?}", store.counts());
        // A value in a region is dropped by a job.
        store.run(move || drop(map)).expect("it runs");
    }
}

#[test]
fn a_lock_is_for_one_writer_or_for_readers() {
    let lock = RwLock::new(1);
    let reader = lock.read();
    assert!(lock.try_read().is_some() && lock.try_write().is_none());
    drop(reader);
    let writer = lock.write();
    assert!(lock.try_read().is_none() && lock.try_write().is_none());
    drop(writer);
    assert!(lock.try_write().is_some() && lock.try_read().is_some());
}
