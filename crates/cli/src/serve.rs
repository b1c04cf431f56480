//! `ebbtide serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use ebbtide_core::Bytes;
use ebbtide_core::durability::Policy;
use ebbtide_server::{ServeOptions, Started, serve};

use crate::exit::{Failure, print, say};
use crate::progress;

#[derive(Args)]
pub(crate) struct Arguments {
    /// File or block device of the keys
    #[arg(long, value_name = "PATH", default_value = "ebbtide-store")]
    data: PathBuf,
    /// Flash for keys, values and the index: 4GiB for a new file; a file that is there keeps its own
    #[arg(long, value_name = "SIZE")]
    capacity: Option<Bytes>,
    /// DRAM for everything: cache, index, buffers of connections
    #[arg(long, value_name = "SIZE", default_value = "256MiB")]
    dram: Bytes,
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    bind: IpAddr,
    /// TCP port; 0 takes any that is free
    #[arg(long, default_value = "6379")]
    port: u16,
    /// Unix socket to listen on as well
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
    /// When a change is acknowledged: every:TIME, so that a crash loses at most that time; always,
    /// once it survives a crash; or none, which starts empty and keeps nothing
    #[arg(long, default_value = "every:1s")]
    durability: Policy,
    /// Password that clients must give
    #[arg(long, value_name = "PASSWORD")]
    requirepass: Option<String>,
    /// The most connections at once
    #[arg(long, default_value = "10000")]
    maxclients: usize,
    /// Listen beyond this machine even without a password
    #[arg(long)]
    allow_open: bool,
    /// CPU to pin the server's core to
    #[arg(long)]
    cpu: Option<usize>,
    /// Overwrite a data file of something else
    #[arg(long)]
    force: bool,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let options = ServeOptions {
        data: arguments.data,
        capacity_bytes: arguments.capacity.map(|bytes| bytes.0),
        dram_bytes: arguments.dram.0,
        bind: arguments.bind,
        port: arguments.port,
        unix: arguments.unix,
        durability: arguments.durability,
        password: arguments.requirepass,
        clients_max: arguments.maxclients,
        allow_open: arguments.allow_open,
        force: arguments.force,
        cpu: arguments.cpu,
    };
    let stop = progress::on_interrupt()?;
    let told = |started: &Started| tell(&options, started);
    serve(&options, stop, told).map_err(|error| Failure::of(error.is_input(), error))
}

/// Says where the server answers, and what to expect of it.
fn tell(options: &ServeOptions, started: &Started) {
    started.notices.iter().for_each(|notice| say(notice));
    if options.durability == Policy::None {
        say("--durability none keeps nothing: the keys are gone when the server ends");
    }
    if let Some((transactions, damaged)) = started.recovered {
        let seconds = started.opening.as_secs_f64();
        say(&format!(
            "recovered {transactions} transactions from the log in {seconds:.1} s, {damaged} damaged pages"
        ));
    }
    // Nobody may be reading.
    let _ = print(&format!(
        "ready on {}: {} of flash in {}, {} of DRAM\n",
        started.address,
        Bytes(started.capacity_bytes),
        options.data.display(),
        Bytes(options.dram_bytes),
    ));
}
