//! Compilation of the suite's code, by the cargo that runs the tests.
//!
//! **Invariant:** the code that runs at every level comes from one source.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Module of the suite, in both forms, and the worker that breaks the protocol.
#[derive(Debug)]
pub struct Built {
    /// WebAssembly.
    pub wasm: Vec<u8>,
    /// Static executable.
    pub executable: Vec<u8>,
    /// Worker that breaks the protocol.
    pub raw: Vec<u8>,
    /// Worker that attacks a virtual machine.
    pub machine: Vec<u8>,
    /// Text of the manifest.
    pub manifest: String,
}

/// Text in the worker after which the name of its attack stands.
const MARK: &[u8] = b"OVERTAKE-ATTACK:";
/// Length of the name, filled up with dots.
const NAME_BYTES: usize = 32;

/// Runs a program to its end. Returns what it prints.
pub(crate) fn run(command: &mut Command) -> io::Result<Vec<u8>> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(io::Error::other(format!("{command:?}: {told}")))
}

fn cargo(folder: &Path, target: &str, flags: &str) -> io::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // What this cargo was told is not meant for the other target.
    for name in
        ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER"]
    {
        command.env_remove(name);
    }
    command.args(["build", "--release", "--quiet", "--offline", "--locked", "--manifest-path", "guest/Cargo.toml"]);
    command.args(["--target", target]).arg("--target-dir").arg(folder).env("RUSTFLAGS", flags);
    if target.starts_with("wasm32") {
        command.args(["--bin", "conformance"]);
    }
    run(&mut command)?;
    Ok(folder.join(target).join("release"))
}

/// Compiles the suite's code into a folder, once for the process. The current folder is that of this crate, as in its
/// tests.
///
/// # Panics
/// If the code does not compile.
pub fn built(folder: &Path) -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| build(&folder.join("conformance-guest")).expect("the suite's code compiles"))
}

fn build(folder: &Path) -> io::Result<Built> {
    let wasm = cargo(folder, "wasm32-unknown-unknown", "")?;
    let native = cargo(folder, "x86_64-unknown-linux-gnu", "-C target-feature=+crt-static")?;
    let manifest = run(Command::new(native.join("conformance")).arg("--manifest"))?;
    Ok(Built {
        wasm: fs::read(wasm.join("conformance.wasm"))?,
        executable: fs::read(native.join("conformance"))?,
        raw: fs::read(native.join("raw"))?,
        machine: fs::read(native.join("machine"))?,
        manifest: String::from_utf8(manifest).map_err(io::Error::other)?,
    })
}

impl Built {
    /// Returns the worker that makes this attack.
    ///
    /// # Panics
    /// If the name is too long.
    pub fn attacker(&self, attack: &str) -> Vec<u8> {
        assert!(attack.len() < NAME_BYTES);
        let mut bytes = self.raw.clone();
        let at = bytes.windows(MARK.len()).position(|window| window == MARK).expect("the place for the name");
        let name = attack.bytes().chain(std::iter::repeat(b'.')).take(NAME_BYTES);
        bytes[at + MARK.len()..].iter_mut().zip(name).for_each(|(byte, letter)| *byte = letter);
        bytes
    }
}
