//! Doubly linked lists of frames with their links in one array: every operation is O(1) and
//! allocates nothing. A frame is in one list at most.

use crate::addr::FrameId;

/// The link of a frame that is in no list.
const UNLINKED: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Link {
    previous: u32,
    next: u32,
}

/// The lists numbered `0..lists` over the frames `0..frames`.
#[derive(Clone)]
pub(super) struct LinkedLists {
    /// A node a frame, then a node a list: its sentinel, which closes the list to a ring.
    links: Vec<Link>,
    frames: usize,
}

impl LinkedLists {
    pub(super) fn new(frames: usize, lists: usize) -> LinkedLists {
        assert!(frames + lists < UNLINKED as usize, "too many frames to link");
        let mut links = Vec::with_capacity(frames + lists);
        links.resize(frames, Link { previous: UNLINKED, next: UNLINKED });
        let sentinels = frames as u32..(frames + lists) as u32;
        links.extend(sentinels.map(|own| Link { previous: own, next: own }));
        LinkedLists { links, frames }
    }

    pub(super) fn memory_bytes(frames: usize, lists: usize) -> usize {
        (frames + lists) * size_of::<Link>()
    }

    /// The first frame of `list`.
    pub(super) fn front(&self, list: usize) -> Option<FrameId> {
        self.frame_at(self.links[self.frames + list].next)
    }

    /// The frame behind `frame` in its list.
    pub(super) fn next(&self, frame: FrameId) -> Option<FrameId> {
        debug_assert_ne!(self.links[frame.index()].next, UNLINKED, "{frame:?} is not known");
        self.frame_at(self.links[frame.index()].next)
    }

    /// The frames of `list` from front to back.
    pub(super) fn iter(&self, list: usize) -> impl Iterator<Item = FrameId> {
        std::iter::successors(self.front(list), |&frame| self.next(frame))
    }

    /// Puts `frame`, which is in no list, behind all others of `list`.
    pub(super) fn push_back(&mut self, list: usize, frame: FrameId) {
        assert_eq!(self.links[frame.index()].next, UNLINKED, "{frame:?} is known already");
        let sentinel = (self.frames + list) as u32;
        let last = self.links[sentinel as usize].previous;
        self.links[frame.index()] = Link { previous: last, next: sentinel };
        self.links[last as usize].next = frame.0;
        self.links[sentinel as usize].previous = frame.0;
    }

    /// Puts `frame`, which is in no list, behind the first `count` frames of `list`, or behind all of
    /// them if there are fewer. Walks over those.
    pub(super) fn insert_behind(&mut self, list: usize, count: usize, frame: FrameId) {
        assert_eq!(self.links[frame.index()].next, UNLINKED, "{frame:?} is known already");
        let sentinel = (self.frames + list) as u32;
        let mut previous = sentinel;
        for _ in 0..count {
            let next = self.links[previous as usize].next;
            if next == sentinel {
                break;
            }
            previous = next;
        }
        let next = std::mem::replace(&mut self.links[previous as usize].next, frame.0);
        self.links[next as usize].previous = frame.0;
        self.links[frame.index()] = Link { previous, next };
    }

    /// Takes `frame` out of its list.
    pub(super) fn remove(&mut self, frame: FrameId) {
        let Link { previous, next } = self.links[frame.index()];
        assert_ne!(next, UNLINKED, "{frame:?} is not known");
        self.links[previous as usize].next = next;
        self.links[next as usize].previous = previous;
        self.links[frame.index()] = Link { previous: UNLINKED, next: UNLINKED };
    }

    /// Takes `frame` out of its list and puts it behind all others of `list`.
    pub(super) fn move_to_back(&mut self, list: usize, frame: FrameId) {
        self.remove(frame);
        self.push_back(list, frame);
    }

    /// Moves all of list `from` in front of all of list `to`, in its order.
    pub(super) fn prepend(&mut self, from: usize, to: usize) {
        let (source, target) = (self.frames + from, self.frames + to);
        let Link { previous: last, next: first } = self.links[source];
        if first as usize == source {
            return;
        }
        let second = std::mem::replace(&mut self.links[target].next, first);
        self.links[first as usize].previous = target as u32;
        self.links[last as usize].next = second;
        self.links[second as usize].previous = last;
        self.links[source] = Link { previous: source as u32, next: source as u32 };
    }

    fn frame_at(&self, node: u32) -> Option<FrameId> {
        ((node as usize) < self.frames).then_some(FrameId(node))
    }
}
