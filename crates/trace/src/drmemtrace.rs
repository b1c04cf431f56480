//! The text of drmemtrace's view tool (`drrun -t drmemtrace -tool view`): a record a line.
//!
//! ```text
//!            8           1:     2765543 ifetch       5 byte(s) @ 0x0000000000404a7e 48 8b 5c 24 08
//!            9           1:     2765543 read         8 byte(s) @ 0x00007fdf64e2adc8 by PC 0x0
//! ```
//!
//! A line has the numbers of the record and the instruction, the thread, the kind of record, its
//! size and its address. `read` and `write` are accesses, and `ifetch` is an instruction. All other
//! lines are not read: markers, prefetches, flushes, and the output of the traced program. Threads
//! stay in the order of the view, which interleaves them. They are numbered in that order.

use std::fmt::Write;

use ebbtide_core::{Addr, Time};

use crate::line_reader::{LineReader, fits};
use crate::text::number;
use crate::threads::Threads;
use crate::{Access, Input, Op, Output, Sink, Source, TraceError};

/// Between the size of an access and its address.
const BEFORE_ADDRESS: &str = " byte(s) @ ";

const EXPECTED: &str = "a record of drmemtrace's view: KIND SIZE byte(s) @ ADDRESS, such as \
                        'read 8 byte(s) @ 0x7ffd0' with a size from 1 within 64 bits of address";

/// Reads the view of drmemtrace.
pub(crate) struct DrmemtraceReader {
    lines: LineReader,
    ps_per_instruction: f64,
    instructions: u64,
    threads: Threads,
}

/// A line with an address.
enum Record {
    Instruction,
    /// An access of a thread, with its address and size.
    Access(u64, Op, u64, u32),
    Other,
}

impl DrmemtraceReader {
    /// Reads `input` from its start. An instruction takes `ps_per_instruction` picoseconds.
    pub(crate) fn new(input: Input, ps_per_instruction: f64) -> DrmemtraceReader {
        let lines = LineReader::new(input);
        DrmemtraceReader { lines, ps_per_instruction, instructions: 0, threads: Threads::default() }
    }
}

/// The record of `line`. `None` if it should be one and is not.
fn record(line: &str) -> Option<Record> {
    let Some((before, after)) = line.split_once(BEFORE_ADDRESS) else { return Some(Record::Other) };
    let mut words = before.split_whitespace().rev();
    let (size, kind) = (words.next()?, words.next()?);
    let op = match kind {
        "read" => Op::Read,
        "write" => Op::Write,
        "ifetch" => return Some(Record::Instruction),
        _ => return Some(Record::Other),
    };
    let thread = words.next().map_or(0, thread_id);
    let (address, size) = (number(after.split_whitespace().next()?)?, size.parse().ok()?);
    fits(address, size).then_some(Record::Access(thread, op, address, size))
}

/// The thread that `word` names: `2765543`, or with the number of the program `W0.T2765543`.
fn thread_id(word: &str) -> u64 {
    let numbers = word.split(|letter: char| !letter.is_ascii_digit());
    let numbers = numbers.filter_map(|digits| digits.parse::<u32>().ok());
    numbers.fold(0, |id, number| (id << u32::BITS) | u64::from(number))
}

impl Source for DrmemtraceReader {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        batch.clear();
        while batch.len() < 2048 {
            let Some(line) = self.lines.next()? else { break };
            match record(line).ok_or_else(|| self.lines.fault(EXPECTED))? {
                Record::Instruction => self.instructions += 1,
                Record::Access(thread, op, address, bytes) => {
                    // An instruction's accesses follow it.
                    let before = self.instructions.saturating_sub(1);
                    let at = Time::from_ps((before as f64 * self.ps_per_instruction) as u64);
                    let (address, thread) = (Addr(address), self.threads.number(thread));
                    batch.push(Access { thread, ..Access::new(at, address, bytes, op) });
                }
                Record::Other => {}
            }
        }
        Ok(!batch.is_empty())
    }
}

/// Writes the view of drmemtrace, with accesses and no instructions.
pub(crate) struct DrmemtraceWriter {
    output: Output,
    records: u64,
    line: String,
}

impl DrmemtraceWriter {
    /// Writes to `output`.
    ///
    /// # Errors
    /// [`TraceError`] if the output cannot be written.
    pub(crate) fn new(mut output: Output) -> Result<DrmemtraceWriter, TraceError> {
        output
            .write(b"Output format:\n<--record#-> <--instr#->: <---tid---> <record details>\n")?;
        output.write(b"------------------------------------------------------------\n")?;
        Ok(DrmemtraceWriter { output, records: 0, line: String::new() })
    }
}

impl Sink for DrmemtraceWriter {
    fn write(&mut self, access: &Access) -> Result<(), TraceError> {
        let kind = match access.op {
            Op::Read => "read",
            Op::Write => "write",
            Op::Hint => return Ok(()),
        };
        self.records += 1;
        self.line.clear();
        let Access { address, bytes, thread, .. } = *access;
        // Writing to a string does not fail.
        let _ = writeln!(
            self.line,
            "{:>12} {:>11}: {:>11} {kind:<9} {bytes:>4}{BEFORE_ADDRESS}{:#018x} by PC {:#018x}",
            self.records,
            0,
            u64::from(thread) + 1,
            address.0,
            0
        );
        self.output.write(self.line.as_bytes())
    }

    fn finish(self: Box<Self>) -> Result<(), TraceError> {
        self.output.finish()
    }
}
