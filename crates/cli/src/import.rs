//! `ebbtide import`: sends the keys of a database file of Redis to a server.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use clap::Args;
use ebbtide_core::{Watch, counted};
use ebbtide_server::rdb::{ImportError, Imported, Importing, import};

use crate::exit::{Failure, print, say};
use crate::peer::Peer;
use crate::progress;

/// Maximum bytes of a value, or of an element of a large one, in DRAM.
const BYTES_MAX: usize = 64 << 20;

/// Maximum number of keys that are named.
const NAMED_MAX: u64 = 100;

/// Maximum bytes of a key that are printed.
const SHOWN_BYTES: usize = 128;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The file, such as dump.rdb
    file: PathBuf,
    /// Replace keys that the server has already. Otherwise they are refused
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    peer: Peer,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = &arguments.file;
    let failed = |error: std::io::Error| Failure::input(error).about(path);
    let file = File::open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let mut link = arguments.peer.link()?;
    let imported = progress::watched(|watch| {
        let mut caller = Shown { watch, bytes, names: Names::default() };
        let options = (arguments.replace, BYTES_MAX);
        import(BufReader::with_capacity(1 << 20, file), &mut link, options, &mut caller)
    })?;
    let imported = imported.map_err(|error| match error {
        ImportError::File(error) => Failure::input(error).about(path),
        ImportError::Server(error) => arguments.peer.failed(error),
        ImportError::Stopped => Failure::run("stopped: the keys so far are in the server"),
    })?;
    print(&told(&imported))?;
    match imported.refused {
        0 => Ok(()),
        refused => {
            Err(Failure::run(format!("{}: {} refused", path.display(), counted(refused, "key"))))
        }
    }
}

/// Returns the result, a fact a line.
fn told(imported: &Imported) -> String {
    let Imported { keys, expired, refused, functions, modules } = *imported;
    let mut text = format!("keys               {keys}\n");
    let rest = [
        ("expired, left out ", expired),
        ("refused           ", refused),
        ("functions left out", functions),
        ("module data, out  ", modules),
    ];
    for (what, count) in rest.iter().filter(|(_, count)| *count > 0) {
        text += &format!("{what} {count}\n");
    }
    text
}

/// Shows the progress, and names refused keys.
struct Shown<'a> {
    watch: Watch<'a>,
    /// Bytes of the file.
    bytes: u64,
    names: Names,
}

impl Importing for Shown<'_> {
    fn goes_on(&mut self, offset: u64) -> bool {
        self.watch.tell("import", offset as f64 / self.bytes.max(1) as f64).is_ok()
    }

    fn refused(&mut self, key: &[u8], database: u64, reason: &str) {
        self.names.tell("refused", key, database, reason);
    }
}

/// Names keys on standard error, and only counts them after the first hundred.
#[derive(Default)]
pub(crate) struct Names(u64);

impl Names {
    /// Names a key, and what happened to it.
    pub(crate) fn tell(&mut self, what: &str, key: &[u8], database: u64, reason: &str) {
        self.0 += 1;
        if self.0 <= NAMED_MAX {
            let shown = key[..key.len().min(SHOWN_BYTES)].escape_ascii();
            say(&format!("{what}: key \"{shown}\" of database {database}: {reason}"));
        } else if self.0 == NAMED_MAX + 1 {
            say("further keys are counted, and not named");
        }
    }
}
