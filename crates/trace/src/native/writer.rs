//! [`NativeWriter`]: writes a trace in native form.

use ebbtide_core::{Time, crc32c, crc32c_append};

use super::columns::Encoder;
use super::{BLOCK_ENTRIES, DESCRIPTION_BYTES_MAX, MAGIC, VERSION};
use crate::{Access, Output, Sink, TraceError};

/// zstd's default level.
const ZSTD_LEVEL: i32 = 3;

/// Writes a trace in native form, one block at a time. The output must not be compressed again.
/// Only [`NativeWriter::finish`] makes sure that all is written.
pub struct NativeWriter {
    output: Output,
    /// Bytes of the description with what is kept free behind it.
    description_bytes: usize,
    encoder: Encoder,
    compressor: zstd::bulk::Compressor<'static>,
    raw: Vec<u8>,
    entries: u64,
    latest: Time,
}

impl NativeWriter {
    /// Writes to `output`, beginning with `description`, a text for people. Only its first 64 KiB
    /// are kept.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn new(output: Output, description: &str) -> Result<NativeWriter, TraceError> {
        let length = description.floor_char_boundary(DESCRIPTION_BYTES_MAX);
        NativeWriter::with_room(output, description, length)
    }

    /// As [`NativeWriter::new`], with a description of at most `room` bytes, which
    /// [`NativeWriter::describe`] may replace.
    ///
    /// # Errors
    /// When the output cannot be written.
    ///
    /// # Panics
    /// When the room is greater than 64 KiB.
    pub fn with_room(
        mut output: Output,
        description: &str,
        room: usize,
    ) -> Result<NativeWriter, TraceError> {
        assert!(room <= DESCRIPTION_BYTES_MAX, "a description of {room} bytes");
        output.write(&header(description, room))?;
        let mut compressor = zstd::bulk::Compressor::default();
        let level = compressor.set_compression_level(ZSTD_LEVEL);
        level.map_err(|source| output.fault(source))?;
        Ok(NativeWriter {
            output,
            description_bytes: room,
            encoder: Encoder::default(),
            compressor,
            raw: Vec::new(),
            entries: 0,
            latest: Time::ZERO,
        })
    }

    /// Replaces the description, as far as there is room for it. A pipe keeps the one that it got
    /// first.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub fn describe(&mut self, description: &str) -> Result<(), TraceError> {
        self.output.replace_start(&header(description, self.description_bytes)).map(|_| ())
    }

    /// Writes one entry.
    ///
    /// # Errors
    /// When the output cannot be written.
    ///
    /// # Panics
    /// When its time is before that of the previous entry.
    #[inline]
    pub fn write(&mut self, access: &Access) -> Result<(), TraceError> {
        assert!(access.at >= self.latest, "times run back: {:?}", access.at);
        self.latest = access.at;
        self.encoder.push(access);
        if self.encoder.entries() == BLOCK_ENTRIES { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<(), TraceError> {
        let entries = self.encoder.entries();
        self.encoder.take(&mut self.raw);
        let stored = self.compressor.compress(&self.raw);
        let stored = stored.map_err(|source| self.output.fault(source))?;
        self.entries += entries as u64;
        self.block(entries, self.raw.len(), &stored)
    }

    fn block(&mut self, entries: usize, raw: usize, stored: &[u8]) -> Result<(), TraceError> {
        let numbers = [entries, raw, stored.len()].map(|number| (number as u32).to_le_bytes());
        let checksum = crc32c_append(crc32c(numbers.as_flattened()), stored);
        self.output.write(numbers.as_flattened())?;
        self.output.write(&checksum.to_le_bytes())?;
        self.output.write(stored)
    }

    /// Writes the rest and ends the output. Returns the total number of bytes written.
    ///
    /// # Errors
    /// When it cannot be written, or a file cannot be renamed.
    pub fn finish(mut self) -> Result<u64, TraceError> {
        if self.encoder.entries() > 0 {
            self.end_block()?;
        }
        self.block(0, 8, &self.entries.to_le_bytes())?;
        let bytes = self.output.written_bytes();
        self.output.finish().map(|()| bytes)
    }
}

/// The header, with the start of `description` and blanks behind it up to `room` bytes.
fn header(description: &str, room: usize) -> Vec<u8> {
    let length = description.floor_char_boundary(room);
    let mut header = MAGIC.to_vec();
    header.extend(VERSION.to_le_bytes());
    header.extend([0; 2]);
    header.extend((room as u32).to_le_bytes());
    header.extend(&description.as_bytes()[..length]);
    header.resize(header.len() + room - length, b' ');
    header.extend(crc32c(&header).to_le_bytes());
    header
}

impl Sink for NativeWriter {
    fn write(&mut self, access: &Access) -> Result<(), TraceError> {
        NativeWriter::write(self, access)
    }

    fn finish(self: Box<Self>) -> Result<(), TraceError> {
        NativeWriter::finish(*self).map(drop)
    }
}
