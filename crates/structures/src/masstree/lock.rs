//! The lock of a node: how a job gets it, waits for it, changes the node and lets it go.
//!
//! A change is made on a copy and then *published*: the node is marked as changing, the words that
//! differ are stored, its checksum first, and the version that makes it readable again last. All of
//! that touches one page, so a reader that meets a node in the middle of it waits for a few stores.
//! Whatever takes long (allocating, waiting for other locks) is done before, while readers go on.
//!
//! When a job ends in between (a device error), its locks are released with the versions they had.
//! A node of which nothing was stored is then as it was. Of any other, at least the checksum is
//! new: it does not match, and everyone who comes by finds the node wrong instead of half-changed.
//! A lock whose page cannot be had back stays, as that of [`crate::latch`] does.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ebbtide_core::{Addr, Memory};

use super::Seen;
use super::node::{CHECKSUM, Node, WORDS, misplaced, word_at};
use super::version::{self, Change, Version};
use crate::Wrong;
use crate::retry::retry_faults;

/// A node that this job holds.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) at: Addr,
    /// What it was locked at, and is released at.
    pub(super) version: Version,
    /// It was published, and with that released.
    released: bool,
}

/// Runs `body` with the node at `at` held, if its version still is `version`; else gives `None`.
pub(super) fn hold<M: Memory, R>(
    m: &mut M,
    at: Addr,
    version: Version,
    body: impl FnOnce(&mut M, &mut Held) -> R,
) -> Option<R> {
    if !lock(m, at, version) {
        return None;
    }
    let mut held = Held { at, version, released: false };
    // Nothing is shared through `body` but memory itself, whose words are valid at any moment.
    let result = catch_unwind(AssertUnwindSafe(|| body(m, &mut held)));
    let released = if held.released { Ok(()) } else { release(m, at, held.version) };
    // What went wrong first is what the job is told.
    match result.and_then(|result| released.map(|()| result)) {
        Ok(result) => Some(result),
        Err(payload) => resume_unwind(payload),
    }
}

impl Held {
    /// The node as something that a transaction can depend on.
    pub(super) fn seen(&self) -> Seen {
        Seen { node: self.at, version: self.version.word() }
    }

    /// A copy of the node.
    ///
    /// # Errors
    /// [`Wrong`] when its keys are not the ones that were stored: they must not be sealed again.
    pub(super) fn copy<M: Memory>(&self, m: &mut M) -> Result<Node, Wrong> {
        let node = Node::load(m, self.at);
        if node.has_its_keys() { Ok(node) } else { Err(misplaced(self.at)) }
    }

    /// Marks the node as changing: from now on, whoever reads it waits.
    pub(super) fn begin<M: Memory>(&self, m: &mut M, change: Change) {
        let during = version::locked(self.version.during(change));
        replace(m, self.at, |seen| {
            if version::is_waited(seen) { version::waited(during) } else { during }
        });
    }

    /// Makes the node, which was `old`, into `new` and releases it.
    pub(super) fn publish<M: Memory>(&mut self, m: &mut M, change: Change, old: &Node, new: &Node) {
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

/// Waits until the node, whose version word was `seen`, may have changed.
pub(super) fn wait<M: Memory>(m: &mut M, at: Addr, seen: u64) {
    let waited = version::waited(seen);
    if seen == waited || m.compare_exchange(at, seen, waited).is_ok() {
        m.wait(at, waited);
    }
}

/// Locks the node, or finds that it has changed since it was of `version`.
fn lock<M: Memory>(m: &mut M, at: Addr, version: Version) -> bool {
    loop {
        match m.compare_exchange(at, version.word(), version::locked(version)) {
            Ok(_) => return true,
            Err(found) if version::is_locked(found) => wait(m, at, found),
            Err(_) => return false,
        }
    }
}

/// Releases a lock whose job changed nothing.
///
/// # Errors
/// The payload of the fault, when the device keeps failing to return the node's page.
fn release<M: Memory>(m: &mut M, at: Addr, version: Version) -> std::thread::Result<()> {
    retry_faults(|| unlock(m, at, version)).inspect_err(|_| m.wake(at))
}

/// Releases the lock, with the node at `version`.
fn unlock<M: Memory>(m: &mut M, at: Addr, version: Version) {
    if version::is_waited(replace(m, at, |_| version.word())) {
        m.wake(at);
    }
}

/// Replaces the version word of a held node, which only waiters change meanwhile. Gives what it
/// was.
fn replace<M: Memory>(m: &mut M, at: Addr, new: impl Fn(u64) -> u64) -> u64 {
    let mut seen: u64 = m.load(at);
    loop {
        match m.compare_exchange(at, seen, new(seen)) {
            Ok(_) => return seen,
            Err(found) => seen = found,
        }
    }
}
