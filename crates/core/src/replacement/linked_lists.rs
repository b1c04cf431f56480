//! Doubly linked lists of frames with their links in one array: every operation is O(1) and
//! allocates nothing. A frame is in one list at most.

use serde::{Deserialize, Serialize};

use crate::addr::FrameId;

/// The link of a frame that is in no list.
const UNLINKED: u32 = u32::MAX;

#[derive(Clone, Copy, Serialize, Deserialize)]
struct Node {
    previous: u32,
    next: u32,
}

/// The lists numbered `0..lists` over the frames `0..frames`.
#[derive(Serialize, Deserialize)]
pub(super) struct LinkedLists {
    /// A node for each frame, then one for each list: its sentinel, which closes the list to a
    /// ring.
    nodes: Vec<Node>,
    frames: usize,
}

impl LinkedLists {
    pub(super) fn new(frames: usize, lists: usize) -> LinkedLists {
        assert!(frames + lists < UNLINKED as usize, "too many frames to link");
        let mut nodes = Vec::with_capacity(frames + lists);
        nodes.resize(frames, Node { previous: UNLINKED, next: UNLINKED });
        let sentinels = frames as u32..(frames + lists) as u32;
        nodes.extend(sentinels.map(|own| Node { previous: own, next: own }));
        LinkedLists { nodes, frames }
    }

    pub(super) fn memory_bytes(frames: usize, lists: usize) -> usize {
        (frames + lists) * size_of::<Node>()
    }

    /// The first frame of `list`.
    pub(super) fn front(&self, list: usize) -> Option<FrameId> {
        self.frame_at(self.nodes[self.frames + list].next)
    }

    /// The frame behind `frame` in its list.
    pub(super) fn next(&self, frame: FrameId) -> Option<FrameId> {
        debug_assert_ne!(self.nodes[frame.index()].next, UNLINKED, "{frame:?} is not known");
        self.frame_at(self.nodes[frame.index()].next)
    }

    /// The frames of `list` from front to back.
    pub(super) fn iter(&self, list: usize) -> impl Iterator<Item = FrameId> {
        std::iter::successors(self.front(list), |&frame| self.next(frame))
    }

    /// Puts `frame`, which is in no list, behind all others of `list`.
    pub(super) fn push_back(&mut self, list: usize, frame: FrameId) {
        assert_eq!(self.nodes[frame.index()].next, UNLINKED, "{frame:?} is known already");
        let sentinel = (self.frames + list) as u32;
        let last = self.nodes[sentinel as usize].previous;
        self.link(frame, last, sentinel);
        self.nodes[last as usize].next = frame.0;
        self.nodes[sentinel as usize].previous = frame.0;
    }

    /// Puts `frame`, which is in no list, behind the first `count` frames of `list`, or behind all
    /// of them if there are fewer. Walks over those.
    pub(super) fn insert_behind(&mut self, list: usize, count: usize, frame: FrameId) {
        assert_eq!(self.nodes[frame.index()].next, UNLINKED, "{frame:?} is known already");
        let sentinel = (self.frames + list) as u32;
        let mut previous = sentinel;
        for _ in 0..count {
            let next = self.nodes[previous as usize].next;
            if next == sentinel {
                break;
            }
            previous = next;
        }
        let next = std::mem::replace(&mut self.nodes[previous as usize].next, frame.0);
        self.nodes[next as usize].previous = frame.0;
        self.link(frame, previous, next);
    }

    /// Takes `frame` out of its list.
    pub(super) fn remove(&mut self, frame: FrameId) {
        let Node { previous, next } = self.nodes[frame.index()];
        assert_ne!(next, UNLINKED, "{frame:?} is not known");
        self.nodes[previous as usize].next = next;
        self.nodes[next as usize].previous = previous;
        self.link(frame, UNLINKED, UNLINKED);
    }

    /// Takes `frame` out of its list and puts it behind all others of `list`.
    pub(super) fn move_to_back(&mut self, list: usize, frame: FrameId) {
        self.remove(frame);
        self.push_back(list, frame);
    }

    fn link(&mut self, frame: FrameId, previous: u32, next: u32) {
        self.nodes[frame.index()] = Node { previous, next };
    }

    fn frame_at(&self, node: u32) -> Option<FrameId> {
        ((node as usize) < self.frames).then_some(FrameId(node))
    }
}
