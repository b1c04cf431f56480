//! [`PartialPages`]: frames that hold only those lines of their pages that were expected to be used.

use ebbtide_core::{Footprints, FrameId, Lines, Trigger};

/// Which lines each frame holds and which of them were used, and the predictor that learns from it.
pub(super) struct PartialPages {
    footprints: Footprints,
    frames: Vec<Held>,
}

/// What a frame holds of its page.
#[derive(Clone, Copy, Default)]
struct Held {
    lines: Lines,
    used: Lines,
    trigger: Trigger,
}

impl PartialPages {
    /// For so many empty frames.
    pub(super) fn new(frames: u64) -> PartialPages {
        let frames = vec![Held::default(); frames as usize];
        PartialPages { footprints: Footprints::new(), frames }
    }

    /// `line` of the page in `frame` is wanted. Gives whether it is there.
    pub(super) fn take_line(&mut self, frame: FrameId, line: u8) -> bool {
        let held = &mut self.frames[frame.index()];
        let there = held.lines.contains(line);
        if there {
            held.used = held.used.and(Lines::one(line));
        }
        there
    }

    /// A page that `trigger` wants will come to `frame`: the lines to fetch.
    pub(super) fn bring(&mut self, frame: FrameId, trigger: Trigger) -> Lines {
        let lines = self.footprints.expected(trigger);
        self.frames[frame.index()] = Held { lines, used: Lines::one(trigger.line), trigger };
        lines
    }

    /// `lines` of the page in `frame`, which it was missing, have come and are used.
    pub(super) fn complete(&mut self, frame: FrameId, lines: Lines) {
        let held = &mut self.frames[frame.index()];
        held.lines = held.lines.and(lines);
        held.used = held.used.and(lines);
    }

    /// The page in `frame` leaves: which of its lines were there.
    pub(super) fn leave(&mut self, frame: FrameId) -> Lines {
        let Held { lines, used, trigger } = self.frames[frame.index()];
        self.footprints.left(trigger, used);
        lines
    }
}
