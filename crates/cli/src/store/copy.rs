//! `ebbtide store copy`: asks a server for a copy of its store, and waits for it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::exit::{Failure, print};
use crate::peer::Peer;
use crate::progress;

/// Time between two requests for the progress of the copy.
const ASK_EVERY: Duration = Duration::from_millis(100);

#[derive(Args)]
pub(crate) struct Arguments {
    /// The new file, on the server's machine
    to: PathBuf,
    #[command(flatten)]
    peer: Peer,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    progress::on_interrupt()?;
    let to = std::path::absolute(&arguments.to).map_err(Failure::input)?;
    let to = to.to_str().ok_or_else(|| Failure::input("the path is not UTF-8"))?;
    let mut link = arguments.peer.link()?;
    let mut ask = |words: &[&str]| arguments.peer.ask(&mut link, words);
    ask(&["BGSAVE", "TO", to])?;
    loop {
        let text = ask(&["INFO", "persistence"])?;
        let state = text.lines().find_map(|line| line.strip_prefix("last_copy:"));
        match state.and_then(|state| state.split_once(':')) {
            Some(("done", path)) => return print(&format!("{path}\n")),
            Some(("failed", reason)) => return Err(Failure::run(reason)),
            _ if progress::is_stopped() => {
                let text = format!("{} goes on with the copy", arguments.peer);
                return Err(Failure::run(text).interrupted_if(true));
            }
            _ => std::thread::sleep(ASK_EVERY),
        }
    }
}
