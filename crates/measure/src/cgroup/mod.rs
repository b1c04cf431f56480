//! [`MemoryCgroup`]: a control group that limits the memory of the processes in it, page cache and
//! kernel memory included. It is how OS paging is given the same DRAM as the other memories.
//!
//! Both kinds of hierarchy are supported. On v1 the group is a child of this process's own group.
//! On v2 only a group without processes may pass the memory controller to children. So the group is
//! made under the nearest ancestor that may. Some have no such ancestor, for example a delegated
//! systemd scope or a container. There, every process of this process's group first moves to a leaf
//! next to the new group. At the end it moves back.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use thiserror::Error;

/// Prefix of the names of Ebbtide's groups: `ebbtide-<pid of the creator>-<number>`.
const NAME_PREFIX: &str = "ebbtide-";
/// The last part of the name of the leaf that v2 may need; see [`MemoryCgroup::create`].
const LEAF_SUFFIX: &str = "rest";
/// A group stays busy for a moment after its last process has ended. Number of checks, and the time
/// between them.
const REMOVE_TRIES: u32 = 100;
const REMOVE_PAUSE: Duration = Duration::from_millis(2);

/// Number of groups that this process has created.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);
/// Lock for creating and removing groups, which take several steps each.
static STEPS: Mutex<()> = Mutex::new(());
/// The group of this process before it made its first group. Members return to it.
static HOME: OnceLock<PathBuf> = OnceLock::new();

/// Why a memory-limited control group could not be made or used.
#[derive(Debug, Error)]
pub enum CgroupError {
    /// The kernel offers no memory controller here.
    #[error(
        "no memory cgroup here: {reason}; boot with the memory controller enabled \
         (cgroup_enable=memory) and mount cgroup2 at /sys/fs/cgroup"
    )]
    NoController {
        /// What is missing.
        reason: String,
    },
    /// The memory controller is here, but this process may not make a group under it.
    #[error("not permitted to make a memory cgroup in {}: {reason}; {}", parent.display(), remedy(*version))]
    NotPermitted {
        /// The group under which a new one was refused.
        parent: PathBuf,
        /// Which kind of hierarchy it is.
        version: CgroupVersion,
        /// The kernel's error.
        reason: String,
    },
    /// A control file could not be read or written.
    #[error("cgroup: cannot {action} {}: {source}", path.display())]
    Io {
        /// "read", "write 123 to", …
        action: String,
        /// The file or folder.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// A control file holds something other than expected.
    #[error("cgroup: {} holds '{found}', expected a number of bytes", path.display())]
    Unexpected {
        /// The file.
        path: PathBuf,
        /// Its contents.
        found: String,
    },
}

impl CgroupError {
    /// Returns true if the cause is the machine or the user's rights, not a failure of an existing
    /// group.
    pub fn is_refusal(&self) -> bool {
        matches!(self, CgroupError::NoController { .. } | CgroupError::NotPermitted { .. })
    }
}

fn remedy(version: CgroupVersion) -> &'static str {
    match version {
        CgroupVersion::V1 => {
            "run as root; in a container, mount /sys/fs/cgroup writable (docker run --privileged)"
        }
        CgroupVersion::V2 => {
            "run as root, or start with `systemd-run --user -p Delegate=yes --scope <command>`; \
             in a container, mount /sys/fs/cgroup writable (docker run --privileged)"
        }
    }
}

/// The two kinds of control group hierarchy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CgroupVersion {
    /// One hierarchy per controller (`memory.limit_in_bytes`).
    V1,
    /// The unified hierarchy (`memory.max`).
    V2,
}

/// The place of this process in the hierarchy that can limit memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Standing {
    /// Which kind of hierarchy it is.
    pub version: CgroupVersion,
    /// Where the hierarchy is mounted.
    pub mount: PathBuf,
    /// The folder of this process's own group, below `mount` or equal to it.
    pub own: PathBuf,
}

impl Standing {
    /// Finds the hierarchy in the texts of `/proc/self/mountinfo` and `/proc/self/cgroup`. A v1
    /// memory hierarchy is preferred: where one exists, v2 lacks the memory controller.
    ///
    /// # Errors
    /// [`CgroupError::NoController`] when neither kind is mounted and joined.
    pub fn from_texts(mountinfo: &str, cgroup: &str) -> Result<Standing, CgroupError> {
        let mounts: Vec<Mount> = mountinfo.lines().filter_map(Mount::parse).collect();
        let v1 = mounts.iter().find(|m| m.kind == "cgroup" && m.has_option("memory"));
        if let (Some(mount), Some(path)) = (v1, own_path(cgroup, Some("memory"))) {
            return Ok(Standing::new(CgroupVersion::V1, mount, path));
        }
        let v2 = mounts.iter().find(|m| m.kind == "cgroup2");
        match (v2, own_path(cgroup, None)) {
            (Some(mount), Some(path)) => Ok(Standing::new(CgroupVersion::V2, mount, path)),
            (None, _) => Err(CgroupError::NoController {
                reason: "no cgroup file system with it is mounted".to_string(),
            }),
            (Some(_), None) => Err(CgroupError::NoController {
                reason: "/proc/self/cgroup names no group of this process".to_string(),
            }),
        }
    }

    fn of_this_process() -> Result<Standing, CgroupError> {
        let mountinfo = read(Path::new("/proc/self/mountinfo"))?;
        let cgroup = read(Path::new("/proc/self/cgroup"))?;
        Standing::from_texts(&mountinfo, &cgroup)
    }

    fn new(version: CgroupVersion, mount: &Mount, path: &str) -> Standing {
        // Inside a container the mount shows only a part of the hierarchy, `mount.root`. A path
        // outside of that part cannot be seen from here; the top of what is seen stands in for it.
        let below = Path::new(path).strip_prefix(&mount.root).unwrap_or(Path::new(""));
        let escapes = below.components().any(|part| part.as_os_str() == "..");
        let own = if escapes || below.as_os_str().is_empty() {
            mount.point.clone()
        } else {
            mount.point.join(below)
        };
        Standing { version, mount: mount.point.clone(), own }
    }

    /// Returns the folders of the groups under which a new group can be made, best first. These are
    /// this process's group and its ancestors. Ebbtide's own groups are left out, so that limits do
    /// not nest.
    pub fn candidates(&self) -> Vec<PathBuf> {
        let ours = |path: &Path| creator_of(path).is_some();
        let mut found = Vec::new();
        let mut next = Some(self.own.as_path());
        while let Some(path) = next.filter(|path| path.starts_with(&self.mount)) {
            if !path.strip_prefix(&self.mount).unwrap_or(path).ancestors().any(ours) {
                found.push(path.to_path_buf());
            }
            next = path.parent();
        }
        found
    }
}

/// The parts of a line of `/proc/self/mountinfo` that are used here.
struct Mount {
    root: PathBuf,
    point: PathBuf,
    kind: String,
    options: String,
}

impl Mount {
    fn parse(line: &str) -> Option<Mount> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let root = unescape(before.next()?);
        let point = unescape(before.next()?);
        let mut after = after.split(' ');
        let kind = after.next()?.to_string();
        let options = after.nth(1).unwrap_or("").to_string();
        Some(Mount { root: root.into(), point: point.into(), kind, options })
    }

    fn has_option(&self, name: &str) -> bool {
        self.options.split(',').any(|option| option == name)
    }
}

/// Mount tables write space, tab, newline and backslash as `\` and three octal digits.
fn unescape(field: &str) -> String {
    [(r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")]
        .iter()
        .fold(field.to_string(), |text, (code, plain)| text.replace(code, plain))
}

/// Returns the path of this process's group in the v1 hierarchy of `controller`, or in v2 for
/// `None`. `cgroup` is the text of `/proc/self/cgroup`: lines of `number:controllers:path`.
fn own_path<'a>(cgroup: &'a str, controller: Option<&str>) -> Option<&'a str> {
    cgroup.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (number, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let wanted = match controller {
            Some(name) => controllers.split(',').any(|c| c == name),
            None => number == "0" && controllers.is_empty(),
        };
        wanted.then(|| path.strip_suffix(" (deleted)").unwrap_or(path))
    })
}

/// Returns the pid in the name of one of Ebbtide's groups; `None` for any other group.
fn creator_of(group: &Path) -> Option<u32> {
    let name = group.file_name()?.to_str()?.strip_prefix(NAME_PREFIX)?;
    let (pid, number) = name.split_once('-')?;
    let known = number == LEAF_SUFFIX || number.parse::<u64>().is_ok();
    pid.parse().ok().filter(|_| known)
}

/// A control group with a memory limit. Removed when dropped; its members are first moved back.
///
/// The limit counts everything: anonymous memory, page cache, page tables and the kernel's own
/// objects. Nothing in it is swapped out. A page of a file that another group read before is
/// charged to that group and costs nothing here: drop the file's cached pages first.
///
/// If the creator is killed the group stays behind, and the next creation removes it.
#[derive(Debug)]
pub struct MemoryCgroup {
    path: PathBuf,
    parent: PathBuf,
    version: CgroupVersion,
    /// A forked child holds a copy of this value; only its creator removes the group.
    creator: u32,
}

impl MemoryCgroup {
    /// Makes a group whose processes together can use `limit_bytes` of memory.
    ///
    /// # Errors
    /// [`CgroupError::NoController`] or [`CgroupError::NotPermitted`], with advice.
    /// [`CgroupError::Io`] when the group was made but accepted no limit. Nothing is left behind.
    pub fn create(limit_bytes: u64) -> Result<MemoryCgroup, CgroupError> {
        let group = MemoryCgroup::make(&Standing::of_this_process()?)?;
        group.set_limit(limit_bytes)?;
        Ok(group)
    }

    /// Makes a group that counts what its processes use and does not limit it.
    ///
    /// # Errors
    /// As [`MemoryCgroup::create`].
    pub fn unlimited() -> Result<MemoryCgroup, CgroupError> {
        let group = MemoryCgroup::make(&Standing::of_this_process()?)?;
        group.forbid_swap()?;
        Ok(group)
    }

    /// A group without a limit yet.
    fn make(standing: &Standing) -> Result<MemoryCgroup, CgroupError> {
        let _one_at_a_time = steps();
        HOME.get_or_init(|| standing.own.clone());
        match standing.version {
            CgroupVersion::V1 => make_v1(standing),
            CgroupVersion::V2 => make_v2(standing),
        }
    }

    /// Moves the process `pid` into the group, with all its threads. Memory that it allocated
    /// before stays charged to the old group, so join first and allocate afterwards.
    ///
    /// # Errors
    /// [`CgroupError::Io`] when the process is gone or belongs to someone else.
    pub fn join(&self, pid: u32) -> Result<(), CgroupError> {
        move_process(pid, &self.path)
    }

    /// Bytes charged to the group now.
    ///
    /// # Errors
    /// [`CgroupError::Io`] or [`CgroupError::Unexpected`].
    pub fn usage_bytes(&self) -> Result<u64, CgroupError> {
        self.read_bytes(match self.version {
            CgroupVersion::V1 => "memory.usage_in_bytes",
            CgroupVersion::V2 => "memory.current",
        })
    }

    /// Returns the most bytes charged to the group since it was made or, with v1, since
    /// [`reset_peak`](MemoryCgroup::reset_peak). `None` if the kernel does not count them (v2
    /// before 5.19).
    pub fn peak_bytes(&self) -> Option<u64> {
        self.read_bytes(match self.version {
            CgroupVersion::V1 => "memory.max_usage_in_bytes",
            CgroupVersion::V2 => "memory.peak",
        })
        .ok()
    }

    /// Resets [`peak_bytes`](MemoryCgroup::peak_bytes) to the current usage, with v1. With v2 the
    /// peak stays: kernels before 6.12 refuse, and later ones reset it only for the file descriptor
    /// that wrote.
    pub fn reset_peak(&self) {
        let file = match self.version {
            CgroupVersion::V1 => "memory.max_usage_in_bytes",
            CgroupVersion::V2 => "memory.peak",
        };
        // An older kernel refuses: the peak is then that of the whole life.
        let _ = write(&self.path.join(file), "0");
    }

    /// Returns the part of [`usage_bytes`](MemoryCgroup::usage_bytes) that is the kernel's own:
    /// page tables, stacks and caches of objects. `None` if the kernel does not count it.
    pub fn kernel_bytes(&self) -> Option<u64> {
        match self.version {
            CgroupVersion::V1 => self.read_bytes("memory.kmem.usage_in_bytes").ok(),
            CgroupVersion::V2 => {
                let stat = read(&self.path.join("memory.stat")).ok()?;
                stat.lines().find_map(|line| line.strip_prefix("kernel ")?.trim().parse().ok())
            }
        }
    }

    /// Returns the part of [`usage_bytes`](MemoryCgroup::usage_bytes) that is cached pages of
    /// files. `None` if the kernel does not report it.
    pub fn file_bytes(&self) -> Option<u64> {
        let field = match self.version {
            CgroupVersion::V1 => "cache ",
            CgroupVersion::V2 => "file ",
        };
        let stat = read(&self.path.join("memory.stat")).ok()?;
        stat.lines().find_map(|line| line.strip_prefix(field)?.trim().parse().ok())
    }

    /// Returns the limit in bytes that the kernel accepted, in whole pages.
    ///
    /// # Errors
    /// [`CgroupError::Io`] or [`CgroupError::Unexpected`].
    pub fn limit_bytes(&self) -> Result<u64, CgroupError> {
        self.read_bytes(self.limit_file())
    }

    /// The folder of the group.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which kind of hierarchy the group is in.
    pub fn version(&self) -> CgroupVersion {
        self.version
    }

    fn limit_file(&self) -> &'static str {
        match self.version {
            CgroupVersion::V1 => "memory.limit_in_bytes",
            CgroupVersion::V2 => "memory.max",
        }
    }

    fn set_limit(&self, limit_bytes: u64) -> Result<(), CgroupError> {
        write(&self.path.join(self.limit_file()), &limit_bytes.to_string())?;
        self.forbid_swap()
    }

    fn forbid_swap(&self) -> Result<(), CgroupError> {
        let (file, value) = match self.version {
            CgroupVersion::V1 => ("memory.swappiness", "0"),
            CgroupVersion::V2 => ("memory.swap.max", "0"),
        };
        let path = self.path.join(file);
        // A kernel without swap has no such file, and nothing to forbid.
        if path.exists() { write(&path, value) } else { Ok(()) }
    }

    fn read_bytes(&self, file: &str) -> Result<u64, CgroupError> {
        let path = self.path.join(file);
        let text = read(&path)?;
        let found = text.trim();
        found.parse().map_err(|_| CgroupError::Unexpected { path, found: found.to_string() })
    }

    /// Frees the group's cached pages of files. Otherwise they outlive the group, and a later group
    /// reads the same file without being charged.
    pub fn forget_cached_pages(&self) {
        let request = match self.version {
            CgroupVersion::V1 => ("memory.force_empty", "0".to_string()),
            CgroupVersion::V2 => {
                ("memory.reclaim", self.usage_bytes().unwrap_or_default().to_string())
            }
        };
        // Refused when nothing more can be reclaimed, which is what was asked for.
        let _ = write(&self.path.join(request.0), &request.1);
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        if process::id() != self.creator {
            return;
        }
        let _one_at_a_time = steps();
        // Nothing can be reported from here; what cannot be removed is left to the next creation.
        let home = HOME.get().map(PathBuf::as_path);
        let refuges = [Some(leaf_of(&self.parent)), home.map(Path::to_path_buf)];
        for refuge in refuges.into_iter().flatten().chain([self.parent.clone()]) {
            if refuge != self.path && move_all(&self.path, &refuge).is_ok() {
                break;
            }
        }
        self.forget_cached_pages();
        let _ = remove(&self.path, REMOVE_TRIES);
        if self.version == CgroupVersion::V2 {
            clear_leaf(&self.parent);
        }
    }
}

fn steps() -> MutexGuard<'static, ()> {
    STEPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the v2 leaf for the processes of `parent`, so that `parent` may pass on the memory
/// controller.
fn leaf_of(parent: &Path) -> PathBuf {
    parent.join(format!("{NAME_PREFIX}{}-{LEAF_SUFFIX}", process::id()))
}

/// Moves the processes of `parent` to a leaf below it and enables the memory controller for others.
fn make_leaf(parent: &Path) -> Result<(), CgroupError> {
    let leaf = leaf_of(parent);
    make_folder(&leaf)?;
    move_all(parent, &leaf).and_then(|()| enable_memory(parent))
}

/// Undoes [`make_leaf`], unless another group of ours still exists next to the leaf.
fn clear_leaf(parent: &Path) {
    let leaf = leaf_of(parent);
    if leaf.exists() && groups_of_ours(parent).all(|group| group == leaf) {
        let _ = write(&parent.join("cgroup.subtree_control"), "-memory");
        let _ = move_all(&leaf, parent);
        let _ = remove(&leaf, REMOVE_TRIES);
    }
}

fn make_v1(standing: &Standing) -> Result<MemoryCgroup, CgroupError> {
    let mut refusal = None;
    for parent in standing.candidates() {
        remove_stale(&parent);
        match make_group(&parent, CgroupVersion::V1) {
            Ok(group) => return Ok(group),
            Err(error) => refusal.get_or_insert((parent, error)),
        };
    }
    Err(not_permitted(standing, refusal))
}

fn make_v2(standing: &Standing) -> Result<MemoryCgroup, CgroupError> {
    let candidates = standing.candidates();
    let offers = |parent: &PathBuf| lists_memory(&parent.join("cgroup.controllers"));
    if !offers(&standing.mount) && !candidates.iter().any(offers) {
        return Err(CgroupError::NoController {
            reason: format!(
                "{} does not list it",
                standing.mount.join("cgroup.controllers").display()
            ),
        });
    }
    let mut refusal = None;
    // Least change first: where children already have the controller, then where it can simply be
    // enabled, and only then by moving the processes that stand in the way.
    let hands_on = |parent: &PathBuf| lists_memory(&parent.join("cgroup.subtree_control"));
    for parent in candidates.iter().filter(|parent| hands_on(parent)) {
        remove_stale(parent);
        match may_join_below(parent).and_then(|()| make_group(parent, CgroupVersion::V2)) {
            Ok(group) => return Ok(group),
            Err(error) => refusal.get_or_insert((parent.clone(), error)),
        };
    }
    for parent in candidates.iter().filter(|parent| offers(parent) && !hands_on(parent)) {
        let made = may_join_below(parent)
            .and_then(|()| enable_memory(parent))
            .and_then(|()| make_group(parent, CgroupVersion::V2));
        match made {
            Ok(group) => return Ok(group),
            Err(error) => refusal.get_or_insert((parent.clone(), error)),
        };
    }
    if let Some(parent) = candidates.first().filter(|parent| offers(parent)) {
        match make_leaf(parent).and_then(|()| make_group(parent, CgroupVersion::V2)) {
            Ok(group) => return Ok(group),
            Err(error) => {
                clear_leaf(parent);
                refusal.get_or_insert((parent.clone(), error));
            }
        }
    }
    Err(not_permitted(standing, refusal))
}

fn not_permitted(standing: &Standing, refusal: Option<(PathBuf, CgroupError)>) -> CgroupError {
    let (parent, reason) = match refusal {
        Some((parent, CgroupError::Io { action, path, source })) => {
            (parent, format!("cannot {action} {}: {source}", path.display()))
        }
        Some((parent, other)) => (parent, other.to_string()),
        None => (standing.own.clone(), "no group above this process can be used".to_string()),
    };
    CgroupError::NotPermitted { parent, version: standing.version, reason }
}

fn make_group(parent: &Path, version: CgroupVersion) -> Result<MemoryCgroup, CgroupError> {
    let creator = process::id();
    let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = parent.join(format!("{NAME_PREFIX}{creator}-{number}"));
    make_folder(&path)?;
    Ok(MemoryCgroup { path, parent: parent.to_path_buf(), version, creator })
}

/// Checks the right to move a process between groups: it needs write access to their common
/// ancestor.
fn may_join_below(parent: &Path) -> Result<(), CgroupError> {
    let path = parent.join("cgroup.procs");
    match fs::OpenOptions::new().write(true).open(&path) {
        Ok(_) => Ok(()),
        Err(source) => Err(CgroupError::Io { action: "write to".to_string(), path, source }),
    }
}

fn enable_memory(group: &Path) -> Result<(), CgroupError> {
    write(&group.join("cgroup.subtree_control"), "+memory")
}

fn lists_memory(file: &Path) -> bool {
    fs::read_to_string(file).is_ok_and(|text| text.split_whitespace().any(|name| name == "memory"))
}

fn groups_of_ours(parent: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| creator_of(path).is_some())
}

/// Removes groups whose creator is gone. A group with processes is in use, perhaps by a creator in
/// another pid namespace. It stays, because the kernel refuses to remove it.
fn remove_stale(parent: &Path) {
    for group in groups_of_ours(parent) {
        let creator = creator_of(&group).unwrap_or_default();
        if !Path::new(&format!("/proc/{creator}")).exists() {
            let _ = remove(&group, 1);
        }
    }
}

fn move_all(from: &Path, to: &Path) -> Result<(), CgroupError> {
    // Processes may fork while they are being moved: look again until none is left.
    for _ in 0..REMOVE_TRIES {
        let members = read(&from.join("cgroup.procs"))?;
        // A process of another pid namespace shows as 0 and cannot be moved from here.
        let members: Vec<u32> =
            members.lines().filter_map(|pid| pid.parse().ok()).filter(|&pid| pid != 0).collect();
        if members.is_empty() {
            return Ok(());
        }
        for pid in members {
            match move_process(pid, to) {
                // It ended in between.
                Err(CgroupError::Io { source, .. }) if source.raw_os_error() == Some(ESRCH) => {}
                other => other?,
            }
        }
    }
    Ok(())
}

/// "No such process"; the same number on every Linux.
const ESRCH: i32 = 3;

fn move_process(pid: u32, to: &Path) -> Result<(), CgroupError> {
    write(&to.join("cgroup.procs"), &pid.to_string())
}

fn remove(group: &Path, tries: u32) -> Result<(), CgroupError> {
    let mut outcome = fs::remove_dir(group);
    for _ in 1..tries {
        match &outcome {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {}
            _ => break,
        }
        thread::sleep(REMOVE_PAUSE);
        outcome = fs::remove_dir(group);
    }
    outcome.map_err(|source| io_error("remove", group, source))
}

fn make_folder(path: &Path) -> Result<(), CgroupError> {
    fs::create_dir(path).map_err(|source| io_error("make", path, source))
}

fn read(path: &Path) -> Result<String, CgroupError> {
    fs::read_to_string(path).map_err(|source| io_error("read", path, source))
}

/// One write call, as control files need; never creates a file.
fn write(path: &Path, value: &str) -> Result<(), CgroupError> {
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()))
        .map_err(|source| io_error(&format!("write {value} to"), path, source))
}

fn io_error(action: &str, path: &Path, source: io::Error) -> CgroupError {
    CgroupError::Io { action: action.to_string(), path: path.to_path_buf(), source }
}

#[cfg(test)]
mod tests;
