//! [`Stream`]: the master's commands, which go on to this server.

use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use ebbtide_structures::keyspace::DATABASES;

use super::source::Source;
use super::{Ended, Follower, LINE_BYTES_MAX, NAME_BYTES, Place};
use crate::rdb::Link;

/// A longer command goes to the server in pieces.
pub(super) const WHOLE_BYTES_MAX: usize = 64 << 10;

/// The most words of a command, and bytes of a word.
const NUMBER_MAX: u64 = 1 << 32;

/// A command under way: its name, if it has a reply, and the offset after it, if it is complete.
pub(super) struct Sent {
    pub(super) name: Option<String>,
    pub(super) end: Option<u64>,
}

/// The state of a stream of commands.
pub(super) struct Stream {
    /// Offset after the last byte that was read.
    offset: u64,
    /// The master's database.
    database: u64,
    /// Where another connection resumes.
    safe: Place,
    link: Link,
    sent: SyncSender<Sent>,
    /// True between `MULTI` and `EXEC`.
    transaction: bool,
    /// True while the master changes a database that this server does not have.
    omits: bool,
}

impl Stream {
    /// A stream that goes on at `place`, over `link` to this server.
    pub(super) fn new(place: &Place, link: Link, sent: SyncSender<Sent>) -> Stream {
        Stream {
            offset: place.offset,
            database: place.database,
            safe: place.clone(),
            link,
            sent,
            transaction: false,
            omits: false,
        }
    }

    /// Sends the rest, since the server runs what it has received as a whole. Returns where another
    /// connection resumes.
    pub(super) fn close(mut self) -> (Place, io::Result<()>) {
        let flushed = self.link.flush();
        (self.safe, flushed)
    }

    /// Selects the database where the stream goes on.
    fn select(&mut self, database: u64) -> Result<(), Ended> {
        self.omits = database >= DATABASES as u64;
        if !self.omits {
            self.link.request(&[b"SELECT", database.to_string().as_bytes()])?;
            self.tell(Sent { name: Some("SELECT".into()), end: None })?;
        }
        Ok(())
    }

    /// Announces a command to the receiver of replies.
    fn tell(&mut self, sent: Sent) -> Result<(), Ended> {
        match self.sent.try_send(sent) {
            Ok(()) => return Ok(()),
            Err(TrySendError::Full(sent)) => {
                self.link.flush()?;
                if self.sent.send(sent).is_ok() {
                    return Ok(());
                }
            }
            Err(TrySendError::Disconnected(_)) => {}
        }
        Err(Ended::Lost("this server has closed its connection".into()))
    }

    /// Passes commands on until the connection ends.
    pub(super) fn run(
        &mut self,
        follower: &Follower<'_>,
        source: &mut BufReader<Source<'_>>,
    ) -> Result<(), Ended> {
        self.select(self.database)?;
        loop {
            if source.buffer().is_empty() {
                self.link.flush()?;
            }
            self.command(follower, source)?;
        }
    }

    /// Reads a command, and passes it on.
    fn command(
        &mut self,
        follower: &Follower<'_>,
        source: &mut BufReader<Source<'_>>,
    ) -> Result<(), Ended> {
        let (count, mut bytes) = self.number(source, b'*')?;
        let mut words: Vec<Vec<u8>> = Vec::new();
        let mut passes = false;
        for _ in 0..count {
            let (length, head) = self.number(source, b'$')?;
            bytes.extend(head);
            if !passes && bytes.len() as u64 + length <= WHOLE_BYTES_MAX as u64 {
                let start = bytes.len();
                bytes.resize(start + length as usize + 2, 0);
                source.read_exact(&mut bytes[start..])?;
                self.offset += length + 2;
                words.push(bytes[start..start + length as usize].to_vec());
                continue;
            }
            passes = true;
            if !self.omits {
                self.link.bytes(&bytes)?;
            }
            bytes.clear();
            self.pass(source, length + 2)?;
        }
        self.finish(follower, source, &words, &bytes)
    }

    /// Acts on a command. `bytes` are those that were not passed on yet.
    fn finish(
        &mut self,
        follower: &Follower<'_>,
        source: &mut BufReader<Source<'_>>,
        words: &[Vec<u8>],
        bytes: &[u8],
    ) -> Result<(), Ended> {
        let name = words.first().map(|word| String::from_utf8_lossy(word).to_ascii_uppercase());
        let name = name.unwrap_or_default();
        let (mut forwards, mut asks) = (!self.omits, false);
        match name.as_str() {
            "PING" => forwards = false,
            "REPLCONF" => (forwards, asks) = (false, true),
            "SELECT" => {
                let number = words.get(1).and_then(|word| str::from_utf8(word).ok()?.parse().ok());
                self.database = number.unwrap_or(u64::MAX);
                self.omits = self.database >= DATABASES as u64;
                forwards = !self.omits;
                if self.omits {
                    follower.following().count_refused();
                    let number = self.database;
                    follower.tell(format!("left out: changes of database {number} of the master"));
                }
            }
            "MULTI" => (self.transaction, forwards) = (true, true),
            "EXEC" | "DISCARD" => (self.transaction, forwards) = (false, true),
            _ => {}
        }
        let end = (!self.transaction).then_some(self.offset);
        if let Some(offset) = end {
            self.safe.offset = offset;
            self.safe.database = self.database;
        }
        if forwards {
            self.link.bytes(bytes)?;
            let key = words.get(1).map_or(String::new(), |key| {
                format!(" {}", key[..key.len().min(NAME_BYTES)].escape_ascii())
            });
            self.tell(Sent { name: Some(name + &key), end })?;
        } else {
            self.tell(Sent { name: None, end })?;
        }
        if asks {
            self.report(follower, source)?;
        }
        Ok(())
    }

    /// Reports the offset to the master once all commands before it are made.
    fn report(
        &mut self,
        follower: &Follower<'_>,
        source: &mut BufReader<Source<'_>>,
    ) -> Result<(), Ended> {
        self.link.flush()?;
        while follower.following().offset() < self.safe.offset {
            if follower.stops(source.get_ref().number) {
                return Err(Ended::Stopped);
            }
            std::thread::sleep(Duration::from_micros(200));
            self.tell(Sent { name: None, end: None })?;
        }
        source.get_mut().report()?;
        Ok(())
    }

    /// Passes bytes of a long command on.
    fn pass(&mut self, source: &mut BufReader<Source<'_>>, mut left: u64) -> Result<(), Ended> {
        while left > 0 {
            let buffer = source.fill_buf()?;
            if buffer.is_empty() {
                return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
            }
            let count = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            if !self.omits {
                self.link.bytes(&buffer[..count])?;
            }
            source.consume(count);
            self.offset += count as u64;
            left -= count as u64;
        }
        Ok(())
    }

    /// Reads a line with a number after this sign. Returns the line too.
    fn number(
        &mut self,
        source: &mut BufReader<Source<'_>>,
        sign: u8,
    ) -> Result<(u64, Vec<u8>), Ended> {
        loop {
            let mut line = Vec::new();
            source.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
            self.offset += line.len() as u64;
            match line.strip_suffix(b"\r\n").and_then(|line| line.split_first()) {
                Some((found, digits)) if *found == sign => {
                    let number = str::from_utf8(digits).ok().and_then(|text| text.parse().ok());
                    let number = number.filter(|number| *number <= NUMBER_MAX);
                    let odd = || Ended::Lost("the stream of the master is damaged".into());
                    return Ok((number.ok_or_else(odd)?, line));
                }
                _ if line == b"\n" => {}
                _ if !line.ends_with(b"\n") => {
                    return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
                }
                _ => return Err(Ended::Lost("the stream of the master is damaged".into())),
            }
        }
    }
}
