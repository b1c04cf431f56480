//! `ebbtide store copy`: asks a server for a copy of its store, and waits for it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ebbtide_measure::load::Server;

use crate::exit::{Failure, print};
use crate::progress;

/// Time between two requests for the progress of the copy.
const ASK_EVERY: Duration = Duration::from_millis(100);

#[derive(Args)]
pub(crate) struct Arguments {
    /// The new file, on the server's machine
    to: PathBuf,
    /// The server: an address with a port, or the path of a Unix socket
    #[arg(long, value_name = "SERVER", default_value = "127.0.0.1:6379")]
    server: Server,
    /// Password of the server
    #[arg(long, value_name = "PASSWORD")]
    password: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    progress::on_interrupt()?;
    let failed = |error: io::Error| Failure::run(format!("{}: {error}", arguments.server));
    let to = std::path::absolute(&arguments.to).map_err(Failure::input)?;
    let to = to.to_str().ok_or_else(|| Failure::input("the path is not UTF-8"))?;
    let mut connection = Connection::to(&arguments.server).map_err(failed)?;
    let mut ask = |words: &[&str]| connection.ask(words).map_err(failed)?.map_err(Failure::run);
    if let Some(password) = &arguments.password {
        ask(&["AUTH", password])?;
    }
    ask(&["BGSAVE", "TO", to])?;
    loop {
        let text = ask(&["INFO", "persistence"])?;
        let state = text.lines().find_map(|line| line.strip_prefix("last_copy:"));
        match state.and_then(|state| state.split_once(':')) {
            Some(("done", path)) => return print(&format!("{path}\n")),
            Some(("failed", reason)) => return Err(Failure::run(reason)),
            _ if progress::is_stopped() => {
                let text = format!("{} goes on with the copy", arguments.server);
                return Err(Failure::run(text).interrupted_if(true));
            }
            _ => std::thread::sleep(ASK_EVERY),
        }
    }
}

trait Socket: Read + Write {}

impl<T: Read + Write> Socket for T {}

struct Connection(BufReader<Box<dyn Socket>>);

impl Connection {
    fn to(server: &Server) -> io::Result<Connection> {
        let socket: Box<dyn Socket> = match server {
            Server::Tcp(address) => Box::new(TcpStream::connect(address)?),
            Server::Unix(path) => Box::new(UnixStream::connect(path)?),
        };
        Ok(Connection(BufReader::new(socket)))
    }

    /// Returns the text of the reply to a command, or of its error.
    fn ask(&mut self, words: &[&str]) -> io::Result<Result<String, String>> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.0.get_mut().write_all(request.as_bytes())?;
        let mut line = String::new();
        if self.0.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        if let Some(error) = line.strip_prefix('-') {
            return Ok(Err(error.trim_start_matches("ERR ").into()));
        }
        let Some(bytes) = line.strip_prefix('$').and_then(|count| count.parse::<u16>().ok()) else {
            return Ok(Ok(line.trim_start_matches('+').into()));
        };
        let mut text = vec![0; usize::from(bytes) + 2];
        self.0.read_exact(&mut text)?;
        Ok(Ok(String::from_utf8_lossy(&text).into_owned()))
    }
}
