//! `ebbtide commits`.

use clap::Args;
use ebbtide_core::durability::Policy;
use ebbtide_core::{Bytes, Span};
use ebbtide_study::commits::{self, CommitError, CommitOptions};

use crate::exit::Failure;
use crate::output::emit;
use crate::{numbers, progress};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Modelled SSD: astriflash-256g, astriflash-1t, ull, slc, mlc, tlc
    #[arg(long, default_value = "astriflash-256g", value_name = "PRESET")]
    device: String,
    /// Size of the data
    #[arg(long, default_value = "1GiB", value_name = "SIZE")]
    dataset: Bytes,
    /// Size of the DRAM cache
    #[arg(long, default_value = "52MiB", value_name = "SIZE")]
    dram: Bytes,
    /// Size of the log
    #[arg(long, default_value = "64MiB", value_name = "SIZE")]
    log: Bytes,
    /// Concurrent transactions
    #[arg(long, value_parser = numbers::at_least_one, default_value = "64", value_name = "COUNT")]
    jobs: u64,
    /// Computing time of a transaction
    #[arg(long, default_value = "10us", value_name = "TIME")]
    cpu: Span,
    /// When a transaction is acknowledged: none, always or every:TIME
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "none,every:1s,always",
        value_name = "POLICY"
    )]
    durability: Vec<Policy>,
    /// Time of a flush, in addition to the writes before it
    #[arg(long, value_delimiter = ',', default_value = "30us,1ms", value_name = "TIME")]
    flush: Vec<Span>,
    /// Transactions that are counted, after as many that are not
    #[arg(long, value_parser = numbers::at_least_one, default_value = "200000", value_name = "COUNT")]
    transactions: u64,
    /// Seed of the accounts
    #[arg(long, value_parser = numbers::count::<u64>, default_value = "1")]
    seed: u64,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let options = CommitOptions {
        device: arguments.device.clone(),
        dataset: arguments.dataset,
        dram: arguments.dram,
        log: arguments.log,
        jobs: usize::try_from(arguments.jobs).unwrap_or(usize::MAX),
        cpu: arguments.cpu,
        policies: arguments.durability.clone(),
        flushes: arguments.flush.clone(),
        transactions: arguments.transactions,
        seed: arguments.seed,
    };
    let predicted = progress::watched(|watch| commits::predict(&options, watch))?;
    let is_input = |error: &CommitError| !matches!(error, CommitError::Stopped(_));
    let predicted = predicted.map_err(|error| Failure::of(is_input(&error), error))?;
    emit(&predicted, arguments.json)
}
