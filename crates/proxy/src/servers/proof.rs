//! Authentication of the proxy to a server: the client's side of SCRAM-SHA-256, and the older MD5.
//!
//! **Invariant:** a server that does not prove that it knows the password is not trusted, wherever a proof can be
//! demanded.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use md5::{Digest, Md5};
use ring::pbkdf2;
use std::num::NonZeroU32;
use wire::scram::{KEY_BYTES, Keys, hash, random, sign};

/// Maximum number of iterations. More would be an attack on our processor.
const ITERATIONS_MAX: u32 = 1_000_000;
const NONCE_BYTES: usize = 18;

/// Secret with which a connection authenticates.
#[derive(Clone, Default)]
pub(crate) enum Secret {
    /// No secret: the server has to trust the connection.
    #[default]
    Nothing,
    /// Password of the URL's user.
    Password(String),
    /// Keys with which the client has authenticated.
    Keys(Keys),
}

/// SCRAM exchange that awaits the server's messages.
pub(crate) struct ScramExchange {
    first_bare: String,
    nonce: String,
    /// Header, with the data that bind the channel.
    binding: Vec<u8>,
}

/// SCRAM exchange that awaits the server's proof.
pub(crate) struct ScramFinal {
    all: String,
    server_key: [u8; KEY_BYTES],
}

impl ScramExchange {
    /// Begins an exchange, and returns it with the first message. `bound_to`: the server's certificate, if it offers
    /// channel binding; `could`: it has one, but does not offer binding.
    pub(crate) fn begin(bound_to: Option<&[u8]>, could: bool) -> Option<(ScramExchange, String)> {
        let nonce = BASE64.encode(random::<NONCE_BYTES>().ok()?);
        let header = match (bound_to, could) {
            (Some(_), _) => "p=tls-server-end-point,,",
            (None, true) => "y,,",
            (None, false) => "n,,",
        };
        let first_bare = format!("n=,r={nonce}");
        let first = format!("{header}{first_bare}");
        let binding = [header.as_bytes(), bound_to.unwrap_or_default()].concat();
        Some((ScramExchange { first_bare, nonce, binding }, first))
    }

    /// Takes the server's first message and returns the proof.
    pub(crate) fn answer(self, server_first: &str, secret: &Secret) -> Option<(ScramFinal, String)> {
        let mut parts = server_first.split(',');
        let nonce = parts.next()?.strip_prefix("r=")?;
        let salt = BASE64.decode(parts.next()?.strip_prefix("s=")?).ok()?;
        let iterations: NonZeroU32 = parts.next()?.strip_prefix("i=")?.parse().ok()?;
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() || ITERATIONS_MAX < iterations.get() {
            return None;
        }
        let keys = match secret {
            Secret::Nothing => return None,
            Secret::Keys(keys) => *keys,
            Secret::Password(password) => {
                let prepared = stringprep::saslprep(password).unwrap_or(password.into());
                let mut salted = [0; KEY_BYTES];
                pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, iterations, &salt, prepared.as_bytes(), &mut salted);
                Keys { client: sign(&salted, b"Client Key"), server: sign(&salted, b"Server Key") }
            }
        };
        let without_proof = format!("c={},r={nonce}", BASE64.encode(&self.binding));
        let all = format!("{},{server_first},{without_proof}", self.first_bare);
        let signature = sign(&hash(&keys.client), all.as_bytes());
        let proof: [u8; KEY_BYTES] = std::array::from_fn(|at| keys.client[at] ^ signature[at]);
        let last = format!("{without_proof},p={}", BASE64.encode(proof));
        Some((ScramFinal { all, server_key: keys.server }, last))
    }
}

impl ScramFinal {
    /// True if the server's last message proves that it knows the password.
    pub(crate) fn is_proved_by(&self, server_last: &str) -> bool {
        let proof = server_last.strip_prefix("v=").and_then(|proof| BASE64.decode(proof).ok());
        proof.is_some_and(|proof| proof == sign(&self.server_key, self.all.as_bytes()))
    }
}

/// Answer to a request for an MD5 password.
pub(crate) fn md5(user: &str, password: &str, salt: &[u8]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let inner = hex(&Md5::digest([password, user].concat().as_bytes()));
    format!("md5{}", hex(&Md5::digest([inner.as_bytes(), salt].concat())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::scram::{self, Binding, Verifier};

    /// The two sides of one protocol agree, with channel binding and without.
    #[test]
    fn our_server_believes_our_client() {
        let secret = Secret::Password("pencil".to_owned());
        for (bound_to, binding) in [(None, Binding::Impossible), (Some(&b"x"[..]), Binding::Wanted(b"x"))] {
            let verifier = Verifier::new("pencil").expect("random bytes");
            let text = verifier.to_string();
            let (client, first) = ScramExchange::begin(bound_to, false).expect("random bytes");
            let (server, answer) = scram::Exchange::begin(verifier, &first, binding).expect("a first message");
            let (client, last) = client.answer(&answer, &secret).expect("an answer");
            let (last, keys) = server.finish(&last).expect("it is the password");
            // The keys that the server has learned prove as well.
            let (again, first) = ScramExchange::begin(None, false).expect("random bytes");
            let verifier: Verifier = text.parse().expect("a verifier");
            let (server, answer) = scram::Exchange::begin(verifier, &first, Binding::Impossible).expect("a message");
            let (_, proof) = again.answer(&answer, &Secret::Keys(keys)).expect("an answer");
            assert!(server.finish(&proof).is_ok());
            assert!(client.is_proved_by(&last));
            assert!(!client.is_proved_by("v=AAAA"));
        }
    }

    #[test]
    fn a_server_that_plays_with_the_nonce_is_not_answered() {
        for first in ["r=x,s=AAAA,i=4096", "r=,s=AAAA,i=1", "e=x", ""] {
            let (client, _) = ScramExchange::begin(None, false).expect("random bytes");
            assert!(client.answer(first, &Secret::Password("x".to_owned())).is_none(), "{first}");
        }
    }

    /// `select 'md5'
    ///
    /// md5(convert_to(md5('secret'
    ///
    /// 'ann'), 'UTF8')
    ///
    /// '\x01020304')` of PostgreSQL 15.
    #[test]
    fn md5_is_the_servers() {
        assert_eq!(md5("ann", "secret", &[1, 2, 3, 4]), "md59009ce60b9ca97f1e752376843d1309e");
    }
}
