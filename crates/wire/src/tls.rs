//! TLS of the server's side. The client's side, towards servers behind the proxy, is in `client`.
//!
//! **Invariant:** `ring` does the cryptography, because the alternative needs more than a C compiler to be built.

mod certificate;
pub mod client;

use certificate::Certificate;
use ring::digest;
use rustix::process::geteuid;
use std::io;
use std::os::unix::fs::MetadataExt;
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

/// Name of PostgreSQL's protocol in a handshake (ALPN).
pub const PROTOCOL: &[u8] = b"postgresql";

/// Encryption of a server.
#[derive(Debug)]
pub struct Tls {
    /// Configuration of rustls.
    pub config: Arc<ServerConfig>,
    /// Hash of the certificate, which binds a password's proof to this connection (RFC 5929, `tls-server-end-point`).
    /// `None` for signatures for which it is not defined.
    pub end_point: Option<Vec<u8>>,
}

/// Loads the server's certificate, with the chain that vouches for it, and its key, both as PEM.
///
/// # Errors
/// A file cannot be read, the two do not belong together, or others may have read the key.
pub fn load(certificate: &Path, key: &Path) -> io::Result<Arc<Tls>> {
    let refused =
        |error: io::Error| io::Error::new(error.kind(), format!("private key file \"{}\" {error}", key.display()));
    let absent = |error: io::Error| {
        io::Error::new(error.kind(), format!("could not access private key file \"{}\": {error}", key.display()))
    };
    let status = std::fs::metadata(key).map_err(absent)?;
    if !status.is_file() {
        return Err(refused(invalid("is not a regular file".to_owned())));
    }
    may_be_used(status.uid(), status.mode(), geteuid().as_raw()).map_err(|why| refused(invalid(why.to_owned())))?;
    let unread = |error: io::Error| {
        io::Error::new(
            error.kind(),
            format!("could not load server certificate file \"{}\": {error}", certificate.display()),
        )
    };
    from_pem(&std::fs::read(certificate).map_err(unread)?, &std::fs::read(key).map_err(absent)?)
}

/// Checks that a process of this user may use a key, by the owner and the permissions of its file, as PostgreSQL does
/// it.
fn may_be_used(owner: u32, mode: u32, user: u32) -> Result<(), &'static str> {
    if owner != user && owner != 0 {
        return Err("must be owned by the database user or root");
    }
    let others = if owner == 0 { 0o037 } else { 0o077 };
    if mode & others != 0 {
        return Err(
            "has group or world access. File must have permissions u=rw (0600) or less if owned by the database user, or \
             permissions u=rw,g=r (0640) or less if owned by root.",
        );
    }
    Ok(())
}

/// Reads a certificate and its key like [`load`], from bytes.
///
/// # Errors
/// The same as those of [`load`].
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
    // Certificates of any version of X.509 are accepted: clients decide what they can verify.
    let own = Arc::new(SingleCertAndKey::from(CertifiedKey::new(certificates, key)));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_no_client_auth().with_cert_resolver(own))
        .map_err(|error: Error| invalid(error.to_string()))?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(Arc::new(Tls { config: Arc::new(config), end_point }))
}

/// Hash of a certificate by the function of its signature; SHA-256 in place of the two that are too weak.
pub fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_others_may_have_read_are_refused() {
        for (owner, mode, is_taken) in [
            (5, 0o100_600, true),
            (5, 0o100_400, true),
            (5, 0o100_640, false),
            (5, 0o100_604, false),
            (0, 0o100_640, true),
            (0, 0o100_660, false),
            (0, 0o100_644, false),
            (6, 0o100_600, false),
        ] {
            assert_eq!(may_be_used(owner, mode, 5).is_ok(), is_taken, "{owner} {mode:o}");
        }
    }
}
