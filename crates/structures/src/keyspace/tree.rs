//! The index of one database: a tree of pages over hashes, with leaves that divide where keys are.
//!
//! It is a B-link tree (Lehman and Yao, TODS 1981) whose keys are hashes: a search takes no latch and
//! notices by versions that a page has changed under it; a writer holds one page at a time. Pages are
//! never merged: keys that come later refill them.

use ebbtide_core::{Addr, Hint, Memory};

use super::inner;
use super::layout::{HASHES, PAGE_WORDS, PageHeader, PageNumber};
use super::leaf;
use super::pages::{Full, Pages};
use crate::latch;

/// Where the words of a database lie in its line of the header page.
const LATCH: u64 = 0;
pub(super) const ROOT: u64 = 8;

/// A tree, by the address of its line in the header page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree {
    pub(super) line: Addr,
    pub(super) pages: Pages,
}

/// What a writer says of the leaf that it was shown.
pub(super) enum Step<R> {
    Done(R),
    /// The leaf has too little room: divide it and come again.
    Divide,
}

/// How a full leaf got room.
enum Made {
    /// A new leaf, which begins at this hash.
    Leaf(u64, PageNumber),
    /// The leaf that follows begins at `to`, and no longer at `from`.
    Shift { from: u64, to: u64, leaf: PageNumber },
}

/// Entries are moved to the leaf that follows if it has as many words free.
const SHIFT_ROOM_WORDS: usize = PAGE_WORDS as usize / 4;

/// Where a hash lies, as one page says.
enum Next {
    Here,
    Right(PageNumber),
    Down(PageNumber),
}

impl Tree {
    /// Makes the tree a single empty leaf.
    pub(super) fn format<M: Memory>(&self, memory: &mut M) -> Result<(), Full> {
        let leaf = self.pages.take(memory)?;
        let header = PageHeader {
            level: 0,
            low: 0,
            high: HASHES,
            right: 0,
            count: 0,
            heap: PAGE_WORDS as u16,
            garbage: 0,
        };
        let page = self.pages.address(leaf);
        header.store(memory, page);
        memory.store(self.line + ROOT, u64::from(leaf));
        Ok(())
    }

    /// The latch that changes of the root hold.
    pub(super) fn latch(&self) -> Addr {
        self.line + LATCH
    }

    /// The root and its level; `None` before the first key.
    pub(super) fn root<M: Memory>(&self, memory: &mut M) -> Option<(PageNumber, u8)> {
        let root: u64 = memory.load(self.line + ROOT);
        (root != 0).then_some((root as u32, (root >> 32) as u8))
    }

    /// Takes the tree away and gives its root.
    pub(super) fn take<M: Memory>(&self, memory: &mut M) -> Option<PageNumber> {
        latch::write(memory, self.latch(), |memory| {
            let root = self.root(memory)?.0;
            memory.store(self.line + ROOT, 0u64);
            Some(root)
        })
    }

    /// Reads the leaf of `hash` until no writer intervened: `body` must have no effect but its
    /// result. `None` if there is no tree.
    pub(super) fn read<M: Memory, R>(
        &self,
        memory: &mut M,
        hash: u64,
        mut body: impl FnMut(&mut M, Addr, &PageHeader) -> R,
    ) -> Option<R> {
        let mut number = self.descend(memory, hash, 0)?;
        loop {
            let page = self.pages.address(number);
            let read = latch::read(memory, page, |memory| {
                let header = PageHeader::load(memory, page);
                if hash < header.high { Ok(body(memory, page, &header)) } else { Err(header.right) }
            });
            match read {
                Ok(result) => return Some(result),
                Err(right) => number = right,
            }
        }
    }

    /// Shows the leaf of `hash` to `body` with its latch held, and divides it as often as `body`
    /// asks for that.
    pub(super) fn write<M: Memory, R>(
        &self,
        memory: &mut M,
        hash: u64,
        mut body: impl FnMut(&mut M, Addr, &mut PageHeader) -> Step<R>,
    ) -> Result<R, Full> {
        if self.root(memory).is_none() {
            latch::write(memory, self.latch(), |memory| match self.root(memory) {
                None => self.format(memory),
                Some(_) => Ok(()),
            })?;
        }
        let mut number = self.descend(memory, hash, 0).expect("there is a root");
        loop {
            let page = self.pages.address(number);
            let result = latch::write(memory, page, |memory| {
                let mut header = PageHeader::load(memory, page);
                if hash >= header.high {
                    return Ok(Err(Err(header.right)));
                }
                match body(memory, page, &mut header) {
                    Step::Done(result) => Ok(Ok(result)),
                    Step::Divide => self.make_room(memory, page, header).map(|made| Err(Ok(made))),
                }
            })?;
            match result {
                Ok(result) => return Ok(result),
                Err(Err(right)) => number = right,
                Err(Ok(Made::Leaf(separator, leaf))) => self.link(memory, 1, separator, leaf)?,
                Err(Ok(Made::Shift { from, to, leaf })) => self.lower(memory, (from, to), leaf),
            }
        }
    }

    /// Asks for the leaf of `hash`.
    pub(super) fn hint<M: Memory>(&self, memory: &mut M, hash: u64) {
        let Some((_, root_level)) = self.root(memory) else { return };
        let Some(number) = self.descend(memory, hash, root_level.min(1)) else { return };
        let page = self.pages.address(number);
        let leaf = latch::read(memory, page, |memory| {
            let header = PageHeader::load(memory, page);
            // A neighbour of a page just divided is not worth a second look.
            let is_it = header.level == 1 && hash < header.high;
            is_it.then(|| inner::child(memory, page, &header, hash))
        });
        if let Some(leaf) = leaf {
            memory.hint(Hint::WillNeed(self.pages.address(leaf)));
        }
    }

    /// The page of `level` that holds `hash`, or one left of it.
    fn descend<M: Memory>(&self, memory: &mut M, hash: u64, level: u8) -> Option<PageNumber> {
        let (mut number, _) = self.root(memory)?;
        loop {
            let page = self.pages.address(number);
            let next = latch::read(memory, page, |memory| {
                let header = PageHeader::load(memory, page);
                if hash >= header.high {
                    Next::Right(header.right)
                } else if header.level <= level {
                    Next::Here
                } else {
                    Next::Down(inner::child(memory, page, &header, hash))
                }
            });
            match next {
                Next::Here => return Some(number),
                Next::Right(other) | Next::Down(other) => number = other,
            }
        }
    }

    /// Makes room in a full leaf, whose latch is held: moves some of its entries to the leaf that follows, if
    /// that has more than a little room, or divides it. So leaves are fuller than halves of divided ones.
    fn make_room<M: Memory>(
        &self,
        memory: &mut M,
        page: Addr,
        header: PageHeader,
    ) -> Result<Made, Full> {
        if self.has_next_beside_it(memory, &header)
            && let Some(begins) = self.shift(memory, page, header)
        {
            return Ok(Made::Shift { from: header.high, to: begins, leaf: header.right });
        }
        let (separator, leaf) = self.divide_leaf(memory, page, header)?;
        Ok(Made::Leaf(separator, leaf))
    }

    /// Whether the leaf that follows has the same page above it, so that a look-up finds it at once when it begins
    /// earlier.
    fn has_next_beside_it<M: Memory>(&self, memory: &mut M, header: &PageHeader) -> bool {
        let last = header.high - 1;
        if header.right == 0 || self.root(memory).is_none_or(|(_, level)| level == 0) {
            return false;
        }
        let Some(above) = self.descend(memory, last, 1) else { return false };
        let page = self.pages.address(above);
        latch::read(memory, page, |memory| PageHeader::load(memory, page).high > header.high)
    }

    /// Moves the last entries of a leaf, whose latch is held, to the one that follows, so that both are about as
    /// full. Gives the hash from which that begins then; `None` if it has too little room.
    fn shift<M: Memory>(&self, memory: &mut M, page: Addr, mut header: PageHeader) -> Option<u64> {
        // Leaves are latched from left to right.
        let next_page = self.pages.address(header.right);
        latch::write(memory, next_page, |memory| {
            let mut next = PageHeader::load(memory, next_page);
            if leaf::free_words(&next) < SHIFT_ROOM_WORDS {
                return None;
            }
            let mut entries = leaf::read(memory, page, &header);
            entries.sort_by_key(|(hash, _)| *hash);
            let from = leaf::balance(&entries, leaf::free_words(&next))?;
            let mut moved = entries.split_off(from);
            let begins = moved[0].0;
            moved.extend(leaf::read(memory, next_page, &next));
            next.low = begins;
            leaf::write(memory, next_page, &mut next, &moved);
            header.high = begins;
            leaf::write(memory, page, &mut header, &entries);
            Some(begins)
        })
    }

    /// Tells the page above that `leaf` begins at `to` now, and not at `from`. Until then a look-up of what is between
    /// goes there by way of the leaf on its left.
    fn lower<M: Memory>(&self, memory: &mut M, (from, to): (u64, u64), leaf: PageNumber) {
        let mut next = self.descend(memory, from, 1);
        while let Some(number) = next {
            let page = self.pages.address(number);
            next = latch::write(memory, page, |memory| {
                let header = PageHeader::load(memory, page);
                if from >= header.high {
                    return Some(header.right);
                }
                inner::lower(memory, page, &header, (from, leaf), to);
                None
            });
        }
    }

    /// Moves the upper half of a full leaf, whose latch is held, to a new page.
    fn divide_leaf<M: Memory>(
        &self,
        memory: &mut M,
        page: Addr,
        mut header: PageHeader,
    ) -> Result<inner::Child, Full> {
        let mut entries = leaf::read(memory, page, &header);
        entries.sort_by_key(|(hash, _)| *hash);
        // More keys of one 48-bit hash than a page holds do not occur with a secret hash.
        let middle = leaf::middle(&entries).ok_or(Full)?;
        let number = self.pages.take(memory)?;
        let upper = entries.split_off(middle);
        let separator = upper[0].0;
        let mut right = PageHeader { low: separator, ..header };
        let new_page = self.pages.address(number);
        leaf::write(memory, new_page, &mut right, &upper);
        header.high = separator;
        header.right = number;
        leaf::write(memory, page, &mut header, &entries);
        Ok((separator, number))
    }

    /// Tells `level` of a page that was made by dividing one below it.
    fn link<M: Memory>(
        &self,
        memory: &mut M,
        level: u8,
        separator: u64,
        child: PageNumber,
    ) -> Result<(), Full> {
        let new = (separator, child);
        let grown = latch::write(memory, self.latch(), |memory| {
            let (root, root_level) = self.root(memory).expect("there is a root");
            if root_level >= level { Ok(false) } else { self.grow(memory, root, level, new) }
        })?;
        if grown {
            return Ok(());
        }
        let mut number = self.descend(memory, separator, level).expect("there is a root");
        loop {
            let page = self.pages.address(number);
            let divided = latch::write(memory, page, |memory| {
                let mut header = PageHeader::load(memory, page);
                if separator >= header.high {
                    return Ok(Err(header.right));
                }
                if header.count < inner::CHILDREN_MAX {
                    inner::insert(memory, page, &mut header, new);
                    return Ok(Ok(None));
                }
                self.divide_inner(memory, page, header).map(|above| Ok(Some(above)))
            })?;
            match divided {
                Ok(None) => return Ok(()),
                Ok(Some((above, page))) => self.link(memory, level + 1, above, page)?,
                Err(right) => number = right,
            }
        }
    }

    /// Puts a new root over the old one and `new`. The tree's latch is held.
    fn grow<M: Memory>(
        &self,
        memory: &mut M,
        root: PageNumber,
        level: u8,
        new: inner::Child,
    ) -> Result<bool, Full> {
        let number = self.pages.take(memory)?;
        let page = self.pages.address(number);
        let mut header =
            PageHeader { level, low: 0, high: HASHES, right: 0, count: 0, heap: 0, garbage: 0 };
        inner::write(memory, page, &mut header, &[(0, root), new]);
        memory.store(self.line + ROOT, u64::from(level) << 32 | u64::from(number));
        Ok(true)
    }

    /// Moves the upper half of a full inner page, whose latch is held, to a new page.
    fn divide_inner<M: Memory>(
        &self,
        memory: &mut M,
        page: Addr,
        mut header: PageHeader,
    ) -> Result<inner::Child, Full> {
        let number = self.pages.take(memory)?;
        let mut children = inner::read(memory, page, &header);
        let upper = children.split_off(children.len() / 2);
        let separator = upper[0].0;
        let new_page = self.pages.address(number);
        let mut right = PageHeader { low: separator, ..header };
        inner::write(memory, new_page, &mut right, &upper);
        header.high = separator;
        header.right = number;
        header.count = children.len() as u16;
        header.store(memory, page);
        Ok((separator, number))
    }
}
