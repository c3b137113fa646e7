//! Connections to a server: TCP or unix socket, encrypted or not.
//!
//! **Invariant:** with `verify-ca` and `verify-full` nothing is sent to a server whose certificate is not of a
//! configured issuer; with these and `require` nothing is sent unencrypted.

use crate::servers::url::{ServerAddress, SslMode, Url};
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use wire::io::Io;
use wire::tls::client::{self, Issuers, Trust};

/// `SSLRequest`.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Stream to a server, the way on which others reach the same server, and the data that bind a proof to the stream if
/// it is encrypted.
pub(crate) struct DialedStream {
    pub(crate) io: Box<dyn Io>,
    pub(crate) way: ServerRoute,
    pub(crate) end_point: Option<Vec<u8>>,
}

/// Way to a server that a connection has taken: its host's name may mean another server by now.
#[derive(Clone, Debug)]
pub(crate) struct ServerRoute {
    host: ServerAddress,
    address: Option<SocketAddr>,
    /// Encryption of everything that is sent on it.
    encryption: Option<Arc<ClientConfig>>,
}

impl ServerRoute {
    /// Way that no connection has taken yet.
    pub(crate) fn to(host: ServerAddress) -> ServerRoute {
        ServerRoute { host, address: None, encryption: None }
    }

    pub(crate) fn host(&self) -> &ServerAddress {
        &self.host
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.encryption.is_some()
    }

    /// Connects to the host, without encryption so far.
    async fn reach(&mut self) -> io::Result<Box<dyn Io>> {
        let stream = match (&self.host, self.address) {
            (ServerAddress::Unix(path), _) => return Ok(Box::new(UnixStream::connect(path).await?)),
            (ServerAddress::Tcp(..), Some(address)) => TcpStream::connect(address).await?,
            (ServerAddress::Tcp(name, port), None) => TcpStream::connect((&**name, *port)).await?,
        };
        self.address = Some(stream.peer_addr()?);
        // One write is one request, so nothing is gained by waiting for more.
        stream.set_nodelay(true)?;
        SockRef::from(&stream).set_tcp_keepalive(&keepalive())?;
        stream.limit_silence(Some(SILENCE));
        Ok(Box::new(stream))
    }

    /// Connects on it again: to the same address, encrypted as before.
    pub(crate) async fn again(&self) -> io::Result<Box<dyn Io>> {
        let mut way = self.clone();
        let mut io = way.reach().await?;
        let Some(config) = &way.encryption else { return Ok(io) };
        if !has_encryption(&mut io).await? {
            return Err(unsupported());
        }
        Ok(Box::new(encrypt(io, &way.host, config).await?))
    }
}

/// Returns the configuration of encryption, if it may be used.
///
/// # Errors
/// The file of trusted certificates cannot be used.
pub(crate) fn encryption(url: &Url) -> io::Result<Option<Arc<ClientConfig>>> {
    let issuers = || {
        let missing = || io::Error::new(io::ErrorKind::InvalidInput, "sslrootcert is missing");
        Issuers::read(url.ssl_root_cert.as_deref().ok_or_else(missing)?)
    };
    let trust = match url.ssl_mode {
        SslMode::Disable => return Ok(None),
        SslMode::Prefer | SslMode::Require => Trust::Everybody,
        SslMode::VerifyCa => Trust::Issuers(issuers()?),
        SslMode::VerifyFull => Trust::IssuersAndName(issuers()?),
    };
    client::config(trust).map(Some)
}

/// Time after which a server that acknowledges nothing of what it is sent counts as gone. While data are on their way
/// there, the connection is not probed for life.
pub(crate) const SILENCE: Duration = Duration::from_mins(2);

/// Keepalive by which a server that has gone without a notice, with its host or the way to it, is noticed within two
/// minutes.
fn keepalive() -> TcpKeepalive {
    TcpKeepalive::new().with_time(Duration::from_mins(1)).with_interval(Duration::from_secs(10)).with_retries(6)
}

fn unsupported() -> io::Error {
    io::Error::other("the server does not support SSL, but SSL was required")
}

/// Asks a server if it encrypts the rest.
async fn has_encryption(io: &mut Box<dyn Io>) -> io::Result<bool> {
    io.write_all(&SSL_REQUEST).await?;
    match io.read_u8().await? {
        b'S' => Ok(true),
        b'N' => Ok(false),
        _ => Err(io::Error::other("the server's answer to the request for SSL is none")),
    }
}

async fn encrypt(
    io: Box<dyn Io>,
    host: &ServerAddress,
    config: &Arc<ClientConfig>,
) -> io::Result<TlsStream<Box<dyn Io>>> {
    let name = match host {
        ServerAddress::Tcp(name, _) => ServerName::try_from(name.clone()).map_err(io::Error::other)?,
        ServerAddress::Unix(_) => return Err(unsupported()),
    };
    TlsConnector::from(Arc::clone(config)).connect(name, io).await.map_err(client::explained)
}

/// Connects to a host, encrypted as the URL demands. As with libpq, encryption means nothing on a unix socket.
pub(crate) async fn dial(
    host: &ServerAddress,
    mode: SslMode,
    config: Option<&Arc<ClientConfig>>,
) -> io::Result<DialedStream> {
    let mut way = ServerRoute::to(host.clone());
    let mut io = way.reach().await?;
    let Some(config) = config.filter(|_| matches!(host, ServerAddress::Tcp(..))) else {
        return Ok(DialedStream { io, way, end_point: None });
    };
    if has_encryption(&mut io).await? {
        let stream = encrypt(io, host, config).await?;
        let certificate = stream.get_ref().1.peer_certificates().and_then(|all| all.first());
        let end_point = certificate.and_then(|certificate| wire::tls::end_point(certificate));
        way.encryption = Some(Arc::clone(config));
        return Ok(DialedStream { io: Box::new(stream), way, end_point });
    }
    if mode == SslMode::Prefer { Ok(DialedStream { io, way, end_point: None }) } else { Err(unsupported()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    #[test]
    fn the_system_takes_how_a_connection_is_kept_alive() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let socket = SockRef::from(&stream);
        socket.set_tcp_keepalive(&keepalive()).expect("it is one of TCP");
        let found = (socket.keepalive(), socket.tcp_keepalive_time(), socket.tcp_keepalive_retries());
        assert!(matches!(found, (Ok(true), Ok(time), Ok(6)) if time == Duration::from_mins(1)), "{found:?}");
    }

    #[tokio::test]
    async fn the_system_takes_how_long_a_server_may_be_silent() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
        for limit in [Some(SILENCE), None, Some(SILENCE)] {
            stream.limit_silence(limit);
            assert_eq!(SockRef::from(&stream).tcp_user_timeout().expect("it is one of TCP"), limit);
        }
    }
}
