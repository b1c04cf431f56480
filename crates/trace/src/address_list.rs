//! Lists of addresses and operations, one access a line: the input of DRAM simulators.
//!
//! `0x1f40 R` (Ramulator), `0x1f40 READ 120` (DRAMsim3; DRAMSim2's `P_MEM_RD`) and `LD 0x1f40`
//! (Ramulator 2). A third field is a cycle, which counts as a nanosecond. Entries without it lie a
//! nanosecond apart. Every access has 64 bytes, or as many as lie within 64 bits of address.
//!
//! Fetches, locked accesses and `BOFF` of DRAMSim2's lists are read as that simulator reads them:
//! `BOFF` is a write, and all others are reads.

use ebbtide_core::{Addr, Time};

use crate::line_reader::{LineReader, fitting};
use crate::text::number;
use crate::{Access, Input, Op, Output, Sink, Source, TraceError};

const BYTES: u32 = 64;

const EXPECTED: &str = "an address and an operation (R or W, READ or WRITE, LD or ST, or one of \
                        DRAMSim2's), and perhaps a cycle that is not before the one before";

/// The operation that `word` names.
fn operation(word: &str) -> Option<Op> {
    match word {
        "R" | "READ" | "LD" | "IFETCH" | "P_MEM_RD" | "P_FETCH" | "P_LOCK_RD" | "P_LOCK_WR" => {
            Some(Op::Read)
        }
        "W" | "WRITE" | "ST" | "P_MEM_WR" | "BOFF" => Some(Op::Write),
        _ => None,
    }
}

/// The access in `line`. Its time is its cycle, at least `latest`, or `next` if it has no cycle.
fn parse(line: &str, next: u64, latest: u64) -> Option<Access> {
    let mut words = line.split_whitespace();
    let (first, second) = (words.next()?, words.next()?);
    let (address, op) = match operation(first) {
        Some(op) => (number(second)?, op),
        None => (number(first)?, operation(second)?),
    };
    let ns = words.next().map_or(Some(next), number).filter(|&ns| ns >= latest)?;
    let at = Time::from_ps(ns.checked_mul(1000)?);
    let bytes = fitting(address, BYTES);
    let whole = words.next().is_none();
    whole.then_some(Access::new(at, Addr(address), bytes, op))
}

/// Reads a list.
pub(crate) struct ListReader {
    lines: LineReader,
    /// The time of the next access without a cycle, and the time of the last access.
    next: u64,
    latest: u64,
}

impl ListReader {
    /// Reads `input` from its start.
    pub(crate) fn new(input: Input) -> ListReader {
        ListReader { lines: LineReader::new(input), next: 0, latest: 0 }
    }
}

impl Source for ListReader {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        let (next, latest) = (&mut self.next, &mut self.latest);
        self.lines.fill(batch, &mut |line| {
            let access = parse(line, *next, *latest).ok_or(EXPECTED)?;
            *latest = access.at.as_ns();
            *next = *latest + 1;
            Ok(access)
        })
    }
}

/// The simulator for which a list is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dialect {
    Ramulator,
    Dramsim3,
}

/// Writes a list.
pub(crate) struct ListWriter {
    output: Output,
    dialect: Dialect,
}

impl ListWriter {
    /// Writes to `output`.
    pub(crate) fn new(output: Output, dialect: Dialect) -> ListWriter {
        ListWriter { output, dialect }
    }
}

impl Sink for ListWriter {
    fn write(&mut self, access: &Access) -> Result<(), TraceError> {
        let (letter, word) = match access.op {
            Op::Read => ("R", "READ"),
            Op::Write => ("W", "WRITE"),
            Op::Hint => return Ok(()),
        };
        let address = access.address.0;
        let line = match self.dialect {
            Dialect::Ramulator => format!("{address:#x} {letter}\n"),
            Dialect::Dramsim3 => format!("{address:#x} {word} {}\n", access.at.as_ns()),
        };
        self.output.write(line.as_bytes())
    }

    fn finish(self: Box<Self>) -> Result<(), TraceError> {
        self.output.finish()
    }
}
