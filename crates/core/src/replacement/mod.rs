//! Replacement: which frame of the DRAM cache to give up. One file for each policy.
//!
//! A policy sees hits as they happen only if it asks for that. The hit path of a real memory writes
//! nothing shared. So hits reach the policy as *touches*, small per-frame counts. The policy
//! collects them when it looks for a victim ([`Frames::take_touches`]). Policies that need every
//! hit in order ([`PolicyKind::needs_every_hit`]) exist for the simulator.
//!
//! Every policy manages a cache of `sets × ways` frames ([`Geometry`]): frame `f` belongs to set `f
//! / ways`. The engine's fully associative cache is one set. A simulated hardware cache has many.
//!
//! An [`Admission`] in front of a policy can keep pages of little worth from it.

mod admission;
mod clock;
mod eviction_order;
mod fifo;
mod linked_lists;
mod lru;
mod mini_sim;
mod random;
mod rrip;
mod s3_fifo;

use serde::{Deserialize, Serialize};

use crate::addr::{FrameId, PageId};
use crate::archive::Archive;
use crate::choice;
pub use admission::Admission;
use rrip::{HitRule, Insertion, Rrip};

/// The most touches that a frame counts between two looks. Further touches are lost.
pub const TOUCHES_MAX: u8 = 3;

/// Frames that one call of [`Frames::take_touches_together`] covers.
pub const TOUCHES_TOGETHER: usize = 8;

/// The shape of a cache: which frames may hold which page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Geometry {
    /// Number of sets; 1 is fully associative.
    pub sets: usize,
    /// Frames in a set.
    pub ways: usize,
}

impl Geometry {
    /// One set of `frames` frames.
    pub const fn fully_associative(frames: usize) -> Geometry {
        Geometry { sets: 1, ways: frames }
    }

    /// Number of frames in all.
    pub const fn frames(self) -> usize {
        self.sets * self.ways
    }

    /// The set that frame `frame` belongs to.
    #[inline]
    pub const fn set_of(self, frame: FrameId) -> usize {
        if self.sets == 1 {
            return 0;
        }
        // Divided in the width of a frame's number, which takes half as long.
        (frame.0 / self.ways as u32) as usize
    }
}

/// The place of a new page in the eviction order of its set (HPCA'07 §3.3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Position {
    /// Behind all others, as if it had just been used. The place of a page that was missed on.
    #[default]
    MostRecent,
    /// Before half of the set's frames.
    Middle,
    /// Before three quarters of the set's frames: the fourth to go of sixteen ways.
    LeastRecentQuarter,
    /// First of all.
    LeastRecent,
}

impl Position {
    /// Returns how many pages of a set of `ways` frames go before the new one. All, if it is the
    /// most recent.
    const fn behind(self, ways: usize) -> usize {
        match self {
            Position::MostRecent => ways,
            Position::Middle => ways / 2,
            Position::LeastRecentQuarter => ways / 4,
            Position::LeastRecent => 0,
        }
    }
}

/// The cache, as its replacement policy sees it.
pub trait Frames {
    /// Returns the hits on `frame` since the last call, at most [`TOUCHES_MAX`]. The count starts
    /// again.
    fn take_touches(&mut self, frame: FrameId) -> u8;
    /// The same for several frames from `first` on. Only frames whose bit is set in `asked` count,
    /// the lowest bit for `first`. The others have no touches, and may not exist.
    fn take_touches_together(&mut self, first: FrameId, asked: u8) -> [u8; TOUCHES_TOGETHER] {
        std::array::from_fn(|at| match asked >> at & 1 {
            0 => 0,
            _ => self.take_touches(FrameId(first.0 + at as u32)),
        })
    }
    /// Whether the page in `frame` was written since it was read from flash or cleaned.
    fn is_dirty(&self, frame: FrameId) -> bool;
    /// Whether `frame` must not be given up now.
    fn is_pinned(&self, frame: FrameId) -> bool;
}

/// A replacement policy. It knows a frame from [`insert`](Replacement::insert) until it gives it up
/// in [`victim`](Replacement::victim) or is told to forget it in [`remove`](Replacement::remove).
pub trait Replacement: Send {
    /// Page `page` was installed in `frame`, which the policy did not know. The access that missed
    /// is not counted as a touch.
    fn insert(&mut self, frame: FrameId, page: PageId);

    /// The same for a page that was fetched ahead of demand. A policy that keeps no order of
    /// recency inserts it as any other.
    fn insert_ahead(&mut self, frame: FrameId, page: PageId, _at: Position) {
        self.insert(frame, page);
    }

    /// Reports a hit on `frame`, in order. Only called if [`PolicyKind::needs_every_hit`].
    fn touch(&mut self, _frame: FrameId) {}

    /// Announces an event in `set`. A policy with data on millions of frames, far apart in host
    /// memory, may load the data of the set now. Decides nothing.
    fn expect(&self, _set: usize) {}

    /// Announces the next insertions. A policy that remembers millions of pages, far apart in host
    /// memory, may load its data on `_pages` now. Loads that do not wait for each other overlap.
    /// Decides nothing.
    fn recall(&self, _pages: &[PageId]) {}

    /// Chooses a victim in `set`. The policy forgets the frame, but may remember its page, and
    /// returns it. `None` if it knows no frame of the set that is not pinned.
    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId>;

    /// Lets the policy collect touches after every insertion. It may look at a few frames long
    /// before the first victim. Decides nothing.
    fn look_around(&mut self, _frames: &mut dyn Frames) {}

    /// Forgets `_frame`, which the policy knows, if it is worth hardly more than the next victim.
    /// Returns true if it did. A neighbour of its page leaves, and writing both together is
    /// cheaper. A policy that cannot compare frames forgets nothing.
    fn leave_early(&mut self, _frame: FrameId, _frames: &mut dyn Frames) -> bool {
        false
    }

    /// Forgets `frame`, which it knows, without a decision of its own (an invalidation).
    fn remove(&mut self, frame: FrameId);

    /// Writes the whole state into `archive`, or reads it from there. Kind, geometry and pages must
    /// be the same. By default a policy cannot do this, and the cache that it manages is not kept.
    fn state(&mut self, archive: &mut Archive<'_>) {
        archive.cannot();
    }
}

choice! {
    /// The policies there are.
    pub enum PolicyKind as "replacement policy" {
        /// First in, first out.
        Fifo = "fifo",
        /// Any frame, each with the same chance.
        Random = "random",
        /// Exact least recently used.
        Lru = "lru",
        /// FIFO with a second chance for touched pages.
        Clock = "clock",
        /// LRU that gives up clean pages first (CASES 2006).
        Cflru = "cflru",
        /// Re-reference interval prediction, a hit making it near (ISCA 2010).
        SrripHp = "srrip-hp",
        /// The same, a hit making it one step nearer.
        SrripFp = "srrip-fp",
        /// RRIP that expects nothing of most new pages: for loops larger than the cache.
        Brrip = "brrip",
        /// SRRIP or BRRIP, whichever does better in a sample of the sets.
        Drrip = "drrip",
        /// Small, main and ghost FIFO queues (SOSP 2023).
        S3Fifo = "s3-fifo",
        /// Recency, frequency or admission, whichever misses least in miniatures of the cache: the
        /// default.
        MiniSim = "mini-sim",
    }
}

impl PolicyKind {
    /// True if the policy must see every hit in order. A hit path that writes nothing shared cannot
    /// report them.
    pub fn needs_every_hit(self) -> bool {
        matches!(self, PolicyKind::Lru | PolicyKind::Cflru)
    }

    /// True if the policy looks at every frame of a set for a victim. It then suits sets of a few
    /// ways.
    pub fn searches_set(self) -> bool {
        matches!(
            self,
            PolicyKind::SrripHp | PolicyKind::SrripFp | PolicyKind::Brrip | PolicyKind::Drrip
        )
    }

    /// Returns an upper bound on the memory of the policy in bytes, for a cache of `geometry` over
    /// an address space of `pages` pages.
    pub fn memory_bytes(self, geometry: Geometry, pages: u64) -> usize {
        match self {
            PolicyKind::Fifo => fifo::Fifo::memory_bytes(geometry),
            PolicyKind::Random => random::Random::memory_bytes(geometry),
            PolicyKind::Lru | PolicyKind::Cflru => lru::Lru::memory_bytes(geometry),
            PolicyKind::Clock => clock::Clock::memory_bytes(geometry),
            PolicyKind::SrripHp | PolicyKind::SrripFp | PolicyKind::Brrip | PolicyKind::Drrip => {
                Rrip::memory_bytes(geometry)
            }
            PolicyKind::S3Fifo => s3_fifo::S3Fifo::memory_bytes(geometry, pages),
            PolicyKind::MiniSim => mini_sim::MiniSim::memory_bytes(geometry, pages),
        }
    }

    /// Builds the policy, with no frame yet. `seed` is for the policies that draw numbers. All
    /// memory is allocated here.
    ///
    /// # Panics
    /// If `geometry` has no frame.
    pub fn build(self, geometry: Geometry, pages: u64, seed: u64) -> Box<dyn Replacement> {
        assert!(geometry.frames() > 0, "a cache needs a frame");
        let rrip = |hit_rule, insertion| Box::new(Rrip::new(geometry, hit_rule, insertion));
        match self {
            PolicyKind::Fifo => Box::new(fifo::Fifo::new(geometry)),
            PolicyKind::Random => Box::new(random::Random::new(geometry, seed)),
            PolicyKind::Lru => Box::new(lru::Lru::new(geometry)),
            PolicyKind::Clock => Box::new(clock::Clock::new(geometry)),
            PolicyKind::Cflru => Box::new(lru::Lru::clean_first(geometry)),
            PolicyKind::SrripHp => rrip(HitRule::Near, Insertion::Static),
            PolicyKind::SrripFp => rrip(HitRule::Nearer, Insertion::Static),
            PolicyKind::Brrip => rrip(HitRule::Near, Insertion::Bimodal),
            PolicyKind::Drrip => rrip(HitRule::Near, Insertion::Dynamic),
            PolicyKind::S3Fifo => Box::new(s3_fifo::S3Fifo::new(geometry, pages)),
            PolicyKind::MiniSim => Box::new(mini_sim::MiniSim::new(geometry, pages)),
        }
    }
}
