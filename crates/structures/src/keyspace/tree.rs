//! The index of one database: a tree of pages over hashes, with leaves that divide where keys are.
//!
//! It is a B-link tree (Lehman and Yao, TODS 1981) whose keys are hashes: a search takes no latch and
//! notices by versions that a page has changed under it; a writer holds one page at a time. Pages are
//! never merged: keys that come later refill them. A full leaf shares its entries with the one that
//! follows, and if both are full they become three, as in a B*-tree (Knuth, "The Art of Computer
//! Programming", volume 3, section 6.2.4), so that leaves are fuller than halves of divided ones.

use ebbtide_core::{Addr, Hint, Memory, PAGE_BYTES};
use smallvec::{SmallVec, smallvec};

use super::inner;
use super::key::HashSecret;
use super::layout::{HASHES, LEAF_BYTES, PageHeader, PageNumber, SLOT_BYTES};
use super::leaf::{self, NoRoom};
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
    pub(super) secret: HashSecret,
}

/// What a writer says of the leaf that it was shown.
pub(super) enum Step<R> {
    Done(R),
    /// The leaf has too little room: make some and come again.
    MakeRoom(NoRoom),
}

/// What the page above has to know of leaves that got room.
struct Made {
    /// The leaf that follows begins at `to`, and no longer at `from`.
    lowered: Option<Lowered>,
    /// A new leaf, which begins at this hash.
    new: Option<inner::Child>,
}

/// A leaf begins at `to`, and no longer at `from`.
struct Lowered {
    from: u64,
    to: u64,
    leaf: PageNumber,
}

/// A leaf whose latch is held.
type Held = (PageNumber, PageHeader);

/// Two leaves share their entries, instead of becoming three, if so many bytes then are free.
const SHARE_FREE_BYTES: usize = LEAF_BYTES / 4;

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
            heap: PAGE_BYTES as u16,
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

    /// Shows the leaf of `hash` to `body` with its latch held, and makes room in it when `body` asks for
    /// that.
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
                    Step::MakeRoom(more) => {
                        self.make_room(memory, (number, header), more).map(|made| Err(Ok(made)))
                    }
                }
            })?;
            match result {
                Ok(result) => return Ok(result),
                Err(Err(right)) => number = right,
                Err(Ok(Made { lowered, new })) => {
                    // Separators above stay in order: the new leaf follows the lowered one.
                    if let Some(lowered) = lowered {
                        self.lower(memory, &lowered);
                    }
                    if let Some((begins, leaf)) = new {
                        self.link(memory, 1, begins, leaf)?;
                    }
                }
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

    /// Makes room for what a full leaf, whose latch is held, has none for.
    fn make_room<M: Memory>(
        &self,
        memory: &mut M,
        (number, header): Held,
        more: NoRoom,
    ) -> Result<Made, Full> {
        if !self.has_next_beside_it(memory, &header) {
            return self.spread(memory, smallvec![(number, header)], more);
        }
        // Leaves are latched from left to right.
        let next = self.pages.address(header.right);
        latch::write(memory, next, |memory| {
            let next = (header.right, PageHeader::load(memory, next));
            self.spread(memory, smallvec![(number, header), next], more)
        })
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

    /// Spreads the entries of one or two leaves over them, or over one more, so that there is room for `more` in
    /// the first. Their latches are held.
    fn spread<M: Memory>(
        &self,
        memory: &mut M,
        mut leaves: SmallVec<[Held; 3]>,
        more: NoRoom,
    ) -> Result<Made, Full> {
        let mut entries = Vec::new();
        for (number, header) in &leaves {
            entries.extend(leaf::read(memory, self.pages.address(*number), header, &self.secret));
        }
        let mut sizes: Vec<(u64, usize)> =
            entries.iter().map(|(hash, bytes)| (*hash, bytes.len() + SLOT_BYTES)).collect();
        sizes
            .insert(sizes.partition_point(|(hash, _)| *hash <= more.hash), (more.hash, more.bytes));
        let first_end = leaves[0].1.high;
        let shared = may_share(&sizes, leaves.len(), more.bytes)
            .then(|| leaf::spread(&sizes, leaves.len(), first_end))
            .flatten();
        let mut new = None;
        let begins = match shared {
            Some(begins) => begins,
            None => {
                // More keys of one 48-bit hash than a page holds do not occur with a secret hash.
                let begins = leaf::spread(&sizes, leaves.len() + 1, first_end).ok_or(Full)?;
                let number = self.pages.take(memory)?;
                let (_, last) = leaves.last_mut().expect("there is one at least");
                let header = *last;
                last.right = number;
                leaves.push((number, header));
                new = begins.last().map(|begin| (*begin, number));
                begins
            }
        };
        let lowered = (leaves.len() - usize::from(new.is_some()) == 2).then(|| Lowered {
            from: first_end,
            to: begins[0],
            leaf: leaves[1].0,
        });
        for (index, begin) in begins.iter().enumerate() {
            leaves[index].1.high = *begin;
            leaves[index + 1].1.low = *begin;
        }
        let mut rest = &entries[..];
        for (number, header) in &mut leaves {
            let (own, later) = rest.split_at(rest.partition_point(|(hash, _)| *hash < header.high));
            leaf::write(memory, self.pages.address(*number), header, own);
            rest = later;
        }
        Ok(Made { lowered, new })
    }

    /// Tells the page above that a leaf begins earlier. Until then a look-up of what is between goes there by way of
    /// the leaf on its left.
    fn lower<M: Memory>(&self, memory: &mut M, &Lowered { from, to, leaf }: &Lowered) {
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

/// Whether so many leaves may share entries of these sizes, of which one takes `more` bytes more: if room is left for
/// others like that one, unless it is so large that there can be none.
fn may_share(sizes: &[(u64, usize)], leaves: usize, more: usize) -> bool {
    let bytes: usize = sizes.iter().map(|(_, bytes)| bytes).sum();
    let spare = SHARE_FREE_BYTES / more * more;
    leaves > 1 && bytes + spare <= leaves * LEAF_BYTES
}
