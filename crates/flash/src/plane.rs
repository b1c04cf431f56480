//! [`Plane`]: the stage of a plane, its waiting commands, and its pages.

use ebbtide_core::{Span, Time};

use crate::requests::Queue;
use crate::translation::{PlaneMap, Urgency};

/// The stage of a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Idle,
    /// A page moves from the array to the register.
    Sensing,
    /// The page waits for the channel and crosses it.
    Sending,
    /// Pages to program wait for the channel and cross it.
    Receiving,
    Programming,
    /// A collection moves valid pages.
    Copying,
    /// A collection erases its block.
    Erasing,
    /// An operation is being suspended for reads.
    Suspending,
}

/// An operation that is suspended for reads.
#[derive(Debug, Clone)]
pub(crate) struct Suspended {
    pub stage: Stage,
    pub commands: Queue,
    pub remaining: Span,
}

/// One plane of the device.
#[derive(Debug, Clone)]
pub(crate) struct Plane {
    /// The channel of the plane.
    pub channel: u32,
    pub stage: Stage,
    /// When the stage ends.
    pub end: Time,
    /// The commands being served.
    pub current: Queue,
    /// Waiting reads, which go before writes.
    pub reads: Queue,
    /// Waiting writes. They fill physical pages in this order.
    pub writes: Queue,
    pub suspended: Option<Suspended>,
    /// Suspensions of the current operation.
    pub suspensions: u32,
    /// The end of the last collection that blocked this plane.
    pub blocked_until: Time,
    /// True if a collection ended and no command was served since.
    pub just_collected: bool,
    pub urgency: Urgency,
    /// Translation, from the first write on. Until then [`Aged`](crate::aged::Aged) gives it.
    pub map: Option<Box<PlaneMap>>,
    busy_since: Time,
    busy: Span,
}

impl Plane {
    pub(crate) fn new(channel: u32) -> Plane {
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
    pub(crate) fn enter(&mut self, now: Time, stage: Stage, end: Time) {
        if self.stage == Stage::Idle {
            self.busy_since = now;
        }
        self.stage = stage;
        self.end = end;
    }

    /// Becomes idle.
    pub(crate) fn rest(&mut self, now: Time) {
        self.busy = self.busy(now);
        self.stage = Stage::Idle;
    }

    /// Busy time until `now`.
    pub(crate) fn busy(&self, now: Time) -> Span {
        match self.stage {
            Stage::Idle => self.busy,
            _ => self.busy + now.since(self.busy_since),
        }
    }
}
