//! [`TextReader`]: a trace in text form as a [`Source`].

use ebbtide_core::Time;

use super::fast_line;
use super::line;
use crate::error::LineError;
use crate::{Access, Input, Source, TraceError};

/// The longest line that is read, in bytes; an access needs fewer than a hundred.
const LINE_BYTES_MAX: usize = 4096;

/// Bytes read at once.
const BUFFER_BYTES: usize = 1 << 18;

/// Accesses a batch, few enough to stay in a core's cache.
const BATCH: usize = 2048;

/// Reads a trace in text form.
pub struct TextReader {
    input: Input,
    /// `buffer[start..end]` was read and not yet parsed.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// The input has no more bytes than the buffer.
    at_end: bool,
    /// Lines parsed so far.
    lines: u64,
    latest: Time,
}

impl TextReader {
    /// Reads `input` from its start.
    pub fn new(input: Input) -> TextReader {
        let buffer = vec![0; BUFFER_BYTES];
        TextReader { input, buffer, start: 0, end: 0, at_end: false, lines: 0, latest: Time::ZERO }
    }

    /// Moves the rest of the buffer to its front and reads more behind it.
    fn read_on(&mut self) -> Result<(), TraceError> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let count = self.input.read(&mut self.buffer[self.end..])?;
        self.end += count;
        self.at_end = count == 0;
        Ok(())
    }

    /// Parses plain lines while the buffer holds them whole.
    fn parse_plain_lines(&mut self, batch: &mut Vec<Access>) {
        let mut text = &self.buffer[self.start..self.end];
        while batch.len() < BATCH
            && let Some((access, length)) = fast_line::parse(text)
            && access.at >= self.latest
        {
            self.latest = access.at;
            self.lines += 1;
            text = &text[length..];
            batch.push(access);
        }
        self.start = self.end - text.len();
    }

    /// Parses the next line with the full parser, and reads more if its end is not in the buffer.
    /// `None` if it is empty or the input has ended.
    fn parse_line(&mut self) -> Result<Option<Access>, TraceError> {
        let (length, ended) = loop {
            let text = &self.buffer[self.start..self.end];
            match text.iter().take(LINE_BYTES_MAX + 1).position(|&byte| byte == b'\n') {
                Some(length) => break (length, true),
                None if text.len() > LINE_BYTES_MAX => {
                    return Err(self.fault(LineError::TooLong { limit: LINE_BYTES_MAX }));
                }
                None if self.at_end => break (text.len(), false),
                None => self.read_on()?,
            }
        };
        let line = &self.buffer[self.start..self.start + length];
        let access = match line::parse(line) {
            Err(LineError::Missing { .. }) if !ended => Err(LineError::CutShort),
            Ok(Some(access)) if access.at < self.latest => Err(LineError::RunsBack {
                before: line::Nanoseconds(self.latest).to_string(),
                found: line::Nanoseconds(access.at).to_string(),
            }),
            other => other,
        };
        let access = access.map_err(|problem| self.fault(problem))?;
        self.latest = access.map_or(self.latest, |access| access.at);
        self.start += length + usize::from(ended);
        self.lines += 1;
        Ok(access)
    }

    /// The error of `problem` in the next line.
    fn fault(&self, problem: LineError) -> TraceError {
        let name = self.input.name().to_string();
        TraceError::Line { name, line: self.lines + 1, problem }
    }
}

impl Source for TextReader {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        batch.clear();
        while batch.len() < BATCH {
            self.parse_plain_lines(batch);
            if batch.len() == BATCH || (self.at_end && self.start == self.end) {
                break;
            }
            batch.extend(self.parse_line()?);
        }
        Ok(!batch.is_empty())
    }
}
