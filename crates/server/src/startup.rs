//! Start-up of a connection, from its first byte to its session: encryption, cancel requests, versions, authentication.
//!
//! **Invariant:** before authentication, a client costs one task, one small buffer and a bounded time, touches nothing
//! of the database, and takes no place of a session.

use crate::registry::{SessionPlace, Standing};
use crate::rules::{Method, Origin};
use crate::service::SessionLimits;
use crate::service::{Opened, Service, Site};
use crate::state::ServerState;
use crate::stats::SessionStats;
use crate::strangers::Stranger;
use bytes::{Buf, Bytes};
use pgwire::messages::startup::Authentication;
use settings::Connect;
use settings::roles::Role;
use stage::Transport;
use statement::{SqlError, SqlState};
use std::io;
use std::mem;
use std::pin::Pin;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio_rustls::TlsAcceptor;
use wire::Cancel;
use wire::Stop;
use wire::conn::{Conn, Ending};
use wire::errors;
use wire::frame::Fields;
use wire::io::{Io, Reread};
use wire::scram::{self, Binding, Exchange, Failure, Keys, Verifier};
use wire::tls;
use wire::wait::Gone;

/// PostgreSQL's bound in bytes on packets of unauthenticated clients.
const PACKET_MAX: usize = 10_000;
/// Only supported version of the protocol.
const VERSION: i32 = 3 << 16;
const SSL_REQUEST: i32 = 80_877_103;
/// First byte of a TLS handshake. As the first byte of a packet's length it would make one that is too long.
const TLS_HANDSHAKE: u8 = 0x16;
const GSS_REQUEST: i32 = 80_877_104;
const CANCEL_REQUEST: i32 = 80_877_102;
/// Database and application with which `overtake top` asks if there is an upstream behind a server.
const PROBE: (&str, &str) = ("overtake", "overtake top");

/// Contents of a start-up packet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct StartupPacket {
    pub minor: i32,
    pub user: String,
    pub database: String,
    pub settings: Vec<(String, String)>,
    /// Options of the protocol, none of which is supported here.
    pub unknown: Vec<String>,
}

impl StartupPacket {
    /// Returns true if the client is `overtake top`, which asks for the administration database.
    fn is_probe(&self) -> bool {
        let (database, application) = PROBE;
        let is_application = |(name, value): &(String, String)| name == "application_name" && value == application;
        self.database == database && self.settings.iter().any(is_application)
    }
}

/// Claims of a client that is about to log in.
#[derive(Default)]
struct Claims {
    user: String,
    /// True if it only asks if there is an administration database. A server without one refuses that, as expected.
    is_probe: bool,
}

/// Session that has begun, about to be served on its thread.
pub struct BegunSession<O: Opened> {
    conn: Conn,
    opened: O,
    site: Site,
    place: SessionPlace,
    is_logged: bool,
}

impl<O: Opened> BegunSession<O> {
    /// Serves the session to its end, in the runtime of the caller.
    pub async fn serve(self) {
        let BegunSession { conn, opened, site, place, is_logged } = self;
        let activity = Arc::clone(&site.activity);
        let (time, begun) = (conn.time.clone(), conn.time.now());
        opened.serve(conn, site).await;
        if is_logged {
            let (pid, user) = (activity.pid(), activity.user());
            tracing::info!(pid, user, seconds = time.since(begun).as_secs_f64(), "a session has ended");
        }
        drop(place);
    }
}

/// Brings a connection to its session. Returns `None` if there is none.
pub(crate) async fn begin<D: Service>(
    shared: &ServerState<D>,
    io: Box<dyn Io>,
    origin: Origin,
    ending: Ending,
    stranger: Stranger,
) -> Option<BegunSession<D::Opened>> {
    let (address, way) = (origin.address, stranger.way());
    tokio::select! {
        biased;
        begun = get_known(shared, io, origin, ending, Some(stranger)) => begun,
        () = way.notified() => {
            shared.config.stats.turned_away.fetch_add(1, Relaxed);
            if let Some(left_out) = shared.attempts.line(address, shared.config.time.now()) {
                let from = address.map(|address| address.to_string());
                tracing::info!(from, left_out, "a connection that has not proved who it is gave way to others");
            }
            None
        }
    }
}

/// Authenticates the client, which counts as a stranger up to then.
async fn get_known<D: Service>(
    shared: &ServerState<D>,
    io: Box<dyn Io>,
    mut origin: Origin,
    ending: Ending,
    mut stranger: Option<Stranger>,
) -> Option<BegunSession<D::Opened>> {
    let transport = io.transport();
    let mut conn = Conn::new(io, transport, ending, shared.config.time.clone());
    conn.send_limit = shared.config.send_timeout;
    let mut claims = Claims::default();
    let begun = log_in(shared, &mut conn, &mut origin, &mut claims, &mut stranger);
    let begun = match tokio::time::timeout(shared.config.authentication_timeout, begun).await {
        Ok(begun) => begun,
        Err(_) => Err(SqlError::new(SqlState::QUERY_CANCELED, "canceling authentication due to timeout").into()),
    };
    let error = match begun {
        Ok(Some((place, opened, activity, is_logged))) => {
            let limits = SessionLimits {
                message_max: shared.config.message_max,
                memory_max: shared.config.session_memory_max,
                dispatch: shared.config.dispatch,
                workers: shared.workers.clone(),
                below: shared.below.clone(),
                admission: shared.config.admission.clone(),
            };
            let site = Site { limits, waiter: shared.bells.waiter(), stats: shared.config.stats.clone(), activity };
            return Some(BegunSession { conn, opened, site, place, is_logged });
        }
        Ok(None) => return None,
        Err(Stop::Error(error)) => Some(error),
        Err(Stop::Gone(gone)) => errors::gone(gone),
    };
    if let Some(error) = error {
        let is_answer = claims.is_probe && error.state() == SqlState::INVALID_CATALOG_NAME;
        let from = origin.address.map(|address| address.to_string());
        let now = shared.config.time.now();
        if !is_answer {
            shared.config.stats.turned_away.fetch_add(1, Relaxed);
        }
        if !is_answer && let Some(left_out) = shared.attempts.line(origin.address, now) {
            let (state, reason) = (error.state(), error.message());
            tracing::info!(%state, from, reason, left_out, "a client was turned away");
        }
        if error.state() == SqlState::INVALID_PASSWORD {
            // The connection counts neither as a stranger nor as a client now. If the client or the server goes
            // meanwhile, nothing keeps it.
            let delay = shared.attempts.failed(origin.address, &claims.user, now);
            let gone = async {
                while conn.fill().await.is_ok() {
                    conn.input.clear();
                }
            };
            let _ = tokio::time::timeout(delay, gone).await;
        }
        conn.replies.error("FATAL", &error);
        // A client that does not read is not waited for.
        let _ = tokio::time::timeout(shared.config.shutdown_grace, conn.close()).await;
    }
    None
}

/// Cancels the statement under way, again and again until it has ended. A statement that has been read may not have
/// begun, on a thread that has not got the processor yet, and would miss a single cancel.
struct RepeatedCancel {
    cancel: Arc<dyn Cancel>,
    /// Weak, because the session's entry owns this handle.
    activity: Weak<SessionStats>,
}

/// Interval between two cancels of the same statement.
const AGAIN: Duration = Duration::from_millis(50);

impl Cancel for RepeatedCancel {
    fn delivered(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        self.cancel.delivered()
    }

    fn cancel(&self) {
        let activity = self.activity.upgrade();
        let statement = activity.as_ref().and_then(|activity| activity.under_way());
        self.cancel.cancel();
        if let Some(activity) = activity {
            activity.end.tell_cancelled();
        }
        if statement.is_some()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (cancel, activity) = (Arc::clone(&self.cancel), Weak::clone(&self.activity));
            runtime.spawn(async move {
                tokio::time::sleep(AGAIN).await;
                while activity.upgrade().is_some_and(|activity| activity.under_way() == statement) {
                    cancel.cancel();
                    if let Some(activity) = activity.upgrade() {
                        activity.end.tell_cancelled();
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            });
        }
    }
}

/// Logs a client in. Returns `None` if it only came to cancel.
async fn log_in<D: Service>(
    shared: &ServerState<D>,
    conn: &mut Conn,
    origin: &mut Origin,
    claims: &mut Claims,
    stranger: &mut Option<Stranger>,
) -> Result<Option<(SessionPlace, D::Opened, Arc<SessionStats>, bool)>, Stop> {
    let Some(wish) = negotiate(shared, conn, origin).await? else { return Ok(None) };
    claims.user.clone_from(&wish.user);
    claims.is_probe = wish.is_probe();
    if wish.minor != 0 || !wish.unknown.is_empty() {
        conn.replies.negotiate(VERSION, wish.unknown.clone());
    }
    let (role, proof) = authenticate(shared, conn, origin, &wish).await?;
    let standing = match role.is_superuser {
        true if shared.front.is_administration(&wish.database) => Standing::Administrator,
        true => Standing::Superuser,
        false => Standing::Ordinary,
    };
    // Superusers are not counted, as in PostgreSQL.
    let most = usize::try_from(role.connections_max).ok().filter(|_| !role.is_superuser);
    let place = shared.registry.enter(&wish.user, standing, most)?;
    *stranger = None;
    let from = origin.address.map(|address| address.to_string());
    let activity = SessionStats::new(place.pid, &wish.user, &wish.database, from, &shared.config.time);
    let connect = Connect {
        user: wish.user,
        database: wish.database,
        settings: wish.settings,
        backend_pid: place.pid.cast_unsigned(),
    };
    let mut opened = shared.front.open(connect, &role, proof).await?;
    let activity = shared.config.stats.enter(activity);
    let cancel: Arc<dyn Cancel> =
        Arc::new(RepeatedCancel { cancel: opened.canceller(), activity: Arc::downgrade(&activity) });
    place.set_cancel(Arc::clone(&cancel));
    activity.end.set_cancel(cancel);
    conn.end_by(Arc::clone(&activity.end));
    conn.replies.authentication(&Authentication::Ok);
    for (name, value) in opened.take_reports() {
        if name == "application_name" {
            activity.set_application(&value);
        }
        conn.replies.parameter_status(&name, value);
    }
    conn.replies.key(place.pid, place.secret);
    let left_out = match shared.config.log_connections {
        true => shared.attempts.session(origin.address, shared.config.time.now()),
        false => None,
    };
    if let Some(left_out) = left_out {
        let (pid, is_encrypted) = (place.pid, origin.is_encrypted);
        let (user, database, from) = (activity.user(), activity.database(), activity.client());
        tracing::info!(pid, user, database, from, encrypted = is_encrypted, left_out, "a session has begun");
    }
    Ok(Some((place, opened, activity, left_out.is_some())))
}

/// Reads one packet of the phase before the first typed message.
async fn packet(conn: &mut Conn) -> Result<Bytes, Stop> {
    loop {
        if let Some(length) = conn.input.first_chunk::<4>() {
            let length = usize::try_from(i32::from_be_bytes(*length)).unwrap_or(0);
            if !(8..=PACKET_MAX).contains(&length) {
                return Err(errors::protocol("invalid length of startup packet").into());
            }
            if length <= conn.input.len() {
                let mut packet = conn.input.split_to(length).freeze();
                packet.advance(4);
                return Ok(packet);
            }
        }
        conn.fill().await?;
    }
}

async fn negotiate<D: Service>(
    shared: &ServerState<D>,
    conn: &mut Conn,
    origin: &mut Origin,
) -> Result<Option<StartupPacket>, Stop> {
    let (mut ssl_asked, mut gss_asked) = (false, false);
    if conn.input.is_empty() {
        conn.fill().await?;
    }
    if conn.input.first() == Some(&TLS_HANDSHAKE) {
        let tls = shared.config.tls.as_ref().filter(|_| origin.address.is_some());
        let acceptor = TlsAcceptor::from(tls.ok_or(Gone::Client)?.config.clone());
        if let Err(error) = encrypt_directly(conn, acceptor).await {
            return Err(shared.not_encrypted(origin, Unencrypted::Failed(error)));
        }
        (origin.is_encrypted, conn.transport) = (true, Transport::Tls);
    }
    loop {
        let packet = packet(conn).await?;
        let mut fields = Fields::of(&packet);
        match fields.i32()? {
            SSL_REQUEST if !mem::replace(&mut ssl_asked, true) => {
                match &shared.config.tls {
                    Some(tls) if origin.address.is_some() && !origin.is_encrypted => {
                        let acceptor = TlsAcceptor::from(tls.config.clone());
                        if let Err(error) = encrypt(conn, acceptor).await {
                            return Err(shared.not_encrypted(origin, error));
                        }
                        (origin.is_encrypted, conn.transport) = (true, Transport::Tls);
                        // A refusal of GSSAPI has no meaning in the new stream.
                        gss_asked = false;
                    }
                    _ => one_byte(conn, b'N').await?,
                }
            }
            GSS_REQUEST if !mem::replace(&mut gss_asked, true) => one_byte(conn, b'N').await?,
            CANCEL_REQUEST => {
                let (pid, secret) = (fields.i32()?, fields.i32()?);
                if fields.end().is_ok() {
                    shared.config.stats.cancels.fetch_add(1, Relaxed);
                    // Drivers take the close for the end of the cancel, so nothing that they send after it is hit.
                    shared.registry.cancel(pid, secret).await;
                }
                // The client gets no answer, so guessing reveals nothing.
                return Ok(None);
            }
            version if version >> 16 == 3 => return Ok(Some(wish(version & 0xffff, fields)?)),
            version => {
                let [major, minor] = [version >> 16, version & 0xffff].map(|part| part as u16);
                return Err(errors::protocol_version(major, minor).into());
            }
        }
    }
}

async fn one_byte(conn: &mut Conn, byte: u8) -> Result<(), Gone> {
    conn.io.write_all(&[byte]).await.map_err(|_| Gone::Client)
}

/// Reason why a connection is not encrypted.
enum Unencrypted {
    Stop(Stop),
    /// The handshake has failed.
    Failed(io::Error),
}

impl<D> ServerState<D> {
    fn not_encrypted(&self, origin: &Origin, error: Unencrypted) -> Stop {
        match error {
            Unencrypted::Stop(stop) => stop,
            Unencrypted::Failed(error) => {
                if let Some(left_out) = self.attempts.line(origin.address, self.config.time.now()) {
                    tracing::info!(%error, left_out, "a client could not be encrypted");
                }
                Gone::Client.into()
            }
        }
    }
}

async fn encrypt(conn: &mut Conn, acceptor: TlsAcceptor) -> Result<(), Unencrypted> {
    // Bytes that came unencrypted must not pass for encrypted ones (CVE-2021-23214).
    if !conn.input.is_empty() {
        let error = errors::protocol("received unencrypted data after SSL request");
        return Err(Unencrypted::Stop(error.into()));
    }
    one_byte(conn, b'S').await.map_err(|gone| Unencrypted::Stop(gone.into()))?;
    let plain = mem::replace(&mut conn.io, Box::new(tokio::io::empty()));
    let encrypted = acceptor.accept(plain).await.map_err(Unencrypted::Failed)?;
    conn.io = Box::new(encrypted);
    Ok(())
}

/// Encrypts like [`encrypt`], for a client that has begun the handshake without a request (`sslnegotiation=direct`).
/// The client has to name the protocol.
async fn encrypt_directly(conn: &mut Conn, acceptor: TlsAcceptor) -> io::Result<()> {
    let plain = mem::replace(&mut conn.io, Box::new(tokio::io::empty()));
    let plain: Box<dyn Io> = Box::new(Reread { first: conn.input.split().freeze(), rest: plain });
    let encrypted = acceptor.accept(plain).await?;
    if encrypted.get_ref().1.alpn_protocol() != Some(tls::PROTOCOL) {
        let why = "received direct SSL connection request without ALPN protocol negotiation extension";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    conn.io = Box::new(encrypted);
    Ok(())
}

/// Reads the parameters of a start-up packet.
pub(crate) fn wish(minor: i32, mut fields: Fields<'_>) -> Result<StartupPacket, SqlError> {
    let layout = || errors::protocol("invalid startup packet layout: expected terminator as last byte");
    let mut wish = StartupPacket { minor, ..StartupPacket::default() };
    let (mut options, mut settings) = (Vec::new(), Vec::new());
    loop {
        let name = fields.text().map_err(|_| layout())?;
        if name.is_empty() {
            break;
        }
        let value = fields.text().map_err(errors::malformed)?;
        match name {
            "user" => value.clone_into(&mut wish.user),
            "database" => value.clone_into(&mut wish.database),
            "options" => options = command_line(value)?,
            "replication" if !matches!(value, "false" | "off" | "no" | "0") => {
                return Err(SqlError::unsupported("a replication connection"));
            }
            "replication" => {}
            name if name.starts_with("_pq_.") => wish.unknown.push(name.to_owned()),
            name => settings.push((name.to_owned(), value.to_owned())),
        }
    }
    fields.end().map_err(|_| layout())?;
    if wish.user.is_empty() {
        return Err(errors::no_user());
    }
    if wish.database.is_empty() {
        wish.database.clone_from(&wish.user);
    }
    // Parameters of the packet itself take precedence over those of `options`.
    options.append(&mut settings);
    wish.settings = options;
    Ok(wish)
}

/// Parses the settings in `options`: `-c name=value`, `--name=value`. A backslash makes a blank part of the word.
fn command_line(text: &str) -> Result<Vec<(String, String)>, SqlError> {
    let mut words = vec![];
    let mut word: Option<String> = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.get_or_insert_default().extend(characters.next()),
            blank if blank.is_ascii_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    let mut settings = vec![];
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let wrong = || {
            SqlError::new(SqlState::SYNTAX_ERROR, format!("invalid command-line argument for server process: {word}"))
        };
        let assignment = match (word.strip_prefix("--"), word.strip_prefix("-c")) {
            (Some(assignment), _) => assignment.to_owned(),
            (None, Some("")) => words.next().ok_or_else(wrong)?,
            (None, Some(assignment)) => assignment.to_owned(),
            (None, None) => return Err(wrong()),
        };
        let (name, value) = assignment.split_once('=').ok_or_else(wrong)?;
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

async fn authenticate<D: Service>(
    shared: &ServerState<D>,
    conn: &mut Conn,
    origin: &Origin,
    wish: &StartupPacket,
) -> Result<(Role, Option<Keys>), Stop> {
    let (user, database) = (&*wish.user, &*wish.database);
    let from = origin.address.map_or_else(|| "[local]".to_owned(), |address| address.to_string());
    let encryption = if origin.is_encrypted { "SSL encryption" } else { "no encryption" };
    let rule = shared.config.rules.iter().find(|rule| rule.fits(origin, database, user));
    let rule = rule.ok_or_else(|| errors::no_entry(&from, user, database, encryption))?;
    let role = shared.front.role(&shared.config.roles, user, rule.method).await?;
    let proof = match rule.method {
        Method::Reject => return Err(errors::rejected(&from, user, database, encryption).into()),
        Method::Trust => None,
        Method::ScramSha256 => {
            let (verifier, unusable) = match verifier_of(user, role.as_ref()) {
                Ok(verifier) => (verifier, None),
                Err(why) => (Verifier::mock(user, &shared.mock_secret), Some(why)),
            };
            let tls = shared.config.tls.as_ref().filter(|_| origin.is_encrypted);
            let proved = prove(conn, user, verifier, tls.and_then(|tls| tls.end_point.as_deref())).await;
            // A client that only disconnects, as psql does to ask for a password, has not failed to prove one.
            if matches!(proved, Err(Stop::Error(_))) {
                shared.front.mistrust(user);
                // The client learns only that its password is wrong.
                if let Some(why) = unusable
                    && shared.attempts.line(origin.address, shared.config.time.now()).is_some()
                {
                    tracing::info!(user, why, "no password of this user is right");
                }
            }
            Some(proved?)
        }
    };
    let role = role.ok_or_else(|| errors::no_role(user))?;
    if role.may_log_in { Ok((role, proof)) } else { Err(errors::may_not_log_in(user).into()) }
}

/// Returns the verifier of a user's password, or the reason why no password is right, in PostgreSQL's words.
fn verifier_of(user: &str, role: Option<&Role>) -> Result<Verifier, String> {
    let role = role.ok_or_else(|| format!("Role \"{user}\" does not exist."))?;
    let password = role.password.as_ref().ok_or_else(|| format!("User \"{user}\" has no password assigned."))?;
    if role.is_expired {
        return Err(format!("User \"{user}\" has an expired password."));
    }
    if password.starts_with("md5") {
        return Err(format!(
            "User \"{user}\" does not have a valid SCRAM secret: its password is kept as MD5. Set it again under \
             password_encryption = 'scram-sha-256'."
        ));
    }
    password.parse().map_err(|_| format!("User \"{user}\" does not have a valid SCRAM secret."))
}

/// Runs the exchange of SCRAM-SHA-256.
async fn prove(conn: &mut Conn, user: &str, verifier: Verifier, end_point: Option<&[u8]>) -> Result<Keys, Stop> {
    let failed = |failure| match failure {
        Failure::Wrong => errors::wrong_password(user),
        Failure::Malformed(what) => {
            errors::protocol("malformed SCRAM message").detail(format!("This is wrong: {what}."))
        }
        Failure::Downgraded => errors::downgraded(),
        Failure::Unbound => errors::unbound(),
        Failure::Unsupported(what) => SqlError::unsupported(what),
        Failure::Random => SqlError::new(SqlState::INTERNAL_ERROR, "could not generate random nonce"),
    };
    let text = |bytes: &[u8]| wire::frame::utf8(bytes).map(str::to_owned);
    let mechanisms: &[&str] =
        if end_point.is_some() { &[scram::MECHANISM_PLUS, scram::MECHANISM] } else { &[scram::MECHANISM] };
    let names = mechanisms.iter().map(|&name| name.to_owned()).collect();
    conn.replies.authentication(&Authentication::SASL(names));
    let body = password_message(conn).await?;
    let mut fields = Fields::of(&body);
    let channel = match (fields.text()?, end_point) {
        (scram::MECHANISM_PLUS, Some(end_point)) => Binding::Wanted(end_point),
        (scram::MECHANISM, Some(_)) => Binding::Offered,
        (scram::MECHANISM, None) => Binding::Impossible,
        _ => return Err(errors::protocol("client selected an invalid SASL authentication mechanism").into()),
    };
    let first = match fields.value()? {
        Some(first) => text(first)?,
        // The client may send its first message after an empty challenge.
        None => {
            conn.replies.authentication(&Authentication::SASLContinue(Bytes::new()));
            text(&password_message(conn).await?)?
        }
    };
    fields.end()?;
    let (exchange, answer) = Exchange::begin(verifier, &first, channel).map_err(failed)?;
    conn.replies.authentication(&Authentication::SASLContinue(answer.into()));
    let last = text(&password_message(conn).await?)?;
    let (answer, keys) = exchange.finish(&last).map_err(failed)?;
    conn.replies.authentication(&Authentication::SASLFinal(answer.into()));
    Ok(keys)
}

async fn password_message(conn: &mut Conn) -> Result<Bytes, Stop> {
    conn.is_due = true;
    match conn.next(PACKET_MAX).await? {
        Ok((b'p', length)) => Ok(conn.split(length)),
        Ok((kind, _)) => Err(errors::protocol(format!("expected SASL response, got message type {kind}")).into()),
        Err(broken) => Err(errors::broken(broken).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_says_why_no_password_is_right() {
        let role =
            |password: &str, is_expired| Role { password: Some(password.to_owned()), is_expired, ..Role::default() };
        let good = Verifier::new("pencil").expect("random bytes").to_string();
        let why = |role: &Role| verifier_of("ann", Some(role)).err().unwrap_or_default();
        assert_eq!(why(&role(&good, false)), "");
        assert_eq!(why(&role(&good, true)), "User \"ann\" has an expired password.");
        assert!(why(&role("md59009ce60b9ca97f1e752376843d1309e", false)).contains("kept as MD5"));
        assert!(why(&role("nonsense", false)).ends_with("valid SCRAM secret."));
        assert_eq!(why(&Role::default()), "User \"ann\" has no password assigned.");
        assert_eq!(verifier_of("ann", None).err().as_deref(), Some("Role \"ann\" does not exist."));
    }

    #[test]
    fn options_are_settings() {
        let pairs = |text| command_line(text).map(|pairs| pairs.into_iter().map(|(a, b)| format!("{a}={b}")).collect());
        let is = |text, wanted: &[&str]| {
            assert_eq!(pairs(text), Ok::<Vec<String>, _>(wanted.iter().map(|&s| s.into()).collect()))
        };
        is("", &[]);
        is(" -c a=1  --b-c=x\\ y -cd=\\\\ ", &["a=1", "b_c=x y", "d=\\"]);
        for wrong in ["-c", "-c a", "a=1", "-x a=1", "--a"] {
            let error = command_line(wrong).expect_err(wrong);
            assert_eq!(error.state().0, "42601");
        }
    }
}
