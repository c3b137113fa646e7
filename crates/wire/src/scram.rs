//! SCRAM-SHA-256 (RFC 5802, RFC 7677), the server's side, over `ring`'s primitives.
//!
//! `pgwire` has an implementation, but only together with its whole server and a parser of certificates; this file does
//! without them.
//!
//! **Invariant:** no password is kept, only the verifier that PostgreSQL keeps (`pg_authid.rolpassword`). A user who
//! does not exist or has no password cannot be told from one with a wrong password.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac, pbkdf2};
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// Name of the mechanism.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// Name of the mechanism with channel binding, which binds the proof to the encrypted connection.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";
/// Number of iterations of PostgreSQL 15.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(4096).expect("it is not zero");
const SALT_BYTES: usize = 16;
const NONCE_BYTES: usize = 18;
/// Size of a key, in bytes.
pub const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;

/// SCRAM secret that is kept instead of a password. The text form is PostgreSQL's.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: NonZeroU32,
    salt: Vec<u8>,
    stored_key: [u8; KEY_BYTES],
    server_key: [u8; KEY_BYTES],
}

/// Keys that the owner of a password can compute once its salt is known. They suffice to prove the password to a server
/// with the same verifier, but not to learn it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    /// `ClientKey` of RFC 5802.
    pub client: [u8; KEY_BYTES],
    /// `ServerKey` of RFC 5802.
    pub server: [u8; KEY_BYTES],
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}

/// Reason why there is no verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifierError {
    /// The text is not a verifier.
    Text,
    /// The system provides no random bytes.
    Random,
}

impl fmt::Display for VerifierError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VerifierError::Text => "not a SCRAM-SHA-256 verifier",
            VerifierError::Random => "the system gives no random bytes",
        })
    }
}

impl std::error::Error for VerifierError {}

/// HMAC-SHA-256 of a text under a key.
pub fn sign(key: &[u8], text: &[u8]) -> [u8; KEY_BYTES] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    let mut bytes = [0; KEY_BYTES];
    bytes.copy_from_slice(tag.as_ref());
    bytes
}

/// SHA-256 of bytes.
pub fn hash(bytes: &[u8]) -> [u8; KEY_BYTES] {
    let digest = digest::digest(&digest::SHA256, bytes);
    let mut bytes = [0; KEY_BYTES];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

/// Returns cryptographically secure random bytes.
pub fn random<const N: usize>() -> Result<[u8; N], VerifierError> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).map_err(|_| VerifierError::Random)?;
    Ok(bytes)
}

impl Verifier {
    /// Creates a verifier of this password, with a random salt.
    ///
    /// # Errors
    /// The system provides no random bytes.
    pub fn new(password: &str) -> Result<Verifier, VerifierError> {
        Ok(Verifier::with_salt(password, &random::<SALT_BYTES>()?, ITERATIONS))
    }

    fn with_salt(password: &str, salt: &[u8], iterations: NonZeroU32) -> Verifier {
        // A password that SASLprep rejects is used as it is, as PostgreSQL and its clients do it.
        let prepared = stringprep::saslprep(password).unwrap_or(password.into());
        let mut salted = [0; KEY_BYTES];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, salt, prepared.as_bytes(), &mut salted);
        let stored_key = hash(&sign(&salted, b"Client Key"));
        Verifier { iterations, salt: salt.to_vec(), stored_key, server_key: sign(&salted, b"Server Key") }
    }

    /// Verifier for a user who has none. It matches no password, and is always the same for a user.
    pub fn mock(user: &str, secret: &[u8]) -> Verifier {
        let salt = sign(secret, user.as_bytes());
        let stored_key = sign(secret, &salt);
        Verifier { iterations: ITERATIONS, salt: salt[..SALT_BYTES].to_vec(), stored_key, server_key: stored_key }
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [salt, stored, server] =
            [&self.salt[..], &self.stored_key, &self.server_key].map(|bytes| BASE64.encode(bytes));
        write!(f, "{MECHANISM}${}:{salt}${stored}:{server}", self.iterations)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({MECHANISM}, {} iterations)", self.iterations)
    }
}

impl FromStr for Verifier {
    type Err = VerifierError;

    fn from_str(text: &str) -> Result<Verifier, VerifierError> {
        let parse = || {
            let (salting, keys) = text.strip_prefix(MECHANISM)?.strip_prefix('$')?.split_once('$')?;
            let (iterations, salt) = salting.split_once(':')?;
            let (stored, server) = keys.split_once(':')?;
            Some(Verifier {
                iterations: iterations.parse().ok()?,
                salt: BASE64.decode(salt).ok()?,
                stored_key: BASE64.decode(stored).ok()?.try_into().ok()?,
                server_key: BASE64.decode(server).ok()?.try_into().ok()?,
            })
        };
        parse().ok_or(VerifierError::Text)
    }
}

/// Reason why an exchange failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The message violates the protocol; the part that does.
    Malformed(&'static str),
    /// The client asks for something that is not offered.
    Unsupported(&'static str),
    /// The password is wrong.
    Wrong,
    /// The client believes that channel binding is not offered: somebody in the middle may have told it so.
    Downgraded,
    /// The proof is bound to another channel.
    Unbound,
    /// The system provides no random bytes.
    Random,
}

/// Exchange that awaits the client's proof.
pub struct Exchange {
    verifier: Verifier,
    client_first_bare: String,
    server_first: String,
    /// Nonces of the client and the server.
    nonce: String,
    /// Data that the client must repeat: its header, and the data that bind the channel.
    binding: Vec<u8>,
}

/// Support for channel binding on this connection, and the client's choice.
#[derive(Clone, Copy, Debug)]
pub enum Binding<'a> {
    /// The connection has nothing to bind to.
    Impossible,
    /// Channel binding is offered; the client does without.
    Offered,
    /// The client wants the exchange bound to these data.
    Wanted(&'a [u8]),
}

/// Returns the value of the next attribute, which must have this name, and the rest.
fn attribute<'a>(text: &'a str, name: &str, what: &'static str) -> Result<(&'a str, &'a str), Failure> {
    let value = text.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')).ok_or(Failure::Malformed(what))?;
    Ok(value.split_once(',').unwrap_or((value, "")))
}

impl Exchange {
    /// Takes the client's first message and returns the server's first message.
    pub fn begin(verifier: Verifier, client_first: &str, channel: Binding<'_>) -> Result<(Exchange, String), Failure> {
        let nonce = BASE64.encode(random::<NONCE_BYTES>().map_err(|_| Failure::Random)?);
        Exchange::begin_with(verifier, client_first, channel, &nonce)
    }

    fn begin_with(
        verifier: Verifier,
        client_first: &str,
        channel: Binding<'_>,
        nonce: &str,
    ) -> Result<(Exchange, String), Failure> {
        let malformed = Failure::Malformed("the client's first message");
        let (binding, rest) = client_first.split_once(',').ok_or(malformed)?;
        let bound_to = match (binding, channel) {
            ("p=tls-server-end-point", Binding::Wanted(to)) => to,
            (binding, Binding::Wanted(_)) if binding.starts_with("p=") => {
                return Err(Failure::Malformed("the kind of channel binding"));
            }
            // `y`: the client supports it, and believes that the server does not.
            ("y", Binding::Offered) => return Err(Failure::Downgraded),
            ("n" | "y", Binding::Impossible) | ("n", Binding::Offered) => &[],
            _ => return Err(malformed),
        };
        let (identity, bare) = rest.split_once(',').ok_or(malformed)?;
        if !identity.is_empty() {
            return Err(Failure::Unsupported("an authorization identity"));
        }
        if bare.starts_with("m=") {
            return Err(Failure::Unsupported("a mandatory SCRAM extension"));
        }
        // The name in this attribute is ignored, as PostgreSQL does it: the name of the start-up packet counts.
        let (_, rest) = attribute(bare, "n", "the user's attribute")?;
        let (client_nonce, _) = attribute(rest, "r", "the nonce's attribute")?;
        if client_nonce.is_empty() || !client_nonce.bytes().all(|byte| matches!(byte, 0x21..=0x7e)) {
            return Err(Failure::Malformed("the nonce"));
        }
        let nonce = format!("{client_nonce}{nonce}");
        let server_first = format!("r={nonce},s={},i={}", BASE64.encode(&verifier.salt), verifier.iterations);
        let exchange = Exchange {
            verifier,
            client_first_bare: bare.to_owned(),
            server_first: server_first.clone(),
            nonce,
            binding: [format!("{binding},{identity},").as_bytes(), bound_to].concat(),
        };
        Ok((exchange, server_first))
    }

    /// Takes the client's proof and returns the server's, with the keys that the client has proved.
    pub fn finish(self, client_final: &str) -> Result<(String, Keys), Failure> {
        let malformed = Failure::Malformed("the client's final message");
        let (without_proof, proof) = client_final.rsplit_once(",p=").ok_or(malformed)?;
        let (binding, rest) = attribute(without_proof, "c", "the channel binding's attribute")?;
        let (nonce, _) = attribute(rest, "r", "the nonce's attribute")?;
        if BASE64.decode(binding).ok().as_deref() != Some(&self.binding[..]) {
            return Err(Failure::Unbound);
        }
        if nonce != self.nonce {
            return Err(Failure::Malformed("the nonce"));
        }
        let proof = BASE64.decode(proof).ok().and_then(|proof| <[u8; KEY_BYTES]>::try_from(proof).ok());
        let proof = proof.ok_or(Failure::Malformed("the proof"))?;
        let all = format!("{},{},{without_proof}", self.client_first_bare, self.server_first);
        let signature = sign(&self.verifier.stored_key, all.as_bytes());
        let client_key: [u8; KEY_BYTES] = std::array::from_fn(|at| proof[at] ^ signature[at]);
        // All bytes are compared, so that the time does not reveal where they differ.
        let differ = hash(&client_key).iter().zip(&self.verifier.stored_key).fold(0, |all, (a, b)| all | (a ^ b));
        if differ != 0 {
            return Err(Failure::Wrong);
        }
        let proof = format!("v={}", BASE64.encode(sign(&self.verifier.server_key, all.as_bytes())));
        Ok((proof, Keys { client: client_key, server: self.verifier.server_key }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Example of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_rfc() {
        let salt = BASE64.decode("W22ZaJ0SNY7soEsUEjb6gQ==").expect("base64");
        let verifier = Verifier::with_salt("pencil", &salt, ITERATIONS);
        let stored_key = verifier.stored_key;
        let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let first = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
        let (exchange, answer) =
            Exchange::begin_with(verifier, first, Binding::Impossible, nonce).expect("a first message");
        let both = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        assert_eq!(answer, format!("r={both},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"));
        let last = format!("c=biws,r={both},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
        let (proof, keys) = exchange.finish(&last).expect("the password");
        assert_eq!(proof, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
        assert_eq!(hash(&keys.client), stored_key);
    }

    /// A verifier that PostgreSQL 15 itself made of the password `pencil` can be parsed, and is written the same.
    #[test]
    fn verifiers_are_text() {
        let verifier = Verifier::new("pencil").expect("random bytes");
        assert_eq!(verifier.to_string().parse(), Ok(verifier.clone()));
        for wrong in ["", "md5abc", "SCRAM-SHA-256$0:AA==$AA==:AA==", "SCRAM-SHA-256$4096:AA==$AA==:AA=="] {
            assert_eq!(wrong.parse::<Verifier>(), Err(VerifierError::Text), "{wrong}");
        }
        assert!(!format!("{verifier:?}").contains('$'));
    }

    #[test]
    fn wrong_proofs_and_garbage_fail() {
        let begin = |first: &str| Exchange::begin(Verifier::mock("x", b"secret"), first, Binding::Impossible);
        for first in
            ["", "n", "n,", "n,,", "n,,n=", "n,,r=a", "q,,n=,r=a", "p=tls-server-end-point,,n=,r=a", "n,a=b,n=,r=a"]
        {
            assert!(begin(first).is_err(), "{first}");
        }
        let with = |last: &dyn Fn(&str) -> String| {
            let (exchange, _) = begin("n,,n=,r=a").expect("a first message");
            let nonce = exchange.nonce.clone();
            exchange.finish(&last(&nonce)).map(|(proof, _)| proof)
        };
        let proof = BASE64.encode([0; KEY_BYTES]);
        assert_eq!(with(&|nonce| format!("c=biws,r={nonce},p={proof}")), Err(Failure::Wrong));
        assert_eq!(with(&|_| format!("c=biws,r=a,p={proof}")), Err(Failure::Malformed("the nonce")));
        assert_eq!(with(&|nonce| format!("c=eSws,r={nonce},p={proof}")), Err(Failure::Unbound));
        assert_eq!(with(&|nonce| format!("c=biws,r={nonce},p=AAAA")), Err(Failure::Malformed("the proof")));
        assert!(with(&|_| String::new()).is_err());
    }
}
