//! One plane: what it is doing, what waits for it, and where its pages lie.

use ebbtide_core::{Span, Time};

use crate::requests::Queue;
use crate::translation::{PlaneMap, Urgency};

/// What a plane is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Idle,
    /// A page goes from the array to the register.
    Sensing,
    /// It waits for the channel, and goes over it.
    Sending,
    /// Pages to program wait for the channel, and come over it.
    Receiving,
    Programming,
    /// A collection moves valid pages.
    Copying,
    /// A collection erases its block.
    Erasing,
    /// An operation is being put aside for reads.
    Suspending,
}

/// An operation put aside for reads.
#[derive(Debug, Clone)]
pub(crate) struct Suspended {
    pub stage: Stage,
    pub commands: Queue,
    pub remaining: Span,
}

/// One plane of the device.
#[derive(Debug, Clone)]
pub(crate) struct Plane {
    /// The channel it hangs on.
    pub channel: u32,
    pub stage: Stage,
    /// When the stage ends.
    pub end: Time,
    /// The commands being served.
    pub current: Queue,
    /// Reads that wait; they go first.
    pub reads: Queue,
    /// Writes that wait, to be filled into physical pages in this order.
    pub writes: Queue,
    pub suspended: Option<Suspended>,
    /// How often the operation under way was suspended.
    pub suspensions: u32,
    /// Until when a collection kept this plane from serving commands.
    pub blocked_until: Time,
    /// A collection has just ended, and no command was served since.
    pub just_collected: bool,
    pub urgency: Urgency,
    /// Where pages lie, from the first write on; until then as ageing left them.
    pub map: Option<Box<PlaneMap>>,
    busy_since: Time,
    busy: Span,
}

impl Plane {
    pub fn new(channel: u32) -> Plane {
        Plane {
            channel,
            stage: Stage::Idle,
            end: Time::ZERO,
            current: Queue::EMPTY,
            reads: Queue::EMPTY,
            writes: Queue::EMPTY,
            suspended: None,
            suspensions: 0,
            blocked_until: Time::ZERO,
            just_collected: false,
            urgency: Urgency::None,
            map: None,
            busy_since: Time::ZERO,
            busy: Span::ZERO,
        }
    }

    /// Changes to `stage`, which ends at `end`.
    pub fn enter(&mut self, now: Time, stage: Stage, end: Time) {
        if self.stage == Stage::Idle {
            self.busy_since = now;
        }
        self.stage = stage;
        self.end = end;
    }

    /// Has nothing to do from `now` on.
    pub fn rest(&mut self, now: Time) {
        self.busy = self.busy(now);
        self.stage = Stage::Idle;
    }

    /// How long it was busy until `now`.
    pub fn busy(&self, now: Time) -> Span {
        match self.stage {
            Stage::Idle => self.busy,
            _ => self.busy + now.since(self.busy_since),
        }
    }
}
