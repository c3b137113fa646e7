//! Projects in Java: all classes joined into one file, which `java` compiles when it starts.

use anyhow::Context;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// First line of the program: at most 255 bytes, or the kernel refuses it. The library opens a descriptor that it has
/// inherited, which Java has no public way for. The other options are for little memory, a short start, and a process
/// that may write no files.
const FIRST: &str = "#!/usr/bin/env -S java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData \
                     -XX:ReservedCodeCacheSize=16m -XX:CompressedClassSpaceSize=32m -Xmx128m -Xss512k \
                     --add-opens=java.base/java.io=ALL-UNNAMED --source 17";

/// Returns one file with `Main.java` and the other classes of a folder.
///
/// # Errors
/// Fails if a file cannot be read.
pub(crate) fn joined(directory: &Path) -> anyhow::Result<String> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))? {
        let path = entry.with_context(|| format!("cannot read {}", directory.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "java") {
            let is_other = path.file_stem().is_none_or(|name| name != "Main");
            let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            texts.push((is_other, path, text));
        }
    }
    // The first class of the file is the one that runs.
    texts.sort();
    Ok(program(texts.iter().map(|(_, _, text)| &**text)))
}

/// Joins files: all imports, then all classes.
fn program<'a>(texts: impl Iterator<Item = &'a str> + Clone) -> String {
    let is_import = |line: &&str| line.starts_with("import ");
    let imports: BTreeSet<&str> = texts.clone().flat_map(str::lines).filter(is_import).collect();
    let others = texts.flat_map(str::lines).filter(|line| !is_import(line) && !line.starts_with("package "));
    let lines: Vec<&str> = std::iter::once(FIRST).chain(imports).chain(others).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_accepts_the_first_line() {
        assert!(FIRST.len() < 256);
    }

    #[test]
    fn imports_stand_before_all_classes() {
        let files = ["package a;\nimport b.C;\nclass Main {\n}", "import a.B;\nimport b.C;\nclass Other {}"];
        let expected = format!("{FIRST}\nimport a.B;\nimport b.C;\nclass Main {{\n}}\nclass Other {{}}\n");
        assert_eq!(program(files.into_iter()), expected);
    }
}
