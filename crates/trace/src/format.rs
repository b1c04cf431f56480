//! [`Format`]: the formats of traces, and how to tell them apart.

use std::path::Path;

use ebbtide_core::choice;

use crate::address_list::{Dialect, ListReader, ListWriter, operation};
use crate::csv::{CsvReader, CsvWriter};
use crate::lackey::{LackeyReader, LackeyWriter, is_lackey};
use crate::native::{MAGIC, NativeReader, NativeWriter};
use crate::oracle_general::{OracleGeneralReader, OracleGeneralWriter};
use crate::text::{TextReader, TextWriter};
use crate::{Input, Output, Sink, Source, TraceError};

choice! {
    /// A trace format.
    pub enum Format as "format" {
        /// [`crate::native`].
        Native = "native",
        /// [`crate::text`].
        Text = "text",
        /// Comma-separated values with a header, which libCacheSim reads too.
        Csv = "csv",
        /// [`crate::lackey`].
        Lackey = "lackey",
        /// `ADDRESS R|W`, which Ramulator reads. The reader accepts the lists of all DRAM
        /// simulators.
        Ramulator = "ramulator",
        /// `ADDRESS READ|WRITE CYCLE`, which DRAMsim3 reads. A cycle is a nanosecond.
        Dramsim3 = "dramsim3",
        /// libCacheSim's binary form, which also has the time of the next access to each address.
        OracleGeneral = "oracleGeneral",
    }
}

/// The bytes at the start of a file by which formats are told apart.
const START_BYTES: usize = 256;

/// Picoseconds an instruction, for traces that count instructions and have no times: one cycle at 2
/// GHz (AstriFlash, HPCA'23, Table I).
const PS_PER_INSTRUCTION: f64 = 500.0;

/// The first bytes of files that are not traces, and what these files are.
const FOREIGN: [(&[u8], &str); 6] = [
    (b"\x1f\x8b", "gzip data"),
    (b"\xfd7zXZ", "xz data"),
    (b"BZh", "bzip2 data"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x7fELF", "a program"),
    (b"\x89PNG", "a picture"),
];

impl Format {
    /// What the format cannot store.
    pub fn cannot_hold(self) -> &'static [&'static str] {
        match self {
            Format::Native | Format::Csv => &[],
            Format::Text => &["physical addresses", "hints"],
            Format::Lackey => &["times", "devices", "physical addresses", "hints"],
            Format::Ramulator => &["times", "sizes", "devices", "physical addresses", "hints"],
            Format::Dramsim3 => {
                &["parts of a nanosecond", "sizes", "devices", "physical addresses", "hints"]
            }
            Format::OracleGeneral => &[
                "parts of a second",
                "whether it is a write",
                "devices",
                "physical addresses",
                "hints",
            ],
        }
    }

    /// The format for a file's name; native if the name has no known ending.
    pub fn for_path(path: &Path) -> Format {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.strip_suffix(".zst").unwrap_or(&name);
        if name.contains("oracleGeneral") {
            return Format::OracleGeneral;
        }
        match name.rsplit_once('.').map(|(_, extension)| extension) {
            Some("txt" | "text") => Format::Text,
            Some("csv") => Format::Csv,
            Some("lackey") => Format::Lackey,
            Some("ramulator") => Format::Ramulator,
            Some("dramsim3") => Format::Dramsim3,
            _ => Format::Native,
        }
    }

    /// The format of `input`, found by its first bytes, or by its name for formats without a fixed
    /// start.
    ///
    /// # Errors
    /// When its start cannot be read or is not that of a trace.
    pub fn of(input: &mut Input) -> Result<Format, TraceError> {
        let name = input.name().to_string();
        let start = input.peek(START_BYTES)?;
        if start.starts_with(&MAGIC) {
            return Ok(Format::Native);
        }
        if Format::for_path(Path::new(&name)) == Format::OracleGeneral {
            return Ok(Format::OracleGeneral);
        }
        let foreign = FOREIGN.iter().find(|(magic, _)| start.starts_with(magic));
        let is_control = |byte: &u8| byte.is_ascii_control() && !b"\t\r\n".contains(byte);
        let odd = start.iter().position(is_control);
        if let Some(offset) = foreign.map_or(odd, |_| Some(0)) {
            let found = foreign.map_or("binary data", |(_, found)| found);
            return Err(TraceError::Foreign { name, offset, found });
        }
        let text = String::from_utf8_lossy(start);
        let line = text.lines().map(str::trim_end).find(|line| !line.trim().is_empty());
        let line = line.unwrap_or_default();
        let mut words = line.split_whitespace();
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        Ok(if is_lackey(line) {
            Format::Lackey
        } else if line.contains(',') && line.starts_with(|c: char| c.is_ascii_alphabetic()) {
            Format::Csv
        } else if operation(first).or(operation(second)).is_some() {
            Format::Ramulator
        } else {
            Format::Text
        })
    }

    /// Reads `input` in this form.
    ///
    /// # Errors
    /// When its start cannot be read or is not of this form.
    pub fn read(self, input: Input) -> Result<Box<dyn Source + Send>, TraceError> {
        Ok(match self {
            Format::Native => Box::new(NativeReader::new(input)?),
            Format::Text => Box::new(TextReader::new(input)),
            Format::Csv => Box::new(CsvReader::new(input)?),
            Format::Lackey => Box::new(LackeyReader::new(input, PS_PER_INSTRUCTION)),
            Format::Ramulator | Format::Dramsim3 => Box::new(ListReader::new(input)),
            Format::OracleGeneral => Box::new(OracleGeneralReader::new(input)),
        })
    }

    /// A writer to `output` in this format. `description` says what is traced; formats without a
    /// place for it drop it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(self, output: Output, description: &str) -> Result<Box<dyn Sink>, TraceError> {
        Ok(match self {
            Format::Native => Box::new(NativeWriter::new(output, description)?),
            Format::Text => Box::new(TextWriter::new(output)),
            Format::Csv => Box::new(CsvWriter::new(output)?),
            Format::Lackey => Box::new(LackeyWriter::new(output)),
            Format::Ramulator => Box::new(ListWriter::new(output, Dialect::Ramulator)),
            Format::Dramsim3 => Box::new(ListWriter::new(output, Dialect::Dramsim3)),
            Format::OracleGeneral => Box::new(OracleGeneralWriter::new(output)?),
        })
    }
}
