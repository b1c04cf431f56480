//! [`Format`]: which forms of traces there are, and how to tell them apart.

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
    /// A form of trace.
    pub enum Format as "format" {
        /// [`crate::native`].
        Native = "native",
        /// [`crate::text`].
        Text = "text",
        /// Comma-separated values with a header, which libCacheSim reads too.
        Csv = "csv",
        /// [`crate::lackey`].
        Lackey = "lackey",
        /// `ADDRESS R|W`, as Ramulator reads; whatever DRAM simulator's list is read.
        Ramulator = "ramulator",
        /// `ADDRESS READ|WRITE CYCLE`, as DRAMsim3 reads, a cycle a nanosecond.
        Dramsim3 = "dramsim3",
        /// libCacheSim's binary form, which also knows the next access to each address.
        OracleGeneral = "oracleGeneral",
    }
}

/// Bytes that formats are told apart by.
const START_BYTES: usize = 256;

/// What an instruction takes in traces that only count them: one cycle at 2 GHz (SPEC A1).
const PS_PER_INSTRUCTION: f64 = 500.0;

/// Files that are no traces, by how they begin.
const FOREIGN: [(&[u8], &str); 6] = [
    (b"\x1f\x8b", "gzip data"),
    (b"\xfd7zXZ", "xz data"),
    (b"BZh", "bzip2 data"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x7fELF", "a program"),
    (b"\x89PNG", "a picture"),
];

impl Format {
    /// What it has no place for.
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

    /// By a file's name; native if it says nothing.
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

    /// By how `input` begins, and by its name for forms that begin with anything.
    ///
    /// # Errors
    /// When its start cannot be read, or is that of something else.
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

    /// Writes to `output` in this form; `description` says what, where the form has a place for it.
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
