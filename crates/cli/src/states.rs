//! `--states`: the folder where simulations keep calibrations and warm machines for later ones.

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::Args;

#[derive(Args)]
pub(crate) struct States {
    /// Folder that keeps calibrations and warm machines for later runs over the same jobs, up to 4
    /// GiB; or none. The results are the same [default: ebbtide in the user's cache folder]
    #[arg(long, value_name = "DIR|none")]
    states: Option<PathBuf>,
}

impl States {
    /// Makes the simulations of this process keep their states. Without a folder, or if this
    /// program cannot read its own file, nothing is kept.
    pub(crate) fn keep(&self) {
        let folder = match &self.states {
            Some(none) if none.as_os_str() == "none" => None,
            Some(folder) => Some(folder.clone()),
            None => ebbtide_sim::user_folder(),
        };
        if let (Some(folder), Ok(checksum)) = (folder, program_checksum()) {
            ebbtide_sim::keep_in(folder, checksum);
        }
    }
}

/// The checksum of this program's file.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn program_checksum() -> io::Result<u32> {
    static READ: OnceLock<u32> = OnceLock::new();
    if let Some(sum) = READ.get() {
        return Ok(*sum);
    }
    let sum = ebbtide_sim::checksum_of_file(&std::env::current_exe()?)?;
    Ok(*READ.get_or_init(|| sum))
}
