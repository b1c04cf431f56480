//! [`Queue`]: HAMS's submission queue in the NVDIMM, whose NVMe commands carry journal tags.

use std::collections::VecDeque;

use ebbtide_core::FrameId;

use crate::config::Mode;

/// A page of the MoS address space, the unit that moves between flash and the NVDIMM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MosPage(pub u64);

/// The move of an NVMe command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A page from flash into its frame.
    Fill {
        /// The frame.
        frame: FrameId,
    },
    /// A dirty page from its copy in the PRP pool to flash.
    Evict {
        /// The slot of the copy.
        slot: u32,
    },
}

/// An NVMe command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// A unique number.
    pub id: u64,
    /// The page it moves.
    pub page: MosPage,
    /// The move.
    pub kind: Kind,
    /// The 4 KiB that the access wanted, counted within the page of a fill.
    pub wanted: u64,
}

/// A page that must be copied from its frame into the PRP pool before the frame receives data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copy {
    /// The eviction that will read the copy.
    pub id: u64,
    /// The frame of the page.
    pub frame: FrameId,
    /// The slot for the copy.
    pub slot: u32,
}

/// An unfinished command in the queue.
#[derive(Debug, Clone)]
struct Entry {
    command: Command,
    /// The journal tag. In persist mode it marks the commands to replay after a power cut.
    journal: bool,
    /// The frame that the command's page must first be copied from.
    uncopied: Option<FrameId>,
    issued: bool,
}

/// Commands from their creation to their completion, in the order of creation.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    mode: Mode,
    entries: VecDeque<Entry>,
    capacity: usize,
    outstanding: usize,
    next_id: u64,
    copies: VecDeque<Copy>,
}

impl Queue {
    pub(super) fn new(mode: Mode, capacity: usize) -> Queue {
        Queue {
            mode,
            entries: VecDeque::new(),
            capacity,
            outstanding: 0,
            next_id: 0,
            copies: VecDeque::new(),
        }
    }

    pub(super) fn mode(&self) -> Mode {
        self.mode
    }

    /// Number of further commands that the queue has room for.
    pub(super) fn room(&self) -> usize {
        self.capacity - self.entries.len()
    }

    pub(super) fn fill(&mut self, page: MosPage, frame: FrameId, wanted: u64) {
        self.push(page, Kind::Fill { frame }, wanted, None);
    }

    pub(super) fn evict(&mut self, page: MosPage, frame: FrameId, slot: u32) {
        let id = self.push(page, Kind::Evict { slot }, 0, Some(frame));
        self.copies.push_back(Copy { id, frame, slot });
    }

    fn push(&mut self, page: MosPage, kind: Kind, wanted: u64, uncopied: Option<FrameId>) -> u64 {
        assert!(self.room() > 0, "the submission queue overflows");
        let id = self.next_id;
        self.next_id += 1;
        let journal = self.mode == Mode::Persist;
        let command = Command { id, page, kind, wanted };
        self.entries.push_back(Entry { command, journal, uncopied, issued: false });
        id
    }

    /// The next copy to make.
    pub(super) fn take_copy(&mut self) -> Option<Copy> {
        self.copies.pop_front()
    }

    /// The copy for eviction `id` is complete.
    pub(super) fn copied(&mut self, id: u64) {
        self.entry(id).uncopied = None;
    }

    /// The next command for the device, if the mode permits one.
    pub(super) fn issue(&mut self) -> Option<Command> {
        if self.mode == Mode::Persist && self.outstanding > 0 {
            return None;
        }
        let next = (0..self.entries.len()).find(|index| self.may_go(*index))?;
        let entry = &mut self.entries[next];
        entry.issued = true;
        self.outstanding += 1;
        Some(entry.command)
    }

    /// Whether the command at `index` can be issued. NVMe does not order commands, so a command
    /// waits for earlier commands on the same page.
    fn may_go(&self, index: usize) -> bool {
        let entry = &self.entries[index];
        let page = entry.command.page;
        let first = || self.entries.iter().take(index).all(|before| before.command.page != page);
        !entry.issued && entry.uncopied.is_none() && first()
    }

    /// Removes command `id`, which is complete, with its journal tag.
    pub(super) fn complete(&mut self, id: u64) -> Command {
        assert!(self.entry(id).issued, "command {id} was never issued");
        let index = self.position(id);
        let entry = self.entries.remove(index).expect("it was found there");
        self.outstanding -= 1;
        entry.command
    }

    /// Restores the queue after a power cut. Commands without a journal tag are lost. The others
    /// are unissued again, and unfinished copies are made again. Returns the remaining commands.
    pub(super) fn power_up(&mut self) -> impl Iterator<Item = &Command> {
        self.entries.retain(|entry| entry.journal);
        self.outstanding = 0;
        self.copies.clear();
        for entry in &mut self.entries {
            entry.issued = false;
            if let (Some(frame), Kind::Evict { slot }) = (entry.uncopied, entry.command.kind) {
                self.copies.push_back(Copy { id: entry.command.id, frame, slot });
            }
        }
        self.entries.iter().map(|entry| &entry.command)
    }

    /// The command `id`, which is unfinished.
    pub(super) fn command(&self, id: u64) -> Command {
        self.entries[self.position(id)].command
    }

    fn position(&self, id: u64) -> usize {
        let found = self.entries.iter().position(|entry| entry.command.id == id);
        found.unwrap_or_else(|| panic!("command {id} is not in the queue"))
    }

    fn entry(&mut self, id: u64) -> &mut Entry {
        let index = self.position(id);
        &mut self.entries[index]
    }
}
