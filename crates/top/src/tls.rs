//! Encryption of the connection, by rustls, in the form that tokio-postgres asks for.
//!
//! **Invariant:** password authentication uses no channel binding: a server whose identity is not verified could be
//! anybody with channel binding, too.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::{TlsConnector, client};

/// Connector that encrypts connections with this configuration.
#[derive(Clone, Debug)]
pub struct Encryption(Arc<ClientConfig>);

impl Encryption {
    /// Creates a connector.
    pub fn new(tls: Arc<ClientConfig>) -> Encryption {
        Encryption(tls)
    }
}

/// Connector that encrypts one connection, to a server of this name.
#[derive(Debug)]
pub struct ToServer(Arc<ClientConfig>, ServerName<'static>);

/// Encrypted connection.
#[derive(Debug)]
pub struct Encrypted<S>(client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Encryption {
    type Stream = Encrypted<S>;
    type TlsConnect = ToServer;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<ToServer> {
        // A unix socket has no name, and is not encrypted.
        let name = if host.is_empty() { "localhost" } else { host };
        Ok(ToServer(Arc::clone(&self.0), ServerName::try_from(name.to_owned()).map_err(io::Error::other)?))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for ToServer {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { TlsConnector::from(self.0).connect(self.1, stream).await.map(Encrypted) })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
