//! Source files of the workspace, as text.

use std::fs;
use std::path::{Path, PathBuf};

/// File below `crates`.
pub(crate) struct SourceFile {
    /// Path from the root of the repository.
    pub(super) name: String,
    pub(super) text: String,
}

impl SourceFile {
    /// Returns the folder below `crates`.
    pub(super) fn crate_name(&self) -> &str {
        self.name.split('/').nth(1).unwrap_or("")
    }

    /// Returns true for unit tests in a file of their own, integration tests, examples and benches.
    pub(crate) fn is_test(&self) -> bool {
        ["/tests/", "/test/", "/examples/", "/benches/"].iter().any(|part| self.name.contains(part))
            || self.name.ends_with("/tests.rs")
    }

    /// Returns the text before unit tests at its end.
    pub(crate) fn product(&self) -> &str {
        self.text.find("#[cfg(test)]\nmod tests {").map_or(&*self.text, |at| &self.text[..at])
    }

    /// Returns true for the root file of a library or binary.
    pub(super) fn is_root(&self) -> bool {
        self.name.ends_with("/src/lib.rs") || self.name.ends_with("/src/main.rs")
    }

    /// Returns the path of the file's module from the root of the crate; nothing for the root and for files elsewhere.
    pub(super) fn module_path(&self) -> Vec<&str> {
        let Some((_, below)) = self.name.split_once("/src/").filter(|_| !self.is_root()) else { return Vec::new() };
        let path = below.strip_suffix(".rs").unwrap_or(below);
        path.strip_suffix("/mod").unwrap_or(path).split('/').collect()
    }
}

/// Returns the root of the repository: tests and commands run in a package's folder or in the root itself.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(".");
    let found = if here.join("crates").is_dir() { here } else { Path::new("../..") };
    found.canonicalize().expect("the workspace exists")
}

/// Returns the files with this extension below `crates`, by name.
pub(crate) fn sources(extension: &str) -> Vec<SourceFile> {
    let root = root();
    let mut found = Vec::new();
    let mut folders = vec![root.join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of ours can be read") {
            let path = entry.expect("an entry of ours can be read").path();
            if path.is_dir() {
                if path.file_name().is_some_and(|name| name != "target") {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|is| is == extension) {
                let text = fs::read_to_string(&path).expect("a source file is text");
                let name = path.strip_prefix(&root).expect("it is below the root").to_string_lossy().into_owned();
                found.push(SourceFile { name, text });
            }
        }
    }
    assert!(!found.is_empty(), "no .{extension} files below {}", root.display());
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}
