//! [`Nodes`]: which frames are near which cores, where memory has nodes (NUMA).
//!
//! Every node that cores run on has a part of the frames in its own memory. A core brings pages
//! into frames of its own node. A frame of another node that it has freed goes to the spare frames
//! of that node. So a page lies near the core that last read it from flash, though any core may use
//! it.

use std::io;
use std::path::Path;

use ebbtide_core::{FrameId, PAGE_BYTES};

use crate::device::FrameMemory;

/// Frames of a huge page, which lies on one node.
const FRAMES_A_HUGE_PAGE: usize = (2 << 20) / PAGE_BYTES;

/// Where the kernel lists nodes.
const FOLDER: &str = "/sys/devices/system/node";

/// The nodes that an engine's cores run on.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Nodes {
    /// By core: which of them.
    of_core: Box<[usize]>,
    /// The kernel's number of each.
    numbers: Box<[u32]>,
    /// How many frames each has, the last one the rest.
    frames_a_node: usize,
}

impl Nodes {
    /// All of the memory is as near to any of `cores` cores.
    pub(crate) fn one(cores: usize) -> Nodes {
        Nodes { of_core: vec![0; cores].into(), numbers: vec![0].into(), frames_a_node: usize::MAX }
    }

    /// The nodes of `cores` cores that run on `cpus`, with `frames` frames. Cores that may run on
    /// any CPU have no near node.
    pub(crate) fn here(cores: usize, cpus: &[usize], frames: usize) -> Nodes {
        let listed = listed(Path::new(FOLDER)).unwrap_or_default();
        Nodes::of(cores, cpus, frames, &listed)
    }

    /// As [`here`](Nodes::here), with the CPUs of each node.
    pub(crate) fn of(
        cores: usize,
        cpus: &[usize],
        frames: usize,
        listed: &[(u32, Vec<usize>)],
    ) -> Nodes {
        let node_of = |cpu: &usize| listed.iter().find(|(_, cpus)| cpus.contains(cpu));
        let found: Option<Vec<u32>> =
            cpus.iter().map(|cpu| node_of(cpu).map(|(number, _)| *number)).collect();
        let Some(found) = found else { return Nodes::one(cores) };
        let mut numbers = found.clone();
        numbers.sort_unstable();
        numbers.dedup();
        let huge_pages = frames.div_ceil(FRAMES_A_HUGE_PAGE);
        // Each has at least a huge page.
        if numbers.len() < 2 || huge_pages < numbers.len() {
            return Nodes::one(cores);
        }
        let index = |number: &u32| numbers.binary_search(number).expect("it is one of them");
        Nodes {
            of_core: found.iter().map(index).collect(),
            frames_a_node: huge_pages / numbers.len() * FRAMES_A_HUGE_PAGE,
            numbers: numbers.into(),
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.numbers.len()
    }

    /// The node of `core`.
    pub(crate) fn of_core(&self, core: usize) -> usize {
        self.of_core[core]
    }

    /// The node that has `frame`.
    pub(crate) fn of_frame(&self, frame: FrameId) -> usize {
        (frame.index() / self.frames_a_node).min(self.count() - 1)
    }

    /// Moves each node's part of the frames to that node, as far as it has room.
    ///
    /// # Errors
    /// When the kernel refuses. Memory then stays where it is.
    pub(crate) fn place(&self, memory: FrameMemory) -> io::Result<()> {
        if self.count() == 1 {
            return Ok(());
        }
        let part_bytes = self.frames_a_node * PAGE_BYTES;
        for (index, &number) in self.numbers.iter().enumerate() {
            let first = index * part_bytes;
            let last = index + 1 == self.count();
            let bytes = if last { memory.bytes - first } else { part_bytes };
            bind(memory.base.wrapping_add(first), bytes, number)?;
        }
        Ok(())
    }
}

/// The nodes there are, each with its CPUs.
fn listed(folder: &Path) -> io::Result<Vec<(u32, Vec<usize>)>> {
    let mut nodes = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(number) = name.to_str().and_then(|name| name.strip_prefix("node")?.parse().ok())
        else {
            continue;
        };
        nodes.push((number, ranges(&std::fs::read_to_string(entry.path().join("cpulist"))?)));
    }
    Ok(nodes)
}

/// The numbers in a list such as `0-3,8`, in the kernel's format.
fn ranges(list: &str) -> Vec<usize> {
    let mut all = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse()) {
            all.extend(first..=last);
        }
    }
    all
}

/// Moves memory to a node, or to one near it where that is full.
fn bind(base: *mut u8, bytes: usize, node: u32) -> io::Result<()> {
    const MASK_BITS: usize = u64::BITS as usize;
    /// `MPOL_MF_MOVE` of the kernel's `mempolicy.h`: pages that are already resident are moved.
    const MOVE_PAGES: libc::c_uint = 1 << 1;
    let mut mask = vec![0u64; node as usize / MASK_BITS + 1];
    mask[node as usize / MASK_BITS] |= 1 << (node as usize % MASK_BITS);
    // SAFETY: the kernel reads the mask, which has as many bits as it is told, less the one that it
    // does not count. Moving memory to other places of the machine changes nothing that a thread
    // can see.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            base,
            bytes,
            libc::MPOL_PREFERRED,
            mask.as_ptr(),
            mask.len() * MASK_BITS + 1,
            MOVE_PAGES,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::host::mapping::Mapping;

    fn two() -> Vec<(u32, Vec<usize>)> {
        vec![(3, vec![4, 5]), (0, vec![0, 1])]
    }

    #[test]
    fn each_node_that_cores_run_on_has_a_part_of_the_frames_in_whole_huge_pages() {
        let nodes = Nodes::of(3, &[5, 0, 4], 4 * FRAMES_A_HUGE_PAGE + 7, &two());
        assert_eq!((nodes.count(), &*nodes.numbers), (2, &[0, 3][..]));
        assert_eq!([0, 1, 2].map(|core| nodes.of_core(core)), [1, 0, 1]);
        let half = 2 * FRAMES_A_HUGE_PAGE as u32;
        let frames = [0, half - 1, half, 2 * half + 6].map(FrameId);
        assert_eq!(frames.map(|frame| nodes.of_frame(frame)), [0, 0, 1, 1]);
    }

    #[test]
    fn cores_of_one_node_or_of_any_and_small_caches_have_all_frames_near() {
        let frames = 4 * FRAMES_A_HUGE_PAGE;
        for (cores, cpus, frames) in [
            (2, vec![0, 1], frames),
            (2, vec![], frames),
            (2, vec![0, 9], frames),
            (2, vec![0, 5], FRAMES_A_HUGE_PAGE),
        ] {
            let nodes = Nodes::of(cores, &cpus, frames, &two());
            assert_eq!(nodes, Nodes::one(cores), "{cpus:?}");
            assert_eq!(nodes.of_frame(FrameId(frames as u32 - 1)), 0);
        }
    }

    #[test]
    fn lists_of_cpus_are_read_as_the_kernel_writes_them() {
        assert_eq!(ranges("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(ranges("\n"), [0; 0], "a node of memory alone");
        let folder = tempfile::tempdir().expect("a folder");
        for (node, list) in [("node0", "0-1\n"), ("node12", "2\n"), ("possible", "")] {
            std::fs::create_dir(folder.path().join(node)).expect("a folder");
            std::fs::write(folder.path().join(node).join("cpulist"), list).expect("a file");
        }
        let mut found = listed(folder.path()).expect("they are listed");
        found.sort_unstable();
        assert_eq!(found, [(0, vec![0, 1]), (12, vec![2])]);
    }

    #[test]
    fn memory_goes_to_a_node_that_there_is_and_to_no_other() {
        let mapping = Mapping::zeroed(FRAMES_A_HUGE_PAGE * PAGE_BYTES).expect("memory");
        let bytes = FRAMES_A_HUGE_PAGE * PAGE_BYTES;
        let refused =
            |error: &io::Error| matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM));
        match bind(mapping.base(), bytes, 0) {
            Err(error) if refused(&error) => {}
            result => {
                result.expect("every machine has a node 0");
                assert!(bind(mapping.base(), bytes, 1000).is_err());
            }
        }
    }
}
