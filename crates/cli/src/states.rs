//! `--states`: where simulations keep what later ones need alike.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::Args;
use ebbtide_core::crc32c_append;

#[derive(Args)]
pub(crate) struct States {
    /// Folder that keeps calibrations and warm machines for later runs over the same jobs, up to 4 GiB,
    /// or none; the results are the same [default: ebbtide in the user's cache folder]
    #[arg(long, value_name = "DIR|none")]
    states: Option<PathBuf>,
}

/// The most that the folder holds.
const ROOM_BYTES: u64 = 4 << 30;

impl States {
    /// Lets the simulations of this process keep their states. Without a folder, or if this program cannot
    /// read its own file, nothing is kept.
    pub(crate) fn keep(&self) {
        let folder = match &self.states {
            Some(none) if none.as_os_str() == "none" => None,
            Some(folder) => Some(folder.clone()),
            None => user_folder(),
        };
        if let (Some(folder), Ok(checksum)) = (folder, program_checksum()) {
            ebbtide_sim::keep_in(folder, checksum, ROOM_BYTES);
        }
    }
}

/// As the XDG Base Directory Specification says.
fn user_folder() -> Option<PathBuf> {
    let given = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = given("XDG_CACHE_HOME").or_else(|| Some(given("HOME")?.join(".cache")))?;
    Some(caches.join("ebbtide"))
}

/// The checksum of this program's file, which tells builds of the same version apart.
///
/// # Errors
/// When the file cannot be read.
pub(crate) fn program_checksum() -> io::Result<u32> {
    static READ: OnceLock<u32> = OnceLock::new();
    match READ.get() {
        Some(sum) => Ok(*sum),
        None => read_checksum().map(|sum| *READ.get_or_init(|| sum)),
    }
}

fn read_checksum() -> io::Result<u32> {
    let (mut file, mut buffer, mut sum) =
        (File::open(std::env::current_exe()?)?, vec![0; 1 << 20], 0);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(sum),
            length => sum = crc32c_append(sum, &buffer[..length]),
        }
    }
}
