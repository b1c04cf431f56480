//! [`Link`]: a connection to a server, as a client.

use std::fmt::Debug;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};

/// Bytes of requests that are sent together.
const SENT_BYTES: usize = 64 << 10;

/// The longest line and text of a reply, and the most nested replies.
const LINE_BYTES_MAX: u64 = 64 << 10;
const TEXT_BYTES_MAX: u64 = 1 << 30;
const DEPTH_MAX: usize = 8;

/// A stream of bytes in both directions.
pub trait Socket: Read + Write + Debug + Send {}

impl<T: Read + Write + Debug + Send> Socket for T {}

/// A reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// A status, without its sign.
    Status(String),
    /// An error, without its sign.
    Error(String),
    /// An integer.
    Integer(i64),
    /// A text; `None` if there is none.
    Text(Option<Vec<u8>>),
    /// Several replies.
    Array(Vec<Answer>),
}

impl Answer {
    /// Returns the first error in it.
    pub fn error(&self) -> Option<&str> {
        match self {
            Answer::Error(text) => Some(text),
            Answer::Array(answers) => answers.iter().find_map(Answer::error),
            _ => None,
        }
    }
}

/// A connection to a server, as a client. Requests wait until they are [flushed](Link::flush).
#[derive(Debug)]
pub struct Link {
    socket: BufReader<Box<dyn Socket>>,
    requests: Vec<u8>,
}

impl Link {
    /// A connection over a socket.
    pub fn new(socket: Box<dyn Socket>) -> Link {
        Link { socket: BufReader::new(socket), requests: Vec::new() }
    }

    /// Adds a request.
    ///
    /// # Errors
    /// Returns an error if the connection has failed.
    pub fn request(&mut self, words: &[&[u8]]) -> io::Result<()> {
        self.bytes(format!("*{}\r\n", words.len()).as_bytes())?;
        words.iter().try_for_each(|word| self.word(word))
    }

    /// Adds a word of a request.
    ///
    /// # Errors
    /// As [`request`](Link::request).
    pub fn word(&mut self, word: &[u8]) -> io::Result<()> {
        self.bytes(format!("${}\r\n", word.len()).as_bytes())?;
        self.bytes(word)?;
        self.bytes(b"\r\n")
    }

    /// Adds bytes of a request.
    ///
    /// # Errors
    /// As [`request`](Link::request).
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.requests.len() + bytes.len() > SENT_BYTES {
            self.flush()?;
        }
        match bytes.len() {
            ..SENT_BYTES => self.requests.extend_from_slice(bytes),
            _ => self.socket.get_mut().write_all(bytes)?,
        }
        Ok(())
    }

    /// Sends the requests.
    ///
    /// # Errors
    /// As [`request`](Link::request).
    pub fn flush(&mut self) -> io::Result<()> {
        self.socket.get_mut().write_all(&self.requests)?;
        self.requests.clear();
        self.socket.get_mut().flush()
    }

    /// Receives the reply to the next request.
    ///
    /// # Errors
    /// Returns an error if the connection has failed, or the bytes are no reply.
    pub fn answer(&mut self) -> io::Result<Answer> {
        self.nested(0)
    }

    /// Sends a request, and receives its reply.
    ///
    /// # Errors
    /// As [`answer`](Link::answer).
    pub fn ask(&mut self, words: &[&[u8]]) -> io::Result<Answer> {
        self.request(words)?;
        self.flush()?;
        self.answer()
    }

    /// Receives the reply to the next request, and returns its first error. Its texts are dropped.
    ///
    /// # Errors
    /// As [`answer`](Link::answer).
    pub fn outcome(&mut self) -> io::Result<Option<String>> {
        // Elements of replies that were not received yet.
        let (mut left, mut failed) = (1u64, None);
        while left > 0 {
            left -= 1;
            let line = self.line()?;
            let (sign, rest) = line.split_at_checked(1).ok_or(ErrorKind::InvalidData)?;
            let number =
                || rest.parse::<i64>().map_err(|_| io::Error::from(ErrorKind::InvalidData));
            match sign {
                "-" => failed = failed.or(Some(rest.to_string())),
                "$" | "*" if rest == "-1" => {}
                "$" => {
                    let length = number()?.max(0) as u64 + 2;
                    let dropped = io::copy(&mut (&mut self.socket).take(length), &mut io::sink())?;
                    if dropped < length {
                        return Err(ErrorKind::UnexpectedEof.into());
                    }
                }
                "*" => left += number()?.max(0) as u64,
                _ => {}
            }
        }
        Ok(failed)
    }

    fn nested(&mut self, depth: usize) -> io::Result<Answer> {
        let line = self.line()?;
        let (sign, rest) = line.split_at_checked(1).ok_or(ErrorKind::InvalidData)?;
        let number = || rest.parse::<i64>().map_err(|_| io::Error::from(ErrorKind::InvalidData));
        Ok(match sign {
            "+" => Answer::Status(rest.into()),
            "-" => Answer::Error(rest.into()),
            ":" => Answer::Integer(number()?),
            "$" | "*" if rest == "-1" => Answer::Text(None),
            "$" => {
                let length = u64::try_from(number()?).ok().filter(|bytes| *bytes <= TEXT_BYTES_MAX);
                let length = length.ok_or(ErrorKind::InvalidData)?;
                let mut text = Vec::new();
                (&mut self.socket).take(length + 2).read_to_end(&mut text)?;
                let text = text.strip_suffix(b"\r\n").filter(|text| text.len() as u64 == length);
                Answer::Text(Some(text.ok_or(ErrorKind::UnexpectedEof)?.to_vec()))
            }
            "*" if depth < DEPTH_MAX => {
                let answers = (0..number()?).map(|_| self.nested(depth + 1));
                Answer::Array(answers.collect::<io::Result<_>>()?)
            }
            _ => return Err(ErrorKind::InvalidData.into()),
        })
    }

    /// Receives a line.
    ///
    /// # Errors
    /// As [`answer`](Link::answer).
    pub fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        (&mut self.socket).take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        let Some(line) = line.strip_suffix(b"\n") else {
            return Err(ErrorKind::UnexpectedEof.into());
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Ok(String::from_utf8_lossy(line).into_owned())
    }
}
