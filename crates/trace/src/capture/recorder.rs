//! [`Recorder`]: turns Valgrind's output into entries of a trace.

use ebbtide_core::{Addr, LINE_BYTES, Time};

use super::page_map::PageMap;
use super::{CaptureError, CaptureOptions, Counts};
use crate::filter::{CacheFilter, Hierarchy, Traffic};
use crate::lackey::{Event, Line};
use crate::{Access, Op, TraceError};

/// Bits of an address in user space (x86-64). The bits above hold the process's number.
const ADDRESS_BITS: u32 = 47;

/// Valgrind's message that names the program which begins.
const COMMAND: &[u8] = b"Command: ";

/// One traced process.
pub(super) struct Process {
    number: u64,
    pages: Option<PageMap>,
    /// Whether Valgrind has named its first program.
    has_begun: bool,
}

impl Process {
    /// The process of number `number`, from 0.
    pub(super) fn new(number: usize) -> Process {
        Process { number: number as u64, pages: None, has_begun: false }
    }

    /// Whether the kernel did not give its physical pages.
    pub(super) fn physical_forbidden(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.forbidden)
    }
}

/// One core's caches and clock, and the destination of entries.
pub(super) struct Recorder<'a> {
    hierarchy: Hierarchy,
    filter: CacheFilter,
    programs: Vec<String>,
    memory: Memory<'a>,
}

/// The state behind the caches.
struct Memory<'a> {
    ps_per_instruction: f64,
    skip: u64,
    limit: u64,
    write: &'a mut dyn FnMut(&Access) -> Result<(), TraceError>,
    counts: Counts,
}

impl<'a> Recorder<'a> {
    pub(super) fn new(
        options: &CaptureOptions,
        write: &'a mut dyn FnMut(&Access) -> Result<(), TraceError>,
    ) -> Result<Recorder<'a>, CaptureError> {
        let memory = Memory {
            ps_per_instruction: options.ps_per_instruction,
            skip: options.skip,
            limit: options.limit.unwrap_or(u64::MAX),
            write,
            counts: Counts::default(),
        };
        let hierarchy = options.hierarchy;
        let filter = CacheFilter::new(hierarchy)?;
        Ok(Recorder { hierarchy, filter, programs: Vec::new(), memory })
    }

    /// The commands of the programs that have begun.
    pub(super) fn programs(&self) -> &[String] {
        &self.programs
    }

    /// The counts so far.
    pub(super) fn counts(&self) -> &Counts {
        &self.memory.counts
    }

    /// Whether the limit of entries is reached.
    pub(super) fn is_full(&self) -> bool {
        self.memory.counts.written >= self.memory.limit
    }

    /// Processes one line of a process.
    #[inline]
    pub(super) fn record(
        &mut self,
        process: &mut Process,
        line: Line<'_>,
    ) -> Result<(), CaptureError> {
        let Recorder { filter, memory, .. } = self;
        let (event, address, bytes) = match line {
            Line::Access(event, address, bytes) => (event, address, bytes),
            Line::Message(id, text) => {
                // A forked child prints messages too and shares the stream.
                if process.pages.is_none() {
                    process.pages = Some(PageMap::of(id));
                    memory.counts.processes += 1;
                }
                if let Some(command) = text.strip_prefix(COMMAND) {
                    if process.has_begun {
                        // Another program in the same process has memory of its own.
                        process.pages = Some(PageMap::of(id));
                        *filter = CacheFilter::new(self.hierarchy)?;
                    }
                    process.has_begun = true;
                    self.programs.push(String::from_utf8_lossy(command).into_owned());
                }
                return Ok(());
            }
        };
        let address = (process.number << ADDRESS_BITS) | address;
        let now = memory.counts.instructions;
        let mut reach = |traffic| memory.reach(process, now, traffic);
        match event {
            Event::Instruction => filter.instruction(address, bytes, &mut reach)?,
            Event::Load => filter.data(address, bytes, false, &mut reach)?,
            Event::Store | Event::Modify => filter.data(address, bytes, true, &mut reach)?,
        }
        match event {
            Event::Instruction => memory.counts.instructions += 1,
            Event::Load | Event::Store => memory.counts.data_accesses += 1,
            Event::Modify => memory.counts.data_accesses += 2,
        }
        Ok(())
    }
}

impl Memory<'_> {
    /// An entry of the trace, at instruction `now`.
    fn reach(
        &mut self,
        process: &mut Process,
        now: u64,
        traffic: Traffic,
    ) -> Result<(), CaptureError> {
        let (line, op) = match traffic {
            Traffic::Fetch(line) => (line, Op::Read),
            Traffic::Writeback(line) => (line, Op::Write),
        };
        let address = Addr(line * LINE_BYTES as u64);
        let skipped = self.counts.reached_memory < self.skip;
        self.counts.reached_memory += 1;
        if skipped || self.counts.written >= self.limit {
            return Ok(());
        }
        // The page of another process's line is looked up by that process.
        let own = address.0 >> ADDRESS_BITS == process.number;
        let pages = process.pages.as_mut().filter(|_| own);
        let page = Addr(address.0 & ((1 << ADDRESS_BITS) - 1)).page();
        let frame = pages.and_then(|pages| pages.frame(page, op == Op::Write));
        let at = Time::from_ps((now as f64 * self.ps_per_instruction) as u64);
        self.counts.written += 1;
        self.counts.physical += u64::from(frame.is_some());
        let bytes = LINE_BYTES as u32;
        (self.write)(&Access { at, address, frame, device: 0, bytes, op })?;
        Ok(())
    }
}
