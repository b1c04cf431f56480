//! AstriFlash whose DRAM cache gives up the page that came last, and a prefetcher: the examples of
//! `docs/ADDING_A_DESIGN.md`.

use ebbtide_core::prefetch::{Demand, Metrics, Prefetcher};
use ebbtide_core::replacement::{Frames, Geometry, Replacement};
use ebbtide_core::{FrameId, PageId};
use ebbtide_sim::CoreSide;
use ebbtide_sim::designs::Design;
use ebbtide_sim::memory_side::DramCache;

pub const TOY: Design = Design {
    name: "toy",
    about: "AstriFlash whose DRAM cache gives up what came last",
    config: include_str!("toy.toml"),
    core_side: CoreSide::user_switch,
    memory_side: |config| {
        let policy = |geometry| Box::new(LastInFirstOut::new(geometry)) as Box<dyn Replacement>;
        Ok(Box::new(DramCache::with_policy(config, policy)?))
    },
};

/// Last in, first out: a stack of frames a set.
#[derive(Clone)]
pub struct LastInFirstOut {
    geometry: Geometry,
    stacks: Vec<Vec<FrameId>>,
}

impl LastInFirstOut {
    pub fn new(geometry: Geometry) -> LastInFirstOut {
        LastInFirstOut { geometry, stacks: vec![Vec::new(); geometry.sets] }
    }
}

impl Replacement for LastInFirstOut {
    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.stacks[self.geometry.set_of(frame)].push(frame);
    }

    fn victim(&mut self, set: usize, frames: &mut dyn Frames) -> Option<FrameId> {
        let stack = &mut self.stacks[set];
        let last = stack.iter().rposition(|frame| !frames.is_pinned(*frame))?;
        Some(stack.remove(last))
    }

    fn remove(&mut self, frame: FrameId) {
        self.stacks[self.geometry.set_of(frame)].retain(|known| *known != frame);
    }
}

/// At every miss, and the first use of a prefetched page, the page before.
pub struct PageBefore;

impl Prefetcher for PageBefore {
    fn demand(
        &mut self,
        page: PageId,
        demand: Demand,
        _metrics: &Metrics,
        candidates: &mut Vec<PageId>,
    ) {
        if demand == Demand::Miss || demand.is_first_use() {
            candidates.extend(page.0.checked_sub(1).map(PageId));
        }
    }
}
