//! Fields of an X.509 certificate that a handshake needs, of every version.
//!
//! webpki reads certificates of version 3 only; `openssl x509 -req` makes version 1.
//!
//! **Invariant:** nothing is verified here. Callers have reasons of their own to trust a certificate.

use std::time::Duration;
use tokio_rustls::rustls::crypto::WebPkiSupportedAlgorithms;
use tokio_rustls::rustls::pki_types::{ServerName, UnixTime};

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const BOOLEAN: u8 = 0x01;
const OCTET_STRING: u8 = 0x04;
/// Tags of strings in UTF-8, or in a subset of it.
const STRINGS: [u8; 3] = [0x0c, 0x13, 0x16];
/// Tag `[0]` of the version. A certificate without it is of the first version.
const VERSION: u8 = 0xa0;

/// Tag `[3]` of the extensions.
const EXTENSIONS: u8 = 0xa3;
/// Tags of the kinds of names in `subjectAltName`.
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;

/// Object identifiers of `commonName` and `subjectAltName`.
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
const ALTERNATIVE_NAME: [u8; 3] = [0x55, 0x1d, 0x11];
/// Object identifier of RSA keys, and the sizes in bits that ring verifies.
const RSA: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const RSA_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// Certificate that was read but not verified.
#[derive(Debug)]
pub(super) struct Certificate<'d> {
    /// Version: 1, 2 or 3.
    pub(super) version: u8,
    not_before: UnixTime,
    not_after: UnixTime,
    /// Attributes of the subject, among them `commonName`.
    subject: &'d [u8],
    /// Fields behind the key.
    extensions: &'d [u8],
    /// Public key with its algorithm: the whole element `SubjectPublicKeyInfo`.
    pub(super) key: &'d [u8],
    /// Algorithm of the key with its parameters, without the head of the element.
    pub(super) key_algorithm: &'d [u8],
    /// Bits of the key itself.
    pub(super) key_bits: &'d [u8],
    /// Object identifier of the algorithm by which the issuer has signed.
    pub(super) signature_algorithm: &'d [u8],
}

/// Splits one element of DER off: its content, and the rest.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let rest = bytes.strip_prefix(&[tag])?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

impl<'d> Certificate<'d> {
    /// Reads a certificate; `None` if the bytes are none.
    pub(super) fn read(der: &'d [u8]) -> Option<Certificate<'d>> {
        let (all, _) = element(der, SEQUENCE)?;
        let (signed, rest) = element(all, SEQUENCE)?;
        let (algorithm, _) = element(rest, SEQUENCE)?;
        let (signature_algorithm, _) = element(algorithm, OBJECT)?;
        let (version, rest) = match element(signed, VERSION) {
            None => (1, signed),
            Some((version, rest)) => match element(version, INTEGER)? {
                ([number @ 0..=2], []) => (number + 1, rest),
                _ => return None,
            },
        };
        let (_serial, rest) = element(rest, INTEGER)?;
        let (_algorithm, rest) = element(rest, SEQUENCE)?;
        let (_issuer, rest) = element(rest, SEQUENCE)?;
        let (validity, rest) = element(rest, SEQUENCE)?;
        let (subject, from_key) = element(rest, SEQUENCE)?;
        let (not_before, validity) = moment(validity)?;
        let (not_after, _) = moment(validity)?;
        let (inside, behind) = element(from_key, SEQUENCE)?;
        let key = from_key.strip_suffix(behind)?;
        let (key_algorithm, inside) = element(inside, SEQUENCE)?;
        let (key_bits, _) = element(inside, BIT_STRING)?;
        // The first byte tells how many bits of the last one are unused.
        let key_bits = key_bits.strip_prefix(&[0])?;
        Some(Certificate {
            version,
            not_before,
            not_after,
            subject,
            extensions: behind,
            key,
            key_algorithm,
            key_bits,
            signature_algorithm,
        })
    }

    /// Reason why the certificate is not valid at a moment, in OpenSSL's words.
    pub(super) fn is_out_of_date(&self, now: UnixTime) -> Option<&'static str> {
        if now < self.not_before {
            return Some("certificate is not yet valid");
        }
        (self.not_after < now).then_some("certificate has expired")
    }

    /// True if the subject's name is this host's and there are no alternative names of that kind, which take precedence
    /// if there are any. The rule is libpq's.
    pub(super) fn is_called(&self, host: &ServerName<'_>) -> bool {
        let kind = match host {
            ServerName::DnsName(_) => DNS_NAME,
            ServerName::IpAddress(_) => IP_ADDRESS,
            _ => return false,
        };
        let Some(kinds) = self.kinds_of_names() else { return false };
        !kinds.contains(&kind) && self.common_name().is_some_and(|name| is_name_of(name, &host.to_str()))
    }

    /// First `commonName` of the subject.
    fn common_name(&self) -> Option<&'d str> {
        let mut rest = self.subject;
        while !rest.is_empty() {
            let (parts, behind) = element(rest, SET)?;
            let (attribute, _) = element(parts, SEQUENCE)?;
            let (name, value) = element(attribute, OBJECT)?;
            if name == COMMON_NAME {
                let (value, _) = STRINGS.iter().find_map(|&tag| element(value, tag))?;
                return std::str::from_utf8(value).ok();
            }
            rest = behind;
        }
        None
    }

    /// Kinds of the names in `subjectAltName`; `None` if the extension is not understood.
    fn kinds_of_names(&self) -> Option<Vec<u8>> {
        let mut rest = self.extensions;
        let mut all = loop {
            match rest.first() {
                None => return Some(Vec::new()),
                Some(&EXTENSIONS) => break element(element(rest, EXTENSIONS)?.0, SEQUENCE)?.0,
                Some(&tag) => rest = element(rest, tag)?.1,
            }
        };
        while !all.is_empty() {
            let (extension, behind) = element(all, SEQUENCE)?;
            let (name, value) = element(extension, OBJECT)?;
            if name == ALTERNATIVE_NAME {
                // A flag that the extension is critical may stand between them.
                let value = element(value, BOOLEAN).map_or(value, |(_, value)| value);
                let (mut names, mut kinds) = (element(element(value, OCTET_STRING)?.0, SEQUENCE)?.0, Vec::new());
                while let Some(&tag) = names.first() {
                    kinds.push(tag);
                    names = element(names, tag)?.1;
                }
                return Some(kinds);
            }
            all = behind;
        }
        Some(Vec::new())
    }

    /// Reason why these algorithms cannot verify anything that this key has signed.
    pub(super) fn unverifiable(&self, by: &WebPkiSupportedAlgorithms) -> Option<String> {
        let (name, _) = element(self.key_algorithm, OBJECT)?;
        if name == RSA {
            let bits = self.rsa_bits()?;
            return (!RSA_BITS.contains(&bits))
                .then(|| format!("its RSA key has {bits} bits; 2048 to 8192 can be verified"));
        }
        let is_known = by.all.iter().any(|algorithm| *algorithm.public_key_alg_id() == *self.key_algorithm);
        (!is_known).then(|| format!("its key is of algorithm {}, which cannot be verified", dotted(name)))
    }

    fn rsa_bits(&self) -> Option<usize> {
        let (numbers, _) = element(self.key_bits, SEQUENCE)?;
        let (modulus, _) = element(numbers, INTEGER)?;
        let zeros = modulus.iter().take_while(|&&byte| byte == 0).count();
        let first = modulus.get(zeros)?;
        Some((modulus.len() - zeros) * 8 - first.leading_zeros() as usize)
    }
}

/// True if a name in a certificate matches this host. A leading `*.` stands for one label, as in libpq.
fn is_name_of(name: &str, host: &str) -> bool {
    match name.strip_prefix('*') {
        Some(domain) if domain.starts_with('.') => {
            host.split_once('.').is_some_and(|(part, rest)| !part.is_empty() && rest.eq_ignore_ascii_case(&domain[1..]))
        }
        _ => !name.is_empty() && name.eq_ignore_ascii_case(host),
    }
}

/// Dotted notation of an object identifier.
fn dotted(name: &[u8]) -> String {
    let mut parts = Vec::new();
    let mut part: u64 = 0;
    for &byte in name {
        part = part.wrapping_shl(7) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            parts.push(part);
            part = 0;
        }
    }
    let Some((&first, rest)) = parts.split_first() else { return String::new() };
    // The first two components are encoded as one number.
    let root = (first / 40).min(2);
    [root, first - 40 * root].iter().chain(rest).map(u64::to_string).collect::<Vec<_>>().join(".")
}

/// Splits a time off: `YYMMDDhhmmssZ` of 1950 to 2049, or `YYYYMMDDhhmmssZ`.
fn moment(bytes: &[u8]) -> Option<(UnixTime, &[u8])> {
    let (text, rest, year_digits) = match element(bytes, UTC_TIME) {
        Some((text, rest)) => (text, rest, 2),
        None => {
            let (text, rest) = element(bytes, GENERALIZED_TIME)?;
            (text, rest, 4)
        }
    };
    let digits = text.strip_suffix(b"Z")?;
    if digits.len() != year_digits + 10 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |digits: &[u8]| digits.iter().fold(0, |number, digit| 10 * number + i64::from(digit - b'0'));
    let (year, rest_of_text) = digits.split_at(year_digits);
    let year = match (year_digits, number(year)) {
        (2, year @ 50..) => 1900 + year,
        (2, year) => 2000 + year,
        (_, year) => year,
    };
    let mut parts = rest_of_text.chunks(2).map(number);
    let mut next = || parts.next().unwrap_or_default();
    let (month, day, hour, minute, second) = (next(), next(), next(), next(), next());
    // Years begin in March here, so that the leap day is the last day of a year.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days =
        365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + (153 * month + 2) / 5 + day
            - 1
            - 719_468;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
    // Times before 1970 are clamped: every moment of interest is later.
    let seconds = u64::try_from(seconds).unwrap_or(0);
    Some((UnixTime::since_unix_epoch(Duration::from_secs(seconds)), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read() {
        let of = |tag: u8, text: &str| {
            let bytes = [&[tag, text.len() as u8], text.as_bytes(), b"rest"].concat();
            moment(&bytes).map(|(moment, rest)| {
                assert_eq!(rest, b"rest");
                moment.as_secs()
            })
        };
        assert_eq!(of(UTC_TIME, "700101000000Z"), Some(0));
        assert_eq!(of(UTC_TIME, "000229120000Z"), Some(951_825_600));
        assert_eq!(of(UTC_TIME, "491231235959Z"), Some(2_524_607_999));
        assert_eq!(of(UTC_TIME, "500101000000Z"), Some(0));
        assert_eq!(of(GENERALIZED_TIME, "20330518033320Z"), Some(2_000_000_000));
        for wrong in ["20330518033320", "203305180333Z", "2033051803332xZ", ""] {
            assert_eq!(of(GENERALIZED_TIME, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_stand_for_hosts() {
        for (name, host, is_so) in [
            ("db.example", "DB.example", true),
            ("*.example", "db.example", true),
            ("*.example", "a.db.example", false),
            ("*.example", "example", false),
            ("*.example", ".example", false),
            ("*", "db", false),
            ("", "", false),
            ("127.0.0.1", "127.0.0.1", true),
        ] {
            assert_eq!(is_name_of(name, host), is_so, "{name} {host}");
        }
    }

    #[test]
    fn parts_of_certificates_are_none() {
        use tokio_rustls::rustls::pki_types::CertificateDer;
        use tokio_rustls::rustls::pki_types::pem::PemObject;
        let pem = include_bytes!("../../tests/tls/cert.pem");
        let whole = CertificateDer::from_pem_slice(pem).expect("a certificate");
        let certificate = Certificate::read(&whole).expect("a certificate");
        assert_eq!((certificate.version, certificate.key_bits.len()), (3, 65));
        assert_eq!(certificate.kinds_of_names().map(|kinds| kinds.contains(&DNS_NAME)), Some(true));
        for end in 0..whole.len() {
            assert!(Certificate::read(&whole[..end]).is_none(), "{end}");
        }
        for at in 0..whole.len() {
            let mut other = whole.to_vec();
            other[at] = other[at].wrapping_add(1);
            // Any answer will do, as long as nothing panics.
            let _ = Certificate::read(&other).map(|read| (read.rsa_bits(), read.common_name(), read.kinds_of_names()));
        }
        assert_eq!(dotted(&[0x2b, 0x65, 0x71]), "1.3.101.113");
        assert_eq!(dotted(&RSA), "1.2.840.113549.1.1.1");
    }
}
