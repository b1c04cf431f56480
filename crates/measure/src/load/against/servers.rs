//! The two servers of a comparison as child processes, and their counters.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ebbtide_core::durability::Policy;
use tempfile::TempDir;

use super::AgainstOptions;
use crate::load::options::{LoadError, Server};
use crate::usage;

/// Name of Ebbtide's server in errors.
const EBBTIDE: &str = "ebbtide serve";

/// The longest time that a server takes to start.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// The name of the store of Ebbtide's server in its folder.
pub(super) const STORE: &str = "store";

/// Both servers.
pub(super) struct Servers {
    pub(super) redis: Running,
    pub(super) ebbtide: Running,
}

/// A server that runs; it is killed when it is dropped.
pub(super) struct Running {
    pub(super) name: &'static str,
    pub(super) address: Server,
    pub(super) version: String,
    process: Child,
    control: Control,
    /// Its files. They are removed once it has ended.
    folder: TempDir,
}

/// Counters of a server.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    pub(super) flash_reads: u64,
    /// Memory of the pages that Ebbtide caches.
    pub(super) frames_bytes: u64,
    /// Flash that keys, values and the index take.
    pub(super) flash_bytes: u64,
}

impl Servers {
    /// Starts both on the CPUs of this thread.
    pub(super) fn start(options: &AgainstOptions) -> Result<Servers, LoadError> {
        Ok(Servers { redis: start_redis(options)?, ebbtide: start_ebbtide(options)? })
    }
}

fn folder(options: &AgainstOptions) -> Result<TempDir, LoadError> {
    let failed = |source| LoadError::Folder { folder: options.folder.clone(), source };
    tempfile::Builder::new().prefix("ebbtide-load-").tempdir_in(&options.folder).map_err(failed)
}

fn start_redis(options: &AgainstOptions) -> Result<Running, LoadError> {
    let (name, folder) = ("redis-server", folder(options)?);
    let log = options.durability == Policy::Always;
    let start = |source| LoadError::Start {
        program: options.redis.clone(),
        source,
        hint: "expected a stock Redis (Debian: apt-get install redis-server), or --redis PROGRAM",
    };
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = free.map_err(start)?.to_string();
    let port = address.rsplit_once(':').map_or("", |(_, port)| port);
    let mut process = Command::new(&options.redis)
        .args(["--bind", "127.0.0.1", "--port", port, "--save", ""])
        .args(["--appendonly", if log { "yes" } else { "no" }, "--appendfsync", "always"])
        .arg("--dir")
        .arg(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(start)?;
    let since = Instant::now();
    loop {
        match Control::open(name, &address) {
            Ok(control) => return Running::new(name, address, process, control, folder),
            Err(error) if since.elapsed() > STARTS_WITHIN => {
                let _ = process.kill();
                let _ = process.wait();
                return Err(error);
            }
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
        if let Ok(Some(status)) = process.try_wait() {
            return Err(LoadError::Ended { name, reason: status.to_string() });
        }
    }
}

/// Starts Ebbtide's server with the DRAM for writing the keys. It first starts with the DRAM of the
/// measurement. A server that refuses that ends the comparison before any key is written.
fn start_ebbtide(options: &AgainstOptions) -> Result<Running, LoadError> {
    let folder = folder(options)?;
    let dram_bytes = options.dram_bytes();
    let (process, address) = launch(options, folder.path(), dram_bytes)?;
    let control = Control::open(EBBTIDE, &address)?;
    let mut running = Running::new(EBBTIDE, address, process, control, folder)?;
    if options.fill_dram_bytes() != dram_bytes {
        running.restart(options, options.fill_dram_bytes())?;
    }
    Ok(running)
}

/// Starts Ebbtide's server on the store in `folder`. Returns the process and its address.
fn launch(
    options: &AgainstOptions,
    folder: &Path,
    dram_bytes: u64,
) -> Result<(Child, String), LoadError> {
    let size = |bytes: u64| format!("{bytes}B");
    let mut process = Command::new(&options.ebbtide)
        .args(["serve", "--port", "0", "--durability", &options.durability.to_string()])
        .args(["--capacity", &size(options.capacity_bytes())])
        .args(["--dram", &size(dram_bytes)])
        .arg("--data")
        .arg(folder.join(STORE))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| LoadError::Start {
            program: options.ebbtide.clone(),
            source,
            hint: "expected the ebbtide program",
        })?;
    let mut line = String::new();
    let said = process.stdout.as_mut().map(|output| BufReader::new(output).read_line(&mut line));
    let address = line.strip_prefix("ready on ").and_then(|rest| rest.split_once(": "));
    let (Some(Ok(_)), Some((address, _))) = (said, address) else {
        let mut reason = String::new();
        // Nothing was written if it cannot be read.
        let _ = process.kill();
        let _ = process.stderr.take().map(|mut errors| errors.read_to_string(&mut reason));
        let _ = process.wait();
        return Err(LoadError::Ended { name: EBBTIDE, reason: reason.trim_end().to_string() });
    };
    Ok((process, address.to_string()))
}

impl Running {
    fn new(
        name: &'static str,
        address: String,
        process: Child,
        control: Control,
        folder: TempDir,
    ) -> Result<Running, LoadError> {
        let address = Server::Tcp(address);
        let version = String::new();
        let mut running = Running { name, address, version, process, control, folder };
        let info = running.control.info()?;
        running.version = field(&info, "redis_version:").unwrap_or_default().to_string();
        Ok(running)
    }

    /// Where its files are.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Stops Ebbtide's server once all data is on flash. Restarts it on the CPUs of this thread,
    /// with this DRAM.
    pub(super) fn restart(
        &mut self,
        options: &AgainstOptions,
        dram_bytes: u64,
    ) -> Result<(), LoadError> {
        let ended = |reason: String| LoadError::Ended { name: self.name, reason };
        self.control.stop().map_err(|error| ended(error.to_string()))?;
        self.process.wait().map_err(|error| ended(error.to_string()))?;
        let (process, address) = launch(options, self.folder.path(), dram_bytes)?;
        self.process = process;
        self.control = Control::open(EBBTIDE, &address)?;
        self.address = Server::Tcp(address);
        Ok(())
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// CPU time of all its threads so far.
    pub(super) fn cpu_s(&self) -> f64 {
        usage::process_cpu_s(self.id())
    }

    /// Its resident memory.
    pub(super) fn resident_bytes(&self) -> u64 {
        usage::resident_bytes_of(&self.id().to_string())
    }

    /// Returns its counters so far. A counter that the server does not report is zero.
    pub(super) fn counters(&mut self) -> Result<Counters, LoadError> {
        let info = self.control.info()?;
        let number =
            |name: &str| field(&info, name).and_then(|text| text.parse().ok()).unwrap_or(0);
        Ok(Counters {
            flash_reads: number("flash_reads:"),
            frames_bytes: number("dram_frames_bytes:"),
            flash_bytes: number("flash_bytes:") - number("flash_bytes_free:"),
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A connection for questions to a server about itself.
struct Control {
    name: &'static str,
    socket: BufReader<TcpStream>,
}

impl Control {
    fn open(name: &'static str, address: &str) -> Result<Control, LoadError> {
        let failed = |error: io::Error| LoadError::Info { name, reason: error.to_string() };
        let socket = TcpStream::connect(address).map_err(failed)?;
        socket.set_read_timeout(Some(STARTS_WITHIN)).map_err(failed)?;
        Ok(Control { name, socket: BufReader::new(socket) })
    }

    fn stop(&mut self) -> io::Result<()> {
        self.socket.get_mut().write_all(b"SHUTDOWN\r\n")
    }

    fn info(&mut self) -> Result<String, LoadError> {
        let name = self.name;
        let failed = |error: io::Error| LoadError::Info { name, reason: error.to_string() };
        self.socket.get_mut().write_all(b"INFO\r\n").map_err(failed)?;
        let mut line = String::new();
        self.socket.read_line(&mut line).map_err(failed)?;
        let length = line.trim_end().strip_prefix('$').and_then(|length| length.parse().ok());
        let Some(length): Option<usize> = length.filter(|length| *length < 1 << 20) else {
            return Err(LoadError::Info { name, reason: line.trim_end().to_string() });
        };
        let mut text = vec![0; length + 2];
        self.socket.read_exact(&mut text).map_err(failed)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Returns the text after `name` in a line of an answer to `INFO`.
fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}
