//! TLS of the client's side, towards servers behind the proxy.
//!
//! **Invariant:** a handshake counts only if the key of the server's certificate has signed it. Where certificates are
//! verified, nothing is sent to a server before that.

use super::certificate::Certificate;
use super::invalid;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use tokio_rustls::rustls::server::ParsedCertificate;
use tokio_rustls::rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, PeerMisbehaved,
    RootCertStore, SignatureScheme,
};

/// Servers that are trusted.
#[derive(Debug)]
pub enum Trust {
    /// Every server: certificates are not verified.
    Everybody,
    /// Servers with a certificate of these issuers.
    Issuers(Issuers),
    /// Servers with a certificate of these issuers that names the host as well.
    IssuersAndName(Issuers),
}

/// Certificates that are configured as trusted.
#[derive(Debug)]
pub struct Issuers {
    roots: RootCertStore,
    /// Certificates of which a server may present one as its own.
    own: Vec<CertificateDer<'static>>,
}

impl Issuers {
    /// Reads the certificates from a PEM file.
    ///
    /// # Errors
    /// The file cannot be read, or has no certificate.
    pub fn read(path: &Path) -> io::Result<Issuers> {
        let place = |why: &dyn fmt::Display| invalid(format!("sslrootcert: {}: {why}", path.display()));
        let pem = std::fs::read(path).map_err(|error| place(&error))?;
        let own = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>().map_err(|error| place(&error))?;
        let mut roots = RootCertStore::empty();
        for certificate in &own {
            roots.add(certificate.clone()).map_err(|error| place(&told(&error)))?;
        }
        if own.is_empty() {
            return Err(place(&"there is no certificate in it"));
        }
        Ok(Issuers { roots, own })
    }
}

/// Reason against a certificate for which rustls has no name.
#[derive(Debug)]
struct RefusedCertificate(String);

impl fmt::Display for RefusedCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RefusedCertificate {}

fn refused(why: impl Into<String>) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(RefusedCertificate(why.into())))))
}

/// Verifier that checks as much as the URL demands.
#[derive(Debug)]
struct CertificateVerifier {
    trust: Trust,
    algorithms: WebPkiSupportedAlgorithms,
}

fn read<'d>(der: &'d CertificateDer<'_>) -> Result<Certificate<'d>, Error> {
    Certificate::read(der).ok_or_else(|| CertificateError::BadEncoding.into())
}

impl CertificateVerifier {
    fn is_issued(
        &self,
        issuers: &Issuers,
        der: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let certificate = read(der)?;
        if issuers.own.iter().any(|own| **own == **der) {
            return certificate.is_out_of_date(now).map_or(Ok(()), |why| Err(refused(why)));
        }
        is_of_version_3(&certificate)?;
        let parsed = ParsedCertificate::try_from(der)?;
        verify_server_cert_signed_by_trust_anchor(&parsed, &issuers.roots, intermediates, now, self.algorithms.all)
    }
}

fn is_of_version_3(certificate: &Certificate<'_>) -> Result<(), Error> {
    match certificate.version {
        3 => Ok(()),
        version => Err(refused(format!(
            "it is an X.509 certificate of version {version}; its issuer and its names can be verified of version 3 only"
        ))),
    }
}

impl ServerCertVerifier for CertificateVerifier {
    fn verify_server_cert(
        &self,
        der: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = read(der)?;
        if let Some(why) = certificate.unverifiable(&self.algorithms) {
            return Err(refused(why));
        }
        match &self.trust {
            Trust::Everybody => {}
            Trust::Issuers(issuers) => self.is_issued(issuers, der, intermediates, now)?,
            Trust::IssuersAndName(issuers) => {
                self.is_issued(issuers, der, intermediates, now)?;
                is_of_version_3(&certificate)?;
                let is_named = verify_server_name(&ParsedCertificate::try_from(der)?, name);
                is_named.or_else(|error| if certificate.is_called(name) { Ok(()) } else { Err(error) })?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        der: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let certificate = read(der)?;
        let mut of_scheme = self.algorithms.mapping.iter().filter(|(scheme, _)| *scheme == signed.scheme);
        let (_, algorithms) = of_scheme.next().ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
        // A scheme of TLS 1.2 does not determine the curve: the key does.
        let mut suited = algorithms.iter().filter(|one| *one.public_key_alg_id() == *certificate.key_algorithm);
        let verified =
            suited.any(|one| one.verify_signature(certificate.key_bits, message, signed.signature()).is_ok());
        if verified { Ok(HandshakeSignatureValid::assertion()) } else { Err(CertificateError::BadSignature.into()) }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        der: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(read(der)?.key);
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Encryption towards servers that are trusted like this.
///
/// # Errors
/// The library does not support a version of TLS.
pub fn config(trust: Trust) -> io::Result<Arc<ClientConfig>> {
    let provider = Arc::new(default_provider());
    let verifier = CertificateVerifier { trust, algorithms: provider.signature_verification_algorithms };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(error.to_string()))?;
    Ok(Arc::new(builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()))
}

/// Encryption towards servers whose certificates are not verified.
///
/// # Errors
/// The library does not support a version of TLS.
pub fn unverified() -> io::Result<Arc<ClientConfig>> {
    config(Trust::Everybody)
}

/// Adds the reason why a handshake has failed, for the operator of the server, in the words of PostgreSQL and OpenSSL
/// where they have some.
pub fn explained(error: io::Error) -> io::Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(known) => io::Error::new(error.kind(), format!("SSL error: {}", told(known))),
        None => error,
    }
}

/// Name that the library has for a server's certificate that says that it is an issuer's, as a self-signed one does.
const OF_AN_ISSUER: &str = "CaUsedAsEndEntity";

fn told(error: &Error) -> String {
    let why = match error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(why))) => {
            let why = why.to_string();
            let is_of_an_issuer = why == OF_AN_ISSUER;
            let of_an_issuer = "it is the certificate of an issuer, and does not stand in sslrootcert itself";
            if is_of_an_issuer { of_an_issuer.to_owned() } else { why }
        }
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "none of the certificates of sslrootcert is its issuer".to_owned()
        }
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "certificate has expired".to_owned()
        }
        Error::InvalidCertificate(CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. }) => {
            "certificate is not yet valid".to_owned()
        }
        Error::InvalidCertificate(CertificateError::NotValidForNameContext { expected, .. }) => {
            return format!("server certificate does not match host name \"{}\"", expected.to_str());
        }
        Error::InvalidCertificate(other) => other.to_string(),
        Error::AlertReceived(AlertDescription::HandshakeFailure) => {
            return "the server has no algorithm in common with this side, which verifies signatures of keys of RSA, P-256, \
                    P-384 and Ed25519"
                .to_owned();
        }
        other => return other.to_string(),
    };
    format!("certificate verify failed: {why}")
}
