//! [`Metrics`]: what `INFO` tells, for Prometheus.
//!
//! A thread of its own answers one request at a time, and asks the server as any client does: commands
//! have nothing to do with it.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use ebbtide_core::Stop;

use crate::options::{ServeError, ServeOptions};

/// The longest time that a request, or the server's answer, may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of a request and of an answer to `INFO` at most.
const REQUEST_BYTES_MAX: u64 = 8 << 10;
const INFO_BYTES_MAX: usize = 1 << 20;

/// The socket on which Prometheus is answered.
#[derive(Debug)]
pub(crate) struct Metrics {
    listener: TcpListener,
    address: SocketAddr,
}

impl Metrics {
    /// Listens. Beyond loopback the same holds as for the server itself.
    pub(crate) fn listen(at: SocketAddr, options: &ServeOptions) -> Result<Metrics, ServeError> {
        if !at.ip().is_loopback() && options.password.is_none() && !options.allow_open {
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

    /// Answers until `over`.
    pub(crate) fn answer(&self, server: &Way, password: Option<&str>, over: &Stop) {
        while !over.is_stopped() {
            match self.listener.accept() {
                // Who has asked badly, or has gone, has no answer.
                Ok((socket, _)) => drop(answer_one(socket, server, password)),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// Lets a thread that waits for a request look whether it is over.
    pub(crate) fn rouse(&self) {
        // Without a connection it does not wait.
        let _ = TcpStream::connect_timeout(&reachable(self.address), PATIENCE);
    }
}

/// How the server is reached from this machine without TLS.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Way {
    /// The way to a server with these options that listens at `address`. `None` if all of them have TLS.
    pub(crate) fn to(options: &ServeOptions, address: SocketAddr) -> Option<Way> {
        match (&options.tls, &options.unix) {
            (None, _) => Some(Way::Tcp(reachable(address))),
            (Some(_), Some(path)) => Some(Way::Unix(path.clone())),
            (Some(_), None) => None,
        }
    }
}

/// Where a socket that listens at `address` is reached from this machine.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

fn answer_one(socket: TcpStream, server: &Way, password: Option<&str>) -> io::Result<()> {
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    let mut request = BufReader::new((&socket).take(REQUEST_BYTES_MAX));
    let (mut first, mut line) = (String::new(), String::new());
    request.read_line(&mut first)?;
    while request.read_line(&mut line)? > 0 && !line.trim_end().is_empty() {
        line.clear();
    }
    let mut words = first.split_ascii_whitespace();
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let (status, text) = match (method, path) {
        ("GET", "/metrics") => match info(server, password) {
            Ok(info) => ("200 OK", told(&info)),
            Err(error) => ("503 Service Unavailable", format!("{error}\n")),
        },
        ("GET", _) => ("404 Not Found", "expected /metrics\n".to_string()),
        _ => ("405 Method Not Allowed", "expected GET\n".to_string()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        text.len()
    );
    (&socket).write_all(head.as_bytes())?;
    (&socket).write_all(text.as_bytes())
}

/// What the server answers to `INFO`.
fn info(server: &Way, password: Option<&str>) -> io::Result<String> {
    match server {
        Way::Tcp(address) => {
            let socket = TcpStream::connect_timeout(address, PATIENCE)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            ask(socket, password)
        }
        Way::Unix(path) => {
            let socket = UnixStream::connect(path)?;
            socket.set_read_timeout(Some(PATIENCE))?;
            ask(socket, password)
        }
    }
}

fn ask(socket: impl Read + Write, password: Option<&str>) -> io::Result<String> {
    let mut socket = BufReader::new(socket);
    let mut line = String::new();
    if let Some(password) = password {
        let request = format!("*2\r\n$4\r\nAUTH\r\n${}\r\n{password}\r\n", password.len());
        socket.get_mut().write_all(request.as_bytes())?;
        socket.read_line(&mut line)?;
        line.clear();
    }
    socket.get_mut().write_all(b"INFO\r\n")?;
    socket.read_line(&mut line)?;
    let length = line.trim_end().strip_prefix('$').and_then(|length| length.parse().ok());
    let length = length.filter(|length| *length <= INFO_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::other(line.trim_end().to_string()))?;
    let mut text = vec![0; length];
    socket.read_exact(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The numbers of an answer to `INFO` as metrics.
fn told(info: &str) -> String {
    let mut text = String::new();
    for (name, value) in info.lines().filter_map(|line| line.trim_end().split_once(':')) {
        if let Some(database) = name.strip_prefix("db") {
            for (part, count) in value.split(',').filter_map(|part| part.split_once('=')) {
                let _ = writeln!(text, "ebbtide_db_{part}{{db=\"{database}\"}} {count}");
            }
        } else if value.parse::<f64>().is_ok_and(f64::is_finite) {
            let _ = writeln!(text, "ebbtide_{name} {value}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_metrics_and_words_are_left_out() {
        let info = "# Server\r\nredis_version:7.0.15\r\nuptime_in_seconds:5\r\n\r\n# Keyspace\r\n\
                    db0:keys=3,expires=1,avg_ttl=0\r\nmemory_miss_ratio:0.25\r\n";
        let expected = "ebbtide_uptime_in_seconds 5\nebbtide_db_keys{db=\"0\"} 3\n\
                        ebbtide_db_expires{db=\"0\"} 1\nebbtide_db_avg_ttl{db=\"0\"} 0\n\
                        ebbtide_memory_miss_ratio 0.25\n";
        assert_eq!(told(info), expected);
    }
}
