//! [`NativeReader`]: a trace in native form as a [`Source`].

use ebbtide_core::{crc32c, crc32c_append};

use super::columns::Decoder;
use super::{
    BLOCK_ENTRIES, BLOCK_HEADER_BYTES, DESCRIPTION_BYTES_MAX, MAGIC, columns_of, raw_bytes_max,
};
use crate::error::NativeError;
use crate::{Access, Input, Source, TraceError};

/// Entries a batch, few enough to stay in a core's cache.
const BATCH: usize = 2048;

/// Reads a trace in native form.
pub struct NativeReader {
    input: Input,
    description: String,
    decoder: Decoder,
    decompressor: zstd::bulk::Decompressor<'static>,
    stored: Vec<u8>,
    /// The offset of the next byte of the input.
    offset: u64,
    /// The offset of the current block.
    block: u64,
    entries: u64,
    ended: bool,
}

impl NativeReader {
    /// Reads `input` from its start.
    ///
    /// # Errors
    /// When it cannot be read or does not begin as a native trace of this version.
    pub fn new(input: Input) -> Result<NativeReader, TraceError> {
        let decompressor = zstd::bulk::Decompressor::new()
            .map_err(|source| TraceError::Read { name: input.name().to_string(), source })?;
        let mut reader = NativeReader {
            input,
            description: String::new(),
            decoder: Decoder::new(0),
            decompressor,
            stored: Vec::new(),
            offset: 0,
            block: 0,
            entries: 0,
            ended: false,
        };
        reader.read_header()?;
        Ok(reader)
    }

    /// The description that the writer gave, without blanks at its end.
    pub fn description(&self) -> &str {
        self.description.trim_end_matches(' ')
    }

    fn read_header(&mut self) -> Result<(), TraceError> {
        let start: [u8; 16] = self.array()?;
        let version = u16::from_le_bytes([start[8], start[9]]);
        if start[..8] != MAGIC {
            return Err(self.fault(NativeError::Corrupt("the first bytes of a native trace")));
        }
        let Some(columns) = columns_of(version) else {
            return Err(self.fault(NativeError::Version(version)));
        };
        self.decoder = Decoder::new(columns);
        let length = u32::from_le_bytes([start[12], start[13], start[14], start[15]]) as usize;
        if start[10..12] != [0; 2] || length > DESCRIPTION_BYTES_MAX {
            return Err(self.fault(NativeError::Corrupt("a description of at most 64 KiB")));
        }
        let description = self.take(length)?.to_vec();
        let found = crc32c_append(crc32c(&start), &description);
        self.check(found)?;
        self.description = String::from_utf8(description)
            .map_err(|_| self.fault(NativeError::Corrupt("a description in UTF-8")))?;
        Ok(())
    }

    /// Reads the next block. Returns whether there was one.
    fn read_block(&mut self) -> Result<bool, TraceError> {
        self.block = self.offset;
        let numbers: [u8; BLOCK_HEADER_BYTES] = self.array()?;
        let [entries, raw, stored, checksum] = std::array::from_fn(|i| {
            u32::from_le_bytes(std::array::from_fn(|byte| numbers[4 * i + byte]))
        });
        let (entries, raw, stored) = (entries as usize, raw as usize, stored as usize);
        let possible = entries <= BLOCK_ENTRIES && raw <= raw_bytes_max(entries);
        if !possible || stored > zstd::zstd_safe::compress_bound(raw) {
            return Err(self.fault(NativeError::Corrupt("the lengths of a block")));
        }
        let found = crc32c_append(crc32c(&numbers[..12]), self.take(stored)?);
        if found != checksum {
            return Err(self.fault(NativeError::Checksum { expected: checksum, found }));
        }
        if entries == 0 {
            return self.end().map(|()| false);
        }
        let columns = self.decoder.raw();
        columns.clear();
        columns.reserve(raw);
        let length = self.decompressor.decompress_to_buffer(&self.stored, columns);
        if length.ok() != Some(raw) {
            return Err(self.fault(NativeError::Corrupt("a zstd frame of the stated length")));
        }
        self.decoder.begin(entries).map_err(|problem| self.fault(problem))?;
        Ok(true)
    }

    /// Checks the count in the last block, and that nothing follows it.
    fn end(&mut self) -> Result<(), TraceError> {
        let Some(expected) = self.stored.as_array().map(|count| u64::from_le_bytes(*count)) else {
            return Err(self.fault(NativeError::Corrupt("a count of entries")));
        };
        if expected != self.entries {
            return Err(self.fault(NativeError::Count { expected }));
        }
        self.block = self.offset;
        if self.input.read(&mut [0])? > 0 {
            return Err(self.fault(NativeError::Corrupt("the end of the file")));
        }
        self.ended = true;
        Ok(())
    }

    /// Reads the next `N` bytes.
    fn array<const N: usize>(&mut self) -> Result<[u8; N], TraceError> {
        Ok(*self.take(N)?.as_array().expect("as many bytes as were asked for"))
    }

    /// Reads the next `length` bytes.
    fn take(&mut self, length: usize) -> Result<&[u8], TraceError> {
        self.stored.resize(length, 0);
        let mut found = 0;
        while found < length {
            match self.input.read(&mut self.stored[found..])? {
                0 => return Err(self.fault(NativeError::CutShort { expected: length, found })),
                count => found += count,
            }
        }
        self.offset += length as u64;
        Ok(&self.stored)
    }

    /// Compares `found` with the checksum that comes next.
    fn check(&mut self, found: u32) -> Result<(), TraceError> {
        let expected = u32::from_le_bytes(self.array()?);
        if found == expected {
            return Ok(());
        }
        Err(self.fault(NativeError::Checksum { expected, found }))
    }

    /// The error of `problem` in the current block.
    fn fault(&self, problem: NativeError) -> TraceError {
        let name = self.input.name().to_string();
        TraceError::Native { name, offset: self.block, entries: self.entries, problem }
    }
}

impl Source for NativeReader {
    fn fill(&mut self, batch: &mut Vec<Access>) -> Result<bool, TraceError> {
        batch.clear();
        if !self.decoder.has_more() && (self.ended || !self.read_block()?) {
            return Ok(false);
        }
        let decoded = self.decoder.decode(batch, BATCH);
        self.entries += batch.len() as u64;
        decoded.map_err(|problem| self.fault(problem))?;
        Ok(true)
    }

    fn origin(&self) -> Option<&str> {
        Some(self.description()).filter(|description| !description.is_empty())
    }
}
