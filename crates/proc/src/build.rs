//! Artifacts of a project.

use crate::language::Language;
use crate::project::Project;
use crate::script::has_language;
use crate::sections::{MANIFEST, custom_section};
use crate::tools::{Tools, find, make_executable};
use crate::{java, python, typescript};
use anyhow::{Context, bail};
use host::stop::Stopped;
use procs::{ArtifactKind, Manifest};
use procs_vm::Image;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Target of Rust's wasm modules.
const WASM_TARGET: &str = "wasm32-unknown-unknown";

/// Built artifact.
#[derive(Clone, Debug)]
pub struct BuiltArtifact {
    /// Kind of the code.
    pub kind: ArtifactKind,
    /// File.
    pub path: PathBuf,
    /// Code.
    pub bytes: Vec<u8>,
}

/// Built project. Shown, it lists the artifacts and the reasons for those that are missing.
#[derive(Clone, Debug)]
pub struct BuiltModule {
    /// Name of the module.
    pub name: String,
    /// Text of the manifest.
    pub manifest: String,
    /// Artifacts that were built.
    pub artifacts: Vec<BuiltArtifact>,
    /// Kinds of artifacts that could not be built, and why.
    pub missing: Vec<(ArtifactKind, String)>,
}

/// File of an artifact, or the reason why there is none.
type MaybeBuilt = Result<PathBuf, String>;

impl BuiltModule {
    /// Returns the artifact of a kind.
    pub fn artifact(&self, kind: ArtifactKind) -> Option<&BuiltArtifact> {
        self.artifacts.iter().find(|artifact| artifact.kind == kind)
    }
}

impl fmt::Display for BuiltModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for BuiltArtifact { kind, path, bytes } in &self.artifacts {
            writeln!(f, "{kind:<5} {} ({} kB)", path.display(), bytes.len().div_ceil(1 << 10))?;
        }
        self.missing.iter().try_for_each(|(kind, reason)| writeln!(f, "{kind:<5} missing: {reason}"))
    }
}

/// Builds all artifacts of a project that its language and the tools of this machine allow.
///
/// # Errors
/// Fails with the compiler's messages if the code is wrong, if nothing can be built, if the manifest is wrong, and if
/// the code does not end; with [`Stopped`] if a stop is requested.
pub fn build(directory: &Path, tools: &Tools) -> anyhow::Result<BuiltModule> {
    let project = Project::open(directory)?;
    let folder = directory.join("build");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let place = |extension: &str| folder.join(format!("{}{extension}", project.module));
    let (wasm, exec) = (place(".wasm"), place(""));
    let no_wasm = |language: &str| Err(format!("a project in {language} becomes an executable only"));
    let (wasm, exec) = match project.language {
        Language::Rust => rust(tools, directory, &wasm, &exec)?,
        Language::AssemblyScript => {
            (assemblyscript(tools, directory, &wasm)?, Err("AssemblyScript compiles to WebAssembly only".to_owned()))
        }
        Language::TypeScript => typescript(tools, &project, &wasm, &exec)?,
        Language::C => (c_wasm(tools, directory, &wasm)?, c_exec(tools, directory, &exec)?),
        Language::Python => (no_wasm("Python"), script(&python::joined(directory)?, &exec)?),
        Language::Java => (no_wasm("Java"), script(&java::joined(directory)?, &exec)?),
    };
    let mut built = BuiltModule { name: project.module, manifest: String::new(), artifacts: vec![], missing: vec![] };
    let guest = guest(project.language, &exec)?;
    for (kind, path) in [(ArtifactKind::Wasm, wasm), (ArtifactKind::Exec, exec), (ArtifactKind::Guest, guest)] {
        match path {
            Ok(path) => {
                let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
                built.artifacts.push(BuiltArtifact { kind, path, bytes });
            }
            Err(reason) => built.missing.push((kind, reason)),
        }
    }
    if built.artifacts.is_empty() {
        bail!("nothing can be built here:\n{built}");
    }
    built.manifest = manifest(tools, directory, &built)?;
    Manifest::parse(&built.manifest).map_err(|error| anyhow::anyhow!("{}", error.message()))?;
    Ok(built)
}

/// Returns the executable, if it can be the guest of a virtual machine as well.
fn guest(language: Language, exec: &MaybeBuilt) -> anyhow::Result<MaybeBuilt> {
    let is_compiled = match language {
        Language::Rust | Language::C => true,
        Language::AssemblyScript | Language::TypeScript | Language::Python | Language::Java => false,
    };
    let Ok(path) = exec else { return Ok(exec.clone()) };
    if !is_compiled {
        return Ok(Err("a virtual machine runs static executables only".to_owned()));
    }
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(Image::read(&bytes).map(|_| path.clone()).map_err(str::to_owned))
}

/// Reads the manifest: from the executable, else from the wasm module, else from a file beside the code.
fn manifest(tools: &Tools, directory: &Path, built: &BuiltModule) -> anyhow::Result<String> {
    let section = built.artifact(ArtifactKind::Wasm).and_then(|wasm| custom_section(&wasm.bytes, MANIFEST));
    let bytes = match (section, built.artifact(ArtifactKind::Exec)) {
        (Some(section), _) => section.to_vec(),
        (None, Some(exec)) => tools.load(Command::new(fs::canonicalize(&exec.path)?).arg("--manifest"))?,
        (None, None) => {
            let path = directory.join("manifest.txt");
            fs::read(&path).with_context(|| format!("cannot read the manifest, {}", path.display()))?
        }
    };
    String::from_utf8(bytes).context("the manifest is no text")
}

fn rust(tools: &Tools, directory: &Path, wasm: &Path, exec: &Path) -> anyhow::Result<(MaybeBuilt, MaybeBuilt)> {
    let Some(cargo) = find("cargo") else {
        let missing = || Err("cargo is not installed (https://rustup.rs)".to_owned());
        return Ok((missing(), missing()));
    };
    let name = binary_name(tools, &cargo, directory)?;
    let target = directory.join("build/target");
    let cargo = |flags: &str| {
        let mut command = Command::new(&cargo);
        command.current_dir(directory).args(["build", "--release", "--quiet", "--bin", &name]);
        command.arg("--target-dir").arg(std::path::absolute(&target).unwrap_or_else(|_| target.clone()));
        let given = std::env::var("RUSTFLAGS").unwrap_or_default();
        command.env("RUSTFLAGS", format!("{given} {flags}").trim());
        command
    };
    // Static, because the code may run where there are no libraries.
    tools.run(&mut cargo("-C target-feature=+crt-static"))?;
    copy(&target.join("release").join(&name), exec)?;
    if !has_wasm_target(tools)? {
        let reason = format!("Rust lacks the target {WASM_TARGET} (rustup target add {WASM_TARGET})");
        return Ok((Err(reason), Ok(exec.to_owned())));
    }
    tools.run(cargo("").args(["--target", WASM_TARGET]))?;
    copy(&target.join(WASM_TARGET).join("release").join(format!("{name}.wasm")), wasm)?;
    Ok((Ok(wasm.to_owned()), Ok(exec.to_owned())))
}

fn has_wasm_target(tools: &Tools) -> anyhow::Result<bool> {
    let folder = tools.run(Command::new("rustc").args(["--print", "target-libdir", "--target", WASM_TARGET]));
    match folder {
        Ok(folder) => Ok(Path::new(String::from_utf8_lossy(&folder).trim()).is_dir()),
        Err(error) if error.is::<Stopped>() => Err(error),
        Err(_) => Ok(false),
    }
}

/// Returns the name of the package's binary.
fn binary_name(tools: &Tools, cargo: &Path, directory: &Path) -> anyhow::Result<String> {
    let mut command = Command::new(cargo);
    command.current_dir(directory).args(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: serde_json::Value = serde_json::from_slice(&tools.run(&mut command)?).context("cargo metadata")?;
    let targets = metadata["packages"][0]["targets"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_binary = |target: &&serde_json::Value| target["kind"][0] == "bin";
    let name = targets.iter().find(is_binary).and_then(|target| target["name"].as_str());
    name.map(str::to_owned).context("the package has no binary (src/main.rs)")
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::copy(from, to).map(drop).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))
}

/// Returns the path of a compiler from npm: the project's own, which is installed if the machine has none either.
fn npm_compiler(tools: &Tools, directory: &Path, name: &str) -> anyhow::Result<MaybeBuilt> {
    let local = directory.join("node_modules/.bin").join(name);
    if !local.exists() {
        if let Some(installed) = find(name) {
            return Ok(Ok(installed));
        }
        let Some(npm) = find("npm") else { return Ok(Err(format!("neither {name} nor npm is installed"))) };
        tools
            .run(Command::new(npm).current_dir(directory).args(["install", "--no-fund", "--no-audit"]))
            .with_context(|| format!("cannot install {name}"))?;
    }
    Ok(Ok(std::path::absolute(local)?))
}

fn assemblyscript(tools: &Tools, directory: &Path, wasm: &Path) -> anyhow::Result<MaybeBuilt> {
    let compiler = match npm_compiler(tools, directory, "asc")? {
        Ok(compiler) => compiler,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut command = Command::new(compiler);
    command.current_dir(directory).args(["assembly/index.ts", "-O", "--use", "abort=assembly/overtake/abort", "-o"]);
    tools.run(command.arg(std::path::absolute(wasm)?))?;
    Ok(Ok(wasm.to_owned()))
}

fn typescript(tools: &Tools, project: &Project, wasm: &Path, exec: &Path) -> anyhow::Result<(MaybeBuilt, MaybeBuilt)> {
    let directory = &*project.directory;
    let missing = |reason: String| Ok((Err(reason.clone()), Err(reason)));
    if find("node").is_none() {
        return missing("node is not installed".to_owned());
    }
    let compiler = match npm_compiler(tools, directory, "tsc")? {
        Ok(compiler) => compiler,
        Err(reason) => return missing(reason),
    };
    let folder = directory.join("build/js");
    // What an earlier version has compiled is no part of this one.
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    tools.run(Command::new(compiler).current_dir(directory))?;
    let program = typescript::joined(&folder)?;
    let exec = script(&format!("{}{program}", typescript::FIRST), exec)?;
    // A project for Node.js alone has no routine in this language.
    let is_wanted = has_language(&project.procedures, "wasm");
    Ok((typescript::wasm(tools, &program, wasm, is_wanted)?, exec))
}

/// Returns the sources in C of a folder.
fn c_sources(directory: &Path) -> anyhow::Result<Vec<OsString>> {
    let mut sources = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))? {
        let path = entry.with_context(|| format!("cannot read {}", directory.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "c") {
            sources.push(path.into_os_string());
        }
    }
    sources.sort();
    Ok(sources)
}

fn c_exec(tools: &Tools, directory: &Path, exec: &Path) -> anyhow::Result<MaybeBuilt> {
    let Some(compiler) = find("cc") else { return Ok(Err("cc is not installed".to_owned())) };
    let sources = c_sources(directory)?;
    let compile = |link: &[&str]| {
        let mut command = Command::new(&compiler);
        tools.run(command.args(["-O2", "-std=gnu11", "-o"]).arg(exec).args(&sources).args(link))
    };
    // Static, because the code may run where there are no libraries; dynamic where the machine has no static library.
    if compile(&["-static", "-s"]).is_err() {
        compile(&["-s"])?;
    }
    Ok(Ok(exec.to_owned()))
}

fn c_wasm(tools: &Tools, directory: &Path, wasm: &Path) -> anyhow::Result<MaybeBuilt> {
    let Some(mut compiler) = wasm_compiler() else {
        return Ok(Err("neither clang with wasm-ld nor zig is installed (apt install clang lld)".to_owned()));
    };
    compiler.args(["-nostdlib", "-ffreestanding", "-O2", "-std=gnu11", "-Wl,--no-entry", "-o"]).arg(wasm);
    tools.run(compiler.args(c_sources(directory)?))?;
    Ok(Ok(wasm.to_owned()))
}

/// Returns a compiler from C to WebAssembly.
fn wasm_compiler() -> Option<Command> {
    if let (Some(clang), Some(_)) = (find("clang"), find("wasm-ld")) {
        let mut command = Command::new(clang);
        command.arg("--target=wasm32");
        return Some(command);
    }
    let mut command = Command::new(find("zig")?);
    command.args(["cc", "-target", "wasm32-freestanding"]);
    Some(command)
}

/// Writes a script.
fn script(text: &str, exec: &Path) -> anyhow::Result<MaybeBuilt> {
    fs::write(exec, text).with_context(|| format!("cannot write {}", exec.display()))?;
    make_executable(exec)?;
    Ok(Ok(exec.to_owned()))
}
