//! Adapters of a source that fails: the accesses before the fault are adapted, then the fault
//! follows.

use ebbtide_core::{PageId, Span};
use ebbtide_trace::{
    Access, Compacted, Folded, Footprint, Hinted, Hints, Mapped, Mapping, Op, Paged, Physical,
    Source, Stretched, TraceError, WithFrames, Wrapped, line_access,
};

/// Three accesses, and in the same call a fault.
#[derive(Clone)]
struct Failing(bool);

const PAGES: [u64; 3] = [3, 40, 5];

impl Source for Failing {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        batch.clear();
        if std::mem::replace(&mut self.0, true) {
            return Ok(false);
        }
        batch.extend(PAGES.map(|page| Access {
            frame: (page != 5).then_some(PageId(page + 100)),
            ..line_access(page, page * 64, Op::Read)
        }));
        Err(TraceError::Empty { name: "it".into() })
    }
}

/// The accesses of `source` before its fault, which must come.
fn before_fault(source: impl Source) -> Vec<Access> {
    let mut all: Vec<_> = source.accesses().collect();
    assert!(all.pop().is_some_and(|last| last.is_err()), "a fault ends the trace");
    all.into_iter().map(|access| access.expect("one fault")).collect()
}

fn pages(source: impl Source) -> Vec<u64> {
    before_fault(source).iter().map(|access| access.address.page().0).collect()
}

#[test]
fn accesses_before_a_fault_are_adapted_like_all_others() {
    let failing = Failing(false);
    assert_eq!(pages(failing.clone()), PAGES);
    assert_eq!(pages(Wrapped::new(failing.clone(), 8)), [3, 0, 5]);
    assert!(pages(Folded::new(failing.clone(), 8)).iter().all(|page| *page < 8));
    assert_eq!(pages(WithFrames::new(failing.clone())), [3, 40]);
    assert_eq!(pages(Paged::new(failing.clone())), PAGES);
    // The last one has no physical page, which is a fault before that of the source.
    assert_eq!(pages(Physical::new(failing.clone())), [103, 140]);
    let times = before_fault(Stretched::new(failing.clone(), 7));
    let slower = before_fault(failing.clone()).iter().map(|a| 7 * a.at.as_ps()).collect::<Vec<_>>();
    assert_eq!(times.iter().map(|a| a.at.as_ps()).collect::<Vec<_>>(), slower);
    let frames = before_fault(Mapped::new(failing.clone(), Mapping::Identity));
    assert!(frames.iter().all(|access| access.frame == Some(access.address.page())));
    let footprint = Footprint::of(Whole(false)).expect("no fault");
    assert_eq!(pages(Compacted::new(failing.clone(), &footprint)), [0, 2, 1]);
    let hints = Hints { top: 1.0, chance: 1.0, lead: Span::from_ns(1), seed: 1 };
    let hottest = PAGES.map(|page| if page == 5 { PageId(5) } else { PageId(page + 100) });
    let hinted = before_fault(Hinted::new(failing, hints, hottest.into_iter().collect()));
    let accesses = hinted.iter().filter(|access| access.op != Op::Hint);
    assert!(accesses.map(|access| access.address.page().0).eq(PAGES));
}

/// The same accesses without a fault.
struct Whole(bool);

impl Source for Whole {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        let mut failing = Failing(std::mem::replace(&mut self.0, true));
        Ok(failing.fill(batch).is_err())
    }
}

#[test]
#[should_panic(expected = "a device has pages")]
fn a_device_without_pages_is_refused() {
    Wrapped::new(Failing(false), 0);
}
