//! The allocator of a region, with the collections that programs use.

use std::ptr::NonNull;

use ebbtide_engine::mapped::Heap;
use hashbrown::HashMap;

use super::{fixture, small, works_here};

#[test]
fn hashbrown_works_in_a_region_larger_than_dram() {
    if !works_here() {
        return;
    }
    const KEYS: u64 = 60_000;
    let fixture = fixture(|builder| small(builder).size("24MiB"));
    let heap = Heap::new(&fixture.store.mapped("24MiB").expect("it fits"));
    let counted = fixture
        .store
        .run(move || {
            let mut map = HashMap::with_hasher_in(foldhash(), heap.clone());
            for key in 0..KEYS {
                let mut value = allocator_api2::vec::Vec::new_in(heap.clone());
                value.extend_from_slice(&key.to_le_bytes());
                value.resize(8 + key as usize % 90, 7u8);
                map.insert(key, value);
            }
            (0..KEYS).step_by(3).for_each(|key| drop(map.remove(&key)));
            let right = |key: &u64| match map.get(key) {
                None => key.is_multiple_of(3),
                Some(value) => {
                    value[..8] == key.to_le_bytes()
                        && value.len() == 8 + *key as usize % 90
                        && value[8..].iter().all(|byte| *byte == 7)
                }
            };
            (0..KEYS).filter(right).count()
        })
        .expect("the job ends well");
    assert_eq!(counted, KEYS as usize);
    assert!(fixture.store.counts().evictions > 1_000, "{:?}", fixture.store.counts());
}

fn foldhash() -> hashbrown::DefaultHashBuilder {
    hashbrown::DefaultHashBuilder::default()
}

#[test]
fn allocation_and_free_do_not_fault() {
    if !works_here() {
        return;
    }
    let fixture = fixture(small);
    let heap = Heap::new(&fixture.store.mapped("16MiB").expect("it fits"));
    let blocks: Vec<_> =
        (0..5_000).map(|index| heap.allocate(index % 3_000, 16).expect("there is room")).collect();
    for (index, &block) in blocks.iter().enumerate() {
        assert!(heap.usable_bytes(block).expect("it is in use") >= index % 3_000);
        heap.free(block);
        assert_eq!(heap.usable_bytes(block), None);
    }
    assert_eq!(fixture.store.counts().faults, 0);
}

#[test]
fn a_block_that_grows_keeps_its_contents_and_alignment() {
    if !works_here() {
        return;
    }
    let fixture = fixture(small);
    let heap = Heap::new(&fixture.store.mapped("16MiB").expect("it fits"));
    let right = fixture.store.run(move || {
        let fill = |block: NonNull<u8>, bytes: std::ops::Range<usize>| {
            // SAFETY: the block has so many bytes.
            bytes.for_each(|index| unsafe { block.add(index).write(index as u8) });
        };
        let mut block = heap.allocate(10, 16).expect("there is room");
        fill(block, 0..10);
        let mut filled = 10;
        for bytes in [100, 128, 4_000, 40_000, 300_000, 1_000_000, 5_000] {
            block = heap.reallocate(block, bytes, 4096).expect("there is room");
            assert!((block.as_ptr() as usize).is_multiple_of(4096));
            // SAFETY: the block was filled so far.
            let kept = |index: usize| unsafe { block.add(index).read() } == index as u8;
            assert!((0..filled.min(bytes)).all(kept), "{bytes}");
            fill(block, 0..bytes);
            filled = bytes;
        }
        heap.free(block);
        heap.allocate(15 << 20, 1).is_some()
    });
    assert!(right.expect("the job ends well"), "all space comes back");
}

#[test]
fn an_allocation_without_room_fails_and_changes_nothing() {
    if !works_here() {
        return;
    }
    let fixture = fixture(small);
    let heap = Heap::new(&fixture.store.mapped("1MiB").expect("it fits"));
    assert_eq!(heap.allocate(2 << 20, 16), None);
    let block = heap.allocate(100, 16).expect("there is room");
    assert_eq!(heap.reallocate(block, 2 << 20, 16), None);
    assert!(heap.usable_bytes(block).is_some());
}
