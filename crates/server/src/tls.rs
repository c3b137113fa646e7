//! Certificates.
//!
//! **Invariant:** `ring` does the cryptography: the other choice wants more than a C compiler to be built.

use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{Error, ServerConfig};

/// What a server needs for encryption: its certificate, with those that vouch for it, and its key, both as PEM.
///
/// # Errors
/// A file cannot be read, or the two do not belong together.
pub fn load(certificate: &Path, key: &Path) -> io::Result<Arc<ServerConfig>> {
    from_pem(&std::fs::read(certificate)?, &std::fs::read(key)?)
}

/// As [`load`].
///
/// # Errors
/// As there.
pub fn from_pem(certificate: &[u8], key: &[u8]) -> io::Result<Arc<ServerConfig>> {
    let wrong = |error: String| io::Error::new(io::ErrorKind::InvalidData, error);
    let certificates = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| wrong(format!("the certificate: {error}")))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| wrong(format!("the key: {error}")))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key));
    config.map(Arc::new).map_err(|error: Error| wrong(error.to_string()))
}
