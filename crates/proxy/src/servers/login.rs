//! Login: from an address to a server connection that is ready for a query.
//!
//! **Invariant:** a password in clear text goes over an encrypted connection or a unix socket only, unless the URL says
//! `sslmode=disable`.

use crate::clients::cancel_request::ServerCancel;
use crate::servers::dial::{self, DialedStream};
use crate::servers::passwords::Passwords;
use crate::servers::proof::{self, ScramExchange, Secret};
use crate::servers::server_conn::{QuestionFailed, ServerConn, error_of};
use crate::servers::url::{ServerAddress, SslMode, Url};
use crate::statements::message;
use bytes::BytesMut;
use statement::time::TimeSource;
use statement::{SqlError, SqlState};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::ClientConfig;

/// Time after which a server that has not completed a login counts as unreachable.
const LOGIN_TIME: Duration = Duration::from_secs(15);

/// Servers, with everything needed to connect to them.
#[derive(Debug)]
pub(crate) struct Servers {
    pub(crate) url: Url,
    pub(crate) encryption: Option<Arc<ClientConfig>>,
    pub(crate) passwords: Arc<Passwords>,
    /// Clock of everything that deals with them.
    pub(crate) time: TimeSource,
}

fn failed(message: &'static str) -> QuestionFailed {
    QuestionFailed::Said(SqlError::new(SqlState::CONNECTION_FAILURE, message))
}

impl Servers {
    /// Creates the servers of a URL, in the environment of this process.
    ///
    /// # Errors
    /// Certificates cannot be read.
    pub(crate) fn new(url: Url, time: TimeSource) -> io::Result<Servers> {
        let encryption = dial::encryption(&url)?;
        let passwords = Arc::new(Passwords::of(&url, |name| std::env::var_os(name)));
        Ok(Servers { url, encryption, passwords, time })
    }

    /// Connects the URL's user to the URL's database, for the proxy's own questions.
    pub(crate) async fn connect_own(&self, host: &ServerAddress) -> Result<ServerConn, QuestionFailed> {
        self.connect(host, &self.url.user, &self.url.database, &Secret::Nothing).await
    }

    /// Returns the secret of a login: the password of the URL's user precedes everything that clients have proved.
    async fn secret(&self, host: &ServerAddress, user: &str, database: &str, secret: &Secret) -> Secret {
        if user != self.url.user {
            return secret.clone();
        }
        let (passwords, host) = (Arc::clone(&self.passwords), host.clone());
        let (user, database) = (user.to_owned(), database.to_owned());
        // The password may be in a file, which is read on a blocking thread.
        let found = tokio::task::spawn_blocking(move || passwords.find(&host, &user, &database)).await;
        found.ok().flatten().map_or_else(|| secret.clone(), Secret::Password)
    }

    /// Connects to a server; `secret` is known of a user other than the URL's.
    pub(crate) async fn connect(
        &self,
        host: &ServerAddress,
        user: &str,
        database: &str,
        secret: &Secret,
    ) -> Result<ServerConn, QuestionFailed> {
        let limit = self.url.connect_timeout.unwrap_or(LOGIN_TIME);
        let in_time = tokio::time::timeout(limit, self.log_in(host, user, database, secret)).await;
        in_time.unwrap_or_else(|_| Err(io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time").into()))
    }

    async fn log_in(
        &self,
        host: &ServerAddress,
        user: &str,
        database: &str,
        secret: &Secret,
    ) -> Result<ServerConn, QuestionFailed> {
        let DialedStream { io, way, end_point } = dial::dial(host, self.url.ssl_mode, self.encryption.as_ref()).await?;
        let may_be_clear =
            way.is_encrypted() || matches!(host, ServerAddress::Unix(_)) || self.url.ssl_mode == SslMode::Disable;
        let mut server = ServerConn::new(io, Arc::new(ServerCancel::new(way.clone())), self.time.now());
        startup(&mut server.out, user, database);
        server.flush().await?;
        loop {
            let (kind, body) = server.next().await?;
            match kind {
                b'R' => {
                    let (code, rest) =
                        body.split_first_chunk::<4>().ok_or_else(|| failed("what the server asks is nothing"))?;
                    let code = i32::from_be_bytes(*code);
                    if code == 0 {
                        continue;
                    }
                    let secret = self.secret(host, user, database, secret).await;
                    match (code, &secret) {
                        (3, Secret::Password(password)) if may_be_clear => {
                            password_message(&mut server.out, password.as_bytes());
                        }
                        (3, Secret::Password(_)) => {
                            return Err(failed(
                                "the server asks for a password in clear text over an unencrypted connection",
                            ));
                        }
                        (5, Secret::Password(password)) => {
                            password_message(&mut server.out, proof::md5(user, password, rest).as_bytes());
                        }
                        (10, Secret::Password(_) | Secret::Keys(_)) => {
                            let has_plus = rest.split(|&byte| byte == 0).any(|name| name == b"SCRAM-SHA-256-PLUS");
                            prove(&mut server, end_point.as_deref(), has_plus, &secret).await?;
                        }
                        (3 | 5 | 10, _) => return Err(no_password(user)),
                        _ => return Err(failed("the server asks for a proof of a kind that is not known")),
                    }
                    server.flush().await?;
                }
                b'K' => {
                    let (pid, rest) =
                        body.split_first_chunk::<4>().ok_or_else(|| failed("the server's key is none"))?;
                    let secret = rest.first_chunk::<4>().ok_or_else(|| failed("the server's key is none"))?;
                    let (pid, secret) = (i32::from_be_bytes(*pid), i32::from_be_bytes(*secret));
                    server.line = Arc::new(ServerCancel::with_key(way.clone(), pid, secret));
                }
                b'S' => server.note(&body),
                b'E' => return Err(QuestionFailed::Said(error_of(&body))),
                b'Z' => return Ok(server),
                // Notices.
                b'N' | b'v' => {}
                _ => {
                    return Err(
                        io::Error::new(io::ErrorKind::InvalidData, "the server does not speak the protocol").into()
                    );
                }
            }
        }
    }
}

fn no_password(user: &str) -> QuestionFailed {
    let message = format!("the server asks for a password of user \"{user}\", which is not known here");
    QuestionFailed::Said(SqlError::new(SqlState::INVALID_PASSWORD, message))
}

fn startup(out: &mut BytesMut, user: &str, database: &str) {
    let mut body = (3_i32 << 16).to_be_bytes().to_vec();
    for (name, value) in [("user", user), ("database", database)] {
        body.extend([name.as_bytes(), b"\0", value.as_bytes(), b"\0"].concat());
    }
    body.push(0);
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(&body);
}

fn password_message(out: &mut BytesMut, text: &[u8]) {
    message::put(out, b'p', |out| {
        out.extend_from_slice(text);
        out.extend_from_slice(&[0]);
    });
}

/// Runs the exchange of SCRAM-SHA-256; the server's consent is still to come.
async fn prove(
    server: &mut ServerConn,
    end_point: Option<&[u8]>,
    has_plus: bool,
    secret: &Secret,
) -> Result<(), QuestionFailed> {
    let refused = || failed("the server's part in SCRAM-SHA-256 is wrong");
    // The keys of a client are bound to nothing: they prove on any channel.
    let bound_to = end_point.filter(|_| has_plus);
    let (exchange, first) = ScramExchange::begin(bound_to, end_point.is_some()).ok_or_else(refused)?;
    let mechanism = if bound_to.is_some() { "SCRAM-SHA-256-PLUS" } else { "SCRAM-SHA-256" };
    message::put(&mut server.out, b'p', |out| {
        out.extend_from_slice(mechanism.as_bytes());
        out.extend_from_slice(&[0]);
        out.extend_from_slice(&(first.len() as u32).to_be_bytes());
        out.extend_from_slice(first.as_bytes());
    });
    server.flush().await?;
    let answer = sasl(server, 11).await?;
    let (awaiting, last) = exchange.answer(&answer, secret).ok_or_else(refused)?;
    message::put(&mut server.out, b'p', |out| out.extend_from_slice(last.as_bytes()));
    server.flush().await?;
    if awaiting.is_proved_by(&sasl(server, 12).await?) { Ok(()) } else { Err(refused()) }
}

/// Returns the text of an authentication message of this code.
async fn sasl(server: &mut ServerConn, code: i32) -> Result<String, QuestionFailed> {
    match server.next().await? {
        (b'R', body) if body.starts_with(&code.to_be_bytes()) => Ok(String::from_utf8_lossy(&body[4..]).into_owned()),
        (b'E', body) => Err(QuestionFailed::Said(error_of(&body))),
        _ => Err(failed("the server's part in SCRAM-SHA-256 is wrong")),
    }
}
