use super::*;

fn source(name: &str, text: &str) -> SourceFile {
    SourceFile { name: name.to_owned(), text: text.to_owned() }
}

const ROOT: &str =
    "//! A crate.\n//!\n//! # Layers\n//!\n//! - low: `a`,\n//!   `b`\n//! - high: `c`\n//!\n//! # More\n//! - `d`\n";

#[test]
fn layers_are_read_from_the_root_file() {
    let layers = declared(ROOT).expect("they are declared");
    assert_eq!(layers, [("low".into(), vec!["a".into(), "b".into()]), ("high".into(), vec!["c".into()])]);
    assert_eq!(declared("//! Layers\n"), None);
}

#[test]
fn every_way_to_name_a_module_is_found() {
    let text = "use crate::a::X; // crate::z\nuse crate::{b, c::{d, e},\n    f::G,\n};\nlet x = crate::h::i() + mycrate::k();\n";
    let found: Vec<String> = named_modules(text).into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, ["a", "b", "c", "f", "h"]);
}

#[test]
fn an_upward_use_is_an_offence() {
    let sources = [
        source("crates/x/src/lib.rs", ROOT),
        source("crates/x/src/a.rs", "use crate::b::B;\n"),
        source("crates/x/src/b/mod.rs", "use crate::c::C;\n"),
        source("crates/x/src/c.rs", "use crate::a::A;\n#[cfg(test)]\nmod tests {\nuse crate::c::C;\n}\n"),
        source("crates/x/src/e.rs", ""),
    ];
    let found = offences(&sources, "x");
    assert_eq!(found, ["x: `e` stands in no layer", "crates/x/src/b/mod.rs:1: `b` (low) uses `c` (high)"]);
    let (modules, uses) = uses(&sources, "x");
    assert_eq!(circles(&modules, &uses), [3]);
}
