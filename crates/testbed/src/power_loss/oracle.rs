//! Conditions that a store must meet after a loss of power.

use std::rc::Rc;

use ebbtide_core::durability::{
    Journal, Lsn, Mapped, Page, Recovered, RecoveryError, RecoveryOptions, recover,
};
use ebbtide_core::{Addr, PageId, Watch};
use thiserror::Error;

use super::disk::DiskModel;
use super::setting::Setting;

/// A condition that was broken.
#[derive(Debug, Clone, Error)]
#[error("{what}")]
pub struct Violation {
    /// The condition, in one line.
    pub what: String,
}

impl Violation {
    pub(super) fn new(what: impl Into<String>) -> Violation {
        Violation { what: what.into() }
    }
}

/// The words of a page that short transactions store to: two neighbours, one of another line, and
/// the last.
pub(super) const WORDS_OF_PAGE: [u64; 4] = [0, 1, 9, 511];

/// The word of a page that counts the transactions that have stored to it.
pub(super) const COUNT_WORD: u64 = 2;

/// The word of a page with the count of another page, as the last transaction has read it.
pub(super) const READ_WORD: u64 = 3;

/// The contents of all pages. Copies share equal parts.
#[derive(Clone, Debug)]
pub struct State {
    pages: Vec<Rc<Page>>,
}

impl State {
    /// All zeros.
    pub fn blank(pages: u64) -> State {
        let blank = Rc::new([0; 4096]);
        State { pages: (0..pages).map(|_| blank.clone()).collect() }
    }

    /// Stores a word.
    pub fn set(&mut self, at: Addr, value: u64) {
        let page = Rc::make_mut(&mut self.pages[at.page().index()]);
        page[at.page_offset()..][..8].copy_from_slice(&value.to_ne_bytes());
    }

    pub(super) fn get(&self, at: Addr) -> u64 {
        let word = self.pages[at.page().index()][at.page_offset()..].first_chunk();
        u64::from_ne_bytes(*word.expect("a page is made of words"))
    }

    pub(super) fn page(&self, page: PageId) -> &Page {
        &self.pages[page.index()]
    }

    /// The largest word.
    pub(super) fn newest_value(&self) -> u64 {
        let words = self.pages.iter().flat_map(|page| page.as_chunks::<8>().0);
        words.map(|word| u64::from_ne_bytes(*word)).max().unwrap_or(0)
    }

    /// Returns true if the two are equal.
    fn is_like(&self, other: &State) -> bool {
        let mut pages = self.pages.iter().zip(&other.pages);
        pages.all(|(one, two)| Rc::ptr_eq(one, two) || one == two)
    }

    /// Returns the pages that differ between the two.
    pub fn differences(&self, other: &State) -> Vec<PageId> {
        let pages = self.pages.iter().zip(&other.pages).enumerate();
        let different = pages.filter(|(_, (one, two))| !Rc::ptr_eq(one, two) && one != two);
        different.map(|(page, _)| PageId(page as u64)).collect()
    }
}

/// A recovered store.
#[derive(Debug)]
pub struct Back {
    /// Its journal.
    pub journal: Journal,
    /// The report of recovery.
    pub recovered: Recovered,
    /// The contents of its pages. Poisoned ones hold zeros.
    pub state: State,
}

/// Recovers the store on `disk` and reads all of it.
///
/// # Errors
/// When recovery fails.
pub fn bring_back(setting: &Setting, disk: &mut DiskModel) -> Result<Back, RecoveryError> {
    bring_back_with(setting, disk, setting.recovery().pages_at_once)
}

/// As [`bring_back`], with DRAM for `pages_at_once` pages.
pub(super) fn bring_back_with(
    setting: &Setting,
    disk: &mut DiskModel,
    pages_at_once: usize,
) -> Result<Back, RecoveryError> {
    let options = RecoveryOptions { pages_at_once, ..setting.recovery() };
    let watch = Watch::unattended();
    let (journal, recovered) = recover(setting.geometry, disk, &options, watch)?;
    let read = |page| match journal.map().get(page) {
        Mapped::Slot { slot, .. } => Rc::new(*disk.contents(setting.geometry.slot(slot))),
        Mapped::Blank | Mapped::Poisoned => Rc::new([0; 4096]),
    };
    let state =
        State { pages: (0..setting.geometry.pages).map(|page| read(PageId(page))).collect() };
    Ok(Back { journal, recovered, state })
}

/// Checks a recovered store against the `states` after each transaction. Transactions that end at
/// `acknowledged` or before were acknowledged. Returns the index of the newest state that matches.
///
/// # Errors
/// When something acknowledged is missing, a transaction is not whole, or it is no prefix.
pub fn check_back(
    back: &Back,
    states: &[(Lsn, State)],
    acknowledged: Lsn,
) -> Result<usize, Violation> {
    if !back.recovered.poisoned.is_empty() {
        return Err(Violation::new(format!(
            "poisoned without damage: {:?}",
            back.recovered.poisoned
        )));
    }
    let first = states.partition_point(|(end, _)| *end <= acknowledged) - 1;
    let found = (first..states.len()).rev().find(|&k| states[k].1.is_like(&back.state));
    found.ok_or_else(|| {
        let lost = (0..first).rev().find(|&k| states[k].1.is_like(&back.state));
        Violation::new(match lost {
            Some(k) => format!(
                "{} acknowledged transactions are missing of {} (of {} in all)",
                first - k,
                first,
                states.len() - 1
            ),
            None => format!(
                "no prefix of the {} transactions: pages {:?} differ from the last",
                states.len() - 1,
                states[states.len() - 1].1.differences(&back.state)
            ),
        })
    })
}
