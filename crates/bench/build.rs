//! Compiles the stored procedures that `bench lookingglass` calls: one source, for WebAssembly and as an executable.
//!
//! An artifact that the toolchain cannot make is an empty file, and the benchmark says that the level is not shown.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Library of stored code.
const LIBRARY: &str = "../guest/src";
/// Sources of the benchmark's procedures.
const PROCEDURES: [&str; 2] = ["tpcc", "urgent"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={LIBRARY}");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let rustc = env::var("RUSTC")?;
    let host = env::var("HOST")?;
    for name in PROCEDURES {
        println!("cargo::rerun-if-changed=guest/{name}.rs");
        for (target, kind) in [("wasm32-unknown-unknown", "wasm"), (&*host, "exec")] {
            let made = out.join(format!("{name}.{kind}"));
            if !compile((&rustc, target), name, &out, &made)? {
                fs::write(&made, [])?;
            }
        }
        let exec = out.join(format!("{name}.exec"));
        let manifest = Command::new(exec).arg("--manifest").output().map(|output| output.stdout);
        fs::write(out.join(format!("{name}.manifest")), manifest.unwrap_or_default())?;
    }
    Ok(())
}

/// Compiles the procedures for a target. Returns false if the compiler fails, as it does without the target's library.
fn compile((rustc, target): (&str, &str), name: &str, out: &Path, made: &Path) -> Result<bool, Box<dyn Error>> {
    let rustc = |arguments: &[&str]| -> Result<bool, Box<dyn Error>> {
        let common =
            ["--edition", "2024", "--target", target, "-C", "opt-level=3", "-C", "panic=abort", "-C", "strip=symbols"];
        let mut command = Command::new(rustc);
        if !target.starts_with("wasm32") {
            // A virtual machine without a kernel has no loader.
            command.args(["-C", "target-feature=+crt-static"]);
        }
        Ok(command.args(common).args(arguments).output()?.status.success())
    };
    let library = out.join(format!("libguest-{target}.rlib"));
    let (library, made) = (library.to_string_lossy(), made.to_string_lossy());
    let source = format!("{LIBRARY}/lib.rs");
    Ok(rustc(&["--crate-name", "guest", "--crate-type", "rlib", "-o", &library, &source])?
        && rustc(&[
            "--crate-name",
            name,
            "--crate-type",
            "bin",
            "-C",
            "lto=fat",
            "--extern",
            &format!("guest={library}"),
            "-o",
            &made,
            &format!("guest/{name}.rs"),
        ])?)
}
