//! Projects in TypeScript: all modules compiled and joined into one program, for Node.js and for WebAssembly.

use crate::engine::engine;
use crate::sections::{MANIFEST, with_memory};
use crate::tools::{Failed, Tools};
use anyhow::Context;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// First line of the program for Node.js. A worker's program may be a file without a name, so Node.js must not look for
/// the path of what it is given.
pub(crate) const FIRST: &str = "#!/usr/bin/env -S node --preserve-symlinks-main\n";

/// Program that requires modules from the functions in front of it.
const LOADER: &str = r#"
const LOADED = {};
function requireFrom(folder) {
  return (name) => {
    if (!name.startsWith(".")) {
      if (typeof require === "undefined") throw new Error(`there is no module "${name}" in WebAssembly`);
      return require(name);
    }
    const path = [...folder];
    for (const part of name.split("/")) {
      if (part === "..") path.pop();
      else if (part !== ".") path.push(part);
    }
    const own = [path.join("/"), path.join("/").replace(/\.js$/, ""), [...path, "index"].join("/")];
    const found = own.find((one) => Object.hasOwn(MODULES, one));
    if (found === undefined) throw new Error(`the project has no module "${name}"`);
    if (!LOADED[found]) {
      const module = (LOADED[found] = { exports: {} });
      MODULES[found](module, module.exports, requireFrom(found.split("/").slice(0, -1)));
    }
    return LOADED[found].exports;
  };
}
requireFrom([])("./main");
"#;

/// First words of the error for a program that fails in the engine.
const NOT_LOADED: &str = "the code cannot be loaded in WebAssembly";

/// Program for Node.js that loads a script into the engine, and takes the engine's memory.
const LOAD: &str = include_str!("../../../sdk/typescript/engine/load.js");

/// Writes a WebAssembly module of the engine that has evaluated a program. Returns the reason if there is no engine, or
/// the program fails in it and nobody wants a module.
///
/// # Errors
/// Fails if a file cannot be read or written, if the program does not end, and if it fails and is wanted.
pub(crate) fn wasm(
    tools: &Tools,
    program: &str,
    file: &Path,
    is_wanted: bool,
) -> anyhow::Result<Result<PathBuf, String>> {
    let engine = match engine(tools)? {
        Ok(engine) => engine,
        Err(reason) => return Ok(Err(reason)),
    };
    let (script, memory) = (file.with_extension("js"), file.with_extension("memory"));
    fs::write(&script, program).with_context(|| format!("cannot write {}", script.display()))?;
    let loaded = tools.load(Command::new("node").args(["-e", LOAD]).arg(&engine).arg(&script).arg(&memory));
    let manifest = match loaded {
        Ok(manifest) => manifest,
        Err(error) if error.is::<Failed>() && !is_wanted => return Ok(Err(format!("{NOT_LOADED}: {error}"))),
        Err(error) => return Err(error.context(NOT_LOADED)),
    };
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let module = with_memory(&read(&engine)?, &read(&memory)?, (MANIFEST, &manifest));
    let module = module.with_context(|| format!("{} is no module with a memory", engine.display()))?;
    fs::remove_file(&memory).with_context(|| format!("cannot remove {}", memory.display()))?;
    fs::write(file, module).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(Ok(file.to_owned()))
}

/// Returns one program with `main.js` and the other modules of a folder and those within it, as the compiler has
/// written them.
///
/// # Errors
/// Fails if a file cannot be read.
pub(crate) fn joined(folder: &Path) -> anyhow::Result<String> {
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    let mut modules = Vec::new();
    for path in files {
        let name = path.strip_prefix(folder).unwrap_or(&path).with_extension("").to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        modules.push((name, text));
    }
    modules.sort();
    Ok(program(&modules))
}

/// Adds the scripts of a folder and those within it.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "js") {
            files.push(path);
        }
    }
    Ok(())
}

fn program(modules: &[(String, String)]) -> String {
    let functions = modules.iter().map(|(name, text)| {
        format!("MODULES[\"{name}\"] = function (module, exports, require) {{\n{}\n}};\n", text.trim_end())
    });
    let functions: String = functions.collect();
    format!("const MODULES = {{}};\n{functions}{LOADER}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_module_is_a_function() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::create_dir(folder.path().join("bank")).expect("a folder");
        for (name, text) in
            [("main.js", "require(\"./bank/a\");\n"), ("bank/a.js", "exports.a = 1;\n"), ("x.map", "no script")]
        {
            fs::write(folder.path().join(name), text).expect("a file");
        }
        let expected = "const MODULES = {};\n\
                        MODULES[\"bank/a\"] = function (module, exports, require) {\nexports.a = 1;\n};\n\
                        MODULES[\"main\"] = function (module, exports, require) {\nrequire(\"./bank/a\");\n};\n";
        assert_eq!(joined(folder.path()).expect("a program"), format!("{expected}{LOADER}"));
    }
}
