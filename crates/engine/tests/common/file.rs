//! A temporary file of pages, in the folder of the build's own temporary files.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;

use ebbtide_core::PAGE_BYTES;

/// A file of `pages` pages as `image` makes them, gone with its last descriptor. It bypasses the
/// page cache where its file system can.
pub fn page_file(pages: u64, image: impl Fn(usize, &mut [u8; PAGE_BYTES])) -> Arc<File> {
    // Examples have no such directory.
    let directory = option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, Into::into);
    let mut made = tempfile::NamedTempFile::new_in(directory).unwrap();
    let mut page = [0; PAGE_BYTES];
    for number in 0..pages as usize {
        image(number, &mut page);
        made.write_all(&page).unwrap();
    }
    made.flush().unwrap();
    let mut options = File::options();
    options.read(true).write(true);
    let direct = options.clone().custom_flags(libc::O_DIRECT).open(made.path());
    Arc::new(direct.or_else(|_| options.open(made.path())).unwrap())
}
