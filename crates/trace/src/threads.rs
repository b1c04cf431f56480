//! [`Threads`]: numbers of threads.

use rustc_hash::FxHashMap;

/// Numbers the threads of a tracer from 0, in the order in which their numbers are asked for.
#[derive(Default)]
pub(crate) struct Threads {
    numbers: FxHashMap<u64, u32>,
    next: u32,
}

impl Threads {
    /// Returns the number of the thread that the tracer calls `id`.
    pub(crate) fn number(&mut self, id: u64) -> u32 {
        *self.numbers.entry(id).or_insert_with(|| {
            self.next += 1;
            self.next - 1
        })
    }

    /// Notes that the thread that the tracer called `id` has ended. Another one may have the same
    /// id.
    pub(crate) fn end(&mut self, id: u64) {
        self.numbers.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_numbered_as_they_appear_and_an_id_can_come_again() {
        let mut threads = Threads::default();
        assert_eq!([70, 9, 70].map(|id| threads.number(id)), [0, 1, 0]);
        threads.end(70);
        assert_eq!([9, 70, 70].map(|id| threads.number(id)), [1, 2, 2]);
    }
}
