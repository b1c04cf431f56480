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
pub(super) struct Lists {
    /// A node a frame, then a node a list: its sentinel, which closes the list to a ring.
    links: Vec<Link>,
    lengths: Vec<u32>,
}

impl Lists {
    pub(super) fn new(frames: usize, lists: usize) -> Lists {
        assert!(
            frames + lists < UNLINKED as usize,
            "too many frames to link"
        );
        let mut links = vec![
            Link {
                previous: UNLINKED,
                next: UNLINKED
            };
            frames
        ];
        links.extend((frames..frames + lists).map(|sentinel| {
            let own = sentinel as u32;
            Link {
                previous: own,
                next: own,
            }
        }));
        Lists {
            links,
            lengths: vec![0; lists],
        }
    }

    pub(super) fn memory_bytes(frames: usize, lists: usize) -> usize {
        (frames + lists) * size_of::<Link>() + lists * size_of::<u32>()
    }

    pub(super) fn len(&self, list: usize) -> usize {
        self.lengths[list] as usize
    }

    pub(super) fn front(&self, list: usize) -> Option<FrameId> {
        self.iter(list).next()
    }

    /// The frames of `list` from front to back.
    pub(super) fn iter(&self, list: usize) -> impl Iterator<Item = FrameId> {
        let sentinel = self.sentinel(list);
        let mut at = sentinel;
        std::iter::from_fn(move || {
            at = self.links[at as usize].next;
            (at != sentinel).then_some(FrameId(at))
        })
    }

    /// Puts `frame`, which is in no list, behind all others of `list`.
    pub(super) fn push_back(&mut self, list: usize, frame: FrameId) {
        assert_eq!(
            self.links[frame.index()].next,
            UNLINKED,
            "{frame:?} is known already"
        );
        let sentinel = self.sentinel(list);
        let last = std::mem::replace(&mut self.links[sentinel as usize].previous, frame.0);
        self.links[last as usize].next = frame.0;
        self.links[frame.index()] = Link {
            previous: last,
            next: sentinel,
        };
        self.lengths[list] += 1;
    }

    /// Takes `frame` out of `list`.
    pub(super) fn remove(&mut self, list: usize, frame: FrameId) {
        let Link { previous, next } = self.links[frame.index()];
        assert_ne!(next, UNLINKED, "{frame:?} is not known");
        self.links[previous as usize].next = next;
        self.links[next as usize].previous = previous;
        self.links[frame.index()] = Link {
            previous: UNLINKED,
            next: UNLINKED,
        };
        self.lengths[list] -= 1;
    }

    /// Takes `frame` out of `from` and puts it behind all others of `to`, which may be the same.
    pub(super) fn move_to_back(&mut self, from: usize, to: usize, frame: FrameId) {
        self.remove(from, frame);
        self.push_back(to, frame);
    }

    fn sentinel(&self, list: usize) -> u32 {
        (self.links.len() - self.lengths.len() + list) as u32
    }
}
