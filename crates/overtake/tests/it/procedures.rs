//! Goal: the project that `overtake proc new` writes passes its own tests, at every level that this machine has.
//! Method: write it, and run `overtake proc test`; a changed expectation fails with the difference.

use crate::{overtake, text};
use std::path::Path;
use std::process::Output;

pub fn proc(arguments: &[&str], directory: &Path) -> Output {
    overtake().arg("proc").args(arguments).arg(directory).output().unwrap()
}

pub fn new_projects_pass_their_tests() {
    for language in ["rust", "c", "python"] {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("shop");
        let output = proc(&["new", "--language", language], &directory);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let output = proc(&["test"], &directory);
        let shown = text(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{language}: {shown}{}", text(&output.stderr));
        assert!(shown.contains("process: transfer: ok") && shown.contains("process: fee: ok"), "{language}: {shown}");
        assert!(language != "rust" || shown.contains("wasm: transfer: ok"), "{shown}");
    }
}

pub fn a_test_that_fails_shows_the_difference() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("shop");
    assert!(proc(&["new", "--language", "python"], &directory).status.success());
    std::fs::write(directory.join("tests/fee.expected"), "nothing\n").unwrap();
    let output = proc(&["test"], &directory);
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout);
    assert!(shown.contains("process: fee: FAILED\n- nothing\n+ SELECT amount"), "{shown}");
}
