//! [`Mode`]: a store with an engine, and rounds of transactions on it.

use std::collections::VecDeque;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebbtide_core::durability::{Checksums, Lsn, Policy};
use ebbtide_core::{Addr, Memory, PAGE_BYTES, PageId};
use ebbtide_engine::store::{NewStore, Store};
use ebbtide_engine::{Budget, Engine, FlashMemory, Jobs, Options, Progress, Snapshot};
use ebbtide_structures::latch;

pub const DRAM_BYTES: usize = 16 << 20;
pub const PAGES: u64 = 20 * DRAM_BYTES as u64 / PAGE_BYTES as u64;
const LOG_BYTES: u64 = 64 << 20;
const ROUND: Duration = Duration::from_secs(2);
const BRANCHES: u64 = 16;
const TELLERS: u64 = 160;

/// Bytes that a transaction stores: two words in three lines, and seven words of history.
pub const STORED_BYTES: f64 = 104.0;

/// A line of an account, a teller or a branch: a latch, a balance, and the author of the last
/// change.
fn line(number: u64) -> Addr {
    Addr(number * 64)
}

/// One transaction. Lines are in the order of their addresses.
fn transact(memory: &mut FlashMemory<'_>, n: u64) -> Lsn {
    let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    let accounts = PAGES / 2 * 64 - BRANCHES - TELLERS;
    let branch = line(mixed % BRANCHES);
    let teller = line(BRANCHES + mixed % TELLERS);
    let account = line(BRANCHES + TELLERS + mixed % accounts);
    let history = PageId(PAGES / 2).start() + n % (PAGES / 2 * 64) * 64;
    let ((), lsn) = memory
        .transaction(|memory| {
            latch::write_all(memory, &[branch, teller, account], |memory| {
                for line in [branch, teller, account] {
                    let [balance, _]: [u64; 2] = memory.load(line + 8);
                    memory.store(line + 8, [balance.wrapping_add(mixed), n]);
                }
            });
            memory.store(history, [mixed, branch.0, teller.0, account.0, n, 0, 0]);
        })
        .expect("the device works");
    lsn
}

/// A store with an engine.
pub struct Mode {
    pub name: &'static str,
    pub jobs: Jobs,
    /// Whether a commit waits for its flush.
    pub waits: bool,
    next: u64,
}

/// The measurements of a round, for each commit unless a name says otherwise.
pub struct Round {
    pub per_s: f64,
    pub busy_us: f64,
    pub log_bytes: f64,
    /// Commits a flush.
    pub group: f64,
    pub written_bytes: f64,
    /// Seconds a flush.
    pub flush_s: f64,
}

/// The counters at a moment.
struct Moment {
    at: Instant,
    engine: Snapshot,
    progress: Option<Progress>,
}

impl Mode {
    pub fn new(
        folder: &Path,
        name: &'static str,
        policy: Option<Policy>,
    ) -> Result<Mode, Box<dyn Error>> {
        let path = path(folder, name);
        let (spare_pages, tag) = (PAGES / 2, "commits".into());
        let new = NewStore { path, offset: 0, pages: PAGES, spare_pages, tag, force: true };
        let store = match policy {
            Some(_) => Store::create_persistent(&new, LOG_BYTES)?,
            None => Store::create_blank(&new)?,
        };
        let options = Options { durability: policy, ..Options::new(DRAM_BYTES) };
        let jobs = Arc::new(Engine::open(&Arc::new(store), &options)?).start()?;
        Ok(Mode { name, jobs, waits: matches!(policy, Some(Policy::Always)), next: 0 })
    }

    fn now(&self) -> Moment {
        let engine = self.jobs.engine();
        let (progress, at) = (engine.progress(), Instant::now());
        Moment { at, engine: engine.counters().snapshot(), progress }
    }

    /// Commits with `window` jobs at once for the time of a round.
    pub fn round(&mut self, window: usize) -> Result<Round, Box<dyn Error>> {
        let (before, mut count) = (self.now(), 0u64);
        let mut tickets = VecDeque::new();
        while before.at.elapsed() < ROUND || !tickets.is_empty() {
            while tickets.len() < window && before.at.elapsed() < ROUND {
                let n = self.next;
                self.next += 1;
                let job = move |memory: &mut FlashMemory<'_>| Ok(((), transact(memory, n)));
                tickets.push_back(self.jobs.submit_commit(job));
            }
            if let Some(ticket) = tickets.pop_front() {
                ticket.wait()??;
                count += 1;
            }
        }
        let after = self.now();
        let count = count as f64;
        let taken_s = (after.at - before.at).as_secs_f64();
        let idle_s = (after.engine.idle_ns - before.engine.idle_ns) as f64 * 1e-9;
        let pages = (after.engine.flash_writes - before.engine.flash_writes) as f64;
        let grown = |what: fn(&Progress) -> f64| {
            let of = |moment: &Moment| moment.progress.as_ref().map_or(0.0, what);
            of(&after) - of(&before)
        };
        let flushes = grown(|progress| progress.flushes as f64);
        let written = grown(|progress| progress.written_bytes as f64);
        Ok(Round {
            per_s: count / taken_s,
            busy_us: (taken_s - idle_s) * 1e6 / count,
            log_bytes: grown(|progress| progress.committed.0 as f64) / count,
            group: if flushes > 0.0 { count / flushes } else { 0.0 },
            written_bytes: (pages * PAGE_BYTES as f64 + written) / count,
            flush_s: grown(|progress| progress.flush_time.as_secs_f64()) / flushes.max(1.0),
        })
    }

    /// Ends the engine and removes the store.
    pub fn remove(self, folder: &Path) -> Result<(), Box<dyn Error>> {
        let path = path(folder, self.name);
        self.jobs.stop()?;
        std::fs::remove_file(path)?;
        Ok(())
    }
}

fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("commits-{}.store", name.replace(':', "-")))
}

/// State, slots and policy come from the budget. The map is an addition to it.
pub fn dram_bytes_a_page(budget: &Budget) -> f64 {
    (budget.states_bytes + budget.policy_bytes) as f64 / PAGES as f64
        + Checksums::ENTRY_BYTES as f64
}
