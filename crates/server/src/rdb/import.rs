//! [`import`]: sends the keys of a database file to a server.
//!
//! A value goes as a dump of [`Piece`] size, for `RESTORE`. The further elements of a collection
//! follow in commands that add elements, so that no large value lies in DRAM.

use std::collections::VecDeque;
use std::io::{self, Read};

use ebbtide_structures::keyspace::{Field, Kind, Score};
use thiserror::Error;

use super::checksum::crc64;
use super::link::{Answer, Link};
use super::reader::{Corrupt, Found, Piece, Reader};
use super::{VERSION, forms};
use crate::clock::now_ms;

/// Requests whose replies may be under way.
const REQUESTS_MAX: usize = 64;

/// Bytes of requests whose replies may be under way.
const REQUESTS_BYTES_MAX: usize = 1 << 20;

/// Bytes of a string that are sent together.
const TEXT_PIECE_BYTES: usize = 64 << 10;

/// Elements of a command that adds them.
const ELEMENTS_MAX: usize = 512;

/// Why an import ends early.
#[derive(Debug, Error)]
pub enum ImportError {
    /// The file is damaged or cannot be read.
    #[error(transparent)]
    File(#[from] Corrupt),
    /// The server does not answer.
    #[error("the server: {0}")]
    Server(#[from] io::Error),
    /// The caller has stopped it.
    #[error("stopped")]
    Stopped,
}

/// What an import has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Imported {
    /// Keys that the server has.
    pub keys: u64,
    /// Keys that had expired. They are left out.
    pub expired: u64,
    /// Keys whose value the server or the import refuses.
    pub refused: u64,
    /// Libraries of functions. They are left out.
    pub functions: u64,
    /// Data of modules that belong to no key. They are left out.
    pub modules: u64,
}

/// The caller's side of an import.
pub trait Importing {
    /// Called for each key and each piece of a value, with the offset in the file. Returns false to
    /// stop.
    fn goes_on(&mut self, offset: u64) -> bool;

    /// True if keys that have expired are sent as well. By default they are left out.
    fn keeps_expired(&self) -> bool {
        false
    }

    /// Called for a key that is refused.
    fn refused(&mut self, key: &[u8], database: u64, reason: &str);
}

/// Sends the keys of a file. Keys that exist are replaced if `replace`, and refused otherwise.
/// Values have at most `bytes_max` bytes in DRAM at once.
///
/// # Errors
/// Returns an error if the file is damaged, or the server does not answer. Keys before it are sent.
pub fn import<R: Read>(
    file: R,
    link: &mut Link,
    (replace, bytes_max): (bool, usize),
    caller: &mut dyn Importing,
) -> Result<Imported, ImportError> {
    let reader = Reader::open(file, bytes_max)?;
    let mut sender = Sender {
        reader,
        link,
        replace,
        bytes_max,
        caller,
        database: None,
        database_refused: None,
        pending: VecDeque::new(),
        pending_bytes: 0,
        done: Imported::default(),
    };
    let outcome = sender.run();
    // The replies that are under way name refused keys.
    let settled = sender.settle();
    outcome?;
    settled?;
    let beside = sender.reader.beside();
    let (functions, modules) = (beside.functions, beside.modules);
    Ok(Imported { functions, modules, ..sender.done })
}

/// The state of an import.
struct Sender<'a, R> {
    reader: Reader<R>,
    link: &'a mut Link,
    replace: bool,
    bytes_max: usize,
    caller: &'a mut dyn Importing,
    /// The database that the server has selected.
    database: Option<u64>,
    /// Why it has refused the current database.
    database_refused: Option<String>,
    /// Keys whose replies are under way.
    pending: VecDeque<Found>,
    pending_bytes: usize,
    done: Imported,
}

impl<R: Read> Sender<'_, R> {
    fn run(&mut self) -> Result<(), ImportError> {
        while let Some(found) = self.reader.next()? {
            self.go_on()?;
            let is_over = found.expires_at_ms.is_some_and(|at| at <= now_ms());
            if is_over && !self.caller.keeps_expired() {
                self.done.expired += 1;
                continue;
            }
            self.select(found.database)?;
            match (&self.database_refused, &found.key) {
                (Some(reason), _) => self.refuse(&found, &reason.clone()),
                (None, None) => self.refuse(&found, "a key of more than 64 KiB"),
                (None, Some(_)) => self.value(found)?,
            }
        }
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), ImportError> {
        let offset = self.reader.offset();
        if self.caller.goes_on(offset) { Ok(()) } else { Err(ImportError::Stopped) }
    }

    fn refuse(&mut self, found: &Found, reason: &str) {
        self.done.refused += 1;
        self.caller.refused(found.key.as_deref().unwrap_or_default(), found.database, reason);
    }

    fn select(&mut self, database: u64) -> Result<(), ImportError> {
        if self.database != Some(database) {
            self.settle()?;
            let answer = self.link.ask(&[b"SELECT", database.to_string().as_bytes()])?;
            self.database_refused = answer.error().map(str::to_string);
            self.database = Some(database);
        }
        Ok(())
    }

    /// Sends the value of a key.
    fn value(&mut self, found: Found) -> Result<(), ImportError> {
        let Some(key) = found.key.clone() else { return Ok(()) };
        let first = match self.reader.piece(self.bytes_max)? {
            Some(Piece::Dump(dump)) => dump,
            Some(Piece::Text(length)) => return self.text(&key, length, found),
            Some(Piece::Omitted(reason)) => {
                self.refuse(&found, reason);
                return Ok(());
            }
            None => return Ok(()),
        };
        self.restore(&key, first, &found)?;
        let next = self.reader.piece(self.bytes_max);
        if let Ok(None) = next {
            self.pending.push_back(found);
            if self.pending.len() >= REQUESTS_MAX || self.pending_bytes >= REQUESTS_BYTES_MAX {
                self.settle()?;
            }
            return Ok(());
        }
        self.settle()?;
        let mut failed = self.answer()?;
        if failed.is_none() {
            let added = self.rest(&key, next);
            if !matches!(added, Ok(None)) {
                // It must not be there in part.
                self.link.ask(&[b"DEL", &key])?;
            }
            failed = added?;
        }
        if let Some(at) = found.expires_at_ms.filter(|_| failed.is_none()) {
            // It may have expired before its last elements came, and these have made it anew.
            self.link.request(&[b"PEXPIREAT", &key, at.to_string().as_bytes()])?;
            failed = self.answer()?;
        }
        self.count(&found, failed);
        Ok(())
    }

    /// Adds the further pieces of a collection, from `next` on. Returns the reason if one is
    /// refused.
    fn rest(
        &mut self,
        key: &[u8],
        mut next: Result<Option<Piece>, Corrupt>,
    ) -> Result<Option<String>, ImportError> {
        while let Some(piece) = next? {
            self.go_on()?;
            let failed = match piece {
                Piece::Dump(dump) => self.add(key, &dump)?,
                Piece::Text(_) => None,
                Piece::Omitted(reason) => Some(reason.to_string()),
            };
            if failed.is_some() {
                return Ok(failed);
            }
            next = self.reader.piece(self.bytes_max);
        }
        Ok(None)
    }

    fn restore(&mut self, key: &[u8], mut dump: Vec<u8>, found: &Found) -> io::Result<()> {
        dump.extend(version_of(dump[0]).to_le_bytes());
        dump.extend(crc64(0, &dump).to_le_bytes());
        let time = found.expires_at_ms.unwrap_or(0).to_string();
        self.pending_bytes += dump.len() + key.len();
        let words: [&[u8]; 6] = [b"RESTORE", key, time.as_bytes(), &dump, b"ABSTTL", b"REPLACE"];
        self.link.request(&words[..if self.replace { 6 } else { 5 }])
    }

    /// Sends a long string.
    fn text(&mut self, key: &[u8], length: u64, found: Found) -> Result<(), ImportError> {
        self.settle()?;
        let time = found.expires_at_ms.map(|at| at.to_string());
        let words = 3 + if time.is_some() { 2 } else { 0 } + usize::from(!self.replace);
        self.link.bytes(format!("*{words}\r\n$3\r\nSET\r\n").as_bytes())?;
        self.link.word(key)?;
        self.link.bytes(format!("${length}\r\n").as_bytes())?;
        let mut left = length;
        while left > 0 {
            self.go_on()?;
            let piece = self.reader.bytes(left.min(TEXT_PIECE_BYTES as u64) as usize)?;
            self.link.bytes(&piece)?;
            left -= piece.len() as u64;
        }
        self.link.bytes(b"\r\n")?;
        if let Some(time) = time {
            self.link.word(b"PXAT")?;
            self.link.word(time.as_bytes())?;
        }
        if !self.replace {
            self.link.word(b"NX")?;
        }
        self.link.flush()?;
        let failed = match self.link.answer()? {
            Answer::Text(None) => Some("the key exists".to_string()),
            answer => answer.error().map(str::to_string),
        };
        self.count(&found, failed);
        Ok(())
    }

    /// Adds the elements of a piece to a collection. Returns the reason if the server refuses them.
    fn add(&mut self, key: &[u8], dump: &[u8]) -> Result<Option<String>, ImportError> {
        let Some((kind, elements)) = forms::decode(dump, self.bytes_max.saturating_mul(2)) else {
            return Ok(Some("Bad data format".into()));
        };
        for elements in elements.chunks(ELEMENTS_MAX) {
            let (mut words, mut numbers): (Vec<&[u8]>, _) = (Vec::new(), Vec::new());
            let mut expiring = Vec::new();
            words.extend(match kind {
                Kind::List => [&b"RPUSH"[..], key],
                Kind::Set => [b"SADD", key],
                Kind::Hash => [b"HSET", key],
                _ => [b"ZADD", key],
            });
            if kind == Kind::SortedSet {
                let score = |element: &Vec<u8>| Score::split(element).0.to_string();
                numbers.extend(elements.iter().map(score));
            }
            for (at, element) in elements.iter().enumerate() {
                match kind {
                    Kind::Hash => {
                        let field = Field::decode(element);
                        words.extend([field.name, field.value]);
                        let time = field.expires_at_ms.map(|at| (field.name, at.to_string()));
                        expiring.extend(time);
                    }
                    Kind::SortedSet => {
                        words.extend([numbers[at].as_bytes(), Score::split(element).1]);
                    }
                    _ => words.push(element),
                }
            }
            self.link.request(&words)?;
            for (name, at) in &expiring {
                self.link.request(&[b"HPEXPIREAT", key, at.as_bytes(), b"FIELDS", b"1", name])?;
            }
            let mut failed = None;
            for _ in 0..=expiring.len() {
                let reason = self.answer()?;
                failed = failed.or(reason);
            }
            if failed.is_some() {
                return Ok(failed);
            }
        }
        Ok(None)
    }

    /// Receives a reply. Returns the reason if the server has refused the request.
    fn answer(&mut self) -> io::Result<Option<String>> {
        self.link.flush()?;
        Ok(self.link.answer()?.error().map(str::to_string))
    }

    /// Receives the replies that are under way.
    fn settle(&mut self) -> Result<(), ImportError> {
        self.pending_bytes = 0;
        while let Some(found) = self.pending.pop_front() {
            let failed = self.answer()?;
            self.count(&found, failed);
        }
        Ok(())
    }

    fn count(&mut self, found: &Found, failed: Option<String>) {
        match failed {
            Some(reason) => self.refuse(found, &reason),
            None => self.done.keys += 1,
        }
    }
}

/// The version of the format that a form needs.
fn version_of(form: u8) -> u16 {
    match form {
        forms::HASH_WITH_EXPIRY | forms::HASH_PACKED_WITH_EXPIRY => 12,
        forms::SET_PACKED | 21 => 11,
        _ => VERSION,
    }
}
