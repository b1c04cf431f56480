//! [`Input`]: the bytes of a trace, from a file or standard input, decompressed if needed.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use liblzma::bufread::XzDecoder;

use crate::{Compression, TraceError};

/// U+FEFF in UTF-8, with which some programs begin a text.
const BYTE_ORDER_MARK: [u8; 3] = *b"\xef\xbb\xbf";

/// The bytes of a trace, with a name for messages.
pub struct Input {
    name: String,
    bytes: Box<dyn Read + Send>,
    /// Read ahead by [`Input::peek`] and not yet taken.
    ahead: Vec<u8>,
}

impl Input {
    /// Opens the file at `path`, or standard input for `-`. A zstd frame, a gzip member or an xz
    /// stream at the start is recognised by its content and decompressed.
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

    /// Reads from `bytes`, compressed or not. Messages call them `name`.
    ///
    /// # Errors
    /// When their start cannot be read.
    pub fn new(name: &str, bytes: impl Read + Send + 'static) -> Result<Input, TraceError> {
        let fault = |source| TraceError::Read { name: name.to_string(), source };
        let mut bytes = bytes;
        let mut start = Vec::with_capacity(Compression::MAGIC_BYTES);
        bytes
            .by_ref()
            .take(Compression::MAGIC_BYTES as u64)
            .read_to_end(&mut start)
            .map_err(fault)?;
        let compression = Compression::of_start(&start);
        let whole = Cursor::new(start).chain(bytes);
        let buffered = |bytes| BufReader::with_capacity(1 << 17, bytes);
        let bytes: Box<dyn Read + Send> = match compression {
            Compression::None => Box::new(whole),
            Compression::Zstd => {
                Box::new(zstd::Decoder::with_buffer(buffered(whole)).map_err(fault)?)
            }
            Compression::Gzip => Box::new(MultiGzDecoder::new(buffered(whole))),
            Compression::Xz => Box::new(XzDecoder::new_multi_decoder(buffered(whole))),
        };
        Ok(Input { name: name.to_string(), bytes, ahead: Vec::new() })
    }

    /// Returns the name in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the next `count` bytes, or fewer at the end, without taking them.
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

    /// Skips the byte order mark at the start of a text in UTF-8, if there is one.
    ///
    /// # Errors
    /// As [`Input::read`].
    pub(crate) fn skip_byte_order_mark(&mut self) -> Result<(), TraceError> {
        if self.peek(BYTE_ORDER_MARK.len())? == BYTE_ORDER_MARK {
            self.ahead.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(())
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
