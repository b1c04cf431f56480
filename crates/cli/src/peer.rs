//! [`Peer`]: the server that a verb talks to as a client.

use std::fmt;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use clap::Args;
use ebbtide_measure::load::Server;
use ebbtide_server::rdb::{Answer, Link, Socket};

use crate::exit::Failure;

#[derive(Args)]
pub(crate) struct Peer {
    /// The server: an address with a port, or the path of a Unix socket
    #[arg(long, value_name = "SERVER", default_value = "127.0.0.1:6379")]
    server: Server,
    /// Password of the server
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,
}

impl Peer {
    /// Connects, and gives the password.
    pub(crate) fn link(&self) -> Result<Link, Failure> {
        let socket: std::io::Result<Box<dyn Socket>> = match &self.server {
            Server::Tcp(address) => TcpStream::connect(address).map(|socket| {
                // Without it, only small requests are slower.
                let _ = socket.set_nodelay(true);
                Box::new(socket) as Box<dyn Socket>
            }),
            Server::Unix(path) => UnixStream::connect(path).map(|socket| Box::new(socket) as _),
        };
        let mut link = Link::new(socket.map_err(|error| self.failed(error))?);
        if let Some(password) = &self.password {
            self.ask(&mut link, &["AUTH", password])?;
        }
        Ok(link)
    }

    /// Returns the text of the reply to a request. An error of the server is a failure.
    pub(crate) fn ask(&self, link: &mut Link, words: &[&str]) -> Result<String, Failure> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        match link.ask(&words).map_err(|error| self.failed(error))? {
            Answer::Error(text) => Err(Failure::run(text.trim_start_matches("ERR "))),
            Answer::Text(text) => {
                Ok(String::from_utf8_lossy(&text.unwrap_or_default()).into_owned())
            }
            Answer::Status(text) => Ok(text),
            _ => Ok(String::new()),
        }
    }

    /// A failure of the connection.
    pub(crate) fn failed(&self, error: impl fmt::Display) -> Failure {
        Failure::run(format!("{self}: {error}"))
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.server.fmt(f)
    }
}
