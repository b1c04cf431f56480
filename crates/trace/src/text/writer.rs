//! [`TextWriter`]: writes a trace in text form.

use std::io::Write;

use super::line::Nanoseconds;
use crate::{Access, Op, Output, Sink, TraceError};

/// Bytes that are buffered before they are written.
const BUFFER_BYTES: usize = 1 << 16;

/// Writes a trace in text form, addresses in decimal. Only [`TextWriter::finish`] makes sure that
/// all is written.
pub struct TextWriter {
    output: Output,
    buffer: Vec<u8>,
}

impl TextWriter {
    /// Writes to `output`.
    pub fn new(output: Output) -> TextWriter {
        TextWriter { output, buffer: Vec::with_capacity(BUFFER_BYTES + 128) }
    }

    /// Writes one access without its physical address, and skips hints. Times must not decrease.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn write(&mut self, access: &Access) -> Result<(), TraceError> {
        let Access { at, address, device, bytes, op, .. } = *access;
        let rw = match op {
            Op::Read => 1,
            Op::Write => 0,
            Op::Hint => return Ok(()),
        };
        let time = Nanoseconds(at);
        writeln!(self.buffer, "{time} {device} {} {bytes} {rw}", address.0)
            .expect("a vector takes any bytes");
        if self.buffer.len() >= BUFFER_BYTES {
            self.output.write(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Writes the rest and ends the output.
    ///
    /// # Errors
    /// When it cannot be written, or a file cannot be renamed.
    pub fn finish(mut self) -> Result<(), TraceError> {
        self.output.write(&self.buffer)?;
        self.output.finish()
    }
}

impl Sink for TextWriter {
    fn write(&mut self, access: &Access) -> Result<(), TraceError> {
        TextWriter::write(self, access)
    }

    fn finish(self: Box<Self>) -> Result<(), TraceError> {
        TextWriter::finish(*self)
    }
}
