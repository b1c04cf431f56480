//! [`Source`]: the connection to the master, with TLS if it is wanted.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::{Ended, Follower, LINE_BYTES_MAX, LOOK_EVERY};
use crate::following::Master;
use crate::target::connect;

/// Time for a connection, and after which a silent master is given up.
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);
const SILENT_MAX: Duration = Duration::from_secs(60);

/// Time between two reports to the master.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Reports to the master while its bytes come.
#[derive(Clone, Copy)]
pub(super) enum Report {
    /// None, while a reply is expected.
    Nothing,
    /// An empty line, while its file comes.
    Newline,
    /// The offset of the changes that are made.
    Offset,
}

/// The connection to the master. A read lasts until there are bytes, and reports meanwhile.
pub(super) struct Source<'a> {
    wire: Wire,
    follower: &'a Follower<'a>,
    /// Number of the wanted master.
    pub(super) number: u64,
    pub(super) report: Report,
    reported: Instant,
    heard: Instant,
}

impl<'a> Source<'a> {
    /// Connects to the master of this number.
    pub(super) fn connect(
        follower: &'a Follower<'a>,
        number: u64,
        master: &Master,
    ) -> io::Result<Source<'a>> {
        let wire = Wire::connect(master, follower.tls.as_ref())?;
        let (reported, heard) = (Instant::now(), Instant::now());
        Ok(Source { wire, follower, number, report: Report::Nothing, reported, heard })
    }

    pub(super) fn report(&mut self) -> io::Result<()> {
        self.reported = Instant::now();
        match self.report {
            Report::Nothing => Ok(()),
            Report::Newline => self.wire.write_all(b"\n"),
            Report::Offset => {
                let offset = self.follower.following().offset().to_string();
                self.wire.write_all(&request(&["REPLCONF", "ACK", &offset]))
            }
        }
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.follower.stops(self.number) {
                return Err(ErrorKind::ConnectionAborted.into());
            }
            if self.reported.elapsed() >= REPORT_EVERY {
                self.report()?;
            }
            match self.wire.read(buffer) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
                {
                    if self.heard.elapsed() > SILENT_MAX {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                read => {
                    self.heard = Instant::now();
                    self.follower.following().heard();
                    return read;
                }
            }
        }
    }
}

/// A connected socket of the master.
enum Wire {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Wire {
    fn connect(master: &Master, tls: Option<&Arc<ClientConfig>>) -> io::Result<Wire> {
        let socket = connect((master.host.as_str(), master.port), CONNECTED_WITHIN)?;
        let Some(config) = tls else {
            socket.set_read_timeout(Some(LOOK_EVERY))?;
            return Ok(Wire::Plain(socket));
        };
        let name = ServerName::try_from(master.host.clone()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(config.clone(), name).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        // A read then ends after each look, also within a record.
        stream.sock.set_read_timeout(Some(LOOK_EVERY))?;
        Ok(Wire::Tls(Box::new(stream)))
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(socket) => socket.read(into),
            Wire::Tls(stream) => stream.read(into),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Wire::Plain(socket) => socket.write_all(bytes),
            Wire::Tls(stream) => stream.write_all(bytes).and_then(|()| stream.flush()),
        }
    }
}

fn request(words: &[&str]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
    request.into_bytes()
}

/// Sends a request to the master, and returns the line of its reply.
pub(super) fn ask(source: &mut BufReader<Source<'_>>, words: &[&str]) -> Result<String, Ended> {
    source.get_mut().wire.write_all(&request(words))?;
    line(source)
}

/// Reads a line. Empty ones only say that the master is there.
pub(super) fn line(source: &mut BufReader<Source<'_>>) -> Result<String, Ended> {
    loop {
        let mut line = Vec::new();
        source.take(LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
        }
        let text = String::from_utf8_lossy(&line);
        if !text.trim_end().is_empty() {
            return Ok(text.trim_end().to_string());
        }
    }
}

/// The end of a connection whose master has replied with something else than expected.
pub(super) fn refused(answer: &str) -> Ended {
    let shown: String = answer.chars().take(100).collect();
    Ended::Cut(io::Error::other(format!("the master replied: {shown}")))
}
