//! TLS: the server's side; the client's, towards servers behind the front, is `client`.
//!
//! **Invariant:** `ring` does the cryptography: the other choice wants more than a C compiler to be built.

mod certificate;
pub mod client;

use certificate::Certificate;
use ring::digest;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio_rustls::rustls::{Error, ServerConfig};

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// PostgreSQL's protocol, as clients name it in a handshake (ALPN).
pub(crate) const PROTOCOL: &[u8] = b"postgresql";

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
    let certificates = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| invalid(format!("the certificate: {error}")))?;
    let own = certificates.first().and_then(|own| Certificate::read(own));
    let own = own.ok_or_else(|| invalid("the certificate: there is none".to_owned()))?;
    let end_point = end_point(&certificates[0]);
    let provider = Arc::new(default_provider());
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| invalid(format!("the key: {error}")))?;
    let key = provider.key_provider.load_private_key(key).map_err(|error| invalid(format!("the key: {error}")))?;
    if key.public_key().is_some_and(|public| *public != *own.key) {
        return Err(invalid("the key is not that of the certificate".to_owned()));
    }
    // Of any version of X.509: it is for clients to say what they can verify.
    let own = Arc::new(SingleCertAndKey::from(CertifiedKey::new(certificates, key)));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_no_client_auth().with_cert_resolver(own))
        .map_err(|error: Error| invalid(error.to_string()))?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(Arc::new(Tls { config: Arc::new(config), end_point }))
}

/// The hash of a certificate by the function of its signature; SHA-256 for the two that are too weak.
pub(crate) fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let name = Certificate::read(certificate)?.signature_algorithm;
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
