//! Block devices and mounted file systems for tests, out of files. They need root and util-linux; a
//! test that does not get one says so and has nothing to look at.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use parking_lot::Mutex;
use tempfile::TempDir;

/// Returns the output of a command, or the reason why it failed.
fn output(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// Returns `made`, or prints why the test runs without it.
fn or_said<T>(made: Result<T, String>, what: &str) -> Option<T> {
    made.inspect_err(|why| eprintln!("not tested without {what}: {why}")).ok()
}

/// A loop device over a file of its own. The kernel takes it back when it is dropped, or when the
/// process ends.
pub struct LoopDevice {
    path: PathBuf,
    _open: File,
    _folder: TempDir,
}

/// The kernel's description of a new loop device (`linux/loop.h`).
#[repr(C)]
struct LoopConfig {
    file: u32,
    block_bytes: u32,
    /// Device, inode, offset, size limit.
    places: [u64; 5],
    /// Number, encryption.
    numbers: [u32; 3],
    flags: u32,
    names: [u8; 64 + 64 + 32],
    reserved: [u64; 2 + 8],
}

const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4c82;
const LOOP_CONFIGURE: libc::c_ulong = 0x4c0a;
/// The device is free again once no process has it open.
const LO_FLAGS_AUTOCLEAR: u32 = 4;

/// Held while a number is looked for. Two threads may get the same free number. The slower one then
/// claims the device for a moment, and an exclusive open in that moment fails.
static LOOKING: Mutex<()> = Mutex::new(());

/// The most attempts to get a free number, because another program may be faster.
const ATTEMPTS: usize = 1000;

impl LoopDevice {
    /// A drive of `bytes` zeros in blocks of `block_bytes` bytes, if this machine has one.
    pub fn new(bytes: u64, block_bytes: u32) -> Option<LoopDevice> {
        or_said(LoopDevice::try_new(bytes, block_bytes), "a loop device")
    }

    fn try_new(bytes: u64, block_bytes: u32) -> Result<LoopDevice, String> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        let file = options.open(folder.path().join("bytes")).unwrap();
        file.set_len(bytes).unwrap();
        LoopDevice::over(&file, block_bytes, folder)
    }

    /// One over `file`, which lies in `folder`.
    fn over(file: &File, block_bytes: u32, folder: TempDir) -> Result<LoopDevice, String> {
        let _looking = LOOKING.lock();
        let said = |error: io::Error| error.to_string();
        let control = File::options().read(true).write(true).open("/dev/loop-control");
        let control = control.map_err(said)?;
        for _ in 0..ATTEMPTS {
            // SAFETY: this request takes and writes no memory.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
            if number < 0 {
                return Err(said(io::Error::last_os_error()));
            }
            let mut path = PathBuf::from(format!("/dev/loop{number}"));
            if !path.exists() {
                path = folder.path().join("drive");
                let _ = std::fs::remove_file(&path);
                make_node(&path, 7, number as u32).ok_or("no node")?;
            }
            let open = File::options().read(true).write(true).open(&path).map_err(said)?;
            let config = LoopConfig {
                file: file.as_raw_fd() as u32,
                block_bytes,
                places: [0; 5],
                numbers: [0; 3],
                flags: LO_FLAGS_AUTOCLEAR,
                names: [0; 160],
                reserved: [0; 10],
            };
            // SAFETY: `config` is what the kernel reads for this request, and outlives the call.
            let made = unsafe { libc::ioctl(open.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
            if made == 0 {
                return Ok(LoopDevice { path, _open: open, _folder: folder });
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EBUSY) {
                return Err(said(error));
            }
        }
        Err("other programs have been faster".into())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// An ext2 file system, which reserves no room and opens no drives. It is mounted where only a
/// child process sees it, which ends with this value or this process.
pub struct Ext2 {
    child: Child,
    input: Option<ChildStdin>,
    mounted: PathBuf,
    _drive: LoopDevice,
    _folder: TempDir,
}

impl Ext2 {
    /// One of `bytes` bytes, if it may be mounted.
    pub fn mounted(bytes: u64) -> Option<Ext2> {
        or_said(Ext2::try_mounted(bytes), "a file system of its own")
    }

    fn try_mounted(bytes: u64) -> Result<Ext2, String> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let (drive, at) = (LoopDevice::try_new(bytes, 512)?, folder.path().join("mounted"));
        std::fs::create_dir(&at).unwrap();
        output("mkfs.ext2", &["-q", "-F", "-b", "4096", drive.path().to_str().unwrap()])?;
        let script = "mount -t ext2 -o nodev \"$0\" \"$1\" && echo mounted && read end";
        let mut child = Command::new("unshare")
            .args(["--mount", "sh", "-c", script])
            .args([drive.path(), &at])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let input = child.stdin.take();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let root = PathBuf::from(format!("/proc/{}/root", child.id()));
        let mounted = root.join(at.strip_prefix("/").unwrap());
        let made = Ext2 { child, input, mounted, _drive: drive, _folder: folder };
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
