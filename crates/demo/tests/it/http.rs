//! The interface over real sockets, against the fake: every command, every refusal, the stream, and the end.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use demo::Shutdown;
use serde_json::{Value, json};

use crate::fake::{Fake, QUEUE_MAX, RATE_MAX};

/// Server on a free port, ended and joined when dropped.
pub struct Server {
    pub address: SocketAddr,
    pub fake: Arc<Fake>,
    pub shutdown: Shutdown,
    /// Seconds on the clock by which viewers are missed.
    clock_s: Arc<AtomicU64>,
    /// Number of looks at the clock: one for each count of the viewers.
    looks: Arc<AtomicU64>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Server {
    pub fn start() -> Server {
        Server::on(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    pub fn on(listener: TcpListener) -> Server {
        let address = listener.local_addr().unwrap();
        let (fake, shutdown) = (Arc::new(Fake::new()), Shutdown::new());
        let (clock_s, looks) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let thread = {
            let (fake, shutdown) = (fake.clone(), shutdown.clone());
            let (clock_s, looks) = (clock_s.clone(), looks.clone());
            let clock = move || {
                looks.fetch_add(1, Ordering::SeqCst);
                Duration::from_secs(clock_s.load(Ordering::SeqCst))
            };
            thread::spawn(move || demo::serve_by(listener, fake, shutdown, Arc::new(clock)))
        };
        Server { address, fake, shutdown, clock_s, looks, thread: Some(thread) }
    }

    pub fn end(&mut self) {
        self.shutdown.trigger();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }

    fn open(&self, method: &str, path: &str, headers: &str, body: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        )
        .unwrap();
        BufReader::new(stream)
    }

    /// Returns status, headers and body of one request with exactly these headers.
    fn raw(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String, String) {
        let mut answer = String::new();
        self.open(method, path, headers, body).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_lowercase(), body.to_owned())
    }

    fn get(&self, path: &str) -> (u16, String, String) {
        self.raw("GET", path, "Host: localhost\r\n", "")
    }

    fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let (status, _, body) = self.raw("POST", path, "Host: 127.0.0.1\r\nContent-Type: application/json\r\n", body);
        (status, serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: not JSON: {body:?}")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Goal: the page needs nothing from elsewhere. Method: fetch every file, follow every reference to the page's own
/// files in them.
pub fn every_file_is_served() {
    let server = Server::start();
    let (status, head, html) = server.get("/");
    assert_eq!(status, 200);
    assert!(head.contains("content-type: text/html"), "{head}");
    assert!(head.contains("content-security-policy: default-src 'self'"), "{head}");
    assert!(head.contains("x-content-type-options: nosniff"), "{head}");
    let references = html.split(['"', '\'']).filter(|text| text.starts_with('/') && text.contains('.'));
    let mut count = 0;
    for path in references {
        let (status, head, body) = server.get(path);
        assert_eq!(status, 200, "{path}");
        assert!(head.contains("javascript") || head.contains("text/css"), "{path}: {head}");
        assert!(!body.is_empty(), "{path}");
        assert!(path == "/plotly.js" || !body.contains("https://"), "{path} names another server");
        count += 1;
        for module in
            body.lines().filter(|line| line.starts_with("import")).filter_map(|line| line.split("\"./").nth(1))
        {
            let module = format!("/{}", module.trim_end_matches("\";"));
            assert_eq!(server.get(&module).0, 200, "{module}");
        }
    }
    assert_eq!(count, 4, "style, parts, charts, main");
    let (status, ..) = server.raw(
        "GET",
        "/plotly.js",
        concat!("Host: localhost\r\nIf-None-Match: \"plotly-3.0.1-", env!("CARGO_PKG_VERSION"), "\"\r\n"),
        "",
    );
    assert_eq!(status, 304, "the charts are fetched once");
}

/// Goal: commands do what they say. Method: give each, read the instances.
pub fn commands_reach_the_demo() {
    let server = Server::start();
    let instance =
        |index: usize| serde_json::from_str::<Value>(&server.get("/api/instances").2).unwrap()[index].clone();
    assert_eq!(server.post("/api/select", r#"{"policy":"wait"}"#), (200, json!({ "selected": "wait" })));
    assert_eq!(instance(0)["selected"], true);
    assert_eq!(server.post("/api/query/start", r#"{"name":"q9"}"#), (200, json!({ "started": "q9" })));
    assert_eq!(instance(0)["query"], "q9");
    assert_eq!(server.post("/api/rate", r#"{"per_second":12.5}"#), (200, json!({ "per_second": 12.5 })));
    assert_eq!(instance(0)["rate_per_s"], 12.5);
    assert_eq!(server.post("/api/new-order", "{}"), (200, json!({ "ticket": 1 })));
    assert_eq!(server.post("/api/new-order", "{}"), (200, json!({ "ticket": 2 })));
    assert_eq!(server.post("/api/rate", r#"{"per_second":0}"#).0, 200);
    assert_eq!(server.post("/api/query/stop", "{}"), (200, json!({ "stopped": true })));
    assert_eq!(instance(0)["query"], Value::Null);
    assert_eq!(server.post("/api/clear", "{}").0, 200);
    for path in ["/api/facts", "/api/queries", "/api/figure1", "/api/loading"] {
        let (status, _, body) = server.get(path);
        assert_eq!(status, 200, "{path}");
        serde_json::from_str::<Value>(&body).unwrap();
    }
}

/// Goal: whatever is sent, the answer is a 4xx with words, and the server goes on. Method: a table of bad requests.
pub fn bad_requests_are_refused_in_words() {
    let server = Server::start();
    let rate_out = format!(r#"{{"per_second":{}}}"#, RATE_MAX * 2.0);
    let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(100_000));
    for (path, body, status) in [
        ("/api/select", r#"{"policy":"soon"}"#, 422),
        ("/api/select", "{}", 422),
        ("/api/select", "policy=wait", 400),
        ("/api/select", "", 400),
        ("/api/query/start", r#"{"name":"q99"}"#, 400),
        ("/api/query/start", r#"{"name":7}"#, 422),
        ("/api/query/start", &long, 413),
        ("/api/rate", r#"{"per_second":-1}"#, 400),
        ("/api/rate", r#"{"per_second":1e999}"#, 400),
        ("/api/rate", r#"{"per_second":null}"#, 422),
        ("/api/rate", &rate_out, 400),
        ("/api/new-order", r#"{"count":9}"#, 422),
        ("/api/nothing", "{}", 404),
        ("/api/events", "{}", 405),
    ] {
        let (got, answer) = server.post(path, body);
        let shown = &body[..body.len().min(60)];
        assert_eq!(got, status, "{path} {shown}: {answer}");
        assert!(answer["error"]["code"].is_string(), "{path} {shown}: {answer}");
        assert!(
            answer["error"]["message"].as_str().is_some_and(|message| !message.is_empty()),
            "{path} {shown}: {answer}"
        );
    }
    let (_, answer) = server.post("/api/query/start", r#"{"name":"q99"}"#);
    assert_eq!(answer["error"]["hint"], "Choose one of: q2, q9, ch1.");

    // Under wait a New-Order stays queued while the first run lasts (the fake's, 45 ms).
    server.post("/api/select", r#"{"policy":"wait"}"#);
    server.post("/api/query/start", r#"{"name":"q2"}"#);
    let full = (0..=2 * QUEUE_MAX).map(|_| server.post("/api/new-order", "{}")).find(|(status, _)| *status != 200);
    if let Some((status, answer)) = full {
        assert_eq!((status, &answer["error"]["code"]), (409, &json!("conflict")));
    }

    server.fake.loading.store(true, Ordering::Relaxed);
    let (status, answer) = server.post("/api/new-order", "{}");
    assert_eq!((status, &answer["error"]["code"]), (503, &json!("loading")));
    assert_eq!(serde_json::from_str::<Value>(&server.get("/api/loading").2).unwrap()["state"], "loading");
}

/// Goal: only the demonstration's page gives commands. Method: the three ways in which a foreign page would.
pub fn foreign_pages_are_refused() {
    let server = Server::start();
    let json_type = "Content-Type: application/json\r\n";
    for (method, headers, status) in [
        ("GET", "Host: rebound.example\r\n".to_owned(), 403),
        ("GET", String::new(), 400),
        ("POST", format!("Host: rebound.example:80\r\n{json_type}"), 403),
        ("POST", format!("Host: 127.0.0.1\r\nOrigin: http://evil.example\r\n{json_type}"), 403),
        ("POST", format!("Host: 127.0.0.1\r\nOrigin: null\r\n{json_type}"), 403),
        ("POST", "Host: 127.0.0.1\r\nContent-Type: text/plain\r\n".to_owned(), 415),
        ("POST", "Host: 127.0.0.1\r\n".to_owned(), 415),
        ("POST", format!("Host: 127.0.0.1\r\nOrigin: http://127.0.0.1\r\n{json_type}"), 200),
    ] {
        let path = if method == "GET" { "/api/facts" } else { "/api/clear" };
        let (got, head, _) = server.raw(method, path, &headers, if method == "GET" { "" } else { "{}" });
        // A missing Host is refused by the server or by the HTTP library before it; both are right.
        assert!(got == status || (status == 400 && got == 403), "{method} {headers:?}: {got}");
        assert!(!head.contains("access-control-allow"), "{head}");
    }
}

/// Reads events until one satisfies `wanted`.
fn next_event(stream: &mut BufReader<TcpStream>, mut wanted: impl FnMut(&str, &Value) -> bool) -> bool {
    let (mut kind, mut line) = (String::new(), String::new());
    loop {
        line.clear();
        if stream.read_line(&mut line).unwrap_or(0) == 0 {
            return false;
        }
        if let Some(name) = line.strip_prefix("event: ") {
            kind = name.trim().to_owned();
        } else if let Some(data) = line.strip_prefix("data: ") {
            if wanted(&kind, &serde_json::from_str(data).unwrap()) {
                return true;
            }
            kind.clear();
        }
    }
}

/// Goal: what happens comes over the stream once, and the end is told. Method: send one, read it, end the server, read on.
pub fn the_stream_tells_and_ends() {
    let mut server = Server::start();
    let mut stream = server.open("GET", "/api/events", "Host: localhost\r\n", "");
    assert!(next_event(&mut stream, |_, event| event["loading"]["state"] == "ready"
        && event["instances"][2]["selected"] == true));
    server.post("/api/new-order", "{}");
    let mut seen = 0;
    assert!(next_event(&mut stream, |_, event| {
        seen += event["update"]["transactions"].as_array().unwrap().len();
        event["update"]["summaries"][2]["count"] == 1
    }));
    assert_eq!(seen, 1);
    assert!(next_event(&mut stream, |_, event| event["update"]["transactions"].as_array().unwrap().is_empty()));
    server.shutdown.trigger();
    assert!(next_event(&mut stream, |kind, _| kind == "end"), "the page is told");
    server.end();
    assert!(!next_event(&mut stream, |_, _| true), "the stream is closed");
    assert!(TcpStream::connect(server.address).is_err(), "nobody listens");
}

/// Goal: a page that reads nothing holds up neither the others nor the end. Method: open it, leave it, use and end the server.
pub fn a_slow_page_holds_up_nobody() {
    let mut server = Server::start();
    let _unread = server.open("GET", "/api/events", "Host: localhost\r\n", "");
    let pages: Vec<_> = (0..15).map(|_| server.open("GET", "/api/events", "Host: localhost\r\n", "")).collect();
    for mut page in pages {
        assert!(next_event(&mut page, |_, event| event["update"]["now_ns"].is_u64()));
    }
    assert_eq!(server.post("/api/new-order", "{}").0, 200);
    server.end();
}

/// Goal: pages are limited, and a closed one makes room. Method: open the limit, one more, close all, try until one fits.
pub fn pages_are_limited() {
    let server = Server::start();
    let mut pages: Vec<_> = (0..16).map(|_| server.open("GET", "/api/events", "Host: localhost\r\n", "")).collect();
    for page in &mut pages {
        assert!(next_event(page, |_, _| true));
    }
    let (status, _, body) = server.get("/api/events");
    assert_eq!(status, 503, "{body}");
    assert!(body.contains("too_many_pages"), "{body}");
    drop(pages);
    // The server notices a closed page at its next update.
    let fits = |_| {
        next_event(&mut server.open("GET", "/api/events", "Host: localhost\r\n", ""), |_, event| {
            event["update"].is_object()
        })
    };
    let mut tries = 0..10_000;
    assert!(tries.any(|attempt| {
        let mut first = server.open("GET", "/api/events", "Host: localhost\r\n", "");
        let mut status = String::new();
        first.read_line(&mut status).unwrap();
        if status.contains("200") {
            fits(attempt)
        } else {
            thread::yield_now();
            false
        }
    }));
}

/// Goal: without a viewer for 10 s, query and arrivals stop; they start again when one comes, and only then. Method: the
/// clock is the test's, and tells how often it was looked at; clients without a page, then with one.
pub fn the_load_stops_without_viewers() {
    let server = Server::start();
    let load = || {
        let instances = serde_json::from_str::<Value>(&server.get("/api/instances").2).unwrap();
        (instances[2]["query"].clone(), instances[2]["rate_per_s"].clone())
    };
    let pass = |seconds| {
        server.clock_s.fetch_add(seconds, Ordering::SeqCst);
        // The first look may have begun before.
        let looks = server.looks.load(Ordering::SeqCst);
        while server.looks.load(Ordering::SeqCst) < looks + 3 {
            thread::yield_now();
        }
    };
    let open = || {
        let mut page = server.open("GET", "/api/events", "Host: localhost\r\n", "");
        assert!(next_event(&mut page, |_, _| true));
        pass(0);
        page
    };
    // The server notices a closed page at its next update.
    let leave = |page| {
        drop(page);
        assert!((0..1_000).any(|_| {
            pass(11);
            load().0 == Value::Null
        }));
    };
    let (runs, none) = ((json!("q9"), json!(20.0)), (Value::Null, json!(0.0)));

    assert_eq!(server.post("/api/query/start", r#"{"name":"q9"}"#).0, 200);
    assert_eq!(server.post("/api/rate", r#"{"per_second":20}"#).0, 200);
    pass(0);
    assert_eq!(load(), runs, "a client without a page has just started it");
    pass(9);
    assert_eq!(load(), runs, "a reload takes no 10 s");
    pass(1);
    assert_eq!(load(), none, "nobody has looked for 10 s");

    let page = open();
    assert_eq!(load(), runs, "somebody looks");
    pass(3_600);
    assert_eq!(load(), runs, "somebody looks, for an hour");
    leave(page);
    assert_eq!(load(), none);

    let page = open();
    assert_eq!(load(), runs, "somebody looks again");
    leave(page);
    assert_eq!(server.post("/api/query/stop", "{}").0, 200);
    pass(0);
    let _page = open();
    assert_eq!(load(), none, "what was stopped by hand stays so");
}
