//! Certificates.
//!
//! **Invariant:** `ring` does the cryptography: the other choice wants more than a C compiler to be built.

use ring::digest;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme};

/// What a server needs for encryption.
#[derive(Debug)]
pub struct Tls {
    pub(crate) config: Arc<ServerConfig>,
    /// The certificate's hash, which binds a password's proof to this connection (RFC 5929, `tls-server-end-point`). None
    /// for signatures that this is not defined for.
    pub(crate) end_point: Option<Vec<u8>>,
}

/// From the server's certificate, with those that vouch for it, and its key, both as PEM.
///
/// # Errors
/// A file cannot be read, or the two do not belong together.
pub fn load(certificate: &Path, key: &Path) -> io::Result<Arc<Tls>> {
    from_pem(&std::fs::read(certificate)?, &std::fs::read(key)?)
}

/// As [`load`].
///
/// # Errors
/// As there.
pub fn from_pem(certificate: &[u8], key: &[u8]) -> io::Result<Arc<Tls>> {
    let wrong = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
    let certificates = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| wrong(format!("the certificate: {error}")))?;
    let end_point = certificates.first().and_then(|own| end_point(own));
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| wrong(format!("the key: {error}")))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(|error: Error| wrong(error.to_string()))?;
    Ok(Arc::new(Tls { config: Arc::new(config), end_point }))
}

/// Takes any certificate, but not a handshake that its owner has not signed.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &default_provider().signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &default_provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// What a client needs for encryption. With the file of those who vouch (PEM), a server must be vouched for; without, it may be anybody.
///
/// # Errors
/// The file cannot be used.
pub fn client(roots: Option<&Path>) -> io::Result<Arc<ClientConfig>> {
    let invalid = |error: &dyn std::fmt::Display| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(&error))?;
    let config = match roots {
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for root in CertificateDer::pem_slice_iter(&std::fs::read(path)?) {
                let root = root.map_err(|error| invalid(&error))?;
                roots.add(root).map_err(|error| invalid(&error))?;
            }
            builder.with_root_certificates(roots).with_no_client_auth()
        }
        None => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody)).with_no_client_auth(),
    };
    Ok(Arc::new(config))
}

/// One element of DER: its content, and what follows.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let rest = bytes.strip_prefix(&[tag])?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// The hash of a certificate by the function of its signature; SHA-256 for the two that are too weak.
pub(crate) fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    const SEQUENCE: u8 = 0x30;
    const OBJECT: u8 = 0x06;
    let (fields, _) = element(certificate, SEQUENCE)?;
    let (_, rest) = element(fields, SEQUENCE)?;
    let (algorithm, _) = element(rest, SEQUENCE)?;
    let (name, _) = element(algorithm, OBJECT)?;
    let by = match name {
        // PKCS #1: MD5, SHA-1, SHA-256, SHA-384, SHA-512, with RSA.
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, which] => match which {
            4 | 5 | 11 => &digest::SHA256,
            12 => &digest::SHA384,
            13 => &digest::SHA512,
            _ => return None,
        },
        // ECDSA with SHA-1; with SHA-256, SHA-384, SHA-512.
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01] => &digest::SHA256,
        [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, which] => match which {
            2 => &digest::SHA256,
            3 => &digest::SHA384,
            4 => &digest::SHA512,
            _ => return None,
        },
        _ => return None,
    };
    Some(digest::digest(by, certificate).as_ref().to_vec())
}
