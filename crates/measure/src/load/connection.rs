//! One connection of a load: commands out, replies in, each checked.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

use rustls::ClientConfig;

use super::kind::{Commands, Kind, SCRIPT, command};
use super::ledger::Ledger;
use super::options::{LoadError, Server};
use super::replies::{self, Reply};
use super::socket::Socket;

/// A command whose reply has not come.
struct Pending {
    key: usize,
    what: What,
    /// When it was meant to be sent.
    intended: Instant,
}

enum What {
    /// The newest version acknowledged when it was sent.
    Read(u32),
    /// The version written.
    Write(u32),
}

/// Counts of a load.
#[derive(Debug, Default, Clone)]
pub(super) struct Tally {
    pub(super) reads: u64,
    pub(super) writes: u64,
    /// Error replies, with the first.
    pub(super) errors: u64,
    pub(super) first_error: Option<String>,
    /// Replies that are wrong, with the first.
    pub(super) wrong: u64,
    pub(super) first_wrong: Option<String>,
}

/// One connection.
pub(super) struct Connection {
    socket: Socket,
    out: Vec<u8>,
    sent: usize,
    input: Vec<u8>,
    pending: VecDeque<Pending>,
    scratch: Vec<u8>,
    commands: Commands,
    /// The server's name of the script; empty without one.
    sha: Vec<u8>,
}

/// Bytes received at once.
pub(super) const PIECE_BYTES: usize = 64 << 10;

impl Connection {
    pub(super) fn open(
        server: &Server,
        password: Option<&str>,
        trust: Option<&Arc<ClientConfig>>,
        commands: Commands,
    ) -> Result<Connection, LoadError> {
        let failed = |source| LoadError::Connect { server: server.clone(), source };
        let socket = Socket::connect(server, trust)?;
        let mut connection = Connection {
            socket,
            out: Vec::new(),
            sent: 0,
            input: Vec::new(),
            pending: VecDeque::new(),
            scratch: Vec::new(),
            commands,
            sha: Vec::new(),
        };
        if let Some(password) = password {
            connection.log_in(server, password)?;
        }
        if commands.kind == Kind::Script {
            connection.load_script(server)?;
        }
        connection.socket.set_nonblocking().map_err(failed)?;
        Ok(connection)
    }

    fn log_in(&mut self, server: &Server, password: &str) -> Result<(), LoadError> {
        let reply = self.ask(server, &[b"AUTH", password.as_bytes()])?;
        if reply.starts_with(b"+OK") {
            return Ok(());
        }
        let reply = String::from_utf8_lossy(&reply).trim_end().to_string();
        Err(LoadError::Password { server: server.clone(), reply })
    }

    fn load_script(&mut self, server: &Server) -> Result<(), LoadError> {
        let reply = self.ask(server, &[b"SCRIPT", b"LOAD", SCRIPT.as_bytes()])?;
        let Ok(Some((Reply::Bulk(sha), _))) = replies::parse(&reply) else {
            let reason = format!("SCRIPT LOAD: {}", String::from_utf8_lossy(&reply).trim_end());
            return Err(LoadError::Broken { server: server.clone(), reason });
        };
        self.sha = sha.to_vec();
        Ok(())
    }

    /// Sends a command whose reply is short, and waits for that.
    fn ask(&mut self, server: &Server, arguments: &[&[u8]]) -> Result<Vec<u8>, LoadError> {
        let broken = |error: io::Error| LoadError::Broken {
            server: server.clone(),
            reason: error.to_string(),
        };
        command(&mut self.out, arguments);
        let out = std::mem::take(&mut self.out);
        self.socket.write_all(&out).map_err(broken)?;
        let mut reply = [0; 256];
        let length = self.socket.read(&mut reply).map_err(broken)?;
        Ok(reply[..length].to_vec())
    }

    /// Commands that were not answered.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Whether commands wait for room in the socket.
    pub(super) fn wants_to_send(&self) -> bool {
        self.sent < self.out.len() || self.socket.holds_back()
    }

    /// Queues a read.
    pub(super) fn read(&mut self, ledger: &Ledger, key: usize, intended: Instant) {
        let least = ledger.acknowledged(key);
        self.commands.read(key, least, &mut self.out);
        self.pending.push_back(Pending { key, what: What::Read(least), intended });
    }

    /// Queues a write of the key's next version. No other connection may be writing it.
    pub(super) fn write(&mut self, ledger: &Ledger, key: usize, intended: Instant) {
        let version = ledger.send(key);
        if ledger.is_delete(key, version) {
            self.commands.delete(key, &mut self.out);
        } else {
            ledger.value(key, version, &mut self.scratch);
            self.commands.write(key, version, &self.scratch, &self.sha, &mut self.out);
        }
        self.pending.push_back(Pending { key, what: What::Write(version), intended });
    }

    /// Sends what the socket takes.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.out.len() {
            match self.socket.write(&self.out[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.sent = 0;
        match self.socket.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Receives replies and checks them. Calls `answered` with the intended time of sending of each
    /// command. `piece` is the buffer for one receive.
    pub(super) fn receive(
        &mut self,
        ledger: &Ledger,
        tally: &mut Tally,
        piece: &mut [u8],
        mut answered: impl FnMut(Instant),
    ) -> io::Result<()> {
        loop {
            match self.socket.read(piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(received) => self.input.extend_from_slice(&piece[..received]),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                    ) =>
                {
                    break;
                }
                Err(error) => return Err(error),
            }
            if !self.socket.reads_ahead() {
                break;
            }
        }
        let mut taken = 0;
        loop {
            let parsed = replies::parse(&self.input[taken..])
                .map_err(|_| io::Error::other("something that is no reply"))?;
            let Some((reply, bytes)) = parsed else { break };
            let pending = self.pending.pop_front();
            let pending = pending.ok_or(io::Error::other("a reply that was not asked for"))?;
            check(&pending, &reply, self.commands, ledger, tally, &mut self.scratch);
            answered(pending.intended);
            taken += bytes;
        }
        self.input.drain(..taken);
        Ok(())
    }
}

fn check(
    pending: &Pending,
    reply: &Reply<'_>,
    commands: Commands,
    ledger: &Ledger,
    tally: &mut Tally,
    scratch: &mut Vec<u8>,
) {
    if let Reply::Error(text) = reply {
        tally.errors += 1;
        tally.first_error.get_or_insert_with(|| String::from_utf8_lossy(text).into_owned());
        return;
    }
    let key = pending.key;
    let right = match pending.what {
        What::Read(least) => commands.check_read(key, least, reply, ledger, scratch),
        What::Write(version) => commands
            .check_write(key, version, reply, ledger)
            .inspect(|()| ledger.acknowledge(key, version)),
    };
    match pending.what {
        What::Read(_) => tally.reads += 1,
        What::Write(_) => tally.writes += 1,
    }
    if let Err(reason) = right {
        tally.wrong += 1;
        tally.first_wrong.get_or_insert(reason);
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
