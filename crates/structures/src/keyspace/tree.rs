//! The index of one database: a tree of pages over hashes. Leaves are divided where keys are.
//!
//! It is a B-link tree (Lehman and Yao, TODS 1981) whose keys are hashes. A search takes no latch.
//! It reads the word of a page's latch while the page that leads there is unchanged, and begins
//! again if that word changes later. A page may therefore be freed at once: a search that still
//! knows it finds its latch changed. [The word of a latch never
//! repeats](super::pages::Pages::begin). The source is Leis, Haubenschild and Neumann, "Optimistic
//! Lock Coupling" (Data Engineering Bulletin 2019).
//!
//! A full leaf shares its entries with its right neighbour. If both are full they become three, as
//! in a B*-tree (Knuth, "The Art of Computer Programming", volume 3, section 6.2.4). So leaves are
//! fuller than halves of divided ones. Leaves that have lost entries are [joined](super::join).

use ebbtide_core::{Addr, FullMemory, Hint};
use smallvec::{SmallVec, smallvec};

use super::due_record::Named;
use super::inner;
use super::layout::{HASHES, LEAF_BYTES, PageHeader, PageNumber, SLOT_BYTES};
use super::leaf::{self, NoRoom, Taken};
use super::order::Order;
use super::pages::{Full, Pages, RESERVE_PAGES};
use crate::latch;

/// Offsets of the words of a tree in the line of its database in the header page.
const LATCH: u64 = 0;
pub(super) const ROOT: u64 = 8;

/// A tree, by the address of its words in the header page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree {
    pub(super) line: Addr,
    pub(super) pages: Pages,
    pub(super) order: Order,
}

/// The records of leaves.
pub(super) fn records(leaves: &[Held]) -> Named {
    leaves.iter().map(|(_, header)| (header.due, header.low)).collect()
}

/// The answer of a writer about the leaf that it was shown.
pub(super) enum Step<R> {
    Done(R),
    /// The leaf has too little room: make some and call again.
    MakeRoom(NoRoom),
}

/// A page that belongs to the tree, with the word of its latch then.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    number: PageNumber,
    pub(super) page: Addr,
    pub(super) word: u64,
}

/// A leaf whose latch is held.
pub(super) type Held = (PageNumber, PageHeader);

/// Two leaves share their entries, instead of becoming three, if this many bytes are then free.
const SHARE_FREE_BYTES: usize = LEAF_BYTES / 4;

/// The place of a hash, according to one page.
enum Next {
    Here,
    Right(PageNumber),
    Down(PageNumber),
}

impl Tree {
    /// Makes the tree a single empty leaf.
    fn format<M: FullMemory>(&self, memory: &mut M) -> Result<(), Full> {
        let leaf = self.pages.take(memory, self.spare_pages())?;
        self.pages.begin(memory, leaf, |memory, page| {
            PageHeader::empty(0, 0, HASHES).store(memory, page);
        });
        memory.store(self.line + ROOT, u64::from(leaf));
        Ok(())
    }

    /// Returns the pages that a new leaf leaves to the rest of the index.
    fn spare_pages(&self) -> u64 {
        match self.order {
            Order::Hashed(_) => RESERVE_PAGES,
            Order::Due => 0,
        }
    }

    /// Returns the latch that a change of the root holds.
    fn latch(&self) -> Addr {
        self.line + LATCH
    }

    /// The root and its level; `None` before the first key.
    pub(super) fn root<M: FullMemory>(&self, memory: &mut M) -> Option<(PageNumber, u8)> {
        let root: u64 = memory.load(self.line + ROOT);
        (root != 0).then_some((root as u32, (root >> 32) as u8))
    }

    /// Removes the tree and returns its root.
    pub(super) fn take<M: FullMemory>(&self, memory: &mut M) -> Option<PageNumber> {
        latch::write(memory, self.latch(), |memory| {
            let root = self.root(memory)?.0;
            memory.store(self.line + ROOT, 0u64);
            Some(root)
        })
    }

    /// Reads the leaf of `hash`. Repeats `body` until no writer intervened, so `body` must have no
    /// effect but its result. `None` if there is no tree.
    pub(super) fn read<M: FullMemory, R>(
        &self,
        memory: &mut M,
        hash: u64,
        mut body: impl FnMut(&mut M, Addr, &PageHeader) -> R,
    ) -> Option<R> {
        loop {
            let Seen { page, word, .. } = self.descend(memory, hash, 0)?;
            let read = latch::read_if(memory, page, word, |memory| {
                let header = PageHeader::load(memory, page);
                body(memory, page, &header)
            });
            if read.is_some() {
                return read;
            }
        }
    }

    /// Calls `body` with the page of `level` that holds `hash`, with its latch held. `None` if
    /// there is no tree.
    fn hold<M: FullMemory, R>(
        &self,
        memory: &mut M,
        hash: u64,
        level: u8,
        mut body: impl FnMut(&mut M, Held, Addr) -> R,
    ) -> Option<R> {
        loop {
            let Seen { number, page, word } = self.descend(memory, hash, level)?;
            let held = latch::write_if(memory, page, word, |memory| {
                let header = PageHeader::load(memory, page);
                body(memory, (number, header), page)
            });
            if held.is_some() {
                return held;
            }
        }
    }

    /// Calls `body` with the leaf of `hash`, with its latch held. Makes room in the leaf when
    /// `body` asks for it.
    pub(super) fn write<M: FullMemory, R>(
        &self,
        memory: &mut M,
        hash: u64,
        mut body: impl FnMut(&mut M, Addr, &mut PageHeader) -> Step<R>,
    ) -> Result<R, Full> {
        loop {
            let written =
                self.hold(memory, hash, 0, |memory, (number, mut header), page| {
                    match body(memory, page, &mut header) {
                        Step::Done(result) => Ok(Ok(result)),
                        Step::MakeRoom(more) => {
                            self.make_room(memory, (number, header), more).map(|()| Err(()))
                        }
                    }
                });
            match written {
                None => latch::write(memory, self.latch(), |memory| match self.root(memory) {
                    None => self.format(memory),
                    Some(_) => Ok(()),
                })?,
                Some(Err(full)) => return Err(full),
                Some(Ok(Ok(result))) => return Ok(result),
                Some(Ok(Err(()))) => {}
            }
        }
    }

    /// Hints the leaf of `hash`.
    pub(super) fn hint<M: FullMemory>(&self, memory: &mut M, hash: u64) {
        let Some((_, root_level)) = self.root(memory) else { return };
        let Some(Seen { page, .. }) = self.descend(memory, hash, root_level.min(1)) else { return };
        // If the page changes during this, the hint names the wrong page.
        let header = PageHeader::load(memory, page);
        if header.level == 1 {
            let leaf = inner::child(memory, page, &header, hash);
            memory.hint(Hint::WillNeed(self.pages.address_of_any(leaf)));
        }
    }

    /// Returns the page of `level` that holds `hash`. In a tree that is lower, returns a page below
    /// `level`.
    pub(super) fn descend<M: FullMemory>(
        &self,
        memory: &mut M,
        hash: u64,
        level: u8,
    ) -> Option<Seen> {
        'anew: loop {
            let root = self.root(memory)?;
            let mut seen = self.see(memory, root.0);
            if self.root(memory) != Some(root) {
                continue;
            }
            loop {
                let next = next(memory, seen.page, hash, level);
                // The words that were read are right, and so is a number in them.
                if !latch::is_still(memory, seen.page, seen.word) {
                    continue 'anew;
                }
                let (Next::Right(number) | Next::Down(number)) = next else { return Some(seen) };
                let after = self.see(memory, number);
                // The page still led there when the word of the other was read.
                if !latch::is_still(memory, seen.page, seen.word) {
                    continue 'anew;
                }
                seen = after;
            }
        }
    }

    fn see<M: FullMemory>(&self, memory: &mut M, number: PageNumber) -> Seen {
        let page = self.pages.address(number);
        Seen { number, page, word: latch::word(memory, page) }
    }

    /// Makes room for an entry in a full leaf, whose latch is held.
    fn make_room<M: FullMemory>(
        &self,
        memory: &mut M,
        (number, header): Held,
        more: NoRoom,
    ) -> Result<(), Full> {
        if !self.has_next_beside_it(memory, &header) {
            return self.divide(memory, smallvec![(number, header)], more);
        }
        // Leaves are latched from left to right. The next one stays, because a join that removes it
        // also holds this one.
        let next = self.pages.address(header.right);
        latch::write(memory, next, |memory| {
            let next = (header.right, PageHeader::load(memory, next));
            self.divide(memory, smallvec![(number, header), next], more)
        })
    }

    /// Returns true if the leaf that follows has the same page above it, so that a look-up finds it
    /// at once when it begins earlier.
    fn has_next_beside_it<M: FullMemory>(&self, memory: &mut M, header: &PageHeader) -> bool {
        let last = header.high - 1;
        if header.right == 0 || self.root(memory).is_none_or(|(_, level)| level == 0) {
            return false;
        }
        let Some(above) = self.descend(memory, last, 1) else { return false };
        PageHeader::load(memory, above.page).high > header.high
    }

    /// Spreads the entries of one or two leaves over them, or over one more, so that there is room
    /// for `more` in the first. Their latches are held until the page above knows where the leaves
    /// now begin. If a job changed them before that, the page above would never learn it.
    fn divide<M: FullMemory>(
        &self,
        memory: &mut M,
        mut leaves: SmallVec<[Held; 3]>,
        more: NoRoom,
    ) -> Result<(), Full> {
        let entries = self.entries(memory, &leaves);
        let mut sizes = sizes(&entries);
        sizes
            .insert(sizes.partition_point(|(hash, _)| *hash <= more.hash), (more.hash, more.bytes));
        let first_end = leaves[0].1.high;
        let shared = || (leaves.len() > 1).then(|| leaf::spread(&sizes, leaves.len(), first_end));
        let early = may_share(&sizes, leaves.len(), more.bytes).then(shared).flatten().flatten();
        let named = records(&leaves);
        let mut new = None;
        let begins = match early {
            Some(begins) => begins,
            None => match self.pages.take(memory, self.spare_pages()) {
                Ok(number) => {
                    let Some(begins) = leaf::spread(&sizes, leaves.len() + 1, first_end) else {
                        // More keys of one 48-bit hash than a page holds do not occur with a secret
                        // hash.
                        self.pages.give(memory, number);
                        return Err(Full);
                    };
                    let (_, last) = leaves.last_mut().expect("there is one at least");
                    let header = *last;
                    last.right = number;
                    leaves.push((number, header));
                    new = begins.last().map(|begin| (*begin, number));
                    begins
                }
                // It goes on without another page while it can.
                Err(full) => shared().flatten().ok_or(full)?,
            },
        };
        match new {
            // It holds no entry yet, so nothing is due in it either.
            Some((_, number)) => {
                let (_, header) = leaves.last_mut().expect("there is one at least");
                header.due = 0;
                self.pages.begin(memory, number, |memory, _| {
                    self.fill(memory, &mut leaves, &begins, &entries, named);
                });
            }
            None => self.fill(memory, &mut leaves, &begins, &entries, named),
        }
        // Separators above stay in order: the new leaf follows the lowered one.
        if leaves.len() - usize::from(new.is_some()) == 2 {
            self.lower(memory, (first_end, leaves[1].0), begins[0]);
        }
        match new {
            Some((begins, leaf)) => self.link(memory, 1, begins, leaf),
            None => Ok(()),
        }
    }

    /// The entries of neighbouring leaves, whose latches are held, in the order of their hashes.
    pub(super) fn entries<M: FullMemory>(&self, memory: &mut M, leaves: &[Held]) -> Vec<Taken> {
        let mut entries = Vec::new();
        for (number, header) in leaves {
            entries.extend(leaf::read(memory, self.pages.address(*number), header, &self.order));
        }
        entries
    }

    /// Writes entries to neighbouring leaves, whose latches are held. The leaves after the first
    /// now begin at `begins`. `named` are the [records] of the leaves that had the entries.
    pub(super) fn fill<M: FullMemory>(
        &self,
        memory: &mut M,
        leaves: &mut [Held],
        begins: &[u64],
        entries: &[Taken],
        mut named: Named,
    ) {
        for (index, begin) in begins.iter().enumerate() {
            leaves[index].1.high = *begin;
            leaves[index + 1].1.low = *begin;
        }
        let mut rest = entries;
        for (number, header) in leaves {
            let (own, later) =
                rest.split_at(rest.partition_point(|taken| taken.hash < header.high));
            self.name_due(memory, header, own, &mut named);
            header.sparse = false;
            leaf::set_entries(memory, self.pages.address(*number), header, own);
            rest = later;
        }
        self.unname_due(memory, &named);
    }

    /// Tells the page above that a leaf begins earlier, at `to`. Until then, a look-up of a hash in
    /// between goes by way of the leaf on its left.
    fn lower<M: FullMemory>(&self, memory: &mut M, leaf: inner::Child, to: u64) {
        self.hold(memory, leaf.0, 1, |memory, (_, header), page| {
            inner::lower(memory, page, &header, leaf, to);
        });
    }

    /// Inserts a page, which was made by dividing one below, into `level`.
    fn link<M: FullMemory>(
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
        loop {
            let divided = self.hold(memory, separator, level, |memory, (_, mut header), page| {
                if header.count < inner::CHILDREN_MAX {
                    inner::insert(memory, page, &mut header, new);
                    return Ok(None);
                }
                self.divide_inner(memory, page, header).map(Some)
            });
            match divided.expect("there is a root")? {
                None => return Ok(()),
                Some((above, page)) => self.link(memory, level + 1, above, page)?,
            }
        }
    }

    /// Puts a new root over the old one and `new`. The tree's latch is held.
    fn grow<M: FullMemory>(
        &self,
        memory: &mut M,
        root: PageNumber,
        level: u8,
        new: inner::Child,
    ) -> Result<bool, Full> {
        let number = self.pages.take(memory, 0)?;
        self.pages.begin(memory, number, |memory, page| {
            let mut header = PageHeader::empty(level, 0, HASHES);
            inner::write(memory, page, &mut header, &[(0, root), new]);
        });
        memory.store(self.line + ROOT, u64::from(level) << 32 | u64::from(number));
        Ok(true)
    }

    /// Moves the upper half of a full inner page, whose latch is held, to a new page.
    fn divide_inner<M: FullMemory>(
        &self,
        memory: &mut M,
        page: Addr,
        mut header: PageHeader,
    ) -> Result<inner::Child, Full> {
        let number = self.pages.take(memory, 0)?;
        let mut children = inner::read(memory, page, &header);
        let upper = children.split_off(children.len() / 2);
        let separator = upper[0].0;
        self.pages.begin(memory, number, |memory, page| {
            let mut right = PageHeader { low: separator, ..header };
            inner::write(memory, page, &mut right, &upper);
        });
        header.high = separator;
        header.right = number;
        header.count = children.len() as u16;
        header.store(memory, page);
        Ok((separator, number))
    }
}

/// Returns where the page at `page` places `hash`. Arbitrary if a writer intervened.
fn next<M: FullMemory>(memory: &mut M, page: Addr, hash: u64, level: u8) -> Next {
    let header = PageHeader::load(memory, page);
    if hash >= header.high {
        Next::Right(header.right)
    } else if header.level <= level {
        Next::Here
    } else {
        Next::Down(inner::child(memory, page, &header, hash))
    }
}

/// Returns the hashes and sizes of entries in a leaf.
pub(super) fn sizes(entries: &[Taken]) -> Vec<(u64, usize)> {
    entries.iter().map(|taken| (taken.hash, taken.bytes.len() + SLOT_BYTES)).collect()
}

/// True if `leaves` leaves may share entries of these sizes, one of them `more` bytes larger. Room
/// must be left for others like that one, unless it is too large for another.
fn may_share(sizes: &[(u64, usize)], leaves: usize, more: usize) -> bool {
    let bytes: usize = sizes.iter().map(|(_, bytes)| bytes).sum();
    let spare = SHARE_FREE_BYTES / more * more;
    leaves > 1 && bytes + spare <= leaves * LEAF_BYTES
}
