//! The socket of a connection of a load: TCP with or without TLS, or a Unix socket.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::options::{LoadError, Server};

/// A connected socket.
pub(super) enum Socket {
    Tcp(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    Unix(UnixStream),
}

impl Socket {
    /// Connects, with TLS if there is `trust`, and if it is not a Unix socket.
    pub(super) fn connect(
        server: &Server,
        trust: Option<&Arc<ClientConfig>>,
    ) -> Result<Socket, LoadError> {
        let failed = |source| LoadError::Connect { server: server.clone(), source };
        match server {
            Server::Tcp(address) => {
                let socket = TcpStream::connect(address).map_err(failed)?;
                socket.set_nodelay(true).map_err(failed)?;
                let Some(trust) = trust else { return Ok(Socket::Tcp(socket)) };
                let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
                let host = host.trim_matches(['[', ']']).to_string();
                let name = ServerName::try_from(host).map_err(io::Error::other).map_err(failed)?;
                let tls = ClientConnection::new(trust.clone(), name);
                let tls = tls.map_err(io::Error::other).map_err(failed)?;
                let mut stream = StreamOwned::new(tls, socket);
                while stream.conn.is_handshaking() {
                    stream.conn.complete_io(&mut stream.sock).map_err(failed)?;
                }
                Ok(Socket::Tls(Box::new(stream)))
            }
            Server::Unix(path) => UnixStream::connect(path).map(Socket::Unix).map_err(failed),
        }
    }

    pub(super) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(socket) => socket.set_nonblocking(true),
            Socket::Tls(stream) => stream.sock.set_nonblocking(true),
            Socket::Unix(socket) => socket.set_nonblocking(true),
        }
    }

    /// Returns whether written bytes have not reached the kernel yet.
    pub(super) fn holds_back(&self) -> bool {
        matches!(self, Socket::Tls(stream) if stream.conn.wants_write())
    }

    /// Returns whether there may be more to read although the kernel has nothing.
    pub(super) fn reads_ahead(&self) -> bool {
        matches!(self, Socket::Tls(_))
    }
}

/// Returns the client configuration that trusts the authorities in the PEM file `path`.
///
/// # Errors
/// When the file has no certificate.
pub fn trust(path: &Path) -> Result<Arc<ClientConfig>, LoadError> {
    let bad = |reason: String| LoadError::Trust { path: PathBuf::from(path), reason };
    let mut roots = RootCertStore::empty();
    for certificate in
        CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))?
    {
        let certificate = certificate.map_err(|error| bad(error.to_string()))?;
        roots.add(certificate).map_err(|error| bad(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(bad("holds no certificate, expected some in PEM".into()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| bad(error.to_string()))?;
    Ok(Arc::new(config.with_root_certificates(roots).with_no_client_auth()))
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(socket) => socket.as_fd(),
            Socket::Tls(stream) => stream.sock.as_fd(),
            Socket::Unix(socket) => socket.as_fd(),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.read(into),
            Socket::Tls(stream) => stream.read(into),
            Socket::Unix(socket) => socket.read(into),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(socket) => socket.write(from),
            Socket::Tls(stream) => stream.write(from),
            Socket::Unix(socket) => socket.write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Socket::Tls(stream) => stream.flush(),
            Socket::Tcp(_) | Socket::Unix(_) => Ok(()),
        }
    }
}
