//! libCacheSim's oracleGeneral: records of 24 bytes, each with the time of the next access to its
//! object.
//!
//! Little-endian: time in seconds (4 bytes), object (8), size (4), number of the record that
//! accesses the object next, from 0, or -1 (8). An object is an address here, and times count from
//! the first. A size of 0, which traces without sizes have, counts as one byte.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use ebbtide_core::{Addr, Time};
use rustc_hash::FxHashMap;

use crate::line_reader::fitting;
use crate::{Access, Input, Op, Output, Sink, Source, TraceError};

const RECORD_BYTES: usize = 24;

/// The offset of the next access in a record.
const NEXT: usize = 16;

const PS_PER_SECOND: u64 = 1_000_000_000_000;

/// Reads oracleGeneral; every access is a read.
pub(crate) struct OracleGeneralReader {
    input: Input,
    records: u64,
    /// The times of the first record and of the last one, in seconds.
    first: Option<u32>,
    latest: Option<u32>,
}

impl OracleGeneralReader {
    /// Reads `input` from its start.
    pub(crate) fn new(input: Input) -> OracleGeneralReader {
        OracleGeneralReader { input, records: 0, first: None, latest: None }
    }

    /// The access of a record, or what was expected of it.
    fn record(&mut self, record: &[u8; RECORD_BYTES]) -> Result<Access, String> {
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| record[at + byte]));
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|byte| record[at + byte]));
        let (seconds, address, size) = (u32_at(0), u64_at(4), u32_at(12));
        let latest = self.latest.get_or_insert(seconds);
        if seconds < *latest {
            return Err(format!(
                "a time of at least {latest} s, the one before, found {seconds} s"
            ));
        }
        *latest = seconds;
        let since = seconds - *self.first.get_or_insert(seconds);
        // Times of 32 bits last for 136 years, and picoseconds of 64 bits for 213 days.
        let ps = u64::from(since).checked_mul(PS_PER_SECOND);
        let at = Time::from_ps(ps.ok_or("times that span at most 213 days")?);
        let bytes = fitting(address, size);
        Ok(Access::new(at, Addr(address), bytes, Op::Read))
    }
}

impl Source for OracleGeneralReader {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        batch.clear();
        while batch.len() < 2048 {
            let mut record = [0; RECORD_BYTES];
            let mut found = 0;
            while found < RECORD_BYTES {
                match self.input.read(&mut record[found..])? {
                    0 => break,
                    count => found += count,
                }
            }
            if found == 0 {
                break;
            }
            let access = match found {
                RECORD_BYTES => self.record(&record),
                _ => Err(format!("a record of {RECORD_BYTES} bytes, found {found}")),
            };
            batch.push(access.map_err(|expected| TraceError::Record {
                name: self.input.name().to_string(),
                offset: self.records * RECORD_BYTES as u64,
                records: self.records,
                expected,
            })?);
            self.records += 1;
        }
        Ok(!batch.is_empty())
    }
}

/// Records that wait in memory before they go to the temporary file.
const WINDOW: usize = 1 << 16;

/// Writes oracleGeneral. A record is complete only when its object is accessed again, so records
/// wait in memory and then in a temporary file.
pub(crate) struct OracleGeneralWriter {
    output: Output,
    waiting: File,
    /// The records after those in the file.
    window: Vec<u8>,
    filed: u64,
    /// The last record of each object.
    last: FxHashMap<u64, u64>,
}

impl OracleGeneralWriter {
    /// Writes to `output`.
    pub(crate) fn new(output: Output) -> Result<OracleGeneralWriter, TraceError> {
        let waiting = tempfile::tempfile().map_err(|source| output.fault(source))?;
        let (window, last) = (Vec::new(), FxHashMap::default());
        Ok(OracleGeneralWriter { output, waiting, window, filed: 0, last })
    }

    fn add(&mut self, access: &Access) -> io::Result<()> {
        let number = self.filed + (self.window.len() / RECORD_BYTES) as u64;
        if let Some(before) = self.last.insert(access.address.0, number) {
            let number = number.to_le_bytes();
            match before.checked_sub(self.filed) {
                Some(before) => {
                    let place = before as usize * RECORD_BYTES + NEXT;
                    self.window[place..place + 8].copy_from_slice(&number);
                }
                None => {
                    let place = before * RECORD_BYTES as u64 + NEXT as u64;
                    self.waiting.write_all_at(&number, place)?;
                }
            }
        }
        let seconds = (access.at.as_ps() / PS_PER_SECOND) as u32;
        self.window.extend(seconds.to_le_bytes());
        self.window.extend(access.address.0.to_le_bytes());
        self.window.extend(access.bytes.to_le_bytes());
        self.window.extend((-1_i64).to_le_bytes());
        if self.window.len() == WINDOW * RECORD_BYTES { self.file_window() } else { Ok(()) }
    }

    fn file_window(&mut self) -> io::Result<()> {
        self.waiting.write_all_at(&self.window, self.filed * RECORD_BYTES as u64)?;
        self.filed += (self.window.len() / RECORD_BYTES) as u64;
        self.window.clear();
        Ok(())
    }
}

impl Sink for OracleGeneralWriter {
    fn write(&mut self, access: &Access) -> Result<(), TraceError> {
        if access.op == Op::Hint {
            return Ok(());
        }
        self.add(access).map_err(|source| self.output.fault(source))
    }

    fn finish(mut self: Box<Self>) -> Result<(), TraceError> {
        self.file_window().map_err(|source| self.output.fault(source))?;
        let mut buffer = vec![0; WINDOW];
        loop {
            match self.waiting.read(&mut buffer) {
                Ok(0) => return self.output.finish(),
                Ok(count) => self.output.write(&buffer[..count])?,
                Err(source) => return Err(self.output.fault(source)),
            }
        }
    }
}
