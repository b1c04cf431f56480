//! On a full disk changes are refused and reported, and reads go on. With room, changes are taken
//! again.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::channel;

use ebbtide_core::durability::Policy;
use ebbtide_server::ServeError;
use ebbtide_server::log::Log;
use rustix::fs::{FallocateFlags, OFlags, fallocate};

use super::client::{Reply, Server, bulk, ok};

const BLOCK_BYTES: usize = 4096;

/// A small file system mounted by a child process only. Dropping it unmounts it.
struct SmallDisk {
    child: Child,
    input: Option<ChildStdin>,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl SmallDisk {
    /// Mounts one of `bytes` bytes; `None` if this process may not.
    fn mounted(bytes: u64) -> Option<SmallDisk> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let at = folder.path().join("mounted");
        fs::create_dir(&at).expect("a folder");
        let script = "mount -t tmpfs -o size=$1 small \"$0\" && echo mounted && read end";
        let mut child = Command::new("unshare")
            .args(["--mount", "sh", "-c", script])
            .arg(&at)
            .arg(bytes.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut said = String::new();
        BufReader::new(output?).read_line(&mut said).expect("a pipe");
        let root = PathBuf::from(format!("/proc/{}/root", child.id()));
        let path = root.join(at.strip_prefix("/").expect("an absolute path"));
        let disk = SmallDisk { child, input, path, _folder: folder };
        if said != "mounted\n" {
            eprintln!("not tested without the right to mount a file system");
            return None;
        }
        let direct = OFlags::DIRECT.bits() as i32;
        let mut probe = File::options();
        probe.write(true).create(true).custom_flags(direct);
        if probe.open(disk.path.join("probe")).is_err() {
            eprintln!("not tested: this kernel's tmpfs has no direct I/O");
            return None;
        }
        Some(disk)
    }

    /// Takes all room that is left.
    fn fill(&self) {
        let mut ballast = File::create(self.path.join("ballast")).expect("a file");
        let full = loop {
            if let Err(error) = ballast.write_all(&[1; BLOCK_BYTES]) {
                break error;
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    }

    /// Frees the room that [`fill`](SmallDisk::fill) has taken.
    fn free(&self) {
        fs::remove_file(self.path.join("ballast")).expect("it is there");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.input.take());
        // The child may have ended already.
        let _ = self.child.wait();
    }
}

/// Frees all blocks of zeros, so that the file needs more room than the disk has set aside.
fn thin(path: &Path) {
    let mut file = File::options().read(true).write(true).open(path).expect("the store");
    let mut block = [0; BLOCK_BYTES];
    let mut at = 0;
    while file.read_exact(&mut block).is_ok() {
        if block == [0; BLOCK_BYTES] {
            let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            fallocate(&file, how, at, BLOCK_BYTES as u64).expect("a hole");
        }
        at += BLOCK_BYTES as u64;
    }
}

/// Sets a key until it is refused because the disk is full.
fn set_until_refused(server: &Server) {
    loop {
        match server.client().call("set b 1") {
            Reply::Error(text) => return assert_no_space(&text),
            reply => assert_eq!(reply, ok()),
        }
    }
}

fn assert_no_space(text: &str) {
    assert!(text.starts_with("MISCONF the log cannot be written"), "{text}");
    assert!(text.contains("No space left on device"), "{text}");
}

fn persistence(server: &Server) -> String {
    let Reply::Bulk(text) = server.client().call("info persistence") else { panic!("text") };
    String::from_utf8(text).expect("text")
}

#[test]
fn a_full_disk_refuses_changes_and_tells_and_takes_them_again_when_there_is_room() {
    let Some(disk) = SmallDisk::mounted(64 << 20) else { return };
    let (tell, told) = channel();
    let start = || {
        let (data, tell) = (disk.path.join("store"), tell.clone());
        Server::start(|options| {
            options.data = data;
            options.capacity_bytes = Some(8 << 20);
            options.durability = Policy::Every(ebbtide_core::Span::from_us(1_000_000));
            options.log = Log::to(move |event| drop(tell.send(event)));
        })
    };
    start().end().expect("a new store");
    thin(&disk.path.join("store"));
    let server = start();
    let mut client = server.client();
    let names = ["a:0", "a:1", "a:2", "a:3"];
    names.iter().for_each(|name| assert_eq!(client.call(&format!("set {name} 1")), ok()));
    assert_eq!(client.call("save"), ok());
    let before = persistence(&server);
    assert!(
        before.contains("writes_refused:0") && !before.contains("last_write_error"),
        "{before}"
    );

    disk.fill();
    set_until_refused(&server);
    let event = told.recv().expect("an event");
    assert_eq!(event.name, "unsaved");
    assert!(event.text.starts_with("changes are refused, reads of saved"), "{}", event.text);
    assert!(event.text.contains("No space left on device"), "{}", event.text);
    let info = persistence(&server);
    for field in
        ["writes_refused:1\r\n", "aof_last_write_status:err\r\n", "last_write_error:the log"]
    {
        assert!(info.contains(field), "{field} in {info}");
    }
    // A key that shares a stripe with the lost change, one in 256, cannot be read.
    let is_read = |name: &&str| server.client().call(&format!("get {name}")) == bulk("1");
    let name = names.into_iter().find(is_read).expect("reads go on");
    let Reply::Error(text) = server.client().call("get b") else { panic!("its change is lost") };
    assert_no_space(&text);
    for line in ["dbsize", "keys *", "scan 0", "randomkey", "exists KEY", "ttl KEY"] {
        let line = line.replace("KEY", name);
        assert!(!matches!(client.call(&line), Reply::Error(_)), "{line}");
    }

    disk.free();
    while !matches!(client.call("set c 1"), Reply::Status(_)) {}
    assert_eq!(client.call("save"), ok());
    let event = told.recv().expect("an event");
    assert_eq!(event.text, "changes are taken and saved again");
    let info = persistence(&server);
    assert!(info.contains("writes_refused:0") && info.contains("write_status:ok"), "{info}");

    disk.fill();
    set_until_refused(&server);
    let error = server.end().expect_err("the last change is not saved");
    assert!(matches!(error, ServeError::Unsaved(_)) && !error.is_input(), "{error}");
    disk.free();
    let again = start();
    assert_eq!(again.client().call("get c"), bulk("1"));
}

/// A change of many pages on a full disk leaves frames for reads.
#[test]
fn changes_on_a_full_disk_leave_frames_to_reads_of_keys_that_are_not_in_dram() {
    const KEYS: u32 = 3_000;
    // More pages than DRAM has. With the keys, they do not fill the log once.
    const BIG_BYTES: usize = 4 << 20;
    let Some(disk) = SmallDisk::mounted(128 << 20) else { return };
    let start = || {
        let data = disk.path.join("store");
        Server::start(|options| {
            options.data = data;
            (options.capacity_bytes, options.dram_bytes) = (Some(32 << 20), 8 << 20);
            options.durability = Policy::Every(ebbtide_core::Span::from_us(1_000_000));
        })
    };
    let value = [b'v'; 1_500];
    let server = start();
    let mut client = server.client();
    for key in 0..KEYS {
        assert_eq!(client.command(&[b"set", &key.to_le_bytes(), &value]), ok());
    }
    assert_eq!(client.command(&[b"set", b"big", &vec![b'b'; BIG_BYTES]]), ok());
    server.end().expect("all is saved");
    thin(&disk.path.join("store"));
    let server = start();
    disk.fill();
    let part = [b'c'; 30_000];
    let refused = (0..BIG_BYTES - part.len()).step_by(part.len()).cycle().find_map(|offset| {
        let offset = offset.to_string();
        match server.client().command(&[b"setrange", b"big", offset.as_bytes(), &part]) {
            Reply::Error(text) => Some(text),
            _ => None,
        }
    });
    let refused = refused.expect("the disk is full");
    assert!(refused.starts_with("MISCONF "), "{refused}");
    let mut unsaved = 0;
    for key in 0..KEYS {
        match server.client().command(&[b"get", &key.to_le_bytes()]) {
            Reply::Error(text) => {
                assert_no_space(&text);
                unsaved += 1;
            }
            reply => assert_eq!(reply, Reply::Bulk(value.to_vec())),
        }
    }
    // Some keys share their stripe with the lost change.
    assert!(unsaved <= KEYS / 10, "{unsaved} of {KEYS} keys cannot be read");
    disk.free();
    while !matches!(server.client().call("set c 1"), Reply::Status(_)) {}
    server.end().expect("all is saved");
}
