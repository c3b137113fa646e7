//! The suite's module in TypeScript.

use crate::build::run;
use proc::{BuiltModule, Language, Tools};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Code of the module.
const CODE: &str = include_str!("../guest/typescript/main.ts");
/// Compiler of TypeScript, a package of npm.
const COMPILER: &str = "typescript@5.9.3";

/// Returns a folder `node_modules` with the compiler of TypeScript. The first use in a target folder installs it.
///
/// # Errors
/// Fails if npm is missing or cannot install it.
pub fn typescript_compiler(folder: &Path) -> io::Result<PathBuf> {
    let place = folder.join("typescript");
    let modules = place.join("node_modules");
    if !modules.join(".bin/tsc").exists() {
        fs::create_dir_all(&place)?;
        let mut npm = Command::new("npm");
        run(npm.args(["install", "--silent", "--no-fund", "--no-audit", "--prefix"]).arg(&place).arg(COMPILER))?;
    }
    Ok(modules)
}

/// Builds the suite's module in TypeScript.
///
/// # Errors
/// Fails if a tool is missing, and if the code does not compile.
pub fn typescript(folder: &Path) -> io::Result<BuiltModule> {
    let compiler = typescript_compiler(folder)?;
    let place = tempfile::tempdir()?;
    let project = place.path().join("conformance");
    proc::create(&project, Language::TypeScript).map_err(io::Error::other)?;
    symlink(compiler, project.join("node_modules"))?;
    fs::write(project.join("main.ts"), CODE)?;
    proc::build(&project, &Tools::default()).map_err(io::Error::other)
}
