//! Compares durable transactions in Ebbtide, redb, SQLite and LMDB, with the same clients, the
//! same limit on DRAM and the same disk.
//!
//! `cargo run --release --manifest-path peers/Cargo.toml -- --folder FOLDER`
//!
//! Every store is a separate process in a memory cgroup, which counts the kernel's cache of its
//! files too. Data is 20 times the limit. Rounds of all stores are interleaved; tables show
//! medians with the range. The peers run each load with every way to commit that they have. The
//! best one counts.

mod ebbtide_store;
mod lmdb_store;
mod redb_store;
mod sqlite_store;
mod store;
mod table;
mod transactions;

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use clap::{Parser, ValueEnum};
use ebbtide_core::Bytes;
use ebbtide_measure::cgroup::MemoryCgroup;
use serde::{Deserialize, Serialize};

use ebbtide_store::Ebbtide;
use lmdb_store::Lmdb;
use redb_store::Redb;
use sqlite_store::Sqlite;
use store::{Commits, Done, Failure, Measured, Peer, Served, Sizes, Window};
use table::Figures;
use transactions::Load;

/// Data is this many times the DRAM limit. A row has 64 bytes, and 8 of key.
const DATA_TIMES: u64 = 20;
const ROW_BYTES: u64 = 72;

#[derive(Parser)]
struct Arguments {
    /// Where the stores are made, some GiB; they are removed afterwards
    #[arg(long)]
    folder: PathBuf,
    /// DRAM of each store; data is 20 times that
    #[arg(long, default_value = "32MiB")]
    dram: Bytes,
    /// Clients at once
    #[arg(long, default_value = "64")]
    clients: usize,
    #[arg(long, default_value = "5")]
    rounds: usize,
    /// Length of a measurement
    #[arg(long, default_value = "2")]
    seconds: f64,
    /// Fill or run this store as a child process
    #[arg(long, hide = true)]
    child: Option<Kind>,
    #[arg(long, hide = true)]
    fill: bool,
}

/// The stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[value(rename_all = "lower")]
enum Kind {
    Ebbtide,
    Redb,
    Sqlite,
    Lmdb,
}

const KINDS: [Kind; 4] = [Kind::Ebbtide, Kind::Redb, Kind::Sqlite, Kind::Lmdb];
const LOADS: [Load; 3] = [Load::TpcB, Load::Tatp, Load::Reads];

fn main() -> Result<(), Failure> {
    let arguments = Arguments::parse();
    let sizes =
        Sizes { rows: arguments.dram.0 * DATA_TIMES / ROW_BYTES, dram_bytes: arguments.dram.0 };
    match arguments.child {
        None => compare(&arguments, &sizes),
        Some(kind) if arguments.fill => fill(kind, &arguments.folder, &sizes),
        Some(kind) => serve(kind, &arguments.folder, &sizes),
    }
}

fn fill(kind: Kind, folder: &Path, sizes: &Sizes) -> Result<(), Failure> {
    match kind {
        Kind::Ebbtide => Ebbtide::create(folder, sizes)?,
        Kind::Redb => Redb::create(folder, sizes)?,
        Kind::Sqlite => Sqlite::create(folder, sizes)?,
        Kind::Lmdb => Lmdb::create(folder, sizes)?,
    }
    forget(folder)
}

/// Writes the files below `folder` to the device and drops them from the kernel's cache. Their
/// cached pages would be charged to no store.
fn forget(folder: &Path) -> Result<(), Failure> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            forget(&path)?;
            continue;
        }
        let file = File::open(&path)?;
        file.sync_all()?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

/// Runs the windows requested on standard input, one a line.
fn serve(kind: Kind, folder: &Path, sizes: &Sizes) -> Result<(), Failure> {
    fn served<P: Peer + 'static>(
        folder: &Path,
        sizes: &Sizes,
    ) -> Result<Box<dyn Measured>, Failure> {
        Ok(Box::new(Served { peer: P::open(folder, sizes)?, rows: sizes.rows }))
    }
    let mut lines = std::io::stdin().lines();
    // The first line means that the parent has put this process into its group.
    lines.next().transpose()?;
    let mut store = match kind {
        Kind::Ebbtide => Box::new(Ebbtide::open(folder, sizes)?),
        Kind::Redb => served::<Redb>(folder, sizes)?,
        Kind::Sqlite => served::<Sqlite>(folder, sizes)?,
        Kind::Lmdb => served::<Lmdb>(folder, sizes)?,
    };
    for line in lines {
        let done = store.run(&serde_json::from_str(&line?)?)?;
        println!("{}", serde_json::to_string(&done)?);
    }
    Ok(())
}

/// A store in a separate process.
struct Process {
    kind: Kind,
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    next: u64,
    _group: MemoryCgroup,
}

fn child(kind: Kind, arguments: &Arguments) -> Result<Command, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    let name = format!("{kind:?}").to_lowercase();
    command.args(["--child", &name, "--dram", &arguments.dram.0.to_string(), "--folder"]);
    command.arg(&arguments.folder);
    Ok(command)
}

impl Process {
    fn start(kind: Kind, arguments: &Arguments) -> Result<Process, Failure> {
        let mut command = child(kind, arguments)?;
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let group = MemoryCgroup::create(arguments.dram.0)?;
        group.join(process.id())?;
        let mut orders = process.stdin.take().ok_or("no pipe")?;
        writeln!(orders)?;
        let answers = BufReader::new(process.stdout.take().ok_or("no pipe")?);
        Ok(Process { kind, process, orders, answers, next: 0, _group: group })
    }

    fn run(
        &mut self,
        load: Load,
        commits: Commits,
        arguments: &Arguments,
    ) -> Result<Done, Failure> {
        let Arguments { clients, seconds, .. } = *arguments;
        let window = Window { load, commits, clients, seconds, first: self.next };
        writeln!(self.orders, "{}", serde_json::to_string(&window)?)?;
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            let status = self.process.wait()?;
            let killed = status.signal() == Some(9);
            let why = if killed { "it was killed, as at the limit of memory" } else { "it ended" };
            return Err(format!("{:?}: {why}: {status}", self.kind).into());
        }
        let done: Done = serde_json::from_str(&line)?;
        self.next += done.transactions;
        Ok(done)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn compare(arguments: &Arguments, sizes: &Sizes) -> Result<(), Failure> {
    std::fs::create_dir_all(&arguments.folder)?;
    for kind in KINDS {
        eprintln!("filling {kind:?} with {} rows", sizes.rows);
        if !child(kind, arguments)?.arg("--fill").status()?.success() {
            return Err(format!("{kind:?} could not be filled").into());
        }
    }
    let mut stores = Vec::new();
    for kind in KINDS {
        stores.push(Process::start(kind, arguments)?);
    }
    let mut figures = Figures::default();
    for round in 0..=arguments.rounds {
        for load in LOADS {
            // A store that fails, mostly at the memory limit, does not end the others.
            stores.retain_mut(|store| match run_all(store, load, round, arguments, &mut figures) {
                Ok(()) => true,
                Err(failure) => {
                    println!("round {round}, {load:?}: {failure}\n");
                    false
                }
            });
        }
    }
    drop(stores);
    figures.print(arguments.clients, sizes);
    for name in
        ["peers.ebbtide", "peers.redb", "peers.sqlite", "peers.sqlite-wal", "peers.sqlite-shm"]
    {
        let _ = std::fs::remove_file(arguments.folder.join(name));
    }
    let _ = std::fs::remove_dir_all(arguments.folder.join("peers.lmdb"));
    Ok(())
}

/// Runs `load` with every way to commit that the store has.
fn run_all(
    store: &mut Process,
    load: Load,
    round: usize,
    arguments: &Arguments,
    figures: &mut Figures,
) -> Result<(), Failure> {
    for commits in ways(store.kind, load) {
        let done = store.run(load, commits, arguments)?;
        eprintln!("round {round}: {:?} {load:?} {commits:?}: {done:?}", store.kind);
        // The first round fills the caches.
        if round > 0 {
            figures.note((store.kind, load, commits), &done);
        }
    }
    Ok(())
}

/// Returns the ways to commit that a store is measured with.
fn ways(kind: Kind, load: Load) -> Vec<Commits> {
    match (kind, load) {
        // A flush of Ebbtide serves all waiting transactions, and reads of many jobs overlap
        // anyway.
        (Kind::Ebbtide, _) => vec![Commits::ReadAhead],
        (_, Load::Reads) => vec![Commits::Alone],
        _ => Commits::ALL.to_vec(),
    }
}
