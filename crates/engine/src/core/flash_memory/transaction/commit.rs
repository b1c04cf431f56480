//! The commit of a transaction. It brings its pages into DRAM, verifies its reads, logs its stores
//! and applies them.

use std::sync::Arc;

use ebbtide_core::durability::{Lsn, TransactionError};
use ebbtide_core::{FrameId, Hint, Memory, PageId};
use smallvec::SmallVec;

use super::places::Places;
use super::reads::{Look, Reads};
use super::{Again, Transaction};
use crate::core::flash_memory::FlashMemory;
use crate::persist::{Committed, Persist};

/// How often a commit looks for all its pages in DRAM before it waits for a turn. Pages that left
/// since the body used them are absent at the first look. Later only other jobs evict them.
const GATHERS_WITHOUT_TURN: u32 = 4;

/// Pages that were [claimed](crate::miss::Backside::claim), with their frames.
type Claims = SmallVec<[(PageId, FrameId); 8]>;

impl<'a> FlashMemory<'a> {
    /// Appends the stores and applies them, unless a word that was read has changed.
    pub(super) fn commit(
        &mut self,
        persist: &Arc<Persist>,
        transaction: &mut Transaction,
    ) -> Result<Result<Lsn, Again>, TransactionError> {
        let stored: SmallVec<[PageId; 16]> = transaction.set.pages().collect();
        if stored.len() > persist.pages_max {
            let (what, max) = (format!("to {} pages", stored.len()), persist.pages_max as u64);
            let bound = "an eighth of the frames";
            return Err(TransactionError::TooLarge { what, max, bound });
        }
        let mut reads: Reads<'a> = Reads::of(&transaction.latches, &transaction.checked);
        // The old contents of a page are needed if its reads are verified or a latch in it will be
        // released.
        let Transaction { latches, forgotten, .. } = transaction;
        let is_held = |page| latches.held().iter().any(|at| at.page() == page);
        forgotten.retain(|&page| !reads.looks_at(page) && !is_held(page));
        let all = all_pages(&stored, &reads);
        let in_parts = all.len() > persist.pages_max;
        let needed = if in_parts { &stored } else { &all };
        loop {
            if in_parts && let Err(changed) = self.check_in_parts(&mut reads) {
                return Ok(Err(Again::Changed(changed)));
            }
            match self.commit_once(persist, transaction, needed, &reads)? {
                Committed::Done(lsn, starved) => {
                    transaction.reserved = None;
                    self.wake_starved(starved);
                    return Ok(Ok(lsn));
                }
                Committed::Refused(Look::Changed(changed)) => {
                    return Ok(Err(Again::Changed(changed)));
                }
                Committed::Refused(Look::Unknown(pages)) => reads.check_again(&pages),
                Committed::NoSlots => return Ok(Err(Again::Slots(stored.len()))),
            }
        }
    }

    /// Tries to commit, with the `needed` pages in DRAM.
    fn commit_once(
        &mut self,
        persist: &Persist,
        transaction: &mut Transaction,
        needed: &[PageId],
        reads: &Reads<'_>,
    ) -> Result<Committed<Look>, TransactionError> {
        let (places, claimed) = self.places_of(persist, transaction, needed);
        let pool = &self.local.shared.pool;
        // All under the journal's lock: who has committed under one of these latches before had
        // taken it, and its word tells.
        let committed = persist.commit(
            &mut transaction.set,
            transaction.reserved.unwrap_or(0),
            || reads.look(pool, &places),
            |set| set.complete(|at| places.load(at)),
            |set| places.apply(set),
        );
        self.presence.exit();
        self.end_claims(&claimed, matches!(committed, Ok(Committed::Done(..))));
        committed
    }

    /// Returns the frames of `needed` pages, inside an epoch that begins here. The frames stay
    /// until its end, even if a page is given up in between. Absent pages that the transaction
    /// forgot are claimed instead of read, and their frames are returned as well.
    fn places_of(
        &mut self,
        persist: &Persist,
        transaction: &mut Transaction,
        needed: &[PageId],
    ) -> (Places, Claims) {
        let mut gathers = 0;
        loop {
            if gathers == GATHERS_WITHOUT_TURN && !transaction.has_turn {
                self.await_turn(persist);
                transaction.has_turn = true;
            }
            gathers += 1;
            self.presence.enter();
            let found: SmallVec<[Option<FrameId>; 16]> =
                needed.iter().map(|&page| self.hit_path.find(page)).collect();
            let absent = needed.iter().zip(&found).filter(|(_, frame)| frame.is_none());
            let absent: SmallVec<[PageId; 8]> = absent.map(|(page, _)| *page).collect();
            let mut read = absent.clone();
            read.retain(|page| !transaction.forgotten.contains(page));
            if read.is_empty() {
                if let Some(claimed) = self.claim(&absent) {
                    let mut fresh = claimed.iter().map(|(_, frame)| *frame);
                    let frames = found.iter().map(|frame| frame.or_else(|| fresh.next()));
                    let (pages, frames) = (needed.into(), frames.flatten().collect());
                    return (Places { pages, frames, hit_path: self.hit_path }, claimed);
                }
                read = absent;
            }
            self.presence.exit();
            // All of them at once.
            for page in &read {
                self.hint(Hint::WillNeed(page.start()));
            }
            for page in &read {
                self.load::<u64>(page.start());
            }
        }
    }

    /// Claims all of `pages`. If one cannot be claimed, has the claimed ones read instead and
    /// returns `None`.
    fn claim(&self, pages: &[PageId]) -> Option<Claims> {
        let mut claimed = Claims::new();
        if pages.is_empty() {
            return Some(claimed);
        }
        let mut backside = self.local.backside();
        for &page in pages {
            match backside.claim(page) {
                Some(frame) => claimed.push((page, frame)),
                None => {
                    for (page, _) in claimed {
                        backside.unclaim(page);
                    }
                    return None;
                }
            }
        }
        Some(claimed)
    }

    /// Shows claimed pages to other jobs. If the stores `have` not taken effect, the pages are as
    /// they were.
    fn end_claims(&mut self, claimed: &Claims, have: bool) {
        if claimed.is_empty() {
            return;
        }
        let mut backside = self.local.backside();
        for &(page, _) in claimed {
            if have {
                backside.reveal(page);
            } else {
                backside.unclaim(page);
            }
        }
        self.accesses += if have { claimed.len() as u64 } else { 0 };
    }
}

/// The pages that are `stored` to and the pages of `reads`, in order.
fn all_pages(stored: &[PageId], reads: &Reads<'_>) -> SmallVec<[PageId; 16]> {
    let mut all: SmallVec<[PageId; 16]> = stored.iter().copied().chain(reads.pages()).collect();
    all.sort_unstable();
    all.dedup();
    all
}
