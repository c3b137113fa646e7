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
    let own = names_in(&["server", "sessions", "proxy", "overtake"], "overtake_");
    let own: BTreeSet<&str> =
        own.iter().map(|name| PARTS.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name)).collect();
    let document = document("metrics.md");
    let described = table_names(&document);
    let described: BTreeSet<&str> = described.iter().map(|name| &**name).collect();
    assert_eq!(own, described);
}

/// Variants of an enum in a file, as words: `YieldPoint` is "yield point".
fn variants(file: &str, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(file)).expect(file);
    let body = text.split_once(&format!("enum {name} {{")).and_then(|(_, rest)| rest.split_once("\n}")).expect(name).0;
    let is_variant =
        |line: &&str| line.starts_with("    ") && line.as_bytes().get(4).is_some_and(u8::is_ascii_uppercase);
    let word = |line: &str| {
        let name = line.trim().split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
        let spaced = name.chars().flat_map(|letter| {
            let space = letter.is_uppercase().then_some(' ');
            space.into_iter().chain(letter.to_lowercase())
        });
        spaced.collect::<String>().trim().to_owned()
    };
    body.lines().filter(is_variant).map(word).collect()
}

/// Goal: the glossary and the code have the same words. Method: each word of the glossary occurs in product code, and each
/// member of the closed sets of the scheduler's vocabulary occurs in the glossary.
#[test]
fn the_glossary_and_the_code_have_the_same_words() {
    let glossary = document("glossary.md").to_lowercase();
    let words = glossary.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    let words: Vec<&str> = words.filter(|word| *word != "word").collect();
    assert!(50 < words.len() && words.is_sorted(), "the glossary is in order");
    let code =
        crate::tidy::sources("rs").iter().filter(|file| !file.is_test()).fold(String::new(), |mut code, file| {
            code.push_str(&file.product().to_lowercase());
            code
        });
    let is_used = |word: &&&str| [" ", "_", "-", ""].iter().any(|between| code.contains(&word.replace(' ', between)));
    let unused: Vec<&&str> = words.iter().filter(|word| !is_used(word)).collect();
    assert!(unused.is_empty(), "no code has these words of the glossary: {unused:?}");
    let sets = [
        ("crates/sched/src/policy.rs", "Policy"),
        ("crates/stage/src/class.rs", "Class"),
        ("crates/preempt/src/context.rs", "Arrival"),
        ("crates/preempt/src/delivery.rs", "Rung"),
        ("crates/preempt/src/line.rs", "Mode"),
    ];
    let said: Vec<String> = sets.iter().flat_map(|(file, name)| variants(file, name)).collect();
    assert!(15 < said.len(), "{said:?}");
    let unsaid: Vec<&String> = said.iter().filter(|word| !glossary.contains(&***word)).collect();
    assert!(unsaid.is_empty(), "the glossary does not have these words of the code: {unsaid:?}");
}

#[test]
fn headings_have_the_anchors_of_forges() {
    assert_eq!(anchor("What can leak"), "what-can-leak");
    assert_eq!(anchor("`overtake.mpl`: the limit"), "overtakempl-the-limit");
}
