//! Projects in Python: all modules joined into one script.

use anyhow::Context;
use std::fs;
use std::path::Path;

/// Program that imports modules from the texts in front of it.
const LOADER: &str = r#"
import importlib.abc, importlib.util, sys


class _Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        return importlib.util.spec_from_loader(name, self) if name in SOURCES else None

    def exec_module(self, module):
        exec(compile(SOURCES[module.__name__], module.__name__ + ".py", "exec"), module.__dict__)


sys.meta_path.insert(0, _Loader())
exec(compile(MAIN, "main.py", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
"#;

/// Returns one script with `main.py` and the other modules of a folder.
///
/// # Errors
/// Fails if a file cannot be read.
pub(crate) fn joined(directory: &Path) -> anyhow::Result<String> {
    let mut modules = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))? {
        let path = entry.with_context(|| format!("cannot read {}", directory.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "py") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            modules.push((name, text));
        }
    }
    modules.sort();
    Ok(script(&modules))
}

fn script(modules: &[(String, String)]) -> String {
    let mut script = "#!/usr/bin/env python3\nSOURCES = {}\nMAIN = \"\"\n".to_owned();
    for (name, text) in modules {
        let place = if name == "main" { "MAIN".to_owned() } else { format!("SOURCES[{}]", literal(name)) };
        script.push_str(&format!("{place} = {}\n", literal(text)));
    }
    script + LOADER
}

/// Returns a text as a literal of Python.
fn literal(text: &str) -> String {
    let mut literal = String::from("\"");
    for sign in text.chars() {
        match sign {
            '\n' => literal.push_str("\\n\\\n"),
            '"' | '\\' => literal.extend(['\\', sign]),
            ' '..='~' => literal.push(sign),
            other => literal.push_str(&format!("\\U{:08x}", u32::from(other))),
        }
    }
    literal + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_literals() {
        assert_eq!(literal("a\"b\\\nä\t"), "\"a\\\"b\\\\\\n\\\n\\U000000e4\\U00000009\"");
    }
}
