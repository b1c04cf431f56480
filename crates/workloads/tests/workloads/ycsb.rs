//! Compares YCSB's table with a plain model, and its programs with their descriptions.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

use ebbtide_core::Memory;
use ebbtide_testbed::Plain;
use ebbtide_workloads::ycsb::{
    CoreWorkload, Inserted, Key, Operation, Pair, Record, Stock, Table, Ycsb, YcsbE,
};
use ebbtide_workloads::{Observed, Program, Scatter, Work, Workload};
use proptest::prelude::*;

use crate::common::{plain, program, sparse};

const SCATTERS: [Scatter; 2] = [Scatter::Pages, Scatter::Keys];

/// A table and its contents, in plain words.
fn table<R: Record>(pages: u64, scatter: Scatter) -> (Table<R>, Plain) {
    let table = Table::new(pages, scatter, 1);
    let mut words = Vec::new();
    for page in 0..pages {
        let mut bytes = [0xa5; 4096];
        table.image(ebbtide_core::PageId(page), &mut bytes);
        words.extend(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)));
    }
    (table, Plain::new(words))
}

fn every_first_item_is_found<R: Record>() {
    for scatter in SCATTERS {
        for pages in [1, 2, 37] {
            let (table, mut memory) = table::<R>(pages, scatter);
            for item in 0..table.records() {
                assert_eq!(table.get(&mut memory, &Key::hashed(item)), Ok(Some(0)));
            }
            for item in table.records()..2 * table.records() {
                assert_eq!(table.get(&mut memory, &Key::hashed(item)), Ok(None));
            }
        }
    }
}

#[test]
fn every_item_of_the_image_is_found_by_its_name_and_no_other() {
    every_first_item_is_found::<Pair>();
    every_first_item_is_found::<Stock>();
}

#[test]
fn names_lie_in_memory_as_text() {
    let (_, memory) = table::<Stock>(1, Scatter::Keys);
    let bytes: &[u8] = bytemuck::cast_slice(&memory.words);
    for name in ["user6284781860667377211", "user8517097267634966620", "user1820151046732198393"] {
        assert!(bytes.windows(name.len()).any(|window| window == name.as_bytes()), "{name}");
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Get(u64),
    Update(u64),
    Insert(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0u64..300).prop_map(Step::Get),
        (0u64..300).prop_map(Step::Update),
        (0u64..300).prop_map(Step::Insert),
    ];
    prop::collection::vec(step, 1..300)
}

/// Buckets, each with its items and their versions; it keeps the newest.
fn does_what_a_model_does<R: Record>(steps: &[Step]) {
    let (table, mut memory) = table::<R>(2, Scatter::Keys);
    let mut model: HashMap<u64, BTreeMap<u64, u64>> = HashMap::new();
    for item in 0..table.records() {
        model.entry(table.bucket(&Key::hashed(item))).or_default().insert(item, 0);
    }
    for &step in steps {
        let (Step::Get(item) | Step::Update(item) | Step::Insert(item)) = step;
        let key = Key::hashed(item);
        let bucket = model.get_mut(&table.bucket(&key)).unwrap();
        match step {
            Step::Get(_) => {
                assert_eq!(table.get(&mut memory, &key), Ok(bucket.get(&item).copied()));
            }
            Step::Update(_) => {
                let version = bucket.get_mut(&item).map(|version| {
                    *version += 1;
                    *version
                });
                assert_eq!(table.update(&mut memory, &key), Ok(version));
            }
            Step::Insert(_) => {
                let oldest = *bucket.first_key_value().unwrap().0;
                let inserted = if bucket.contains_key(&item) {
                    Inserted::WasThere
                } else if item < oldest {
                    Inserted::TooOld
                } else {
                    bucket.remove(&oldest);
                    bucket.insert(item, 0);
                    Inserted::InPlaceOf(oldest)
                };
                assert_eq!(table.insert(&mut memory, &key), Ok(inserted));
            }
        }
    }
    for item in 0..300 {
        let key = Key::hashed(item);
        let expected = model[&table.bucket(&key)].get(&item).copied();
        assert_eq!(table.get(&mut memory, &key), Ok(expected), "item {item}");
        let mut lines = R::Lines::default();
        let copied = table.read(&mut memory, &key, &mut lines);
        assert_eq!(copied.then(|| table.version_of(&key, &lines)), expected.map(Some));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_table_of_pairs_does_what_a_model_does(steps in steps()) {
        does_what_a_model_does::<Pair>(&steps);
    }

    #[test]
    fn a_table_of_stock_records_does_what_a_model_does(steps in steps()) {
        does_what_a_model_does::<Stock>(&steps);
    }

    #[test]
    fn whatever_the_order_of_inserts_the_newest_items_stay(
        order in Just((0..500u64).collect::<Vec<u64>>()).prop_shuffle(),
    ) {
        let (table, mut memory) = table::<Pair>(2, Scatter::Keys);
        let first = table.records();
        for &i in &order {
            table.insert(&mut memory, &Key::hashed(first + i)).unwrap();
        }
        for item in 0..first + 500 {
            let found = table.get(&mut memory, &Key::hashed(item)).unwrap();
            prop_assert_eq!(found, (item >= 500).then_some(0), "item {}", item);
        }
    }
}

/// Runs `jobs` jobs in order over a small table; gives it with the operations.
fn run<C: CoreWorkload>(ycsb: &Ycsb<C>, jobs: u64) -> (Plain, Vec<Operation>) {
    let mut memory = plain(ycsb);
    let run = |job| {
        ycsb.run(job, &mut memory).unwrap();
        ycsb.client().operation(job)
    };
    let operations = (0..jobs).map(run).collect();
    (memory, operations)
}

#[test]
fn every_update_counts_once() {
    let Program::YcsbA(a) = program("ycsb-a", 20, Scatter::Keys) else { panic!() };
    let Program::YcsbF(f) = program("ycsb-f", 20, Scatter::Pages) else { panic!() };
    fn check<C: CoreWorkload>(ycsb: &Ycsb<C>) {
        let (mut memory, operations) = run(ycsb, 3000);
        let mut updates: HashMap<u64, u64> = HashMap::new();
        for operation in operations {
            if let Operation::Update(item) | Operation::ReadModifyWrite(item) = operation {
                *updates.entry(item).or_default() += 1;
            }
        }
        assert!(updates.len() > 30);
        for item in 0..ycsb.table().records() {
            let version = ycsb.table().get(&mut memory, &Key::hashed(item));
            assert_eq!(version, Ok(Some(updates.get(&item).copied().unwrap_or(0))));
        }
    }
    check(&a);
    check(&f);
}

#[test]
fn inserts_go_on_for_ever_in_the_same_space() {
    let Program::YcsbD64(d) = program("ycsb-d-64", 2, Scatter::Keys) else { panic!() };
    // The window has slid on by nine times its length.
    let (mut memory, _) = run(&d, 9 * 20 * 126);
    let (inserts, records) = (9 * 126, d.table().records());
    for item in 0..inserts + records {
        let found = d.table().get(&mut memory, &Key::hashed(item)).unwrap();
        assert_eq!(found, (item >= inserts).then_some(0), "item {item}");
    }
}

#[test]
fn reads_of_the_latest_find_what_was_inserted() {
    let Program::YcsbD(d) = program("ycsb-d", 100, Scatter::Keys) else { panic!() };
    let mut memory = plain(&d);
    for job in 0..10_000 {
        d.run(job, &mut memory).unwrap();
        if let Operation::Read(item) = d.client().operation(job) {
            assert_eq!(d.table().get(&mut memory, &Key::hashed(item)), Ok(Some(0)));
        }
    }
}

#[test]
fn a_look_up_reads_tags_and_record_on_one_page() {
    fn accesses<R: Record>(per_read: f64) {
        let (table, mut memory) = table::<R>(37, Scatter::Keys);
        for item in 0..table.records() {
            let mut pages = BTreeSet::new();
            let mut observed = Observed::new(&mut memory, Work::Skipped, |page, writes| {
                assert!(!writes);
                pages.insert(page);
            });
            table.get(&mut observed, &Key::hashed(item)).unwrap();
            assert_eq!(pages.len(), 1);
        }
        // Here and there another record has the same tag.
        let accesses = memory.accesses as f64 / table.records() as f64;
        assert!((per_read..per_read + 0.05).contains(&accesses), "{accesses}");
    }
    accesses::<Pair>(2.0);
    accesses::<Stock>(18.0);
}

#[test]
fn a_lost_record_is_noticed() {
    let (table, clean) = table::<Pair>(1, Scatter::Keys);
    let key = Key::hashed(3);
    let mut memory = Plain::new(clean.words.clone());
    let tags = table.latch(&key).0 as usize / 8 + 1;
    memory.words[tags..tags + 7].iter_mut().for_each(|tags| *tags = !*tags);
    assert!(table.get(&mut memory, &key).is_err());
    assert!(table.update(&mut memory, &key).is_err());
    assert!(table.insert(&mut memory, &Key::hashed(3 + table.records())).is_err());
    // Every word of the record matters.
    let record = clean.words.windows(3).position(|words| words == key.name).unwrap() - 1;
    for word in record..record + 8 {
        let mut memory = Plain::new(clean.words.clone());
        memory.words[word] ^= 1 << 40;
        assert!(table.get(&mut memory, &key).is_err(), "word {}", word - record);
    }
}

#[test]
fn new_items_of_a_great_table_are_found_again() {
    let Program::YcsbD64(d) = program("ycsb-d-64", 1 << 26, Scatter::Keys) else { panic!() };
    assert_eq!(d.table().records(), 63 << 26);
    let mut memory = sparse(&d);
    for item in (0..50).map(|i| d.table().records() + i * 7919) {
        let key = Key::hashed(item);
        assert_eq!(d.table().get(&mut memory, &key), Ok(None));
        let inserted = d.table().insert(&mut memory, &key);
        assert!(matches!(inserted, Ok(Inserted::InPlaceOf(_))), "{inserted:?}");
        assert_eq!(d.table().get(&mut memory, &key), Ok(Some(0)));
        assert_eq!(d.table().update(&mut memory, &key), Ok(Some(1)));
    }
    assert_eq!(memory.size_bytes(), 256 << 30);
}

/// The items of E's table by the numbers in their names, as its index has them.
fn indexed(e: &YcsbE, memory: &mut Plain) -> BTreeMap<u64, u64> {
    let mut entries = BTreeMap::new();
    let visit = |number: &[u8], item| {
        entries.insert(u64::from_be_bytes(number.try_into().unwrap()), item);
        ControlFlow::Continue(())
    };
    e.index().scan(memory, &[], visit).unwrap();
    entries
}

#[test]
fn scans_read_what_a_sorted_model_has_while_the_window_slides() {
    for scatter in SCATTERS {
        let Program::YcsbE(e) = program("ycsb-e", 40, scatter) else { panic!() };
        let mut memory = plain(&e);
        let records = e.table().records();
        let mut model = indexed(&e, &mut memory);
        assert!(model.values().copied().collect::<BTreeSet<u64>>().into_iter().eq(0..records));
        // The window slides on by four times its length.
        for job in 0..4 * 20 * records {
            match e.client().operation(job) {
                Operation::Insert(item) => {
                    model.retain(|_, other| *other != item - records);
                    e.run(job, &mut memory).unwrap();
                    model.insert(e.key(item).number, item);
                }
                Operation::Read(item) => {
                    let (from, count) = (e.key(item), e.client().scan_records(job));
                    let expected = model.range(from.number..).take(count as usize);
                    let mut found = Vec::new();
                    e.scan(&mut memory, &from, count, |_, key, version| {
                        found.push((key.number, key.item));
                        assert_eq!(version, Some(0));
                    })
                    .unwrap();
                    assert_eq!(found[0].1, item);
                    assert!(found.into_iter().eq(expected.map(|(&number, &item)| (number, item))));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(indexed(&e, &mut memory), model);
        // As many nodes as at first, or a few more.
        let nodes = e.index().census(&mut memory).unwrap();
        assert_eq!(nodes.keys, records, "{nodes:?}");
    }
}
