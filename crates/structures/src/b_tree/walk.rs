//! Walks from the root to the page that holds a key. Also takes and frees pages of a tree.
//!
//! A walk takes no latch and reads one page at a time. The version of a page's latch shows if the
//! page has changed during the read. The fences of a page show if it is the one that the walk looks
//! for:
//!
//! * From a page that has been divided the walk goes on to the right.
//! * From a page that was freed it begins again.

use std::panic::resume_unwind;

use bytemuck::{Pod, Zeroable};
use ebbtide_core::{Addr, FullMemory, PAGE_BYTES, Value};

use super::BTree;
use super::inner;
use super::node::{Header, PageNumber, Shape, load_free, write_free};
use crate::retry::retry_faults;
use crate::row::Row;
use crate::{Corrupt, TreeError, latch};

/// The tree's own words, after the latch in its first page. Zeros are an empty tree.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Own {
    /// The root, with its level in the bits above; 0 before the first row.
    root: u64,
    /// Number of pages that were ever taken.
    used: u64,
    /// The first free page, which names the next.
    free: u64,
    /// How many times a page was freed.
    given_back: u64,
}

const OWN: u64 = 8;

impl Own {
    pub(super) fn root(&self) -> Option<(PageNumber, u8)> {
        (self.root != 0).then_some((self.root as PageNumber, (self.root >> 32) as u8))
    }

    /// True if a page may have been freed since `before`. The words of `before` may be of different
    /// moments.
    fn has_lost_a_page(&self, before: &Own) -> bool {
        (self.given_back, self.root) != (before.given_back, before.root)
    }
}

/// How a walk accesses the page that it looks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// To read: repeat until no writer has changed the page.
    Read,
    /// With its latch held.
    Write,
}

/// The position of a walk.
struct Spot<K> {
    number: PageNumber,
    level: u8,
    /// The lower fence of the page on the left that led here.
    after: Option<Option<K>>,
}

/// The next step of a walk from a page.
enum Step<T, K> {
    Here(T),
    Right(PageNumber, Option<K>),
    Down(PageNumber),
    /// The page is not the one that another page has named.
    Stale,
}

impl<K: Value + Ord> Spot<K> {
    /// Returns true if a page with this header can be the one that the walk to `key` was sent to.
    fn leads_to<R: Row>(&self, header: &Header<K>, key: Option<K>) -> bool {
        let has_children = (1..=Shape::<K, R>::CHILDREN).contains(&u64::from(header.children));
        header.level == self.level
            && header.low <= key
            && self.after.is_none_or(|after| header.low > after)
            && (header.level == 0 || has_children)
    }
}

impl<K: Value + Ord, R: Row> BTree<K, R> {
    pub(super) fn own<M: FullMemory>(&self, memory: &mut M) -> Own {
        memory.load(self.base + OWN)
    }

    /// Returns true if there is no root. A transaction that sees this checks it again when it
    /// commits.
    pub(super) fn is_empty<M: FullMemory>(&self, memory: &mut M) -> bool {
        memory.load_checked(self.base + OWN) == 0
    }

    /// The address of a page.
    ///
    /// # Errors
    /// When the tree has no such page.
    pub(super) fn address(&self, number: PageNumber) -> Result<Addr, Corrupt> {
        match u64::from(number) {
            number if number > 0 && number < self.pages => {
                Ok(self.base + number * PAGE_BYTES as u64)
            }
            _ => Err(self.wrong(&format!("a page leads to page {number}"))),
        }
    }

    /// The error that the tree is damaged.
    pub(super) fn wrong(&self, what: &str) -> Corrupt {
        Corrupt(format!("the tree of {} pages at {:?} is damaged: {what}", self.pages, self.base))
    }

    /// Calls `body` with the page of `level` that holds `key`. `None` as the key stands for the
    /// range before all keys. Returns `None` if the tree is lower than `level`. With
    /// [`Access::Read`], `body` may run more than once and must have no effect but its result.
    pub(super) fn at_page<M: FullMemory, T, E: From<Corrupt>>(
        &self,
        memory: &mut M,
        (key, level): (Option<K>, u8),
        access: Access,
        mut body: impl FnMut(&mut M, Addr, Header<K>) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        loop {
            let own = self.own(memory);
            let Some((number, root_level)) = own.root() else {
                if self.is_empty(memory) {
                    return Ok(None);
                }
                continue;
            };
            if root_level < level {
                return Ok(None);
            }
            let mut spot = Spot { number, level: root_level, after: None };
            loop {
                let page = self.address(spot.number)?;
                let look = |memory: &mut M| {
                    let header = Header::load::<M, R>(memory, page);
                    let Some(header) = header.filter(|header| spot.leads_to::<R>(header, key))
                    else {
                        return Ok(Step::Stale);
                    };
                    if header.high.is_some_and(|high| key >= Some(high)) {
                        return Ok(Step::Right(header.right, header.low));
                    }
                    if spot.level == level {
                        return body(memory, page, header).map(Step::Here);
                    }
                    Ok(Step::Down(inner::child::<M, K, R>(memory, page, &header, key)))
                };
                let step = match access {
                    Access::Write if spot.level == level => latch::write(memory, page, look),
                    _ => latch::read(memory, page, look),
                };
                spot = match step? {
                    Step::Here(result) => return Ok(Some(result)),
                    Step::Right(number, low) => Spot { number, after: Some(low), ..spot },
                    Step::Down(number) => Spot { number, level: spot.level - 1, after: None },
                    // A freed page is counted before its latch is released.
                    Step::Stale if self.own(memory).has_lost_a_page(&own) => break,
                    Step::Stale => {
                        let number = spot.number;
                        return Err(self
                            .wrong(&format!("page {number} is not what leads to it"))
                            .into());
                    }
                };
            }
        }
    }

    /// Makes an empty leaf the root, if there is none.
    pub(super) fn plant<M: FullMemory>(&self, memory: &mut M) -> Result<(), TreeError> {
        if self.own(memory).root().is_some() {
            return Ok(());
        }
        latch::write(memory, self.base, |memory| {
            if self.own(memory).root().is_some() {
                return Ok(());
            }
            let number = self.take_held(memory)?.ok_or_else(|| self.full())?;
            self.make_root(memory, (number, 0), |memory, page| {
                Header::<K>::new(0, 0, None, None).write::<M, R>(memory, page);
            })?;
            Ok(())
        })
    }

    /// Puts a root over the present one and `new`, if that is of the level below `level`. Returns
    /// true if it did.
    pub(super) fn grow<M: FullMemory>(
        &self,
        memory: &mut M,
        level: u8,
        new: inner::Child<K>,
    ) -> Result<bool, Corrupt> {
        let is_lower = |own: Own| own.root().filter(|(_, root_level)| *root_level < level);
        if is_lower(self.own(memory)).is_none() {
            return Ok(false);
        }
        latch::write(memory, self.base, |memory| {
            let Some((old, _)) = is_lower(self.own(memory)) else { return Ok(false) };
            if !self.is_there(memory, level, new)? {
                return Ok(true);
            }
            // Without a page for a new root the root stays. A page that it does not name is found
            // from its left.
            let Some(number) = self.take_held(memory)? else { return Ok(true) };
            self.make_root(memory, (number, level), |memory, page| {
                let mut header = Header::<K>::new(level, 0, None, None);
                header.children = inner::write::<M, K, R>(memory, page, 0, &[(new.0, old), new]);
                header.write::<M, R>(memory, page);
            })?;
            Ok(true)
        })
    }

    /// Makes a page, which `write` writes, the root of a level. The latch of the tree's first page
    /// is held.
    fn make_root<M: FullMemory>(
        &self,
        memory: &mut M,
        (number, level): (PageNumber, u8),
        write: impl FnOnce(&mut M, Addr),
    ) -> Result<(), Corrupt> {
        let page = self.address(number)?;
        // The commit of a transaction stores the number of the root before the page. A walk that
        // comes in between must wait for the page.
        latch::write(memory, page, |memory| {
            write(memory, page);
            self.set_root(memory, number, level);
        });
        Ok(())
    }

    /// True if `new` is still a page of the level below `level`, and not joined with the one on its
    /// left. The latch of the page above is held, or that of the tree's first page if there is
    /// none. So the page is not freed during the call.
    pub(super) fn is_there<M: FullMemory>(
        &self,
        memory: &mut M,
        level: u8,
        (low, number): inner::Child<K>,
    ) -> Result<bool, Corrupt> {
        let header = Header::<K>::load::<M, R>(memory, self.address(number)?);
        Ok(header.is_some_and(|header| header.level + 1 == level && header.low == Some(low)))
    }

    pub(super) fn set_root<M: FullMemory>(&self, memory: &mut M, number: PageNumber, level: u8) {
        memory.store(self.base + OWN, u64::from(level) << 32 | u64::from(number));
    }

    /// Takes a page. Its first word is a latch, and its other contents are arbitrary. `None` if all
    /// pages are in use.
    pub(super) fn take<M: FullMemory>(
        &self,
        memory: &mut M,
    ) -> Result<Option<PageNumber>, Corrupt> {
        latch::write(memory, self.base, |memory| self.take_held(memory))
    }

    fn take_held<M: FullMemory>(&self, memory: &mut M) -> Result<Option<PageNumber>, Corrupt> {
        let own = self.own(memory);
        if own.free != 0 {
            let number = PageNumber::try_from(own.free).unwrap_or(0);
            let next = load_free(memory, self.address(number)?);
            let next = next.ok_or_else(|| self.wrong(&format!("page {number} is not free")))?;
            memory.store(self.base + OWN + 16, u64::from(next));
            return Ok(Some(number));
        }
        // The first page is no node.
        let number = own.used.saturating_add(1);
        if number >= self.pages {
            return Ok(None);
        }
        memory.store(self.base + OWN + 8, number);
        Ok(PageNumber::try_from(number).ok())
    }

    /// Frees a page that no page leads to. Its latch is held, and that of the tree's first page,
    /// which has `own`.
    ///
    /// # Panics
    /// With the device's error, when it keeps failing to take the stores.
    pub(super) fn give_back<M: FullMemory>(
        &self,
        memory: &mut M,
        own: Own,
        number: PageNumber,
        page: Addr,
    ) {
        let given = retry_faults(|| {
            write_free(memory, page, own.free as PageNumber);
            let changed = [u64::from(number), own.given_back.wrapping_add(1)];
            memory.store(self.base + OWN + 16, changed);
        });
        given.unwrap_or_else(|payload| resume_unwind(payload));
    }

    /// The error that no page is left.
    pub(super) fn full(&self) -> TreeError {
        TreeError::Full { base: self.base, pages: self.pages }
    }
}
