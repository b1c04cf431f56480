//! Eviction: how a fault gets a token, and how victims leave in batches.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::fatal::fatal;
use super::protocol::Cleaned;
use super::space::Space;
use super::uffd::REMOVED_TOGETHER;
use crate::core::flash_memory::FlashMemory;

/// The longest wait for room in the engine. It fails only if the device takes no writes.
const PATIENCE: Duration = Duration::from_secs(30);

impl Space {
    /// Takes a token for a page that is about to be read. Evicts pages when few tokens are free.
    pub(super) fn take_token(&self, memory: &mut FlashMemory<'_>) -> u32 {
        let since = Instant::now();
        loop {
            let (token, left) = self.protocol.tokens.take();
            match token {
                Some(token) => {
                    if left < self.kept_free() && !self.evicting.swap(true, Ordering::Acquire) {
                        self.evict_some(memory);
                        self.evicting.store(false, Ordering::Release);
                    }
                    return token;
                }
                None => {
                    self.evict_some(memory);
                    if self.protocol.tokens.free_count() == 0 {
                        // All pages are pinned or on their way.
                        memory.pause();
                        check_patience(since, "all pages in DRAM are pinned");
                    }
                }
            }
        }
    }

    /// Free tokens that are kept ahead of need.
    fn kept_free(&self) -> usize {
        REMOVED_TOGETHER.min(self.protocol.tokens.count() / 16)
    }

    /// Evicts a batch of pages.
    fn evict_some(&self, memory: &mut FlashMemory<'_>) {
        let protocol = &self.protocol;
        let count = REMOVED_TOGETHER.min(protocol.tokens.count() / 8).max(1);
        let cleaning = protocol.evict(&protocol.tokens.victims(count));
        let mut clean = Vec::with_capacity(cleaning.len());
        for token in cleaning {
            match self.clean(memory, token) {
                Cleaned::Done => clean.push(token),
                _ => protocol.tokens.offer(token),
            }
        }
        protocol.remove(&clean);
    }

    /// Hands the engine the page of `token`, which is write-protected. Waits for room there.
    fn clean(&self, memory: &mut FlashMemory<'_>, token: u32) -> Cleaned {
        let page = self.protocol.tokens.page(token);
        let since = Instant::now();
        loop {
            let copy =
                || memory.try_replace_page(self.page_id(page), self.protocol.mapper.contents(page));
            let cleaned = self.protocol.clean(token, copy);
            if cleaned != Cleaned::NoRoom {
                let done = u64::from(cleaned == Cleaned::Done);
                self.counters.cleaned.fetch_add(done, Ordering::Relaxed);
                return cleaned;
            }
            memory.pause();
            check_patience(since, "the device takes no writes");
        }
    }
}

/// Ends the process after a long wait without success.
fn check_patience(since: Instant, why: &str) {
    if since.elapsed() > PATIENCE {
        fatal(format_args!("no mapped page could be freed for {PATIENCE:?}: {why}"));
    }
}
