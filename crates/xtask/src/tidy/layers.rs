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
//! A module uses modules of its own layer and of those above it in the list, never of those below it.

use super::source::SourceFile;
use std::collections::{BTreeMap, BTreeSet};

/// Uses of modules by modules in one crate: (user, used) and the places, as `path:line`.
pub(super) type Uses = BTreeMap<(String, String), Vec<String>>;

/// Returns the layers that a crate's root file declares, bottom up: name and modules. `None` if it declares none.
pub(super) fn declared(root_file: &str) -> Option<Vec<(String, Vec<String>)>> {
    let mut lines = root_file.lines().skip_while(|line| *line != "//! # Layers");
    lines.next()?;
    let mut layers: Vec<(String, Vec<String>)> = Vec::new();
    for line in lines.take_while(|line| line.starts_with("//!") && !line.starts_with("//! # ")) {
        let text = line.trim_start_matches("//!").trim();
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

/// Returns the modules that the text names by `crate::`, with the line of each.
pub(super) fn named_modules(text: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut in_group: Option<usize> = None;
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.split("//").next().unwrap_or("");
        let mut rest = code;
        while let Some(at) = rest.find("crate::") {
            let is_path =
                !rest[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_' || before == '$');
            rest = &rest[at + "crate::".len()..];
            if !is_path {
                continue;
            }
            match rest.strip_prefix('{') {
                Some(group) => {
                    in_group = Some(0);
                    rest = group;
                }
                None => found.extend(first_word(rest).map(|word| (word, number))),
            }
        }
        // Names are those at the first level of a group that may go on over several lines.
        if let Some(depth) = in_group.as_mut() {
            let mut is_first = true;
            for (at, sign) in rest.char_indices() {
                match sign {
                    '{' => *depth += 1,
                    '}' if *depth == 0 => {
                        in_group = None;
                        break;
                    }
                    '}' => *depth -= 1,
                    ',' => is_first = true,
                    _ if *depth == 0 && is_first && !sign.is_whitespace() => {
                        is_first = false;
                        found.extend(first_word(&rest[at..]).map(|word| (word, number)));
                    }
                    _ => {}
                }
            }
        }
    }
    found
}

fn first_word(text: &str) -> Option<String> {
    let end = text.find(|sign: char| !sign.is_alphanumeric() && sign != '_').unwrap_or(text.len());
    (end != 0).then(|| text[..end].to_owned())
}

/// Returns the uses of modules by modules in the product's files of one crate.
pub(super) fn uses(sources: &[SourceFile], crate_name: &str) -> (BTreeSet<String>, Uses) {
    let of_crate: Vec<&SourceFile> =
        sources.iter().filter(|source| source.crate_name() == crate_name && !source.is_test()).collect();
    let modules: BTreeSet<String> = of_crate.iter().filter_map(|source| source.module()).map(str::to_owned).collect();
    let mut uses = Uses::new();
    for source in &of_crate {
        let Some(own) = source.module() else { continue };
        for (other, line) in named_modules(source.product()) {
            if other != own && modules.contains(&other) {
                uses.entry((own.to_owned(), other)).or_default().push(format!("{}:{line}", source.name));
            }
        }
    }
    (modules, uses)
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
    let is_root = |source: &&SourceFile| {
        ["lib.rs", "main.rs"].iter().any(|root| source.name == format!("crates/{crate_name}/src/{root}"))
    };
    let Some(layers) = sources.iter().filter(is_root).find_map(|source| declared(&source.text)) else {
        return Vec::new();
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
    let (modules, uses) = uses(sources, crate_name);
    found.extend(
        modules
            .iter()
            .filter(|module| !rank.contains_key(module.as_str()))
            .map(|module| format!("{crate_name}: `{module}` stands in no layer")),
    );
    found.extend(
        rank.keys()
            .filter(|module| !modules.contains(**module))
            .map(|module| format!("{crate_name}: there is no module `{module}`")),
    );
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
