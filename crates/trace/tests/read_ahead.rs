//! A trace that is read ahead is the same trace, faults included.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::any_trace;
use ebbtide_core::{Addr, Time};
use ebbtide_trace::{Access, Op, ReadAhead, Source, TraceError};
use proptest::prelude::*;

/// Batches of these accesses, then the end or a fault; counts the batches read.
struct Batches {
    left: Vec<Vec<Access>>,
    fault: bool,
    read: Arc<AtomicU64>,
}

impl Source for Batches {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        batch.clear();
        if self.left.is_empty() {
            let cut_short = TraceError::CutShort { name: "here".to_string() };
            return if self.fault { Err(cut_short) } else { Ok(false) };
        }
        batch.extend(self.left.remove(0));
        self.read.fetch_add(1, Ordering::SeqCst);
        Ok(true)
    }
}

fn batches(trace: &[Access], size: usize, fault: bool) -> (Batches, Arc<AtomicU64>) {
    let (left, read) = (trace.chunks(size).map(<[_]>::to_vec).collect(), Arc::default());
    (Batches { left, fault, read: Arc::clone(&read) }, read)
}

proptest! {
    #[test]
    fn what_is_read_ahead_is_what_there_is(
        trace in any_trace(), size in 1..20_usize, fault in any::<bool>(),
    ) {
        let said = |source: &mut dyn Source| {
            let (mut batch, mut all) = (Vec::new(), Vec::new());
            loop {
                let result = source.fill(&mut batch).map_err(|error| error.to_string());
                all.extend_from_slice(&batch);
                if result != Ok(true) {
                    break (all, result);
                }
            }
        };
        let plain = said(&mut batches(&trace, size, fault).0);
        let mut ahead = ReadAhead::new(batches(&trace, size, fault).0);
        prop_assert_eq!(said(&mut ahead), plain);
        let mut batch = vec![trace.first().copied().unwrap_or(ACCESS)];
        prop_assert!(matches!(ahead.fill(&mut batch), Ok(false)) && batch.is_empty());
    }
}

const ACCESS: Access = Access::new(Time::ZERO, Addr(0), 8, Op::Read);

#[test]
fn no_more_is_read_ahead_than_a_few_batches() {
    let (source, read) = batches(&[ACCESS; 1000], 1, false);
    let (mut ahead, mut batch) = (ReadAhead::new(source), Vec::new());
    for taken in 1..=100 {
        assert!(ahead.fill(&mut batch).expect("no fault"));
        assert!(read.load(Ordering::SeqCst) <= taken + 2, "{read:?} were read, {taken} taken");
    }
    // Whoever loses interest ends the reader, too: it lets go of its source.
    drop(ahead);
    let start = Instant::now();
    while Arc::strong_count(&read) > 1 && start.elapsed() < Duration::from_secs(20) {
        std::thread::yield_now();
    }
    assert_eq!(Arc::strong_count(&read), 1, "the reader goes on");
}

#[test]
#[should_panic(expected = "a fault of the reader")]
fn a_panic_of_the_reader_is_not_the_end_of_the_trace() {
    struct Panics;
    impl Source for Panics {
        fn fill(&mut self, _batch: &mut Vec<Access>) -> Result<bool, TraceError> {
            panic!("a fault of the reader");
        }
    }
    let _ = ReadAhead::new(Panics).fill(&mut Vec::new());
}
