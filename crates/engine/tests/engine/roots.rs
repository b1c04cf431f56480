//! Structures of every kind are found again by name after power has gone at any step. They have the
//! contents of a whole number of transactions.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use ebbtide_core::durability::{Lsn, Policy};
use ebbtide_core::{Addr, FullMemory, Memory, PAGE_BYTES};
use ebbtide_engine::store::{Access, NewStore, Store};
use ebbtide_engine::{Engine, FlashMemory, Jobs, Options};
use ebbtide_structures::{BTree, Catalogue, OrderedMap, Vector};
use ebbtide_testbed::Plain;
use ebbtide_testbed::power_loss::Kept;
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::common;
use crate::common::step_recorder::{Step, StepRecorder, blocks_of, materialise, replay};

const PAGES: u64 = 512;
const BYTES: u64 = PAGES * PAGE_BYTES as u64;
const TRANSACTIONS: u64 = 150;
const STOPS: usize = 8;

/// The contents of a structure, as numbers.
type Contents = Vec<Vec<u64>>;

/// A structure that the catalogue has by name, and transactions on it.
trait Root: Clone + Send + 'static {
    fn open<M: FullMemory>(memory: &mut M, catalogue: &Catalogue) -> Self;
    /// Does transaction `number`, inside a transaction of the memory.
    fn change<M: FullMemory>(&self, memory: &mut M, number: u64);
    fn contents<M: FullMemory>(&self, memory: &mut M) -> Contents;
}

/// The numbers that transaction `number` is about.
fn drawn(number: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(number)
}

/// Keys of all lengths come and go.
impl Root for OrderedMap {
    fn open<M: FullMemory>(memory: &mut M, catalogue: &Catalogue) -> OrderedMap {
        catalogue.ordered_map(memory, "words", 60).unwrap()
    }

    fn change<M: FullMemory>(&self, memory: &mut M, number: u64) {
        let mut random = drawn(number);
        for _ in 0..3 {
            let key = random.random_range(0..300u32).to_string().repeat(3);
            if random.random_bool(0.3) {
                self.remove(memory, key.as_bytes()).unwrap();
            } else {
                self.put(memory, key.as_bytes(), number).unwrap();
            }
        }
    }

    fn contents<M: FullMemory>(&self, memory: &mut M) -> Contents {
        let list = self.list(memory, b"", usize::MAX).unwrap();
        let numbers =
            |(key, value): (Vec<u8>, u64)| key.into_iter().map(u64::from).chain([value]).collect();
        list.into_iter().map(numbers).collect()
    }
}

/// Rows of a seventh of a page come, change in part and go, so that pages are divided and given
/// back.
impl Root for BTree<[u64; 2], [u64; 72]> {
    fn open<M: FullMemory>(memory: &mut M, catalogue: &Catalogue) -> Self {
        catalogue.b_tree(memory, "rows", 150).unwrap()
    }

    fn change<M: FullMemory>(&self, memory: &mut M, number: u64) {
        let mut random = drawn(number);
        // Rows come in the first half, and in the second more go than come.
        let goes = if number < TRANSACTIONS / 2 { 0.1 } else { 0.7 };
        for _ in 0..8 {
            let key = [random.random_range(0..10), random.random_range(0..12)];
            let (goes, word) = (random.random_bool(goes), random.random_range(0..72));
            let change = |row: Option<[u64; 72]>| {
                let mut row = row.unwrap_or([number; 72]);
                row[word] += number;
                (!goes).then_some(row)
            };
            self.update(memory, key, change).unwrap();
        }
    }

    fn contents<M: FullMemory>(&self, memory: &mut M) -> Contents {
        let mut contents = Contents::new();
        let visit = |_: &mut M, key: [u64; 2], row: [u64; 72]| {
            contents.push(key.into_iter().chain(row).collect());
            ControlFlow::Continue(())
        };
        self.scan(memory, .., visit).unwrap();
        // A search by key finds the same. A transaction notices changes since then at its end.
        for row in &mut contents {
            let found = self.get(memory, [row[0], row[1]]).unwrap();
            if found.is_none_or(|found| found[..] != row[2..]) {
                row.clear();
            }
        }
        contents
    }
}

/// The structure, and how many transactions it has seen.
fn open<R: Root, M: FullMemory>(memory: &mut M) -> (R, Vector<u64>) {
    let catalogue = Catalogue::open(memory, Addr(0), BYTES).unwrap();
    // The other one is found in whichever order.
    let count = catalogue.vector(memory, "count", 1).unwrap();
    (R::open(memory, &catalogue), count)
}

/// Runs one more transaction. Returns its number.
fn step<R: Root, M: FullMemory>(memory: &mut M, root: &R, count: &Vector<u64>) -> (u64, Lsn) {
    let stepped = memory.transaction(|memory| {
        let number = count.update(memory, 0, |count| count + 1);
        root.change(memory, number);
        number
    });
    stepped.unwrap()
}

/// Returns the contents after each number of transactions, in plain memory.
fn expected<R: Root>() -> Vec<Contents> {
    let mut memory = Plain::zeroed(BYTES);
    let (root, count) = open::<R, _>(&mut memory);
    let mut expected = vec![root.contents(&mut memory)];
    for _ in 0..TRANSACTIONS {
        step(&mut memory, &root, &count);
        expected.push(root.contents(&mut memory));
    }
    expected
}

fn options(cores: usize) -> Options {
    let mut options = Options { cores, durability: Some(Policy::Always), ..Options::new(4 << 20) };
    options.tuning.threads = Some(8);
    options.tuning.batch_max = 8;
    options
}

/// Runs all transactions, on two cores at once and with others that read. Returns their numbers.
fn run<R: Root>(jobs: Jobs, recorder: &StepRecorder, expected: &[Contents]) -> BTreeMap<Lsn, u64> {
    let (root, count) = jobs.submit(|memory| open::<R, _>(memory)).wait().unwrap();
    let committed: Arc<Mutex<BTreeMap<Lsn, u64>>> = Arc::default();
    let mut tickets = Vec::new();
    let mut readers = Vec::new();
    for index in 0..TRANSACTIONS {
        let (root_of_job, recorder, committed) =
            (root.clone(), recorder.clone(), committed.clone());
        tickets.push(jobs.submit(move |memory| {
            let (number, lsn) = step(memory, &root_of_job, &count);
            committed.lock().insert(lsn, number);
            memory.durable(lsn).unwrap();
            recorder.note(Step::Acknowledged(lsn));
        }));
        if index % 10 == 0 {
            let root = root.clone();
            let read = move |memory: &mut FlashMemory<'_>| root.contents(memory);
            readers.push(jobs.submit(move |memory| memory.transaction(read).unwrap().0));
        }
    }
    tickets.into_iter().for_each(|ticket| ticket.wait().unwrap());
    for reader in readers {
        let seen = reader.wait().unwrap();
        assert!(expected.contains(&seen), "a reader saw what no number of transactions makes");
    }
    jobs.stop().unwrap();
    Arc::into_inner(committed).unwrap().into_inner()
}

/// Opens the store and checks the structure, which `acknowledged` transactions are in at least.
fn check<R: Root>(path: &Path, acknowledged: u64, expected: &[Contents]) {
    let store = Arc::new(Store::open(path, 0, Access::Exclusive).unwrap());
    let engine = Arc::new(Engine::open(&store, &options(1)).unwrap());
    common::watch(&engine);
    assert!(engine.recovered().unwrap().poisoned.is_empty());
    let jobs = engine.start().unwrap();
    let (count, contents) = jobs
        .submit(|memory| {
            let (root, count) = open::<R, _>(memory);
            (count.get(memory, 0), root.contents(memory))
        })
        .wait()
        .unwrap();
    assert!(count >= acknowledged, "{acknowledged} were acknowledged, {count} are there");
    assert!(contents == expected[count as usize], "after {count} transactions: {contents:?}");
    // And it goes on.
    if count < TRANSACTIONS {
        let next = move |memory: &mut FlashMemory<'_>| {
            let (root, count) = open::<R, _>(memory);
            step(memory, &root, &count);
            root.contents(memory)
        };
        assert!(jobs.submit(next).wait().unwrap() == expected[count as usize + 1]);
    }
}

fn is_found_again<R: Root>() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("store");
    let (tag, pages) = ("roots".into(), PAGES);
    let new =
        NewStore { path: path.clone(), offset: 0, pages, spare_pages: pages, tag, force: false };
    drop(Store::create_persistent(&new, 512 << 10).unwrap());
    let expected = expected::<R>();
    let (before, steps, committed) = {
        let store = Arc::new(Store::open(&path, 0, Access::Exclusive).unwrap());
        let recorder = StepRecorder::new(&path, store.persist_offset());
        let before = blocks_of(&store);
        let jobs = recorder.engine(&store, &options(2)).start().unwrap();
        let committed = run::<R>(jobs, &recorder, &expected);
        (before, recorder.take(), committed)
    };
    let mut random = Pcg64Mcg::seed_from_u64(5);
    let mut stops: Vec<usize> = (0..STOPS).map(|_| random.random_range(0..steps.len())).collect();
    stops.push(steps.len() - 1);
    let visited = replay(&before, &steps, Lsn::ZERO, |index, disk, acknowledged| {
        if stops.contains(&index) {
            let kept = |_| if random.random_bool(0.5) { Kept::Whole } else { Kept::Lost };
            let again = folder.path().join(format!("after-{index}"));
            materialise(&disk.after_power_loss(kept), &path, &again);
            let last = committed.range(..=acknowledged).next_back();
            check::<R>(&again, last.map_or(0, |(_, number)| *number), &expected);
            std::fs::remove_file(again)?;
        }
        std::io::Result::Ok(())
    });
    visited.unwrap();
}

#[test]
fn an_ordered_map_is_found_again_by_name_with_whole_transactions() {
    is_found_again::<OrderedMap>();
}

#[test]
fn a_b_tree_is_found_again_by_name_with_whole_transactions() {
    is_found_again::<BTree<[u64; 2], [u64; 72]>>();
}
