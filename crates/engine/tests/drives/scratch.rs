//! Block devices and mounted file systems for tests, out of files. They need root and util-linux; a test
//! that does not get one says so and has nothing to look at.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use tempfile::TempDir;

/// What a command prints, or why it cannot do its work.
fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// `made`, or a line that says what the test goes without.
fn or_said<T>(made: Result<T, String>, what: &str) -> Option<T> {
    made.inspect_err(|why| eprintln!("not tested without {what}: {why}")).ok()
}

/// A loop device over a file of its own. The kernel takes it back when it is dropped, or when the
/// process ends.
pub struct LoopDevice {
    path: PathBuf,
    _open: File,
    _file: tempfile::NamedTempFile,
}

impl LoopDevice {
    /// A drive of `bytes` zeros in blocks of `block_bytes` bytes, if this machine has one.
    pub fn new(bytes: u64, block_bytes: u32) -> Option<LoopDevice> {
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        file.as_file().set_len(bytes).unwrap();
        let sector = block_bytes.to_string();
        let name = file.path().to_str().unwrap();
        let attached = output("losetup", &["--find", "--show", "--sector-size", &sector, name]);
        let path = PathBuf::from(or_said(attached, "a loop device")?);
        let open = File::open(&path);
        // It is detached once nobody has it open.
        output("losetup", &["--detach", path.to_str().unwrap()]).unwrap();
        Some(LoopDevice { path, _open: open.unwrap(), _file: file })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// An ext2 file system, which reserves no room and opens no drives. It is mounted where only a child
/// process sees it, which ends with this value or this process.
pub struct Ext2 {
    child: Child,
    input: Option<ChildStdin>,
    mounted: PathBuf,
    _folder: TempDir,
}

impl Ext2 {
    /// One of `bytes` bytes, if it may be mounted.
    pub fn mounted(bytes: u64) -> Option<Ext2> {
        or_said(Ext2::try_mounted(bytes), "a file system of its own")
    }

    fn try_mounted(bytes: u64) -> Result<Ext2, String> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (image, at) = (folder.path().join("image"), folder.path().join("mounted"));
        File::create(&image).and_then(|file| file.set_len(bytes)).unwrap();
        std::fs::create_dir(&at).unwrap();
        output("mkfs.ext2", &["-q", "-F", "-b", "4096", image.to_str().unwrap()])?;
        let script = "mount -t ext2 -o loop,nodev \"$0\" \"$1\" && echo mounted && read end";
        let mut child = Command::new("unshare")
            .args(["--mount", "sh", "-c", script])
            .args([&image, &at])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let input = child.stdin.take();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let root = PathBuf::from(format!("/proc/{}/root", child.id()));
        let mounted = root.join(at.strip_prefix("/").unwrap());
        let made = Ext2 { child, input, mounted, _folder: folder };
        if said == "mounted\n" { Ok(made) } else { Err("it is not mounted".into()) }
    }

    pub fn path(&self) -> &Path {
        &self.mounted
    }
}

impl Drop for Ext2 {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

/// Makes the node of a block device at `path`, if that is permitted.
pub fn make_node(path: &Path, major: u32, minor: u32) -> Option<()> {
    let (major, minor) = (major.to_string(), minor.to_string());
    let made = output("mknod", &[path.to_str().unwrap(), "b", &major, &minor]);
    or_said(made.map(|_| ()), "the node of a device")
}
