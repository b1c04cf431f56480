//! ChampSim's traces: a record of 64 bytes for each instruction (`input_instr` of its tracers).
//!
//! Little-endian, in this order:
//!
//! * the instruction pointer, 8 bytes
//! * whether it is a branch, and whether the branch was taken, a byte each
//! * two destination and four source registers, a byte each
//! * two addresses that it writes and four that it reads, 8 bytes each
//!
//! An address of 0 stands for none. There are no sizes: an access counts as 8 bytes. An instruction
//! reads before it writes.

use ebbtide_core::{Addr, Time};

use crate::line_reader::fitting;
use crate::{Access, Input, Op, Output, Sink, Source, TraceError};

const RECORD_BYTES: usize = 64;

/// The offsets of the addresses in a record.
const WRITTEN: [usize; 2] = [16, 24];
const READ: [usize; 4] = [32, 40, 48, 56];

/// Bytes of an access.
const ACCESS_BYTES: u32 = 8;

/// Records read at once.
const RECORDS: usize = 1 << 10;

/// Reads ChampSim's traces.
pub(crate) struct ChampSimReader {
    input: Input,
    ps_per_instruction: f64,
    records: u64,
    buffer: Vec<u8>,
}

impl ChampSimReader {
    /// Reads `input` from its start. An instruction takes `ps_per_instruction` picoseconds.
    pub(crate) fn new(input: Input, ps_per_instruction: f64) -> ChampSimReader {
        ChampSimReader { input, ps_per_instruction, records: 0, buffer: Vec::new() }
    }

    /// Reads whole records into the buffer, as many as there are, up to [`RECORDS`]. Returns the
    /// bytes of a last record that is not whole.
    fn read(&mut self) -> Result<usize, TraceError> {
        self.buffer.resize(RECORDS * RECORD_BYTES, 0);
        let mut filled = 0;
        while filled < self.buffer.len() {
            match self.input.read(&mut self.buffer[filled..])? {
                0 => break,
                count => filled += count,
            }
        }
        let left = filled % RECORD_BYTES;
        self.buffer.truncate(filled - left);
        Ok(left)
    }
}

impl Source for ChampSimReader {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        batch.clear();
        // Instructions may have no access.
        while batch.is_empty() {
            let left = self.read()?;
            for record in self.buffer.chunks_exact(RECORD_BYTES) {
                let at = Time::from_ps((self.records as f64 * self.ps_per_instruction) as u64);
                let address =
                    |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| record[at + byte]));
                let access = |op| {
                    move |address: u64| {
                        Access::new(at, Addr(address), fitting(address, ACCESS_BYTES), op)
                    }
                };
                let is_any = |address: &u64| *address != 0;
                batch.extend(READ.map(address).into_iter().filter(is_any).map(access(Op::Read)));
                batch
                    .extend(WRITTEN.map(address).into_iter().filter(is_any).map(access(Op::Write)));
                self.records += 1;
            }
            if left > 0 {
                return Err(TraceError::Record {
                    name: self.input.name().to_string(),
                    offset: self.records * RECORD_BYTES as u64,
                    records: self.records,
                    expected: format!("a record of {RECORD_BYTES} bytes, found {left}"),
                });
            }
            if self.buffer.is_empty() {
                break;
            }
        }
        Ok(!batch.is_empty())
    }
}

/// Writes ChampSim's traces, an instruction for each access. An access to address 0, which stands
/// for none, goes to address 1.
pub(crate) struct ChampSimWriter(Output);

impl ChampSimWriter {
    /// Writes to `output`.
    pub(crate) fn new(output: Output) -> ChampSimWriter {
        ChampSimWriter(output)
    }
}

impl Sink for ChampSimWriter {
    fn write(&mut self, access: &Access) -> Result<(), TraceError> {
        let at = match access.op {
            Op::Read => READ[0],
            Op::Write => WRITTEN[0],
            Op::Hint => return Ok(()),
        };
        let mut record = [0; RECORD_BYTES];
        record[at..at + 8].copy_from_slice(&access.address.0.max(1).to_le_bytes());
        self.0.write(&record)
    }

    fn finish(self: Box<Self>) -> Result<(), TraceError> {
        self.0.finish()
    }
}
