//! Lives of pages in short, for tests.

use ebbtide_core::{FrameId, PageId};

use super::{Cache, Change, Effect, Event, Last};

/// Brings `page` into `frame`, as core 0 does, and changes it or not. No fiber waits for it.
pub(super) fn bring(cache: &Cache, page: PageId, frame: FrameId, changed: bool) {
    assert!(cache.apply(page, Event::Claimed { core: 0, frame }).has(Effect::Take));
    let arrived = match changed {
        true => cache.apply(page, Event::Revealed),
        false => {
            assert!(cache.apply(page, Event::Unclaimed).has(Effect::Fill));
            cache.apply(page, Event::Arrived)
        }
    };
    assert!(arrived.has(Effect::Install) && arrived.waiting == Last::NONE);
}

/// Ends the grace period of `page`, which is unchanged and was given up.
pub(super) fn release(cache: &Cache, page: PageId) -> Change {
    cache.apply(page, Event::GraceOver { changed: false, stays: false })
}

/// Gives up at most `count` pages that the policy chooses, for `core`.
pub(super) fn give_up(cache: &Cache, count: usize, core: usize) -> Vec<FrameId> {
    let frames = cache.choose(count, false);
    cache.unpublish(&frames, core);
    frames
}

/// Gives up `page` for `core`, if the policy knows it.
pub(super) fn give_up_page(cache: &Cache, page: PageId, core: usize) -> Option<FrameId> {
    let frame = cache.choose_page(page)?;
    cache.unpublish(&[frame], core);
    Some(frame)
}
