//! Projects in TypeScript: all modules compiled and joined into one program for Node.js.

use anyhow::Context;
use std::fs;
use std::path::Path;

/// First line of the program.
const FIRST: &str = "#!/usr/bin/env node\n";

/// Program that requires modules from the functions in front of it.
const LOADER: &str = r#"
const LOADED = {};
function load(name) {
  const own = name.startsWith("./") && MODULES[name.slice(2)];
  if (!own) return require(name);
  if (!LOADED[name]) {
    const module = (LOADED[name] = { exports: {} });
    own(module, module.exports, load);
  }
  return LOADED[name].exports;
}
load("./main");
"#;

/// Returns one program with `main.js` and the other modules of a folder, as the compiler has written them.
///
/// # Errors
/// Fails if a file cannot be read.
pub(crate) fn joined(folder: &Path) -> anyhow::Result<String> {
    let mut modules = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry.with_context(|| format!("cannot read {}", folder.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "js") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            modules.push((name, text));
        }
    }
    modules.sort();
    Ok(program(&modules))
}

fn program(modules: &[(String, String)]) -> String {
    let functions = modules.iter().map(|(name, text)| {
        format!("MODULES[\"{name}\"] = function (module, exports, require) {{\n{}\n}};\n", text.trim_end())
    });
    let functions: String = functions.collect();
    format!("{FIRST}const MODULES = {{}};\n{functions}{LOADER}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_module_is_a_function() {
        let module = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let program = program(&[module("main", "require(\"./other\");\n"), module("other", "exports.a = 1;\n")]);
        let expected = "#!/usr/bin/env node\nconst MODULES = {};\n\
                        MODULES[\"main\"] = function (module, exports, require) {\nrequire(\"./other\");\n};\n\
                        MODULES[\"other\"] = function (module, exports, require) {\nexports.a = 1;\n};\n";
        assert_eq!(program, format!("{expected}{LOADER}"));
    }
}
