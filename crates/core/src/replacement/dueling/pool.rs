//! The frames that are to go first in some order, among those looked at lately.

use super::super::adaptive_lrfu::Key;
use super::record::Tick;
use crate::addr::FrameId;

/// Frames in a pool.
pub(super) const POOL_FRAMES: usize = 16;

/// A frame with what was known of its page when it entered the pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) frame: FrameId,
    pub(super) key: Key,
    pub(super) used: Tick,
}

impl Entry {
    /// Whether this page was used before that of `other`.
    pub(super) fn is_less_recent(&self, other: &Entry) -> bool {
        self.used.is_before(other.used)
    }

    /// Whether this page weighs less than that of `other`, or as much and was used before.
    pub(super) fn is_lighter(&self, other: &Entry) -> bool {
        if self.key == other.key {
            self.is_less_recent(other)
        } else {
            self.key.is_below(other.key)
        }
    }
}

/// The first to go of those that were offered, as in the pool of sampled candidates of Redis (since
/// its version 3.0): at most [`POOL_FRAMES`], the first to go at the end.
#[derive(Clone)]
pub(super) struct Pool {
    entries: [Entry; POOL_FRAMES],
    length: usize,
}

impl Pool {
    pub(super) fn new() -> Pool {
        let none = Entry { frame: FrameId(0), key: Key::default(), used: Tick(0) };
        Pool { entries: [none; POOL_FRAMES], length: 0 }
    }

    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    /// Takes `entry` in if there is room, or if it `goes_before` some other, which then makes room.
    #[inline]
    pub(super) fn offer(&mut self, entry: Entry, goes_before: impl Fn(&Entry, &Entry) -> bool) {
        if self.length == POOL_FRAMES && !goes_before(&entry, &self.entries[0]) {
            return;
        }
        let known = &self.entries[..self.length];
        if let Some(at) = known.iter().position(|other| other.frame == entry.frame) {
            self.remove(at);
        } else if self.length == POOL_FRAMES {
            self.remove(0);
        }
        let known = &self.entries[..self.length];
        let behind = known.iter().rposition(|other| goes_before(&entry, other));
        let place = behind.map_or(0, |at| at + 1);
        self.entries.copy_within(place..self.length, place + 1);
        self.entries[place] = entry;
        self.length += 1;
    }

    /// The first to go.
    #[inline]
    pub(super) fn first(&self) -> Option<Entry> {
        self.length.checked_sub(1).map(|last| self.entries[last])
    }

    pub(super) fn drop_first(&mut self) {
        self.length -= 1;
    }

    fn remove(&mut self, at: usize) {
        self.entries.copy_within(at + 1..self.length, at);
        self.length -= 1;
    }
}
