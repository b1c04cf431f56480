//! [`export`]: writes the keys of a server to a database file.
//!
//! `SCAN` names the keys, and `DUMP` returns their values. A collection that is too large for one
//! reply comes in pages. Each key is written as it is at its time, so writes that go on are in the
//! file in part.

use std::io::{self, Seek, SeekFrom, Write};

use thiserror::Error;

use super::checksum::crc64;
use super::link::{Answer, Link};
use super::text::write_length;
use super::{VERSION, VERSION_READ_MAX, forms};

/// Keys that a page of `SCAN` has, and elements of a page of a collection.
const KEYS: &str = "200";
const ELEMENTS: usize = 500;

/// Bytes of requests that are under way together. More could wait for replies that nobody reads.
const REQUESTS_BYTES_MAX: usize = 8 << 10;

/// Bytes of version and checksum behind a dump.
const FOOTER_BYTES: usize = 10;

/// Tries to read a large collection that others change.
const TRIES: usize = 3;

/// Opcodes of the file.
const EXPIRES_MS: u8 = 252;
const SELECT: u8 = 254;
const END: u8 = 255;

/// Why an export ends early.
#[derive(Debug, Error)]
pub enum ExportError {
    /// The file cannot be written.
    #[error("{0}")]
    File(io::Error),
    /// The server does not answer, or not as expected.
    #[error("the server: {0}")]
    Server(String),
    /// The caller has stopped it.
    #[error("stopped")]
    Stopped,
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> ExportError {
        ExportError::Server(error.to_string())
    }
}

/// What an export has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exported {
    /// Keys in the file.
    pub keys: u64,
    /// Keys that cannot be in it.
    pub refused: u64,
    /// True if Redis 7.4 is needed to read it, because fields of hashes expire.
    pub needs_7_4: bool,
}

/// The caller's side of an export.
pub trait Exporting {
    /// Called with the keys so far, and the keys of the server. Returns false to stop.
    fn goes_on(&mut self, done: u64, all: u64) -> bool;

    /// Called for a key that is left out.
    fn refused(&mut self, key: &[u8], database: u64, reason: &str);
}

/// Writes all keys of a server to a file.
///
/// # Errors
/// Returns an error if the file cannot be written, or the server does not answer.
pub fn export<W: Write + Seek>(
    link: &mut Link,
    file: W,
    caller: &mut dyn Exporting,
) -> Result<Exported, ExportError> {
    let output = Output { file, sum: 0, bytes: 0 };
    let mut export =
        Export { link, output, caller, all: 0, database: 0, done: Exported::default() };
    export.run()?;
    Ok(export.done)
}

/// The file, with its length and checksum so far.
struct Output<W> {
    file: W,
    sum: u64,
    bytes: u64,
}

impl<W: Write + Seek> Output<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<(), ExportError> {
        self.sum = crc64(self.sum, bytes);
        self.bytes += bytes.len() as u64;
        self.file.write_all(bytes).map_err(ExportError::File)
    }

    /// Goes back to a place with its checksum.
    fn back(&mut self, (bytes, sum): (u64, u64)) -> Result<(), ExportError> {
        (self.bytes, self.sum) = (bytes, sum);
        self.file.seek(SeekFrom::Start(bytes)).map(drop).map_err(ExportError::File)
    }

    /// Raises the version at the start. The checksum is linear: the change counts as if all bytes
    /// after it were zeros.
    fn raise(&mut self, version: u16) -> Result<(), ExportError> {
        let [old, new] = [VERSION, version].map(head);
        let change: Vec<u8> = old.iter().zip(&new).map(|(old, new)| old ^ new).collect();
        let mut sum = crc64(0, &change);
        let (zeros, mut left) = ([0; 4096], self.bytes - change.len() as u64);
        while left > 0 {
            let count = left.min(zeros.len() as u64);
            sum = crc64(sum, &zeros[..count as usize]);
            left -= count;
        }
        let end = (self.bytes, self.sum ^ sum);
        self.back((0, 0))?;
        self.file.write_all(&new).map_err(ExportError::File)?;
        self.back(end)
    }
}

/// The first bytes of a file.
fn head(version: u16) -> Vec<u8> {
    format!("REDIS{version:04}").into_bytes()
}

/// The state of an export.
struct Export<'a, W> {
    link: &'a mut Link,
    output: Output<W>,
    caller: &'a mut dyn Exporting,
    /// Keys of the server.
    all: u64,
    database: u64,
    done: Exported,
}

impl<W: Write + Seek> Export<'_, W> {
    fn run(&mut self) -> Result<(), ExportError> {
        self.output.write(&head(VERSION))?;
        let sizes = self.sizes()?;
        self.all = sizes.iter().map(|(_, keys)| keys).sum();
        for (database, _) in sizes.into_iter().filter(|(_, keys)| *keys > 0) {
            self.database = database;
            self.ask(&[b"SELECT", database.to_string().as_bytes()])?;
            let mut bytes = vec![SELECT];
            write_length(&mut bytes, database as usize);
            self.output.write(&bytes)?;
            let mut cursor = b"0".to_vec();
            loop {
                let page = self.ask(&[b"SCAN", &cursor, b"COUNT", KEYS.as_bytes()])?;
                let keys;
                (cursor, keys) = scanned(page)?;
                self.keys(&keys)?;
                if cursor == b"0" {
                    break;
                }
            }
        }
        if self.done.needs_7_4 {
            self.output.raise(VERSION_READ_MAX)?;
        }
        self.output.write(&[END])?;
        let sum = self.output.sum.to_le_bytes();
        self.output.write(&sum)?;
        self.output.file.flush().map_err(ExportError::File)
    }

    /// Returns the databases, with the number of their keys.
    fn sizes(&mut self) -> Result<Vec<(u64, u64)>, ExportError> {
        let mut sizes = Vec::new();
        for database in 0.. {
            let selected = self.link.ask(&[b"SELECT", database.to_string().as_bytes()])?;
            match selected.error() {
                None => {}
                Some(error) if database == 0 => return Err(ExportError::Server(error.into())),
                Some(_) => break,
            }
            let Answer::Integer(keys) = self.ask(&[b"DBSIZE"])? else { return Err(odd("DBSIZE")) };
            sizes.push((database, keys as u64));
        }
        Ok(sizes)
    }

    /// Sends a request. An error of the server ends the export.
    fn ask(&mut self, words: &[&[u8]]) -> Result<Answer, ExportError> {
        match self.link.ask(words)? {
            Answer::Error(text) => Err(ExportError::Server(text)),
            answer => Ok(answer),
        }
    }

    /// Writes keys with their values.
    fn keys(&mut self, mut keys: &[Vec<u8>]) -> Result<(), ExportError> {
        while !keys.is_empty() {
            if !self.caller.goes_on(self.done.keys + self.done.refused, self.all) {
                return Err(ExportError::Stopped);
            }
            let (mut count, mut bytes) = (0, 0);
            while count < keys.len() && (count == 0 || bytes < REQUESTS_BYTES_MAX) {
                bytes += 2 * keys[count].len() + 60;
                self.link.request(&[b"PEXPIRETIME", &keys[count]])?;
                self.link.request(&[b"DUMP", &keys[count]])?;
                count += 1;
            }
            self.link.flush()?;
            let (now, later) = keys.split_at(count);
            keys = later;
            let mut large = Vec::new();
            for key in now {
                let (time, dump) = (self.link.answer()?, self.link.answer()?);
                match (&time, dump) {
                    (Answer::Integer(-2), _) | (_, Answer::Text(None)) => {}
                    (Answer::Integer(at), Answer::Text(Some(dump))) => self.key(key, *at, &dump)?,
                    (Answer::Integer(at), Answer::Error(reason)) => large.push((key, *at, reason)),
                    _ => return Err(odd("DUMP")),
                }
            }
            for (key, at, reason) in large {
                self.large(key, at, &reason)?;
            }
        }
        Ok(())
    }

    /// Writes a key with its dump.
    fn key(&mut self, key: &[u8], at: i64, dump: &[u8]) -> Result<(), ExportError> {
        let value = dump.len().checked_sub(FOOTER_BYTES).filter(|bytes| *bytes > 0);
        let (form, value) = dump[..value.ok_or_else(|| odd("DUMP"))?].split_at(1);
        self.done.needs_7_4 |= form[0] > forms::SET_PACKED + 1;
        self.start(key, at, form[0])?;
        self.output.write(value)?;
        self.done.keys += 1;
        Ok(())
    }

    /// Writes what is before a value.
    fn start(&mut self, key: &[u8], at: i64, form: u8) -> Result<(), ExportError> {
        let mut bytes = Vec::new();
        if at >= 0 {
            bytes.push(EXPIRES_MS);
            bytes.extend(at.to_le_bytes());
        }
        bytes.push(form);
        write_length(&mut bytes, key.len());
        bytes.extend(key);
        self.output.write(&bytes)
    }

    /// Writes a key whose dump the server has refused for `reason`, in pages.
    fn large(&mut self, key: &[u8], at: i64, reason: &str) -> Result<(), ExportError> {
        let start = (self.output.bytes, self.output.sum);
        let kind = self.ask(&[b"TYPE", key])?;
        let Answer::Status(kind) = kind else { return Err(odd("TYPE")) };
        let (form, length) = match kind.as_str() {
            "none" => return Ok(()),
            "list" => (forms::LIST, "LLEN"),
            "set" => (forms::SET, "SCARD"),
            "hash" => (forms::HASH, "HLEN"),
            "zset" => (forms::SORTED_SET, "ZCARD"),
            _ => return self.refuse(key, reason),
        };
        for _ in 0..TRIES {
            let Answer::Integer(count) = self.ask(&[length.as_bytes(), key])? else {
                return Err(odd(length));
            };
            self.start(key, at, form)?;
            let mut bytes = Vec::new();
            write_length(&mut bytes, count as usize);
            self.output.write(&bytes)?;
            match self.pages(key, form)? {
                Some(written) if written == count as u64 && count > 0 => {
                    self.done.keys += 1;
                    return Ok(());
                }
                Some(_) => self.output.back(start)?,
                None => {
                    self.output.back(start)?;
                    return self.refuse(key, "a large hash with fields that expire");
                }
            }
        }
        self.refuse(key, "others change it, and it is too large for one reply")
    }

    fn refuse(&mut self, key: &[u8], reason: &str) -> Result<(), ExportError> {
        self.done.refused += 1;
        self.caller.refused(key, self.database, reason);
        Ok(())
    }

    /// Writes the elements of a collection. Returns their number, or `None` if fields expire.
    fn pages(&mut self, key: &[u8], form: u8) -> Result<Option<u64>, ExportError> {
        let (mut cursor, mut count) = (b"0".to_vec(), 0);
        let many = ELEMENTS.to_string();
        loop {
            if !self.caller.goes_on(self.done.keys + self.done.refused, self.all) {
                return Err(ExportError::Stopped);
            }
            let scan: &[u8] = match form {
                forms::LIST => {
                    let (from, to) = (count.to_string(), (count + ELEMENTS as u64 - 1).to_string());
                    let page = self.ask(&[b"LRANGE", key, from.as_bytes(), to.as_bytes()])?;
                    let texts = texts(page)?;
                    count += texts.len() as u64;
                    self.texts(&texts)?;
                    if texts.len() < ELEMENTS {
                        return Ok(Some(count));
                    }
                    continue;
                }
                forms::SET => b"SSCAN",
                forms::HASH => b"HSCAN",
                _ => b"ZSCAN",
            };
            let page = self.ask(&[scan, key, &cursor, b"COUNT", many.as_bytes()])?;
            let texts;
            (cursor, texts) = scanned(page)?;
            match form {
                forms::SET => {
                    self.texts(&texts)?;
                    count += texts.len() as u64;
                }
                forms::HASH => {
                    if self.expires(key, &texts)? {
                        return Ok(None);
                    }
                    self.texts(&texts)?;
                    count += texts.len() as u64 / 2;
                }
                _ => {
                    let (pairs, _) = texts.as_chunks::<2>();
                    for [member, score] in pairs {
                        let score = crate::number::float(score).ok_or_else(|| odd("ZSCAN"))?;
                        self.texts(std::slice::from_ref(member))?;
                        self.output.write(&score.to_le_bytes())?;
                    }
                    count += pairs.len() as u64;
                }
            }
            if cursor == b"0" {
                return Ok(Some(count));
            }
        }
    }

    fn texts(&mut self, texts: &[Vec<u8>]) -> Result<(), ExportError> {
        for text in texts {
            let mut length = Vec::new();
            write_length(&mut length, text.len());
            self.output.write(&length)?;
            self.output.write(text)?;
        }
        Ok(())
    }

    /// True if one of these fields expires. A server without such fields does not know the command.
    fn expires(&mut self, key: &[u8], pairs: &[Vec<u8>]) -> Result<bool, ExportError> {
        let count = (pairs.len() / 2).to_string();
        let mut words: Vec<&[u8]> = vec![b"HPEXPIRETIME", key, b"FIELDS", count.as_bytes()];
        words.extend(pairs.iter().step_by(2).map(Vec::as_slice));
        if pairs.is_empty() {
            return Ok(false);
        }
        let Answer::Array(times) = self.link.ask(&words)? else { return Ok(false) };
        Ok(times.iter().any(|time| matches!(time, Answer::Integer(0..))))
    }
}

/// A reply that is not what the command returns.
fn odd(command: &str) -> ExportError {
    ExportError::Server(format!("its reply to {command} is unexpected"))
}

/// Returns the texts of a reply.
fn texts(answer: Answer) -> Result<Vec<Vec<u8>>, ExportError> {
    let Answer::Array(answers) = answer else { return Err(odd("a page")) };
    let text = |answer| match answer {
        Answer::Text(Some(text)) => Ok(text),
        _ => Err(odd("a page")),
    };
    answers.into_iter().map(text).collect()
}

/// Returns the next cursor and the texts of a page.
fn scanned(page: Answer) -> Result<(Vec<u8>, Vec<Vec<u8>>), ExportError> {
    let Answer::Array(parts) = page else { return Err(odd("SCAN")) };
    match <[Answer; 2]>::try_from(parts) {
        Ok([Answer::Text(Some(cursor)), page]) => Ok((cursor, texts(page)?)),
        _ => Err(odd("SCAN")),
    }
}
