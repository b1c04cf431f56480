//! Replies, in the protocol version that the client has chosen.

use std::collections::VecDeque;

use ebbtide_core::FullMemory;
use ebbtide_structures::keyspace::Keyspace;

use super::buffer::reserve;
use crate::channels::{Message, Topic};
use crate::failure::Failure;
use crate::large::{Outgoing, PIECE_BYTES};
use crate::protocol::Protocol;
use crate::state::State;

/// The fewest bytes that [`seal`](Reply::seal) puts apart.
const SEALED_BYTES_MIN: usize = 16 << 10;

/// Replies of one connection, in order, as bytes.
#[derive(Debug, Default)]
pub struct Reply {
    sealed: Sealed,
    /// The bytes after the sealed ones.
    bytes: Vec<u8>,
    /// Parts of replies on flash, and the offset where each belongs. None lies within sealed bytes.
    large: VecDeque<(usize, Outgoing)>,
    /// Offset of the current command's reply.
    begin: usize,
    /// True if no part may move to flash, because a script reads the reply.
    stays_in_dram: bool,
    /// The protocol version of the next replies.
    pub protocol: Protocol,
}

/// Whole replies that wait behind others, in buffers that are almost full. The next replies have a
/// buffer of their own, so these do not move in DRAM.
#[derive(Debug, Default)]
struct Sealed {
    buffers: VecDeque<Vec<u8>>,
    /// Their bytes, and the bytes of DRAM that they hold.
    bytes: usize,
    held_bytes: usize,
}

impl Sealed {
    fn push(&mut self, buffer: Vec<u8>) {
        self.bytes += buffer.len();
        self.held_bytes += buffer.capacity();
        self.buffers.push_back(buffer);
    }

    /// Takes the first buffer.
    fn pop_first(&mut self) -> Option<Vec<u8>> {
        let buffer = self.buffers.pop_front();
        buffer.inspect(|buffer| self.left(buffer))
    }

    /// Takes the last buffer.
    fn pop_last(&mut self) -> Option<Vec<u8>> {
        let buffer = self.buffers.pop_back();
        buffer.inspect(|buffer| self.left(buffer))
    }

    fn left(&mut self, buffer: &Vec<u8>) {
        self.bytes -= buffer.len();
        self.held_bytes -= buffer.capacity();
    }
}

impl Reply {
    /// Returns no replies yet, in this protocol version.
    pub fn new(protocol: Protocol) -> Reply {
        Reply { protocol, ..Reply::default() }
    }

    /// Returns no replies yet, for a script. [`spill`](Reply::spill) leaves them in DRAM.
    pub fn for_script(protocol: Protocol) -> Reply {
        Reply { protocol, stays_in_dram: true, ..Reply::default() }
    }

    /// Returns the bytes in DRAM that were not taken yet, without sealed ones.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of bytes in DRAM that were not taken yet.
    pub fn len(&self) -> usize {
        self.sealed.bytes + self.bytes.len()
    }

    /// Bytes of DRAM that they hold, unused ones included.
    pub fn held_bytes(&self) -> usize {
        self.sealed.held_bytes + self.bytes.capacity()
    }

    /// True if all bytes were taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.large.is_empty()
    }

    /// Number of bytes before the first part on flash.
    pub fn ready(&self) -> usize {
        self.large.front().map_or(self.len(), |(at, _)| *at)
    }

    /// Number of bytes on flash.
    pub fn large_bytes(&self) -> u64 {
        self.large.iter().map(|(_, outgoing)| outgoing.left()).sum()
    }

    /// True if a part is on flash.
    pub fn has_large(&self) -> bool {
        !self.large.is_empty()
    }

    /// Takes bytes before the first part on flash: the first sealed ones, or else all. Later
    /// replies may go to the empty buffer `next`.
    pub fn take(&mut self, next: Vec<u8>) -> Vec<u8> {
        if let Some(first) = self.sealed.pop_first() {
            self.large.iter_mut().for_each(|(at, _)| *at -= first.len());
            return first;
        }
        let ready = self.ready();
        if ready == self.bytes.len() && self.large.is_empty() {
            return std::mem::replace(&mut self.bytes, next);
        }
        let behind = self.bytes.split_off(ready);
        self.large.iter_mut().for_each(|(at, _)| *at -= ready);
        std::mem::replace(&mut self.bytes, behind)
    }

    /// Puts long replies apart, before the next one begins. They must be whole. Does nothing while
    /// their buffer has much room, or if a part is on flash.
    pub fn seal(&mut self) {
        let (length, room) = (self.bytes.len(), self.bytes.capacity() - self.bytes.len());
        if length >= SEALED_BYTES_MIN && room <= length / 8 && self.large.is_empty() {
            self.sealed.push(std::mem::take(&mut self.bytes));
        }
    }

    /// Reads the next bytes from flash.
    pub fn fetch<M: FullMemory>(&mut self, memory: &mut M, keyspace: &Keyspace) {
        let Some((at, outgoing)) = self.large.front_mut() else { return };
        let mut piece = Vec::new();
        let last = outgoing.read(memory, keyspace, &mut piece);
        let (at, length) = (*at, piece.len());
        if last {
            self.large.pop_front();
        }
        self.large.iter_mut().for_each(|(at, _)| *at += length);
        reserve(&mut self.bytes, length);
        let at = at - self.sealed.bytes;
        self.bytes.splice(at..at, piece);
    }

    /// Begins the reply of the next command.
    pub fn begin(&mut self) {
        self.begin = self.len();
    }

    /// Offset of the current command's reply.
    pub fn begun(&self) -> usize {
        self.begin
    }

    /// Continues the reply that began at `begin`, after those of commands within it.
    pub fn resume(&mut self, begin: usize) {
        self.begin = begin;
    }

    /// Offset of the bytes of the current reply that a spill would move.
    fn unspilled(&self) -> usize {
        self.large.back().map_or(0, |(at, _)| *at).max(self.begin)
    }

    /// Bytes of the current reply in DRAM that can move to flash.
    pub fn spillable(&self) -> usize {
        self.len() - self.unspilled()
    }

    /// Moves whole pieces of the current reply to flash, if it is longer than one piece.
    ///
    /// # Errors
    /// Returns an error if flash is full or the log cannot be written. The bytes then stay in
    /// DRAM.
    pub fn spill<M: FullMemory>(
        &mut self,
        memory: &mut M,
        keyspace: &Keyspace,
        state: &State,
    ) -> Result<(), Failure> {
        if self.stays_in_dram {
            return Ok(());
        }
        let start = self.unspilled();
        let at = start - self.sealed.bytes;
        // Some bytes always stay behind the part on flash, so it belongs to this reply and not to
        // the next one.
        while self.bytes.len() - at > PIECE_BYTES {
            let piece = &self.bytes[at..at + PIECE_BYTES];
            let added = match self.large.back_mut().filter(|(at, _)| *at == start) {
                Some((_, last)) => last.spill(memory, keyspace, state, piece)?,
                None => false,
            };
            if !added {
                let mut outgoing = Outgoing::spilled(memory, keyspace, state)?;
                outgoing.spill(memory, keyspace, state, piece)?;
                self.large.push_back((start, outgoing));
            }
            self.bytes.drain(at..at + PIECE_BYTES);
        }
        Ok(())
    }

    /// Appends the replies of `other`, which has sealed none.
    pub fn append(&mut self, other: Reply) {
        let offset = self.len();
        self.large.extend(other.large.into_iter().map(|(at, outgoing)| (at + offset, outgoing)));
        self.raw(&other.bytes);
    }

    /// Writes a string of `length` bytes on flash.
    pub fn large(&mut self, length: u64, bytes: Outgoing) {
        self.number_line(b'$', length as i64);
        self.large.push_back((self.len(), bytes));
        self.raw(b"\r\n");
    }

    /// Writes a string: `head`, bytes on flash and their number, and `foot`.
    pub fn large_within(&mut self, head: &[u8], (length, bytes): (u64, Outgoing), foot: &[u8]) {
        self.number_line(b'$', (head.len() + foot.len()) as i64 + length as i64);
        self.raw(head);
        self.large.push_back((self.len(), bytes));
        self.raw(foot);
        self.raw(b"\r\n");
    }

    /// Drops everything written after the length was `len`.
    pub fn truncate(&mut self, len: usize) {
        while len < self.sealed.bytes
            && let Some(last) = self.sealed.pop_last()
        {
            self.bytes = last;
        }
        self.bytes.truncate(len - self.sealed.bytes);
        // Parts of earlier replies have a line end after them, so their offset is below `len`.
        self.large.retain(|(at, _)| *at < len);
    }

    /// Writes bytes unchanged.
    pub fn raw(&mut self, bytes: &[u8]) {
        reserve(&mut self.bytes, bytes.len());
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes `+OK`.
    pub fn ok(&mut self) {
        self.raw(b"+OK\r\n");
    }

    /// Writes a status. It must have no line end.
    pub fn status(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// Writes an array of statuses: the lines of `HELP`.
    pub fn help(&mut self, lines: &[&str]) {
        self.array(lines.len());
        lines.iter().for_each(|line| self.status(line));
    }

    /// Writes an error: a code such as `ERR`, and text. Line ends in it become spaces.
    pub fn error(&mut self, text: &str) {
        let clean =
            text.bytes().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte });
        self.line(b'-', &clean.collect::<Vec<u8>>());
    }

    /// Writes an integer.
    pub fn integer(&mut self, value: i64) {
        self.number_line(b':', value);
    }

    /// Writes a string of bytes.
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.number_line(b'$', bytes.len() as i64);
        self.raw(bytes);
        self.raw(b"\r\n");
    }

    /// Writes a string of bytes, or null.
    pub fn bulk_or_null(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => self.bulk(bytes),
            None => self.null(),
        }
    }

    /// Writes a floating-point number, with up to 17 digits.
    pub fn double(&mut self, number: f64) {
        let text = crate::number::significant(number, 17);
        match self.protocol {
            Protocol::Two => self.bulk(text.as_bytes()),
            Protocol::Three => self.line(b',', text.as_bytes()),
        }
    }

    /// Writes null.
    pub fn null(&mut self) {
        match self.protocol {
            Protocol::Two => self.raw(b"$-1\r\n"),
            Protocol::Three => self.raw(b"_\r\n"),
        }
    }

    /// Writes null in place of an array.
    pub fn null_array(&mut self) {
        match self.protocol {
            Protocol::Two => self.raw(b"*-1\r\n"),
            Protocol::Three => self.raw(b"_\r\n"),
        }
    }

    /// Begins an array of `count` replies.
    pub fn array(&mut self, count: usize) {
        self.number_line(b'*', count as i64);
    }

    /// Begins a map of `pairs` pairs.
    pub fn map(&mut self, pairs: usize) {
        match self.protocol {
            Protocol::Two => self.array(pairs * 2),
            Protocol::Three => self.number_line(b'%', pairs as i64),
        }
    }

    /// Begins a set of `count` replies.
    pub fn set(&mut self, count: usize) {
        match self.protocol {
            Protocol::Two => self.array(count),
            Protocol::Three => self.number_line(b'~', count as i64),
        }
    }

    /// Begins a message of `count` replies that answers no request.
    pub fn push(&mut self, count: usize) {
        match self.protocol {
            Protocol::Two => self.array(count),
            Protocol::Three => self.number_line(b'>', count as i64),
        }
    }

    /// Writes a message of a channel.
    pub fn message(&mut self, message: &Message) {
        if message.topic == Topic::Commands {
            return self.line(b'+', &message.text);
        }
        self.push(if message.pattern.is_some() { 4 } else { 3 });
        match &message.pattern {
            Some(pattern) => {
                self.bulk(b"pmessage");
                self.bulk(pattern);
            }
            None if message.topic == Topic::ShardChannel => self.bulk(b"smessage"),
            None => self.bulk(b"message"),
        }
        self.bulk(&message.channel);
        self.bulk(&message.text);
    }

    /// Writes text for people.
    pub fn verbatim(&mut self, text: &str) {
        match self.protocol {
            Protocol::Two => self.bulk(text.as_bytes()),
            Protocol::Three => {
                self.number_line(b'=', text.len() as i64 + 4);
                self.raw(b"txt:");
                self.raw(text.as_bytes());
                self.raw(b"\r\n");
            }
        }
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        reserve(&mut self.bytes, 1 + text.len() + 2);
        self.bytes.push(kind);
        self.bytes.extend_from_slice(text);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn number_line(&mut self, kind: u8, number: i64) {
        self.line(kind, itoa::Buffer::new().format(number).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::buffer::DOUBLED_BYTES_MAX;

    fn written(protocol: Protocol, write: impl FnOnce(&mut Reply)) -> String {
        let mut reply = Reply { protocol, ..Reply::default() };
        write(&mut reply);
        String::from_utf8(reply.take(Vec::new())).unwrap()
    }

    #[test]
    fn a_reply_has_the_form_of_its_protocol() {
        let all = |reply: &mut Reply| {
            reply.null();
            reply.null_array();
            reply.map(1);
            reply.bulk(b"a");
            reply.integer(-7);
            reply.set(0);
            reply.push(0);
            reply.verbatim("v");
        };
        let two = "$-1\r\n*-1\r\n*2\r\n$1\r\na\r\n:-7\r\n*0\r\n*0\r\n$1\r\nv\r\n";
        assert_eq!(written(Protocol::Two, all), two);
        let three = "_\r\n_\r\n%1\r\n$1\r\na\r\n:-7\r\n~0\r\n>0\r\n=5\r\ntxt:v\r\n";
        assert_eq!(written(Protocol::Three, all), three);
    }

    #[test]
    fn a_long_buffer_has_little_unused_memory() {
        let mut reply = Reply::default();
        for _ in 0..100_000 {
            reply.bulk(b"some bytes");
            let held_bytes = reply.held_bytes();
            assert!(
                held_bytes <= (reply.len() * 5 / 4 + 64).max(DOUBLED_BYTES_MAX),
                "{held_bytes}"
            );
        }
    }

    #[test]
    fn sealed_replies_come_first_and_can_be_dropped() {
        let text = |number: usize| format!("{number:0100}").into_bytes();
        let write = |count: usize| {
            let mut reply = Reply::default();
            let mut lengths = vec![0];
            for number in 0..count {
                reply.seal();
                reply.bulk(&text(number));
                lengths.push(reply.len());
            }
            (reply, lengths)
        };
        let whole: Vec<u8> = (0..2_000)
            .flat_map(|number| [b"$100\r\n", &text(number)[..], b"\r\n"].concat())
            .collect();
        let (_, lengths) = write(2_000);
        for kept in [0, 1, 500, 1_999, 2_000] {
            let (mut reply, _) = write(2_000);
            assert!(reply.sealed.buffers.len() > 2 && reply.held_bytes() < reply.len() * 5 / 4);
            reply.truncate(lengths[kept]);
            assert_eq!((reply.len(), reply.is_empty()), (lengths[kept], kept == 0));
            let mut taken = Vec::new();
            while !reply.is_empty() {
                taken.append(&mut reply.take(Vec::new()));
            }
            assert_eq!(taken, whole[..lengths[kept]]);
            assert_eq!((reply.sealed.bytes, reply.sealed.held_bytes), (0, 0));
        }
    }

    #[test]
    fn an_error_is_one_line_whatever_it_quotes() {
        let error = written(Protocol::Two, |reply| reply.error("ERR unknown 'a\r\n+OK\r\n'"));
        assert_eq!(error, "-ERR unknown 'a  +OK  '\r\n");
    }
}
