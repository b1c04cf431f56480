//! The follower: a thread that copies the keys of a Redis, and then makes its changes.
//!
//! It is a replica to the master, and a client to this server. The master's commands go through the
//! server's ordinary command path, over a pair of sockets. After a cut it resumes where the last
//! complete command or transaction ended, if the master still has what follows.

mod source;
mod stream;

use std::io::{self, BufReader, ErrorKind, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use ebbtide_core::{Stop, counted};
use parking_lot::Mutex;
use rustls::ClientConfig;

use self::source::{Report, Source, ask, line, refused};
use self::stream::{Sent, Stream, WHOLE_BYTES_MAX};
use crate::following::{Following, LinkState, Master};
use crate::rdb::{ImportError, Importing, Link, import};
use crate::shared::{Note, Shared};

/// Delay before a failed connection is tried again, and between two looks for another master.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Commands whose replies may be under way.
const COMMANDS_MAX: usize = 512;

/// The longest line of the master.
const LINE_BYTES_MAX: u64 = 64 << 10;

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
    /// With it, the master speaks TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
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
            let source = Source::connect(self, number, master)?;
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
                self.tell(format!("copied {} of {host}:{port}", counted(keys, "key")));
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
            let mut stream = Stream::new(place, Link::new(Box::new(socket.try_clone()?)), sent);
            let ended = stream.run(self, source);
            let (safe, flushed) = stream.close();
            let _ = socket.shutdown(Shutdown::Write);
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
