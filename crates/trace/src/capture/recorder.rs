//! [`Recorder`]: turns Valgrind's output into entries of a trace.

use ebbtide_core::{Addr, LINE_BYTES, Time};

use super::page_map::PageMap;
use super::{CaptureError, CaptureOptions, Counts};
use crate::filter::{CacheFilter, Traffic};
use crate::lackey::{Event, Line};
use crate::threads::Threads;
use crate::{Access, Op, TraceError};

/// Bits of an address in user space (x86-64). The bits above hold the number of the process, and in
/// the caches that of the address space.
const ADDRESS_BITS: u32 = 47;

/// Valgrind's message that names the program which begins.
const COMMAND: &[u8] = b"Command: ";

/// One traced process.
pub(super) struct Process {
    /// Number in the order of discovery, from 0.
    number: u64,
    /// The address space of its program: another program in the same process has memory of its own.
    space: u64,
    /// Valgrind's number of the thread that runs, from 1.
    thread: u32,
    pages: Option<PageMap>,
}

impl Process {
    /// The process of number `number`, from 0.
    pub(super) fn new(number: u64) -> Process {
        Process { number, space: 0, thread: 1, pages: None }
    }

    /// The thread that runs, among those of all processes.
    fn thread_id(&self) -> u64 {
        (self.number << u32::BITS) | u64::from(self.thread)
    }

    /// Whether the kernel did not give its physical pages.
    pub(super) fn physical_forbidden(&self) -> bool {
        self.pages.as_ref().is_some_and(|pages| pages.forbidden)
    }
}

/// One core's caches and clock, and the destination of entries.
pub(super) struct Recorder<'a> {
    filter: CacheFilter,
    /// The commands that Valgrind named, by the number of the process.
    commands: Vec<Vec<String>>,
    memory: Memory<'a>,
}

/// The state behind the caches.
struct Memory<'a> {
    ps_per_instruction: f64,
    skip: u64,
    limit: u64,
    write: &'a mut dyn FnMut(&Access) -> Result<(), TraceError>,
    counts: Counts,
    /// The number of the process of each address space.
    spaces: Vec<u64>,
    threads: Threads,
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
            spaces: Vec::new(),
            threads: Threads::default(),
        };
        let filter = CacheFilter::new(options.hierarchy)?;
        Ok(Recorder { filter, commands: Vec::new(), memory })
    }

    /// The programs of every process, one after the other. Valgrind names the parent's program as
    /// the first one of a process that was forked. It is left out where another one follows.
    pub(super) fn programs(&self) -> Vec<Vec<String>> {
        let own = |(number, commands): (usize, &Vec<String>)| match commands.as_slice() {
            [_, own @ ..] if number > 0 && !own.is_empty() => own.to_vec(),
            all => all.to_vec(),
        };
        let processes = self.commands.iter().enumerate().map(own);
        processes.filter(|commands| !commands.is_empty()).collect()
    }

    /// The counts so far.
    pub(super) fn counts(&self) -> &Counts {
        &self.memory.counts
    }

    /// Counts processes that are not traced.
    pub(super) fn leave_out(&mut self, processes: u64) {
        self.memory.counts.untraced += processes;
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
                self.message(process, id, text);
                return Ok(());
            }
            Line::Thread(number, begins) => {
                process.thread = number;
                if begins {
                    memory.threads.end(process.thread_id());
                    // A program begins with thread 1.
                    memory.counts.threads += u64::from(number > 1);
                }
                return Ok(());
            }
        };
        let address = (process.space << ADDRESS_BITS) | address;
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

    /// Processes a message of Valgrind about the process `id`.
    fn message(&mut self, process: &mut Process, id: u32, text: &[u8]) {
        let Recorder { commands, memory, .. } = self;
        let number = process.number as usize;
        if process.pages.is_none() {
            memory.counts.processes += 1;
        }
        let command = text.strip_prefix(COMMAND);
        if command.is_some() || process.pages.is_none() {
            process.pages = Some(PageMap::of(id));
            process.space = memory.spaces.len() as u64;
            memory.spaces.push(process.number);
        }
        if let Some(command) = command {
            process.thread = 1;
            memory.threads.end(process.thread_id());
            commands.resize_with(commands.len().max(number + 1), Vec::new);
            commands[number].push(String::from_utf8_lossy(command).into_owned());
        }
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
        let skipped = self.counts.reached_memory < self.skip;
        self.counts.reached_memory += 1;
        if skipped || self.counts.written >= self.limit {
            return Ok(());
        }
        let (space, within) = split(line * LINE_BYTES as u64);
        // The page of another program's line is not looked up: it may be there no more.
        let pages = process.pages.as_mut().filter(|_| space == process.space);
        let page = Addr(within).page();
        let frame = pages.and_then(|pages| pages.frame(page, op == Op::Write));
        let number = self.spaces.get(space as usize).copied().unwrap_or(process.number);
        let address = Addr((number << ADDRESS_BITS) | within);
        let at = Time::from_ps((now as f64 * self.ps_per_instruction) as u64);
        self.counts.written += 1;
        self.counts.physical += u64::from(frame.is_some());
        let (thread, bytes) = (self.threads.number(process.thread_id()), LINE_BYTES as u32);
        (self.write)(&Access { at, address, frame, device: 0, thread, bytes, op })?;
        Ok(())
    }
}

/// The address space of an address of the caches, and the address in it.
fn split(address: u64) -> (u64, u64) {
    (address >> ADDRESS_BITS, address & ((1 << ADDRESS_BITS) - 1))
}
