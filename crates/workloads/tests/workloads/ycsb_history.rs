//! What happens to a record while operations interleave must look as if they had run one by one.
//!
//! Updates count versions up, so the order of a record's operations is known. A checker compares it
//! with the start and end of each operation. Inserts into a full bucket replace its oldest record.
//! So the inserts that had begun or ended determine which records a reader may find.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use ebbtide_core::FullMemory;
use ebbtide_testbed::{Interleaved, Plain, Raced, Shared, interleave, race};
use ebbtide_workloads::ycsb::{
    CoreWorkload, Inserted, Key, Pair, Record, Table, Ycsb, YcsbA, YcsbB64, YcsbE,
};
use ebbtide_workloads::{Corrupt, Program, Scatter, Workload};

use crate::common::{image, program};

/// What threads that interleave do with a key of a table.
type Does<R, T> = fn(&Table<R>, &mut Interleaved<'_>, &Key) -> Result<T, Corrupt>;

fn pairs() -> YcsbB64 {
    let Program::YcsbB64(b) = program("ycsb-b-64", 1, Scatter::Pages) else { panic!() };
    b
}

fn stock() -> YcsbA {
    let Program::YcsbA(a) = program("ycsb-a", 1, Scatter::Pages) else { panic!() };
    a
}

/// One operation on a record: when it began and ended, and the version it read or wrote.
#[derive(Debug, Clone, Copy)]
struct Event {
    item: u64,
    writes: bool,
    version: u64,
    began: u64,
    ended: u64,
}

/// Counts moments.
#[derive(Default)]
struct Clock(AtomicU64);

impl Clock {
    fn now(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    /// Runs `operation`, which gives a version of `item`.
    fn time(
        &self,
        item: u64,
        writes: bool,
        operation: impl FnOnce() -> Result<Option<u64>, Corrupt>,
    ) -> Result<Event, Corrupt> {
        let began = self.now();
        let version = operation()?.ok_or_else(|| Corrupt(format!("item {item} is gone")))?;
        Ok(Event { item, writes, version, began, ended: self.now() })
    }
}

/// Whether each record's operations fit a counter that is read and counted up in one step.
fn check(history: &[Event]) -> Result<(), String> {
    let mut by_item: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
    history.iter().for_each(|event| by_item.entry(event.item).or_default().push(*event));
    for events in by_item.values() {
        // In the one order that versions allow; reads of one version in any.
        let mut in_order: BTreeMap<(u64, bool), Vec<Event>> = BTreeMap::new();
        for event in events {
            in_order.entry((event.version, !event.writes)).or_default().push(*event);
        }
        let mut written = 0;
        let mut latest_began = 0;
        for (&(version, reads), same) in &in_order {
            if !reads {
                written += 1;
                if same.len() > 1 || version != written {
                    return Err(format!("after version {}: {same:?}", written - 1));
                }
            }
            if version > written {
                return Err(format!("nobody wrote what was read: {same:?}"));
            }
            if let Some(late) = same.iter().find(|event| event.ended < latest_began) {
                return Err(format!("{late:?} was over when an earlier version came"));
            }
            latest_began = same.iter().map(|event| event.began).fold(latest_began, u64::max);
        }
    }
    Ok(())
}

/// Four threads that interleave read and update few records; whether the history is right.
fn interleaved<C: CoreWorkload>(
    ycsb: &Ycsb<C>,
    seed: u64,
    update: Does<C::Record, Option<u64>>,
) -> Result<(), String> {
    let (table, clock) = (ycsb.table(), Clock::default());
    let words = Shared::new(&image(ycsb));
    let histories: Vec<Result<Vec<Event>, Corrupt>> =
        interleave(&words, 4, seed, |thread, memory| {
            let operation = |i: u64| {
                let key = Key::hashed((i + thread as u64 * seed) % 2);
                clock.time(key.item, i.is_multiple_of(2), || match i % 4 {
                    0 | 2 => update(table, memory, &key),
                    1 => table.get(memory, &key),
                    _ => copied(table, memory, &key),
                })
            };
            (0..8).map(operation).collect()
        });
    let histories: Result<Vec<_>, Corrupt> = histories.into_iter().collect();
    check(&histories.map_err(|wrong| wrong.to_string())?.concat())
}

/// The version of the record of `key`, copied out.
fn copied<R: Record>(
    table: &Table<R>,
    memory: &mut impl FullMemory,
    key: &Key,
) -> Result<Option<u64>, Corrupt> {
    let mut lines = R::Lines::default();
    if !table.read(memory, key, &mut lines) {
        return Ok(None);
    }
    let torn = || Corrupt(format!("the copy of item {} is torn", key.item));
    table.version_of(key, &lines).map(Some).ok_or_else(torn)
}

#[test]
fn interleaved_operations_are_linearizable() {
    for seed in 0..40 {
        interleaved(&pairs(), seed, |table, memory, key| table.update(memory, key))
            .unwrap_or_else(|violation| panic!("pairs, interleaving {seed}: {violation}"));
    }
    for seed in 0..10 {
        interleaved(&stock(), seed, |table, memory, key| table.update(memory, key))
            .unwrap_or_else(|violation| panic!("stock, interleaving {seed}: {violation}"));
    }
}

#[test]
fn the_checker_catches_updates_without_the_latch() {
    let caught = (0..20).filter(|&seed| {
        interleaved(&pairs(), seed, |table, memory, key| table.apply_update(memory, key)).is_err()
    });
    assert!(caught.count() >= 15);
    let caught = (0..5).filter(|&seed| {
        interleaved(&stock(), seed, |table, memory, key| table.apply_update(memory, key)).is_err()
    });
    assert!(caught.count() >= 4);
}

#[test]
fn the_checker_catches_reads_of_old_memory() {
    let (ycsb, clock) = (pairs(), Clock::default());
    let (words, old) = (Shared::new(&image(&ycsb)), Shared::new(&image(&ycsb)));
    let key = Key::hashed(0);
    let history: Vec<Event> = (0..4)
        .map(|i| {
            let mut memory = Raced(if i == 2 { &old } else { &words });
            let update = i % 2 == 1;
            clock.time(0, update, || match update {
                true => ycsb.table().update(&mut memory, &key),
                false => ycsb.table().get(&mut memory, &key),
            })
        })
        .collect::<Result<_, _>>()
        .unwrap();
    assert!(check(&history[..2]).is_ok());
    assert!(check(&history).is_err());
}

/// Two threads race: they read and update few records.
fn raced<C: CoreWorkload>(ycsb: &Ycsb<C>, operations: u64) {
    let clock = Clock::default();
    let words = Shared::new(&image(ycsb));
    let histories = race(&words, |_, memory: &mut Raced<'_>| {
        let operation = |i: u64| {
            let key = Key::hashed(i / 2 % 3);
            let event = clock.time(key.item, i.is_multiple_of(2), || match i % 2 {
                0 => ycsb.table().update(memory, &key),
                _ => ycsb.table().get(memory, &key),
            });
            event.unwrap()
        };
        (0..operations).map(operation).collect::<Vec<Event>>()
    });
    check(&histories.concat()).unwrap();
    // What the history ends with is what memory holds.
    let mut memory = words.into_plain();
    for item in 0..3 {
        let updates = histories.iter().flatten().filter(|e| e.writes && e.item == item).count();
        let found = ycsb.table().get(&mut memory, &Key::hashed(item));
        assert_eq!(found, Ok(Some(updates as u64)));
    }
}

#[test]
fn raced_operations_are_linearizable() {
    raced(&pairs(), 20_000);
    raced(&stock(), 4_000);
}

/// An insert, or a look for an item.
#[derive(Debug, Clone, Copy)]
struct Seen {
    item: u64,
    /// Of an insert none.
    found: Option<bool>,
    began: u64,
    ended: u64,
}

/// Whether readers of one bucket found what they may: `first` is what it held at first.
fn check_bucket(first: &[u64], history: &[Seen]) -> Result<(), String> {
    let inserts = || history.iter().filter(|seen| seen.found.is_none());
    let looks = || history.iter().filter_map(|seen| Some((seen, seen.found?)));
    for (look, found) in looks() {
        let began = inserts().any(|i| i.item == look.item && i.began < look.ended);
        let ended = inserts().any(|i| i.item == look.item && i.ended < look.began);
        let newer = first.iter().filter(|&&item| item > look.item).count()
            + inserts().filter(|i| i.item > look.item && i.began < look.ended).count();
        if found && !began && !first.contains(&look.item) {
            return Err(format!("{look:?} came before its insert"));
        }
        if !found && (ended || first.contains(&look.item)) && newer < first.len() {
            return Err(format!("{look:?}, but only {newer} are newer"));
        }
        let was_gone = looks().any(|(other, found)| {
            let inserted = inserts().any(|i| i.item == look.item && i.ended < other.began)
                || first.contains(&look.item);
            !found && inserted && other.item == look.item && other.ended < look.began
        });
        if found && was_gone {
            return Err(format!("{look:?} came back"));
        }
    }
    Ok(())
}

/// Three threads insert into one bucket and look for its items.
fn interleaved_inserts(seed: u64, insert: Does<Pair, Inserted>) -> Result<(), String> {
    let Program::YcsbD64(d) = program("ycsb-d-64", 1, Scatter::Keys) else { panic!() };
    let (table, clock) = (d.table(), Clock::default());
    let bucket = table.bucket(&Key::hashed(0));
    let items: Vec<u64> =
        (0..400).filter(|&item| table.bucket(&Key::hashed(item)) == bucket).collect();
    let (first, new) = items.split_at(items.partition_point(|&item| item < table.records()));
    let words = Shared::new(&image(&d));
    let histories: Vec<Result<Vec<Seen>, Corrupt>> =
        interleave(&words, 3, seed, |thread, memory| {
            let operation = |i: usize| {
                // Each thread its own inserts; looks for what others insert, and for what goes.
                let mine = new[3 * (i / 3) + thread];
                let began = clock.now();
                let (item, found) = match i % 3 {
                    0 => insert(table, memory, &Key::hashed(mine)).map(|_| (mine, None))?,
                    1 => look(table, memory, new[i])?,
                    _ => look(table, memory, first[i % first.len()])?,
                };
                Ok(Seen { item, found, began, ended: clock.now() })
            };
            (0..12).map(operation).collect()
        });
    let histories: Result<Vec<_>, Corrupt> = histories.into_iter().collect();
    let mut history = histories.map_err(|wrong| wrong.to_string())?.concat();
    let mut memory = words.into_plain();
    for &item in &items {
        let began = clock.now();
        let (item, found) = look(table, &mut memory, item).map_err(|wrong| wrong.to_string())?;
        history.push(Seen { item, found, began, ended: clock.now() });
    }
    check_bucket(first, &history)
}

fn look<R: Record, M: FullMemory>(
    table: &Table<R>,
    memory: &mut M,
    item: u64,
) -> Result<(u64, Option<bool>), Corrupt> {
    table.get(memory, &Key::hashed(item)).map(|found| (item, Some(found.is_some())))
}

#[test]
fn interleaved_inserts_keep_the_newest_and_nobody_misses_one() {
    for seed in 0..40 {
        interleaved_inserts(seed, |table, memory, key| table.insert(memory, key))
            .unwrap_or_else(|violation| panic!("interleaving {seed}: {violation}"));
    }
}

#[test]
fn the_checker_catches_inserts_without_the_latch() {
    let caught = (0..20).filter(|&seed| {
        interleaved_inserts(seed, |table, memory, key| table.apply_insert(memory, key)).is_err()
    });
    assert!(caught.count() >= 10);
}

type InsertsInto = fn(&YcsbE, &mut Interleaved<'_>, &Key) -> Result<(), Corrupt>;

/// Three threads insert new items and scan over their places, so that old names go and new ones
/// come in the middle of scans.
fn interleaved_scans(seed: u64, insert: InsertsInto) -> Result<(), String> {
    let Program::YcsbE(e) = program("ycsb-e", 18, Scatter::Pages) else { panic!() };
    let records = e.table().records();
    let part = (1 << 63) / records;
    let words = Shared::new(&image(&e));
    let results: Vec<Result<(), String>> = interleave(&words, 3, seed, |thread, memory| {
        // A bucket each, so that what goes has the place of what comes.
        for i in 0..3 {
            let key = e.key(records + 3 * thread as u64 + i);
            insert(&e, memory, &key).map_err(|wrong| wrong.to_string())?;
            // The order of names is that of insertion: these are the places of what is new.
            let mut parts = Vec::new();
            let visit = |_: &mut Interleaved<'_>, key: &Key, _| parts.push(key.number / part);
            e.scan(memory, &e.key(0), 16, visit).map_err(|wrong| wrong.to_string())?;
            // There is a name in every part at every moment, and sometimes there are two.
            if parts[0] > 1 || parts.windows(2).any(|two| two[1] > two[0] + 1) {
                return Err(format!("a scan met {parts:?}"));
            }
        }
        Ok(())
    });
    results.into_iter().collect::<Result<(), String>>()?;
    check_index(&e, &mut words.into_plain(), 9)
}

/// Checks that index and table have exactly the newest items after `inserts` inserts.
fn check_index(e: &YcsbE, memory: &mut Plain, inserts: u64) -> Result<(), String> {
    let mut items = Vec::new();
    let visit = |_: &[u8], item| {
        items.push(item);
        ControlFlow::Continue(())
    };
    e.index().scan(memory, &[], visit).map_err(|wrong| wrong.to_string())?;
    items.sort_unstable();
    if !items.iter().copied().eq(inserts..inserts + e.table().records()) {
        return Err(format!("the index has {items:?}"));
    }
    for item in items {
        let found = e.table().get(memory, &e.key(item));
        if found != Ok(Some(0)) {
            return Err(format!("item {item}: {found:?}"));
        }
    }
    Ok(())
}

#[test]
fn scans_beside_inserts_miss_nothing() {
    for seed in 0..20 {
        interleaved_scans(seed, |e, memory, key| e.insert(memory, key))
            .unwrap_or_else(|violation| panic!("interleaving {seed}: {violation}"));
    }
}

#[test]
fn the_checker_catches_inserts_that_take_the_old_name_out_first() {
    let caught = (0..10).filter(|&seed| {
        let insert: InsertsInto = |e, memory, key| {
            let old = e.key(key.item - e.table().records());
            e.index().remove(memory, &old.number.to_be_bytes())?;
            e.insert(memory, key)
        };
        interleaved_scans(seed, insert).is_err()
    });
    assert!(caught.count() >= 5);
}

#[test]
fn raced_jobs_of_workload_e_leave_the_newest_items() {
    let Program::YcsbE(e) = program("ycsb-e", 60, Scatter::Keys) else { panic!() };
    let words = Shared::new(&image(&e));
    race(&words, |thread, memory: &mut Raced<'_>| {
        (0..4000).for_each(|job| e.run(2 * job + thread as u64, memory).unwrap());
    });
    check_index(&e, &mut words.into_plain(), 400).unwrap();
}
