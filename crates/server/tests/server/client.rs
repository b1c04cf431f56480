//! A client and a server for tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use ebbtide_core::Stop;
use ebbtide_core::durability::Policy;
use ebbtide_engine::device::path::DevicePath;
use ebbtide_server::{ServeError, ServeOptions, serve};

/// Folder of the tests' stores. An example has no such folder.
const FOLDER: &str = match option_env!("CARGO_TARGET_TMPDIR") {
    Some(folder) => folder,
    None => ".",
};

/// A reply in RESP2 or RESP3.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Reply {
    Status(String),
    Error(String),
    Integer(i64),
    /// A floating-point number (RESP3), as it was written.
    Double(String),
    Bulk(Vec<u8>),
    Null,
    Array(Vec<Reply>),
    /// A message that answers no request (RESP3).
    Push(Vec<Reply>),
}

pub(crate) fn bulk(text: &str) -> Reply {
    Reply::Bulk(text.as_bytes().to_vec())
}

pub(crate) fn ok() -> Reply {
    Reply::Status("OK".into())
}

pub(crate) struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        Client { reader: BufReader::new(TcpStream::connect(address).expect("a connection")) }
    }

    /// Returns the same socket, for a thread that sends.
    pub(crate) fn other_end(&self) -> TcpStream {
        self.reader.get_ref().try_clone().expect("a descriptor")
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).expect("sent");
    }

    pub(crate) fn request(&mut self, arguments: &[&[u8]]) {
        self.send(&encode(arguments));
    }

    /// Sends the words of `line` as a command and returns the reply.
    pub(crate) fn call(&mut self, line: &str) -> Reply {
        let arguments: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        self.command(&arguments)
    }

    pub(crate) fn command(&mut self, arguments: &[&[u8]]) -> Reply {
        self.request(arguments);
        self.reply().expect("a reply")
    }

    /// Returns the next reply; `None` if the server has closed the connection.
    pub(crate) fn reply(&mut self) -> Option<Reply> {
        let mut line = String::new();
        if self.reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end_matches("\r\n");
        let (kind, rest) = line.split_at(1);
        let count = || rest.parse::<i64>().expect("a number");
        Some(match kind {
            "+" => Reply::Status(rest.into()),
            "-" => Reply::Error(rest.into()),
            ":" => Reply::Integer(count()),
            "," => Reply::Double(rest.into()),
            "_" => Reply::Null,
            // Booleans and large numbers (RESP3).
            "#" | "(" => Reply::Status(line.into()),
            "$" | "=" | "*" if count() < 0 => Reply::Null,
            "$" | "=" => {
                let mut bytes = vec![0; count() as usize + 2];
                self.reader.read_exact(&mut bytes).ok()?;
                bytes.truncate(bytes.len() - 2);
                Reply::Bulk(bytes)
            }
            "%" => Reply::Array((0..count() * 2).map_while(|_| self.reply()).collect()),
            "*" | "~" => Reply::Array((0..count()).map_while(|_| self.reply()).collect()),
            ">" => Reply::Push((0..count()).map_while(|_| self.reply()).collect()),
            _ => panic!("no reply: {line:?}"),
        })
    }

    pub(crate) fn is_closed(&mut self) -> bool {
        matches!(self.reader.read(&mut [0; 1]), Ok(0) | Err(_))
    }
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64
}

pub(crate) fn encode(arguments: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The way to the drive of the servers under test. EBBTIDE_DEVICE_PATH names another one than the
/// default, so that all tests can run without io_uring (`aio`).
pub(crate) fn device_path() -> Option<DevicePath> {
    let name = std::env::var("EBBTIDE_DEVICE_PATH").ok()?;
    Some(name.parse().expect("a device path"))
}

/// A server that stops when dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Address for Prometheus.
    pub(crate) metrics: Option<SocketAddr>,
    stop: &'static Stop,
    runner: Option<JoinHandle<Result<(), ServeError>>>,
    _folder: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start(change: impl FnOnce(&mut ServeOptions)) -> Server {
        // The temporary directory is not used, because it may be in DRAM.
        let folder = tempfile::tempdir_in(FOLDER).expect("a folder");
        let mut options = ServeOptions {
            data: folder.path().join("store"),
            capacity_bytes: Some(64 << 20),
            durability: Policy::None,
            dram_bytes: 16 << 20,
            port: 0,
            device_path: device_path(),
            ..ServeOptions::default()
        };
        change(&mut options);
        Server::serve(options, folder)
    }

    /// Apart from `start`, which the compiler builds anew for each closure.
    fn serve(options: ServeOptions, folder: tempfile::TempDir) -> Server {
        let stop: &'static Stop = Box::leak(Box::default());
        let (send, receive) = channel();
        let runner = std::thread::spawn(move || {
            serve(&options, stop, |started| {
                // There is no receiver once a test has failed.
                let _ = send.send((started.address, started.metrics));
            })
        });
        let (address, metrics) = receive.recv().expect("it starts");
        Server { address, metrics, stop, runner: Some(runner), _folder: folder }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address)
    }
}

impl Server {
    /// Stops the server and waits until it has ended.
    pub(crate) fn end(mut self) -> Result<(), ServeError> {
        self.stop.stop();
        self.runner.take().expect("it runs once").join().expect("no panic")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some(runner) = self.runner.take() else { return };
        self.stop.stop();
        if std::thread::panicking() {
            // A server that did not start may not stop either.
            return;
        }
        runner.join().expect("no panic").expect("it ended well");
    }
}
