//! [`Measured`]: a store under measurement, and the clients of the peers.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::transactions::{Load, Transaction};

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Ways to commit the transactions of a peer's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Commits {
    /// A commit for each transaction.
    Alone,
    /// One commit and one flush for all waiting transactions.
    Together,
    /// As [`Commits::Together`]. Clients first read the row that is probably not in DRAM, so that
    /// these reads overlap.
    ReadAhead,
}

impl Commits {
    pub const ALL: [Commits; 3] = [Commits::Alone, Commits::Together, Commits::ReadAhead];
}

/// A run of transactions to measure.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Window {
    pub load: Load,
    pub commits: Commits,
    pub clients: usize,
    pub seconds: f64,
    /// The number of its first transaction.
    pub first: u64,
}

/// Counts of a window.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Done {
    pub transactions: u64,
    pub commits: u64,
    pub seconds: f64,
}

/// A filled store under measurement.
pub trait Measured {
    /// Runs transactions for a window.
    fn run(&mut self, window: &Window) -> Result<Done, Failure>;
}

/// Sizes of a store.
pub struct Sizes {
    /// Rows of the large table.
    pub rows: u64,
    pub dram_bytes: u64,
}

/// A peer with one writer at a time and concurrent readers.
pub trait Peer: Sync + Sized {
    /// State of one reading thread.
    type Reader<'a>
    where
        Self: 'a;
    /// State of the writing thread.
    type Writer<'a>
    where
        Self: 'a;

    fn create(folder: &Path, sizes: &Sizes) -> Result<(), Failure>;
    fn open(folder: &Path, sizes: &Sizes) -> Result<Self, Failure>;
    fn reader(&self) -> Result<Self::Reader<'_>, Failure>;
    fn writer(&self) -> Result<Self::Writer<'_>, Failure>;
    /// Reads a row. Returns true if it is right.
    fn read(reader: &mut Self::Reader<'_>, key: u64) -> Result<bool, Failure>;
    /// Commits transactions durably in one commit. Returns true if the rows that they read were
    /// right.
    fn commit(writer: &mut Self::Writer<'_>, group: &[Transaction]) -> Result<bool, Failure>;
}

/// A peer and its clients.
pub struct Served<P> {
    pub peer: P,
    pub rows: u64,
}

/// A client's request to the writer.
struct Asked {
    transaction: Transaction,
    done: SyncSender<()>,
}

impl<P: Peer> Measured for Served<P> {
    fn run(&mut self, window: &Window) -> Result<Done, Failure> {
        let began = Instant::now();
        let until = began + Duration::from_secs_f64(window.seconds);
        let (next, commits, wrong) =
            (AtomicU64::new(window.first), AtomicU64::new(0), AtomicBool::new(false));
        let (ask, asked) = sync_channel(window.clients);
        std::thread::scope(|scope| -> Result<(), Failure> {
            let group_max = if window.commits == Commits::Alone { 1 } else { window.clients };
            let (peer, rows) = (&self.peer, self.rows);
            let (next, commits, wrong) = (&next, &commits, &wrong);
            let writer = scope.spawn(move || write(peer, &asked, group_max, commits, wrong));
            let client = |ask: SyncSender<Asked>| {
                scope.spawn(move || -> Result<(), Failure> {
                    let mut reader = peer.reader()?;
                    let (done, is_done) = sync_channel(1);
                    while Instant::now() < until {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let transaction = Transaction::draw(window.load, number, rows);
                        let ahead = window.commits == Commits::ReadAhead;
                        if (!transaction.writes() || ahead)
                            && !P::read(&mut reader, transaction.cold_row())?
                        {
                            wrong.store(true, Ordering::Relaxed);
                        }
                        if transaction.writes() {
                            ask.send(Asked { transaction, done: done.clone() })
                                .map_err(|_| "the writer has ended")?;
                            is_done.recv().map_err(|_| "the writer has ended")?;
                        }
                    }
                    Ok(())
                })
            };
            let clients: Vec<_> = (0..window.clients).map(|_| client(ask.clone())).collect();
            drop(ask);
            for client in clients {
                client.join().map_err(|_| "a client panicked")??;
            }
            writer.join().map_err(|_| "the writer panicked")?
        })?;
        if wrong.into_inner() {
            return Err("a row that was read is not right".into());
        }
        let transactions = next.into_inner() - window.first;
        let seconds = began.elapsed().as_secs_f64();
        Ok(Done { transactions, commits: commits.into_inner(), seconds })
    }
}

/// The writer: commits the requested transactions, at most `group_max` at once.
fn write<P: Peer>(
    peer: &P,
    asked: &Receiver<Asked>,
    group_max: usize,
    commits: &AtomicU64,
    wrong: &AtomicBool,
) -> Result<(), Failure> {
    let mut writer = peer.writer()?;
    while let Ok(first) = asked.recv() {
        let more = asked.try_iter().take(group_max - 1);
        let group: Vec<Asked> = std::iter::once(first).chain(more).collect();
        let transactions: Vec<Transaction> = group.iter().map(|one| one.transaction).collect();
        if !P::commit(&mut writer, &transactions)? {
            wrong.store(true, Ordering::Relaxed);
        }
        commits.fetch_add(group.len() as u64, Ordering::Relaxed);
        for one in group {
            // A client that has failed does not wait.
            let _ = one.done.send(());
        }
    }
    Ok(())
}
