//! [`Format`]: the formats of traces. The ending of a file's name says its format, or the user
//! does.

use std::path::Path;

use ebbtide_core::choice;

use crate::address_list::{Dialect, ListReader, ListWriter};
use crate::champsim::{ChampSimReader, ChampSimWriter};
use crate::csv::{CsvReader, CsvWriter};
use crate::drmemtrace::{DrmemtraceReader, DrmemtraceWriter};
use crate::lackey::{LackeyReader, LackeyWriter};
use crate::native::{MAGIC, NativeReader, NativeWriter};
use crate::oracle_general::{OracleGeneralReader, OracleGeneralWriter};
use crate::text::{TextReader, TextWriter};
use crate::{Compression, Input, Output, Sink, Source, TraceError};

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
        /// ChampSim's records of 64 bytes, one for each instruction.
        ChampSim = "champsim",
        /// The text of drmemtrace's view tool (DynamoRIO).
        Drmemtrace = "drmemtrace",
    }
}

/// The bytes at the start of a file that are checked before it is read.
const START_BYTES: usize = 256;

/// The endings of files' names, in lower case.
const ENDINGS: [(&str, Format); 13] = [
    ("ebt", Format::Native),
    ("native", Format::Native),
    ("txt", Format::Text),
    ("text", Format::Text),
    ("trace", Format::Text),
    ("csv", Format::Csv),
    ("lackey", Format::Lackey),
    ("ramulator", Format::Ramulator),
    ("dramsim3", Format::Dramsim3),
    ("oraclegeneral", Format::OracleGeneral),
    ("champsim", Format::ChampSim),
    ("champsimtrace", Format::ChampSim),
    ("drmemtrace", Format::Drmemtrace),
];

/// Picoseconds an instruction, for traces that count instructions and have no times: one cycle at 2
/// GHz (AstriFlash, HPCA'23, Table I).
const PS_PER_INSTRUCTION: f64 = 500.0;

/// The first bytes of files that are not traces, with the kind of file.
const FOREIGN: [(&[u8], &str); 4] = [
    (b"BZh", "bzip2 data"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x7fELF", "a program"),
    (b"\x89PNG", "a picture"),
];

impl Format {
    /// Returns the fields that the format cannot store.
    pub fn cannot_hold(self) -> &'static [&'static str] {
        match self {
            Format::Native | Format::Csv => &[],
            Format::Text => &["physical addresses", "threads", "hints"],
            Format::Lackey => &["times", "devices", "physical addresses", "threads", "hints"],
            Format::Drmemtrace => &["times", "devices", "physical addresses", "hints"],
            Format::Ramulator | Format::ChampSim => {
                &["times", "sizes", "devices", "physical addresses", "threads", "hints"]
            }
            Format::Dramsim3 => &[
                "parts of a nanosecond",
                "sizes",
                "devices",
                "physical addresses",
                "threads",
                "hints",
            ],
            Format::OracleGeneral => &[
                "parts of a second",
                "whether it is a write",
                "devices",
                "physical addresses",
                "threads",
                "hints",
            ],
        }
    }

    /// Returns the format of a file's name by its ending, without `.zst`, `.gz` and `.xz`; `None`
    /// for a name without an ending.
    ///
    /// # Errors
    /// [`TraceError::Ending`] for an ending that no format has.
    pub fn of_name(path: &Path) -> Result<Option<Format>, TraceError> {
        let ending = |path: &Path| {
            let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
            (ending, path.with_extension(""))
        };
        let (mut last, mut rest) = ending(Path::new(path.file_name().unwrap_or_default()));
        if last.as_deref().is_some_and(|last| Compression::of_ending(last).is_some()) {
            (last, rest) = ending(&rest);
        }
        // libCacheSim calls its files *.oracleGeneral.bin.
        if last.as_deref() == Some("bin") {
            last = ending(&rest).0.filter(|before| before == "oraclegeneral").or(last);
        }
        let Some(last) = last else { return Ok(None) };
        let known = ENDINGS.iter().find(|(ending, _)| *ending == last);
        match known {
            Some((_, format)) => Ok(Some(*format)),
            None => Err(TraceError::Ending { name: path.display().to_string(), ending: last }),
        }
    }

    /// Returns the format of `input`: native if it begins as such, otherwise the format of its
    /// name's ending.
    ///
    /// # Errors
    /// When its start cannot be read, its name does not determine the format, or it begins as
    /// something that is not a trace.
    pub fn of(input: &mut Input) -> Result<Format, TraceError> {
        let name = input.name().to_string();
        if input.peek(MAGIC.len())?.starts_with(&MAGIC) {
            return Ok(Format::Native);
        }
        check_start(input)?;
        Format::of_name(Path::new(&name))?.ok_or(TraceError::NoEnding { name })
    }

    /// Returns a reader of `input` in this format.
    ///
    /// # Errors
    /// [`TraceError`] if the start of `input` cannot be read or is not of this format.
    pub fn read(self, mut input: Input) -> Result<Box<dyn Source + Send>, TraceError> {
        if !matches!(self, Format::Native | Format::OracleGeneral | Format::ChampSim) {
            check_text(&mut input)?;
            input.skip_byte_order_mark()?;
        }
        Ok(match self {
            Format::Native => Box::new(NativeReader::new(input)?),
            Format::Text => Box::new(TextReader::new(input)),
            Format::Csv => Box::new(CsvReader::new(input)?),
            Format::Lackey => Box::new(LackeyReader::new(input, PS_PER_INSTRUCTION)),
            Format::Ramulator | Format::Dramsim3 => Box::new(ListReader::new(input)),
            Format::OracleGeneral => Box::new(OracleGeneralReader::new(input)),
            Format::ChampSim => Box::new(ChampSimReader::new(input, PS_PER_INSTRUCTION)),
            Format::Drmemtrace => Box::new(DrmemtraceReader::new(input, PS_PER_INSTRUCTION)),
        })
    }

    /// Returns a writer to `output` in this format. `description` describes the trace. Formats
    /// without a place for it drop it.
    ///
    /// # Errors
    /// [`TraceError`] if the output cannot be written.
    pub fn write(self, output: Output, description: &str) -> Result<Box<dyn Sink>, TraceError> {
        Ok(match self {
            Format::Native => Box::new(NativeWriter::new(output, description)?),
            Format::Text => Box::new(TextWriter::new(output)),
            Format::Csv => Box::new(CsvWriter::new(output)?),
            Format::Lackey => Box::new(LackeyWriter::new(output)),
            Format::Ramulator => Box::new(ListWriter::new(output, Dialect::Ramulator)),
            Format::Dramsim3 => Box::new(ListWriter::new(output, Dialect::Dramsim3)),
            Format::OracleGeneral => Box::new(OracleGeneralWriter::new(output)?),
            Format::ChampSim => Box::new(ChampSimWriter::new(output)),
            Format::Drmemtrace => Box::new(DrmemtraceWriter::new(output)?),
        })
    }
}

/// Refuses an input that begins as a file of another kind.
fn check_start(input: &mut Input) -> Result<(), TraceError> {
    let name = input.name().to_string();
    let start = input.peek(START_BYTES)?;
    let foreign = FOREIGN.iter().find(|(magic, _)| start.starts_with(magic));
    foreign.map_or(Ok(()), |(_, found)| Err(TraceError::Foreign { name, offset: 0, found }))
}

/// Refuses an input that does not begin as a text.
fn check_text(input: &mut Input) -> Result<(), TraceError> {
    check_start(input)?;
    let name = input.name().to_string();
    let start = input.peek(START_BYTES)?;
    let is_control = |byte: &u8| byte.is_ascii_control() && !b"\t\r\n".contains(byte);
    match start.iter().position(is_control) {
        Some(offset) => Err(TraceError::Foreign { name, offset, found: "binary data" }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_says_the_format_and_nothing_else_in_the_name_does() {
        for (name, format) in [
            ("a.ebt", Some(Format::Native)),
            ("a.TXT", Some(Format::Text)),
            ("a.csv.zst", Some(Format::Csv)),
            ("a.csv.GZ", Some(Format::Csv)),
            ("a.lackey.xz", Some(Format::Lackey)),
            ("a.trace", Some(Format::Text)),
            ("csv.gz", None),
            ("a.oracleGeneral", Some(Format::OracleGeneral)),
            ("a.oracleGeneral.bin.zst", Some(Format::OracleGeneral)),
            ("oracleGeneral.csv", Some(Format::Csv)),
            ("my-oracleGeneral-trace.txt", Some(Format::Text)),
            ("600.perlbench_s-210B.champsimtrace.xz", Some(Format::ChampSim)),
            ("app.drmemtrace.gz", Some(Format::Drmemtrace)),
            ("oracleGeneral", None),
            ("-", None),
            ("folder.csv/trace", None),
        ] {
            let found = Format::of_name(Path::new(name)).expect("no unknown ending");
            assert_eq!(found, format, "{name}");
        }
        for name in ["a.log", "a.bin", "a.log.gz"] {
            let said = Format::of_name(Path::new(name)).expect_err("unknown").to_string();
            assert!(said.contains(name) && said.contains("--format"), "{said}");
        }
    }
}
