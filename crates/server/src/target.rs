//! [`Target`]: a connection to another server, on a thread of its own. `MIGRATE` sends keys there.
//!
//! A job must not block its core. So it hands bytes to the thread, and lets other jobs run until
//! the thread has taken them or has a reply.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::Duration;

use ebbtide_core::FullMemory;

/// Pieces of a request that wait for the thread.
const WAITING_PIECES: usize = 4;

/// The longest line of a reply.
const LINE_BYTES_MAX: u64 = 4096;

/// Order to the thread.
enum Order {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Receives a reply of one line.
    Receive,
}

/// Why the other server does not answer, in the words of Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreachable {
    /// There is no connection.
    #[error("IOERR error or timeout connecting to the client")]
    Connecting,
    /// The request did not leave.
    #[error("IOERR error or timeout writing to target instance")]
    Writing,
    /// There was no reply.
    #[error("IOERR error or timeout reading from target instance")]
    Reading,
}

/// A reply: a status, or an error of the other server.
type Line = Result<Result<(), String>, Unreachable>;

/// A connection to another server.
#[derive(Debug)]
pub(crate) struct Target {
    orders: SyncSender<Order>,
    lines: Receiver<Line>,
}

impl Target {
    /// Starts to connect. Each step has `timeout` to end.
    ///
    /// # Errors
    /// Returns an error if there can be no thread.
    pub(crate) fn connect(host: String, port: u16, timeout: Duration) -> io::Result<Target> {
        let (orders, ordered) = sync_channel(WAITING_PIECES);
        let (tell, lines) = sync_channel(1);
        let work = move || {
            // The job has gone if nobody takes the result.
            if let Err(failure) = serve((&host, port), timeout, &ordered, &tell) {
                let _ = tell.send(Err(failure));
            }
        };
        std::thread::Builder::new().name("ebbtide-migrate".into()).spawn(work)?;
        Ok(Target { orders, lines })
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// Returns an error if an earlier step has failed.
    pub(crate) fn send<M: FullMemory>(
        &self,
        memory: &mut M,
        bytes: Vec<u8>,
    ) -> Result<(), Unreachable> {
        self.order(memory, Order::Send(bytes))
    }

    /// Receives the reply to a request: a status or an error of the other server.
    ///
    /// # Errors
    /// Returns an error if a step has failed.
    pub(crate) fn reply<M: FullMemory>(&self, memory: &mut M) -> Line {
        self.order(memory, Order::Receive)?;
        self.line(memory)
    }

    fn line<M: FullMemory>(&self, memory: &mut M) -> Line {
        loop {
            match self.lines.try_recv() {
                Ok(line) => return line,
                Err(TryRecvError::Empty) => memory.let_others_run(),
                Err(TryRecvError::Disconnected) => return Err(Unreachable::Reading),
            }
        }
    }

    fn order<M: FullMemory>(&self, memory: &mut M, mut order: Order) -> Result<(), Unreachable> {
        loop {
            order = match self.orders.try_send(order) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Full(order)) => order,
                // The thread tells why it has ended.
                Err(TrySendError::Disconnected(_)) => return self.line(memory).map(drop),
            };
            memory.let_others_run();
        }
    }
}

/// Follows the orders until there are no more.
fn serve(
    address: (&str, u16),
    timeout: Duration,
    orders: &Receiver<Order>,
    tell: &SyncSender<Line>,
) -> Result<(), Unreachable> {
    let connected = connect(address, timeout).map_err(|_| Unreachable::Connecting)?;
    let mut stream = BufReader::new(connected);
    loop {
        match orders.recv() {
            Ok(Order::Send(bytes)) => {
                stream.get_mut().write_all(&bytes).map_err(|_| Unreachable::Writing)?;
            }
            Ok(Order::Receive) => {
                let line = receive(&mut stream).map_err(|_| Unreachable::Reading)?;
                if tell.send(Ok(line)).is_err() {
                    return Ok(());
                }
            }
            Err(RecvError) => return Ok(()),
        }
    }
}

/// Connects to the first address of a host and a port that accepts it. Reads and writes then end
/// after `timeout` too.
pub(crate) fn connect(address: (&str, u16), timeout: Duration) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(ErrorKind::NotFound);
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Receives a reply: a status, or an error without its sign.
fn receive(stream: &mut BufReader<TcpStream>) -> io::Result<Result<(), String>> {
    let mut line = Vec::new();
    io::Read::take(&mut *stream, LINE_BYTES_MAX).read_until(b'\n', &mut line)?;
    let line = line.strip_suffix(b"\r\n").ok_or(ErrorKind::InvalidData)?;
    match line.split_first() {
        Some((b'+', _)) => Ok(Ok(())),
        Some((b'-', text)) => Ok(Err(String::from_utf8_lossy(text).into_owned())),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}
