//! The real demonstration in a real browser.

use crate::Program;
use demo::chromium::{CheckError, CheckOptions, check};
use std::io::{BufRead, BufReader};

/// Goal: the page's promises hold with the real scheduler, engine and queries behind it, and Ctrl-C ends the program
/// cleanly. Method: the checks of crate `demo`, against `overtake demo` at a small scale.
pub fn the_demo_works_in_a_browser() {
    let mut demo = Program::demo();
    let mut first = String::new();
    BufReader::new(demo.0.stdout.take().unwrap()).read_line(&mut first).unwrap();
    let url = first.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
    let options =
        CheckOptions { pictures: std::env::var_os("OVERTAKE_PICTURES").map(Into::into), patience_ms: 120_000 };
    let result = check(&url, &options, &mut |name| println!("ok: {name}"));
    let (status, log) = demo.interrupted();
    match result {
        Ok(()) => {}
        Err(CheckError::Missing) if std::env::var_os("OVERTAKE_CI").is_none() => {
            println!("SKIPPED: the demonstration was not tested in a browser, because there is no Chromium");
        }
        Err(error) => panic!("{error}\n{log}"),
    }
    assert_eq!(status.code(), Some(0), "Ctrl-C ends the demo cleanly: {log}");
    assert!(!log.contains("ERROR"), "{log}");
}
