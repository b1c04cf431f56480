//! [`Part`]: some rows of a call, which jobs copy from the address space or to it.

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ebbtide_core::{PAGE_BYTES, PageId};

use super::error::RowError;
use super::places::Places;
use crate::api::job_queue::Jobs;
use crate::api::ticket::Ticket;
use crate::core::flash_memory::FlashMemory;
use crate::core::job_error::JobError;

/// Bytes of consecutive rows that one job copies together, about.
const STRETCH_BYTES: usize = 64 << 10;

/// Time between two checks whether a call should go on.
const LOOK: Duration = Duration::from_millis(20);

/// The rows of a call with their buffer, which has the rows in the order of their indices.
pub(super) enum Rows<'b> {
    /// To be read into the buffer.
    Into(&'b [u64], &'b mut [u8]),
    /// To be written from the buffer.
    From(&'b [u64], &'b [u8]),
}

/// The memory of [`Rows`].
enum Buffer {
    Into(*mut u8),
    From(*const u8),
}

/// Rows that are under way. They live until every job of them has ended.
struct Part {
    places: Arc<Places>,
    indices: *const u64,
    buffer: Buffer,
    /// The bytes of each row that are copied.
    bytes: Range<usize>,
    /// The places of the rows among `indices`, in the order of the file.
    order: Box<[u32]>,
    /// The end in `order` of each group of rows that one job copies.
    groups: Box<[u32]>,
    next: AtomicUsize,
}

// SAFETY: every row of the buffer is used by the one job that takes its place from `next`, and
// `indices` are only read.
unsafe impl Send for Part {}
// SAFETY: as above.
unsafe impl Sync for Part {}

impl Part {
    /// Of the rows at the places in `order`, which is sorted.
    fn new(places: &Arc<Places>, bytes: Range<usize>, (rows, order): (Rows<'_>, Vec<u32>)) -> Part {
        let (indices, buffer) = match rows {
            Rows::Into(indices, into) => (indices, Buffer::Into(into.as_mut_ptr())),
            Rows::From(indices, from) => (indices, Buffer::From(from.as_ptr())),
        };
        let whole = bytes.len() == places.row_bytes;
        let grouping = Grouping { places, indices, start: bytes.start, whole };
        let groups = grouping.ends(&order);
        Part {
            places: places.clone(),
            indices: indices.as_ptr(),
            buffer,
            bytes,
            order: order.into(),
            groups,
            next: AtomicUsize::new(0),
        }
    }

    /// Copies rows until all are taken.
    fn run(&self, memory: &mut FlashMemory<'_>) {
        // A page at a time: it is read once, and neighbours are asked for by several jobs at once.
        loop {
            let group = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(end) = self.groups.get(group) else { return };
            let start = group.checked_sub(1).map_or(0, |before| self.groups[before]);
            let group = &self.order[start as usize..*end as usize];
            for stretch in group.chunk_by(|one, next| self.are_one(*one, *next)) {
                self.copy(memory, stretch[0] as usize, stretch.len());
            }
        }
    }

    /// Whether the rows at two places lie one behind the other, in the file and in the buffer.
    fn are_one(&self, one: u32, next: u32) -> bool {
        let whole = self.bytes.len() == self.places.row_bytes;
        whole && next == one + 1 && {
            let (row, behind) = (self.index(one as usize), self.index(next as usize));
            behind == row + 1 && self.places.is_followed(row)
        }
    }

    fn index(&self, place: usize) -> u64 {
        // SAFETY: `UnderWay` keeps the indices alive until all jobs have ended, and there is one
        // for every place in `order`.
        unsafe { *self.indices.add(place) }
    }

    /// Copies `count` rows, the first at `place` of a group that this job has taken. They lie one
    /// behind the other.
    fn copy(&self, memory: &mut FlashMemory<'_>, place: usize, count: usize) {
        let width = self.bytes.len();
        let at = self.places.address(self.index(place)) + self.bytes.start as u64;
        let (first, bytes) = (place * width, count * width);
        match self.buffer {
            Buffer::Into(into) => {
                // SAFETY: `UnderWay` keeps the buffer alive until all jobs have ended. It has room
                // for every place in `order`, and no other job has taken these.
                let into = unsafe { std::slice::from_raw_parts_mut(into.add(first), bytes) };
                memory.read_bytes(at, into);
            }
            Buffer::From(from) => {
                // SAFETY: as above.
                let from = unsafe { std::slice::from_raw_parts(from.add(first), bytes) };
                memory.write_bytes(at, from);
            }
        }
    }

    /// Lets jobs take no more rows.
    fn stop(&self) {
        self.next.store(self.groups.len(), Ordering::Relaxed);
    }
}

/// The places of rows to read, in the order of the file.
pub(super) fn order_to_read(indices: &[u64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..indices.len() as u32).collect();
    order.sort_unstable_by_key(|place| indices[*place as usize]);
    order
}

/// As [`order_to_read`], to write: of the rows with one index only the last is left.
pub(super) fn order_to_write(indices: &[u64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..indices.len() as u32).collect();
    order.sort_unstable_by_key(|place| (indices[*place as usize], *place));
    keep_last(&mut order, indices);
    order
}

/// Keeps the last place of each row. Places of one row are neighbours in `order`, in ascending
/// order.
fn keep_last(order: &mut Vec<u32>, indices: &[u64]) {
    order.reverse();
    order.dedup_by_key(|place| indices[*place as usize]);
    order.reverse();
}

/// Divides rows into groups.
struct Grouping<'a> {
    places: &'a Places,
    indices: &'a [u64],
    /// The first byte of a row that is copied.
    start: usize,
    /// Whether rows are copied as a whole.
    whole: bool,
}

impl Grouping<'_> {
    /// The end in `order` of each group. The rows of a group begin in one page, or are consecutive.
    fn ends(&self, order: &[u32]) -> Box<[u32]> {
        // Where the same row is asked for often, a group is no larger than of different ones.
        let rows_max = (PAGE_BYTES / self.places.row_bytes).max(1);
        let stretch_max = (STRETCH_BYTES / self.places.row_bytes).max(1);
        let mut ends = Vec::new();
        let mut end = 0;
        let joined =
            |one: u32, next: u32| self.page(one) == self.page(next) || self.follows(one, next);
        for chunk in order.chunk_by(|one, next| joined(*one, *next)) {
            let stretch = chunk.len() > rows_max
                && chunk.windows(2).all(|pair| self.follows(pair[0], pair[1]));
            let mut left = chunk;
            while !left.is_empty() {
                let count = match stretch {
                    true => self.up_to_a_page(left, stretch_max),
                    false => self.in_one_page(left, rows_max),
                };
                left = &left[count..];
                end += count as u32;
                ends.push(end);
            }
        }
        ends.into()
    }

    fn page(&self, place: u32) -> PageId {
        (self.places.address(self.indices[place as usize]) + self.start as u64).page()
    }

    fn follows(&self, one: u32, next: u32) -> bool {
        let (row, behind) = (self.indices[one as usize], self.indices[next as usize]);
        self.whole && next == one + 1 && behind == row + 1
    }

    /// How many of `rows` begin in the page of the first, at most `most`.
    fn in_one_page(&self, rows: &[u32], most: usize) -> usize {
        let page = self.page(rows[0]);
        rows.iter().take(most).take_while(|place| self.page(**place) == page).count()
    }

    /// How many of these consecutive `rows` are about `most` and end where another page begins.
    fn up_to_a_page(&self, rows: &[u32], most: usize) -> usize {
        let least = most.min(rows.len());
        let last = self.page(rows[least - 1]);
        least + rows[least..].iter().take_while(|place| self.page(**place) == last).count()
    }
}

/// The jobs of a part. Dropped, it stops them and waits for their end.
pub(super) struct UnderWay<'b> {
    part: Arc<Part>,
    tickets: Vec<Ticket<()>>,
    buffers: PhantomData<(&'b [u64], &'b mut [u8])>,
}

impl<'b> UnderWay<'b> {
    /// Begins to copy the `bytes` of the rows in `order`, by at most `threads` jobs.
    pub(super) fn begin(
        (jobs, threads): (&Jobs, usize),
        (places, bytes): (&Arc<Places>, Range<usize>),
        (rows, order): (Rows<'b>, Vec<u32>),
        asked: &mut Asked<'_>,
    ) -> Result<UnderWay<'b>, RowError> {
        let part = Arc::new(Part::new(places, bytes, (rows, order)));
        let count = part.groups.len().min(threads);
        let mut begun = UnderWay { part, tickets: Vec::with_capacity(count), buffers: PhantomData };
        while begun.tickets.len() < count {
            let part = begun.part.clone();
            let job = move |memory: &mut FlashMemory<'_>| part.run(memory);
            if let Ok(ticket) = jobs.submit_within(asked.until_next(), job) {
                begun.tickets.push(ticket);
            }
            asked.whether_to_go_on()?;
        }
        Ok(begun)
    }

    /// Waits for all rows.
    pub(super) fn end(mut self, asked: &mut Asked<'_>) -> Result<(), RowError> {
        let mut result: Result<(), JobError> = Ok(());
        while let Some(ticket) = self.tickets.pop() {
            match ticket.wait_for(asked.until_next()) {
                Ok(ended) => result = result.and(ended),
                Err(ticket) => self.tickets.push(ticket),
            }
            asked.whether_to_go_on()?;
        }
        Ok(result?)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.part.stop();
        for ticket in self.tickets.drain(..) {
            // The result of these rows is not needed.
            let _ = ticket.wait();
        }
    }
}

/// Asks the caller now and then whether to go on.
pub(super) struct Asked<'a> {
    goes_on: &'a mut dyn FnMut() -> bool,
    next: Instant,
}

impl<'a> Asked<'a> {
    pub(super) fn new(goes_on: &'a mut dyn FnMut() -> bool) -> Asked<'a> {
        Asked { goes_on, next: Instant::now() + LOOK }
    }

    pub(super) fn until_next(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    pub(super) fn whether_to_go_on(&mut self) -> Result<(), RowError> {
        if !self.until_next().is_zero() {
            return Ok(());
        }
        let goes_on = (self.goes_on)();
        self.next = Instant::now() + LOOK;
        if goes_on { Ok(()) } else { Err(RowError::Stopped) }
    }
}
