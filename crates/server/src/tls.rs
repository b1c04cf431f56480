//! TLS of a connection, without its socket: what came goes in, what is to be sent comes out.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

use crate::options::{ServeError, TlsFiles};

/// What the TLS of a connection takes of DRAM, about: its state, and buffers for a record each way.
pub(crate) const TLS_BYTES: usize = 40 << 10;

/// Bytes that are encrypted at once.
const PIECE_BYTES: usize = 16 << 10;

/// Reads the certificate and the key.
pub(crate) fn load(files: &TlsFiles) -> Result<Arc<ServerConfig>, ServeError> {
    let bad = |path: &Path, reason: String| ServeError::Tls { path: path.into(), reason };
    let of = |path: &Path, error: rustls::pki_types::pem::Error| bad(path, error.to_string());
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| of(&files.certificate, error))?;
    if chain.is_empty() {
        return Err(bad(&files.certificate, "holds no certificate, expected one in PEM".into()));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| of(&files.key, error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| bad(&files.certificate, error.to_string()))?;
    let config = config.with_no_client_auth().with_single_cert(chain, key);
    config.map(Arc::new).map_err(|error| bad(&files.key, error.to_string()))
}

/// The TLS of one connection.
pub(crate) struct Tls {
    connection: ServerConnection,
}

impl Tls {
    pub(crate) fn new(config: &Arc<ServerConfig>) -> Result<Tls, rustls::Error> {
        let mut connection = ServerConnection::new(config.clone())?;
        // What is encrypted is taken out at once.
        connection.set_buffer_limit(None);
        Ok(Tls { connection })
    }

    /// Takes what came, and gives what the client said in it.
    ///
    /// # Errors
    /// When it is no TLS, or the client breaks its rules. [`take`](Tls::take) then tells the client so.
    pub(crate) fn receive(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let mut said = Vec::new();
        while !bytes.is_empty() {
            // Reading from a slice fails only when the record that has begun is too long.
            if self.connection.read_tls(&mut bytes).is_err() {
                return Err(rustls::Error::General("a record is too long".into()));
            }
            self.connection.process_new_packets()?;
            // Ends with an error when there is no more for now.
            let _ = self.connection.reader().read_to_end(&mut said);
        }
        Ok(said)
    }

    /// Encrypts what is said to the client, behind what TLS itself has to tell it.
    pub(crate) fn encrypt(&mut self, said: &[u8]) -> Vec<u8> {
        let mut bytes = self.take();
        for piece in said.chunks(PIECE_BYTES) {
            // Both go to buffers in DRAM, which are empty.
            let _ = self.connection.writer().write_all(piece);
            bytes.append(&mut self.take());
        }
        bytes
    }

    /// Says that nothing more will be said.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        self.connection.send_close_notify();
        self.take()
    }

    /// What TLS itself has to tell the client.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.connection.wants_write() {
            if !matches!(self.connection.write_tls(&mut bytes), Ok(1..)) {
                break;
            }
        }
        bytes
    }

    /// Whether the client can be told something.
    pub(crate) fn is_ready(&self) -> bool {
        !self.connection.is_handshaking()
    }
}
