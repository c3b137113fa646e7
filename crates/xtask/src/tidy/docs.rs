//! Documents that no compiler reads: their links, and the names that they describe.

use super::root;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Returns the documents of the repository, by their paths below its root.
fn documents() -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for folder in ["", "docs", "packaging"] {
        let Ok(entries) = std::fs::read_dir(root().join(folder)) else { continue };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            if path.extension().is_some_and(|extension| extension == "md") {
                let text = std::fs::read_to_string(&path).expect("a document can be read");
                let name = path.strip_prefix(root()).expect("it is below the root").to_owned();
                found.push((name, text));
            }
        }
    }
    assert!(10 < found.len(), "documents were found");
    found
}

/// Returns the lines outside of blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            return false;
        }
        !is_code && !line.starts_with("    ")
    })
}

/// Returns the anchor of a heading, as forges and mdBook make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect::<String>().to_lowercase()
}

/// Returns the targets of the links and pictures of a document.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        for part in line.split("](").skip(1) {
            if let Some((target, _)) = part.split_once(')') {
                found.push(target.to_owned());
            }
        }
    }
    found
}

/// Returns the names in backquotes in the first columns of a document's tables.
fn table_names(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split(" | ").next());
    let names = cells.flat_map(|cell| cell.split(['`', ',', ' ', '|'])).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// Returns the words in the sources of crates that begin with this prefix and have only lower-case letters, digits and
/// underscores.
fn names_in(crates: &[&str], prefix: &str) -> BTreeSet<String> {
    let sources = super::source::sources("rs");
    let own = sources.iter().filter(|file| crates.contains(&file.crate_name()) && !file.is_test());
    own.flat_map(|file| names(file.product(), prefix)).collect()
}

fn names(text: &str, prefix: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    let found = text.match_indices(prefix).map(|(at, _)| {
        let rest = &text[at + prefix.len()..];
        let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        format!("{prefix}{}", &rest[..end])
    });
    found.collect()
}

fn document(name: &str) -> String {
    std::fs::read_to_string(root().join("docs").join(name)).expect("the document exists")
}

#[test]
fn links_lead_somewhere() {
    let all = documents();
    let mut broken = Vec::new();
    for (name, text) in &all {
        for link in links(text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, wanted) = link.split_once('#').map_or((&*link, None), |(path, anchor)| (path, Some(anchor)));
            let folder = name.parent().unwrap_or(Path::new(""));
            let target = if path.is_empty() { root().join(name) } else { root().join(folder).join(path) };
            let has_anchor = |wanted: &str| {
                let text = std::fs::read_to_string(&target).unwrap_or_default();
                prose(&text)
                    .filter_map(|line| line.trim_start_matches('#').strip_prefix(' '))
                    .any(|head| anchor(head) == wanted)
            };
            if !target.exists() || wanted.is_some_and(|wanted| !has_anchor(wanted)) {
                broken.push(format!("{}: {link}", name.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_book_has_every_page() {
    let listed: BTreeSet<String> = links(&document("SUMMARY.md")).into_iter().collect();
    let pages = documents().into_iter().filter_map(|(name, _)| {
        let page = name.strip_prefix("docs").ok()?.to_string_lossy().into_owned();
        // This page is an old address that leads to the pages that took its place.
        (page != "SUMMARY.md" && page != "operation.md").then_some(page)
    });
    assert_eq!(pages.collect::<BTreeSet<_>>(), listed);
}

#[test]
fn the_readme_is_short() {
    let text = std::fs::read_to_string(root().join("README.md")).expect("the README exists");
    assert!(text.lines().count() < 120, "{} lines", text.lines().count());
}

#[test]
fn settings_are_described() {
    let document = document("settings.md");
    let ours = names_in(&["settings"], "overtake.");
    let ours: BTreeSet<&String> = ours.iter().filter(|name| *name != "overtake.").collect();
    let missing: Vec<&&String> = ours.iter().filter(|name| !document.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "these are not in docs/settings.md: {missing:?}");
    let described = table_names(&document);
    let unknown: Vec<&String> =
        described.iter().filter(|name| name.starts_with("overtake.") && !ours.contains(name)).collect();
    assert!(unknown.is_empty(), "docs/settings.md describes what is no setting: {unknown:?}");
}

#[test]
fn metrics_are_described() {
    const PARTS: [&str; 3] = ["_bucket", "_count", "_sum"];
    let own = names_in(&["server", "sessions", "proxy"], "overtake_");
    let own: BTreeSet<&str> =
        own.iter().map(|name| PARTS.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name)).collect();
    let document = document("metrics.md");
    let described = table_names(&document);
    let described: BTreeSet<&str> = described.iter().map(|name| &**name).collect();
    assert_eq!(own, described);
}

#[test]
fn headings_have_the_anchors_of_forges() {
    assert_eq!(anchor("What can leak"), "what-can-leak");
    assert_eq!(anchor("`overtake.mpl`: the limit"), "overtakempl-the-limit");
}
