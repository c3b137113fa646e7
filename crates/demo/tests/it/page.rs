//! The page in a headless Chromium, against the fake.

use std::env;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use demo::chromium::{Browser, CheckError, CheckOptions, check};

use crate::http::Server;

/// Runs a check that needs a browser; without one it says so, and fails where a skip is not allowed.
fn with_browser(name: &str, run: impl FnOnce() -> Result<(), CheckError>) {
    match run() {
        Ok(()) => {}
        Err(CheckError::Missing) => {
            eprintln!("\n*** SKIPPED {name}: {} ***\n", CheckError::Missing);
            assert!(env::var_os("OVERTAKE_CI").is_none(), "{name}: a skip is a failure in CI");
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

fn pictures() -> Option<PathBuf> {
    env::var_os("OVERTAKE_PICTURES").map(PathBuf::from)
}

/// Goal: the whole page works. Method: the checks that also run against the real program.
pub fn the_page_works() {
    with_browser("the_page_works", || {
        let server = Server::start();
        let options = CheckOptions { pictures: pictures(), patience_ms: 20_000 };
        check(&format!("http://{}/", server.address), &options, &mut |name| eprintln!("  page: {name}"))
    });
}

/// Goal: the page opens while data loads, tells how far it is, notices the server's end and its return. Method: hold the
/// fake in loading, let it go, end the server, start another on the same port.
pub fn the_page_loads_and_comes_back() {
    with_browser("the_page_loads_and_comes_back", || {
        let mut server = Server::start();
        server.fake.loading.store(true, Ordering::Relaxed);
        let mut browser = Browser::start()?;
        let mut page = browser.page()?;
        page.resize(1440, 900)?;
        page.open(&format!("http://{}/", server.address))?;
        page.until("it loads", "document.body.dataset.phase === 'loading'", 10_000)?;
        page.until("progress is shown", "document.querySelectorAll('#loading progress').length === 3", 10_000)?;
        page.until("no controls yet", "document.getElementById('new-order').offsetParent === null", 2_000)?;
        if let Some(folder) = pictures() {
            page.screenshot(&folder.join("demo-loading.png"), true)?;
        }
        server.fake.loading.store(false, Ordering::Relaxed);
        page.until(
            "it is ready",
            "document.body.dataset.phase === 'ready' && document.getElementById('new-order').offsetParent !== null",
            10_000,
        )?;
        page.until(
            "the database's facts have come",
            "document.getElementById('facts').textContent.includes('4,830,112')",
            10_000,
        )?;
        assert_eq!(page.errors(), &[] as &[String]);

        let address = server.address;
        server.end();
        page.until("the end is told", "!document.getElementById('banner').hidden && /has ended/.test(document.getElementById('banner').textContent)", 10_000)?;
        if let Some(folder) = pictures() {
            page.screenshot(&folder.join("demo-gone.png"), false)?;
        }
        let _again = Server::on(std::net::TcpListener::bind(address).expect("the port is free again"));
        page.until(
            "it comes back by itself",
            "document.body.dataset.phase === 'ready' && document.getElementById('banner').hidden",
            30_000,
        )
    });
}
