//! Memory cgroups: where they are made, that they limit, and that they are removed.

use std::process::{Child, Command, Stdio};

use super::*;

const V2_HOST: &str = "\
25 30 0:23 / /proc rw,nosuid - proc proc rw
31 24 0:27 / /sys/fs/cgroup rw,nosuid,nodev shared:4 - cgroup2 cgroup2 rw,nsdelegate
";
const V1_HOST: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
";
const HYBRID_UNIFIED: &str =
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

fn standing(mountinfo: &str, cgroup: &str) -> Standing {
    Standing::from_texts(mountinfo, cgroup).expect("a hierarchy")
}

#[test]
fn on_v2_the_group_of_a_systemd_session_is_found() {
    let found = standing(V2_HOST, "0::/user.slice/user-1000.slice/session-2.scope\n");
    assert_eq!(found.version, CgroupVersion::V2);
    assert_eq!(found.mount, Path::new("/sys/fs/cgroup"));
    assert_eq!(found.own, Path::new("/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope"));
    assert_eq!(found.candidates().len(), 4);
    assert_eq!(found.candidates()[3], Path::new("/sys/fs/cgroup"));
}

#[test]
fn on_v1_the_memory_hierarchy_counts_and_no_other() {
    let found = standing(V1_HOST, "4:memory:/batch/job7\n2:cpu,cpuacct:/elsewhere\n");
    assert_eq!(found.version, CgroupVersion::V1);
    assert_eq!(found.own, Path::new("/sys/fs/cgroup/memory/batch/job7"));
}

#[test]
fn a_hybrid_machine_keeps_memory_on_v1() {
    let mounts = format!("{HYBRID_UNIFIED}{V1_HOST}");
    let found = standing(&mounts, "4:memory:/a\n0::/b\n");
    assert_eq!(found.version, CgroupVersion::V1);
    assert_eq!(found.own, Path::new("/sys/fs/cgroup/memory/a"));
}

#[test]
fn a_hybrid_machine_without_v1_memory_uses_the_unified_hierarchy() {
    let mounts = format!(
        "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n{HYBRID_UNIFIED}"
    );
    let found = standing(&mounts, "1:cpu:/\n0::/b\n");
    assert_eq!(found.version, CgroupVersion::V2);
    assert_eq!(found.own, Path::new("/sys/fs/cgroup/unified/b"));
}

#[test]
fn a_v1_container_sees_its_own_part_at_the_mount_point() {
    let mounts = "\
700 690 0:32 /docker/0123abcd /sys/fs/cgroup/memory ro,nosuid master:9 - cgroup cgroup rw,memory\n";
    let found = standing(mounts, "4:memory:/docker/0123abcd\n");
    assert_eq!(found.own, Path::new("/sys/fs/cgroup/memory"));
    let deeper = standing(mounts, "4:memory:/docker/0123abcd/worker\n");
    assert_eq!(deeper.own, Path::new("/sys/fs/cgroup/memory/worker"));
}

#[test]
fn a_v2_container_in_its_own_namespace_stands_at_the_root() {
    let mounts = "700 690 0:27 / /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw,nsdelegate\n";
    assert_eq!(standing(mounts, "0::/\n").own, Path::new("/sys/fs/cgroup"));
}

#[test]
fn a_group_outside_of_the_visible_part_is_stood_in_for_by_its_top() {
    let mounts = "700 690 0:27 /../.. /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
    assert_eq!(standing(mounts, "0::/../other\n").own, Path::new("/sys/fs/cgroup"));
    let mounts = "700 690 0:27 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
    assert_eq!(standing(mounts, "0::/../other\n").own, Path::new("/sys/fs/cgroup"));
}

#[test]
fn escaped_mount_points_and_deleted_groups_are_read_as_meant() {
    let mounts = r"31 24 0:27 / /mnt/my\040cgroups rw - cgroup2 cgroup2 rw";
    let found = standing(mounts, "0::/gone (deleted)\n");
    assert_eq!(found.own, Path::new("/mnt/my cgroups/gone"));
}

#[test]
fn a_machine_without_the_controller_says_so_in_one_line() {
    for (mounts, cgroup) in [("", "0::/\n"), (V2_HOST, ""), ("garbage\n- -\n", "garbage")] {
        let error = Standing::from_texts(mounts, cgroup).expect_err("nothing to find");
        assert!(error.is_refusal());
        assert_eq!(error.to_string().lines().count(), 1);
    }
}

#[test]
fn groups_of_ours_are_no_parents_of_others() {
    let found = standing(V2_HOST, "0::/a.slice/ebbtide-17-rest\n");
    assert_eq!(found.candidates()[0], Path::new("/sys/fs/cgroup/a.slice"));
}

#[test]
fn the_creator_is_read_from_the_name() {
    assert_eq!(creator_of(Path::new("/x/ebbtide-17-3")), Some(17));
    assert_eq!(creator_of(Path::new("/x/ebbtide-17-rest")), Some(17));
    for other in ["/x/ebbtide-17", "/x/ebbtide-x-3", "/x/ebbtide-17-y", "/x/other-17-3", "/"] {
        assert_eq!(creator_of(Path::new(other)), None, "{other}");
    }
}

/// A folder that looks like a v2 hierarchy, as far as choosing a place looks at it.
fn pretend_v2(groups: &[(&str, &str, &str)]) -> (Folder, Standing) {
    let top = Folder::new();
    let mut own = top.0.clone();
    for (path, controllers, subtree_control) in groups {
        own = top.0.join(path);
        fs::create_dir_all(&own).expect("a group");
        fs::write(own.join("cgroup.controllers"), controllers).expect("a file");
        fs::write(own.join("cgroup.subtree_control"), subtree_control).expect("a file");
        fs::write(own.join("cgroup.procs"), "").expect("a file");
    }
    let standing = Standing { version: CgroupVersion::V2, mount: top.0.clone(), own };
    (top, standing)
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let number = NEXT_NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("cgroup-test-{}-{number}", process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("a folder for the test");
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn on_v2_the_nearest_group_that_hands_on_memory_is_the_parent() {
    let (top, standing) = pretend_v2(&[
        ("", "cpu memory", "memory"),
        ("a", "memory", "memory"),
        ("a/b", "memory", ""),
    ]);
    let group = make_v2(&standing).expect("a group");
    assert_eq!(group.parent, top.0.join("a"));
    assert!(group.path.is_dir());
    let own = fs::read_to_string(standing.own.join("cgroup.subtree_control")).expect("a file");
    assert_eq!(own, "", "nothing was changed where it was not needed");
}

#[test]
fn on_v2_the_controller_is_enabled_where_no_group_hands_it_on() {
    let (_top, standing) = pretend_v2(&[("", "cpu", ""), ("a", "cpu memory", "")]);
    let group = make_v2(&standing).expect("a group");
    assert_eq!(group.parent, standing.own);
    let own = fs::read_to_string(standing.own.join("cgroup.subtree_control")).expect("a file");
    assert_eq!(own, "+memory");
}

#[test]
fn on_v2_without_the_controller_the_error_names_the_file() {
    let (_top, standing) = pretend_v2(&[("", "cpu hugetlb", ""), ("a", "cpu", "")]);
    let error = make_v2(&standing).expect_err("no controller");
    assert!(matches!(&error, CgroupError::NoController { .. }), "{error}");
    assert!(error.to_string().contains("cgroup.controllers"), "{error}");
}

#[test]
fn a_refusal_says_what_to_do() {
    let standing = standing(V2_HOST, "0::/no/such/group\n");
    let cause = CgroupError::Io {
        action: "make".to_string(),
        path: PathBuf::from("/sys/fs/cgroup/x"),
        source: io::ErrorKind::PermissionDenied.into(),
    };
    let error = not_permitted(&standing, Some((standing.own.clone(), cause)));
    assert!(error.is_refusal());
    let text = error.to_string();
    assert!(text.contains("systemd-run --user -p Delegate=yes --scope"), "{text}");
    assert_eq!(text.lines().count(), 1);
}

/// A group, or a notice where cgroups are not permitted; any other failure is one.
fn permitted(limit_bytes: u64) -> Option<MemoryCgroup> {
    match MemoryCgroup::create(limit_bytes) {
        Ok(group) => Some(group),
        Err(error) if error.is_refusal() => {
            eprintln!("notice: not tested, because: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A shell that runs `script` once it is told to go.
fn waiting_shell(script: &str) -> Child {
    Command::new("sh")
        .args(["-c", &format!("read go; {script}")])
        .stdin(Stdio::piped())
        .spawn()
        .expect("a shell")
}

fn go(child: &mut Child) {
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(b"go\n").expect("a shell that listens");
}

#[test]
fn a_limit_is_kept_and_the_group_goes_with_its_value() {
    const LIMIT_BYTES: u64 = 16 << 20;
    let Some(group) = permitted(LIMIT_BYTES) else {
        return;
    };
    assert_eq!(group.limit_bytes().expect("a limit"), LIMIT_BYTES);
    let folder = Folder::new();
    let file = folder.0.join("pages");
    let script =
        format!("exec dd if=/dev/zero of={} bs=64k count=1024 2>/dev/null", file.display());
    let mut child = waiting_shell(&script);
    group.join(child.id()).expect("joined");
    go(&mut child);
    assert!(child.wait().expect("an end").success());
    assert_eq!(fs::metadata(&file).expect("the file").len(), 64 << 20);
    assert!(group.usage_bytes().expect("usage") <= LIMIT_BYTES);
    let peak = group.peak_bytes().unwrap_or(LIMIT_BYTES);
    assert!((1 << 20..=LIMIT_BYTES).contains(&peak), "{peak}");
    assert!(group.kernel_bytes().is_none_or(|kernel| kernel <= LIMIT_BYTES));
    let path = group.path().to_path_buf();
    drop(group);
    assert!(!path.exists(), "{} is still there", path.display());
}

#[test]
fn members_return_to_where_they_came_from() {
    let Some(group) = permitted(64 << 20) else {
        return;
    };
    let mut child = waiting_shell("exit 7");
    group.join(child.id()).expect("joined");
    let its_group = || read(Path::new(&format!("/proc/{}/cgroup", child.id()))).expect("its group");
    let name = group.path().file_name().expect("a name").to_string_lossy().into_owned();
    assert!(its_group().contains(&name));
    let path = group.path().to_path_buf();
    drop(group);
    assert!(!path.exists());
    assert_eq!(its_group(), read(Path::new("/proc/self/cgroup")).expect("our group"));
    go(&mut child);
    assert_eq!(child.wait().expect("an end").code(), Some(7));
}

#[test]
fn what_a_dead_creator_left_is_removed_by_the_next() {
    let Some(group) = permitted(64 << 20) else {
        return;
    };
    let mut child = waiting_shell("exit 0");
    let dead = child.id();
    go(&mut child);
    child.wait().expect("an end");
    let stale = group.parent.join(format!("{NAME_PREFIX}{dead}-0"));
    fs::create_dir(&stale).expect("a stale group");
    let next = permitted(64 << 20).expect("a second group");
    assert!(!stale.exists());
    assert_ne!(next.path(), group.path());
}

#[test]
fn a_process_that_is_gone_cannot_join() {
    let Some(group) = permitted(64 << 20) else {
        return;
    };
    let mut child = waiting_shell("exit 0");
    go(&mut child);
    child.wait().expect("an end");
    let error = group.join(child.id()).expect_err("gone");
    assert!(!error.is_refusal() && error.to_string().contains("cgroup.procs"), "{error}");
}
