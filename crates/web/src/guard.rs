//! Checks of the requests that reach the server.
//!
//! **Invariant:** only a page that this server itself has served can give it commands. A foreign page in the same
//! browser is kept out by three checks: a name that was re-bound to our address (DNS rebinding) is not an address or
//! `localhost`, a cross-site request carries a foreign `Origin`, and a form cannot send JSON (which every command must
//! be). There is no CORS.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::Refusal;
use axum::Router;
use axum::http::Uri;

/// Content security policy: same origin only; styles may be set from script (the chart library does), scripts come from
/// files only.
const CONTENT_POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; \
     object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'";

/// Guards these routes: only pages of this program are answered, and every response carries the security headers.
/// Unknown paths and wrong methods are refused with a message.
pub fn guarded(routes: Router) -> Router {
    routes
        .fallback(|uri: Uri| async move { Refusal::nothing_at(&uri) })
        .method_not_allowed_fallback(|| async { Refusal::wrong_method() })
        .layer(axum::middleware::from_fn(check))
}

async fn check(request: Request, next: Next) -> Response {
    if let Err(refusal) = admit(request.method(), request.headers()) {
        return refusal.into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

fn admit(method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or("");
    if !names_an_address(host) {
        return Err(Refusal::foreign(format!("host {host:?} is not an address of this machine"))
            .hint("Open the page by the address that the program printed: a number or localhost."));
    }
    if method == Method::GET || method == Method::HEAD {
        return Ok(());
    }
    if let Some(origin) = headers.get(header::ORIGIN)
        && origin.to_str().ok().and_then(|origin| origin.strip_prefix("http://")) != Some(host)
    {
        return Err(Refusal::foreign("the command comes from another page")
            .hint("Only the program's own page may give commands."));
    }
    Ok(())
}

/// Returns true if a `Host` header is an IP address or `localhost`, with or without a port.
fn names_an_address(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) => (name, port),
            None => return false,
        },
        None => match host.find(':') {
            Some(colon) => host.split_at(colon),
            None => (host, ""),
        },
    };
    let port_ok = port.is_empty() || port.strip_prefix(':').is_some_and(|digits| digits.parse::<u16>().is_ok());
    port_ok && (name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::names_an_address;

    /// Goal: a name that some DNS server could bind to our address is refused. Method: a table of hosts.
    #[test]
    fn only_addresses_and_localhost_are_ours() {
        for host in ["127.0.0.1", "127.0.0.1:7878", "localhost", "LocalHost:80", "[::1]:7878", "[::1]", "192.168.0.7:1"]
        {
            assert!(names_an_address(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:7878",
            "localhost.evil.example",
            "127.0.0.1.evil",
            "[::1",
            "localhost:x",
            "127.0.0.1:99999",
        ] {
            assert!(!names_an_address(host), "{host}");
        }
    }
}
