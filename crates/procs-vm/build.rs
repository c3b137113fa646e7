//! Compiles the monitor: a static executable without any library, whose bytes become a part of this crate.

use std::env;
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=monitor");
    println!("cargo:rerun-if-changed=build.rs");
    let monitor = PathBuf::from(env::var_os("OUT_DIR").ok_or("no OUT_DIR")?).join("monitor");
    let target = env::var("TARGET")?;
    let is_known = env::var("CARGO_CFG_TARGET_ARCH")? == "x86_64" && env::var("CARGO_CFG_TARGET_OS")? == "linux";
    if !is_known {
        // The level is missing then, and says so.
        fs::write(monitor, [])?;
        return Ok(());
    }
    let mut rustc = Command::new(env::var_os("RUSTC").ok_or("no RUSTC")?);
    rustc.args(["--edition", "2024", "--crate-name", "monitor", "--crate-type", "bin", "--target", &target]);
    rustc.args(["-C", "opt-level=2", "-C", "panic=abort", "-C", "strip=symbols", "-C", "relocation-model=static"]);
    for link in ["-nostartfiles", "-nostdlib", "-static", "-no-pie", "-Wl,--gc-sections", "-Wl,--build-id=none"] {
        rustc.arg("-C").arg(format!("link-arg={link}"));
    }
    rustc.arg("-o").arg(&monitor).arg("monitor/main.rs");
    if rustc.status()?.success() { Ok(()) } else { Err("the monitor does not compile".into()) }
}
