//! [`LineReader`]: the lines of CSV files, lists and mappings.

use std::borrow::Cow;

use crate::{Access, Input, TraceError};

/// What was expected of a line, for messages.
pub(crate) type Expected = Cow<'static, str>;

/// The longest line that is read, in bytes.
const LINE_BYTES_MAX: usize = 4096;

/// Bytes read at once.
const BUFFER_BYTES: usize = 1 << 16;

/// Input line by line.
pub(crate) struct LineReader {
    input: Input,
    buffer: Vec<u8>,
    start: usize,
    /// The number of the last line returned, counted from 1.
    number: u64,
}

impl LineReader {
    /// Reads `input` from its start.
    pub(crate) fn new(input: Input) -> LineReader {
        LineReader { input, buffer: Vec::new(), start: 0, number: 0 }
    }

    /// The next line that is not empty, without its end and blanks around it. `None` at the end.
    ///
    /// # Errors
    /// When the input cannot be read, or the line is too long or not UTF-8.
    pub(crate) fn next(&mut self) -> Result<Option<&str>, TraceError> {
        let line = loop {
            let rest = &self.buffer[self.start..];
            let length = match rest.iter().position(|&byte| byte == b'\n') {
                Some(length) => length,
                None if rest.len() <= LINE_BYTES_MAX && self.read_on()? => continue,
                None if self.start == self.buffer.len() => return Ok(None),
                None => self.buffer.len() - self.start,
            };
            let line = self.start..self.start + length;
            self.start = (line.end + 1).min(self.buffer.len());
            self.number += 1;
            if length > LINE_BYTES_MAX {
                return Err(self.fault(format!("a line of at most {LINE_BYTES_MAX} bytes")));
            }
            if !self.buffer[line.clone()].trim_ascii().is_empty() {
                break line;
            }
        };
        let line = str::from_utf8(&self.buffer[line]).map_err(|_| self.fault("text"))?;
        Ok(Some(line.trim()))
    }

    /// Replaces `batch` by the next accesses, at most as many as stay in a core's cache. `parse`
    /// reads an access from a line or returns what was expected. Returns whether there were any.
    pub(crate) fn fill(
        &mut self,
        batch: &mut Vec<Access>,
        parse: &mut impl FnMut(&str) -> Result<Access, Expected>,
    ) -> Result<bool, TraceError> {
        batch.clear();
        while batch.len() < 2048 {
            let Some(line) = self.next()? else { break };
            let access = parse(line);
            batch.push(access.map_err(|expected| self.fault(expected))?);
        }
        Ok(!batch.is_empty())
    }

    /// The name of the input in messages.
    pub(crate) fn name(&self) -> &str {
        self.input.name()
    }

    /// The error that the last line is not what was expected.
    pub(crate) fn fault(&self, expected: impl Into<Expected>) -> TraceError {
        let expected = expected.into().into_owned();
        let name = self.input.name().to_string();
        TraceError::Unexpected { name, line: self.number, expected }
    }

    /// Reads more into the buffer. Returns whether there was more.
    fn read_on(&mut self) -> Result<bool, TraceError> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let filled = self.buffer.len();
        self.buffer.resize(filled + BUFFER_BYTES, 0);
        let count = self.input.read(&mut self.buffer[filled..])?;
        self.buffer.truncate(filled + count);
        Ok(count > 0)
    }
}

/// `bytes`, at least 1, or as many of them from `address` on as lie within 64 bits of address.
pub(crate) fn fitting(address: u64, bytes: u32) -> u32 {
    let left = (u64::MAX - address).saturating_add(1);
    bytes.max(1).min(u32::try_from(left).unwrap_or(u32::MAX))
}

/// Whether `bytes` is not 0 and the access ends within 64 bits.
pub(crate) fn fits(address: u64, bytes: u32) -> bool {
    bytes > 0 && address.checked_add(u64::from(bytes) - 1).is_some()
}
