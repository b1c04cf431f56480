//! Compares the accesses that pass a core's caches with a model that keeps every set as a list.

use ebbtide_trace::{CacheFilter, CacheShape, Hierarchy, Traffic};
use proptest::prelude::*;

/// A cache as lists of `(line, dirty)` in order of use, the latest last.
struct Model {
    sets: Vec<Vec<(u64, bool)>>,
    ways: usize,
}

impl Model {
    fn new(shape: CacheShape) -> Model {
        let sets = shape.bytes as usize / 64 / shape.ways;
        Model { sets: vec![Vec::new(); sets], ways: shape.ways }
    }

    /// Uses `line`, and inserts it if it is missing. Returns whether it was present, and the
    /// evicted line.
    fn access(&mut self, line: u64, write: bool) -> (bool, Option<(u64, bool)>) {
        let count = self.sets.len() as u64;
        let set = &mut self.sets[(line % count) as usize];
        let found = set.iter().position(|&(other, _)| other == line).map(|at| set.remove(at));
        let gone = (found.is_none() && set.len() == self.ways).then(|| set.remove(0));
        set.push((line, write || found.is_some_and(|(_, dirty)| dirty)));
        (found.is_some(), gone)
    }
}

/// Returns the requests to memory of one access of `model`'s caches.
fn expected(model: &mut [Model; 3], kind: usize, line: u64, traffic: &mut Vec<Traffic>) {
    let (found, victim) = model[kind.min(1)].access(line, kind == 2);
    if found {
        return;
    }
    let (found, gone) = model[2].access(line, false);
    if !found {
        traffic.push(Traffic::Fetch(line));
    }
    let victim = victim.filter(|(_, dirty)| *dirty);
    let later = victim.and_then(|(line, _)| model[2].access(line, true).1);
    let dirty = [gone, later].into_iter().flatten().filter(|(_, dirty)| *dirty);
    traffic.extend(dirty.map(|(line, _)| Traffic::Writeback(line)));
}

proptest! {
    #[test]
    fn memory_sees_what_a_model_of_lists_says(
        accesses in prop::collection::vec((0..3_usize, 0..4000_u64, 1..100_u32), 1..600),
    ) {
        let l1 = CacheShape { bytes: 2 * 2 * 64, ways: 2 };
        let llc = CacheShape { bytes: 4 * 4 * 64, ways: 4 };
        let mut filter = CacheFilter::new(Hierarchy { l1, llc }).expect("caches");
        let mut model = [Model::new(l1), Model::new(l1), Model::new(llc)];
        for (kind, address, bytes) in accesses {
            let mut found = Vec::new();
            let mut reach = |traffic| {
                found.push(traffic);
                Ok::<(), ()>(())
            };
            match kind {
                0 => filter.instruction(address, bytes, &mut reach),
                _ => filter.data(address, bytes, kind == 2, &mut reach),
            }
            .expect("nothing fails");
            let mut should = Vec::new();
            for line in address / 64..=(address + u64::from(bytes) - 1) / 64 {
                expected(&mut model, kind, line, &mut should);
            }
            prop_assert_eq!(found, should);
        }
    }
}

#[test]
fn caches_whose_sets_are_no_power_of_two_are_refused() {
    let llc = CacheShape { bytes: 3 << 20, ways: 16 };
    let error = CacheFilter::new(Hierarchy { llc, ..Hierarchy::default() }).err().expect("refused");
    let said = error.to_string();
    assert!(
        said.starts_with("a last-level cache of 3145728 bytes and 16 ways cannot be"),
        "{said}"
    );
}
