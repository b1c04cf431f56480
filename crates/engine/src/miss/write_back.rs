//! Dirty victims: they wait here, are written in runs behind the reads, and come back to DRAM when
//! a write fails.

use std::collections::VecDeque;

use ebbtide_core::durability::Lsn;
use ebbtide_core::{FrameId, Time};
use smallvec::SmallVec;

use super::Limits;
use super::requests::{Operation, Requests};
use super::ring::Ring;
use crate::cache::{Cache, Event};
use crate::device::Direction;

/// After this many consecutive failed writes, a miss without a free frame fails. A run of pages is
/// one write.
const FAILED_WRITES_IN_A_ROW_MAX: u32 = 16;

/// Pages being written at once by a core with time to spare: a drive takes 128 KiB in about the
/// time of a read.
const WRITTEN_AT_LEISURE: usize = 32;

/// The most neighbouring pages that are kept together.
const GROUP_PAGES_MAX: usize = 16;

/// The dirty victims of one core.
#[derive(Default)]
pub(super) struct WriteBack {
    /// Past their grace period, not yet being written, oldest first.
    waiting: VecDeque<FrameId>,
    under_way: usize,
    failed_in_a_row: u32,
    unchanged: Unchanged,
}

/// Whether there are unchanged pages. They can leave even if nothing can be written.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Unchanged {
    /// Since a frame last came free, no search has found that there is none.
    #[default]
    Perhaps,
    /// The policy knows none.
    None,
    /// It knew none, and then a changed page that was to leave was kept.
    NoneAndKept,
}

impl WriteBack {
    pub(super) fn push(&mut self, frame: FrameId) {
        self.waiting.push_back(frame);
    }

    /// Takes `frame` off the list if it waits. Returns true if it did.
    pub(super) fn take_waiting(&mut self, frame: FrameId) -> bool {
        let at = self.waiting.iter().position(|&waiting| waiting == frame);
        at.and_then(|at| self.waiting.remove(at)).is_some()
    }

    /// Whether no frame waits to be written. Writes under way are requests and count there.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Frames that become free when their writes succeed.
    pub(super) fn frame_count(&self) -> usize {
        self.waiting.len() + self.under_way
    }

    /// Returns how many frames the next submission may write. A core with time to spare writes few
    /// at once, so that the next read does not wait behind them. A busy or `hurried` core writes
    /// many, at a lower cost.
    pub(super) fn ready(&self, limits: &Limits, hurried: bool) -> usize {
        let at_once = if hurried { 2 * limits.batch_max } else { WRITTEN_AT_LEISURE };
        self.waiting.len().min(at_once.saturating_sub(self.under_way))
    }

    /// Whether the last writes all failed, so that another one is hardly worth trying.
    pub(super) fn fails(&self) -> bool {
        self.failed_in_a_row >= FAILED_WRITES_IN_A_ROW_MAX
    }

    /// A request that wrote `count` frames has ended.
    pub(super) fn ended(&mut self, count: usize) {
        self.under_way -= count;
    }

    pub(super) fn note_failure(&mut self) {
        self.failed_in_a_row += 1;
    }

    /// A changed page that was to leave is kept.
    pub(super) fn note_kept(&mut self) {
        if self.unchanged == Unchanged::None {
            self.unchanged = Unchanged::NoneAndKept;
        }
    }

    /// A frame has come free.
    pub(super) fn note_free(&mut self) {
        self.unchanged = Unchanged::Perhaps;
    }

    /// Unchanged pages were looked for, and `found` or not.
    pub(super) fn note_search(&mut self, found: bool) {
        match self.unchanged {
            _ if found => self.unchanged = Unchanged::Perhaps,
            Unchanged::Perhaps => self.unchanged = Unchanged::None,
            Unchanged::None | Unchanged::NoneAndKept => {}
        }
    }

    /// Whether no page is unchanged, and one that was to leave could not be written since that was
    /// found.
    pub(super) fn has_kept_all(&self) -> bool {
        self.unchanged == Unchanged::NoneAndKept
    }

    pub(super) fn note_success(&mut self) {
        self.failed_in_a_row = 0;
    }

    /// Takes the oldest `count` frames off the list. If the next pages are neighbours of the last
    /// one, takes some of them too, at most twice `count` in all.
    pub(super) fn take(&mut self, cache: &Cache, count: usize) -> SmallVec<[FrameId; 64]> {
        let page = |frame: FrameId| cache.page_in(frame).0;
        let neighbours = |pair: (&FrameId, &FrameId)| page(*pair.0).abs_diff(page(*pair.1)) == 1;
        let last = count.saturating_sub(1);
        let pairs = self.waiting.iter().skip(last).zip(self.waiting.iter().skip(last + 1));
        let more_max = GROUP_PAGES_MAX.min(count);
        let more = pairs.take(more_max).take_while(|pair| neighbours(*pair)).count();
        // A part of a long row is long enough.
        let more = Some(more).filter(|more| *more < more_max);
        self.waiting.drain(..count + more.unwrap_or(0)).collect()
    }

    /// Starts to write frames that were taken, in runs of neighbouring slots. Pages that are
    /// neighbours in memory become neighbours on flash, so that a later read can fetch them in one
    /// request. Returns the frames that cannot be written, because the log has ended.
    #[must_use]
    pub(super) fn start(
        &mut self,
        (requests, ring): (&mut Requests, &mut Ring),
        mut frames: SmallVec<[FrameId; 64]>,
        now: Time,
    ) -> SmallVec<[FrameId; 64]> {
        let shared = requests.shared();
        frames.sort_unstable_by_key(|frame| shared.cache.page_in(*frame));
        if shared.persist.is_some() {
            return self.start_to_persist((requests, ring), frames, now);
        }
        self.under_way += frames.len();
        if shared.in_place {
            start_in_place((requests, ring), &frames, now);
            return SmallVec::new();
        }
        let mut placement = shared.placement.lock();
        // The old copies are not needed: the pages move, and are newer in DRAM.
        frames.iter().filter_map(|frame| shared.cache.slot_of(*frame)).for_each(|slot| {
            placement.release(slot);
        });
        let mut groups = Groups::of(&shared.cache, &frames, ring.run_pages_max());
        let mut left = &frames[..];
        while !left.is_empty() {
            let run = placement.take_for(groups.next());
            let run = run.expect("there are as many slots as pages, and these pages have none");
            groups.leave(run.count);
            let page = shared.cache.page_in(left[0]);
            let (leaving, others) = left.split_at(run.count as usize);
            left = others;
            note_sent(&shared.cache, leaving);
            let write = Operation::new(Direction::Write, page, run.first, leaving.into(), now);
            requests.start(ring, write);
        }
        SmallVec::new()
    }

    /// As [`start`](WriteBack::start), for pages that survive a crash. Each keeps its last copy
    /// until the log has a record of the new one. Without a free slot, pages wait for the next
    /// flush, unless there will be none.
    fn start_to_persist(
        &mut self,
        (requests, ring): (&mut Requests, &mut Ring),
        frames: SmallVec<[FrameId; 64]>,
        now: Time,
    ) -> SmallVec<[FrameId; 64]> {
        let shared = requests.shared();
        let Some(persist) = &shared.persist else { return frames };
        let mut groups = Groups::of(&shared.cache, &frames, ring.run_pages_max());
        let mut left = &frames[..];
        while !left.is_empty() {
            let mut guarded = persist.lock();
            let Some(run) = guarded.journal.take_slots_for(groups.next()) else {
                if guarded.gives_up().is_some() {
                    return left.into();
                }
                drop(guarded);
                persist.ask_flush();
                left.iter().rev().for_each(|&frame| self.waiting.push_front(frame));
                break;
            };
            groups.leave(run.count);
            let (leaving, others) = left.split_at(run.count as usize);
            left = others;
            let mut covers = Lsn::ZERO;
            for &frame in leaving {
                covers = guarded.journal.freeze(shared.cache.page_in(frame)).covers;
            }
            drop(guarded);
            note_sent(&shared.cache, leaving);
            self.under_way += leaving.len();
            let page = shared.cache.page_in(leaving[0]);
            let write = Operation::new(Direction::Write, page, run.first, leaving.into(), now);
            requests.start(ring, Operation { covers, ..write });
        }
        SmallVec::new()
    }

    /// Starts writes of frames that were being written already.
    pub(super) fn start_again(
        &mut self,
        (requests, ring): (&mut Requests, &mut Ring),
        operations: impl Iterator<Item = Operation>,
    ) {
        for operation in operations {
            self.under_way += operation.frames.len();
            requests.start(ring, operation);
        }
    }
}

/// Starts to write frames, in the order of their pages, to the slots of these pages. A run of
/// neighbours is one request.
fn start_in_place((requests, ring): (&mut Requests, &mut Ring), frames: &[FrameId], now: Time) {
    let shared = requests.shared();
    let page = |frame: &FrameId| shared.cache.page_in(*frame);
    let runs = frames.chunk_by(|one, next| page(one).0 + 1 == page(next).0);
    let pages_max = ring.run_pages_max().min(frames.len());
    for run in runs.flat_map(|run| run.chunks(pages_max)) {
        note_sent(&shared.cache, run);
        let first = page(&run[0]);
        let write = Operation::new(Direction::Write, first, first.0 as u32, run.into(), now);
        requests.start(ring, write);
    }
}

/// Notes that the pages in these frames are being written.
fn note_sent(cache: &Cache, frames: &[FrameId]) {
    for &frame in frames {
        let sent = cache.apply(cache.page_in(frame), Event::Sent);
        debug_assert!(sent.is_nothing());
    }
}

/// The sizes of groups of frames, in the order of their pages, that hold neighbouring pages.
struct Groups {
    sizes: SmallVec<[u32; 64]>,
    /// How many of them have left as a whole.
    left: usize,
    /// The most pages in a request. No group has more.
    pages_max: usize,
}

impl Groups {
    /// The groups of `frames`, for requests of at most `pages_max` pages.
    fn of(cache: &Cache, frames: &[FrameId], pages_max: usize) -> Groups {
        let size_max = GROUP_PAGES_MAX.min(pages_max);
        let mut sizes = SmallVec::<[u32; 64]>::new();
        let mut next = None;
        for &frame in frames {
            let page = cache.page_in(frame);
            match sizes.last_mut() {
                Some(size) if next == Some(page.0) && (*size as usize) < size_max => *size += 1,
                _ => sizes.push(1),
            }
            next = Some(page.0 + 1);
        }
        Groups { sizes, left: 0, pages_max }
    }

    /// The next groups, as many as fit one request.
    fn next(&self) -> &[u32] {
        let next = &self.sizes[self.left..];
        let mut pages = 0;
        let fits = |size: &&u32| {
            pages += **size as usize;
            pages <= self.pages_max
        };
        &next[..next.iter().take_while(fits).count()]
    }

    /// The first `count` pages of the groups leave.
    fn leave(&mut self, count: u32) {
        let mut count = count;
        while count > 0 {
            let size = &mut self.sizes[self.left];
            let leaves = count.min(*size);
            (*size, count) = (*size - leaves, count - leaves);
            self.left += usize::from(*size == 0);
        }
    }
}
