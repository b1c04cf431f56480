//! Transactions on several cores, for as long as one likes, over far more pages than the cache
//! holds.
//!
//! `cargo run --release -p ebbtide-engine --example transfers -- FOLDER SECONDS CORES`
//!
//! Jobs move amounts between the accounts of a group, whose sum stays zero, and look at the sum of
//! a group. Some give up in the middle, by an error or a panic. In each round the store is opened,
//! used for two seconds, and closed, with a checkpoint every second round. Nothing that was
//! acknowledged may be missing in the next.

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ebbtide_core::durability::{Aborted, Policy};
use ebbtide_core::{Addr, Memory, PageId, Span};
use ebbtide_engine::store::{Access, NewStore, Store};
use ebbtide_engine::{Engine, FlashMemory, JobError, Jobs, Options, Ticket};

const GROUPS: u64 = 256;
const ACCOUNTS: u64 = 8;
const PAGES: u64 = GROUPS * ACCOUNTS;
const LOG_BYTES: u64 = 1 << 20;
const ROUND: Duration = Duration::from_secs(2);

/// The kind of a job.
#[derive(Clone, Copy)]
enum Kind {
    Transfer,
    Look,
    GiveUp,
    Panic,
}

/// Draws numbers (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 20) % bound
    }
}

/// The balance of an account. The first account's page also has the number of transfers of the
/// group.
fn balance(group: u64, account: u64) -> Addr {
    PageId(account * GROUPS + group).start()
}

/// Changes a word, which is looked at again when the transaction commits.
fn change(memory: &mut FlashMemory<'_>, at: Addr, by: u64) -> u64 {
    loop {
        let before = memory.load::<u64>(at);
        if memory.compare_exchange(at, before, before.wrapping_add(by)).is_ok() {
            return before;
        }
    }
}

/// Why a transfer was given up.
type Declined = &'static str;

/// Runs one job on a group. Returns the sum of the group, which must be zero, and its number of
/// transfers.
fn run(
    memory: &mut FlashMemory<'_>,
    kind: Kind,
    group: u64,
    [from, to, amount]: [u64; 3],
) -> Result<(u64, u64), Aborted<Declined>> {
    let (seen, lsn) = memory.try_transaction(|memory| {
        if let Kind::Look = kind {
            let accounts = 0..ACCOUNTS;
            let sum = accounts.fold(0u64, |sum, account| {
                sum.wrapping_add(change(memory, balance(group, account), 0))
            });
            return Ok((sum, change(memory, balance(group, 0) + 8, 0)));
        }
        change(memory, balance(group, from), amount.wrapping_neg());
        match kind {
            Kind::GiveUp => return Err("declined"),
            Kind::Panic => panic!("on purpose"),
            Kind::Transfer | Kind::Look => {}
        }
        change(memory, balance(group, to), amount);
        Ok((0, change(memory, balance(group, 0) + 8, 1) + 1))
    })?;
    memory.durable(lsn)?;
    Ok(seen)
}

/// A job under way: its kind, its group, and the ticket for its result.
type UnderWay = (Kind, u64, Ticket<Result<(u64, u64), Aborted<Declined>>>);

fn submit(jobs: &Jobs, random: &mut Random) -> UnderWay {
    let kind = match random.below(20) {
        0 => Kind::GiveUp,
        1 => Kind::Panic,
        2..6 => Kind::Look,
        _ => Kind::Transfer,
    };
    let group = random.below(GROUPS);
    let drawn = [random.below(ACCOUNTS), random.below(ACCOUNTS), random.below(1 << 40)];
    (kind, group, jobs.submit(move |memory| run(memory, kind, group, drawn)))
}

/// Waits for a job, and notes how many transfers its group has seen.
fn end((kind, group, ticket): UnderWay, seen: &mut [u64]) -> Result<(), Box<dyn Error>> {
    match (kind, ticket.wait()) {
        (Kind::Panic, Err(JobError::Panicked(_))) => Ok(()),
        (Kind::GiveUp, Ok(Err(Aborted::GivenUp(_)))) => Ok(()),
        (_, Ok(done)) => {
            let (sum, count) = done?;
            if sum != 0 {
                return Err(format!("group {group} has a sum of {sum}").into());
            }
            seen[group as usize] = seen[group as usize].max(count);
            Ok(())
        }
        (_, Err(error)) => Err(error.into()),
    }
}

/// Checks every group. It must have at least as many transfers as were `seen` before.
fn check(jobs: &Jobs, seen: &[u64]) -> Result<(), Box<dyn Error>> {
    for (group, &seen) in (0..).zip(seen) {
        let look = jobs.submit(move |memory| run(memory, Kind::Look, group, [0; 3]));
        let (sum, count) = look.wait()??;
        if sum != 0 || count < seen {
            return Err(format!("group {group}: sum {sum}, {count} of {seen} transfers").into());
        }
    }
    Ok(())
}

fn round(path: &Path, cores: usize, number: u64, seen: &mut [u64]) -> Result<u64, Box<dyn Error>> {
    let policies = [Policy::Always, Policy::Every(Span::from_us(1_000)), Policy::None];
    let durability = Some(policies[(number % 3) as usize]);
    let mut options = Options { cores, durability, ..Options::new(cores * (3 << 20)) };
    options.tuning.threads = Some(16);
    let store = Arc::new(Store::open(path, 0, Access::Exclusive)?);
    let jobs = Arc::new(Engine::open(&store, &options)?).start()?;
    check(&jobs, seen)?;
    let (mut random, since) = (Random(number + 1), Instant::now());
    let (mut under_way, mut ended) = (std::collections::VecDeque::new(), 0);
    while since.elapsed() < ROUND {
        under_way.push_back(submit(&jobs, &mut random));
        if under_way.len() >= cores * 16
            && let Some(first) = under_way.pop_front()
        {
            end(first, seen)?;
            ended += 1;
        }
    }
    under_way.into_iter().try_for_each(|job| end(job, seen))?;
    check(&jobs, seen)?;
    if number % 2 == 1 {
        jobs.checkpoint()?;
    }
    jobs.stop()?;
    Ok(ended)
}

fn soak(folder: &Path, seconds: u64, cores: usize) -> Result<(), Box<dyn Error>> {
    let path = folder.join("transfers");
    let (spare_pages, tag) = (PAGES, "transfers".into());
    let new = NewStore { path, offset: 0, pages: PAGES, spare_pages, tag, force: false };
    drop(Store::create_persistent(&new, LOG_BYTES)?);
    // Panics are part of it.
    std::panic::set_hook(Box::new(|_| ()));
    let (since, mut rounds, mut ended) = (Instant::now(), 0, 0);
    let mut seen = vec![0; GROUPS as usize];
    while since.elapsed() < Duration::from_secs(seconds) {
        ended += round(&new.path, cores, rounds, &mut seen)?;
        rounds += 1;
    }
    println!("{ended} jobs on {cores} cores in {rounds} rounds; every sum was zero");
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, seconds, cores] = &arguments[..] else {
        eprintln!("expected FOLDER SECONDS CORES");
        return ExitCode::FAILURE;
    };
    let (Ok(seconds), Ok(cores)) = (seconds.parse(), cores.parse()) else {
        eprintln!("expected numbers of seconds and cores");
        return ExitCode::FAILURE;
    };
    match soak(Path::new(folder), seconds, cores) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
