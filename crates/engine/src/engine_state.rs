//! The state of one engine that all its cores share.

use parking_lot::Mutex;

use crate::backside::Backside;
use crate::buffer_pool::BufferPool;
use crate::store::Claim;
use crate::wait_queues::WaitQueues;

/// The shared half of an engine.
pub(crate) struct EngineState {
    /// One a core. The first field, so that it is dropped first: the device may still be moving pages
    /// to and from the pool's frames, and a queue ends only when all its requests have.
    pub(crate) backsides: Box<[Mutex<Backside>]>,
    pub(crate) pool: BufferPool,
    pub(crate) wait_queues: WaitQueues,
    /// Whether the engine follows programs' hints.
    pub(crate) hints: bool,
    /// The last field: the store is another engine's only when all requests have ended.
    pub(crate) _claim: Option<Claim>,
}
