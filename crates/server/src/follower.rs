//! The follower: a thread that copies the keys of a Redis, and then makes its changes.
//!
//! It is a replica to the master, and a client to this server. The master's commands go through the
//! server's ordinary command path, over a pair of sockets. After a cut it resumes where the last
//! complete command or transaction ended, if the master still has what follows.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use ebbtide_core::Stop;
use ebbtide_structures::keyspace::DATABASES;
use parking_lot::Mutex;

use crate::following::{Following, LinkState, Master};
use crate::rdb::{ImportError, Importing, Link, import};
use crate::shared::{Note, Shared};

/// Delay before a failed connection is tried again, and between two looks for another master.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Time for a connection, and after which a silent master is given up.
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);
const SILENT_MAX: Duration = Duration::from_secs(60);

/// Time between two reports to the master.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Commands whose replies may be under way.
const COMMANDS_MAX: usize = 512;

/// A longer command goes to the server in pieces.
const WHOLE_BYTES_MAX: usize = 64 << 10;

/// The longest line of the master.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// The most words of a command, and bytes of a word.
const NUMBER_MAX: u64 = 1 << 32;

/// Digits of the mark behind a file without a length.
const MARK_BYTES: usize = 40;

/// Maximum bytes of a command's name in the log.
const NAME_BYTES: usize = 64;

/// What the follower needs.
pub(crate) struct Follower<'a> {
    pub(crate) shared: &'a Shared,
    /// Set when the server ends.
    pub(crate) over: &'a Stop,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    /// Its sockets to the server.
    pub(crate) sockets: Mutex<Vec<UnixStream>>,
}

/// The place in a master's stream.
#[derive(Debug, Clone)]
struct Place {
    /// 40 digits that name the history.
    history: String,
    offset: u64,
    database: u64,
}

/// Why a connection has ended.
#[derive(Debug, thiserror::Error)]
enum Ended {
    /// The server ends, or follows another master.
    #[error("stopped")]
    Stopped,
    /// The connection has failed. Another one resumes.
    #[error("{0}")]
    Cut(io::Error),
    /// The keys may be incomplete. Another connection copies them anew.
    #[error("{0}")]
    Lost(String),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Ended {
        match error.kind() {
            // No read returns it otherwise: see Source.
            ErrorKind::ConnectionAborted => Ended::Stopped,
            _ => Ended::Cut(error),
        }
    }
}

impl Follower<'_> {
    fn following(&self) -> &Following {
        &self.shared.following
    }

    /// Closes its sockets to the server, which replies no more. `over` must be set.
    pub(crate) fn end(&self) {
        for socket in self.sockets.lock().drain(..) {
            // It may be closed already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Follows the wanted masters until the server ends.
    pub(crate) fn run(&self) {
        while !self.over.is_stopped() {
            let (number, master) = self.following().wanted();
            match master {
                Some(master) if self.shared.keys.get().is_some() => self.follow(number, &master),
                Some(_) => self.following().wait(number, LOOK_EVERY),
                None => {
                    self.following().ended();
                    self.following().wait(number, LOOK_EVERY);
                }
            }
        }
    }

    /// Follows a master until another one is wanted.
    fn follow(&self, number: u64, master: &Master) {
        let mut place = None;
        let Master { host, port } = master;
        while !self.stops(number) {
            let ended = self.connection(number, master, &mut place);
            self.following().set_state(LinkState::Down);
            match ended {
                Ended::Stopped => break,
                Ended::Cut(_) => {}
                Ended::Lost(_) => place = None,
            }
            self.tell(format!("the link to {host}:{port} is down, and tried again: {ended}"));
            self.following().wait(number, AGAIN_AFTER);
        }
    }

    fn stops(&self, number: u64) -> bool {
        self.over.is_stopped() || self.following().has_changed(number)
    }

    fn tell(&self, text: String) {
        self.shared.journal.tell("following", text);
    }

    /// Connects to the master, and makes its changes until the connection ends.
    fn connection(&self, number: u64, master: &Master, place: &mut Option<Place>) -> Ended {
        self.sockets.lock().clear();
        let mut run = || -> Result<(), Ended> {
            let stream = connect(master)?;
            let source = Source {
                stream,
                follower: self,
                number,
                report: Report::Nothing,
                reported: Instant::now(),
                heard: Instant::now(),
            };
            let mut source = BufReader::with_capacity(WHOLE_BYTES_MAX, source);
            self.greet(&mut source)?;
            self.begin(&mut source, master, place)?;
            let Some(place) = place else { return Err(Ended::Lost("no place".into())) };
            self.following().set_state(LinkState::Up);
            self.stream(&mut source, place)
        };
        match run() {
            Err(ended) => ended,
            Ok(()) => Ended::Stopped,
        }
    }

    /// Introduces the server as a replica.
    fn greet(&self, source: &mut BufReader<Source<'_>>) -> Result<(), Ended> {
        let answer = ask(source, &["PING"])?;
        if answer.starts_with('-') && !answer.starts_with("-NOAUTH") {
            return Err(refused(&answer));
        }
        if let Some(password) = &self.password {
            let answer = match &self.user {
                Some(user) => ask(source, &["AUTH", user, password])?,
                None => ask(source, &["AUTH", password])?,
            };
            if !answer.starts_with('+') {
                return Err(refused(&answer));
            }
        }
        // An old master may not know these.
        ask(source, &["REPLCONF", "listening-port", &self.shared.settings.port.to_string()])?;
        ask(source, &["REPLCONF", "capa", "eof", "capa", "psync2"])?;
        Ok(())
    }

    /// Resumes at `place`, or copies all keys and sets it.
    fn begin(
        &self,
        source: &mut BufReader<Source<'_>>,
        master: &Master,
        place: &mut Option<Place>,
    ) -> Result<(), Ended> {
        let (history, next) = match place {
            Some(place) => (place.history.clone(), (place.offset + 1).to_string()),
            None => ("?".into(), "-1".into()),
        };
        let answer = ask(source, &["PSYNC", &history, &next])?;
        let mut words = answer.split_ascii_whitespace();
        let Master { host, port } = master;
        match (words.next(), words.next(), words.next()) {
            (Some("+CONTINUE"), history, _) if place.is_some() => {
                let Some(place) = place else { return Ok(()) };
                if let Some(history) = history {
                    place.history = history.into();
                }
                self.tell(format!("resumed {host}:{port} at offset {}", place.offset));
            }
            (Some("+FULLRESYNC"), Some(history), Some(offset)) => {
                // Until it is complete, there is no place to resume at.
                *place = None;
                let offset = offset.parse().map_err(|_| refused(&answer))?;
                self.following().set_state(LinkState::Copying);
                self.tell(format!("copying the keys of {host}:{port}"));
                source.get_mut().report = Report::Newline;
                let keys = self.copy(source)?;
                self.tell(format!("copied {keys} keys of {host}:{port}"));
                *place = Some(Place { history: history.into(), offset, database: 0 });
            }
            _ => return Err(refused(&answer)),
        }
        Ok(())
    }

    /// Replaces all keys by those of the master's file. Returns their number.
    fn copy(&self, source: &mut BufReader<Source<'_>>) -> Result<u64, Ended> {
        let head = line(source)?;
        let length = head.strip_prefix('$').ok_or_else(|| refused(&head))?;
        let mark = length.strip_prefix("EOF:");
        let most = match mark {
            Some(_) => u64::MAX,
            None => length.parse().map_err(|_| refused(&head))?,
        };
        let mut link = Link::new(Box::new(self.socket()?));
        let mut caller = Copying { follower: self, number: source.get_ref().number };
        let lost = |error: io::Error| match self.over.is_stopped() {
            true => Ended::Stopped,
            false => Ended::Lost(format!("this server: {error}")),
        };
        if let Some(reason) = link.ask(&[b"FLUSHALL"]).map_err(lost)?.error() {
            return Err(Ended::Lost(reason.into()));
        }
        let options = (true, self.shared.settings.argument_bytes_max / 2);
        let mut file = source.take(most);
        let imported = import(&mut file, &mut link, options, &mut caller);
        let imported = imported.map_err(|error| match error {
            ImportError::Stopped => Ended::Stopped,
            _ if self.stops(caller.number) => Ended::Stopped,
            error => Ended::Lost(error.to_string()),
        })?;
        io::copy(&mut file.by_ref().take(if mark.is_some() { 0 } else { most }), &mut io::sink())?;
        if let Some(mark) = mark {
            let mut found = [0; MARK_BYTES];
            source.read_exact(&mut found)?;
            if found != mark.as_bytes() {
                return Err(Ended::Lost("the mark behind the keys is missing".into()));
            }
        }
        Ok(imported.keys)
    }

    /// Returns a socket to this server whose commands may change keys.
    fn socket(&self) -> Result<UnixStream, Ended> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut sockets = self.sockets.lock();
        if self.over.is_stopped() {
            return Err(Ended::Stopped);
        }
        sockets.push(ours.try_clone()?);
        self.shared.tell(0, Note::Follower(OwnedFd::from(theirs)), usize::MAX);
        Ok(ours)
    }

    /// Makes the master's changes until the connection ends. `place` is then where the last one
    /// that was made ended.
    fn stream(&self, source: &mut BufReader<Source<'_>>, place: &mut Place) -> Result<(), Ended> {
        // The socket of the copy closes.
        self.sockets.lock().clear();
        let socket = self.socket()?;
        let answers = Link::new(Box::new(socket.try_clone()?));
        let (sent, made) = sync_channel(COMMANDS_MAX);
        self.following().set_offset(place.offset);
        source.get_mut().report = Report::Offset;
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| self.receive(answers, made));
            let mut stream = Stream {
                offset: place.offset,
                database: place.database,
                safe: place.clone(),
                link: Link::new(Box::new(socket.try_clone()?)),
                sent,
                transaction: false,
                omits: false,
            };
            let ended = stream.select(place.database).and_then(|()| stream.run(self, source));
            // The server runs what it has received as a whole, and replies.
            let flushed = stream.link.flush();
            let _ = socket.shutdown(Shutdown::Write);
            let Stream { safe, sent, .. } = stream;
            drop(sent);
            *place = safe;
            match reader.join() {
                Ok(Ok(())) if flushed.is_ok() => ended,
                _ if self.over.is_stopped() => Err(Ended::Stopped),
                _ => Err(Ended::Lost("this server has closed its connection".into())),
            }
        })
    }

    /// Receives the server's replies, and logs refused commands.
    fn receive(&self, mut answers: Link, made: Receiver<Sent>) -> io::Result<()> {
        for Sent { name, end } in made {
            if let Some(name) = name
                && let Some(reason) = answers.outcome()?
            {
                self.following().count_refused();
                self.tell(format!("refused {name} of the master: {reason}"));
            }
            if let Some(end) = end {
                self.following().set_offset(end);
            }
        }
        Ok(())
    }
}

/// A command under way: its name, if it has a reply, and the offset after it, if it is complete.
struct Sent {
    name: Option<String>,
    end: Option<u64>,
}

/// The state of a stream of commands.
struct Stream {
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
    fn run(
        &mut self,
        follower: &Follower<'_>,
        source: &mut BufReader<Source<'_>>,
    ) -> Result<(), Ended> {
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

/// Reports to the master while its bytes come.
#[derive(Clone, Copy)]
enum Report {
    /// None, while a reply is expected.
    Nothing,
    /// An empty line, while its file comes.
    Newline,
    /// The offset of the changes that are made.
    Offset,
}

/// The connection to the master. A read lasts until there are bytes, and reports meanwhile.
struct Source<'a> {
    stream: TcpStream,
    follower: &'a Follower<'a>,
    /// Number of the wanted master.
    number: u64,
    report: Report,
    reported: Instant,
    heard: Instant,
}

impl Source<'_> {
    fn report(&mut self) -> io::Result<()> {
        self.reported = Instant::now();
        match self.report {
            Report::Nothing => Ok(()),
            Report::Newline => self.stream.write_all(b"\n"),
            Report::Offset => {
                let offset = self.follower.following().offset().to_string();
                self.stream.write_all(&request(&["REPLCONF", "ACK", &offset]))
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
            match self.stream.read(buffer) {
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

/// Logs the keys of the master's file that are refused.
struct Copying<'a> {
    follower: &'a Follower<'a>,
    number: u64,
}

impl Importing for Copying<'_> {
    fn goes_on(&mut self, _offset: u64) -> bool {
        !self.follower.stops(self.number)
    }

    fn keeps_expired(&self) -> bool {
        // Changes that follow may give it another expiry.
        true
    }

    fn refused(&mut self, key: &[u8], database: u64, reason: &str) {
        self.follower.following().count_refused();
        let key = key[..key.len().min(NAME_BYTES)].escape_ascii();
        self.follower.tell(format!("refused key {key} of database {database}: {reason}"));
    }
}

fn connect(master: &Master) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(ErrorKind::NotFound);
    for address in (master.host.as_str(), master.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECTED_WITHIN) {
            Ok(stream) => {
                stream.set_read_timeout(Some(LOOK_EVERY))?;
                stream.set_write_timeout(Some(CONNECTED_WITHIN))?;
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn request(words: &[&str]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
    request.into_bytes()
}

/// Sends a request to the master, and returns the line of its reply.
fn ask(source: &mut BufReader<Source<'_>>, words: &[&str]) -> Result<String, Ended> {
    source.get_mut().stream.write_all(&request(words))?;
    line(source)
}

/// Reads a line. Empty ones only say that the master is there.
fn line(source: &mut BufReader<Source<'_>>) -> Result<String, Ended> {
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
fn refused(answer: &str) -> Ended {
    let shown: String = answer.chars().take(100).collect();
    Ended::Cut(io::Error::other(format!("the master replied: {shown}")))
}
