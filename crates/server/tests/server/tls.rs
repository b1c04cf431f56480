//! TLS on the TCP port, with a generated certificate.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use ebbtide_core::Stop;
use ebbtide_server::{ServeError, ServeOptions, TlsFiles, serve};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::client::{Server, encode};

/// Writes a self-signed certificate for 127.0.0.1 to a folder.
pub(crate) fn files() -> (tempfile::TempDir, TlsFiles) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_string()]).expect("made");
    let files = TlsFiles {
        certificate: folder.path().join("cert.pem"),
        key: folder.path().join("key.pem"),
    };
    std::fs::write(&files.certificate, made.cert.pem()).expect("written");
    std::fs::write(&files.key, made.signing_key.serialize_pem()).expect("written");
    (folder, files)
}

/// The configuration of a client that trusts this certificate alone.
pub(crate) fn trusting(files: &TlsFiles) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files.certificate).expect("one")).expect("added");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

fn connect(
    server: &Server,
    files: &TlsFiles,
) -> BufReader<StreamOwned<ClientConnection, TcpStream>> {
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let tls = ClientConnection::new(trusting(files), name).expect("a connection");
    let socket = TcpStream::connect(server.address).expect("a socket");
    BufReader::new(StreamOwned::new(tls, socket))
}

#[test]
fn commands_and_large_values_go_over_tls_and_plain_text_is_refused() {
    let (_folder, files) = files();
    let server = Server::start(|options| options.tls = Some(files.clone()));
    let mut client = connect(&server, &files);
    let value: Vec<u8> = (0..3_000_000u32).map(|at| (at ^ at >> 7) as u8).collect();
    let mut line = String::new();
    client.get_mut().write_all(&encode(&[b"set", b"k", &value])).expect("sent");
    client.read_line(&mut line).expect("a reply");
    assert_eq!(line, "+OK\r\n");
    let questions = [encode(&[b"get", b"k"]), encode(&[b"ping"]), encode(&[b"quit"])].concat();
    client.get_mut().write_all(&questions).expect("sent");
    let mut replies = Vec::new();
    // The server closes the TLS connection properly.
    client.read_to_end(&mut replies).expect("closed with a notice");
    let expected = [b"$3000000\r\n", &value[..], b"\r\n+PONG\r\n+OK\r\n"].concat();
    assert!(replies == expected, "{} bytes", replies.len());
    let mut plain = server.client();
    plain.send(b"*1\r\n$4\r\nping\r\n");
    let mut alert = Vec::new();
    // An alert, then the end.
    let _ = plain.other_end().read_to_end(&mut alert);
    assert_eq!(alert.first(), Some(&21), "{alert:?}");
    // Half of a greeting does not disturb other clients.
    let mut half = server.client();
    half.send(&[22, 3, 1, 2, 0, 1]);
    drop(half);
    let mut again = connect(&server, &files);
    again.get_mut().write_all(b"PING\r\n").expect("sent");
    line.clear();
    again.read_line(&mut line).expect("a reply");
    assert_eq!(line, "+PONG\r\n");
}

#[test]
fn files_that_hold_no_certificate_or_another_key_are_refused_by_name() {
    static NEVER: Stop = Stop::new();
    let ((folder, good), (_other_folder, other)) = (files(), files());
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "nothing").expect("written");
    for (tls, named) in [
        (TlsFiles { certificate: empty.clone(), key: good.key.clone() }, &empty),
        (TlsFiles { certificate: good.certificate.clone(), key: empty.clone() }, &empty),
        (TlsFiles { certificate: good.certificate.clone(), key: other.key.clone() }, &other.key),
    ] {
        let data = folder.path().join("store");
        let options = ServeOptions { data, port: 0, tls: Some(tls), ..ServeOptions::default() };
        let error = serve(&options, &NEVER, |_| panic!("it must not start")).expect_err("refused");
        assert!(matches!(error, ServeError::Tls { .. }) && error.is_input(), "{error}");
        let text = error.to_string();
        assert!(text.starts_with(&named.display().to_string()) && !text.contains('\n'), "{text}");
    }
}
