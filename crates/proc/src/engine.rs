//! JavaScript engine of TypeScript projects: QuickJS as WebAssembly, compiled once for a machine.
//!
//! The engine stays in the user's cache. It is compiled again when its sources, its version or the flags change. What
//! that takes comes from public registries, by fixed versions: the sources of QuickJS with a C library from crates.io,
//! and, if the machine has no compiler for WebAssembly, zig from PyPI.
//!
//! **Invariant:** a file in the cache is complete: it gets its name when it has been written.

use crate::tools::{Tools, find};
use anyhow::{Context, bail};
use host::say::complain;
use host::stop::Stopped;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Exports and imports of the module, around QuickJS.
const GLUE: &str = include_str!("../../../sdk/typescript/engine/engine.c");
/// Program for Node.js that downloads a file and checks it.
const DOWNLOAD: &str = include_str!("../../../sdk/typescript/engine/download.js");
/// Package with the sources of QuickJS-NG 0.16 and wasi-libc, as files.
const SOURCES: &str = "rquickjs-sys-0.14.0";
/// Address of the package, and SHA-256 that the registry's index has for it.
const SOURCES_URL: &str = "https://static.crates.io/crates/rquickjs-sys/rquickjs-sys-0.14.0.crate";
const SOURCES_SHA256: &str = "cee271d0eeba64f0915b846cb7ae02e16faf3dfdffdca91731101d9d30fe3423";
/// Compiler for machines without one.
const ZIG: &str = "ziglang==0.17.1";
/// Files of QuickJS.
const FILES: [&str; 4] = ["quickjs", "libregexp", "libunicode", "dtoa"];
/// Flags of the compiler. The system that QuickJS is told of is the one whose lacks are closest: neither threads nor
/// rounding modes.
const FLAGS: &[&str] = &[
    "-O2",
    "-w",
    "-DNDEBUG",
    "-D_GNU_SOURCE",
    "-DEMSCRIPTEN",
    "-DFE_DOWNWARD=0",
    "-DFE_UPWARD=0",
    "-nostdlib",
    "-Wl,--no-entry",
    "-Wl,-s",
    "-Wl,-z,stack-size=1048576",
];

/// Compiler from C to WebAssembly: a name, the command, and flags of its own.
struct Compiler {
    name: &'static str,
    command: Vec<PathBuf>,
    flags: &'static [&'static str],
}

/// Returns the engine's file, or the reason why there is none.
///
/// # Errors
/// Fails if the cache cannot be written, or a stop is requested.
pub(crate) fn engine(tools: &Tools) -> anyhow::Result<Result<PathBuf, String>> {
    let Some(cache) = cache() else {
        return Ok(Err("neither XDG_CACHE_HOME nor HOME says where the JavaScript engine can be kept".to_owned()));
    };
    let file = cache.join(format!("quickjs-{:016x}.wasm", fingerprint()));
    if file.is_file() {
        return Ok(Ok(file));
    }
    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let work = tempfile::Builder::new().prefix("build-").tempdir_in(&cache);
    let work = work.with_context(|| format!("cannot write to {}", cache.display()))?;
    complain("The JavaScript engine for WebAssembly is compiled, once for this machine:\n");
    let begun = Instant::now();
    match make(tools, work.path()) {
        Ok(made) => {
            fs::rename(&made, &file).with_context(|| format!("cannot write {}", file.display()))?;
            complain(format_args!("  {} after {} s\n", file.display(), begun.elapsed().as_secs()));
            Ok(Ok(file))
        }
        Err(error) if error.is::<Stopped>() => Err(error),
        Err(error) => Ok(Err(format!("the JavaScript engine cannot be compiled: {error:#}"))),
    }
}

fn cache() -> Option<PathBuf> {
    let given = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let root = given("XDG_CACHE_HOME").or_else(|| Some(given("HOME")?.join(".cache")))?;
    Some(root.join("overtake/engine"))
}

/// Returns a number that changes with what the engine is made of.
fn fingerprint() -> u64 {
    let mut hasher = DefaultHasher::new();
    (GLUE, SOURCES_SHA256, ZIG, FLAGS).hash(&mut hasher);
    hasher.finish()
}

/// Compiles the engine in a folder.
fn make(tools: &Tools, work: &Path) -> anyhow::Result<PathBuf> {
    sources(tools, work)?;
    let mut compilers = compilers();
    if compilers.is_empty() {
        compilers.push(download_zig(tools, work)?);
    }
    let mut refused = Vec::new();
    for compiler in compilers {
        match compile(tools, work, &compiler) {
            Ok(made) => return Ok(made),
            Err(error) if error.is::<Stopped>() => return Err(error),
            Err(error) => refused.push(format!("{}: {error:#}", compiler.name)),
        }
    }
    bail!("{}", refused.join("\n"))
}

/// Downloads the sources of QuickJS.
fn sources(tools: &Tools, work: &Path) -> anyhow::Result<()> {
    complain(format_args!("  download of QuickJS, {SOURCES_URL}\n"));
    let Some(node) = find("node") else { bail!("node is not installed") };
    let archive = work.join("sources.tar.gz");
    let mut download = Command::new(node);
    tools.run(download.args(["-e", DOWNLOAD, SOURCES_URL, SOURCES_SHA256]).arg(&archive))?;
    tools.run(Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(work)).map(drop)
}

/// Returns the compilers of this machine, the likeliest first.
fn compilers() -> Vec<Compiler> {
    let mut all = Vec::new();
    if let (Some(clang), Some(_)) = (find("clang"), find("wasm-ld")) {
        let flags = &["--target=wasm32", "-Wl,--stack-first"];
        all.push(Compiler { name: "clang", command: vec![clang], flags });
    }
    all.extend(find("zig").map(zig));
    all
}

fn zig(path: PathBuf) -> Compiler {
    // Its stack comes first anyway.
    Compiler { name: "zig", command: vec![path, "cc".into()], flags: &["-target", "wasm32-freestanding"] }
}

fn download_zig(tools: &Tools, work: &Path) -> anyhow::Result<Compiler> {
    complain(format_args!("  download of a compiler, {ZIG} (100 MB; removed afterwards)\n"));
    let Some(python) = find("python3") else {
        bail!("there is neither clang with wasm-ld, nor zig, nor python3 whose pip could install zig");
    };
    let folder = work.join("zig");
    let mut pip = Command::new(python);
    tools
        .run(
            pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"])
                .arg(&folder)
                .arg(ZIG),
        )
        .context("neither clang with wasm-ld nor zig is installed, and pip cannot install zig")?;
    Ok(zig(folder.join("ziglang/zig")))
}

fn compile(tools: &Tools, work: &Path, compiler: &Compiler) -> anyhow::Result<PathBuf> {
    complain(format_args!("  compilation by {}, half a minute\n", compiler.name));
    let (program, first) = compiler.command.split_first().context("a command has a program")?;
    let glue = work.join("engine.c");
    fs::write(&glue, GLUE).with_context(|| format!("cannot write {}", glue.display()))?;
    let (package, made) = (work.join(SOURCES), work.join("engine.wasm"));
    let library = package.join("vendor/wasi-libc");
    let mut command = Command::new(program);
    command.args(first).args(compiler.flags).args(FLAGS);
    command.arg("-isystem").arg(library.join("include")).arg("-I").arg(package.join("quickjs"));
    command.arg("-o").arg(&made).arg(&glue);
    command.args(FILES.map(|file| package.join(format!("quickjs/{file}.c")))).arg(library.join("lib/libc.a"));
    // Zig keeps what it has compiled, which nobody asks for again.
    let kept = work.join("kept");
    tools.run(command.env("ZIG_GLOBAL_CACHE_DIR", &kept).env("ZIG_LOCAL_CACHE_DIR", &kept))?;
    Ok(made)
}
