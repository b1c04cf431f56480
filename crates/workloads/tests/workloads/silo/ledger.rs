//! A small database of stamped rows, random transactions over it, and the check of their history.

use std::collections::{BTreeMap, HashSet};

use ebbtide_core::{Addr, FullMemory, LINE_BYTES, PAGE_BYTES, PageId};
use ebbtide_structures::Corrupt;
use ebbtide_testbed::{Plain, Shared};
use ebbtide_workloads::masstree::Tree;
use ebbtide_workloads::silo::{Abort, Isolation, Silo, Table, Transaction};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Keys are below this.
pub(crate) const KEYS: u64 = 40;
/// Each place serves two keys. At most one of them has a row.
pub(crate) const PLACES: u64 = 20;
/// Number of keys with a row at first. They are the even keys from 0 on.
const AT_FIRST: u64 = 10;
const TREE: Addr = Addr(PAGE_BYTES as u64);

/// A row of two lines: its last writer, repeated to reveal a mixture.
pub(crate) type Stamped = [u64; 9];

/// The database.
pub(crate) struct Ledger {
    pub(crate) silo: Silo,
    pub(crate) table: Table<Stamped>,
    tree: Tree,
}

/// The reads and writes of a transaction: keys with the stamps of their rows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Event {
    pub(crate) saw: Vec<(u64, Option<u64>)>,
    pub(crate) did: Vec<(u64, Option<u64>)>,
    /// The epoch of a transaction that wrote.
    pub(crate) epoch: Option<u64>,
    pub(crate) attempts: u32,
}

/// Rows by key.
pub(crate) type State = BTreeMap<u64, u64>;

impl Ledger {
    pub(crate) fn new() -> Ledger {
        let tree = Tree::new(TREE, Tree::bytes(AT_FIRST, 60), AT_FIRST, 7);
        Ledger { silo: Silo::new(Addr(0), 7), table: Table::new(tree), tree }
    }

    /// Returns the place for the row of `key`.
    pub(crate) fn place(&self, key: u64) -> Addr {
        TREE + Tree::bytes(AT_FIRST, 60) + key % PLACES * 2 * LINE_BYTES as u64
    }

    pub(crate) fn at_first(&self) -> State {
        (0..AT_FIRST).map(|rank| (rank * 2, 0)).collect()
    }

    pub(crate) fn words(&self) -> Vec<u64> {
        let end = self.place(PLACES - 1).page().start() + PAGE_BYTES as u64;
        let mut words = vec![0; end.0 as usize / 8];
        words[..8].copy_from_slice(&self.silo.image_of_epoch());
        for page in 1..self.place(0).page().0 {
            let mut bytes = [0; PAGE_BYTES];
            let entry = |rank| (rank * 2, self.place(rank * 2).0);
            self.tree.image(PageId(page), entry, &mut bytes);
            words[page as usize * 512..][..512].copy_from_slice(bytemuck::cast_slice(&bytes));
        }
        for place in 0..PLACES {
            let at = self.place(place);
            for line in 0..2 {
                let words = &mut words[at.0 as usize / 8 + line * 8..][..8];
                words.copy_from_slice(&match place % 2 == 0 && place / 2 < AT_FIRST {
                    true => self.silo.image_of::<Stamped>(at, place, &[0; 9], line),
                    false => self.silo.image_of_free_place(at, line),
                });
            }
        }
        words
    }

    /// Returns all rows. Nothing else may run.
    pub(crate) fn state(&self, memory: &mut Plain) -> State {
        let mut transaction = Transaction::new(&self.silo, memory, Isolation::Serializable);
        let rows = transaction.scan(&self.table, 0..=KEYS, 99).unwrap();
        transaction.commit().unwrap();
        rows.into_iter().map(|found| (found.key, found.row[0])).collect()
    }

    /// Runs the random transaction number `job`. It stamps its writes with `job + 1`.
    ///
    /// # Errors
    /// [`Corrupt`] if it cannot be run. A serialisable transaction must not meet that.
    pub(crate) fn run<M: FullMemory>(
        &self,
        memory: &mut M,
        job: u64,
        isolation: Isolation,
    ) -> Result<Event, Corrupt> {
        let plan = Plan::of(job);
        // Every transaction may move the epoch on.
        let done = self.silo.run(memory, job << 10, isolation, |transaction| {
            plan.run(self, transaction, job + 1)
        })?;
        let done = done.expect("no plan rolls back");
        let epoch = (!done.value.did.is_empty()).then_some(done.tid.epoch());
        Ok(Event { epoch, attempts: done.attempts, ..done.value })
    }
}

/// The plan of a transaction: looks up some keys, scans some, and changes one or two.
struct Plan {
    gets: Vec<u64>,
    scans: Vec<(u64, u64)>,
    changes: Vec<(u64, bool)>,
}

impl Plan {
    fn of(job: u64) -> Plan {
        let mut rng = Pcg64Mcg::seed_from_u64(job);
        let gets = (0..rng.random_range(0..2)).map(|_| rng.random_range(0..KEYS)).collect();
        let scan = |rng: &mut Pcg64Mcg| {
            let from = rng.random_range(0..KEYS);
            (from, (from + rng.random_range(0..8)).min(KEYS - 1))
        };
        let scans = (0..rng.random_range(0..3)).map(|_| scan(&mut rng)).collect();
        let changes = (0..rng.random_range(0..4))
            .map(|_| (rng.random_range(0..KEYS), rng.random()))
            .collect();
        Plan { gets, scans, changes }
    }

    fn run<'a, M: FullMemory>(
        &self,
        ledger: &'a Ledger,
        transaction: &mut Transaction<'a, M>,
        stamp: u64,
    ) -> Result<Event, Abort> {
        let mut event = Event::default();
        for &key in &self.gets {
            event.saw.push((key, read(ledger, transaction, key)?));
        }
        for &(from, to) in &self.scans {
            let rows = transaction.scan(&ledger.table, from..=to, 99)?;
            for key in from..=to {
                let row = rows.iter().find(|found| found.key == key);
                event.saw.push((key, row.map(|found| checked(found.row))));
            }
        }
        for &(key, remove) in &self.changes {
            if event.did.iter().any(|(written, _)| written % PLACES == key % PLACES) {
                continue;
            }
            let found = transaction.get(&ledger.table, key)?;
            event.saw.push((key, found.map(|found| checked(found.row))));
            match found {
                Some(found) if remove => {
                    transaction.remove(&ledger.table, &found);
                    event.did.push((key, None));
                }
                Some(mut found) => {
                    found.row = [stamp; 9];
                    transaction.put(&found);
                    event.did.push((key, Some(stamp)));
                }
                None => {
                    let other = (key + PLACES) % KEYS;
                    let taken = read(ledger, transaction, other)?;
                    event.saw.push((other, taken));
                    if taken.is_none() {
                        let place = ledger.place(key);
                        let row: Stamped = [stamp; 9];
                        if !transaction.insert(&ledger.table, key, place, &row)? {
                            return Err(Abort::Corrupt(Corrupt(format!("key {key} came between"))));
                        }
                        event.did.push((key, Some(stamp)));
                    }
                }
            }
        }
        Ok(event)
    }
}

fn read<'a, M: FullMemory>(
    ledger: &'a Ledger,
    transaction: &mut Transaction<'a, M>,
    key: u64,
) -> Result<Option<u64>, Abort> {
    Ok(transaction.get(&ledger.table, key)?.map(|found| checked(found.row)))
}

/// The stamp of a row, which no reader may see half-written.
fn checked(row: Stamped) -> u64 {
    assert!(row.iter().all(|&stamp| stamp == row[0]), "a torn row: {row:?}");
    row[0]
}

/// Looks for an order of all transactions that keeps the order of each thread. Each transaction
/// must see its observed values, epochs must never go back, and the end must equal memory. There is
/// such an order exactly if the history is strictly serialisable and its epochs are true.
pub(crate) fn explain(
    at_first: &State,
    threads: &[Vec<Event>],
    at_last: &State,
) -> Result<(), String> {
    let start = (vec![0usize; threads.len()], 0, at_first.clone());
    let (mut open, mut known) = (vec![start], HashSet::new());
    let mut farthest = 0;
    while let Some((done, epoch, state)) = open.pop() {
        if done.iter().zip(threads).all(|(&done, events)| done == events.len()) && state == *at_last
        {
            return Ok(());
        }
        farthest = farthest.max(done.iter().sum());
        for (thread, events) in threads.iter().enumerate() {
            let Some(event) = events.get(done[thread]) else { continue };
            let seen = event.saw.iter().all(|(key, stamp)| state.get(key) == stamp.as_ref());
            if !seen || event.epoch.is_some_and(|of| of < epoch) {
                continue;
            }
            let (mut done, mut state) = (done.clone(), state.clone());
            done[thread] += 1;
            for &(key, stamp) in &event.did {
                match stamp {
                    Some(stamp) => state.insert(key, stamp),
                    None => state.remove(&key),
                };
            }
            let next = (done, event.epoch.unwrap_or(epoch), state);
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    let all: usize = threads.iter().map(Vec::len).sum();
    Err(format!("no order explains more than {farthest} of {all} transactions"))
}

/// Checks the history of `threads` over `words`.
pub(crate) fn check(
    ledger: &Ledger,
    words: Shared,
    threads: Vec<Result<Vec<Event>, Corrupt>>,
) -> Result<(), String> {
    let threads: Result<Vec<Vec<Event>>, Corrupt> = threads.into_iter().collect();
    let threads = threads.map_err(|wrong| wrong.to_string())?;
    explain(&ledger.at_first(), &threads, &ledger.state(&mut words.into_plain()))
}
