//! A device without cost, so that only the engine is measured.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use ebbtide_engine::device::{Completion, Device, Queue, Request, Sleeper};

/// Answers everything at once, and moves nothing.
pub struct Nowhere;

#[derive(Default)]
struct NowhereQueue {
    staged: Vec<(u64, usize)>,
    handed_over: Vec<(u64, usize)>,
}

struct Awake;

impl Sleeper for Awake {
    fn sleep(&self, _at_most: Duration) {}

    fn wake(&self) {}
}

impl Device for Nowhere {
    fn queue(&self, _depth: usize) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(NowhereQueue::default()))
    }

    fn name(&self) -> &'static str {
        "nowhere"
    }
}

impl Queue for NowhereQueue {
    fn push(&mut self, request: Request) {
        self.staged.push((request.token(), request.bytes()));
    }

    fn submit(&mut self) {
        self.handed_over.append(&mut self.staged);
    }

    fn reap(&mut self, completions: &mut Vec<Completion>) {
        let ended = self.handed_over.drain(..);
        completions.extend(ended.map(|(token, bytes)| Completion { token, result: Ok(bytes) }));
    }

    fn unsubmitted(&self) -> usize {
        self.staged.len()
    }

    fn in_flight(&self) -> usize {
        self.handed_over.len()
    }

    fn sleeper(&self) -> Arc<dyn Sleeper> {
        Arc::new(Awake)
    }
}
