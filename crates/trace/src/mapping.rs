//! [`Mapping`]: virtual to physical pages.

use std::path::Path;

use ebbtide_core::{PageId, choice};
use rustc_hash::FxHashMap;

use crate::error::MappingError;
use crate::line_reader::LineReader;
use crate::text::number;
use crate::{Access, FrameMap, Input, Source, TraceError};

/// Pages of the memory of fragmented mappings: 64 GiB.
const FRAMES: u64 = 1 << 24;

/// The greatest page number whose bytes have addresses of 64 bits.
const FRAME_MAX: u64 = (1 << 52) - 1;

/// A mapping from virtual to physical pages.
#[derive(Debug, Clone)]
pub enum Mapping {
    /// Physical addresses are the virtual ones.
    Identity,
    /// Physical pages in runs, in random order, as a fragmented memory of 64 GiB assigns them.
    Fragmented(FrameMap),
    /// Physical pages by a table from virtual to physical pages.
    Table(FxHashMap<PageId, PageId>),
}

impl Mapping {
    /// Returns a mapping to a memory of 64 GiB in runs of `run_pages` pages. `seed` selects the
    /// order of the runs.
    ///
    /// # Errors
    /// A message with the expected values, if `run_pages` is not a power of two up to 2²⁴.
    pub fn fragmented(run_pages: u64, seed: u64) -> Result<Mapping, String> {
        if run_pages.is_power_of_two() && run_pages <= FRAMES {
            return Ok(Mapping::Fragmented(FrameMap::fragmented(FRAMES, run_pages, seed)));
        }
        Err(format!("runs of {run_pages} pages: expected a power of two up to {FRAMES}"))
    }

    /// Reads the list at `path`, with a virtual and a physical page number on each line. Numbers
    /// are decimal, or hexadecimal after `0x`.
    ///
    /// # Errors
    /// [`TraceError`] if the list cannot be read or a line is invalid.
    pub fn read(path: &Path) -> Result<Mapping, TraceError> {
        let mut lines = LineReader::new(Input::open(path)?);
        let mut table = FxHashMap::default();
        while let Some(line) = lines.next()? {
            let mut words = line.split_whitespace().map(number);
            let pair = (words.next().flatten(), words.next().flatten(), words.next());
            let (Some(page), Some(frame @ 0..=FRAME_MAX), None) = pair else {
                return Err(lines.fault("a virtual and a physical page number"));
            };
            table.insert(PageId(page), PageId(frame));
        }
        Ok(Mapping::Table(table))
    }

    fn frame(&mut self, page: PageId) -> Result<PageId, MappingError> {
        match self {
            Mapping::Identity => Ok(page),
            Mapping::Fragmented(frames) => frames.frame(page).ok_or(MappingError::Full),
            Mapping::Table(table) => table.get(&page).copied().ok_or(MappingError::Missing(page.0)),
        }
    }
}

/// Calls `change` with each access of `batch`. At the first fault, drops the accesses from there
/// on.
fn each_until_fault(
    batch: &mut Vec<Access>,
    mut change: impl FnMut(&mut Access) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    for number in 0..batch.len() {
        if let Err(fault) = change(&mut batch[number]) {
            batch.truncate(number);
            return Err(fault);
        }
    }
    Ok(())
}

/// A trace with the physical pages of a mapping.
pub struct Mapped<S> {
    source: S,
    mapping: Mapping,
}

impl<S: Source> Mapped<S> {
    /// Sets the physical page of every entry of `source` by `mapping`, also if the entry has one. A
    /// page that `mapping` lacks is an error of the trace.
    pub fn new(source: S, mapping: Mapping) -> Mapped<S> {
        Mapped { source, mapping }
    }
}

impl<S: Source> Source for Mapped<S> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        let more = self.source.fill(batch);
        each_until_fault(batch, |access| {
            access.frame = Some(self.mapping.frame(access.address.page())?);
            Ok(())
        })?;
        more
    }

    fn origin(&self) -> Option<&str> {
        self.source.origin()
    }

    fn remark(&self) -> Option<String> {
        self.source.remark()
    }
}

/// A trace with physical addresses in place of virtual ones.
pub struct Physical<S>(S);

impl<S: Source> Physical<S> {
    /// Replaces the addresses of `source` by its physical addresses. An entry without one ends the
    /// trace with [`TraceError::NoPhysical`].
    pub fn new(source: S) -> Physical<S> {
        Physical(source)
    }
}

impl<S: Source> Source for Physical<S> {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        let more = self.0.fill(batch);
        each_until_fault(batch, |access| {
            let missing = TraceError::NoPhysical { address: access.address.0 };
            (access.address, access.frame) = (access.physical().ok_or(missing)?, None);
            Ok(())
        })?;
        more
    }

    fn origin(&self) -> Option<&str> {
        self.0.origin()
    }

    fn remark(&self) -> Option<String> {
        self.0.remark()
    }
}

choice! {
    /// An address space of a trace.
    #[derive(Default)]
    pub enum Space as "addresses" {
        /// Virtual addresses.
        #[default]
        Virtual = "virtual",
        /// Physical addresses.
        Physical = "physical",
    }
}

impl Space {
    /// Returns `source` with the addresses of this space.
    pub fn of(self, source: Box<dyn Source + Send>) -> Box<dyn Source + Send> {
        match self {
            Space::Virtual => source,
            Space::Physical => Box::new(Physical::new(source)),
        }
    }
}
