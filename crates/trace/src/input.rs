//! [`Input`]: the bytes of a trace, from a file or standard input, decompressed if needed.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use crate::TraceError;

/// The bytes of a trace, with a name for messages.
pub struct Input {
    name: String,
    bytes: Box<dyn Read + Send>,
    /// Read ahead by [`Input::peek`] and not yet taken.
    ahead: Vec<u8>,
}

impl Input {
    /// Opens the file at `path`, or standard input for `-`. Data that begins as a zstd frame is
    /// decompressed, whatever the file's name.
    ///
    /// # Errors
    /// When it cannot be opened or its start cannot be read.
    pub fn open(path: &Path) -> Result<Input, TraceError> {
        if path.as_os_str() == "-" {
            return Input::new("stdin", io::stdin());
        }
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Input::new(&name, file),
            Err(source) => Err(TraceError::Open { name, source }),
        }
    }

    /// Reads from `bytes`, plain or zstd. Messages call them `name`.
    ///
    /// # Errors
    /// When their start cannot be read.
    pub fn new(name: &str, bytes: impl Read + Send + 'static) -> Result<Input, TraceError> {
        let fault = |source| TraceError::Read { name: name.to_string(), source };
        let mut bytes = bytes;
        let mut start = Vec::with_capacity(4);
        bytes.by_ref().take(4).read_to_end(&mut start).map_err(fault)?;
        let compressed = is_zstd(&start);
        let whole = Cursor::new(start).chain(bytes);
        let bytes: Box<dyn Read + Send> = if compressed {
            let buffered = BufReader::with_capacity(1 << 17, whole);
            Box::new(zstd::Decoder::with_buffer(buffered).map_err(fault)?)
        } else {
            Box::new(whole)
        };
        Ok(Input { name: name.to_string(), bytes, ahead: Vec::new() })
    }

    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The next `count` bytes, or fewer at the end, without taking them.
    ///
    /// # Errors
    /// As [`Input::read`].
    pub fn peek(&mut self, count: usize) -> Result<&[u8], TraceError> {
        let mut ahead = std::mem::take(&mut self.ahead);
        let mut filled = ahead.len();
        ahead.resize(filled.max(count), 0);
        while filled < count {
            match self.read(&mut ahead[filled..])? {
                0 => break,
                more => filled += more,
            }
        }
        ahead.truncate(filled);
        self.ahead = ahead;
        Ok(&self.ahead[..filled.min(count)])
    }

    /// Reads some bytes into `buffer`; 0 at the end.
    ///
    /// # Errors
    /// When they cannot be read, or compressed data is corrupt or cut short.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, TraceError> {
        if !self.ahead.is_empty() {
            let count = self.ahead.len().min(buffer.len());
            buffer[..count].copy_from_slice(&self.ahead[..count]);
            self.ahead.drain(..count);
            return Ok(count);
        }
        loop {
            match self.bytes.read(buffer) {
                Ok(count) => return Ok(count),
                Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
                Err(fault) if fault.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(TraceError::CutShort { name: self.name.clone() });
                }
                Err(source) => {
                    return Err(TraceError::Read { name: self.name.clone(), source });
                }
            }
        }
    }
}

/// Whether data that begins with `start` is a zstd frame or a skippable one (RFC 8878, sections
/// 3.1.1 and 3.1.2).
fn is_zstd(start: &[u8]) -> bool {
    let Some(magic) = start.first_chunk::<4>() else { return false };
    let magic = u32::from_le_bytes(*magic);
    magic == 0xfd2f_b528 || magic & 0xffff_fff0 == 0x184d_2a50
}
