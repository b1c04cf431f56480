//! TLS of a connection without its socket: turns received bytes into plain text and replies into
//! records.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};

use crate::options::{ServeError, TlsFiles};

/// DRAM of a connection's TLS, about: its state, and a record's buffer each way.
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
        // Records are taken out right after encryption.
        connection.set_buffer_limit(None);
        Ok(Tls { connection })
    }

    /// Takes received bytes and returns the plain text.
    ///
    /// # Errors
    /// Returns an error if the bytes are not valid TLS. [`take`](Tls::take) then has the alert for
    /// the client.
    pub(crate) fn receive(&mut self, mut bytes: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let mut said = Vec::new();
        while !bytes.is_empty() {
            // Reading from a slice fails only if the current record is too long.
            if self.connection.read_tls(&mut bytes).is_err() {
                return Err(rustls::Error::General("a record is too long".into()));
            }
            self.connection.process_new_packets()?;
            // Returns an error when there is no more for now.
            let _ = self.connection.reader().read_to_end(&mut said);
        }
        Ok(said)
    }

    /// Encrypts plain text for the client. Pending bytes of TLS itself come first.
    pub(crate) fn encrypt(&mut self, said: &[u8]) -> Vec<u8> {
        let mut bytes = self.take();
        for piece in said.chunks(PIECE_BYTES) {
            // Both write to empty buffers in DRAM.
            let _ = self.connection.writer().write_all(piece);
            bytes.append(&mut self.take());
        }
        bytes
    }

    /// Returns the bytes that close the TLS connection.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        self.connection.send_close_notify();
        self.take()
    }

    /// Returns the pending bytes of TLS itself for the client.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        while self.connection.wants_write() {
            if !matches!(self.connection.write_tls(&mut bytes), Ok(1..)) {
                break;
            }
        }
        bytes
    }

    /// True if the handshake is complete.
    pub(crate) fn is_ready(&self) -> bool {
        !self.connection.is_handshaking()
    }
}
