//! Byte streams of all kinds, beneath a connection. [`Io`] is the interface of transports: the protocol sees bytes only.

use bytes::Bytes;
use socket2::SockRef;
use stage::Transport;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Empty, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;
use uring::UringStream;
use xdp::XdpStream;

/// Peer of a stream, as the operating system reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// The system does not report the peer.
    Unknown,
    /// Addresses of a TCP connection.
    Tcp {
        /// Local address.
        ours: SocketAddr,
        /// Remote address.
        theirs: SocketAddr,
    },
    /// Process that listens on the unix socket, if it is visible from here.
    Unix(Option<i32>),
}

/// Time for which a stream stays with the thread that it moves to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// It may move again.
    ForNow,
    /// To its end. It may use what belongs to the thread, such as its io_uring.
    ForGood,
}

/// Transport of a connection: a stream of bytes of any kind.
///
/// Dropping it closes the connection. A shutdown tells the peer that nothing more is written; reads go on.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {
    /// Returns the kind of the stream, for the stage clock.
    fn transport(&self) -> Transport;

    /// Returns the peer of the stream.
    fn peer(&self) -> Peer {
        Peer::Unknown
    }

    /// Limits the time in which the peer acknowledges nothing of what it was sent, or has no room for more. The
    /// connection ends after that time.
    fn limit_silence(&self, _limit: Option<Duration>) {}

    /// Moves the stream into the caller's runtime, from whichever runtime it belonged to.
    ///
    /// # Errors
    /// The system refuses the registration.
    fn settled(self: Box<Self>, stay: Stay) -> io::Result<Box<dyn Io>>;
}

impl Io for TcpStream {
    fn transport(&self) -> Transport {
        Transport::Tcp
    }

    fn limit_silence(&self, limit: Option<Duration>) {
        // A system without this option has its own limit.
        let _ = SockRef::from(self).set_tcp_user_timeout(limit);
    }

    fn peer(&self) -> Peer {
        match (self.local_addr(), self.peer_addr()) {
            (Ok(ours), Ok(theirs)) => Peer::Tcp { ours, theirs },
            _ => Peer::Unknown,
        }
    }

    fn settled(self: Box<Self>, stay: Stay) -> io::Result<Box<dyn Io>> {
        let socket = self.into_std()?;
        Ok(match stay {
            Stay::ForGood if uring::is_started() => Box::new(UringStream::new(socket)?),
            Stay::ForGood | Stay::ForNow => Box::new(TcpStream::from_std(socket)?),
        })
    }
}

impl Io for UringStream {
    fn transport(&self) -> Transport {
        Transport::IoUring
    }

    fn limit_silence(&self, limit: Option<Duration>) {
        let _ = SockRef::from(self.socket()).set_tcp_user_timeout(limit);
    }

    fn peer(&self) -> Peer {
        match (self.socket().local_addr(), self.socket().peer_addr()) {
            (Ok(ours), Ok(theirs)) => Peer::Tcp { ours, theirs },
            _ => Peer::Unknown,
        }
    }

    fn settled(self: Box<Self>, _stay: Stay) -> io::Result<Box<dyn Io>> {
        Err(io::Error::other("a connection of io_uring stays with its thread"))
    }
}

impl Io for XdpStream {
    fn transport(&self) -> Transport {
        Transport::AfXdp
    }

    fn limit_silence(&self, limit: Option<Duration>) {
        XdpStream::limit_silence(self, limit);
    }

    fn peer(&self) -> Peer {
        let (ours, theirs) = self.addresses();
        Peer::Tcp { ours: ours.into(), theirs: theirs.into() }
    }

    fn settled(self: Box<Self>, _stay: Stay) -> io::Result<Box<dyn Io>> {
        match self.is_at_home() {
            true => Ok(self),
            false => Err(io::Error::other("a connection of AF_XDP stays with its thread")),
        }
    }
}

impl Io for UnixStream {
    fn transport(&self) -> Transport {
        Transport::Unix
    }

    fn peer(&self) -> Peer {
        let pid = self.peer_cred().ok().and_then(|peer| peer.pid());
        Peer::Unix(pid.filter(|&pid| 0 < pid))
    }

    fn settled(self: Box<Self>, _stay: Stay) -> io::Result<Box<dyn Io>> {
        Ok(Box::new(UnixStream::from_std(self.into_std()?)?))
    }
}

/// Both ends of TLS lie above a stream alike, and the library has a type for each.
macro_rules! io_over_tls {
    ($($stream:ty),*) => {$(
        impl Io for $stream {
            fn transport(&self) -> Transport {
                Transport::Tls
            }

            fn limit_silence(&self, limit: Option<Duration>) {
                self.get_ref().0.limit_silence(limit);
            }

            fn peer(&self) -> Peer {
                self.get_ref().0.peer()
            }

            fn settled(mut self: Box<Self>, stay: Stay) -> io::Result<Box<dyn Io>> {
                let plain = self.get_mut().0;
                *plain = mem::replace(plain, Box::new(tokio::io::empty())).settled(stay)?;
                Ok(self)
            }
        }
    )*};
}

io_over_tls!(TlsStream<Box<dyn Io>>, tokio_rustls::client::TlsStream<Box<dyn Io>>);

/// Placeholder for a stream that is elsewhere at the moment.
impl Io for Empty {
    fn transport(&self) -> Transport {
        Transport::Unix
    }

    fn settled(self: Box<Self>, _stay: Stay) -> io::Result<Box<dyn Io>> {
        Ok(self)
    }
}

/// Stream of which some bytes were read already; they are read again first.
pub struct Reread {
    /// Bytes that were read already.
    pub first: Bytes,
    /// Stream behind them.
    pub rest: Box<dyn Io>,
}

impl AsyncRead for Reread {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.rest).poll_read(cx, into);
        }
        let length = self.first.len().min(into.remaining());
        into.put_slice(&self.first.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Reread {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.rest).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.rest).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.rest).poll_shutdown(cx)
    }
}

impl Io for Reread {
    fn transport(&self) -> Transport {
        self.rest.transport()
    }

    fn limit_silence(&self, limit: Option<Duration>) {
        self.rest.limit_silence(limit);
    }

    fn peer(&self) -> Peer {
        self.rest.peer()
    }

    fn settled(self: Box<Self>, stay: Stay) -> io::Result<Box<dyn Io>> {
        let Reread { first, rest } = *self;
        let rest = rest.settled(stay)?;
        if first.is_empty() { Ok(rest) } else { Ok(Box::new(Reread { first, rest })) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::net::TcpListener;
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    #[tokio::test]
    async fn encryption_hides_no_transport() {
        let (certificate, key) = (include_bytes!("../tests/tls/cert.pem"), include_bytes!("../tests/tls/key.pem"));
        let tls = crate::tls::from_pem(certificate, key).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let server = listener.accept().await.unwrap().0;
        let (of_client, of_server) = (client.peer(), server.peer());
        let beside = socket2::Socket::from(std::os::fd::AsFd::as_fd(&server).try_clone_to_owned().unwrap());
        let server: Box<dyn Io> = Box::new(Reread { first: Bytes::new(), rest: Box::new(server) });
        let connector = TlsConnector::from(crate::tls::client::unverified().unwrap());
        let acceptor = TlsAcceptor::from(Arc::clone(&tls.config));
        let connected = connector.connect("localhost".try_into().unwrap(), Box::new(client) as Box<dyn Io>);
        let (client, server) = tokio::try_join!(connected, acceptor.accept(server)).unwrap();
        assert_eq!((client.peer(), server.peer()), (of_client, of_server));
        server.limit_silence(Some(Duration::from_secs(7)));
        assert_eq!(beside.tcp_user_timeout().unwrap(), Some(Duration::from_secs(7)));
    }
}
