//! [`PartialPages`]: frames that hold only the expected lines of their pages.

use ebbtide_core::{Archive, Footprints, FrameId, LINE_BYTES, Lines, Trigger};

use serde::{Deserialize, Serialize};

use super::counters::FootprintCounters;

/// The lines of each frame, the used ones among them, and the predictor that learns from these.
pub(super) struct PartialPages {
    footprints: Footprints,
    frames: Vec<Held>,
    pub(super) counters: FootprintCounters,
}

/// The lines of a page in a frame.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Held {
    lines: Lines,
    used: Lines,
    trigger: Trigger,
}

impl PartialPages {
    /// `frames` empty frames.
    pub(super) fn new(frames: u64) -> PartialPages {
        PartialPages {
            footprints: Footprints::new(),
            frames: vec![Held::default(); frames as usize],
            counters: FootprintCounters::default(),
        }
    }

    /// Saves the lines and the predictor's state to `archive`, or restores them. Restoring needs as
    /// many frames.
    pub(super) fn state(&mut self, archive: &mut Archive<'_>) {
        archive.part(&mut self.footprints);
        archive.part(&mut self.frames);
    }

    /// Looks for `line` of the page in `frame`. Returns whether it is present.
    pub(super) fn take_line(&mut self, frame: FrameId, line: u8) -> bool {
        let held = &mut self.frames[frame.index()];
        let present = held.lines.contains(line);
        if present {
            held.used = held.used.and(Lines::one(line));
        }
        present
    }

    /// Starts to fetch a page for `trigger` into `frame`. Returns the lines to fetch.
    pub(super) fn fetch(&mut self, frame: FrameId, trigger: Trigger) -> Lines {
        let lines = self.bring(frame, trigger);
        self.counters.refilled_bytes += lines.count() * LINE_BYTES as u64;
        lines
    }

    /// Puts a page for `trigger` into `frame`, without counting. Returns its lines.
    pub(super) fn bring(&mut self, frame: FrameId, trigger: Trigger) -> Lines {
        let lines = self.footprints.expected(trigger);
        self.frames[frame.index()] = Held { lines, used: Lines::one(trigger.line), trigger };
        lines
    }

    /// Counts a fetch of one line of a page in a frame.
    pub(super) fn refill(&mut self) {
        self.counters.underpredictions += 1;
        self.counters.refilled_bytes += LINE_BYTES as u64;
    }

    /// Puts `line`, which is used, into the page in `frame`.
    pub(super) fn complete(&mut self, frame: FrameId, line: u8) {
        let held = &mut self.frames[frame.index()];
        held.lines = held.lines.and(Lines::one(line));
        held.used = held.used.and(Lines::one(line));
    }

    /// Removes the page from `frame`. Returns its present lines.
    pub(super) fn leave(&mut self, frame: FrameId) -> Lines {
        let Held { lines, used, trigger } = self.frames[frame.index()];
        self.footprints.left(trigger, used);
        lines
    }
}
