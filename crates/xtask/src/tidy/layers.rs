//! Layers inside a crate: the modules that a module may use.
//!
//! A `lib.rs` or `main.rs` declares them under the heading `# Layers`, bottom up, one list item a layer:
//!
//! ```text
//! //! # Layers
//! //!
//! //! - values: `error`, `datum`, `types`
//! //! - syntax: `parse`, `place`
//! ```
//!
//! A module uses modules of its own layer and of those above it in the list, never of those below it. An entry such as
//! `frozen::block` takes that file, and what is below it, out of the entry `frozen`. A name that a module imports from
//! another one counts as the other one's.

use super::source::SourceFile;
use std::collections::{BTreeMap, BTreeSet};

/// Uses of modules by modules in one crate: (user, used) and the places, as `path:line`.
pub(super) type Uses = BTreeMap<(String, String), Vec<String>>;

/// Crates with more modules than this must declare their layers.
const MODULES_WITHOUT_LAYERS_MAX: usize = 5;
/// Longest chain of imports that is followed from a name to its item.
const IMPORTS_MAX: usize = 8;

/// Returns the layers that a crate's root file declares, bottom up: name and modules. `None` if it declares none.
pub(super) fn declared(root_file: &str) -> Option<Vec<(String, Vec<String>)>> {
    let mut lines = root_file.lines().skip_while(|line| *line != "//! # Layers");
    lines.next()?;
    let mut layers: Vec<(String, Vec<String>)> = Vec::new();
    for line in lines.take_while(|line| line.starts_with("//!") && !line.starts_with("//! # ")) {
        let text = line.trim_start_matches("//!").trim();
        // Text behind the list says why.
        if text.is_empty() && !layers.is_empty() {
            break;
        }
        let rest = match text.strip_prefix("- ").and_then(|item| item.split_once(':')) {
            Some((name, rest)) => {
                layers.push((name.to_owned(), Vec::new()));
                rest
            }
            None => text,
        };
        if let Some((_, modules)) = layers.last_mut() {
            modules.extend(rest.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    Some(layers)
}

/// Path in the text of a module, from the root of the crate.
#[derive(Debug, PartialEq)]
pub(super) struct NamedPath {
    pub(super) segments: Vec<String>,
    /// Last segment, or the name that `as` gives it.
    alias: String,
    pub(super) line: usize,
}

/// Returns the paths by which the text of a module names items of its crate: those that begin with `crate`, `super`,
/// `self`, or a module directly below it.
pub(super) fn named_paths(text: &str, module: &[&str], below: &BTreeSet<&str>) -> Vec<NamedPath> {
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
    let code = code.join("\n");
    let is_start = |at: usize, word: &str| {
        let is_inside = |before: char| before.is_alphanumeric() || "_$:".contains(before);
        code[at + word.len()..].starts_with("::")
            && !code[..at].ends_with(is_inside)
            && (["crate", "super", "self"].contains(&word) || below.contains(word))
    };
    let mut found = Vec::new();
    for (at, _) in code.match_indices("::") {
        let is_word = |sign: char| sign.is_alphanumeric() || sign == '_';
        let word = code[..at].rsplit(|sign: char| !is_word(sign)).next().unwrap_or("");
        let start = at - word.len();
        if !is_start(start, word) {
            continue;
        }
        let before = found.len();
        let line = 1 + code[..start].matches('\n').count();
        UseTree { text: &code[start..], line }.read(Vec::new(), &mut found);
        for path in &mut found[before..] {
            path.segments = from_root(std::mem::take(&mut path.segments), module);
        }
    }
    found
}

/// Returns the path from the root of the crate of one that stands in a module.
fn from_root(segments: Vec<String>, module: &[&str]) -> Vec<String> {
    let mut from: Vec<String> = match segments.first().map(String::as_str) {
        Some("crate") => Vec::new(),
        _ => module.iter().map(|&name| name.to_owned()).collect(),
    };
    for segment in segments {
        match segment.as_str() {
            "crate" | "self" | "*" => {}
            "super" => {
                from.pop();
            }
            _ => from.push(segment),
        }
    }
    from
}

/// Tree of a `use`, or a path, that is being read.
struct UseTree<'t> {
    text: &'t str,
    line: usize,
}

impl<'t> UseTree<'t> {
    /// Reads one path, or a group of them in braces, behind the segments before it.
    fn read(&mut self, mut segments: Vec<String>, found: &mut Vec<NamedPath>) {
        loop {
            self.skip_space();
            if self.skip("{") {
                while !self.skip("}") {
                    let left = self.text.len();
                    self.read(segments.clone(), found);
                    self.skip_space();
                    self.skip(",");
                    self.skip_space();
                    if self.text.len() == left {
                        return;
                    }
                }
                return;
            }
            let Some(word) = self.word() else { return };
            segments.push(word.to_owned());
            if !self.skip("::") {
                let line = self.line;
                let alias = if self.skip(" as ") { self.word() } else { None }.unwrap_or(word).to_owned();
                return found.push(NamedPath { segments, alias, line });
            }
            // What follows is no path: `crate::x::<T>`, `"crate::"`.
            let goes_on = |sign: char| sign.is_alphanumeric() || sign.is_whitespace() || "_{*".contains(sign);
            if !self.text.starts_with(goes_on) {
                let alias = word.to_owned();
                return found.push(NamedPath { segments, alias, line: self.line });
            }
        }
    }

    fn skip(&mut self, text: &str) -> bool {
        let rest = self.text.strip_prefix(text);
        self.text = rest.unwrap_or(self.text);
        rest.is_some()
    }

    fn skip_space(&mut self) {
        let rest = self.text.trim_start();
        self.line += self.text[..self.text.len() - rest.len()].matches('\n').count();
        self.text = rest;
    }

    fn word(&mut self) -> Option<&'t str> {
        if self.skip("*") {
            return Some("*");
        }
        let end = self.text.find(|sign: char| !sign.is_alphanumeric() && sign != '_').unwrap_or(self.text.len());
        let (word, rest) = self.text.split_at(end);
        self.text = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// Product's files of one crate.
fn product_of<'s>(sources: &'s [SourceFile], crate_name: &str) -> Vec<&'s SourceFile> {
    sources.iter().filter(|source| source.crate_name() == crate_name && !source.is_test()).collect()
}

/// Modules of one crate, and what each of them imports.
struct ModuleTree<'s> {
    /// Modules directly below a module.
    below: BTreeMap<Vec<&'s str>, BTreeSet<&'s str>>,
    /// Paths that a module imports, by its path and the name they have there.
    imports: BTreeMap<Vec<&'s str>, BTreeMap<String, Vec<String>>>,
}

impl<'s> ModuleTree<'s> {
    fn of(files: &[&'s SourceFile]) -> ModuleTree<'s> {
        let mut tree = ModuleTree { below: BTreeMap::new(), imports: BTreeMap::new() };
        for path in files.iter().map(|file| file.module_path()) {
            for (length, &name) in path.iter().enumerate() {
                tree.below.entry(path[..length].to_vec()).or_default().insert(name);
            }
        }
        for file in files {
            let named = tree.paths_of(file).into_iter().map(|path| (path.alias, path.segments));
            let imports =
                named.filter(|(alias, segments)| segments.last() != Some(alias) || 1 < segments.len()).collect();
            tree.imports.insert(file.module_path(), imports);
        }
        tree
    }

    fn paths_of(&self, file: &SourceFile) -> Vec<NamedPath> {
        let module = file.module_path();
        named_paths(file.product(), &module, self.below.get(&module).unwrap_or(&BTreeSet::new()))
    }

    /// Returns the path by which a module on this path imports the rest, if one does.
    fn import_on(&self, path: &[String]) -> Option<Vec<String>> {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        let length =
            (0..names.len()).find(|&at| !self.below.get(&names[..at]).is_some_and(|of| of.contains(names[at])))?;
        let import = self.imports.get(&names[..length])?.get(names[length])?;
        Some(import.iter().chain(&path[length + 1..]).cloned().collect())
    }

    /// Returns the path of the item that a path names: one that a module imports has another one.
    fn resolved(&self, mut path: Vec<String>) -> Vec<String> {
        for _ in 0..IMPORTS_MAX {
            match self.import_on(&path) {
                Some(other) if other != path => path = other,
                _ => break,
            }
        }
        path
    }
}

/// Returns the uses of modules by modules in the product's files of one crate. `entries` are those of its layers; a
/// module that has none stands for itself.
fn uses_between(sources: &[SourceFile], crate_name: &str, entries: &BTreeSet<String>) -> (BTreeSet<String>, Uses) {
    let of_crate = product_of(sources, crate_name);
    let tree = ModuleTree::of(&of_crate);
    let is_top = |name: &str| tree.below.get(&[][..]).is_some_and(|tops| tops.contains(name));
    let entry_of = |path: &[String]| -> Option<String> {
        let declared =
            (1..=path.len()).rev().map(|length| path[..length].join("::")).find(|path| entries.contains(path));
        declared.or_else(|| path.first().filter(|top| is_top(top)).cloned())
    };
    let (mut modules, mut uses) = (BTreeSet::new(), Uses::new());
    for source in &of_crate {
        let own: Vec<String> = source.module_path().iter().map(|&name| name.to_owned()).collect();
        let Some(own) = entry_of(&own) else { continue };
        modules.insert(own.clone());
        for NamedPath { segments, line, .. } in tree.paths_of(source) {
            if let Some(other) = entry_of(&tree.resolved(segments))
                && other != own
            {
                uses.entry((own.clone(), other)).or_default().push(format!("{}:{line}", source.name));
            }
        }
    }
    (modules, uses)
}

/// Returns the modules directly below the root of one crate, and their uses of each other in the product's files.
pub(super) fn uses(sources: &[SourceFile], crate_name: &str) -> (BTreeSet<String>, Uses) {
    uses_between(sources, crate_name, &BTreeSet::new())
}

/// Returns the groups of modules that use each other in a circle, by size.
pub(super) fn circles(modules: &BTreeSet<String>, uses: &Uses) -> Vec<usize> {
    let reached = |from: &String| {
        let (mut seen, mut left) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(at) = left.pop() {
            for (_, to) in uses.keys().filter(|(user, _)| *user == at) {
                if seen.insert(to.clone()) {
                    left.push(to.clone());
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&String, BTreeSet<String>> = modules.iter().map(|module| (module, reached(module))).collect();
    let mut done = BTreeSet::new();
    let mut sizes = Vec::new();
    for module in modules {
        if done.contains(module) || !reach[module].contains(module) {
            continue;
        }
        let circle: Vec<&String> =
            modules.iter().filter(|other| reach[module].contains(*other) && reach[other].contains(module)).collect();
        sizes.push(circle.len());
        done.extend(circle.into_iter().cloned());
    }
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes
}

/// Returns the uses against the declared order, and modules that stand in no layer or in two.
pub(super) fn offences(sources: &[SourceFile], crate_name: &str) -> Vec<String> {
    let of_crate = product_of(sources, crate_name);
    let declarations = of_crate.iter().filter(|source| source.is_root()).find_map(|source| declared(&source.text));
    let Some(layers) = declarations else {
        let (modules, _) = uses(sources, crate_name);
        let is_small = modules.len() <= MODULES_WITHOUT_LAYERS_MAX;
        return if is_small {
            Vec::new()
        } else {
            vec![format!("{crate_name}: no `# Layers` of {} modules", modules.len())]
        };
    };
    let mut rank: BTreeMap<&str, usize> = BTreeMap::new();
    let mut found = Vec::new();
    for (at, (name, modules)) in layers.iter().enumerate() {
        for module in modules {
            if rank.insert(module, at).is_some() {
                found.push(format!("{crate_name}: `{module}` stands in two layers, the second is {name}"));
            }
        }
    }
    let entries: BTreeSet<String> = rank.keys().map(|&module| module.to_owned()).collect();
    let (modules, uses) = uses_between(sources, crate_name, &entries);
    found.extend(modules.difference(&entries).map(|module| format!("{crate_name}: `{module}` stands in no layer")));
    found.extend(entries.difference(&modules).map(|module| format!("{crate_name}: there is no module `{module}`")));
    for ((user, used), places) in &uses {
        if let (Some(own), Some(other)) = (rank.get(user.as_str()), rank.get(used.as_str()))
            && own < other
        {
            let (low, high) = (&layers[*own].0, &layers[*other].0);
            found.extend(places.iter().map(|place| format!("{place}: `{user}` ({low}) uses `{used}` ({high})")));
        }
    }
    found
}

#[cfg(test)]
mod tests;
