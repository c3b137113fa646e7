//! The interface over real sockets.

use crate::fake::{Fake, Served};
use serde_json::Value;
use std::sync::atomic::Ordering::Relaxed;

pub fn files_and_looks_are_served() {
    let served = Served::new(Fake::default());
    for (path, kind) in [
        ("/", "text/html"),
        ("/style.css", "text/css"),
        ("/main.js", "text/javascript"),
        ("/charts.js", "text/javascript"),
        ("/tables.js", "text/javascript"),
        ("/format.js", "text/javascript"),
    ] {
        let (status, head, body) = served.get(path, "localhost");
        assert!(status == 200 && head.contains(&format!("content-type: {kind}")) && !body.is_empty(), "{path}: {head}");
        assert!(head.contains("content-security-policy: default-src 'self'"), "{head}");
    }
    let (status, _, body) = served.get("/api/look?past=10", "localhost");
    let look: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &look["mpl"]["mpl"], look["history"].as_array().unwrap().len()), (200, &8.into(), 10));
    for path in ["/api/look", "/api/look?past=x", "/api/look?past=-1", "/api/look?past=NaN", "/api/look?past=1e9"] {
        let (status, _, body) = served.get(path, "localhost");
        let told: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &told["error"]["code"]), (400, &"invalid".into()), "{path}: {body}");
    }
    assert_eq!(served.get("/nothing", "localhost").0, 404);
}

/// Goal: a page of a foreign name that resolves to our address is refused.
pub fn foreign_pages_are_refused() {
    let served = Served::new(Fake::default());
    for path in ["/", "/api/look?past=1", "/api/forecast"] {
        let (status, _, body) = served.get(path, "evil.example");
        assert!(status == 403 && body.contains("foreign"), "{path}: {body}");
        assert_eq!(served.get(path, "127.0.0.1:1").0, 200, "{path}");
    }
    assert_eq!(served.fake.looks.load(Relaxed), 1, "who is refused does not look");
}

/// Goal: an expensive computation is shared by all pages.
pub fn a_forecast_serves_all_pages() {
    let served = Served::new(Fake::default());
    let [one, two] = [(); 2].map(|()| served.get("/api/forecast", "localhost").2);
    assert!(one == two && one.contains("\"is_enough\":true") && one.contains("\"verdict\":\"MPL 8"), "{one}");
    assert_eq!(served.fake.forecasts.load(Relaxed), 1);
}
