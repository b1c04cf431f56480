//! Replacement: which frame of the DRAM cache to give up. One policy a file.
//!
//! A policy never sees a hit as it happens unless it asks to: the hit path of a real memory writes
//! nothing shared, so hits reach the policy as *touches*, small per-frame counts that it collects
//! when it looks for a victim ([`Frames::take_touches`]). Policies that need every hit in order
//! ([`PolicyKind::needs_every_hit`]) exist for the simulator.
//!
//! Every policy manages a cache of `sets × ways` frames ([`Geometry`]): frame `f` belongs to set
//! `f / ways`. The engine's fully associative cache is one set; a simulated hardware cache has many.
//!
//! [`Admission`] may stand before a policy and keep from it what hardly deserves to be cached.

mod admission;
mod cflru;
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

/// The most touches a frame counts between two looks; more are not told apart.
pub const TOUCHES_MAX: u8 = 3;

/// How many frames [`Frames::take_touches_together`] asks about.
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

/// Where a new page enters the order in which a set's pages are given up (HPCA'07 §3.3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Position {
    /// Behind all others, as if it had just been used: where what somebody missed enters.
    #[default]
    MostRecent,
    /// Before half of the set's frames.
    Middle,
    /// Before three quarters of them: the fourth to go of sixteen ways.
    LeastRecentQuarter,
    /// First of all.
    LeastRecent,
}

impl Position {
    /// How many pages of a set of `ways` frames go before the new one; all, if it is the most
    /// recent.
    const fn behind(self, ways: usize) -> usize {
        match self {
            Position::MostRecent => ways,
            Position::Middle => ways / 2,
            Position::LeastRecentQuarter => ways / 4,
            Position::LeastRecent => 0,
        }
    }
}

/// What a policy may ask of the cache whose frames it manages.
pub trait Frames {
    /// Hits on `frame` since this was last asked, at most [`TOUCHES_MAX`]; the count starts anew.
    fn take_touches(&mut self, frame: FrameId) -> u8;
    /// The same of several frames from `first` on: of those whose bit is set in `asked`, the lowest bit
    /// for `first`. The others have no touches, and may not exist.
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

    /// A hit on `frame`, told in order; only where [`PolicyKind::needs_every_hit`].
    fn touch(&mut self, _frame: FrameId) {}

    /// Something will happen to `set` soon: a policy whose knowledge of millions of frames lies far
    /// apart in host memory may have that of the set at hand by then. Decides nothing.
    fn expect(&self, _set: usize) {}

    /// These pages will be inserted next: a policy that remembers millions of pages far apart in host memory
    /// may have what it knows of these at hand by then, as loads that do not wait for each other overlap.
    /// Decides nothing.
    fn recall(&self, _pages: &[PageId]) {}

    /// Gives up a frame of `set`: the policy forgets the frame (but may remember its page) and
    /// returns it. `None` if it knows no frame of the set that is not pinned.
    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId>;

    /// A chance to collect touches, after every insertion: a policy may look at a few frames long
    /// before the first victim. Decides nothing.
    fn look_around(&mut self, _frames: &mut dyn Frames) {}

    /// Gives up `frame`, which it knows, if it is worth hardly more than the next victim: a neighbour of its page
    /// leaves, with which it is cheaper to write. Says whether it has. A policy that cannot tell gives up nothing.
    fn leave_early(&mut self, _frame: FrameId, _frames: &mut dyn Frames) -> bool {
        false
    }

    /// Forgets `frame`, which it knows, without a decision of its own (an invalidation).
    fn remove(&mut self, frame: FrameId);

    /// Puts all that it knows into `archive`, or takes it from there: of a policy of the same kind, geometry
    /// and pages. By default it cannot, and what is managed by the policy is not kept.
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
        /// Recency, frequency or admission, whichever misses least in miniatures of the cache: the default.
        MiniSim = "mini-sim",
    }
}

impl PolicyKind {
    /// Whether the policy must be told of every hit in order, which no hit path that writes nothing
    /// shared can do.
    pub fn needs_every_hit(self) -> bool {
        matches!(self, PolicyKind::Lru | PolicyKind::Cflru)
    }

    /// Whether the policy looks at every frame of a set for a victim, which is for sets of a few
    /// ways.
    pub fn searches_set(self) -> bool {
        matches!(
            self,
            PolicyKind::SrripHp | PolicyKind::SrripFp | PolicyKind::Brrip | PolicyKind::Drrip
        )
    }

    /// An upper bound on the memory the policy will use, in bytes, for a cache of `geometry` over
    /// an address space of `pages` pages.
    pub fn memory_bytes(self, geometry: Geometry, pages: u64) -> usize {
        match self {
            PolicyKind::Fifo => fifo::Fifo::memory_bytes(geometry),
            PolicyKind::Random => random::Random::memory_bytes(geometry),
            PolicyKind::Lru => lru::Lru::memory_bytes(geometry),
            PolicyKind::Clock => clock::Clock::memory_bytes(geometry),
            PolicyKind::Cflru => cflru::Cflru::memory_bytes(geometry),
            PolicyKind::SrripHp | PolicyKind::SrripFp | PolicyKind::Brrip | PolicyKind::Drrip => {
                Rrip::memory_bytes(geometry)
            }
            PolicyKind::S3Fifo => s3_fifo::S3Fifo::memory_bytes(geometry, pages),
            PolicyKind::MiniSim => mini_sim::MiniSim::memory_bytes(geometry, pages),
        }
    }

    /// The policy, managing no frame yet. `seed` is for the policies that draw numbers; all memory
    /// is allocated here.
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
            PolicyKind::Cflru => Box::new(cflru::Cflru::new(geometry)),
            PolicyKind::SrripHp => rrip(HitRule::Near, Insertion::Static),
            PolicyKind::SrripFp => rrip(HitRule::Nearer, Insertion::Static),
            PolicyKind::Brrip => rrip(HitRule::Near, Insertion::Bimodal),
            PolicyKind::Drrip => rrip(HitRule::Near, Insertion::Dynamic),
            PolicyKind::S3Fifo => Box::new(s3_fifo::S3Fifo::new(geometry, pages)),
            PolicyKind::MiniSim => Box::new(mini_sim::MiniSim::new(geometry, pages)),
        }
    }
}
