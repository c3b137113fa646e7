//! The real demonstration in a real browser.

use crate::{overtake, text};
use demo::chromium::{Error, Options, check};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

/// Goal: what the page promises holds with the real scheduler, engine and queries behind it, and Ctrl-C ends the program
/// cleanly. Method: the checks of crate `demo`, against `overtake demo` at a small scale.
pub fn the_demo_works_in_a_browser() {
    let mut child = overtake()
        .args(["demo", "--port", "0", "--scale-factor", "0.02", "--warehouses", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let url = first.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
    let options = Options { pictures: std::env::var_os("OVERTAKE_PICTURES").map(Into::into), patience_ms: 120_000 };
    let result = check(&url, &options, &mut |name| println!("ok: {name}"));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let status = child.wait().unwrap();
    let mut log = Vec::new();
    child.stderr.take().unwrap().read_to_end(&mut log).unwrap();
    let log = text(&log);
    match result {
        Ok(()) => {}
        Err(Error::Missing) if std::env::var_os("OVERTAKE_CI").is_none() => {
            println!("SKIPPED: the demonstration was not tested in a browser, because there is no Chromium");
        }
        Err(error) => panic!("{error}\n{log}"),
    }
    assert_eq!(status.code(), Some(0), "Ctrl-C ends the demo cleanly: {log}");
    assert!(!log.contains("ERROR"), "{log}");
}
