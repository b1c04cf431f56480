//! [`Reader`]: the keys of a database file, and their values in pieces of bounded size.

use std::io::{self, ErrorKind, Read};

use thiserror::Error;

use super::checksum::crc64;
use super::text::{COMPRESSED, INTEGER_1, INTEGER_2, INTEGER_4, take_text, write_length};
use super::{VERSION_READ_MAX, forms};

/// Decoded bytes after which a piece of a collection ends.
const PIECE_BYTES: usize = 256 << 10;

/// DRAM bytes of an element beside its text.
const ELEMENT_BYTES: usize = 64;

/// Maximum bytes of a key.
const KEY_BYTES_MAX: usize = 64 << 10;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// Bytes of the checksum at the end of a file. Versions before 5 have none.
const CHECKSUM_BYTES: usize = 8;
const VERSION_WITH_CHECKSUM: u16 = 5;

/// Opcodes: what stands between the values.
const SLOT_INFO: u8 = 244;
const FUNCTION: u8 = 245;
const MODULE_AUX: u8 = 247;
const IDLE: u8 = 248;
const FREQUENCY: u8 = 249;
const AUX: u8 = 250;
const RESIZE: u8 = 251;
const EXPIRES_MS: u8 = 252;
const EXPIRES_S: u8 = 253;
const SELECT: u8 = 254;
const END: u8 = 255;

/// Type bytes of values of modules, and of streams.
const MODULE: u8 = 7;
const STREAMS: [u8; 3] = [15, 19, 21];

/// Parts of a value of a module.
const MODULE_END: u64 = 0;
const MODULE_INTEGERS: [u64; 2] = [1, 2];
const MODULE_FLOAT: u64 = 3;
const MODULE_DOUBLE: u64 = 4;
const MODULE_TEXT: u64 = 5;

/// Why a file cannot be read on.
#[derive(Debug, Error)]
#[error("byte {offset}: {fault}")]
pub struct Corrupt {
    /// The place in the file.
    pub offset: u64,
    /// What is wrong there.
    pub fault: Fault,
}

/// A fault of a file.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum Fault {
    #[error("no database file of Redis: expected REDIS and four digits")]
    Magic,
    #[error("version {0} of the format: expected 1 to {VERSION_READ_MAX}")]
    Version(u16),
    #[error("the file is cut off here")]
    Cut,
    #[error("{found} where {expected} was expected")]
    Unexpected { found: u8, expected: &'static str },
    #[error("the checksum is {found:016x}, and the file has {expected:016x}: a part is damaged")]
    Checksum { found: u64, expected: u64 },
    #[error("{0}")]
    Io(io::Error),
}

/// A key of a file. [`Reader::piece`] reads its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Number of its database.
    pub database: u64,
    /// Its bytes; `None` if it is longer than 64 KiB.
    pub key: Option<Vec<u8>>,
    /// When it expires, in milliseconds since the Unix epoch.
    pub expires_at_ms: Option<u64>,
}

/// A piece of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A value, or some elements of one that has more pieces, in the format of `DUMP` without
    /// version and checksum.
    Dump(Vec<u8>),
    /// A string of this many bytes, which [`Reader::bytes`] reads.
    Text(u64),
    /// A value that does not fit into the given bytes, or of a module. It was read over.
    Omitted(&'static str),
}

/// A value that was not read to its end.
#[derive(Debug, Default)]
struct Value {
    form: u8,
    /// Elements that were not read yet; `None` before the first piece.
    left: Option<u64>,
    /// Base of the times of fields.
    base: Vec<u8>,
    /// Bytes of a [`Piece::Text`] that were not read yet.
    unread: u64,
    over: bool,
}

/// Things of a file that are no keys. They are read over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Beside {
    /// Libraries of functions.
    pub functions: u64,
    /// Data of modules that belong to no key.
    pub modules: u64,
}

/// Reads a database file from its start to its end.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    offset: u64,
    sum: u64,
    version: u16,
    database: u64,
    value: Value,
    /// The bytes of what is read now, while they are wanted.
    raw: Vec<u8>,
    /// Maximum bytes of `raw`. Further ones are dropped.
    raw_max: usize,
    /// Bytes that did not fit into `raw`.
    dropped: u64,
    beside: Beside,
    /// Bytes of an omitted part of a value.
    buffer: Vec<u8>,
}

impl<R: Read> Reader<R> {
    /// Reads the start of a file. Values have at most `bytes_max` bytes in a piece.
    ///
    /// # Errors
    /// Returns an error if it is no database file of a known version.
    pub fn open(source: R, bytes_max: usize) -> Result<Reader<R>, Corrupt> {
        let mut reader = Reader {
            source,
            offset: 0,
            sum: 0,
            version: 0,
            database: 0,
            value: Value { over: true, ..Value::default() },
            raw: Vec::new(),
            raw_max: bytes_max,
            dropped: 0,
            beside: Beside::default(),
            buffer: vec![0; READ_BYTES],
        };
        let head: [u8; 9] = reader.array()?;
        let digits = head.strip_prefix(b"REDIS").and_then(|digits| str::from_utf8(digits).ok());
        let version = digits.and_then(|digits| digits.parse().ok());
        reader.version = version.ok_or(Corrupt { offset: 0, fault: Fault::Magic })?;
        if !(1..=VERSION_READ_MAX).contains(&reader.version) {
            return Err(Corrupt { offset: 5, fault: Fault::Version(reader.version) });
        }
        Ok(reader)
    }

    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Things that were read over so far.
    pub fn beside(&self) -> Beside {
        self.beside
    }

    /// Reads the next key, after the rest of the last value. Returns `None` at the end of the
    /// file, whose checksum is right.
    ///
    /// # Errors
    /// Returns an error if the file is damaged or cannot be read.
    #[expect(clippy::should_implement_trait, reason = "an error ends it")]
    pub fn next(&mut self) -> Result<Option<Found>, Corrupt> {
        while self.piece(0)?.is_some() {}
        self.record(0);
        self.skip(self.value.unread)?;
        self.value.unread = 0;
        let mut expires_at_ms = None;
        loop {
            let at = self.offset;
            let code = self.byte()?;
            match code {
                EXPIRES_MS => expires_at_ms = Some(u64::from_le_bytes(self.array()?)),
                EXPIRES_S => {
                    let seconds = u32::from_le_bytes(self.array()?);
                    expires_at_ms = Some(u64::from(seconds) * 1000);
                }
                SELECT => self.database = self.length()?,
                RESIZE => drop((self.length()?, self.length()?)),
                SLOT_INFO => drop((self.length()?, self.length()?, self.length()?)),
                AUX => drop((self.text(0)?, self.text(0)?)),
                IDLE => drop(self.length()?),
                FREQUENCY => drop(self.byte()?),
                FUNCTION => {
                    self.text(0)?;
                    self.beside.functions += 1;
                }
                MODULE_AUX => {
                    self.length()?;
                    self.module()?;
                    self.beside.modules += 1;
                }
                END => return self.end().map(|()| None),
                form if is_known(form) => {
                    let key = self.text(KEY_BYTES_MAX)?;
                    self.value = Value { form, ..Value::default() };
                    return Ok(Some(Found { database: self.database, key, expires_at_ms }));
                }
                found => {
                    let expected = "the type of a value or an opcode";
                    let fault = Fault::Unexpected { found, expected };
                    return Err(Corrupt { offset: at, fault });
                }
            }
        }
    }

    /// Reads the next piece of the value of the last key, of at most `bytes_max` bytes. Returns
    /// `None` after the last one.
    ///
    /// # Errors
    /// Returns an error if the file is damaged or cannot be read.
    pub fn piece(&mut self, bytes_max: usize) -> Result<Option<Piece>, Corrupt> {
        if self.value.over {
            return Ok(None);
        }
        let form = self.value.form;
        let counted = is_counted(form);
        if !counted {
            self.value.over = true;
        }
        self.record(bytes_max);
        match form {
            forms::STRING => {
                let first = self.byte()?;
                if first < INTEGER_1 {
                    let length = self.length_after(first)?;
                    if length > bytes_max as u64 {
                        self.value.unread = length;
                        return Ok(Some(Piece::Text(length)));
                    }
                    self.skip(length)?;
                } else {
                    self.text_after(first)?;
                }
            }
            MODULE => {
                self.record(0);
                self.length()?;
                self.module()?;
                return Ok(Some(Piece::Omitted("a value of a module")));
            }
            form if STREAMS.contains(&form) => self.stream(form)?,
            _ if counted => return self.elements(bytes_max).map(Some),
            forms::HASH_PACKED_WITH_EXPIRY => {
                self.array::<8>()?;
                self.any_text()?;
            }
            _ => drop(self.any_text()?),
        }
        Ok(Some(match self.recorded() {
            Some(mut raw) => {
                raw.insert(0, form);
                Piece::Dump(raw)
            }
            None => Piece::Omitted("a value too large for the DRAM of the server"),
        }))
    }

    /// Reads elements of a collection until a piece is full.
    fn elements(&mut self, bytes_max: usize) -> Result<Piece, Corrupt> {
        let form = self.value.form;
        let mut left = match self.value.left {
            Some(left) => left,
            None => {
                if form == forms::HASH_WITH_EXPIRY {
                    self.value.base = self.array::<8>()?.to_vec();
                }
                self.length()?
            }
        };
        self.record(bytes_max);
        let (mut count, mut bytes) = (0usize, 0);
        while left > 0 && bytes < PIECE_BYTES.min(bytes_max.max(1)) {
            bytes += self.element(form)? + ELEMENT_BYTES;
            (count, left) = (count + 1, left - 1);
        }
        self.value.left = Some(left);
        self.value.over = left == 0;
        Ok(match self.recorded() {
            Some(raw) => {
                let mut dump = [&[form][..], &self.value.base].concat();
                write_length(&mut dump, count);
                dump.extend(raw);
                Piece::Dump(dump)
            }
            None => Piece::Omitted("an element too large for the DRAM of the server"),
        })
    }

    /// Reads an element. Returns its bytes when decoded.
    fn element(&mut self, form: u8) -> Result<usize, Corrupt> {
        Ok(match form {
            forms::HASH => self.any_text()? + self.any_text()?,
            forms::HASH_WITH_EXPIRY => {
                self.length()?;
                self.any_text()? + self.any_text()?
            }
            forms::SORTED_SET => {
                let bytes = self.any_text()?;
                self.array::<8>()?;
                bytes
            }
            forms::SORTED_SET_OF_TEXTS => {
                let bytes = self.any_text()?;
                let length = self.byte()?;
                if length < forms::NOT_A_NUMBER {
                    self.skip(length.into())?;
                }
                bytes
            }
            forms::LIST_OF_PACKS => {
                self.length()?;
                self.any_text()?
            }
            _ => self.any_text()?,
        })
    }

    /// Reads a stream. (Redis, `rdb.c`, `rdbSaveObject`.)
    fn stream(&mut self, form: u8) -> Result<(), Corrupt> {
        for _ in 0..self.length()? {
            self.any_text()?;
            self.any_text()?;
        }
        // Length, and the last ID. Since 7.0: the first ID, the largest deleted, and a count.
        for _ in 0..if form == STREAMS[0] { 3 } else { 8 } {
            self.length()?;
        }
        for _ in 0..self.length()? {
            self.any_text()?;
            for _ in 0..if form == STREAMS[0] { 2 } else { 3 } {
                self.length()?;
            }
            for _ in 0..self.length()? {
                self.array::<24>()?;
                self.length()?;
            }
            for _ in 0..self.length()? {
                self.any_text()?;
                self.skip(if form == STREAMS[2] { 16 } else { 8 })?;
                for _ in 0..self.length()? {
                    self.array::<16>()?;
                }
            }
        }
        Ok(())
    }

    /// Reads over the parts of a module's data.
    fn module(&mut self) -> Result<(), Corrupt> {
        loop {
            let at = self.offset;
            match self.length()? {
                MODULE_END => return Ok(()),
                part if MODULE_INTEGERS.contains(&part) => drop(self.length()?),
                MODULE_FLOAT => self.skip(4)?,
                MODULE_DOUBLE => self.skip(8)?,
                MODULE_TEXT => drop(self.any_text()?),
                part => {
                    let (found, expected) = (part as u8, "a part of a module's data");
                    return Err(Corrupt {
                        offset: at,
                        fault: Fault::Unexpected { found, expected },
                    });
                }
            }
        }
    }

    /// Checks the checksum at the end. A file without one has zeros.
    fn end(&mut self) -> Result<(), Corrupt> {
        if self.version < VERSION_WITH_CHECKSUM {
            return Ok(());
        }
        let (found, offset) = (self.sum, self.offset);
        let expected = u64::from_le_bytes(self.array::<CHECKSUM_BYTES>()?);
        if expected != 0 && expected != found {
            return Err(Corrupt { offset, fault: Fault::Checksum { found, expected } });
        }
        Ok(())
    }

    /// Reads bytes of a [`Piece::Text`].
    ///
    /// # Errors
    /// Returns an error if the file is cut off or cannot be read.
    pub fn bytes(&mut self, count: usize) -> Result<Vec<u8>, Corrupt> {
        self.record(count);
        self.skip((count as u64).min(self.value.unread))?;
        self.value.unread = self.value.unread.saturating_sub(count as u64);
        Ok(self.recorded().unwrap_or_default())
    }

    /// Begins to keep the bytes that are read, at most `most`.
    fn record(&mut self, most: usize) {
        self.raw.clear();
        (self.raw_max, self.dropped) = (most, 0);
    }

    /// Returns the kept bytes, if all of them fitted.
    fn recorded(&mut self) -> Option<Vec<u8>> {
        let raw = std::mem::take(&mut self.raw);
        (self.dropped == 0).then_some(raw)
    }

    /// Reads a text, and returns it if it has at most `most` bytes.
    fn text(&mut self, most: usize) -> Result<Option<Vec<u8>>, Corrupt> {
        self.record(most);
        self.any_text()?;
        Ok(self.recorded().and_then(|raw| take_text(&mut &raw[..], most)))
    }

    /// Reads over a text. Returns its bytes when decoded.
    fn any_text(&mut self) -> Result<usize, Corrupt> {
        let first = self.byte()?;
        self.text_after(first)
    }

    fn text_after(&mut self, first: u8) -> Result<usize, Corrupt> {
        const DIGITS_MAX: usize = 11;
        let at = self.offset - 1;
        match first {
            INTEGER_1 => self.skip(1).map(|()| DIGITS_MAX),
            INTEGER_2 => self.skip(2).map(|()| DIGITS_MAX),
            INTEGER_4 => self.skip(4).map(|()| DIGITS_MAX),
            COMPRESSED => {
                let (packed, length) = (self.length()?, self.length()?);
                self.skip(packed)?;
                Ok(usize::try_from(length).unwrap_or(usize::MAX / 4).min(usize::MAX / 4))
            }
            found if found > COMPRESSED => {
                let fault = Fault::Unexpected { found, expected: "a text" };
                Err(Corrupt { offset: at, fault })
            }
            _ => {
                let length = self.length_after(first)?;
                self.skip(length)?;
                Ok(length as usize)
            }
        }
    }

    fn length(&mut self) -> Result<u64, Corrupt> {
        let first = self.byte()?;
        self.length_after(first)
    }

    fn length_after(&mut self, first: u8) -> Result<u64, Corrupt> {
        let offset = self.offset - 1;
        Ok(match first {
            0..0x40 => first.into(),
            0x40..0x80 => u64::from(first & 0x3f) << 8 | u64::from(self.byte()?),
            0x80 => u32::from_be_bytes(self.array()?).into(),
            0x81 => u64::from_be_bytes(self.array()?),
            found => {
                let fault = Fault::Unexpected { found, expected: "a length" };
                return Err(Corrupt { offset, fault });
            }
        })
    }

    fn byte(&mut self) -> Result<u8, Corrupt> {
        Ok(self.array::<1>()?[0])
    }

    fn array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], Corrupt> {
        let mut array = [0; BYTES];
        let read = self.source.read_exact(&mut array);
        read.map_err(|error| self.failed(error))?;
        self.took(&array);
        Ok(array)
    }

    /// Reads over bytes.
    fn skip(&mut self, mut count: u64) -> Result<(), Corrupt> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut outcome = Ok(());
        while count > 0 && outcome.is_ok() {
            let piece = &mut buffer[..count.min(READ_BYTES as u64) as usize];
            match self.source.read_exact(piece) {
                Ok(()) => self.took(piece),
                Err(error) => outcome = Err(self.failed(error)),
            }
            count -= piece.len() as u64;
        }
        self.buffer = buffer;
        outcome
    }

    fn took(&mut self, bytes: &[u8]) {
        self.offset += bytes.len() as u64;
        self.sum = crc64(self.sum, bytes);
        if self.dropped == 0 && self.raw.len() + bytes.len() <= self.raw_max {
            self.raw.extend_from_slice(bytes);
        } else {
            self.dropped += bytes.len() as u64;
            self.raw = Vec::new();
        }
    }

    fn failed(&self, error: io::Error) -> Corrupt {
        let fault = match error.kind() {
            ErrorKind::UnexpectedEof => Fault::Cut,
            _ => Fault::Io(error),
        };
        Corrupt { offset: self.offset, fault }
    }
}

/// True if this is the type byte of a value that can be read over.
fn is_known(form: u8) -> bool {
    form <= forms::SORTED_SET
        || (MODULE..=forms::HASH_PACKED_WITH_EXPIRY).contains(&form) && !matches!(form, 8 | 22 | 23)
}

/// True if a value of this form is a number of elements and the elements.
fn is_counted(form: u8) -> bool {
    (forms::LIST..=forms::SORTED_SET).contains(&form)
        || matches!(form, forms::LIST_OF_ZIPLISTS | forms::LIST_OF_PACKS | forms::HASH_WITH_EXPIRY)
}
