//! Unfinished commands of a device in one [`Pool`], with queues that allocate nothing.

use ebbtide_core::{PageId, Time};

const NONE: u32 = u32::MAX;

/// An unfinished command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub tag: u64,
    pub page: PageId,
    pub submitted: Time,
    /// True if the command waited for a collection.
    pub blocked: bool,
    next: u32,
}

/// The number of a [`Request`] in its [`Pool`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestId(u32);

/// All unfinished commands of a device.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool {
    requests: Vec<Request>,
    unused: Vec<u32>,
}

/// A first-in-first-out queue, whose links are in the [`Pool`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    head: u32,
    tail: u32,
    len: u32,
}

impl Pool {
    pub(crate) fn add(&mut self, tag: u64, page: PageId, submitted: Time) -> RequestId {
        let request = Request { tag, page, submitted, blocked: false, next: NONE };
        match self.unused.pop() {
            Some(id) => {
                self.requests[id as usize] = request;
                RequestId(id)
            }
            None => {
                self.requests.push(request);
                RequestId((self.requests.len() - 1) as u32)
            }
        }
    }

    /// Removes a request, which must be in no queue, from the pool.
    pub(crate) fn remove(&mut self, id: RequestId) -> Request {
        self.unused.push(id.0);
        self.requests[id.0 as usize]
    }

    pub(crate) fn get(&self, id: RequestId) -> &Request {
        &self.requests[id.0 as usize]
    }

    pub(crate) fn push(&mut self, queue: &mut Queue, id: RequestId) {
        self.requests[id.0 as usize].next = NONE;
        match queue.tail {
            NONE => queue.head = id.0,
            tail => self.requests[tail as usize].next = id.0,
        }
        queue.tail = id.0;
        queue.len += 1;
    }

    pub(crate) fn pop(&self, queue: &mut Queue) -> Option<RequestId> {
        let id = queue.front()?;
        queue.head = self.requests[id.0 as usize].next;
        if queue.head == NONE {
            queue.tail = NONE;
        }
        queue.len -= 1;
        Some(id)
    }

    /// Moves the first `count` requests of `queue` into a new queue.
    pub(crate) fn split(&mut self, queue: &mut Queue, count: u32) -> Queue {
        let mut first = Queue::EMPTY;
        for _ in 0..count {
            let Some(id) = self.pop(queue) else { break };
            self.push(&mut first, id);
        }
        first
    }

    /// Applies `change` to every request of `queue`.
    pub(crate) fn update(&mut self, queue: Queue, mut change: impl FnMut(&mut Request)) {
        let mut at = queue.head;
        while let Some(request) = self.requests.get_mut(at as usize) {
            change(request);
            at = request.next;
        }
    }

    /// The requests of `queue` in order.
    pub(crate) fn iter(&self, queue: Queue) -> impl Iterator<Item = &Request> {
        let mut at = queue.head;
        std::iter::from_fn(move || {
            let request = self.requests.get(at as usize)?;
            at = request.next;
            Some(request)
        })
    }
}

impl Queue {
    pub(crate) const EMPTY: Queue = Queue { head: NONE, tail: NONE, len: 0 };

    pub(crate) fn front(&self) -> Option<RequestId> {
        (self.head != NONE).then_some(RequestId(self.head))
    }

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against the obvious model: two deques of tags.
        #[test]
        fn queues_keep_their_order_and_places_are_reused(
            steps in prop::collection::vec((0u8..4, any::<bool>()), 1..200),
        ) {
            let mut pool = Pool::default();
            let mut queues = [Queue::EMPTY; 2];
            let mut models = [VecDeque::new(), VecDeque::new()];
            for (tag, (step, which)) in steps.into_iter().enumerate() {
                let (tag, which) = (tag as u64, usize::from(which));
                match step {
                    0 | 1 => {
                        let id = pool.add(tag, PageId(tag), Time::ZERO);
                        pool.push(&mut queues[which], id);
                        models[which].push_back(tag);
                    }
                    2 => {
                        let popped = pool.pop(&mut queues[which]).map(|id| pool.remove(id).tag);
                        prop_assert_eq!(popped, models[which].pop_front());
                    }
                    _ => {
                        let mut first = pool.split(&mut queues[which], 2);
                        while let Some(id) = pool.pop(&mut first) {
                            prop_assert_eq!(Some(pool.remove(id).tag), models[which].pop_front());
                        }
                    }
                }
                for (queue, model) in queues.iter().zip(&models) {
                    prop_assert_eq!(queue.len() as usize, model.len());
                    let tags: Vec<u64> = pool.iter(*queue).map(|request| request.tag).collect();
                    prop_assert_eq!(&tags, &Vec::from(model.clone()));
                }
            }
            prop_assert!(pool.requests.len() <= 200);
        }
    }
}
