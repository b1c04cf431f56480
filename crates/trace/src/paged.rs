//! [`Paged`]: a trace whose accesses each stay within one page.

use ebbtide_core::{Addr, PAGE_BYTES};

use crate::{Access, Op, Source, TraceError};

/// Maximum of accesses in a batch with divided accesses. One access may have 4 GiB.
const BATCH_MAX: usize = 1 << 12;

/// A trace whose accesses are divided at page boundaries, into one access per page. Hints stay as
/// they are.
///
/// Only the first part of an access keeps its physical page. The other parts have none.
pub struct Paged<S> {
    source: S,
    batch: Vec<Access>,
    /// Accesses of `batch` that were handed out as a whole, and pages of the next that were.
    done: (usize, u64),
    /// What ended the source. It follows the accesses before it.
    fault: Option<TraceError>,
}

impl<S: Source> Paged<S> {
    /// Divides the accesses of `source`.
    pub fn new(source: S) -> Paged<S> {
        Paged { source, batch: Vec::new(), done: (0, 0), fault: None }
    }
}

/// The pages that `access` covers.
fn pages_of(access: &Access) -> u64 {
    if access.op == Op::Hint {
        return 1;
    }
    let last_byte = access.address.0.saturating_add(u64::from(access.bytes.max(1)) - 1);
    last_byte / PAGE_BYTES as u64 - access.address.page().0 + 1
}

/// The part of `access` in the page that is `number` pages behind its first.
fn part(access: &Access, number: u64) -> Access {
    if access.op == Op::Hint {
        return *access;
    }
    let page = access.address.page().0 + number;
    let start = (page * PAGE_BYTES as u64).max(access.address.0);
    let last_byte = access.address.0.saturating_add(u64::from(access.bytes.max(1)) - 1);
    let end = last_byte.min(page * PAGE_BYTES as u64 + (PAGE_BYTES as u64 - 1));
    let frame = access.frame.filter(|_| number == 0);
    Access { address: Addr(start), bytes: (end - start + 1) as u32, frame, ..*access }
}

impl<S: Source> Source for Paged<S> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        batch.clear();
        if self.done.0 == self.batch.len() {
            if let Some(fault) = self.fault.take() {
                return Err(fault);
            }
            self.done = (0, 0);
            match self.source.fill(&mut self.batch) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(fault) if self.batch.is_empty() => return Err(fault),
                Err(fault) => self.fault = Some(fault),
            }
            if self.batch.iter().all(|access| pages_of(access) == 1) {
                // The batches of most traces stay as they are.
                std::mem::swap(batch, &mut self.batch);
                self.batch.clear();
                return self.fault.take().map_or(Ok(true), Err);
            }
        }
        while let Some(access) = self.batch.get(self.done.0)
            && batch.len() < BATCH_MAX
        {
            batch.push(part(access, self.done.1));
            self.done.1 += 1;
            if self.done.1 == pages_of(access) {
                self.done = (self.done.0 + 1, 0);
            }
        }
        Ok(true)
    }

    fn origin(&self) -> Option<&str> {
        self.source.origin()
    }

    fn remark(&self) -> Option<String> {
        self.source.remark()
    }
}

#[cfg(test)]
mod tests {
    use ebbtide_core::{PageId, Time};

    use super::*;

    /// Batches, and then perhaps a fault.
    struct Batches(Vec<Vec<Access>>, bool);

    impl Source for Batches {
        fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
            batch.clear();
            let next = if self.0.is_empty() { None } else { Some(self.0.remove(0)) };
            batch.extend(next.iter().flatten());
            if self.0.is_empty() && self.1 {
                self.1 = false;
                return Err(TraceError::Empty { name: "it".into() });
            }
            Ok(next.is_some())
        }
    }

    fn access(address: u64, bytes: u32) -> Access {
        let (at, frame) = (Time::ZERO, Some(PageId(9)));
        Access { at, address: Addr(address), frame, device: 0, thread: 0, bytes, op: Op::Write }
    }

    fn parts(accesses: Vec<Access>) -> Vec<(u64, u32, Option<u64>)> {
        let paged = Paged::new(Batches(vec![accesses], false));
        let whole = |access: Result<Access, TraceError>| access.expect("no fault");
        let short = |access: Access| (access.address.0, access.bytes, access.frame.map(|f| f.0));
        paged.accesses().map(whole).map(short).collect()
    }

    #[test]
    fn every_page_of_an_access_is_one_of_its_own() {
        let found = parts(vec![access(64, 64), access(4000, 8192 + 100), access(8192, 4096)]);
        let expected = [
            (64, 64, Some(9)),
            (4000, 96, Some(9)),
            (4096, 4096, None),
            (8192, 4096, None),
            (12288, 4, None),
            (8192, 4096, Some(9)),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn hints_stay_and_the_end_of_the_address_space_is_no_further() {
        let hint = Access { op: Op::Hint, ..access(0, 1 << 20) };
        assert_eq!(parts(vec![hint]), [(0, 1 << 20, Some(9))]);
        assert_eq!(parts(vec![access(u64::MAX - 9, 4096)]), [(u64::MAX - 9, 4096, Some(9))]);
    }

    #[test]
    fn an_access_of_4_gib_comes_in_batches_of_bounded_size() {
        let mut paged = Paged::new(Batches(vec![vec![access(0, u32::MAX)]], false));
        let (mut batch, mut pages) = (Vec::new(), 0);
        while paged.fill(&mut batch).expect("no fault") {
            assert!(batch.len() <= BATCH_MAX);
            pages += batch.len();
        }
        assert_eq!(pages, 1 << 20);
    }

    #[test]
    fn a_fault_follows_the_accesses_before_it() {
        for bytes in [64, 3 << 12] {
            let mut paged = Paged::new(Batches(vec![vec![access(0, bytes)]], true));
            let found: Vec<_> = (&mut paged).accesses().collect();
            let expected = u64::from(bytes).div_ceil(4096) as usize + 1;
            assert_eq!(found.len(), expected);
            assert!(found.last().is_some_and(Result::is_err));
        }
    }
}
