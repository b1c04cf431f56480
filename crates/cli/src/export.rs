//! `ebbtide export`: writes the keys of a server to a database file of Redis.

use std::fs::{File, remove_file};
use std::io::BufWriter;
use std::path::PathBuf;

use clap::Args;
use ebbtide_core::{Watch, counted};
use ebbtide_server::rdb::{ExportError, Exporting, export};

use crate::exit::{Failure, print};
use crate::import::Names;
use crate::peer::Peer;
use crate::progress;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The new file, such as dump.rdb
    file: PathBuf,
    #[command(flatten)]
    peer: Peer,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = &arguments.file;
    let failed = |error: std::io::Error| Failure::input(error).about(path);
    let mut link = arguments.peer.link()?;
    let file = File::create_new(path).map_err(failed)?;
    let exported = progress::watched(|watch| {
        let mut caller = Shown { watch, names: Names::default() };
        export(&mut link, BufWriter::with_capacity(1 << 20, file), &mut caller)
    })?;
    let exported = exported.map_err(|error| {
        // What is there cannot be read.
        let _ = remove_file(path);
        match error {
            ExportError::File(error) => Failure::run(error).about(path),
            ExportError::Server(error) => arguments.peer.failed(error),
            ExportError::Stopped => Failure::run("stopped"),
        }
    })?;
    print(&format!("keys               {}\n", exported.keys))?;
    if exported.needs_7_4 {
        print("fields expire      Redis 7.4 or later reads the file\n")?;
    }
    match exported.refused {
        0 => Ok(()),
        refused => {
            Err(Failure::run(format!("{}: {} left out", path.display(), counted(refused, "key"))))
        }
    }
}

/// Shows the progress, and names keys that are left out.
struct Shown<'a> {
    watch: Watch<'a>,
    names: Names,
}

impl Exporting for Shown<'_> {
    fn goes_on(&mut self, done: u64, all: u64) -> bool {
        self.watch.tell("export", done as f64 / all.max(1) as f64).is_ok()
    }

    fn refused(&mut self, key: &[u8], database: u64, reason: &str) {
        self.names.tell("left out", key, database, reason);
    }
}
