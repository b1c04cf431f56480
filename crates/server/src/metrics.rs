//! [`Metrics`]: the fields of `INFO`, for Prometheus.
//!
//! Each client is answered by a separate thread that asks the server as any client does. No
//! command waits for a slow client.

mod exposition;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use ebbtide_core::Stop;

use crate::acl::INSIDER;
use crate::command::counted_names;
use crate::options::{ServeError, ServeOptions};
use crate::shared::Shared;
use crate::slow::Times;

/// Maximum number of clients at once. Others are closed.
const CLIENTS_MAX: usize = 16;

/// Longest time for an answer, and for the server's answer to `INFO`.
const PATIENCE: Duration = Duration::from_secs(5);

/// Maximum bytes of a request, and of an answer to `INFO`.
const REQUEST_BYTES_MAX: usize = 8 << 10;
const INFO_BYTES_MAX: usize = 1 << 20;

/// The listening socket for Prometheus.
#[derive(Debug)]
pub(crate) struct Metrics {
    listener: TcpListener,
    address: SocketAddr,
}

impl Metrics {
    /// Listens. Beyond loopback it needs `allow_open` or a server that is not open to clients
    /// without a password.
    pub(crate) fn listen(
        at: SocketAddr,
        options: &ServeOptions,
        is_open: bool,
    ) -> Result<Metrics, ServeError> {
        if !at.ip().is_loopback() && is_open && !options.allow_open {
            return Err(ServeError::Open(at.ip()));
        }
        let failed = |source| ServeError::Listen { at: at.to_string(), source };
        let listener = TcpListener::bind(at).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Metrics { listener, address })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `over`, each client on a separate thread.
    pub(crate) fn answer(&self, asked: &Arc<Asked>, over: &Stop) {
        let under_way = Arc::new(AtomicUsize::new(0));
        while !over.is_stopped() {
            let Ok((socket, _)) = self.listener.accept() else {
                std::thread::sleep(Duration::from_millis(100));
                continue;
            };
            if under_way.fetch_add(1, Ordering::SeqCst) >= CLIENTS_MAX {
                under_way.fetch_sub(1, Ordering::SeqCst);
                continue;
            }
            let (asked, count) = (asked.clone(), under_way.clone());
            let thread = std::thread::Builder::new().name("ebbtide-metrics".into());
            let answer = move || {
                // A bad request or a client that has gone gets no answer.
                drop(answer_one(&socket, &asked));
                count.fetch_sub(1, Ordering::SeqCst);
            };
            if thread.spawn(answer).is_err() {
                under_way.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// Wakes the thread that accepts connections, so that it checks whether to end.
    pub(crate) fn rouse(&self) {
        // If it cannot connect, the thread does not wait.
        let _ = TcpStream::connect_timeout(&reachable(self.address), PATIENCE);
    }
}

/// Address of the server for a client on this machine without TLS.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Way {
    /// Returns the way to a server with these options at `address`. `None` if TLS is on all its
    /// sockets.
    pub(crate) fn to(options: &ServeOptions, address: SocketAddr) -> Option<Way> {
        match (&options.tls, &options.unix) {
            (None, _) => Some(Way::Tcp(reachable(address))),
            (Some(_), Some(path)) => Some(Way::Unix(path.clone())),
            (Some(_), None) => None,
        }
    }
}

/// Returns an address of this machine that reaches a socket listening at `address`.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

/// Sources of an answer.
pub(crate) struct Asked {
    /// Address of the server.
    pub(crate) way: Way,
    /// The password of its user.
    pub(crate) secret: String,
    /// Times of commands. Weak, so that the server can end while clients are connected here.
    pub(crate) shared: Weak<Shared>,
}

/// Answers a client within [`PATIENCE`].
fn answer_one(socket: &TcpStream, asked: &Asked) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let request = read_request(socket, deadline)?;
    let mut words = request.split_ascii_whitespace();
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let (status, text) = match (method, path) {
        ("GET", "/metrics") => match info(&asked.way, &asked.secret) {
            Ok(info) => {
                let times = asked.shared.upgrade().map(|shared| times(&shared));
                let page = exposition::page(info, times.unwrap_or_default());
                ("200 OK", page.map_err(io::Error::other)?)
            }
            Err(error) => ("503 Service Unavailable", format!("{error}\n")),
        },
        ("GET", _) => ("404 Not Found", "expected /metrics\n".to_string()),
        _ => ("405 Method Not Allowed", "expected GET\n".to_string()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        exposition::CONTENT_TYPE,
        text.len()
    );
    let mut answer = head.as_bytes().chain(text.as_bytes());
    let mut piece = [0; 16 << 10];
    loop {
        let length = answer.read(&mut piece)?;
        if length == 0 {
            return Ok(());
        }
        let mut left = &piece[..length];
        while !left.is_empty() {
            socket.set_write_timeout(Some(until(deadline)?))?;
            left = &left[(&*socket).write(left)?..];
        }
    }
}

/// Reads the head of a request.
fn read_request(socket: &TcpStream, deadline: Instant) -> io::Result<String> {
    let mut request = Vec::new();
    let mut piece = [0; 1 << 10];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        socket.set_read_timeout(Some(until(deadline)?))?;
        let length = (&*socket).read(&mut piece)?;
        if length == 0 || request.len() + length > REQUEST_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        request.extend_from_slice(&piece[..length]);
    }
    Ok(String::from_utf8_lossy(&request).into_owned())
}

/// Returns the time left, or an error after the deadline.
fn until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Times of the commands that have run, with their names.
fn times(shared: &Shared) -> Vec<(&'static str, Times)> {
    let names = counted_names().iter().enumerate();
    let times = names.map(|(number, name)| (name.as_str(), shared.slow.times(number)));
    times.filter(|(_, times)| times.calls > 0).collect()
}

/// Asks the server for `INFO`.
fn info(server: &Way, secret: &str) -> io::Result<String> {
    match server {
        Way::Tcp(address) => {
            let socket = TcpStream::connect_timeout(address, PATIENCE)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            ask(socket, secret)
        }
        Way::Unix(path) => {
            let socket = UnixStream::connect(path)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            ask(socket, secret)
        }
    }
}

fn ask(socket: impl Read + Write, secret: &str) -> io::Result<String> {
    let mut socket = BufReader::new(socket);
    let mut line = String::new();
    let mut request = b"*3\r\n".to_vec();
    for word in [b"AUTH", INSIDER, secret.as_bytes()] {
        request.extend(format!("${}\r\n", word.len()).bytes());
        request.extend([word, b"\r\n"].concat());
    }
    socket.get_mut().write_all(&request)?;
    socket.read_line(&mut line)?;
    line.clear();
    socket.get_mut().write_all(b"INFO\r\n")?;
    socket.read_line(&mut line)?;
    let length = line.trim_end().strip_prefix('$').and_then(|length| length.parse().ok());
    let length = length.filter(|length| *length <= INFO_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other(line.trim_end().to_string()))?;
    let mut text = vec![0; length];
    socket.read_exact(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
