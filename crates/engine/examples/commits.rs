//! What durability costs here: TPC-B-like transactions in extend memory and under every policy.
//!
//! `cargo run --release -p ebbtide-engine --example commits -- [FOLDER]`
//!
//! Every transaction adds an amount to an account, its teller and its branch, and appends to a history
//! (TPC-B, clause 1.2). Data is 20 times the DRAM budget. Rounds of all modes are interleaved; the table
//! shows medians with the range, the bytes of log a transaction, and for `always` the bound J / (F + J·c):
//! J jobs wait together, F is the time of a flush after a write of 4 KiB, c the time of a job without
//! waiting.

use std::collections::VecDeque;
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebbtide_core::durability::Policy;
use ebbtide_core::{Addr, Memory, PageId, Span};
use ebbtide_engine::store::{NewStore, Store};
use ebbtide_engine::{Engine, FlashMemory, Jobs, Options};
use ebbtide_structures::latch;

const DRAM_BYTES: usize = 16 << 20;
const PAGES: u64 = 20 * DRAM_BYTES as u64 / 4096;
const LOG_BYTES: u64 = 64 << 20;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);
const BRANCHES: u64 = 16;
const TELLERS: u64 = 160;

/// A line of an account, a teller or a branch: a latch, a balance, and what was last added.
fn line(number: u64) -> Addr {
    Addr(number * 64)
}

/// One transaction. Lines are in the order of their addresses.
fn transact(memory: &mut FlashMemory<'_>, n: u64) -> ebbtide_core::durability::Lsn {
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
                    let balance: u64 = memory.load(line + 8);
                    memory.store(line + 8, balance.wrapping_add(mixed));
                }
            });
            memory.store(history, [mixed, branch.0, teller.0, account.0, n]);
        })
        .expect("the device works");
    lsn
}

/// A store with an engine, and what was measured of it.
struct Mode {
    name: String,
    jobs: Jobs,
    /// Jobs that wait together.
    window: usize,
    waits: bool,
    next: u64,
    per_s: Vec<f64>,
    log_bytes: Vec<f64>,
}

impl Mode {
    fn new(
        folder: &Path,
        name: &str,
        policy: Option<Policy>,
        window: usize,
    ) -> Result<Mode, Box<dyn Error>> {
        let path = folder.join(format!("commits-{name}-{window}.store"));
        let (spare_pages, tag) = (PAGES / 2, "commits".into());
        let new = NewStore { path, offset: 0, pages: PAGES, spare_pages, tag, force: true };
        let store = match policy {
            Some(_) => Store::create_persistent(&new, LOG_BYTES)?,
            None => Store::create_blank(&new)?,
        };
        let durability = policy.unwrap_or_default();
        let options = Options { durability, ..Options::new(DRAM_BYTES) };
        let jobs = Arc::new(Engine::open(&Arc::new(store), &options)?).start()?;
        let waits = matches!(policy, Some(Policy::Always));
        let name = format!("{name}, {window} at once");
        let (per_s, log_bytes) = (Vec::new(), Vec::new());
        Ok(Mode { name, jobs, window, waits, next: 0, per_s, log_bytes })
    }

    fn round(&mut self) -> Result<(), Box<dyn Error>> {
        let committed = || self.jobs.engine().progress().map_or(0, |progress| progress.committed.0);
        let (before, began, mut count) = (committed(), Instant::now(), 0u64);
        let mut tickets = VecDeque::new();
        while began.elapsed() < ROUND || !tickets.is_empty() {
            while tickets.len() < self.window && began.elapsed() < ROUND {
                let n = self.next;
                self.next += 1;
                tickets.push_back(
                    self.jobs.submit_commit(move |memory| Ok(((), transact(memory, n)))),
                );
            }
            if let Some(ticket) = tickets.pop_front() {
                ticket.wait()??;
                count += 1;
            }
        }
        self.per_s.push(count as f64 / began.elapsed().as_secs_f64());
        self.log_bytes.push((committed() - before) as f64 / count as f64);
        Ok(())
    }
}

/// The median, the least and the most.
fn spread(values: &[f64]) -> (f64, f64, f64) {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    (sorted[sorted.len() / 2], sorted[0], sorted[sorted.len() - 1])
}

/// The time of a write of 4 KiB and its flush, in seconds.
fn flush_s(folder: &Path) -> Result<Vec<f64>, Box<dyn Error>> {
    let path = folder.join("commits-flush");
    let file = File::create(&path)?;
    file.write_all_at(&[0; 1 << 20], 0)?;
    file.sync_all()?;
    let mut times = Vec::new();
    for block in 0..40 {
        let began = Instant::now();
        file.write_all_at(&[1; 4096], block * 4096)?;
        file.sync_data()?;
        times.push(began.elapsed().as_secs_f64());
    }
    std::fs::remove_file(&path)?;
    Ok(times)
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let every = Policy::Every(Span::from_us(1_000_000));
    let mut modes = vec![
        Mode::new(&folder, "extend", None, 64)?,
        Mode::new(&folder, "none", Some(Policy::None), 64)?,
        Mode::new(&folder, "every-1s", Some(every), 64)?,
        Mode::new(&folder, "always", Some(Policy::Always), 1)?,
        Mode::new(&folder, "always", Some(Policy::Always), 16)?,
        Mode::new(&folder, "always", Some(Policy::Always), 64)?,
    ];
    let mut flushes = Vec::new();
    for _ in 0..ROUNDS {
        for mode in &mut modes {
            mode.round()?;
        }
        flushes.extend(flush_s(&folder)?);
    }
    let (flush, least, most) = spread(&flushes);
    println!("flush of 4 KiB: {:.2} ms ({:.2}–{:.2})", flush * 1e3, least * 1e3, most * 1e3);
    let extend = spread(&modes[0].per_s).0;
    println!(
        "{:<22} {:>26} {:>8} {:>10} {:>8}",
        "mode", "commits/s", "of extend", "log bytes", "of bound"
    );
    for mode in &modes {
        let (per_s, least, most) = spread(&mode.per_s);
        let window = mode.window as f64;
        let bound = window / (flush + window / extend);
        let of_bound = if mode.waits { format!("{:.2}", per_s / bound) } else { "-".into() };
        println!(
            "{:<22} {:>8.0} ({:>7.0}–{:>7.0}) {:>8.2} {:>10.0} {:>8}",
            mode.name,
            per_s,
            least,
            most,
            per_s / extend,
            spread(&mode.log_bytes).0,
            of_bound
        );
    }
    for mode in modes {
        let name = mode.name.replace(", ", "-").replace(" at once", "");
        mode.jobs.stop()?;
        let _ = std::fs::remove_file(folder.join(format!("commits-{name}.store")));
    }
    Ok(())
}
