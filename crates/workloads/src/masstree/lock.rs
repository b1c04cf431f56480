//! The lock of a node: how a job takes it, waits for it, changes the node and releases it.
//!
//! A writer changes a copy and then *publishes* it. It marks the node as changing, stores the words
//! that differ, the checksum first, and stores the new version last. All these stores are to one
//! page, so a reader that meets a changing node waits for a few stores. Allocation and waiting for
//! other locks come before, while readers continue.
//!
//! When a device error ends the job in between, its locks are released with their old versions. A
//! node without a store is then unchanged. Any other node has at least a new checksum, which does
//! not match. Later jobs find that node wrong instead of half changed. A lock whose page the device
//! does not return stays held, as in [`ebbtide_structures::latch`].

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ebbtide_core::{Addr, FullMemory};

use super::Seen;
use super::node::{CHECKSUM, Node, WORDS, misplaced, word_at};
use super::version::{self, Change, Version};
use crate::Corrupt;
use ebbtide_structures::retry::retry_faults;

/// A node that this job has locked.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) at: Addr,
    /// The version at which it was locked and is released.
    pub(super) version: Version,
    /// True if it was published. That also releases it.
    released: bool,
}

/// Runs `body` with the node at `at` locked, or returns `None` if its version is no longer
/// `version`.
pub(super) fn hold<M: FullMemory, R>(
    m: &mut M,
    at: Addr,
    version: Version,
    body: impl FnOnce(&mut M, &mut Held) -> R,
) -> Option<R> {
    if !lock(m, at, version) {
        return None;
    }
    let mut held = Held { at, version, released: false };
    // `body` shares nothing but memory itself, whose words are valid at any moment.
    let result = catch_unwind(AssertUnwindSafe(|| body(m, &mut held)));
    let released = if held.released { Ok(()) } else { release(m, at, held.version) };
    // The job ends with the first error.
    match result.and_then(|result| released.map(|()| result)) {
        Ok(result) => Some(result),
        Err(payload) => resume_unwind(payload),
    }
}

impl Held {
    /// The node and its version, for a transaction's node set.
    pub(super) fn seen(&self) -> Seen {
        Seen { node: self.at, version: self.version.word() }
    }

    /// A copy of the node.
    ///
    /// # Errors
    /// [`Corrupt`] when its keys do not match their fold: a new checksum would hide that.
    pub(super) fn copy<M: FullMemory>(&self, m: &mut M) -> Result<Node, Corrupt> {
        let node = Node::load(m, self.at);
        if node.has_its_keys() { Ok(node) } else { Err(misplaced(self.at)) }
    }

    /// Marks the node as changing, so that readers wait.
    pub(super) fn begin<M: FullMemory>(&self, m: &mut M, change: Change) {
        let during = version::locked(self.version.during(change));
        replace(m, self.at, |seen| {
            if version::is_waited(seen) { version::waited(during) } else { during }
        });
    }

    /// Replaces the node, which was `old`, by `new` and releases it.
    pub(super) fn publish<M: FullMemory>(
        &mut self,
        m: &mut M,
        change: Change,
        old: &Node,
        new: &Node,
    ) {
        self.begin(m, change);
        m.store(word_at(self.at, CHECKSUM), new.words[CHECKSUM]);
        for word in
            (1..WORDS).filter(|&word| word != CHECKSUM && old.words[word] != new.words[word])
        {
            m.store(word_at(self.at, word), new.words[word]);
        }
        self.version = Version::of(new.words[0]);
        unlock(m, self.at, self.version);
        self.released = true;
    }
}

/// Waits until the node's version word may differ from `seen`.
pub(super) fn wait<M: FullMemory>(m: &mut M, at: Addr, seen: u64) {
    let waited = version::waited(seen);
    if seen == waited || m.compare_exchange(at, seen, waited).is_ok() {
        m.wait(at, waited);
    }
}

/// Locks the node and returns whether its version was still `version`.
fn lock<M: FullMemory>(m: &mut M, at: Addr, version: Version) -> bool {
    loop {
        match m.compare_exchange(at, version.word(), version::locked(version)) {
            Ok(_) => return true,
            Err(found) if version::is_locked(found) => wait(m, at, found),
            Err(_) => return false,
        }
    }
}

/// Releases the lock of a job that changed nothing.
///
/// # Errors
/// The payload of the fault, when the device keeps failing to return the node's page.
fn release<M: FullMemory>(m: &mut M, at: Addr, version: Version) -> std::thread::Result<()> {
    retry_faults(|| unlock(m, at, version)).inspect_err(|_| m.wake(at))
}

/// Releases the lock, with the node at `version`.
fn unlock<M: FullMemory>(m: &mut M, at: Addr, version: Version) {
    if version::is_waited(replace(m, at, |_| version.word())) {
        m.wake(at);
    }
}

/// Replaces the version word of a locked node. At this time only waiters change that word. Returns
/// the old word.
fn replace<M: FullMemory>(m: &mut M, at: Addr, new: impl Fn(u64) -> u64) -> u64 {
    let mut seen: u64 = m.load(at);
    loop {
        match m.compare_exchange(at, seen, new(seen)) {
            Ok(_) => return seen,
            Err(found) => seen = found,
        }
    }
}
