//! Version of the binary: that of the package, with the commit.

use std::path::Path;
use std::process::Command;

fn main() {
    let commit = Command::new("git").args(["rev-parse", "--short=10", "HEAD"]).output();
    let commit =
        commit.ok().filter(|output| output.status.success()).and_then(|output| String::from_utf8(output.stdout).ok());
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    match commit.as_deref().map(str::trim) {
        Some(commit) if !commit.is_empty() => println!("cargo::rustc-env=OVERTAKE_VERSION={version} ({commit})"),
        // There is no git in a source package.
        _ => println!("cargo::rustc-env=OVERTAKE_VERSION={version}"),
    }
    // A checkout or a new commit changes these files. Cargo would rebuild every time for a path that does not exist.
    for file in ["../../.git/HEAD", "../../.git/logs/HEAD"] {
        if Path::new(file).exists() {
            println!("cargo::rerun-if-changed={file}");
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
}
